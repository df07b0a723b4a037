//! [`Fences`]: a decoded index block, ready to be searched: the top index of a table, or a lower
//! index block.
//!
//! A search compares integers first ([`Prefixes`](crate::prefixes)), and allocates nothing.
//!
//! The first fence is never compared: a search reaches an index block through the fence of the
//! level above, which is the same one; the first fence of a top index is the smallest place.
//! Decoding checks both.
//!
//! A lookup whose lower index block is not in memory decodes all of its fences. So decoding passes
//! the entries once, assembles keys in one buffer, and allocates a few times however many there
//! are.
//!
//! Memory: 20 bytes per fence, and about one for what the fences of a block share; 0.7 % of the
//! data at data blocks of 3,100 bytes, 0.5 % at blocks of 4,000. Three things take more:
//!
//! * Keys with more than eight bytes beyond what all have in common: the bytes that exceed that,
//!   and 4 bytes for each fence of the block.
//! * Blocks with gaps between them, or over 4 GiB and more: 12 bytes for each fence.
//! * A fence between versions of one key: 8 bytes for each fence, the sequences.
//!
//! | module | contents |
//! |---|---|
//! | `keys` | the keys of fences |
//! | `handles` | the handles of their blocks |

mod handles;
mod keys;

use std::cmp::Ordering;

use handles::Handles;
use keys::FenceKeys;

use crate::block::{Block, MALFORMED, append_front};
use crate::entry::{self, Sequence};
use crate::stored::{BlockHandle, Flaw};

/// The place of the first fence of every top index.
pub const FIRST_PLACE: (&[u8], Sequence) = (&[], Sequence::MAX);

/// The length of a usual fence in a block, in bytes: by it memory is reserved.
const USUAL_FENCE_BYTES: usize = 16;

/// For no more fences memory is reserved at first: a block of few long keys would need much less.
const EXPECTED_MAX: usize = 1 << 12;

const NOT_ITS_FENCE: Flaw = Flaw::Damaged("an index block does not begin with its fence");

/// The fence pointers of an index block, at least one.
#[derive(Debug)]
pub struct Fences {
    keys: FenceKeys,
    handles: Handles,
    /// One for each fence; empty if all are `Sequence::MAX`.
    sequences: Box<[Sequence]>,
}

impl Fences {
    /// Decodes an index block, whose first fence must have the place `first`.
    pub fn decode(block: &Block, first: (&[u8], Sequence)) -> Result<Self, Flaw> {
        let expected = (block.bytes().len() / USUAL_FENCE_BYTES).min(EXPECTED_MAX) + 1;
        // All keys one after the other, and where each of them begins.
        let (mut keys, mut bounds) = (Vec::with_capacity(16 * expected), Vec::with_capacity(expected + 1));
        let (mut handles, mut sequences) = (Vec::with_capacity(expected), Vec::new());
        let (mut at, mut before, mut sequence_before) = (0, 0..0, Sequence::MAX);
        bounds.push(0);
        while let Some(fence) = block.fence(at)? {
            if fence.shared > before.len() {
                return Err(MALFORMED);
            }
            let (kept, rest) = (before.start..before.start + fence.shared, before.start + fence.shared..before.end);
            let order = compare(&keys[rest], fence.suffix());
            if !order.then_with(|| fence.sequence.cmp(&sequence_before)).is_lt() && !handles.is_empty() {
                return Err(Flaw::Damaged("the fences of an index block are out of order"));
            }
            let start = keys.len();
            keys.extend_from_within(kept);
            append_front(&mut keys, fence.suffix_on, fence.suffix_bytes);
            if handles.is_empty() && (&keys[..], fence.sequence) != first {
                return Err(NOT_ITS_FENCE);
            }
            if fence.sequence < Sequence::MAX || !sequences.is_empty() {
                // Usually none is listed; if one is, all are.
                sequences.resize(handles.len(), Sequence::MAX);
                sequences.push(fence.sequence);
            }
            bounds.push(keys.len());
            handles.push(BlockHandle::decode(fence.value)?);
            (at, before, sequence_before) = (fence.end, start..keys.len(), fence.sequence);
        }
        if handles.is_empty() {
            return Err(NOT_ITS_FENCE);
        }
        let keys = FenceKeys::new(&keys, &bounds)?;
        Ok(Self { keys, handles: Handles::new(&handles), sequences: sequences.into() })
    }

    /// The number of fences; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "they are never empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The last fence at or before a place in entry order; the first one if none is.
    #[inline]
    pub fn floor(&self, key: &[u8], sequence: Sequence) -> usize {
        self.keys
            .floor(key, |index, tail, sought| entry::compare((tail, self.sequence(index)), (sought, sequence)).is_le())
    }

    /// Asks for the memory with which [`Fences::floor`] begins.
    #[inline]
    pub fn prefetch(&self) {
        self.keys.prefetch();
    }

    /// The sequence of the fence at `index`, if it exists and falls between versions of `key`.
    #[inline]
    pub fn sequence_of(&self, index: usize, key: &[u8]) -> Option<Sequence> {
        // A fence with `Sequence::MAX` is before all versions of its key, so none of them is before
        // it. Where all have that, none is listed.
        let &sequence = self.sequences.get(index)?;
        (sequence < Sequence::MAX && self.keys.is(index, key)).then_some(sequence)
    }

    /// The place of a fence.
    pub fn place(&self, index: usize) -> (Vec<u8>, Sequence) {
        (self.keys.key(index), self.sequence(index))
    }

    /// The block of a fence.
    #[inline]
    pub fn handle(&self, index: usize) -> BlockHandle {
        self.handles.get(index)
    }

    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.keys.memory_bytes() + self.handles.memory_bytes() + size_of_val(&*self.sequences)
    }

    fn sequence(&self, index: usize) -> Sequence {
        self.sequences.get(index).copied().unwrap_or(Sequence::MAX)
    }
}

/// Compares byte strings, most of which differ in their first byte.
#[inline]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first(), b.first()) {
        (Some(first), Some(other)) if first != other => first.cmp(other),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    //! Tests: fences agree with a plain list of places and handles, for keys that share much and
    //! little, and for blocks anywhere in a file. Ordinary ones take 21 bytes each.

    use tamarack_env::ByteBuffer;
    use tamarack_testing::{Random, seeds};

    use super::*;
    use crate::block::{BlockBuilder, BlockCursor};
    use crate::stored::{PAYLOAD_BYTES_MAX, TRAILER_BYTES};
    use crate::table::{fence, fence_entry};

    type Place = (Vec<u8>, Sequence);

    fn decode(places: &[Place], handles: &[BlockHandle], first: (&[u8], Sequence)) -> Result<Fences, Flaw> {
        Fences::decode(&Block::decode(payload(places, handles)).expect("sound"), first)
    }

    fn payload(places: &[Place], handles: &[BlockHandle]) -> ByteBuffer {
        let mut builder = BlockBuilder::new(4);
        for ((key, sequence), handle) in places.iter().zip(handles) {
            let mut encoded = Vec::new();
            handle.encode(&mut encoded);
            builder.add(&fence_entry(key, *sequence, &encoded));
        }
        let mut payload = ByteBuffer::new();
        builder.finish_into(&mut payload);
        payload
    }

    /// The places and handles of an index block, by a cursor that assembles every entry.
    fn decode_slowly(block: &Block, first: (&[u8], Sequence)) -> Option<Vec<(Place, BlockHandle)>> {
        let (mut fences, mut cursor) = (Vec::<(Place, BlockHandle)>::new(), BlockCursor::default());
        cursor.seek_first(block).ok()?;
        while let Some(entry) = cursor.entry(block) {
            let place = (entry.key.to_vec(), entry.sequence);
            let handle = BlockHandle::decode(entry.value).ok()?;
            if fences.last().is_some_and(|((key, sequence), _)| {
                entry::compare((key, *sequence), (entry.key, entry.sequence)).is_ge()
            }) {
                return None;
            }
            fences.push((place, handle));
            cursor.next(block).ok()?;
        }
        fences.first().is_some_and(|((key, sequence), _)| (&key[..], *sequence) == first).then_some(fences)
    }

    fn fences(places: &[Place], handles: &[BlockHandle]) -> Fences {
        let (key, sequence) = &places[0];
        decode(places, handles, (key, *sequence)).expect("in order")
    }

    /// The handles of `count` blocks of 3,000 bytes or more that follow each other.
    fn adjacent(count: usize, random: &mut Random) -> Vec<BlockHandle> {
        let mut offset = 16;
        let block = |_| {
            let handle = BlockHandle { offset, bytes: 3000 + random.below(1000) as usize, checksum: random.next() };
            offset = handle.end();
            handle
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn an_index_block_must_begin_with_its_fence_and_ascend() {
        let is_sound = |keys: &[&str], first: &str| {
            let places: Vec<_> = keys.iter().map(|key| (key.as_bytes().to_vec(), Sequence::MAX)).collect();
            let handles = adjacent(places.len(), &mut Random::new(1));
            decode(&places, &handles, (first.as_bytes(), Sequence::MAX)).is_ok()
        };
        assert!(is_sound(&["b", "ca", "cb"], "b"));
        assert!(!is_sound(&["b", "ca", "cb"], "a"));
        assert!(!is_sound(&["b", "ca", "ca"], "b"));
    }

    /// A place; many are equal to or begin with others of the same `common` part.
    fn random_place(random: &mut Random, common: &[u8], tail_max: u64) -> Place {
        // Long stretches of one byte: keys that are equal in common part and prefix.
        let stretch = (*random.pick(&[0, b'x']), *random.pick(&[0, 0, 7, 8, 9]));
        let mut key = [common, &vec![stretch.0; stretch.1]].concat();
        key.extend((0..random.below(tail_max + 1)).map(|_| *random.pick(&[0, 1, b'a', 0xFF])));
        let sequence = if random.one_in(2) { Sequence::MAX } else { Sequence(random.below(4)) };
        (key, sequence)
    }

    /// Handles of all sorts: blocks that follow each other or not, near and far, small and huge.
    fn random_handles(random: &mut Random, count: usize) -> Vec<BlockHandle> {
        let bytes_max = *random.pick(&[100, PAYLOAD_BYTES_MAX + TRAILER_BYTES]);
        let gaps = random.one_in(3);
        let anywhere = random.one_in(3);
        let mut offset = *random.pick(&[0, 1 << 40, u64::MAX - (1 << 37)]);
        let block = |_| {
            let bytes = TRAILER_BYTES + random.below((bytes_max - TRAILER_BYTES + 1) as u64) as usize;
            if anywhere {
                offset = random.next() >> random.below(64);
                offset = offset.min(u64::MAX - bytes as u64);
            }
            let handle = BlockHandle { offset, bytes, checksum: random.next() };
            offset = handle.end() + if gaps { random.below(3) } else { 0 };
            handle
        };
        (0..count).map(block).collect()
    }

    #[test]
    fn fences_agree_with_a_plain_list() {
        for seed in seeds(1000) {
            let random = &mut Random::new(seed);
            let common = vec![*random.pick(b"p\0"); random.below(20) as usize];
            let tail_max = *random.pick(&[1, 4, 10, 30]);
            let count = 1 + random.below(60);
            let mut places: Vec<_> = (0..count).map(|_| random_place(random, &common, tail_max)).collect();
            if random.one_in(2) {
                // Without sequences, as nearly all index blocks are.
                places.iter_mut().for_each(|place| place.1 = Sequence::MAX);
            }
            if random.one_in(2) {
                // The smallest place begins a top index; a lower block begins anywhere.
                places.push((vec![], Sequence::MAX));
            }
            places.sort_by(|a, b| entry::compare((&a.0, a.1), (&b.0, b.1)));
            places.dedup();
            let handles = random_handles(random, places.len());
            let fences = fences(&places, &handles);
            assert_eq!(fences.len(), places.len(), "seed {seed}");
            for index in 0..places.len() {
                assert_eq!(fences.place(index), places[index], "seed {seed}: {index} of {places:?}");
                assert_eq!(fences.handle(index), handles[index], "seed {seed}: {index} of {handles:?}");
            }
            let mut sought: Vec<_> = (0..60).map(|_| random_place(random, &common, tail_max)).collect();
            sought.extend([(vec![], Sequence::ZERO), (b"o".to_vec(), Sequence::MAX), (b"q".to_vec(), Sequence::MAX)]);
            sought.extend(places.iter().cloned());
            for (key, sequence) in sought {
                let at_or_before = |p: &&Place| entry::compare((&p.0, p.1), (&key, sequence)).is_le();
                let expected = places.iter().filter(at_or_before).count().saturating_sub(1);
                let context = || format!("seed {seed}: {key:?} {sequence:?} among {places:?}");
                assert_eq!(fences.floor(&key, sequence), expected, "{}", context());
                for index in [expected, expected + 1, random.below(count) as usize, places.len()] {
                    let place = places.get(index).filter(|place| place.0 == key && place.1 < Sequence::MAX);
                    let found = fences.sequence_of(index, &key);
                    assert_eq!(found, place.map(|place| place.1), "{}: fence {index}", context());
                }
            }
        }
    }

    /// Sound blocks, and blocks with changed bytes, decode as a cursor reads them, or not at all.
    #[test]
    fn any_bytes_decode_as_a_cursor_reads_them() {
        let (mut sound, mut damaged) = (0, 0);
        for seed in seeds(3000) {
            let random = &mut Random::new(seed);
            let common = vec![*random.pick(b"p\0"); *random.pick(&[0, 3, 15, 130])];
            let mut places: Vec<_> = (0..1 + random.below(30)).map(|_| random_place(random, &common, 6)).collect();
            if random.one_in(2) {
                places.iter_mut().for_each(|place| place.1 = Sequence::MAX);
            }
            places.sort_by(|a, b| entry::compare((&a.0, a.1), (&b.0, b.1)));
            places.dedup();
            let handles = random_handles(random, places.len());
            let mut payload = payload(&places, &handles);
            for _ in 0..random.below(4) {
                let at = random.below(payload.len() as u64) as usize;
                payload[at] = *random.pick(&[0, 1, 0x7F, 0x80, 0xFF, payload[at] ^ 1]);
            }
            let Ok(block) = Block::decode(payload) else { continue };
            let first = (&places[0].0[..], places[0].1);
            let expected = decode_slowly(&block, first);
            let found = Fences::decode(&block, first).ok();
            *(if expected.is_some() { &mut sound } else { &mut damaged }) += 1;
            let listed = |fences: &Fences| {
                let each = (0..fences.len()).map(|at| (fences.place(at), fences.handle(at)));
                each.collect::<Vec<_>>()
            };
            assert_eq!(found.as_ref().map(listed), expected, "seed {seed}");
        }
        assert!(sound > 500 && damaged > 500, "{sound} sound, {damaged} damaged");
    }

    /// Per fence: eight bytes of its key, and twelve of its handle. What all fences of a block
    /// share is less than a byte for each. If keys are longer, each takes four bytes more, and
    /// those of its own bytes that are beyond the eight.
    #[test]
    fn ordinary_fences_take_21_bytes_each() {
        const FENCES: usize = 200;
        let random = &mut Random::new(1);
        let mut bytes_each = |keys: &[Vec<u8>]| {
            let places: Vec<_> = keys.iter().map(|key| (key.clone(), Sequence::MAX)).collect();
            fences(&places, &adjacent(keys.len(), random)).memory_bytes() as f64 / keys.len() as f64
        };
        // Blocks of three entries, with keys of 24 bytes.
        let keys: Vec<_> = (0..3 * FENCES).map(|at| format!("account:{:016}", 123_456_789 + 97 * at)).collect();
        let first_of = |block: &[String]| fence(Some(block[0].as_bytes()), block[1].as_bytes(), Sequence(1)).0.to_vec();
        let short: Vec<_> = keys[2..].windows(2).step_by(3).map(first_of).collect();
        let short = bytes_each(&short);
        assert!((20.0..=21.0).contains(&short), "{short} bytes");
        // 4 bytes in common, 18 of their own: 10 beyond the eight.
        let long: Vec<_> = (0..FENCES).map(|at| format!("0000{:04}, and so forth", 9 * at).into_bytes()).collect();
        let long = bytes_each(&long);
        assert!((34.0..=35.0).contains(&long), "{long} bytes");
    }
}
