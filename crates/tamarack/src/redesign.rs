//! [`Redesign`]: changes of the design of a tree in use, for users and for the
//! [controller](crate::controller).
//!
//! The shape, the memtables' size, and what is reserved for them change together, one change at a
//! time; each is one durable edit.

use std::sync::Arc;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::{Auto, Policy};

use crate::compaction::Scheduler;
use crate::error::Result;
use crate::memory::Account;
use crate::wal::{self, Wal};
use crate::write::{CommitQueue, Reserve};

/// The parts of an open database that a change of the design concerns.
pub(crate) struct Redesign {
    /// Locked while the policy changes: the shape, and what [`Redesign::set_memtable_bytes`] sets,
    /// change together.
    changing: Mutex<()>,
    scheduler: Arc<Scheduler>,
    commits: Arc<CommitQueue>,
    account: Arc<Account>,
    wal: Arc<Wal>,
    reserve: Arc<Reserve>,
    /// True if new tables store digests while filters are on.
    filter_digests: bool,
}

impl Redesign {
    /// Changes of a database with these parts.
    pub(crate) fn new(
        scheduler: Arc<Scheduler>,
        commits: Arc<CommitQueue>,
        account: Arc<Account>,
        wal: Arc<Wal>,
        reserve: Arc<Reserve>,
        filter_digests: bool,
    ) -> Self {
        let changing = Mutex::new(Rank::Design, ());
        Self { changing, scheduler, commits, account, wal, reserve, filter_digests }
    }

    /// Changes the policy; an automatic one that has chosen nothing begins with the present one.
    ///
    /// # Errors
    /// As [`Scheduler::set_policy`].
    pub(crate) fn set_policy(&self, policy: &Policy) -> Result<()> {
        let _changing = self.changing.lock();
        let policy = begun(policy, Some(&self.scheduler.shape().0));
        self.set_memtable_bytes(self.scheduler.set_policy(Arc::new(policy), None)?.buffer().0);
        Ok(())
    }

    /// Changes the policy within an automatic one, and the memtables' size in raw bytes. Returns
    /// false, and changes nothing, if the policy is not automatic any more.
    ///
    /// # Errors
    /// As [`Scheduler::set_policy`].
    pub(crate) fn choose(&self, policy: &Policy, memtable_bytes: u64) -> Result<bool> {
        let _changing = self.changing.lock();
        if !matches!(*self.scheduler.shape().0, Policy::Auto(_)) {
            return Ok(false);
        }
        let policy = Arc::new(Auto::beginning_with(policy).into());
        self.set_memtable_bytes(self.scheduler.set_policy(policy, Some(memtable_bytes))?.buffer().0);
        Ok(true)
    }

    /// Changes the filters.
    ///
    /// # Errors
    /// As [`Scheduler::set_filter`].
    pub(crate) fn set_filter(&self, filter: FilterChoice) -> Result<()> {
        self.scheduler.set_filter(filter, keeps_digests(filter, self.filter_digests))
    }

    /// Tells everybody whom it concerns the capacity of memtables, in raw bytes: those who fill
    /// them, and who keep memory, space on the disk and pieces of the WAL for them.
    pub(crate) fn set_memtable_bytes(&self, memtable_bytes: u64) {
        self.commits.set_memtable_bytes(memtable_bytes);
        self.account.set_memtable_bytes(memtable_bytes);
        self.wal.set_allocate_bytes(wal::reserved_bytes(memtable_bytes));
        self.reserve.set_memtable_bytes(memtable_bytes);
        self.reserve.look();
    }
}

/// The policy that a tree takes if it is asked for this one: an automatic policy that has chosen
/// nothing begins with the present one, or in a new tree with [`Auto::first`].
pub(crate) fn begun(policy: &Policy, present: Option<&Policy>) -> Policy {
    match policy {
        Policy::Auto(auto) if auto.chosen().is_none() => {
            present.map_or_else(|| Auto::beginning_with(&Auto::first()), Auto::beginning_with).into()
        }
        other => other.clone(),
    }
}

/// True if new tables store digests with this filter, where the option says `filter_digests`.
/// Without filters, none is ever built from them; a filter over the whole tree cannot be built from
/// anything else.
pub(crate) fn keeps_digests(filter: FilterChoice, filter_digests: bool) -> bool {
    match filter {
        FilterChoice::None => false,
        FilterChoice::Each { .. } => filter_digests,
        FilterChoice::Tree { .. } => true,
    }
}
