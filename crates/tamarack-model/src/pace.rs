//! Pace: which job a worker should go on with, and how fast writers may go meanwhile, so that
//! merges keep up.
//!
//! Both follow from deadlines. A merge into level t has to end before level t-1 is full again:
//! otherwise what comes down next finds the active run of level t in a merge, and stands beside it
//! as one run too many. A flush has to end before the buffers are full. Time is not measured in
//! seconds but in **bytes ingested**, since that is what fills levels: a job's **room** is how many
//! bytes writers may still bring before its deadline. A tree counts like an odometer, so that is
//! what the emptied level holds when it is full, less all that stands in it and above it:
//!
//! ```text
//!  buffers  ▮▮▯▯              a flush              room = ▯▯, what the buffers may still take
//!  level 1  ▭▭▭▭▭▭▭
//!  level 2  ▭▭▭▭▭▭▭▭▭▭▭▭▭     a merge into 3       room = full level 2 - level 2 - level 1 - buffers
//!  level 3  ▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬  (its inputs stand here since it began)
//! ```
//!
//! **Workers** take the job with the least room: earliest deadline first, which meets all deadlines
//! if any order does (Liu and Layland 1973). It works as jobs are steps of a few milliseconds, so
//! that a huge merge, whose deadline is far away, never keeps workers from small ones. Two workers
//! that share one device each have half of its speed, which may be too little for the job that is
//! due first. So while writers wait, a worker leaves those jobs alone that are due later than the
//! one that bounds the share ([`Plan::tight`]): it helps with a part of an urgent job, or rests.
//!
//! **Writers** get a share: bytes that they may bring for each byte that jobs write. By the time
//! that job k is due, `room_k` bytes have come, so `room_k / share` bytes were written. That has to
//! be enough for what is left of all jobs due until then, and for the flushes and merges into
//! levels above k's target that those bytes will call for:
//!
//! ```text
//!                         room_k
//!   share = min  ───────────────────────          left_j: bytes that job j has still to write
//!            k   Σ left_j  +  future_k            j: jobs with room_j ≤ room_k
//! ```
//!
//! `future_k` is known in closed form ([`cost::update`](crate::cost::update)), from where each
//! level stands: a leveled level rewrites little while it is nearly empty, and much when it is
//! nearly full. Taking the mean instead would let writers go too fast in the first half of each
//! cycle, and all but stop them in the second. If all goes as foreseen, the share stays what it is
//! from the beginning of a job to its end.
//!
//! Nothing is foreseen beyond the deadlines of present jobs, on purpose: work that does not exist
//! yet cannot be done ahead, so slower writers today would gain nothing for a larger merge
//! tomorrow.
//!
//! **Never stopped.** The share is never below the [floor](Pacer::floor), half of what the tree
//! could digest if each batch rewrote all of the level that it comes into. So whatever a change of
//! shape has left, at least half of all that is written pays off debt, and a late job ends. A
//! missed deadline costs lookups one run more until the next merge into that level; a missed flush,
//! a little memory above the buffers' limit: at most the floor's share of what that flush
//! had left to write, which is half a buffer.
//!
//! # What it achieves
//!
//! Trees that grow to 1000 and to 3000 buffers, under writers that offer 90 % of what the tree
//! digests on average, and under writers as fast as the device; `tests/suite/pace.rs` holds these
//! figures, for leveling with T = 10, tiering with T = 4 and 10, lazy leveling with T = 5, and
//! Dostoevsky's T = 10, K = 3, Z = 1, and for one, two and four workers:
//!
//! | | with this pace, 2 buffers | let in at will, 4 buffers, one worker |
//! |---|---|---|
//! | longest stop | none | 9 times what the device needs to write a buffer (leveling) |
//! | time at the floor | none | |
//! | runs above slots below level 1 | none, as no merge is late | 1 at 90 %; 122 as fast as the device (lazy leveling) |
//! | runs above slots in level 1 | 1, by rule | 24 at 90 %; 251 as fast as the device (lazy leveling) |
//! | slowest moment at 90 % | 73 % of what is offered | nothing |
//! | rate within 2 % of that one buffer's write earlier | over 95 % of the time, with four workers over 80 % | 1 % (leveling, as fast as the device) |
//!
//! The largest merges of a leveled tree are T times the smallest, and no order of work changes
//! that. While the last level is nearly full, the tree digests less than on average, and 90 % of
//! the average is more than there is: what is missing then (at most one part in 25 of all that was
//! written) is let in when the tree has grown. As fast as writers can, they get within 3 % of what
//! no pace could exceed without being late.
//!
//! **Two buffers are enough** for [`Load::buffered_max`], the active one and the one that is being
//! flushed: more of them change the mean rate by less than 0.1 % at 90 %, and by less than 0.5 % at
//! full speed. So what is there beyond them may be a reserve for a device that stalls.
//!
//! Without jobs the share is infinite. Cost: proportional to jobs × (jobs + levels) and to runs;
//! example `planner_speed` measures it. Never: asks a clock, or for the device's speed; slow
//! devices write fewer bytes, and so let in fewer.

use crate::cost::update::Filling;
use crate::occupancy::Occupancy;
use crate::planner::{Cause, CompactionPlan};
use crate::shape::Shape;
use crate::units::Bytes;

/// What can be known in advance of a shape.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Level 1 first.
    levels: Vec<Filling>,
    buffer: Bytes,
    floor: f64,
}

/// What waits where.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The runs of the tree; inputs of merges in progress stand in the level that they are merged
    /// into ([`planner::begin`](crate::planner::begin)).
    pub occupancy: &'a Occupancy,
    /// Bytes in buffers: the active one, the sealed ones, those that are being flushed.
    pub buffered: Bytes,
    /// Bytes that buffers may hold before writers are slowed to the floor: two buffers, or more.
    pub buffered_max: Bytes,
}

/// A flush or merge in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job is due when this level is full again; 0 stands for the buffers, and so for a flush.
    pub empties: usize,
    /// Bytes still to be written.
    pub left: Bytes,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// For each job, in the order given: bytes that may still be ingested before its deadline; zero
    /// if it is late. Least first.
    pub rooms: Vec<Bytes>,
    /// Bytes that may be ingested for each byte that jobs write; infinite without jobs, never below
    /// the floor.
    pub share: f64,
    /// The room of the job that bounds the share; the largest there is without jobs. While writers
    /// wait, workers should leave jobs alone that have more.
    pub tight: Bytes,
    /// Bytes that jobs in progress have still to write.
    pub debt: Bytes,
}

impl Job {
    /// This merge, of which so much is left to write.
    ///
    /// A merge into level t is due when level t-1 is full again, whatever its cause: only then does
    /// anything have to come into level t. That holds for a compaction of the whole tree, and
    /// for a run that goes down for its tombstones, too. What empties no level, as its runs
    /// stay in level 1 or (a range of keys) everywhere, keeps level 1 from going down, and is
    /// due when that is full. Runs that become one where they stand, since their level has too many
    /// of them, are in nobody's way until that level is full and has to go down itself: what
    /// comes there meanwhile becomes a younger run, and lookups have had as many runs before.
    pub fn of(merge: &CompactionPlan, left: Bytes) -> Self {
        let empties = match merge.cause {
            Cause::Flush => 0,
            Cause::CompactRange => 1,
            Cause::Reshape { level } if level == merge.target => level,
            _ => (merge.target - 1).max(1),
        };
        Self { empties, left }
    }
}

impl Plan {
    /// The jobs to go on with, as indices into `jobs`, the most urgent first: those with the least
    /// room; where it is the same, those that empty the smallest level. While writers wait,
    /// compactions with more room than the tightest are left alone.
    pub fn order(&self, jobs: &[Job], writers_wait: bool) -> Vec<usize> {
        let is_flush = |index: usize| jobs[index].empties == 0;
        let is_urgent = |index: &usize| !writers_wait || is_flush(*index) || self.rooms[*index] <= self.tight;
        let mut order: Vec<usize> = (0..jobs.len()).filter(is_urgent).collect();
        order.sort_by_key(|index| (self.rooms[*index], jobs[*index].empties));
        order
    }
}

impl Pacer {
    /// For trees of this shape.
    pub fn new(shape: &Shape) -> Self {
        let levels: Vec<Filling> = (1..=shape.last()).map(|level| Filling::new(shape, level)).collect();
        let writes_most: f64 = (1..=shape.last()).map(|level| shape.ratio(level)).sum();
        Self { levels, buffer: shape.buffer(), floor: 1.0 / (2.0 * writes_most) }
    }

    /// The least share, `1 / (2 Σ r_i)`: half of what the tree could digest if each batch rewrote
    /// all of its level.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Deadlines, and the share of writers.
    pub fn plan(&self, load: &Load<'_>, jobs: &[Job]) -> Plan {
        let mut held: Vec<f64> =
            (1..=self.levels.len()).map(|level| load.occupancy.level_bytes(level).as_f64()).collect();
        let rooms: Vec<Bytes> = jobs.iter().map(|job| self.room(load, &held, job)).collect();
        // A buffer that is being flushed counts as part of level 1 below: its writes are what is left of
        // the flush.
        let flushes = jobs.iter().filter(|job| job.empties == 0).count();
        held[0] += (self.buffer * flushes as u64).min(load.buffered).as_f64();
        let (mut share, mut tight) = (f64::INFINITY, Bytes(u64::MAX));
        for (job, room) in jobs.iter().zip(&rooms).filter(|(job, _)| job.left > Bytes::ZERO) {
            let due = jobs.iter().zip(&rooms).filter(|(_, other)| *other <= room);
            let left: Bytes = due.map(|(job, _)| job.left).sum();
            let bound = room.as_f64() / (left.as_f64() + self.future(&held, job.empties));
            if bound < share {
                (share, tight) = (bound, *room);
            }
        }
        Plan { rooms, share: share.max(self.floor), tight, debt: jobs.iter().map(|job| job.left).sum() }
    }

    fn room(&self, load: &Load<'_>, held: &[f64], job: &Job) -> Bytes {
        let until = job.empties.min(self.levels.len());
        if until == 0 {
            return Bytes(load.buffered_max.0.saturating_sub(load.buffered.0));
        }
        let full = self.levels[until - 1].full_at(held[until - 1]);
        let standing = held[..until].iter().sum::<f64>() + load.buffered.as_f64();
        Bytes((full - standing).max(0.0) as u64)
    }

    /// Bytes that flushes and merges will write into levels 1 to `until` before that one is full,
    /// not counting those in progress. When it is, everything that stands above level i now,
    /// and all that comes, has passed through level i; what stands in larger levels already has
    /// not.
    fn future(&self, held: &[f64], until: usize) -> f64 {
        let levels = &self.levels[..until.min(self.levels.len())];
        let mut passing = levels.last().map_or(0.0, |level| level.full_at(held[levels.len() - 1]));
        let mut written = 0.0;
        for (level, held) in levels.iter().zip(held).rev() {
            written += (passing * level.writes_per_entry() - level.written(*held)).max(0.0);
            passing = (passing - held).max(0.0);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MERGE: fn(usize, u64) -> Job = |empties, left| Job { empties, left: Bytes(left) };

    fn plan(tree: &str, buffered: u64, jobs: &[Job]) -> Plan {
        let shape: Shape = "buffer 1\nlevel 4 in 4 runs\nlevel 16 in 1 run\nlevel 64 in 1 run".parse().expect("shape");
        let occupancy = tree.parse().expect("a tree");
        let load = Load { occupancy: &occupancy, buffered: Bytes(buffered), buffered_max: Bytes(4) };
        Pacer::new(&shape).plan(&load, jobs)
    }

    /// Rooms and shares, by hand. Level 1 writes each entry once, level 2 writes 4 + 8 + 12 while
    /// it fills.
    #[test]
    fn small_examples() {
        assert_eq!(
            plan("", 3, &[]),
            Plan { rooms: vec![], share: f64::INFINITY, tight: Bytes(u64::MAX), debt: Bytes(0) }
        );
        // A flush of what is in a buffer, while another one fills.
        let flush = plan("level 1: r1 1", 2, &[MERGE(0, 1)]);
        assert_eq!(flush, Plan { rooms: vec![Bytes(2)], share: 2.0, tight: Bytes(2), debt: Bytes(1) });
        // Level 1 went into level 2 just now: 4 bytes fill it again, each written once.
        let merge = plan("level 2: r1 4, r2 4", 0, &[MERGE(1, 8)]);
        assert_eq!(merge, Plan { rooms: vec![Bytes(4)], share: 4.0 / (8.0 + 4.0), tight: Bytes(4), debt: Bytes(8) });
        // Levels 1 and 2 went into level 3: 16 bytes fill them again. They are written once in level 1, and
        // 24 bytes are in level 2.
        let merge = plan("level 3: r1 20", 0, &[MERGE(2, 20)]);
        assert_eq!(
            merge,
            Plan { rooms: vec![Bytes(16)], share: 16.0 / (20.0 + 16.0 + 24.0), tight: Bytes(16), debt: Bytes(20) }
        );
        // The same, when level 2 has taken two of three batches: 12 bytes of work there are left of 24.
        let merge = plan("level 1: r7 1\nlevel 2: r5 8\nlevel 3: r1 20", 0, &[MERGE(2, 20)]);
        assert_eq!(merge.rooms, [Bytes(7)]);
        assert_eq!(merge.share, 7.0 / (20.0 + 7.0 + 12.0));
        // Jobs due earlier come before: that into level 2, and the flush.
        let both = plan("level 2: r5 4\nlevel 3: r1 20", 2, &[MERGE(2, 20), MERGE(1, 4), MERGE(0, 1)]);
        assert_eq!(both.rooms, [Bytes(10), Bytes(2), Bytes(2)]);
        // Until the second is due, 5 bytes are left, and the buffer that waits and two more will be
        // flushed.
        assert_eq!(both.share, f64::min(2.0 / (5.0 + 3.0), 10.0 / (25.0 + 11.0 + 20.0)));
        assert_eq!(both.tight, Bytes(10), "the third bounds it");
    }

    /// Late jobs leave the floor, which never is nothing; done jobs do not count.
    #[test]
    fn writers_are_never_stopped() {
        let floor = 1.0 / (2.0 * (4.0 + 4.0 + 4.0));
        assert_eq!(plan("", 4, &[MERGE(0, 1)]).share, floor);
        assert_eq!(
            plan("level 1: r3 9", 0, &[MERGE(1, 1)]),
            Plan { rooms: vec![Bytes(0)], share: floor, tight: Bytes(0), debt: Bytes(1) }
        );
        assert_eq!(plan("level 1: r3 9", 0, &[MERGE(1, 0)]).share, f64::INFINITY);
    }

    /// Which level a merge empties, for each cause.
    #[test]
    fn every_cause_has_a_deadline() {
        let job = |cause, target| {
            let merge = CompactionPlan { cause, inputs: vec![], buffer: Bytes::ZERO, target };
            Job::of(&merge, Bytes(1)).empties
        };
        assert_eq!(job(Cause::Flush, 1), 0);
        assert_eq!(job(Cause::Full { level: 1, through: 3 }, 4), 3);
        assert_eq!([job(Cause::Reshape { level: 3 }, 3), job(Cause::Reshape { level: 3 }, 4)], [3, 3]);
        assert_eq!([job(Cause::Compact, 5), job(Cause::Compact, 1), job(Cause::CompactRange, 5)], [4, 1, 1]);
    }
}
