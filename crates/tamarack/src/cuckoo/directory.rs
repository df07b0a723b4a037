//! [`Directory`]: the partitions of a filter over the whole tree, by the high bits of digests.
//!
//! ```text
//! depth 2     00 ──► partition of 0…      depth 1: two slots
//!             01 ──┘
//!             10 ──► partition of 10…     depth 2
//!             11 ──► not ready            lookups of these keys search all runs
//! ```
//!
//! A partition has all digests of one [`Interval`]. One that has grown too large is replaced by two
//! of half its interval, as in extendible hashing (Fagin, Nievergelt, Pippenger, Strong, 1979); the
//! directory doubles if it is not deep enough. A directory is immutable and cheap to clone.

use std::sync::Arc;

use tamarack_filter::{Digest, DigestSet};

use super::partition::Partition;
use super::place::Place;

/// The digests with the same highest bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interval {
    /// These bits, as a number.
    prefix: u64,
    /// How many they are.
    depth: u32,
}

/// The partitions by interval. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Directory {
    depth: u32,
    slots: Arc<[DirectorySlot]>,
}

#[derive(Clone, Debug)]
struct DirectorySlot {
    /// That of the partition's interval.
    depth: u32,
    /// `None` if it is not ready.
    partition: Option<Arc<Partition>>,
}

/// The upper bound on the depth: 2²⁰ partitions of ten thousand entries each.
const DEPTH_MAX: u32 = 20;

impl Interval {
    /// One in 2^depth of all digests is in it.
    pub fn depth(self) -> u32 {
        self.depth
    }

    /// The smallest digest.
    pub fn first(self) -> Digest {
        Digest::from_stored(self.prefix.checked_shl(u64::BITS - self.depth).unwrap_or(0))
    }

    /// The largest digest.
    pub fn last(self) -> Digest {
        Digest::from_stored(self.first().stored() | u64::MAX.checked_shr(self.depth).unwrap_or(0))
    }

    /// True if the other interval begins where this one ends.
    pub fn is_before(self, other: Self) -> bool {
        self.last().stored().checked_add(1) == Some(other.first().stored())
    }

    /// True if the interval has the digest.
    pub fn contains(self, digest: Digest) -> bool {
        (self.first()..=self.last()).contains(&digest)
    }

    /// Its two halves; `None` if the directory would be too deep.
    pub fn halves(self) -> Option<[Self; 2]> {
        let half = |bit| Self { prefix: self.prefix << 1 | bit, depth: self.depth + 1 };
        (self.depth < DEPTH_MAX).then(|| [half(0), half(1)])
    }

    /// The place of a key in the interval's partition.
    pub fn place(self, partition: &Partition, digest: Digest) -> Place {
        place(partition, self.depth, digest)
    }
}

fn place(partition: &Partition, depth: u32, digest: Digest) -> Place {
    partition.place(digest, (digest.stored() & DigestSet::MASK) << depth)
}

impl Directory {
    /// Makes a directory without partitions, for at least so many.
    pub fn new(partitions: u64) -> Self {
        let depth = partitions.max(1).next_power_of_two().trailing_zeros().min(DEPTH_MAX);
        let slots = vec![DirectorySlot { depth, partition: None }; 1 << depth];
        Self { depth, slots: slots.into() }
    }

    /// The partition of a key, and the key's place there; `None` if it is not ready.
    #[inline(always)] // What most lookups of absent keys consist of, as `Partition::excludes`.
    pub fn find(&self, digest: Digest) -> Option<(&Partition, Place)> {
        let DirectorySlot { depth, partition } = &self.slots[self.slot_of(digest)];
        let partition = partition.as_deref()?;
        Some((partition, place(partition, *depth, digest)))
    }

    /// All partitions with their intervals, in order.
    pub fn partitions(&self) -> impl Iterator<Item = (Interval, Option<&Arc<Partition>>)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let DirectorySlot { depth, partition } = self.slots.get(next)?;
            let prefix = (next >> (self.depth - depth)) as u64;
            next += 1 << (self.depth - depth);
            Some((Interval { prefix, depth: *depth }, partition.as_ref()))
        })
    }

    /// The directory with another partition for an interval, which has a partition, or is a half of
    /// what has one.
    #[must_use]
    pub fn with(&self, interval: Interval, partition: Option<Arc<Partition>>) -> Self {
        let twice = |slot: &DirectorySlot| [slot.clone(), slot.clone()];
        let (mut depth, mut slots) = (self.depth, self.slots.to_vec());
        while depth < interval.depth {
            (depth, slots) = (depth + 1, slots.iter().flat_map(twice).collect());
        }
        let width = 1_usize << (depth - interval.depth);
        let first = interval.prefix as usize * width;
        slots[first..first + width].fill(DirectorySlot { depth: interval.depth, partition });
        Self { depth, slots: slots.into() }
    }

    fn slot_of(&self, digest: Digest) -> usize {
        digest.stored().checked_shr(u64::BITS - self.depth).unwrap_or(0) as usize
    }
}
