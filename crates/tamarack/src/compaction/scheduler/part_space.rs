//! [`PartSpace`]: which parts of compactions the disk has space for.
//!
//! A part takes space of its own from its first table until its end: a table of each input, since
//! the file of an input goes when all of it has been handed over, and one of the output. Where two
//! parts meet, both need a table of each input ([`Job::temporary_bytes_of`]).
//!
//! ```text
//!   free space   ├ flushes ┼ parts that have begun ┼ a further part ─?─┤
//! ```
//!
//! The reserve has the space of one part, so one always goes on. Further ones begin where as much
//! is free, also when compactions are resumed, and those of another compaction. While space is low,
//! one part goes on at a time, the same one until it ends: what the others have taken they keep,
//! and take no more.
//!
//! A part that finds no space waits for those that have begun. So these go on, even where pacing
//! would leave them to later ([`PartSpace::choose`]): the urgent one waits for them.
//!
//! It is on the safe side: what parts have written already is counted once as taken and once as to
//! be taken. Tests: here, and `suite/reserve`.

use crate::compaction::job::Job;
use crate::compaction::jobs::Jobs;
use crate::write::Reserve;

/// Disk space for the parts of compactions.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartSpace {
    /// Little: one part of this compaction at a time.
    OneOf(Option<u64>),
    /// So many bytes for further parts.
    Left(u64),
}

/// An amount with what estimates leave out: whole pages of a file system, filters and digests,
/// edits of the manifest.
pub(super) fn with_margin(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 4)
}

impl PartSpace {
    /// Returns the space for the parts of these jobs, of which some `go_on`. Queries the free space
    /// where some have begun and others wait.
    pub(super) fn of(reserve: &Reserve, jobs: &Jobs, goes_on: impl Fn(&Job) -> bool) -> Self {
        let compactions = || jobs.compactions().filter(|job| goes_on(job));
        if reserve.is_low() {
            let begun = compactions().find(|job| job.begun() > 0);
            return Self::OneOf(begun.or_else(|| compactions().next()).map(|job| job.number));
        }
        if compactions().all(|job| job.begun() == 0) || !compactions().any(Job::has_parts_to_begin) {
            return Self::Left(u64::MAX);
        }
        let of_parts: u64 = compactions().map(|job| job.temporary_bytes_of(job.begun())).sum();
        // Flushes that are merged with a run take more than the reserve's part for flushes has.
        let of_flushes: u64 = jobs.iter().filter(|job| job.is_flush()).map(|job| job.left).sum();
        Self::Left(reserve.free_beside_flushes().saturating_sub(with_margin(of_parts.saturating_add(of_flushes))))
    }

    /// Returns the index of the part of a job to be carried out next, by at most `threads` workers.
    pub(super) fn next_part(self, job: &Job, threads: usize) -> Option<usize> {
        match self {
            _ if job.is_flush() => job.next_part(threads, true),
            Self::OneOf(first) => job.next_part(usize::from(first == Some(job.number)), true),
            Self::Left(bytes) => {
                let further = job.temporary_bytes_of(job.begun() + 1) - job.temporary_bytes_of(job.begun());
                job.next_part(threads, bytes >= with_margin(further))
            }
        }
    }

    /// Returns true if a part of the job waits for space.
    pub(super) fn refuses(self, job: &Job, threads: usize) -> bool {
        self.next_part(job, threads).is_none() && job.next_part(threads, true).is_some()
    }

    /// Returns the job to continue: the first one in `order` that `may_go_on`. If there is none and
    /// one in the order waits for space, the one that has the space.
    pub(super) fn choose(
        self,
        jobs: &Jobs,
        order: &[usize],
        threads: usize,
        may_go_on: impl Fn(&Job) -> bool,
    ) -> Option<usize> {
        let job = |at: usize| jobs.iter().nth(at).expect("an index of a job");
        let in_order = || order.iter().copied();
        let has_space = |job: &Job| match self {
            Self::OneOf(first) => first == Some(job.number),
            Self::Left(_) => !job.is_flush() && job.begun() > 0,
        };
        let instead = || {
            let found = (0..).zip(jobs.iter()).find(|(_, job)| has_space(job) && may_go_on(job));
            found.map(|(at, _)| at).filter(|_| in_order().any(|at| self.refuses(job(at), threads)))
        };
        in_order().find(|at| may_go_on(job(*at))).or_else(instead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::jobs::tests::job;

    /// Two compactions: all parts of the first one have begun, none of the second one.
    fn two_jobs() -> Jobs {
        let mut jobs = Jobs::default();
        for number in 0..2 {
            let mut job = job(2);
            (job.number, job.temporary_bytes, job.left) = (number, 100, 1000);
            job.parts.iter_mut().for_each(|part| part.has_begun = number == 0);
            jobs.begin(job);
        }
        jobs
    }

    /// Where the one that pacing takes waits for space, the one that has the space goes on, though
    /// pacing leaves it to later; not where there is space.
    #[test]
    fn what_waits_for_space_has_others_go_on() {
        let jobs = two_jobs();
        let choose =
            |space: PartSpace, order: &[usize]| space.choose(&jobs, order, 4, |job| space.next_part(job, 4).is_some());
        assert_eq!(choose(PartSpace::Left(124), &[1]), Some(0));
        assert_eq!(choose(PartSpace::Left(125), &[1]), Some(1), "a part takes 100, and a margin");
        assert_eq!(choose(PartSpace::Left(0), &[]), None, "pacing has everybody wait");
        assert_eq!(choose(PartSpace::OneOf(Some(0)), &[1]), Some(0));
        assert_eq!(choose(PartSpace::OneOf(Some(1)), &[0, 1]), Some(1));
    }
}
