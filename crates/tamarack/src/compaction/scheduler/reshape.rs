//! Changes of policy and reshape: an edit that assigns runs to the levels of another shape, after
//! which the tree takes its form as data arrives and at rest, or at once on request; and the
//! predicted cost.
//!
//! ```text
//! set_policy ──► take_shape: one edit, runs get other levels ─┬─► as data arrives, then at rest
//!                                                             └─► reshape: all levels; blocks
//! ```
//!
//! The agenda decides the next level and its compaction. A reshape waits for a level whose runs are
//! in other compactions; everything else goes on. It is not durable: what has not begun when the
//! process ends is left to arriving data, and to the tree at rest.

use std::sync::Arc;

use tamarack_env::sync::atomic::Ordering;
use tamarack_model::filter::FilterChoice;
use tamarack_model::occupancy::Occupancy;
use tamarack_model::policy::{Policy, ShapeFamily};
use tamarack_model::simulate::{self, ChangeCost as PredictedChange};
use tamarack_model::{Bytes, Shape};

use super::Scheduler;
use crate::compaction::edits;
use crate::compaction::schedule::Schedule;
use crate::database::Activity;
use crate::error::{Error, Result};
use crate::format::edit::{Change, ShapeBlob};
use crate::format::shape::TreeDesign;
use crate::mistake::{self, Mistake};
use crate::tree::design;

/// Maximum memtables of a simulation, which takes some seconds for as many.
const BUFFERS_MAX: u64 = 1 << 20;

/// Maximum decisions that are recorded, of some hundred bytes each.
const DECISIONS_MAX: usize = 8;

/// Predicted cost of a change of policy, from
/// [`Db::estimate_reshape`](crate::Db::estimate_reshape): raw bytes that flushes and compactions
/// write while data arrives, until no compaction is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReshapeEstimate {
    /// Specification of the present policy.
    pub policy_before: String,
    /// Specification of the other policy.
    pub policy: String,
    /// Raw bytes assumed to be flushed from now on, those in memtables included.
    pub arriving_bytes: u64,
    /// Bytes written with the present policy.
    pub kept_bytes: u64,
    /// Bytes written after [`Db::set_policy`](crate::Db::set_policy), with a change as data
    /// arrives.
    pub lazily_bytes: u64,
    /// Bytes written if [`Db::reshape`](crate::Db::reshape) follows it.
    pub at_once_bytes: u64,
    /// Part of [`Self::at_once_bytes`] that `reshape` itself writes, before data arrives; at most
    /// the tree's size.
    pub reshape_bytes: u64,
}

/// A change of the design of a tree, beside its filters.
#[derive(Clone, Debug)]
pub struct DesignChange<'a> {
    /// The policy from now on.
    pub policy: Arc<Policy>,
    /// The size of memtables from now on, in raw bytes, as far as policies do not have their own;
    /// `None` leaves it.
    pub memtable_bytes: Option<u64>,
    /// The size of blocks of new tables from now on, in bytes; `None` is that of the options.
    pub block_bytes: Option<usize>,
    /// The decision of the navigator that the change follows from, which is recorded with it.
    pub decision: Option<&'a str>,
}

/// What the edit of a design records, beside decisions and the bound on space.
struct NewDesign {
    policy: Arc<Policy>,
    shape: Shape,
    filter: FilterChoice,
    block_bytes: usize,
}

impl ReshapeEstimate {
    /// Returns the additional bytes written because of a change as data arrives; negative if it
    /// saves more than it costs.
    pub fn extra_lazily_bytes(&self) -> i64 {
        difference(self.lazily_bytes, self.kept_bytes)
    }

    /// Returns the additional bytes written because of a change at once.
    pub fn extra_at_once_bytes(&self) -> i64 {
        difference(self.at_once_bytes, self.kept_bytes)
    }
}

fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}

impl Scheduler {
    /// Predicts the cost of a change to `policy` while `arriving` raw bytes are written. Changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the policy's memtable is too large for this database, or more
    /// than a million memtables would arrive.
    pub fn estimate_reshape(&self, policy: &Policy, arriving: Bytes) -> Result<ReshapeEstimate> {
        let (from, (shape, occupancy, in_progress), left): (_, _, u64) = {
            let schedule = self.schedule.lock();
            let left = schedule.jobs.compactions().map(|job| job.left).sum();
            (schedule.policy().clone(), self.planner_state_of(&schedule), left)
        };
        // Compactions in progress are completed under either policy.
        let occupancy = simulate::ended(occupancy, &in_progress);
        let is_kept = *policy == *from;
        let new_shape = if is_kept { shape.clone() } else { self.shape_for(policy, occupancy.bytes())? };
        let most = Bytes(shape.buffer().min(new_shape.buffer()).0.saturating_mul(BUFFERS_MAX));
        if arriving > most {
            let what = format!("arriving bytes of {arriving}: at most {most} can be simulated (a million memtables)");
            return Err(Error::InvalidArgument(what));
        }
        let flushes = |shape: &Shape| flushes(arriving, shape.buffer());
        let (now, then): ((&dyn ShapeFamily, _), (&dyn ShapeFamily, _)) = ((&*from, &shape), (policy, &new_shape));
        let predicted = simulate::change(now, then, &occupancy, self.settings.space_bound, flushes);
        let PredictedChange { kept, lazily, at_once, reshaped } = predicted;
        Ok(ReshapeEstimate {
            policy_before: from.to_string(),
            policy: policy.to_string(),
            arriving_bytes: arriving.0,
            kept_bytes: kept.0 + left,
            lazily_bytes: lazily.0 + left,
            at_once_bytes: at_once.0 + left,
            reshape_bytes: reshaped.0,
        })
    }

    /// Changes the policy, the shape, and the size of blocks of new tables, in one edit. Moves no
    /// data: the tree takes its form as data arrives, and at rest.
    ///
    /// # Errors
    /// As [`Manifest::commit`](crate::tree::manifest::Manifest::commit).
    pub fn set_design(&self, change: DesignChange<'_>) -> Result<Shape> {
        let DesignChange { policy, memtable_bytes, block_bytes, decision } = change;
        let mut schedule = self.schedule.lock();
        self.database.health.check_running()?;
        let data = self.tree.of(&self.manifest.version()).occupancy().bytes();
        let memtable_bytes = memtable_bytes.unwrap_or(self.memtable_bytes.load(Ordering::Relaxed));
        let shape = design::shape_of(&policy, data, memtable_bytes, self.settings.memtable_bytes_max)?;
        let block_bytes = block_bytes.unwrap_or(self.output_context.block_bytes_of_options());
        self.take_design(&mut schedule, (policy, shape.clone(), block_bytes), decision)?;
        self.output_context.set_block_bytes(block_bytes);
        self.memtable_bytes.store(memtable_bytes, Ordering::Relaxed);
        // Level 1 may have runs that a tree at rest has not.
        schedule.busy_at = self.env.now();
        drop(schedule);
        self.wake();
        Ok(shape)
    }

    /// Changes and records the filters of the tree's tables, existing and new, and whether new
    /// tables store digests. A decision of the navigator is recorded with the change, if there is
    /// one.
    ///
    /// # Errors
    /// As [`Manifest::commit`](crate::tree::manifest::Manifest::commit).
    pub fn set_filter(&self, filter: FilterChoice, keeps_digests: bool, decision: Option<&str>) -> Result<()> {
        let schedule = self.schedule.lock();
        self.database.health.check_running()?;
        if filter != self.filters.chosen() {
            let (policy, shape) = (schedule.policy().clone(), schedule.shape().clone());
            let design = NewDesign { policy, shape, filter, block_bytes: self.block_bytes() };
            let edit = |shape| vec![Change::ShapeSet { tree: self.tree.id(), shape }];
            self.install_design(design, decision, edit)?;
        }
        self.filters.choose(filter, keeps_digests)
    }

    /// Returns the recorded decisions, in the order of time.
    pub fn decisions(&self) -> Vec<String> {
        self.decisions.lock().clone()
    }

    /// Installs the edit of a design, with the decision that it follows from, if it follows from
    /// one. The schedule is locked, so no other design is installed meanwhile: a decision is
    /// recorded if its edit is, and not otherwise.
    fn install_design(
        &self,
        NewDesign { policy, shape, filter, block_bytes }: NewDesign,
        decision: Option<&str>,
        edit: impl FnOnce(ShapeBlob) -> Vec<Change>,
    ) -> Result<()> {
        let before = self.decisions();
        let lines = before.iter().cloned().chain(decision.map(|decision| decision.replace('\n', " ")));
        let mut after: Vec<String> = lines.collect();
        after.drain(..after.len().saturating_sub(DECISIONS_MAX));
        let decisions = if mistake::is_planted(Mistake::DecisionRecordedLate) { before } else { after.clone() };
        let space_bound = self.settings.space_bound;
        // Where it is that of the options, it follows from them at the next opening as well.
        let is_chosen = block_bytes != self.output_context.block_bytes_of_options();
        let block_bytes = is_chosen.then_some(block_bytes as u64);
        let design = TreeDesign { policy, filter, space_bound, block_bytes, decisions, shape }.encode();
        let installed = self.install(edit(design)).map(drop);
        if installed.is_ok() || mistake::is_planted(Mistake::DecisionKeptThoughUndone) {
            *self.decisions.lock() = after;
        }
        installed
    }

    /// Brings every level into the form of the tree's shape, and blocks until that is done.
    ///
    /// # Errors
    /// As [`Scheduler::compact`].
    pub fn reshape(&self) -> Result<()> {
        {
            let mut schedule = self.schedule.lock();
            schedule.refuse_if_paused()?;
            // Earlier callers have got the error.
            self.database.health.clear_error(Activity::Compaction);
            schedule.agenda.request_reshape();
        }
        self.wake();
        self.wait(|schedule| !self.is_schedule_reshaping(schedule))
    }

    /// Has every level brought into the form of the tree's shape, in the background.
    pub fn request_reshape(&self) {
        self.schedule.lock().agenda.request_reshape();
        self.wake();
    }

    /// Has all tables rewritten in the background, into one run, so that they get blocks of the
    /// present size. Gives that up if it cannot begin because the disk has too little space.
    pub fn request_rewrite(&self) {
        self.schedule.lock().request_rewrite();
        self.wake();
    }

    /// Returns true until the requested rewrite has ended.
    pub fn is_rewriting(&self) -> bool {
        self.schedule.lock().is_rewriting()
    }

    /// Returns true if the disk has the space for all tables to be written once more, at most as
    /// large as their entries.
    pub fn has_space_to_rewrite(&self) -> bool {
        let version = self.manifest.version();
        self.reserve.spares(self.tree.of(&version).occupancy().bytes().0)
    }

    /// Has the runs of the levels down to this one compacted into one in the background, for the
    /// sake of reads. Returns false, and does nothing, if the tree is not this one any more, or
    /// something is in progress.
    pub fn compact_for_reads(&self, occupancy: &Occupancy, through: usize) -> bool {
        let mut schedule = self.schedule.lock();
        let version = self.manifest.version();
        let is_same = schedule.jobs.is_empty() && self.tree.of(&version).occupancy() == *occupancy;
        if is_same {
            schedule.agenda.compact_for_reads(through);
            drop(schedule);
            self.wake();
        }
        is_same
    }

    /// Returns true while a reshape that was asked for is going on.
    pub fn is_reshaping(&self) -> bool {
        self.is_schedule_reshaping(&mut self.schedule.lock())
    }

    fn is_schedule_reshaping(&self, schedule: &mut Schedule) -> bool {
        let version = self.manifest.version();
        let tree = self.tree.of(&version);
        let contents = self.contents(tree, self.reserve.is_low());
        schedule.is_reshaping((version.edit_number(), tree), &contents)
    }

    /// Installs another policy and shape.
    pub(super) fn take_shape(
        &self,
        schedule: &mut Schedule,
        policy: Arc<Policy>,
        shape: Shape,
        decision: Option<&str>,
    ) -> Result<()> {
        self.take_design(schedule, (policy, shape, self.block_bytes()), decision)
    }

    /// Installs another policy and shape, and records the size of blocks of new tables.
    fn take_design(
        &self,
        schedule: &mut Schedule,
        (policy, shape, block_bytes): (Arc<Policy>, Shape, usize),
        decision: Option<&str>,
    ) -> Result<()> {
        let version = self.manifest.version();
        let filter = self.filters.chosen();
        let design = NewDesign { policy: policy.clone(), shape: shape.clone(), filter, block_bytes };
        self.install_design(design, decision, |blob| edits::reshaped(self.tree.of(&version), blob, &shape))?;
        self.counters.reshapes.add(1);
        schedule.set_design(policy, shape);
        Ok(())
    }

    fn shape_for(&self, policy: &Policy, data: Bytes) -> Result<Shape> {
        let memtable_bytes = self.memtable_bytes.load(Ordering::Relaxed);
        design::shape_of(policy, data, memtable_bytes, self.settings.memtable_bytes_max)
    }
}

/// Divides arriving bytes into full memtables and a rest.
fn flushes(arriving: Bytes, buffer: Bytes) -> Vec<Bytes> {
    let full = vec![buffer; (arriving.0 / buffer.0) as usize];
    let rest = Bytes(arriving.0 % buffer.0);
    full.into_iter().chain((rest > Bytes::ZERO).then_some(rest)).collect()
}
