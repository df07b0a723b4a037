//! Reshape: how the tree takes another shape, by an edit that moves nothing as data arrives from
//! then on, or at once for whoever asks for that; and what it will cost.
//!
//! ```text
//! set_policy ──► take_shape: one edit, runs get other levels ──► arrivals carry the tree over
//!                                                           └──► reshape: every level, small to large; waits
//! ```
//!
//! Which level is looked at next, and what it needs, the agenda decides. A level whose runs are in
//! other compactions is waited for; beside it, everything else goes on. It is not durable: what has
//! not begun when the process ends is left to arrivals.

use std::sync::Arc;

use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::Policy;
use tamarack_model::simulate::{self, Change as Foreseen};
use tamarack_model::{Bytes, Shape};

use super::Scheduler;
use crate::compaction::edits;
use crate::compaction::schedule::Schedule;
use crate::database::Activity;
use crate::error::{Error, Result};
use crate::format::edit::{Change, ShapeBlob};
use crate::format::shape::TreeDesign;
use crate::tree::design;
use crate::tree::occupancy::RunContents;

/// For more buffers than this, a simulation takes more than some seconds.
const BUFFERS_MAX: u64 = 1 << 20;

/// What a change of policy will cost, reckoned before it:
/// [`Db::estimate_reshape`](crate::Db::estimate_reshape). Raw bytes, before compression, that
/// flushes and merges write while so much arrives; the tree then has no merge left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReshapeEstimate {
    /// The words of the policy that the tree has.
    pub policy_before: String,
    /// Those of the one it would be given.
    pub policy: String,
    /// Raw bytes that the estimate takes to be flushed from now on, what is in buffers included.
    pub arriving_bytes: u64,
    /// What is written for them if the policy stays.
    pub kept_bytes: u64,
    /// The same after [`Db::set_policy`](crate::Db::set_policy): merges that arrivals call for
    /// carry the tree over.
    pub lazily_bytes: u64,
    /// The same if [`Db::reshape`](crate::Db::reshape) follows that at once.
    pub at_once_bytes: u64,
    /// Of that: what `reshape` writes by itself, before anything else arrives. At most all that the
    /// tree holds.
    pub reshape_bytes: u64,
}

impl ReshapeEstimate {
    /// Bytes that are written more because of the change if it is made lazily; below 0 if it spares
    /// more than it costs.
    pub fn extra_lazily_bytes(&self) -> i64 {
        difference(self.lazily_bytes, self.kept_bytes)
    }

    /// The same if it is made at once.
    pub fn extra_at_once_bytes(&self) -> i64 {
        difference(self.at_once_bytes, self.kept_bytes)
    }
}

fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}

impl Scheduler {
    /// What a change to that policy will cost while so many raw bytes arrive. Changes nothing.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the policy's buffer is too large for this database, or more
    /// than a million buffers would arrive.
    pub fn estimate_reshape(&self, policy: &dyn Policy, arriving: Bytes) -> Result<ReshapeEstimate> {
        let (from, (shape, occupancy, in_progress), left): (_, _, u64) = {
            let schedule = self.schedule.lock();
            let left = schedule.jobs.compactions().map(|job| job.left).sum();
            (schedule.policy().clone(), self.standing_at(&schedule), left)
        };
        // Merges in progress are carried to their end whatever the policy.
        let occupancy = simulate::ended(occupancy, &in_progress);
        let is_kept = policy.to_string() == from.to_string();
        let new_shape = if is_kept { shape.clone() } else { self.shape_for(policy, occupancy.bytes())? };
        let most = Bytes(shape.buffer().min(new_shape.buffer()).0.saturating_mul(BUFFERS_MAX));
        if arriving > most {
            let what = format!("what a change costs is reckoned for at most {most} to be written, not for {arriving}");
            return Err(Error::InvalidArgument(what));
        }
        let flushes = |shape: &Shape| flushes(arriving, shape.buffer());
        let (now, then) = ((&*from, &shape), (policy, &new_shape));
        let foreseen = simulate::change(now, then, &occupancy, self.settings.space_bound, flushes);
        let Foreseen { kept, lazily, at_once, reshaped } = foreseen;
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

    /// Gives the tree the shape of another policy. Moves no bytes: the tree is carried over as it
    /// is written to.
    ///
    /// # Errors
    /// As [`Manifest::commit`](crate::tree::manifest::Manifest::commit).
    pub fn set_policy(&self, policy: Arc<dyn Policy>) -> Result<Shape> {
        let mut schedule = self.schedule.lock();
        self.database.health.check_running()?;
        let data = self.tree.of(&self.manifest.version()).occupancy().bytes();
        let shape = self.shape_for(&*policy, data)?;
        self.take_shape(&mut schedule, policy, shape.clone()).inspect_err(|error| {
            if let Error::Stopped { .. } = error {
                self.database.health.report_stop(error.clone());
            }
        })?;
        Ok(shape)
    }

    /// Chooses other filters for the tree's tables, old and new ones, which keep digests or not,
    /// and
    /// records that.
    ///
    /// # Errors
    /// As [`Manifest::commit`](crate::tree::manifest::Manifest::commit).
    pub fn set_filter(&self, filter: FilterChoice, keeps_digests: bool) -> Result<()> {
        let schedule = self.schedule.lock();
        self.database.health.check_running()?;
        if filter != self.filters.chosen() {
            let shape = self.design(schedule.policy().clone(), schedule.shape().clone(), filter);
            let set = Change::ShapeSet { tree: self.tree.id(), shape };
            self.install(vec![set], Activity::Compaction).inspect_err(|error| {
                if let Error::Stopped { .. } = error {
                    self.database.health.report_stop(error.clone());
                }
            })?;
        }
        self.filters.choose(filter, keeps_digests)
    }

    /// A design, to be recorded.
    fn design(&self, policy: Arc<dyn Policy>, shape: Shape, filter: FilterChoice) -> ShapeBlob {
        TreeDesign { policy, filter, space_bound: self.settings.space_bound, shape }.encode()
    }

    /// Has every level take the form of the tree's shape now, and waits for that.
    ///
    /// # Errors
    /// As [`Scheduler::merge`].
    pub fn reshape(&self) -> Result<()> {
        {
            let mut schedule = self.schedule.lock();
            schedule.refuse_if_paused()?;
            // Who asked before was told of it.
            self.database.health.clear_error(Activity::Compaction);
            schedule.agenda.request_reshape();
        }
        self.wake();
        self.wait(|schedule| {
            let version = self.manifest.version();
            let tree = self.tree.of(&version);
            let contents = RunContents::new(tree, &self.database.sequences);
            !schedule.is_reshaping((version.edit_number(), tree), &contents)
        })
    }

    /// The tree has another shape from now on.
    pub(super) fn take_shape(&self, schedule: &mut Schedule, policy: Arc<dyn Policy>, shape: Shape) -> Result<()> {
        let version = self.manifest.version();
        let blob = self.design(policy.clone(), shape.clone(), self.filters.chosen());
        self.install(edits::reshaped(self.tree.of(&version), blob, &shape), Activity::Compaction)?;
        self.counters.reshapes.add(1);
        schedule.set_design(policy, shape);
        Ok(())
    }

    fn shape_for(&self, policy: &dyn Policy, data: Bytes) -> Result<Shape> {
        design::shape_of(policy, data, self.settings.memtable_bytes, self.settings.memtable_bytes_max)
    }
}

/// Full buffers, and the rest.
fn flushes(arriving: Bytes, buffer: Bytes) -> Vec<Bytes> {
    let full = vec![buffer; (arriving.0 / buffer.0) as usize];
    let rest = Bytes(arriving.0 % buffer.0);
    full.into_iter().chain((rest > Bytes::ZERO).then_some(rest)).collect()
}
