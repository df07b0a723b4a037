//! [`Classes`]: which level IDs (LIDs) a tree needs, and how its entries spread over them while it
//! grows.
//!
//! **Classes count from the last level.** Its runs have LIDs of class 0, those of the level above
//! it of class 1, and so on. When the last level is full, its run moves one level down and is in
//! the last one again, while the levels above are empty, like the digits of a counter. So a tree
//! that grows keeps its classes, and needs one more at the small end, for which there are
//! [`SPARE`] ones from the beginning. If classes were level numbers, each would have other
//! frequencies after a growth; if they were the nearest sizes, nearly empty levels would take the
//! LIDs of others.
//!
//! **Late runs.** While compactions are behind, level 1 has more runs than slots, each of about one
//! memtable. Those have the LIDs of a class of their own, the last one. Were they to share the LIDs
//! of their level, a lookup that meets one of them would search all: 2.9 blocks for an absent key,
//! and 1.4 with LIDs of their own, in a tree of hardly anything but 38 late runs (`leveling:T=3`,
//! 10 bits per entry).
//!
//! **States.** A tree with a filling last level goes through all combinations of how full its
//! levels are: level i has any number of batches from 0 to `b_i - 1`, the last one at least 1.
//! [`STATES`] of them are drawn evenly, each level by multiples of an irrational number of its own.
//! They are the states for which the filter's code is made. One in 16 has late runs.

use crate::shape::Shape;

/// Small classes beside those of a full tree.
pub const SPARE: usize = 2;

/// The LIDs of late runs. More would make all fingerprints shorter, for runs that are hardly ever
/// there: 20 of them make up to 1.22 times the false positives of a tree without late runs, 8 up to
/// 1.06. If there are more late runs, two or three share a LID.
pub const LATE_LIDS: u16 = 8;

/// One state in so many has late runs.
const LATE_PERIOD: usize = 16;

/// The most classes that a code can have.
pub const CLASSES_MAX: usize = 16;

/// The most LIDs of a spare class. Trees with so many runs in their first level hardly ever grow.
const SPARE_LIDS_MAX: u16 = 16;

/// States that are drawn.
pub const STATES: usize = 64;

/// The classes of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    lids: Vec<u16>,
}

impl Classes {
    /// The classes of a tree with this shape: one for each level, spare ones, and that of late
    /// runs. The smallest levels share one if the filter's code cannot have so many.
    pub fn of(shape: &Shape) -> Self {
        let runs = |number: usize| shape.visible_runs(number).clamp(1, u64::from(u16::MAX)) as u16;
        let mut lids: Vec<u16> = (1..=shape.last()).rev().map(runs).collect();
        lids.resize(lids.len() + SPARE, runs(1).min(SPARE_LIDS_MAX));
        lids.truncate(CLASSES_MAX - 1);
        lids.push(LATE_LIDS);
        Self { lids }
    }

    /// The classes with at most `most` LIDs each: some runs share one then. For trees of so many
    /// runs that their LIDs and fingerprints do not fit into a bucket.
    #[must_use]
    pub fn shared(&self, most: u16) -> Self {
        Self { lids: self.lids.iter().map(|&lids| lids.min(most)).collect() }
    }

    /// True if each level of a tree of this shape has as many LIDs as it has runs, or `lids_max` if
    /// it has more.
    pub fn have_lids_for(&self, shape: &Shape, lids_max: u16) -> bool {
        let wanted = Self::of(shape).shared(lids_max);
        let levels = shape.last().min(wanted.late());
        let lids = &self.lids[..self.late()];
        levels <= lids.len() && wanted.lids[..levels].iter().zip(lids).all(|(runs, lids)| runs <= lids)
    }

    /// The LIDs of each class: that of the last level first, that of late runs last.
    pub fn lids(&self) -> &[u16] {
        &self.lids
    }

    /// The class of late runs.
    pub fn late(&self) -> usize {
        self.lids.len() - 1
    }

    /// The class of the runs of level `number` in a tree whose last level is `last`. Levels that
    /// the classes do not reach share the smallest one.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn of_level(&self, number: usize, last: usize) -> usize {
        assert!((1..=last).contains(&number), "level {number} of {last}");
        (last - number).min(self.late() - 1)
    }

    /// The entries of each class, in the unit of `runs`, which has the level and the size of each
    /// run of a tree whose last level is `last`.
    pub fn entries(&self, last: usize, runs: impl IntoIterator<Item = (usize, f64)>) -> Vec<f64> {
        let mut entries = vec![0.0; self.lids.len()];
        for (number, size) in runs {
            entries[self.of_level(number, last)] += size;
        }
        entries
    }

    /// The entries of each class, in any unit, in [`STATES`] states that a tree of this shape goes
    /// through while its last level fills up.
    pub fn states(&self, shape: &Shape) -> Vec<Vec<f64>> {
        let levels = 1..=shape.last();
        let of = |state| {
            let sizes = levels.clone().map(|number| (number, size(shape, number, state)));
            let mut entries = self.entries(shape.last(), sizes);
            entries[self.late()] = late_runs(state) as f64 * shape.buffer().as_f64();
            entries
        };
        (0..STATES).map(of).collect()
    }

    /// As [`Classes::states`], for a tree that will not fill its last level soon, as one whose
    /// levels grow by large factors: levels of which one batch is more than `present` bytes of
    /// entries in all stay as they are, and the smaller ones fill up, to twice as many at most.
    ///
    /// # Panics
    /// If `present` does not have the classes' bytes.
    pub fn states_of(&self, shape: &Shape, present: &[f64]) -> Vec<Vec<f64>> {
        assert_eq!(present.len(), self.lids.len(), "bytes of each class");
        let all: f64 = present.iter().sum();
        let fills = |number: usize| shape.actual_batch(number) <= all;
        let filling: Vec<usize> = (1..=shape.last()).filter(|number| fills(*number)).collect();
        let of = |state| {
            let mut bytes = present.to_vec();
            filling.iter().for_each(|number| bytes[self.of_level(*number, shape.last())] = 0.0);
            for &number in &filling {
                let batch = shape.actual_batch(number);
                let most = ((2.0 * all / batch) as u64).min(shape.batches(number) - 1);
                bytes[self.of_level(number, shape.last())] +=
                    batch * (phase(number, state) * (most + 1) as f64).floor();
            }
            bytes[self.late()] = late_runs(state) as f64 * shape.buffer().as_f64();
            bytes
        };
        std::iter::once(present.to_vec())
            .chain((1..STATES).map(of))
            .filter(|state| state.iter().sum::<f64>() > 0.0)
            .collect()
    }
}

/// How full a level is in one of the states, from 0 to less than 1. Roots of different primes are
/// independent, so levels do not fill in step.
fn phase(number: usize, state: usize) -> f64 {
    ((state as f64 + 0.5) * PRIMES[number % PRIMES.len()].sqrt()).fract()
}

/// The size of a level in one of the states.
fn size(shape: &Shape, number: usize, state: usize) -> f64 {
    let least = u64::from(number == shape.last());
    let most = (shape.batches(number) - 1).max(least);
    shape.actual_batch(number) * (least + (phase(number, state) * (most - least + 1) as f64) as u64) as f64
}

/// The late runs in one of the states: none in most, else up to all that have LIDs.
fn late_runs(state: usize) -> u64 {
    let (round, phase) = ((state / LATE_PERIOD) as u64, state % LATE_PERIOD);
    if phase == 0 { u64::from(LATE_LIDS) - round % u64::from(LATE_LIDS) } else { 0 }
}

const PRIMES: [f64; 20] = [
    2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0, 31.0, 37.0, 41.0, 43.0, 47.0, 53.0, 59.0, 61.0, 67.0, 71.0,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy;
    use crate::units::Bytes;

    fn shape(words: &str, memtables: u64) -> Shape {
        let buffer = Bytes(1 << 20);
        policy::parse(words).expect("a policy").shape(Bytes(memtables << 20), buffer)
    }

    /// The classes of leveling are its levels, and two more; a tree that grows keeps them.
    #[test]
    fn classes_are_levels_from_the_last() {
        let classes = Classes::of(&shape("leveling:T=10,first=4", 500));
        assert_eq!(classes.lids(), [1, 1, 4, 4, 4, LATE_LIDS]);
        assert_eq!([3, 2, 1].map(|number| classes.of_level(number, 3)), [0, 1, 2]);
        assert_eq!([4, 1].map(|number| classes.of_level(number, 4)), [0, 3]);
        assert_eq!((classes.of_level(1, 9), classes.late()), (4, 5));
        let deep = shape("leveling:T=2", 20_000);
        assert_eq!((deep.last(), Classes::of(&deep).lids().len()), (15, CLASSES_MAX));
        assert_eq!(classes.shared(3).lids(), [1, 1, 3, 3, 3, 3]);
    }

    /// A tree whose last level holds far more than there is keeps what its large levels have, and
    /// fills the small ones.
    #[test]
    fn states_of_a_tree_that_does_not_fill_its_last_level() {
        let shape = shape("qlsm-bush:T=2,X=2", 300);
        let classes = Classes::of(&shape);
        let mut present = vec![0.0; classes.lids().len()];
        let levels = shape.last();
        present[levels - 2] = 100e6;
        present[levels - 1] = 50e6;
        assert!(shape.actual_batch(2) > 150e6 && shape.actual_batch(1) < 10e6, "{shape:?}");
        let states = classes.states_of(&shape, &present);
        assert_eq!((states.len(), &states[0]), (STATES, &present));
        assert!(states.iter().all(|state| state[levels - 2] == 100e6), "level 2 stays");
        let first = states.iter().map(|state| state[levels - 1]);
        let (least, most) = (first.clone().fold(f64::INFINITY, f64::min), first.fold(0.0, f64::max));
        assert!(least < 15e6 && (250e6..301e6).contains(&most), "level 1 has {least} to {most}");
    }

    /// States are those of a tree: no level has more than it may, none lacks the last, and each
    /// level is empty in some and full in others; so are the LIDs of late runs.
    #[test]
    fn states_are_those_of_a_tree() {
        for words in
            ["leveling:T=5,first=4", "tiering:T=10", "lazy-leveling:T=5", "garnering:T=5,c=0.8", "moose:last=0.8,k=1"]
        {
            let shape = shape(words, 3_000);
            let states = Classes::of(&shape).states(&shape);
            assert_eq!(states.len(), STATES);
            let late = states.iter().map(|state| (state.last().expect("there are classes") / (1 << 20) as f64) as u64);
            assert_eq!(
                (late.clone().filter(|runs| *runs == 0).count(), late.max()),
                (STATES - STATES / LATE_PERIOD, Some(LATE_LIDS.into()))
            );
            for number in 1..=shape.last() {
                let batches = states
                    .iter()
                    .map(|state| (state[shape.last() - number] / shape.actual_batch(number)).round() as u64);
                let (least, most) = (batches.clone().min(), batches.max());
                let expected = (u64::from(number == shape.last()), shape.batches(number) - 1);
                assert_eq!(
                    (least, most),
                    (Some(expected.0), Some(expected.1.max(expected.0))),
                    "{words}, level {number}"
                );
            }
        }
    }
}
