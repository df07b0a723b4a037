//! [`Retuner`]: gives tables other filters while they stay, when another filter was chosen, or the tree has changed so that memory is better spent elsewhere.
//!
//! ```text
//! an edit, another choice ──► what is there, which filters it has ──► model: retune ──► tables, in order ──► one of them for each step
//! ```
//!
//! It is reckoned anew whenever an edit has changed the tree ([`tamarack_model::retune`] says what, and when it is not worth it); what is left to do by an earlier reckoning is forgotten. A
//! table gets its filter from its digests, or from its file, in one step of some milliseconds; one that nobody has opened is only told what to open with, which reads nothing. Nothing of this is durable:
//! opening the database reckons anew.
//!
//! By a worker of its own, beside merges and flushes, which it never waits for. While merges are paused it pauses too: it reads as they do. A filter that cannot be read is tried again after a pause; one whose
//! digests are damaged is told as damage, and its table keeps the filter it has, or goes without if that is larger than it should be.
//!
//! **The sum of all filters** keeps to the budget, but for: half a line of each table; the filter that a step replaces, and those that lookups in progress still ask; what runs that end in a merge have until
//! their tables go; and, after an edit that took entries away or a smaller budget was chosen, what the steps that follow have not come to.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tamarack_env::{Progress, Work, Worker};
use tamarack_model::Shape;
use tamarack_model::filter::FilterChoice;
use tamarack_model::retune::{self, Aim};

use super::Scheduler;
use crate::compact::desk::Desk;
use crate::compact::filters::{Filters, Tunable};
use crate::compact::retry::PAUSE;
use crate::compact::retuning::Moment;
use crate::error::Result;
use crate::table::{FilterSettings, FilterTarget, Retuned};
use crate::tree::table_file::TableFile;
use crate::tree::version::Version;

/// Of which moment, the tree then, its shape, and the filters that are wanted.
type View = (Moment, Arc<Version>, Shape, Arc<Filters>);

/// The worker's view of it.
pub struct Retuner(Arc<Scheduler>);

impl Retuner {
    /// For the tables of that scheduler. Says at once which filters tables are to be opened with, which reads nothing as long as none is open.
    pub fn new(scheduler: &Arc<Scheduler>) -> Self {
        let this = Self(scheduler.clone());
        let (moment, version, shape, filters) = scheduler.view_of(&scheduler.desk.lock());
        let mut state = scheduler.retuning.state.lock();
        (state.of, state.list) = (Some(moment), scheduler.reckon(&version, &shape, &filters, true));
        while let Some((table, target)) = state.list.front().cloned() {
            if !matches!(scheduler.tune(&table, target), Ok(Retuned::Unchanged)) {
                break;
            }
            state.list.pop_front();
        }
        drop(state);
        this
    }
}

impl Work for Retuner {
    fn step(&self) -> Progress {
        let scheduler = &*self.0;
        if scheduler.database.health.check_running().is_err() {
            return Progress::Done;
        }
        let Some((moment, version, shape, filters)) = scheduler.view() else { return Progress::Idle };
        let mut state = scheduler.retuning.state.lock();
        if scheduler.env.now() < state.pause_until {
            return Progress::IdleUntil(state.pause_until);
        }
        if state.of != Some(moment) {
            // Another choice is not put off until no merge is in progress, which may be never.
            let is_chosen = state.settled != Some(moment.1);
            state.list = scheduler.reckon(&version, &shape, &filters, is_chosen);
            state.of = Some(moment);
        }
        drop(version);
        let Some((table, target)) = state.list.pop_front() else {
            state.settled = Some(moment.1);
            drop(state);
            scheduler.database.progress.notify();
            return Progress::Idle;
        };
        match scheduler.tune(&table, target) {
            Ok(_) => state.trouble = None,
            Err(error) => {
                tracing::warn!(%error, "a table could not get another filter; it is tried again");
                state.list.push_front((table, target));
                state.pause_until = scheduler.env.now() + PAUSE;
                state.trouble = Some(error);
                drop(state);
                scheduler.database.progress.notify();
                return Progress::More;
            }
        }
        Progress::More
    }
}

impl Scheduler {
    /// Registers the worker that retunes; may be called once.
    pub fn set_retuner(&self, worker: Arc<dyn Worker>) {
        assert!(self.retuning.worker.set(worker).is_ok(), "a scheduler has one retuner");
    }

    /// Chooses other filters, for tables that there are and for new ones, which keep digests or not.
    pub fn set_filter(&self, choice: FilterChoice, keeps_digests: bool) -> Result<()> {
        self.database.health.check_running()?;
        let filters = Arc::new(Filters::new(choice));
        self.workshop.keep_digests(keeps_digests);
        self.units.set_bits_per_entry(choice.bits_per_entry());
        self.tables.set_elastic_bits_per_entry(choice.bits_per_entry());
        {
            let mut desk = self.desk.lock();
            desk.filters = (filters, desk.filters.1 + 1);
        }
        self.retuning.wake();
        // They see to the units of elastic filters.
        self.wake();
        Ok(())
    }

    /// Waits until all tables have the filters that they are to have.
    ///
    /// # Errors
    /// [`Error::Io`] if a filter cannot be read; it is tried again. [`Error::InvalidArgument`] while merges are paused. [`Error::Stopped`] if writing has ended.
    pub fn wait_for_filters(&self) -> Result<()> {
        self.desk.lock().refuse_if_paused()?;
        self.retuning.state.lock().trouble = None;
        self.retuning.wake();
        let mut outcome = Ok(());
        self.env.wait(&self.database.progress, None, &mut || {
            let now = self.view().map(|(moment, ..)| moment);
            let is_paused = self.desk.lock().pauses > 0;
            let state = self.retuning.state.lock();
            let is_done = is_paused || now.is_some() && state.of == now && state.list.is_empty();
            let trouble = state.trouble.clone().map_or(Ok(()), Err);
            outcome = if is_done { Ok(()) } else { self.database.health.check_running().and(trouble) };
            is_done || outcome.is_err()
        });
        outcome
    }

    /// What is to be reckoned with; nothing while merges are paused, or while something has arrived that nobody has looked at: the tree may be about to grow, and then more is to come above
    /// what there is.
    fn view(&self) -> Option<View> {
        let desk = self.desk.lock();
        (desk.pauses == 0 && desk.arrivals.is_empty() && desk.ingested.is_empty()).then(|| self.view_of(&desk))
    }

    fn view_of(&self, desk: &Desk) -> View {
        let (version, (filters, choices)) = (self.manifest.version(), desk.filters.clone());
        ((version.edit_number(), choices), version, desk.shape.clone(), filters)
    }

    /// Which tables are to have other filters, in order. `is_chosen` if that follows a choice, which tables do not have yet.
    fn reckon(
        &self,
        version: &Version,
        shape: &Shape,
        filters: &Filters,
        is_chosen: bool,
    ) -> VecDeque<(Weak<TableFile>, FilterTarget)> {
        let Tunable { kind, runs, tables, asked, is_known } =
            filters.tunable(self.tree.of(version), &self.tree.lookups);
        // What elastic filters have in memory follows lookups, see `compact::units`.
        let Some(wanted) = filters.wanted(&asked) else { return VecDeque::new() };
        let at_rest = is_known && (is_chosen || self.tree.of(version).merges().is_empty());
        let steps = retune::steps(wanted, shape, &runs, at_rest);
        let target = |aim| match aim {
            Aim::Nothing => FilterTarget::Nothing,
            Aim::Stored => FilterTarget::Stored,
            Aim::Made(bits_per_entry) => {
                let kind = kind.expect("a filter that is to be made has a kind");
                FilterTarget::Of(FilterSettings { kind, bits_per_entry })
            }
        };
        steps.into_iter().map(|step| (Arc::downgrade(&tables[step.run][step.part]), target(step.aim))).collect()
    }

    /// Gives a table its filter, if there is still such a table.
    fn tune(&self, table: &Weak<TableFile>, target: FilterTarget) -> Result<Retuned> {
        let Some(table) = table.upgrade() else { return Ok(Retuned::Unchanged) };
        let known = table.digest_damage().is_some();
        let (done, bytes_read) = table.retune(target)?;
        self.counters.retune_bytes_read.add(bytes_read);
        match done {
            Retuned::Unchanged => {}
            Retuned::Loaded => self.counters.filters_loaded.add(1),
            Retuned::Rebuilt => self.counters.filters_rebuilt.add(1),
            Retuned::Dropped => self.counters.filters_dropped.add(1),
        }
        if let Some(damage) = table.digest_damage().filter(|_| !known) {
            self.database.events.noticed(&damage);
        }
        Ok(done)
    }
}
