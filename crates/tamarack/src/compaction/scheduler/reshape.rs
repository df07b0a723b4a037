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
use crate::tree::design;
use crate::tree::occupancy::RunContents;

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

    /// Changes the policy and the shape. Moves no data: the tree takes its form as data arrives,
    /// and at rest. `memtable_bytes` is the size of memtables from now on, in raw bytes, as far as
    /// policies do not have their own; `None` leaves it.
    ///
    /// # Errors
    /// As [`Manifest::commit`](crate::tree::manifest::Manifest::commit).
    pub fn set_policy(&self, policy: Arc<Policy>, memtable_bytes: Option<u64>) -> Result<Shape> {
        let mut schedule = self.schedule.lock();
        self.database.health.check_running()?;
        let data = self.tree.of(&self.manifest.version()).occupancy().bytes();
        let memtable_bytes = memtable_bytes.unwrap_or(self.memtable_bytes.load(Ordering::Relaxed));
        let shape = design::shape_of(&policy, data, memtable_bytes, self.settings.memtable_bytes_max)?;
        self.take_shape(&mut schedule, policy, shape.clone())?;
        self.memtable_bytes.store(memtable_bytes, Ordering::Relaxed);
        // Level 1 may have runs that a tree at rest has not.
        schedule.busy_at = self.env.now();
        drop(schedule);
        self.wake();
        Ok(shape)
    }

    /// Changes and records the filters of the tree's tables, existing and new, and whether new
    /// tables store digests.
    ///
    /// # Errors
    /// As [`Manifest::commit`](crate::tree::manifest::Manifest::commit).
    pub fn set_filter(&self, filter: FilterChoice, keeps_digests: bool) -> Result<()> {
        let schedule = self.schedule.lock();
        self.database.health.check_running()?;
        if filter != self.filters.chosen() {
            let shape = self.design(schedule.policy().clone(), schedule.shape().clone(), filter);
            let set = Change::ShapeSet { tree: self.tree.id(), shape };
            self.install(vec![set])?;
        }
        self.filters.choose(filter, keeps_digests)
    }

    /// Adds a decision of the navigator to those that are recorded with the design, from its next
    /// change on.
    pub fn note_decision(&self, words: String) {
        let mut decisions = self.decisions.lock();
        decisions.push(words.replace('\n', " "));
        let many = decisions.len().saturating_sub(DECISIONS_MAX);
        decisions.drain(..many);
    }

    /// Takes back the last decision, which was not carried out.
    pub fn forget_decision(&self) {
        self.decisions.lock().pop();
    }

    /// Returns the recorded decisions, in the order of time.
    pub fn decisions(&self) -> Vec<String> {
        self.decisions.lock().clone()
    }

    /// Encodes a design.
    fn design(&self, policy: Arc<Policy>, shape: Shape, filter: FilterChoice) -> ShapeBlob {
        let (space_bound, decisions) = (self.settings.space_bound, self.decisions.lock().clone());
        TreeDesign { policy, filter, space_bound, decisions, shape }.encode()
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

    /// Returns true while a reshape that was asked for is going on.
    pub fn is_reshaping(&self) -> bool {
        self.is_schedule_reshaping(&mut self.schedule.lock())
    }

    fn is_schedule_reshaping(&self, schedule: &mut Schedule) -> bool {
        let version = self.manifest.version();
        let tree = self.tree.of(&version);
        let contents = RunContents::new(tree, &self.database.sequences, self.reserve.is_low());
        schedule.is_reshaping((version.edit_number(), tree), &contents)
    }

    /// Installs another policy and shape.
    pub(super) fn take_shape(&self, schedule: &mut Schedule, policy: Arc<Policy>, shape: Shape) -> Result<()> {
        let version = self.manifest.version();
        let blob = self.design(policy.clone(), shape.clone(), self.filters.chosen());
        self.install(edits::reshaped(self.tree.of(&version), blob, &shape))?;
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
