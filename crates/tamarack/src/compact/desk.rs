//! [`Desk`]: everything that is going on, and what the planner and the pacer make of it.
//!
//! Plain data under the scheduler's lock. Merges in progress stand in the version and here, as jobs; flushes and merges of a range of keys stand only here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tamarack_model::pace::{self, Load, Pacer};
use tamarack_model::planner;
use tamarack_model::policy::Policy;
use tamarack_model::{Bytes, Occupancy, Shape};

use crate::compact::job::{Job, Part, Task};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::edit::{KeyRange, MergeId, RunId};
use crate::format::meta::{EditNumber, TreeId};
use crate::tree::occupancy::name;
use crate::tree::version::{TreeVersion, Version};

/// Everything that is going on.
pub(super) struct Desk {
    tree: TreeId,
    pub(super) policy: Arc<dyn Policy>,
    pub(super) shape: Shape,
    pacer: Pacer,
    /// In the order in which they began.
    pub(super) jobs: Vec<Job>,
    pub(super) jobs_begun: u64,
    /// Levels at which something has arrived and that have not been examined since.
    pub(super) arrivals: VecDeque<usize>,
    /// A merge has ended, and what that means for the shape has not been carried out.
    pub(super) may_shrink: bool,
    /// The level that is to take the form of the shape next, if somebody asked for all levels to do so.
    pub(super) unshaped: Option<usize>,
    /// How many wait for that: for them it begins anew when the shape changes.
    pub(super) reshapers: usize,
    /// Runs that were ingested, and that have not been looked at since.
    pub(super) ingested: VecDeque<RunId>,
    /// Merges are neither begun nor gone on with while this is not 0.
    pub(super) pauses: usize,
    /// Who asked for something to be merged, in the order of asking.
    pub(super) requests: VecDeque<Request>,
    pub(super) requests_made: u64,
    pub(super) meter: Meter,
    /// With a limit of the merges' rate: none of them goes on before that.
    pub(super) merges_from: Duration,
    /// How many raw bytes per second merges may copy.
    merge_rate: Option<u64>,
    /// What the planner decides on, as of an edit.
    counted: Option<(EditNumber, Occupancy, Vec<planner::Merge>)>,
}

/// Somebody asked for a merge, and waits for it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) number: u64,
    /// All keys, or some.
    pub(super) range: KeyRange,
    /// The job that does it, once that has begun.
    pub(super) job: Option<u64>,
}

/// How fast jobs copy, all workers together.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Since when there has been something to do without interruption.
    since: Option<Duration>,
    bytes: u64,
    speed: Option<f64>,
    /// How many measures stand behind the speed.
    measures: u32,
}

/// What writers and workers are to do.
pub(super) struct Pace {
    /// For each job, in order: how many bytes may still come before it is due.
    pub(super) rooms: Vec<Bytes>,
    /// While writers wait, jobs with more room than this should be left alone.
    pub(super) tight: Bytes,
    /// How many raw bytes per second may come; `None` is any number.
    pub(super) rate: Option<f64>,
}

impl Desk {
    /// Nothing is going on yet.
    pub(super) fn new(tree: TreeId, policy: Arc<dyn Policy>, shape: Shape, merge_rate: Option<u64>) -> Self {
        Self {
            tree,
            policy,
            merge_rate,
            pacer: Pacer::new(&shape),
            shape,
            jobs: Vec::new(),
            jobs_begun: 0,
            // A process that ended between an arrival and its examination left level 1 as it was.
            arrivals: VecDeque::from([1]),
            may_shrink: false,
            unshaped: None,
            reshapers: 0,
            ingested: VecDeque::new(),
            pauses: 0,
            requests: VecDeque::new(),
            requests_made: 0,
            meter: Meter::default(),
            merges_from: Duration::ZERO,
            counted: None,
        }
    }

    /// The tree has another shape.
    pub(super) fn set_shape(&mut self, policy: Arc<dyn Policy>, shape: Shape) {
        self.pacer = Pacer::new(&shape);
        (self.policy, self.shape) = (policy, shape);
        if self.unshaped.is_some() || self.reshapers > 0 {
            self.unshaped = Some(1);
        }
    }

    /// Whether a merge is in progress by which a level takes the form of its shape.
    pub(super) fn is_reshaping(&self) -> bool {
        self.jobs.iter().any(|job| matches!(job.cause, planner::Cause::Reshape { .. }))
    }

    /// Whoever paused merges may be the one who is to wait for them, and would wait for ever.
    pub(super) fn refuse_if_paused(&self) -> Result<()> {
        match self.pauses {
            0 => Ok(()),
            _ => Err(Error::InvalidArgument("merges are paused; let them go on first".to_owned())),
        }
    }

    /// What the planner decides on.
    pub(super) fn counts(&mut self, version: &Version) -> (Occupancy, Vec<planner::Merge>) {
        let tree = version.expect_tree(self.tree);
        let (_, occupancy, merges) = self.count(version);
        let (occupancy, mut in_progress) = (occupancy.clone(), merges.clone());
        in_progress.extend(self.jobs.iter().filter_map(|job| {
            let (inputs, buffer) = match &job.task {
                Task::Flush { sealed, input } => (input.as_slice(), sealed.buffer.raw_bytes()),
                Task::Range { inputs } => (&**inputs, 0),
                Task::Merge { .. } => return None,
            };
            let level = inputs.last().and_then(|run| tree.run(*run)).map_or(1, |(_, level, _)| level as usize);
            let inputs = inputs.iter().filter(|run| tree.run(**run).is_some()).map(|run| name(*run)).collect();
            Some(planner::Merge { cause: job.cause, inputs, buffer: Bytes(buffer), target: level })
        }));
        (occupancy, in_progress)
    }

    fn count(&mut self, version: &Version) -> &(EditNumber, Occupancy, Vec<planner::Merge>) {
        if self.counted.as_ref().is_none_or(|(edit, ..)| *edit != version.edit_number()) {
            let tree = version.expect_tree(self.tree);
            self.counted = Some((version.edit_number(), tree.occupancy(), tree.merges_in_progress()));
        }
        self.counted.as_ref().expect("just counted")
    }

    /// Deadlines, and how fast writers may go, with so many raw bytes in buffers. `goes_on` says which jobs do.
    pub(super) fn pace(
        &mut self,
        version: &Version,
        buffered: Bytes,
        buffered_max: Bytes,
        goes_on: impl Fn(&Job) -> bool,
    ) -> Pace {
        self.count(version);
        let (_, occupancy, _) = self.counted.as_ref().expect("just counted");
        let tree = version.expect_tree(self.tree);
        let paced: Vec<pace::Job> = self
            .jobs
            .iter()
            .map(|job| pace::Job {
                empties: match &job.task {
                    Task::Flush { .. } => 0,
                    Task::Merge { id } => match (job.cause, target_of(tree, *id)) {
                        (planner::Cause::Reshape { level }, target) if level == target => level,
                        (_, target) => (target - 1).max(1),
                    },
                    Task::Range { .. } => 1,
                },
                // What stands still cannot be late.
                left: if goes_on(job) { Bytes(job.left) } else { Bytes::ZERO },
            })
            .collect();
        let plan = self.pacer.plan(&Load { occupancy, buffered, buffered_max }, &paced);
        let rate = self.speed().map(|speed| speed * plan.share).filter(|rate| rate.is_finite());
        Pace { rooms: plan.rooms, tight: plan.tight, rate }
    }

    /// Jobs have copied some bytes, and it is now so late.
    pub(super) fn copied(&mut self, bytes: u64, now: Duration) {
        let least = METER_BYTES.min(self.shape.buffer().0 / METER_BUFFER_SHARE).max(1);
        self.meter.copied(bytes, least, now);
    }

    /// Raw bytes per second that jobs copy while there is something to do, within the limit; `None` if that was never measured.
    pub(super) fn speed(&self) -> Option<f64> {
        let limit = self.merge_rate.map_or(f64::INFINITY, |rate| rate as f64);
        self.meter.speed().map(|speed| speed.min(limit))
    }

    /// True if a flush is in progress.
    pub(super) fn is_flushing(&self) -> bool {
        self.jobs.iter().any(Job::is_flush)
    }

    pub(super) fn job(&mut self, number: u64) -> &mut Job {
        let job = self.jobs.iter_mut().find(|job| job.number == number);
        job.unwrap_or_else(|| panic!("job {number} has ended, but a part of it has not"))
    }

    /// Something has arrived at a level; what is in level 1 may have had to wait for it.
    pub(super) fn arrived(&mut self, level: usize) {
        for level in [level, 1] {
            if !self.arrivals.contains(&level) {
                self.arrivals.push_back(level);
            }
        }
    }

    /// The first of the requests that nobody has begun; the others wait for it.
    pub(super) fn waiting_request(&self) -> Option<&Request> {
        self.requests.iter().find(|request| request.job.is_none())
    }

    /// A run whose tombstones are due: as many writes have come since the oldest of them as the tree has entries, so that all of it could
    /// have been rewritten meanwhile. Nobody may need them any more, or merging would not rid the run of them.
    pub(super) fn tombstones_due(&self, tree: &TreeVersion, visible: Sequence, needed_from: Sequence) -> Option<RunId> {
        let entries: u64 = tree.tables().map(|table| table.meta().entries).sum();
        let is_due = |run: &&Arc<crate::tree::run::Run>| {
            let idle = tree.merge_of(run.id()).is_none() && !self.jobs.iter().any(|job| job.takes(run.id()));
            idle && run.slices().iter().any(|slice| {
                let meta = slice.table().meta();
                let age = tree.writes_since(meta.smallest_sequence, visible);
                meta.tombstones > 0 && age > entries && meta.largest_sequence <= needed_from
            })
        };
        tree.runs().find(is_due).map(|run| run.id())
    }
}

impl Job {
    pub(super) fn is_flush(&self) -> bool {
        matches!(self.task, Task::Flush { .. })
    }

    /// Whether it takes this run, though the version does not say so.
    fn takes(&self, run: RunId) -> bool {
        match &self.task {
            Task::Flush { input, .. } => *input == Some(run),
            Task::Range { inputs } => inputs.contains(&run),
            Task::Merge { .. } => false,
        }
    }

    /// Takes a part to work on. Of those that have begun there are at most `open_max`, since each needs space for a table of each input; they
    /// take turns.
    pub(super) fn take(&mut self, open_max: usize) -> Part {
        let begun = self.taken + self.parts.iter().filter(|part| part.has_begun).count();
        let is_wanted = |part: &Part| part.has_begun != (begun < open_max);
        let at = self.parts.iter().position(is_wanted).unwrap_or(0);
        self.taken += 1;
        let mut part = self.parts.remove(at);
        part.has_begun = true;
        part
    }

    /// Gives a part back that was taken.
    pub(super) fn put_back(&mut self, part: Part) {
        self.taken -= 1;
        self.parts.push(part);
    }
}

impl Meter {
    /// Some bytes were copied, and it is now so late. Fewer bytes than `least` are no measure yet.
    fn copied(&mut self, bytes: u64, least: u64, now: Duration) {
        let since = *self.since.get_or_insert(now);
        self.bytes += bytes;
        let time = now.saturating_sub(since);
        // The first step is a measure by itself: until then writers are let in at will, and may fill all buffers.
        let window = if self.speed.is_none() { Duration::from_nanos(1) } else { METER_WINDOW };
        if time >= window && self.bytes >= least {
            let speed = self.bytes as f64 / time.as_secs_f64();
            self.measures = METER_MEASURES.min(self.measures + 1);
            let weight = 1.0 / f64::from(self.measures);
            self.speed = Some(self.speed.map_or(speed, |before| before + (speed - before) * weight));
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// A worker finds something to do, or nothing.
    pub(super) fn look(&mut self, is_busy: bool, now: Duration) {
        if !is_busy {
            (self.since, self.bytes) = (None, 0);
        } else if self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Raw bytes per second, if it was ever measured.
    pub(super) fn speed(&self) -> Option<f64> {
        self.speed
    }
}

/// How many bytes must have been copied before the measure counts, or a share of a buffer if that is less: where it is fewer, the time is that of syncs.
const METER_BYTES: u64 = 64 << 10;
const METER_BUFFER_SHARE: u64 = 8;

/// How long it is measured before the measure counts: several steps.
const METER_WINDOW: Duration = Duration::from_millis(40);

/// A new measure counts as one in so many, once there are as many.
const METER_MEASURES: u32 = 8;

/// The level that a merge in progress leads to.
pub(super) fn target_of(tree: &TreeVersion, merge: MergeId) -> usize {
    let found = tree.merges().iter().find(|other| other.id == merge);
    let found = found.and_then(|merge| tree.run(merge.output)).map(|(_, level, _)| level as usize);
    found.unwrap_or_else(|| panic!("{merge:?} is being carried out, but is not in progress"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers are held to what was measured, so what takes time but copies nothing must not be taken for a speed: it would stop them.
    #[test]
    fn syncs_alone_are_no_speed() {
        let at = Duration::from_millis;
        let mut meter = Meter::default();
        meter.look(true, at(0));
        meter.copied(0, 1000, at(50));
        meter.copied(100, 1000, at(100));
        assert_eq!(meter.speed(), None);
        meter.look(false, at(100));
        meter.look(true, at(200));
        meter.copied(1 << 20, 1000, at(300));
        assert_eq!(meter.speed(), Some(f64::from(10 << 20)), "what came before somebody rested does not count");
        meter.copied(0, 1000, at(500));
        assert_eq!(meter.speed(), Some(f64::from(10 << 20)));
    }
}
