//! [`Fences`]: a decoded index block, in the form that is searched: the top index of a table, and each lower index block.
//!
//! A search compares 8-byte integers first: each fence's bytes after what all fences have in common, so that a few hundred fences are
//! decided within a few cache lines. Only fences that agree in those bytes with the place that is sought are compared in full. A
//! search allocates nothing.
//!
//! ```text
//! fences    user:0100   user:0142   user:0180   user:0199!17
//! common                user:01
//! prefixes  ─ 0         "42"        "80"        "99!17"      (padded with zeros to 8 bytes)
//! ```
//!
//! The first fence is not looked at: whoever searches an index block has come by a fence of the level above, which is the same one; the
//! first of a top index is the smallest place there is. Decoding compares the two.
//!
//! Memory: 32 bytes per fence, and what its key adds to the common bytes; about 1 % of the data at blocks of 4 KiB. Sequences of fences
//! are kept only if one of them falls between versions of one key.

use std::cmp::Ordering;
use std::sync::Arc;

use super::block::{Block, BlockCursor, common_prefix};
use super::stored::{BlockHandle, Flaw};
use crate::entry::{self, Sequence};
use crate::memory::{Account, Charge, Part};

/// The place of the first fence of every top index.
pub const FIRST_PLACE: (&[u8], Sequence) = (&[], Sequence::MAX);

/// The fences of an index block, at least one.
#[derive(Debug)]
pub struct Fences {
    /// Of each fence, the bytes after the common ones; 0 for the first.
    prefixes: Box<[u64]>,
    fences: Box<[Fence]>,
    /// What all fences but the first have in common, then of each fence the rest of its key; of the first all of it.
    keys: Box<[u8]>,
    common_bytes: u32,
    /// One for each fence; none if all are `Sequence::MAX`.
    sequences: Box<[Sequence]>,
    /// Their memory, for fences that are shared.
    charge: Charge,
}

/// The block that a fence stands for, and where in `keys` the fence's own bytes end.
#[derive(Debug)]
struct Fence {
    offset: u64,
    checksum: u64,
    bytes: u32,
    key_end: u32,
}

impl Fences {
    /// Reads an index block, whose first fence must have the place `first`.
    pub fn decode(block: &Block, first: (&[u8], Sequence)) -> Result<Self, Flaw> {
        const OUT_OF_ORDER: Flaw = Flaw::Damaged("the fences of an index are out of order");
        let mut keys = common_part(block)?;
        let common_bytes = keys.len();
        let (mut prefixes, mut fences, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
        let mut last: Option<(Vec<u8>, Sequence)> = None;
        let mut cursor = BlockCursor::default();
        cursor.seek_first(block)?;
        while let Some(entry) = cursor.entry(block) {
            let place = (entry.key, entry.sequence);
            let (own, prefix) = match &last {
                None if place == first => (entry.key, 0),
                None => break,
                Some(last) if entry::compare((&last.0, last.1), place).is_ge() => return Err(OUT_OF_ORDER),
                Some(_) => {
                    let own = entry.key.strip_prefix(&keys[..common_bytes]).ok_or(OUT_OF_ORDER)?;
                    (own, prefix(own))
                }
            };
            keys.extend_from_slice(own);
            let too_long = |_| Flaw::Damaged("the keys of an index block are too long");
            let key_end = u32::try_from(keys.len()).map_err(too_long)?;
            // No block is much longer than 1 GiB.
            let BlockHandle { offset, bytes, checksum } = BlockHandle::decode(entry.value)?;
            fences.push(Fence { offset, checksum, bytes: bytes as u32, key_end });
            prefixes.push(prefix);
            sequences.push(entry.sequence);
            let (last_key, last_sequence) = last.get_or_insert_default();
            last_key.clear();
            last_key.extend_from_slice(entry.key);
            *last_sequence = entry.sequence;
            cursor.next(block)?;
        }
        if fences.is_empty() {
            return Err(Flaw::Damaged("an index block does not begin with its fence"));
        }
        if sequences.iter().all(|&sequence| sequence == Sequence::MAX) {
            sequences.clear();
        }
        Ok(Self {
            prefixes: prefixes.into(),
            fences: fences.into(),
            keys: keys.into(),
            common_bytes: common_bytes as u32,
            sequences: sequences.into(),
            charge: Charge::default(),
        })
    }

    /// The fences, to be shared; their memory is charged to `part` for as long as anybody has them.
    pub fn shared(mut self, account: &Arc<Account>, part: Part) -> Arc<Self> {
        // With the two counters of the `Arc`.
        self.charge = account.charge(part, self.memory_bytes() + 2 * size_of::<usize>());
        Arc::new(self)
    }

    /// How many there are; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "they are never empty")]
    pub fn len(&self) -> usize {
        self.fences.len()
    }

    /// The last fence at or before a place in entry order; the first one if none is.
    #[inline]
    pub fn floor(&self, key: &[u8], sequence: Sequence) -> usize {
        let common = &self.keys[..self.common_bytes as usize];
        match key[..key.len().min(common.len())].cmp(common) {
            Ordering::Less => 0,
            Ordering::Greater => self.len() - 1,
            Ordering::Equal => {
                let own = &key[common.len()..];
                let prefix = prefix(own);
                let at = 1 + self.prefixes[1..].partition_point(|&other| other < prefix);
                match self.prefixes.get(at) {
                    Some(&other) if other == prefix => self.floor_among_equals(at, own, sequence),
                    _ => at - 1,
                }
            }
        }
    }

    /// As [`Fences::floor`], where the fence at `at` is the first with the prefix of `own`, the key's bytes after the common ones.
    fn floor_among_equals(&self, at: usize, own: &[u8], sequence: Sequence) -> usize {
        let prefix = self.prefixes[at];
        let same = self.prefixes[at..].partition_point(|&other| other == prefix);
        let is_before = |index: usize| entry::compare((self.own(index), self.sequence(index)), (own, sequence)).is_le();
        at - 1 + count_while(same, |i| is_before(at + i))
    }

    /// The sequence of the fence at `index`, if there is such a fence and it falls between versions of `key`.
    #[inline]
    pub fn sequence_of(&self, index: usize, key: &[u8]) -> Option<Sequence> {
        // A fence with `Sequence::MAX` stands before all versions of its key, so none of them is before it.
        if self.sequences.is_empty() || index >= self.len() {
            return None;
        }
        Some(self.sequence(index)).filter(|&sequence| sequence < Sequence::MAX && self.key_is(index, key))
    }

    /// The place of a fence.
    pub fn place(&self, index: usize) -> (Vec<u8>, Sequence) {
        let common = if index == 0 { &[][..] } else { &self.keys[..self.common_bytes as usize] };
        ([common, self.own(index)].concat(), self.sequence(index))
    }

    /// The block that a fence stands for.
    #[inline]
    pub fn handle(&self, index: usize) -> BlockHandle {
        let fence = &self.fences[index];
        BlockHandle { offset: fence.offset, bytes: fence.bytes as usize, checksum: fence.checksum }
    }

    /// The memory they take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.keys.len()
            + size_of_val(&*self.fences)
            + size_of_val(&*self.prefixes)
            + size_of_val(&*self.sequences)
    }

    fn sequence(&self, index: usize) -> Sequence {
        self.sequences.get(index).copied().unwrap_or(Sequence::MAX)
    }

    /// The bytes of a fence's key after the common ones; of the first all of them.
    fn own(&self, index: usize) -> &[u8] {
        let start = if index == 0 { self.common_bytes } else { self.fences[index - 1].key_end };
        &self.keys[start as usize..self.fences[index].key_end as usize]
    }

    fn key_is(&self, index: usize, key: &[u8]) -> bool {
        let common = if index == 0 { &[][..] } else { &self.keys[..self.common_bytes as usize] };
        key.strip_prefix(common).is_some_and(|own| own == self.own(index))
    }
}

/// What the keys of all fences of an index block but the first begin with.
fn common_part(block: &Block) -> Result<Vec<u8>, Flaw> {
    let mut cursor = BlockCursor::default();
    cursor.seek_first(block)?;
    if cursor.stands() {
        cursor.next(block)?;
    }
    let Some(mut second) = cursor.entry(block).map(|fence| fence.key.to_vec()) else { return Ok(Vec::new()) };
    // Fences ascend, so what the second and the last have in common is common to all between.
    cursor.seek_last(block)?;
    second.truncate(cursor.entry(block).map_or(0, |last| common_prefix(&second, last.key)));
    Ok(second)
}

/// The first eight bytes, as a number that orders like them.
#[inline]
fn prefix(own: &[u8]) -> u64 {
    match own.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => own.iter().fold(0, |prefix, &byte| prefix << 8 | u64::from(byte)) << (64 - 8 * own.len().max(1) as u32),
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
        let (key, sequence) = &places[0];
        Fences::decode(&Block::decode(payload).expect("sound"), (key, *sequence)).expect("in order")
    }

    #[test]
    fn an_index_block_must_begin_with_its_fence_and_ascend() {
        let decode = |keys: &[&str], first: &str| {
            let mut builder = BlockBuilder::new(4);
            for key in keys {
                let mut handle = Vec::new();
                BlockHandle { offset: 0, bytes: 100, checksum: 0 }.encode(&mut handle);
                builder.add(&fence_entry(key.as_bytes(), Sequence::MAX, &handle));
            }
            let mut payload = Vec::new();
            builder.finish_into(&mut payload);
            Fences::decode(&Block::decode(payload).expect("sound"), (first.as_bytes(), Sequence::MAX)).is_ok()
        };
        assert!(decode(&["b", "ca", "cb"], "b"));
        assert!(!decode(&["b", "ca", "cb"], "a"));
        assert!(!decode(&["b", "ca", "ca"], "b"));
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
            if round % 2 == 0 {
                // A top index begins with it, a lower block anywhere.
                places.push((vec![], Sequence::MAX));
            }
            places.sort_by(|a, b| entry::compare((&a.0, a.1), (&b.0, b.1)));
            places.dedup();
            let fences = fences(&places);
            sought.extend(places.iter().cloned());
            for (key, sequence) in sought {
                let at_or_before = |p: &&(Vec<u8>, Sequence)| entry::compare((&p.0, p.1), (&key, sequence)).is_le();
                let expected = places.iter().filter(at_or_before).count().saturating_sub(1);
                assert_eq!(fences.floor(&key, sequence), expected, "{key:?} {sequence:?} among {places:?}");
                let after = places.get(expected + 1).filter(|after| after.0 == key && after.1 < Sequence::MAX);
                assert_eq!(fences.sequence_of(expected + 1, &key), after.map(|after| after.1), "{key:?} {places:?}");
            }
            let read: Vec<_> = (0..fences.len()).map(|index| fences.place(index)).collect();
            assert_eq!(read, places);
            assert!((0..fences.len()).all(|index| fences.handle(index).offset == index as u64));
        }
    }
}
