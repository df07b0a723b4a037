//! [`Redesign`]: changes of the design of a tree in use, for users and for the
//! [controller](crate::controller).
//!
//! The shape, the sizes of memtables and blocks, and what is reserved for memtables change
//! together, one change at a time; each is one durable edit.

use std::fmt;
use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_model::Bytes;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::{Auto, Policy};

use crate::compaction::{DesignChange, Scheduler};
use crate::error::Result;
use crate::memory::Account;
use crate::mistake::{self, Mistake};
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
    /// See [`Redesign::is_filter_given`].
    is_filter_given: AtomicBool,
}

/// What the controller chooses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) policy: Policy,
    pub(crate) memtable_bytes: u64,
    pub(crate) filter: FilterChoice,
    /// The size of blocks of new tables.
    pub(crate) block_bytes: usize,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, memtables of {}", self.policy, self.filter, Bytes(self.memtable_bytes))
    }
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
        let is_filter_given = AtomicBool::new(false);
        Self { changing, scheduler, commits, account, wal, reserve, filter_digests, is_filter_given }
    }

    /// Changes the policy; an automatic one that has chosen nothing begins with the present one.
    /// With any other policy, new tables have blocks of the options' size again.
    ///
    /// # Errors
    /// As [`Scheduler::set_design`].
    pub(crate) fn set_policy(&self, policy: &Policy) -> Result<()> {
        let _changing = self.changing.lock();
        let policy = begun(policy, Some(&self.scheduler.shape().0));
        let block_bytes = matches!(policy, Policy::Auto(_)).then(|| self.scheduler.block_bytes());
        let policy = Arc::new(policy);
        let shape =
            self.scheduler.set_design(DesignChange { policy, memtable_bytes: None, block_bytes, decision: None })?;
        self.set_memtable_bytes(shape.buffer().0);
        Ok(())
    }

    /// Changes the design of a tree with an automatic policy from one to another, and records the
    /// decision in one edit with the first step of the change. Returns false, and changes nothing,
    /// if the tree has not the first design any more, because a user has changed it.
    ///
    /// # Errors
    /// As [`Scheduler::set_design`] and [`Scheduler::set_filter`]. The policy may have changed
    /// then, and the filters not; the decision is recorded with the policy.
    pub(crate) fn choose(&self, from: &Chosen, to: &Chosen, decision: &str) -> Result<bool> {
        let _changing = self.changing.lock();
        if self.present().as_ref() != Some(from) {
            return Ok(false);
        }
        self.change(from, to, decision).map(|()| true)
    }

    /// The design of the tree, if its policy is automatic.
    pub(crate) fn present(&self) -> Option<Chosen> {
        let (policy, shape) = self.scheduler.shape();
        let Policy::Auto(auto) = &*policy else { return None };
        let policy = auto.chosen().expect("a tree's automatic policy has chosen one").clone();
        let (filter, block_bytes) = (self.scheduler.filters().chosen(), self.scheduler.block_bytes());
        Some(Chosen { policy, memtable_bytes: shape.buffer().0, filter, block_bytes })
    }

    fn change(&self, from: &Chosen, to: &Chosen, decision: &str) -> Result<()> {
        let mut decision = Some(decision);
        let has_other_blocks = to.block_bytes != from.block_bytes;
        if has_other_blocks || (&to.policy, to.memtable_bytes) != (&from.policy, from.memtable_bytes) {
            if mistake::is_planted(Mistake::MemtableResizedEarly) {
                self.set_memtable_bytes(to.memtable_bytes);
            }
            let policy = Arc::new(Auto::beginning_with(&to.policy).into());
            let (memtable_bytes, block_bytes) = (Some(to.memtable_bytes), Some(to.block_bytes));
            let change = DesignChange { policy, memtable_bytes, block_bytes, decision: decision.take() };
            let shape = self.scheduler.set_design(change)?;
            self.set_memtable_bytes(shape.buffer().0);
            if has_other_blocks {
                // Or a tree that is only read would gain nothing. It leaves nothing to reshape.
                self.scheduler.request_rewrite();
            }
            self.scheduler.request_reshape();
        }
        if to.filter != from.filter {
            // Digests stay even where there are no filters: others may be chosen later.
            let keeps_digests = self.filter_digests || keeps_digests(to.filter, false);
            self.scheduler.set_filter(to.filter, keeps_digests, decision)?;
        }
        Ok(())
    }

    /// Changes the filters. The controller leaves them alone from now on.
    ///
    /// # Errors
    /// As [`Scheduler::set_filter`].
    pub(crate) fn set_filter(&self, filter: FilterChoice) -> Result<()> {
        let _changing = self.changing.lock();
        self.scheduler.set_filter(filter, keeps_digests(filter, self.filter_digests), None)?;
        self.is_filter_given.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// True if a user has set the filters since opening.
    pub(crate) fn is_filter_given(&self) -> bool {
        self.is_filter_given.load(Ordering::Relaxed)
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
