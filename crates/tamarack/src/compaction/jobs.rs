//! [`Jobs`]: the flushes and compactions in progress, in the order in which they began.
//!
//! Compactions are recorded in the version as well, and resumed from there after a crash. Flushes,
//! and compactions of a range of keys, are recorded only here.

use tamarack_model::Bytes;
use tamarack_model::planner;

use crate::compaction::job::{Job, JobPart};
use crate::compaction::task::Task;
use crate::format::edit::{CompactionId, RunId};
use crate::tree::version::TreeVersion;

/// The jobs in progress.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    list: Vec<Job>,
    begun: u64,
}

impl Jobs {
    /// Returns the number of the next job.
    pub(super) fn next_number(&self) -> u64 {
        self.begun
    }

    /// Adds a job.
    pub(super) fn begin(&mut self, job: Job) {
        assert_eq!(job.number, self.begun, "jobs are numbered in the order in which they begin");
        self.begun += 1;
        self.list.push(job);
    }

    /// Removes a job that has ended or is abandoned.
    ///
    /// # Panics
    /// If there is none with this number.
    pub(super) fn end(&mut self, number: u64) -> Job {
        let at = self.list.iter().position(|job| job.number == number);
        self.list.remove(at.unwrap_or_else(|| panic!("job {number} has ended already")))
    }

    /// Returns the job with this number.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn get(&mut self, number: u64) -> &mut Job {
        let job = self.list.iter_mut().find(|job| job.number == number);
        job.unwrap_or_else(|| panic!("job {number} has ended, but a part of it has not"))
    }

    /// Returns the job at this index.
    pub(super) fn at(&mut self, index: usize) -> &mut Job {
        &mut self.list[index]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.list.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the jobs that are not flushes.
    pub(super) fn compactions(&self) -> impl Iterator<Item = &Job> {
        self.iter().filter(|job| !job.is_flush())
    }

    /// Returns true if a worker is carrying out a part of any job.
    pub(super) fn are_worked_on(&self) -> bool {
        self.iter().any(|job| job.taken > 0)
    }

    /// Returns the plan of each job, with the runs as they are now. `compactions` are those of the
    /// version.
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
        let left = |inputs: &[RunId]| inputs.iter().copied().filter(|run| tree.run(*run).is_some()).collect();
        let level = |run: Option<&RunId>| run.and_then(|run| tree.run(*run)).map_or(1, |(_, level, _)| level as usize);
        let (inputs, buffer, target) = match &self.task {
            Task::Flush { immutable, input } => {
                (left(input.as_slice()), Bytes(immutable.memtable.raw_bytes()), level(input.as_ref()))
            }
            Task::Range { inputs } => (left(inputs), Bytes::ZERO, level(inputs.last())),
            Task::Compaction { id } => {
                let found = compactions.iter().find(|(other, _)| other == id);
                let (_, plan) = found.unwrap_or_else(|| panic!("{id:?} has a job, but is not in the version"));
                (plan.inputs.clone(), plan.buffer, plan.target)
            }
        };
        planner::CompactionPlan { cause: self.cause, inputs, buffer, target }
    }

    /// Returns the number of parts that have begun and not ended.
    pub(super) fn begun(&self) -> usize {
        self.taken + self.parts.iter().filter(|part| part.has_begun).count()
    }

    /// Returns the temporary space that so many of its parts take at a time, in bytes: each its
    /// own, and where two meet, a table of each input that both need. At most what is left to copy.
    pub(super) fn temporary_bytes_of(&self, parts: usize) -> u64 {
        let times = (2 * parts as u64).saturating_sub(1);
        self.temporary_bytes.saturating_mul(times).min(self.left)
    }

    /// Returns true if some part has not begun.
    pub(super) fn has_parts_to_begin(&self) -> bool {
        self.parts.iter().any(|part| !part.has_begun)
    }

    /// Returns the index of the part to be carried out next, if a worker may take one. At most
    /// `open_max` parts are carried out at a time, and another one begins only if it `may_begin`:
    /// each takes space for a table of each input. Of parts that have begun, the last one that was
    /// put back goes on, so that with an `open_max` of 1 the others take no more space than they
    /// have.
    pub(super) fn next_part(&self, open_max: usize, may_begin: bool) -> Option<usize> {
        if self.taken >= open_max {
            return None;
        }
        let may_begin = may_begin && self.begun() < open_max;
        let another = self.parts.iter().position(|part| !part.has_begun).filter(|_| may_begin);
        another.or_else(|| self.parts.iter().rposition(|part| part.has_begun))
    }

    /// Takes the part at this index to carry it out.
    pub(super) fn take(&mut self, at: usize) -> JobPart {
        self.taken += 1;
        let mut part = self.parts.remove(at);
        part.has_begun = true;
        part
    }

    /// Puts back a part that was taken.
    pub(super) fn put_back(&mut self, part: JobPart) {
        self.taken -= 1;
        self.parts.push(part);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use tamarack_model::planner::Cause;

    use super::*;
    use crate::compaction::retry::Attempts;
    use crate::format::edit::KeyRange;

    pub(in crate::compaction) fn job(parts: usize) -> Job {
        let task = Task::Range { inputs: [].into() };
        let part = || JobPart::new(0, task.clone(), KeyRange::ALL, Vec::new(), 1, None);
        Job {
            number: 0,
            cause: Cause::Compact,
            request: None,
            parts: (0..parts).map(|_| part()).collect(),
            task: task.clone(),
            taken: 0,
            total: 0,
            left: 0,
            temporary_bytes: 0,
            resumed: false,
            done: Vec::new(),
            began: Duration::ZERO,
            written: 0,
            attempts: Attempts::first(Duration::ZERO),
        }
    }

    /// However many workers ask, no more parts are begun than may be, and a part that has begun is
    /// ended before the next one begins.
    #[test]
    fn no_more_parts_are_begun_than_may_be() {
        for open_max in 1..6 {
            let (mut job, mut ended) = (job(5), 0);
            while ended < 5 {
                let mut taken = Vec::new();
                while let Some(at) = job.next_part(open_max, true) {
                    taken.push(job.take(at));
                }
                assert_eq!(taken.len(), open_max.min(5 - ended), "{open_max} may be open");
                let last = taken.pop().expect("one at least may be open");
                taken.into_iter().for_each(|part| job.put_back(part));
                drop(last);
                (job.taken, ended) = (job.taken - 1, ended + 1);
            }
        }
    }

    /// Where parts have begun and only one may go on, it is the same one until it ends, whatever
    /// else waits; and none begins that may not.
    #[test]
    fn one_of_several_parts_goes_on_to_its_end() {
        let mut job = job(5);
        for _ in 0..3 {
            let at = job.next_part(3, true).expect("another may begin");
            job.parts[at].written = 100 + job.begun() as u64;
            let part = job.take(at);
            job.put_back(part);
        }
        assert_eq!((job.begun(), job.next_part(3, false).is_some()), (3, true));
        let mut ends = Vec::new();
        while job.begun() > 0 {
            let at = job.next_part(1, true).expect("one goes on");
            let name = job.parts[at].written;
            for _ in 0..3 {
                let at = job.next_part(1, true).expect("one goes on");
                let part = job.take(at);
                assert_eq!((part.written, job.next_part(1, true)), (name, None), "one at a time, and the same one");
                job.put_back(part);
            }
            let at = job.next_part(1, true).expect("one goes on");
            drop(job.take(at));
            job.taken -= 1;
            ends.push(name);
        }
        assert_eq!(ends.len(), 3, "{ends:?}");
        assert_eq!((job.parts.len(), job.next_part(3, false)), (2, None), "those left may not begin");
    }
}
