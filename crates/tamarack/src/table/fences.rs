//! [`Fences`]: the top index of a table, in memory for as long as the table is open.
//!
//! A search compares 8-byte integers first: each fence's bytes after what all fences have in common, so that a few hundred fences are
//! decided within a few cache lines. Only fences that agree in those bytes with the place that is sought are compared in full. A
//! search allocates nothing.
//!
//! ```text
//! fences    ""   user:0100   user:0180   user:0199!17
//! common         user:01
//! prefixes       ─ 0          "00"        "80"        "99!17"      (padded with zeros to 8 bytes)
//! ```

use std::cmp::Ordering;

use crate::entry::{self, Sequence};
use crate::format::block::{Block, BlockCursor, common_prefix};
use crate::format::stored::{BlockHandle, Flaw};

/// All fences of a top index; the first is the empty key, so every place has a fence at or before it.
#[derive(Debug)]
pub(super) struct Fences {
    /// The keys of all fences, one after another.
    keys: Vec<u8>,
    fences: Vec<Fence>,
    /// How many first bytes all fences but the first have in common.
    common_bytes: usize,
    /// Of each fence, the bytes after the common ones; 0 for the first.
    prefixes: Vec<u64>,
}

#[derive(Debug)]
struct Fence {
    key_start: usize,
    key_end: usize,
    sequence: Sequence,
    handle: BlockHandle,
}

impl Fences {
    /// Reads a top index.
    pub(super) fn decode(block: &Block) -> Result<Self, Flaw> {
        let mut cursor = BlockCursor::default();
        let (mut keys, mut fences) = (Vec::new(), Vec::new());
        cursor.seek_first(block)?;
        while let Some(entry) = cursor.entry(block) {
            let key_start = keys.len();
            keys.extend_from_slice(entry.key);
            let handle = BlockHandle::decode(entry.value)?;
            fences.push(Fence { key_start, key_end: keys.len(), sequence: entry.sequence, handle });
            cursor.next(block)?;
        }
        let mut this = Self { keys, fences, common_bytes: 0, prefixes: Vec::new() };
        this.check()?;
        this.common_bytes = this.common_bytes();
        this.prefixes = (0..this.len()).map(|i| if i == 0 { 0 } else { this.prefix(this.key(i)) }).collect();
        Ok(this)
    }

    /// How many there are; at least 1.
    pub(super) fn len(&self) -> usize {
        self.fences.len()
    }

    /// The last fence at or before a place in entry order.
    pub(super) fn floor(&self, key: &[u8], sequence: Sequence) -> usize {
        let common = &self.keys[self.fences[self.len() - 1].key_start..][..self.common_bytes];
        match key[..key.len().min(self.common_bytes)].cmp(common) {
            Ordering::Less => 0,
            Ordering::Greater => self.len() - 1,
            Ordering::Equal => {
                let prefix = self.prefix(key);
                let low = 1 + self.prefixes[1..].partition_point(|&other| other < prefix);
                let same = self.prefixes[low..].partition_point(|&other| other == prefix);
                low - 1 + count_while(same, |i| self.place(low + i, key, sequence).is_le())
            }
        }
    }

    /// The key of a fence.
    pub(super) fn key(&self, index: usize) -> &[u8] {
        let fence = &self.fences[index];
        &self.keys[fence.key_start..fence.key_end]
    }

    /// The sequence of a fence.
    pub(super) fn sequence(&self, index: usize) -> Sequence {
        self.fences[index].sequence
    }

    /// The block that a fence stands for.
    pub(super) fn handle(&self, index: usize) -> &BlockHandle {
        &self.fences[index].handle
    }

    /// The memory they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.keys.capacity() + self.fences.capacity() * size_of::<Fence>() + self.prefixes.capacity() * 8
    }

    fn check(&self) -> Result<(), Flaw> {
        let ascending = (1..self.len())
            .all(|i| entry::compare((self.key(i - 1), self.sequence(i - 1)), (self.key(i), self.sequence(i))).is_lt());
        if self.fences.is_empty() || !self.key(0).is_empty() || self.sequence(0) != Sequence::MAX || !ascending {
            return Err(Flaw::Damaged("the fences of an index are out of order"));
        }
        Ok(())
    }

    fn common_bytes(&self) -> usize {
        // Fences ascend, so what the second and the last have in common is common to all between.
        if self.len() == 1 { 0 } else { common_prefix(self.key(1), self.key(self.len() - 1)) }
    }

    /// The eight bytes of `key` after the common ones, as a number that orders like them.
    fn prefix(&self, key: &[u8]) -> u64 {
        let rest = &key[self.common_bytes.min(key.len())..];
        let mut bytes = [0; 8];
        let taken = rest.len().min(8);
        bytes[..taken].copy_from_slice(&rest[..taken]);
        u64::from_be_bytes(bytes)
    }

    /// How a fence compares with a place.
    fn place(&self, index: usize, key: &[u8], sequence: Sequence) -> Ordering {
        entry::compare((self.key(index), self.sequence(index)), (key, sequence))
    }
}

/// How many of the first `count` numbers satisfy `holds`, which is true up to some number and false from there.
fn count_while(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    //! Every search agrees with looking at all fences, on keys that share much and little.

    use super::*;
    use crate::format::block::BlockBuilder;
    use crate::format::table::fence_entry;

    fn fences(places: &[(Vec<u8>, Sequence)]) -> Fences {
        let mut builder = BlockBuilder::new(4);
        for (i, (key, sequence)) in places.iter().enumerate() {
            let mut handle = Vec::new();
            BlockHandle { offset: i as u64, bytes: 100, checksum: 0 }.encode(&mut handle);
            builder.add(&fence_entry(key, *sequence, &handle));
        }
        let mut payload = Vec::new();
        builder.finish_into(&mut payload);
        Fences::decode(&Block::decode(payload).expect("sound")).expect("in order")
    }

    #[test]
    fn floor_agrees_with_a_linear_search() {
        let alphabet = [0, 1, b'a', 0xFF];
        let mut state = 1u64;
        for round in 0..300 {
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let common = vec![b'p'; random(12) as usize];
            let mut place = || {
                let tail = (0..random(11)).map(|_| alphabet[random(4) as usize]);
                let key: Vec<u8> = common.iter().copied().chain(tail).collect();
                (key, [Sequence::MAX, Sequence(random(4))][random(2) as usize])
            };
            let mut places: Vec<_> = (0..1 + round % 40).map(|_| place()).collect();
            let mut sought: Vec<_> = (0..50).map(|_| place()).collect();
            sought.extend([(vec![], Sequence::ZERO), (b"o".to_vec(), Sequence::MAX), (b"q".to_vec(), Sequence::MAX)]);
            places.push((vec![], Sequence::MAX));
            places.sort_by(|a, b| entry::compare((&a.0, a.1), (&b.0, b.1)));
            places.dedup();
            let fences = fences(&places);
            sought.extend(places.iter().cloned());
            for (key, sequence) in sought {
                let at_or_before = |p: &&(Vec<u8>, Sequence)| entry::compare((&p.0, p.1), (&key, sequence)).is_le();
                let expected = places.iter().filter(at_or_before).count() - 1;
                assert_eq!(fences.floor(&key, sequence), expected, "{key:?} {sequence:?} among {places:?}");
            }
        }
    }
}
