//! [`Jobs`]: the flushes and compactions in progress, in the order in which they began.
//!
//! Compactions stand in the version as well, and are found there after a crash. Flushes, and
//! compactions of a range of keys, stand only here.

use tamarack_model::planner;
use tamarack_model::{Bytes, RunId as RunName};

use crate::compaction::job::{Job, Part, Task};
use crate::format::edit::{CompactionId, RunId};
use crate::tree::occupancy::name;
use crate::tree::version::TreeVersion;

/// The jobs in progress.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    list: Vec<Job>,
    begun: u64,
}

impl Jobs {
    /// The number of the job that begins next.
    pub(super) fn next_number(&self) -> u64 {
        self.begun
    }

    /// A job begins.
    pub(super) fn begin(&mut self, job: Job) {
        assert_eq!(job.number, self.begun, "jobs are numbered in the order in which they begin");
        self.begun += 1;
        self.list.push(job);
    }

    /// A job has ended, or is given up.
    ///
    /// # Panics
    /// If there is none with this number.
    pub(super) fn end(&mut self, number: u64) -> Job {
        let at = self.list.iter().position(|job| job.number == number);
        self.list.remove(at.unwrap_or_else(|| panic!("job {number} has ended already")))
    }

    /// # Panics
    /// If there is none with this number.
    pub(super) fn get(&mut self, number: u64) -> &mut Job {
        let job = self.list.iter_mut().find(|job| job.number == number);
        job.unwrap_or_else(|| panic!("job {number} has ended, but a part of it has not"))
    }

    /// The job at this place of the list.
    pub(super) fn at(&mut self, place: usize) -> &mut Job {
        &mut self.list[place]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.list.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The jobs that are no flushes.
    pub(super) fn compactions(&self) -> impl Iterator<Item = &Job> {
        self.iter().filter(|job| !job.is_flush())
    }

    /// Whether a worker has a part of any job.
    pub(super) fn are_worked_on(&self) -> bool {
        self.iter().any(|job| job.taken > 0)
    }

    /// For each job, the plan that it carries out, by the runs as they are now. `compactions` are
    /// those of the version.
    pub(super) fn plans(
        &self,
        tree: &TreeVersion,
        compactions: &[(CompactionId, planner::CompactionPlan)],
    ) -> Vec<planner::CompactionPlan> {
        self.iter().map(|job| job.plan(tree, compactions)).collect()
    }
}

impl Job {
    pub(super) fn is_flush(&self) -> bool {
        matches!(self.task, Task::Flush { .. })
    }

    fn plan(
        &self,
        tree: &TreeVersion,
        compactions: &[(CompactionId, planner::CompactionPlan)],
    ) -> planner::CompactionPlan {
        let left = |inputs: &[RunId]| -> Vec<RunName> {
            inputs.iter().filter(|run| tree.run(**run).is_some()).map(|run| name(*run)).collect()
        };
        let level = |run: Option<&RunId>| run.and_then(|run| tree.run(*run)).map_or(1, |(_, level, _)| level as usize);
        let (inputs, buffer, target) = match &self.task {
            Task::Flush { immutable, input } => {
                (left(input.as_slice()), Bytes(immutable.memtable.raw_bytes()), level(input.as_ref()))
            }
            Task::Range { inputs } => (left(inputs), Bytes::ZERO, level(inputs.last())),
            Task::Compaction { id } => {
                let found = compactions.iter().find(|(other, _)| other == id);
                let (_, plan) = found.unwrap_or_else(|| panic!("{id:?} is carried out, but is not in progress"));
                (plan.inputs.clone(), plan.buffer, plan.target)
            }
        };
        planner::CompactionPlan { cause: self.cause, inputs, buffer, target }
    }

    /// Takes a part to work on. Of those that have begun there are at most `open_max`, since each
    /// needs space for a table of each input; they take turns.
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

/// The level that a compaction in progress leads to.
pub(super) fn target_of(tree: &TreeVersion, merge: CompactionId) -> usize {
    let found = tree.compactions().iter().find(|other| other.id == merge);
    let found = found.and_then(|merge| tree.run(merge.output)).map(|(_, level, _)| level as usize);
    found.unwrap_or_else(|| panic!("{merge:?} is being carried out, but is not in progress"))
}
