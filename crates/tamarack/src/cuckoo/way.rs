//! [`Ways`]: how entries move to make space for another one.

use tamarack_filter::chucky::{Offsets, SLOTS_MAX};

use super::place::Place;

/// Buckets that a search looks into for a place, at most.
const SEARCHED_MAX: usize = 500;

/// A move of an entry: the bucket that it leaves, and the number of its slot there.
pub(super) type Move = (usize, usize);

/// A set of buckets of a partition, each a bit: those of a partition that is as large as they get
/// are in 1 KiB.
#[derive(Debug)]
pub(super) struct BucketSet(Box<[u64]>);

impl BucketSet {
    /// An empty set, for so many buckets.
    pub(super) fn new(buckets: usize) -> Self {
        Self(vec![0; buckets.div_ceil(64)].into())
    }

    pub(super) fn has(&self, bucket: usize) -> bool {
        self.0[bucket / 64] >> (bucket % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, bucket: usize, is_in: bool) {
        let (word, bit) = (&mut self.0[bucket / 64], 1 << (bucket % 64));
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// A bucket that could give an entry to another one.
struct Step {
    bucket: usize,
    /// The step before, and the slot whose entry goes from there to here.
    from: Option<(usize, usize)>,
}

/// Searches for ways to empty slots. It keeps its memory from one search to the next.
pub(super) struct Ways {
    steps: Vec<Step>,
    /// The buckets of the steps.
    met: BucketSet,
    moves: Vec<Move>,
}

impl Ways {
    /// For a partition with so many buckets.
    pub(super) fn new(buckets: usize) -> Self {
        Self { steps: Vec::new(), met: BucketSet::new(buckets), moves: Vec::new() }
    }

    /// The moves that make space for a key, in their order. The first one goes to the bucket that
    /// comes with them, which has an empty slot, and each other one to where the one before came
    /// from; the key's entry goes to where the last one came from.
    ///
    /// Breadth first, from the key's buckets, which are full, to the first one that is not; `None`
    /// if that is too far. `first_bits` are those of a full bucket's slots
    /// ([`tamarack_filter::chucky::Code::first_bits`]).
    pub(super) fn find(
        &mut self,
        (slots, offsets): (usize, &Offsets),
        place: Place,
        full: &BucketSet,
        first_bits: impl Fn(usize) -> [u16; SLOTS_MAX],
    ) -> Option<(&[Move], usize)> {
        self.steps.drain(..).for_each(|step| self.met.set(step.bucket, false));
        self.moves.clear();
        for bucket in place.distinct() {
            self.add(Step { bucket, from: None });
        }
        let mut at = 0;
        while at < self.steps.len() {
            let here = self.steps[at].bucket;
            for (slot, first_bits) in first_bits(here).into_iter().enumerate().take(slots) {
                let other = offsets.other(here, first_bits);
                if !full.has(other) {
                    // From the free end on.
                    let mut last = Some((at, slot));
                    while let Some((step, slot)) = last {
                        self.moves.push((self.steps[step].bucket, slot));
                        last = self.steps[step].from;
                    }
                    return Some((&self.moves, other));
                }
                if !self.met.has(other) {
                    if self.steps.len() == SEARCHED_MAX {
                        return None;
                    }
                    self.add(Step { bucket: other, from: Some((at, slot)) });
                }
            }
            at += 1;
        }
        None
    }

    fn add(&mut self, step: Step) {
        self.met.set(step.bucket, true);
        self.steps.push(step);
    }
}
