//! Pacing: which job a worker continues, and how fast writers may go meanwhile, so that compactions
//! keep up.
//!
//! Both follow from deadlines. A compaction into level t has to end before level t-1 is full again;
//! otherwise the next batch finds the active run of level t busy and becomes one run too many. A
//! flush has to end before the memtables are full. Time is measured in **bytes ingested**, not in
//! seconds, since bytes are what fills levels: a job's **slack** is the number of bytes that
//! writers may still bring before its deadline. A tree counts like an odometer, so that is the full
//! size of the emptied level, less everything in it and above it:
//!
//! ```text
//!  memtables  ▮▮▯▯            a flush              slack = ▯▯, the free memtable capacity
//!  level 1  ▭▭▭▭▭▭▭
//!  level 2  ▭▭▭▭▭▭▭▭▭▭▭▭▭     into level 3         slack = full 2 - level 2 - level 1 - memtables
//!  level 3  ▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬  (its inputs stand here since it began)
//! ```
//!
//! **Workers** take the job with the least slack: earliest deadline first, which meets all
//! deadlines if any order does (Liu and Layland 1973). Jobs proceed in steps of a few milliseconds,
//! so a huge compaction with a distant deadline never keeps workers from small ones. Two workers
//! that share one device each have half of its speed, which may be too little for the most urgent
//! job. While writers wait, workers therefore leave alone the jobs that are due later than the one
//! that bounds the share ([`PacePlan::tight`]): they help with a part of an urgent job, or rest.
//!
//! **Writers** get a share: the bytes that they may bring for each byte that jobs write. By the
//! deadline of job k, `slack_k` bytes have come, so jobs have written `slack_k / share` bytes. That
//! has to cover the rest of all jobs due until then, and the flushes and compactions into levels
//! above k's target that those bytes will cause:
//!
//! ```text
//!                         slack_k
//!   share = min  ───────────────────────          left_j: bytes that job j has still to write
//!            k   Σ left_j  +  future_k            j: jobs with slack_j ≤ slack_k
//! ```
//!
//! `future_k` has a closed form ([`cost::update`](crate::cost::update)) in terms of how full each
//! level is: a leveled level rewrites little while it is nearly empty, and much when it is nearly
//! full. With the mean instead, writers would go too fast in the first half of each cycle and
//! almost stop in the second. If everything goes as predicted, the share is constant from the
//! beginning of a job to its end.
//!
//! **The allowance.** A compaction may be late by some bytes ([`Load::late_max`]): every slack but
//! that of a flush is larger by so much. Writers in a flood go faster, and batches wait in level 1
//! or lie beside busy runs meanwhile, as runs above the slots: at most about one for each memtable
//! of the allowance. A late compaction takes several batches where a punctual one takes one, so
//! that less is written. The allowance is used up smoothly: the nearer its end, the smaller the
//! share. Writers that stay below what the tree digests never touch it.
//!
//! Nothing beyond the deadlines of present jobs is predicted, on purpose: future work cannot be
//! done ahead, so slower writers now would gain nothing for a larger compaction later.
//!
//! **Never stopped.** The share is never below the [floor](Pacer::floor), half of what the tree
//! could absorb if each batch rewrote all of its level. After any change of shape, at least half of
//! all bytes written therefore pay off debt, and a late job ends. A missed deadline costs lookups
//! one more run until the next compaction into that level. A late flush exceeds the memtable limit
//! by at most the floor's share of the bytes that the flush had left to write, which is half a
//! memtable.
//!
//! # Results
//!
//! Trees that grow to 1000 and to 3000 memtables, under writers that offer 90 % of the tree's mean
//! capacity and under writers as fast as the device. `tests/suite/pace.rs` checks these figures for
//! leveling with T = 10, tiering with T = 4 and 10, lazy leveling with T = 5, and Dostoevsky with T
//! = 10, K = 3, Z = 1, with one, two and four workers:
//!
//! | | paced | unthrottled |
//! |---|---|---|
//! | longest stall | none | 9 device times (leveling) |
//! | time at the floor | none | |
//! | extra runs below level 1 | none | 1 at 90 %; 122 at full speed (lazy leveling) |
//! | extra runs in level 1 | 1, by rule | 24 at 90 %; 251 at full speed (lazy leveling) |
//! | slowest moment at 90 % | 73 % of the offered rate | nothing |
//! | steady rate | over 95 % of the time (four workers: 80 %) | 1 % (leveling, full speed) |
//!
//! - Paced writers have 2 memtables, unthrottled ones 4 and one worker.
//! - A device time is the time in which the device writes one memtable; full speed is the device's.
//! - Extra runs are runs above the slots. Below level 1 there are none, as no compaction is late.
//! - A rate is steady if it is within 2 % of that one device time earlier.
//!
//! The largest compactions of a leveled tree are T times the smallest, and no order of work changes
//! that. While the last level is nearly full, the tree absorbs less than its mean, and 90 % of the
//! mean is too much; the difference (at most one part in 25 of all bytes written) is admitted once
//! the tree has grown. Writers at device speed reach at least 97 % of what any pace could admit
//! without a late job.
//!
//! # Results with an allowance
//!
//! Floods of 1000 memtables at the device's speed, two workers, from an empty tree on, by
//! `floods_use_the_allowance` in the same file. Rate of writers and bytes written for each byte,
//! against those without an allowance:
//!
//! | late by at most | 0 | 4 memtables | 16 memtables |
//! |---|---|---|---|
//! | leveling, T = 10 | 1; 14.6 written | 1.34; 10.2 | 1.65; 9.2 |
//! | the same, four runs in level 1 | 1; 11.6 | 1.56; 6.8 | 1.84; 6.7 |
//! | lazy leveling, T = 5 | 1; 5.0 | 1.25; 4.0 | 1.29; 4.0 |
//! | Dostoevsky, T = 10, K = 3, Z = 1 | 1; 9.5 | 1.90; 4.5 | 1.96; 4.4 |
//! | Garnering, T = 2, c = 0.8 | 1; 8.1 | 1.07; 7.3 | 1.15; 6.9 |
//! | tiering, T = 4 | 1; 4.0 | 1.01; 4.0 | 1.03; 4.0 |
//!
//! The allowance was never exceeded, no writer was stopped or at the floor, level 1 had at most one
//! run above its slots for each memtable of it, and at rest all trees took their shapes again. Only
//! where a change of shape brings deadlines forward may a compaction be later: in MOOSE up to 12
//! memtables where 4 are allowed, with writers at the floor meanwhile.
//!
//! **Two memtables suffice** for [`Load::buffered_max`], the active one and the one being flushed:
//! more of them change the mean rate by less than 0.1 % at 90 %, and by less than 0.5 % at full
//! speed. Memtables beyond two may be a reserve for a device that stalls.
//!
//! Without jobs the share is infinite. Cost: proportional to jobs × (jobs + levels) and to runs;
//! the example `planner_speed` measures it. It never asks a clock or the device's speed: slow
//! devices write fewer bytes, and so admit fewer.

use crate::cost::update::Filling;
use crate::occupancy::Occupancy;
use crate::planner::{Cause, CompactionPlan};
use crate::shape::Shape;
use crate::units::Bytes;

/// The pacing rule for one shape, with what can be computed in advance.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Level 1 first.
    levels: Vec<Filling>,
    buffer: Bytes,
    floor: f64,
}

/// The present load of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The runs of the tree; inputs of compactions in progress are in their target level
    /// ([`planner::begin`](crate::planner::begin)).
    pub occupancy: &'a Occupancy,
    /// Bytes in memtables: active, immutable and being flushed.
    pub buffered: Bytes,
    /// Bytes in memtables at which writers are slowed to the floor: two memtables or more.
    pub buffered_max: Bytes,
    /// The allowance: bytes that may be ingested between the deadline of a compaction and its end.
    /// With 0, no compaction is late.
    pub late_max: Bytes,
}

/// A flush or compaction in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedJob {
    /// The job is due when this level is full again; 0 stands for the memtables, and so for a
    /// flush.
    pub empties: usize,
    /// Bytes still to be written.
    pub left: Bytes,
}

/// Deadlines of jobs, and the share of writers.
#[derive(Clone, Debug, PartialEq)]
pub struct PacePlan {
    /// The slack of each job, in the order given: bytes that may still be ingested before its
    /// deadline and the end of the allowance; zero if both have passed. Workers take the least
    /// first.
    pub slacks: Vec<Bytes>,
    /// Bytes that have been ingested since the deadline of a compaction: the maximum over all of
    /// them, zero if none is late.
    pub late: Bytes,
    /// Bytes that may be ingested for each byte that jobs write; infinite without jobs, never below
    /// the floor.
    pub share: f64,
    /// The slack of the job that bounds the share; the largest possible without jobs. While writers
    /// wait, workers leave jobs with more slack alone.
    pub tight: Bytes,
    /// Bytes that jobs in progress still have to write.
    pub debt: Bytes,
}

impl PacedJob {
    /// Creates the job of this plan, with `left` bytes to write.
    ///
    /// A compaction into level t is due when level t-1 is full again, whatever its cause: only then
    /// does a batch have to enter level t. That includes compactions of the whole tree and for
    /// tombstones. A compaction that empties no level, because its runs stay in level 1 or (a range
    /// of keys) in place, blocks level 1 from moving down, and is due when that is full. A reshape
    /// that reduces the runs of one level blocks nothing until that level is full and has to move
    /// down itself: batches that arrive meanwhile become a younger run, and lookups had as many
    /// runs before; nor does a compaction for reads, which leaves one run in its level. A
    /// compaction at rest was begun since nobody wrote: writers that come back are not to pay for
    /// it at once, so it is due when the level after is full.
    pub fn of(compaction: &CompactionPlan, left: Bytes) -> Self {
        let empties = match compaction.cause {
            Cause::Flush => 0,
            Cause::CompactRange => 1,
            Cause::Reshape { level } if level == compaction.target => level,
            Cause::Rest => compaction.target + 1,
            Cause::Reads { .. } => compaction.target,
            _ => (compaction.target - 1).max(1),
        };
        Self { empties, left }
    }
}

impl PacePlan {
    /// Returns the jobs to continue, as indices into `jobs`, most urgent first: least slack, then
    /// the smallest emptied level. While writers wait, compactions with more slack than the
    /// tightest are left out.
    pub fn order(&self, jobs: &[PacedJob], writers_wait: bool) -> Vec<usize> {
        let is_flush = |index: usize| jobs[index].empties == 0;
        let is_urgent = |index: &usize| !writers_wait || is_flush(*index) || self.slacks[*index] <= self.tight;
        let mut order: Vec<usize> = (0..jobs.len()).filter(is_urgent).collect();
        order.sort_by_key(|index| (self.slacks[*index], jobs[*index].empties));
        order
    }
}

impl Pacer {
    /// Creates the pacing rule of trees with this shape.
    pub fn new(shape: &Shape) -> Self {
        let levels: Vec<Filling> = (1..=shape.last()).map(|level| Filling::new(shape, level)).collect();
        let writes_most: f64 = (1..=shape.last()).map(|level| shape.ratio(level)).sum();
        Self { levels, buffer: shape.buffer(), floor: 1.0 / (2.0 * writes_most) }
    }

    /// The smallest share, `1 / (2 Σ r_i)`: half of what the tree could absorb if each batch
    /// rewrote all of its level.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Computes deadlines and the share of writers.
    pub fn plan(&self, load: &Load<'_>, jobs: &[PacedJob]) -> PacePlan {
        let mut sizes: Vec<f64> =
            (1..=self.levels.len()).map(|level| load.occupancy.level_bytes(level).as_f64()).collect();
        let margins: Vec<f64> = jobs.iter().map(|job| self.margin(load, &sizes, job)).collect();
        let late = jobs.iter().zip(&margins).filter(|(job, _)| job.empties > 0 && job.left > Bytes::ZERO);
        let late = late.map(|(_, margin)| -margin).fold(0.0, f64::max);
        let slack = |(job, margin): (&PacedJob, &f64)| {
            let allowance = if job.empties == 0 { Bytes::ZERO } else { load.late_max };
            Bytes((margin + allowance.as_f64()).max(0.0) as u64)
        };
        let slacks: Vec<Bytes> = jobs.iter().zip(&margins).map(slack).collect();
        // A memtable being flushed counts as part of level 1 below: its writes are what is left of
        // the flush.
        let flushes = jobs.iter().filter(|job| job.empties == 0).count();
        sizes[0] += (self.buffer * flushes as u64).min(load.buffered).as_f64();
        let (mut share, mut tight) = (f64::INFINITY, Bytes(u64::MAX));
        for (job, slack) in jobs.iter().zip(&slacks).filter(|(job, _)| job.left > Bytes::ZERO) {
            let due = jobs.iter().zip(&slacks).filter(|(_, other)| *other <= slack);
            let left: Bytes = due.map(|(job, _)| job.left).sum();
            let bound = slack.as_f64() / (left.as_f64() + self.future(&sizes, job.empties));
            if bound < share {
                (share, tight) = (bound, *slack);
            }
        }
        let debt = jobs.iter().map(|job| job.left).sum();
        PacePlan { slacks, late: Bytes(late as u64), share: share.max(self.floor), tight, debt }
    }

    /// Bytes that may still be ingested before the deadline of this job; negative after it.
    fn margin(&self, load: &Load<'_>, sizes: &[f64], job: &PacedJob) -> f64 {
        let until = job.empties.min(self.levels.len());
        if until == 0 {
            return load.buffered_max.as_f64() - load.buffered.as_f64();
        }
        let due = self.levels[until - 1].due_at(sizes[until - 1]);
        let present = sizes[..until].iter().sum::<f64>() + load.buffered.as_f64();
        due - present
    }

    /// Bytes that flushes and compactions will write into levels 1 to `until` before that level is
    /// full, without those in progress. By then, everything above level i now and all new data has
    /// passed through level i; data already in larger levels has not.
    fn future(&self, sizes: &[f64], until: usize) -> f64 {
        let levels = &self.levels[..until.min(self.levels.len())];
        let mut passing = levels.last().map_or(0.0, |level| level.full_at(sizes[levels.len() - 1]));
        let mut written = 0.0;
        for (level, size) in levels.iter().zip(sizes).rev() {
            written += (passing * level.writes_per_entry() - level.written(*size)).max(0.0);
            passing = (passing - size).max(0.0);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: fn(usize, u64) -> PacedJob = |empties, left| PacedJob { empties, left: Bytes(left) };

    fn plan(tree: &str, buffered: u64, jobs: &[PacedJob]) -> PacePlan {
        let shape: Shape = "buffer 1\nlevel 4 in 4 runs\nlevel 16 in 1 run\nlevel 64 in 1 run".parse().expect("shape");
        let occupancy = tree.parse().expect("a tree");
        let load =
            Load { occupancy: &occupancy, buffered: Bytes(buffered), buffered_max: Bytes(4), late_max: Bytes(0) };
        Pacer::new(&shape).plan(&load, jobs)
    }

    /// Slacks and shares, by hand. Level 1 writes each entry once, level 2 writes 4 + 8 + 12 while
    /// it fills.
    #[test]
    fn small_examples() {
        assert_eq!(
            plan("", 3, &[]),
            PacePlan { slacks: vec![], late: Bytes(0), share: f64::INFINITY, tight: Bytes(u64::MAX), debt: Bytes(0) }
        );
        // A flush of one memtable, while another one fills.
        let flush = plan("level 1: r1 1", 2, &[JOB(0, 1)]);
        assert_eq!(
            flush,
            PacePlan { slacks: vec![Bytes(2)], late: Bytes(0), share: 2.0, tight: Bytes(2), debt: Bytes(1) }
        );
        // Level 1 was just compacted into level 2: 4 bytes fill it again, each written once.
        let compaction = plan("level 2: r1 4, r2 4", 0, &[JOB(1, 8)]);
        assert_eq!(
            compaction,
            PacePlan {
                slacks: vec![Bytes(4)],
                late: Bytes(0),
                share: 4.0 / (8.0 + 4.0),
                tight: Bytes(4),
                debt: Bytes(8)
            }
        );
        // Levels 1 and 2 were compacted into level 3: 16 bytes fill them again, with 16 bytes
        // written in level 1 and 24 in level 2.
        let compaction = plan("level 3: r1 20", 0, &[JOB(2, 20)]);
        assert_eq!(
            compaction,
            PacePlan {
                slacks: vec![Bytes(16)],
                late: Bytes(0),
                share: 16.0 / (20.0 + 16.0 + 24.0),
                tight: Bytes(16),
                debt: Bytes(20)
            }
        );
        // The same, when level 2 has taken two of three batches: 12 of its 24 bytes of work are
        // left.
        let compaction = plan("level 1: r7 1\nlevel 2: r5 8\nlevel 3: r1 20", 0, &[JOB(2, 20)]);
        assert_eq!(compaction.slacks, [Bytes(7)]);
        assert_eq!(compaction.share, 7.0 / (20.0 + 7.0 + 12.0));
        // Jobs due earlier come first: the compaction into level 2, and the flush.
        let both = plan("level 2: r5 4\nlevel 3: r1 20", 2, &[JOB(2, 20), JOB(1, 4), JOB(0, 1)]);
        assert_eq!(both.slacks, [Bytes(10), Bytes(2), Bytes(2)]);
        // Until the second is due, 5 bytes are left, and three memtables are flushed: the one that
        // waits and two more.
        assert_eq!(both.share, f64::min(2.0 / (5.0 + 3.0), 10.0 / (25.0 + 11.0 + 20.0)));
        assert_eq!(both.tight, Bytes(10), "the third bounds it");
    }

    /// Late jobs leave the floor, which is above zero; finished jobs do not count.
    #[test]
    fn writers_are_never_stopped() {
        let floor = 1.0 / (2.0 * (4.0 + 4.0 + 4.0));
        assert_eq!(plan("", 4, &[JOB(0, 1)]).share, floor);
        assert_eq!(
            plan("level 1: r3 9", 0, &[JOB(1, 1)]),
            PacePlan { slacks: vec![Bytes(0)], late: Bytes(5), share: floor, tight: Bytes(0), debt: Bytes(1) }
        );
        assert_eq!(plan("level 1: r3 9", 0, &[JOB(1, 0)]).share, f64::INFINITY);
    }

    /// The level that a compaction empties, for each cause.
    #[test]
    fn every_cause_has_a_deadline() {
        let job = |cause, target| {
            let compaction = CompactionPlan { cause, inputs: vec![], buffer: Bytes::ZERO, target };
            PacedJob::of(&compaction, Bytes(1)).empties
        };
        assert_eq!(job(Cause::Flush, 1), 0);
        assert_eq!(job(Cause::Full { level: 1, through: 3 }, 4), 3);
        assert_eq!([job(Cause::Reshape { level: 3 }, 3), job(Cause::Reshape { level: 3 }, 4)], [3, 3]);
        assert_eq!([job(Cause::Rest, 1), job(Cause::Rest, 3), job(Cause::Reads { through: 3 }, 3)], [2, 4, 3]);
        assert_eq!([job(Cause::Compact, 5), job(Cause::Compact, 1), job(Cause::CompactRange, 5)], [4, 1, 1]);
    }
}
