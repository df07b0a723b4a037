//! [`Fences`]: a decoded index block, ready to be searched: the top index of a table, or a lower
//! index block.
//!
//! A search compares integers first ([`Prefixes`]), and allocates nothing.
//!
//! The first fence is never compared: a search reaches an index block through the fence of the
//! level above, which is the same one; the first fence of a top index is the smallest place.
//! Decoding checks both.
//!
//! Memory: 32 bytes per fence, and its key without the common prefix; about 1 % of the data at
//! blocks of 4 KiB. Sequences of fences are kept only if one of them falls between versions of one
//! key.

use crate::block::{Block, BlockCursor};
use crate::entry::{self, Sequence};
use crate::prefixes::Prefixes;
use crate::stored::{BlockHandle, Flaw};

/// The place of the first fence of every top index.
pub const FIRST_PLACE: (&[u8], Sequence) = (&[], Sequence::MAX);

/// The fence pointers of an index block, at least one.
#[derive(Debug)]
pub struct Fences {
    /// The prefixes of the keys of all but the first.
    prefixes: Prefixes,
    fences: Box<[Fence]>,
    /// The key of each fence without the common prefix; of the first the whole key.
    keys: Box<[u8]>,
    /// One for each fence; empty if all are `Sequence::MAX`.
    sequences: Box<[Sequence]>,
}

/// The block of a fence, and where in `keys` the fence's own bytes end.
#[derive(Debug)]
struct Fence {
    offset: u64,
    checksum: u64,
    bytes: u32,
    key_end: u32,
}

impl Fences {
    /// Decodes an index block, whose first fence must have the place `first`.
    pub fn decode(block: &Block, first: (&[u8], Sequence)) -> Result<Self, Flaw> {
        let (mut whole, mut ends, mut handles, mut sequences) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut cursor = BlockCursor::default();
        cursor.seek_first(block)?;
        while let Some(entry) = cursor.entry(block) {
            whole.extend_from_slice(entry.key);
            ends.push(whole.len());
            handles.push(BlockHandle::decode(entry.value)?);
            sequences.push(entry.sequence);
            cursor.next(block)?;
        }
        let key = |at: usize| &whole[if at == 0 { 0 } else { ends[at - 1] }..ends[at]];
        if ends.is_empty() || (key(0), sequences[0]) != first {
            return Err(Flaw::Damaged("an index block does not begin with its fence"));
        }
        let follows = |at: usize| entry::compare((key(at - 1), sequences[at - 1]), (key(at), sequences[at])).is_lt();
        if !(1..ends.len()).all(follows) {
            return Err(Flaw::Damaged("the fences of an index block are out of order"));
        }
        let prefixes = Prefixes::new((1..ends.len()).map(key));
        let (mut keys, mut fences) = (key(0).to_vec(), Vec::with_capacity(ends.len()));
        for (at, handle) in handles.iter().enumerate() {
            if at > 0 {
                keys.extend_from_slice(&key(at)[prefixes.common().len()..]);
            }
            let too_long = |_| Flaw::Damaged("the keys of an index block are too long");
            let key_end = u32::try_from(keys.len()).map_err(too_long)?;
            // No block is much longer than 1 GiB.
            fences.push(Fence {
                offset: handle.offset,
                checksum: handle.checksum,
                bytes: handle.bytes as u32,
                key_end,
            });
        }
        if sequences.iter().all(|&sequence| sequence == Sequence::MAX) {
            sequences.clear();
        }
        let (fences, keys, sequences) = (fences.into(), keys.into(), sequences.into());
        Ok(Self { prefixes, fences, keys, sequences })
    }

    /// The number of fences; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "they are never empty")]
    pub fn len(&self) -> usize {
        self.fences.len()
    }

    /// The last fence at or before a place in entry order; the first one if none is.
    #[inline]
    pub fn floor(&self, key: &[u8], sequence: Sequence) -> usize {
        self.prefixes.partition_point(key, |at| {
            // Where it has a say, `key` has the common prefix as well.
            let own = &key[self.prefixes.common().len()..];
            entry::compare((self.own(at + 1), self.sequence(at + 1)), (own, sequence)).is_le()
        })
    }

    /// The sequence of the fence at `index`, if it exists and falls between versions of `key`.
    #[inline]
    pub fn sequence_of(&self, index: usize, key: &[u8]) -> Option<Sequence> {
        // A fence with `Sequence::MAX` is before all versions of its key, so none of them is before
        // it.
        if self.sequences.is_empty() || index >= self.len() {
            return None;
        }
        Some(self.sequence(index)).filter(|&sequence| {
            sequence < Sequence::MAX && key.strip_prefix(self.common(index)) == Some(self.own(index))
        })
    }

    /// The place of a fence.
    pub fn place(&self, index: usize) -> (Vec<u8>, Sequence) {
        ([self.common(index), self.own(index)].concat(), self.sequence(index))
    }

    /// The block of a fence.
    #[inline]
    pub fn handle(&self, index: usize) -> BlockHandle {
        let fence = &self.fences[index];
        BlockHandle { offset: fence.offset, bytes: fence.bytes as usize, checksum: fence.checksum }
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.prefixes.memory_bytes()
            + self.keys.len()
            + size_of_val(&*self.fences)
            + size_of_val(&*self.sequences)
    }

    fn sequence(&self, index: usize) -> Sequence {
        self.sequences.get(index).copied().unwrap_or(Sequence::MAX)
    }

    /// The key of a fence without the common prefix, if it is not the first.
    #[inline]
    fn own(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.fences[index - 1].key_end };
        &self.keys[start as usize..self.fences[index].key_end as usize]
    }

    /// The common prefix, or nothing for the first fence.
    fn common(&self, index: usize) -> &[u8] {
        if index == 0 { &[] } else { self.prefixes.common() }
    }
}

#[cfg(test)]
mod tests {
    //! Tests: every search agrees with a linear one, on keys that share much and little.

    use tamarack_env::ByteBuffer;

    use super::*;
    use crate::block::BlockBuilder;
    use crate::table::fence_entry;

    fn fences(places: &[(Vec<u8>, Sequence)]) -> Fences {
        let mut builder = BlockBuilder::new(4);
        for (i, (key, sequence)) in places.iter().enumerate() {
            let mut handle = Vec::new();
            BlockHandle { offset: i as u64, bytes: 100, checksum: 0 }.encode(&mut handle);
            builder.add(&fence_entry(key, *sequence, &handle));
        }
        let mut payload = ByteBuffer::new();
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
            let mut payload = ByteBuffer::new();
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
                // The smallest place begins a top index; a lower block begins anywhere.
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
