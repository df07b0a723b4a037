//! A block as it stands in a table file: its payload, perhaps compressed, and a trailer.
//!
//! ```text
//! │ body                                          │ compression │ checksum │
//! │ the payload, or its length and it compressed  │ 1 byte      │ 8 bytes  │
//! ```
//!
//! The checksum covers the body and the compression byte, and is seeded with the file and the
//! offset where the block begins. Whatever points to a block holds its [`BlockHandle`]: offset,
//! length and the same checksum. So a reader compares three values, and a block that an old write
//! left behind, or that belongs elsewhere, is noticed although it is whole.
//!
//! A compressed body begins with the payload's length as a varint. That length is believed only as
//! far as the method could have expanded the bytes that follow, so no input makes a reader allocate
//! much more than it was given.

use std::ops::Deref;

use tamarack_env::ByteBuffer;

use crate::checksum::Place;
use crate::coding::{Reader, close_gaps, put_varint};

/// The bytes after the body: compression and checksum.
pub const TRAILER_BYTES: usize = 9;

/// No payload is longer: room for the largest entry (a value of 1 GiB, a key of 64 KiB) and what
/// surrounds it in a block.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 30) + (1 << 20);

/// The length from which samples tell whether a payload shrinks, in bytes.
const SAMPLED_BYTES_MIN: usize = 1 << 20;

/// The length of a sample, in bytes: twice the distance at which LZ4 finds repetitions.
const SAMPLE_BYTES: usize = 128 << 10;

/// The number of samples, from the beginning of a payload to its end.
const SAMPLES: usize = 8;

const TAG_NONE: u8 = 0;
const TAG_LZ4: u8 = 1;
const TAG_ZSTD: u8 = 2;

/// How blocks are compressed. A block that would not shrink by an eighth is stored as it is; of a
/// block of more than 1 MiB, eight samples of 128 KiB tell, and it is tried if one of them shrinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4: fast. Needs the feature `lz4` (on by default).
    Lz4,
    /// Zstandard: smaller. Needs the feature `zstd`.
    Zstd {
        /// 1 (fast) to 22 (small); 3 is usual.
        level: i32,
    },
}

impl Compression {
    /// The number that blocks compressed so have in their trailers.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::None => TAG_NONE,
            Self::Lz4 => TAG_LZ4,
            Self::Zstd { .. } => TAG_ZSTD,
        }
    }

    /// The compression with that number, and that level if it has levels; `None` if it is no known
    /// one.
    pub(crate) fn of_number(number: u8, level: Option<i32>) -> Option<Self> {
        match (number, level) {
            (TAG_LZ4, None) => Some(Self::Lz4),
            (TAG_ZSTD, Some(level)) => Some(Self::Zstd { level }),
            _ => None,
        }
    }

    /// The one of both that usually makes blocks smaller: Zstandard (with the higher level), LZ4,
    /// none.
    #[must_use]
    pub fn stronger_of(self, other: Self) -> Self {
        let rank = |compression: Self| match compression {
            Self::Zstd { level } => (compression.number(), level),
            Self::None | Self::Lz4 => (compression.number(), 0),
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// True if this build can compress and read blocks so.
    pub fn is_available(self) -> bool {
        match self {
            Self::None => true,
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd { .. } => cfg!(feature = "zstd"),
        }
    }
}

/// What a decoder found wrong with bytes. The reader, who knows file and offset, makes an error of
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// They are not what a writer wrote.
    Damaged(&'static str),
    /// They need something that this build lacks.
    Unsupported(&'static str),
    /// They are of another format version: which.
    OtherVersion(u32),
}

/// Where a block stands, and what it must contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockHandle {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length there, trailer included. At most [`PAYLOAD_BYTES_MAX`] + [`TRAILER_BYTES`].
    pub bytes: usize,
    /// The checksum in its trailer.
    pub checksum: u64,
}

impl BlockHandle {
    /// Where the block ends in the file.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes as u64
    }

    /// Appends the handle: offset and length as varints, checksum in 8 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.bytes as u64);
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// Reads what [`BlockHandle::encode`] wrote, to the end of `bytes`.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, Flaw> {
        match Self::short_parts(bytes) {
            Some((offset, length, checksum)) => Self::new(offset, length, checksum),
            None => Self::decode_any(bytes),
        }
    }

    /// The parts of most handles: those whose offset and length have eight bytes together. `None`
    /// for others.
    #[inline]
    fn short_parts(bytes: &[u8]) -> Option<(u64, u64, u64)> {
        let numbers_bytes = bytes.len().checked_sub(8).filter(|bytes| (2..=8).contains(bytes))? as u32;
        let (word, checksum) = (u64::from_le_bytes(*bytes.first_chunk()?), u64::from_le_bytes(*bytes.last_chunk()?));
        // Each number ends with the first byte without a high bit.
        let ends = !word & 0x8080_8080_8080_8080;
        let (offset_ends, length_ends) = (ends, ends & ends.wrapping_sub(1));
        let offset_bytes = offset_ends.trailing_zeros() / 8 + 1;
        if length_ends.trailing_zeros() / 8 + 1 != numbers_bytes {
            return None;
        }
        let length_bytes = numbers_bytes - offset_bytes;
        let offset = word & (u64::MAX >> (64 - 8 * offset_bytes));
        let length = word >> (8 * offset_bytes) & (u64::MAX >> (64 - 8 * length_bytes));
        // A last byte of zero would be longer than needed.
        let is_shortest = |number: u64, bytes: u32| bytes == 1 || number >> (8 * (bytes - 1)) > 0;
        let is_sound = is_shortest(offset, offset_bytes) && is_shortest(length, length_bytes);
        is_sound.then(|| (close_gaps(offset), close_gaps(length), checksum))
    }

    #[cold]
    #[inline(never)]
    fn decode_any(bytes: &[u8]) -> Result<Self, Flaw> {
        let mut reader = Reader::new(bytes);
        let parts = (reader.varint(), reader.varint(), reader.u64());
        let (Some(offset), Some(length), Some(checksum)) = parts else {
            return Err(Flaw::Damaged("a block's location is cut short"));
        };
        if !reader.is_empty() {
            return Err(Flaw::Damaged("a block's location has bytes left over"));
        }
        Self::new(offset, length, checksum)
    }

    /// A handle, if the numbers are possible at all.
    #[inline]
    pub fn new(offset: u64, length: u64, checksum: u64) -> Result<Self, Flaw> {
        let too_long = length > (PAYLOAD_BYTES_MAX + TRAILER_BYTES) as u64;
        if too_long || length < TRAILER_BYTES as u64 || offset.checked_add(length).is_none() {
            return Err(Flaw::Damaged("a block's location is impossible"));
        }
        Ok(Self { offset, bytes: length as usize, checksum })
    }
}

/// Turns payloads into stored blocks. Keeps its buffers from block to block.
pub struct BlockEncoder {
    place: Place,
    compressed: ByteBuffer,
    #[cfg(feature = "lz4")]
    lz4: lz4_flex::block::CompressTable,
}

impl std::fmt::Debug for BlockEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockEncoder").field("place", &self.place).finish_non_exhaustive()
    }
}

impl BlockEncoder {
    /// For blocks of the file at `place`.
    pub fn new(place: Place) -> Self {
        Self {
            place,
            compressed: ByteBuffer::new(),
            #[cfg(feature = "lz4")]
            lz4: lz4_flex::block::CompressTable::default(),
        }
    }

    /// Makes the stored block out of `payload`, in place: compresses it if that pays, and appends
    /// the trailer. The block must then be written at `offset`.
    pub fn finish_block(&mut self, payload: &mut ByteBuffer, compression: Compression, offset: u64) -> BlockHandle {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a block of {} bytes", payload.len());
        let mut tag = TAG_NONE;
        let pays = self.may_pay(payload, compression) && {
            tag = self.compress(payload, compression);
            self.pays(payload.len(), tag)
        };
        if pays {
            std::mem::swap(payload, &mut self.compressed);
        }
        payload.push(if pays { tag } else { TAG_NONE });
        let checksum = self.place.checksum(offset, payload);
        payload.extend_from_slice(&checksum.to_le_bytes());
        BlockHandle { offset, bytes: payload.len(), checksum }
    }

    /// Leaves the compressed body in `self.compressed` and gives its tag.
    fn compress(&mut self, payload: &[u8], compression: Compression) -> u8 {
        match compression {
            Compression::None => TAG_NONE,
            Compression::Lz4 => self.lz4(payload),
            Compression::Zstd { level } => self.zstd(payload, level),
        }
    }

    /// Returns true if what was compressed last is at least an eighth smaller than its
    /// `payload_bytes`.
    fn pays(&self, payload_bytes: usize, tag: u8) -> bool {
        tag != TAG_NONE && self.compressed.len() <= payload_bytes - payload_bytes / 8
    }

    /// Returns false for a large payload of which samples do not shrink: compressing takes its size
    /// once more, in memory.
    fn may_pay(&mut self, payload: &[u8], compression: Compression) -> bool {
        if payload.len() <= SAMPLED_BYTES_MIN {
            return true;
        }
        let samples = (0..SAMPLES).map(|number| (payload.len() - SAMPLE_BYTES) / (SAMPLES - 1) * number);
        samples.map(|from| &payload[from..][..SAMPLE_BYTES]).any(|sample| {
            let tag = self.compress(sample, compression);
            self.pays(sample.len(), tag)
        })
    }

    /// The memory that it holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.compressed.capacity()
    }

    /// Gives back what it holds beyond `kept_bytes`.
    pub fn shrink(&mut self, kept_bytes: usize) {
        self.compressed.clear();
        self.compressed.shrink_to(kept_bytes);
    }

    /// Leaves the compressed body in `self.compressed` and gives its tag.
    #[cfg(feature = "lz4")]
    fn lz4(&mut self, payload: &[u8]) -> u8 {
        use lz4_flex::block::{compress_into_with_table, get_maximum_output_size};
        self.compressed.clear();
        put_varint(&mut self.compressed, payload.len() as u64);
        let header = self.compressed.len();
        self.compressed.resize(header + get_maximum_output_size(payload.len()), 0);
        let written = compress_into_with_table(payload, &mut self.compressed[header..], &mut self.lz4)
            .expect("the output has room for the worst case");
        self.compressed.truncate(header + written);
        TAG_LZ4
    }

    #[cfg(not(feature = "lz4"))]
    fn lz4(&mut self, _: &[u8]) -> u8 {
        panic!("this build has no LZ4; Compression::is_available was not asked")
    }

    /// Leaves the compressed body in `self.compressed` and gives its tag.
    #[cfg(feature = "zstd")]
    fn zstd(&mut self, payload: &[u8], level: i32) -> u8 {
        self.compressed.clear();
        put_varint(&mut self.compressed, payload.len() as u64);
        match zstd::bulk::compress(payload, level) {
            Ok(body) => {
                self.compressed.extend_from_slice(&body);
                TAG_ZSTD
            }
            // Compression is a courtesy: a block that cannot be compressed is stored as it is.
            Err(_) => TAG_NONE,
        }
    }

    #[cfg(not(feature = "zstd"))]
    fn zstd(&mut self, _: &[u8], _: i32) -> u8 {
        panic!("this build has no Zstandard; Compression::is_available was not asked")
    }
}

/// The bytes of a stored block.
#[derive(Debug)]
pub enum StoredBytes<'a> {
    /// Part of what a reader has.
    Borrowed(&'a [u8]),
    /// Read for this purpose.
    Owned(ByteBuffer),
}

impl Deref for StoredBytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Checks the stored block that `handle` points to and gives its payload: borrowed bytes are
/// copied, owned ones reused.
pub fn open_block(stored: StoredBytes<'_>, place: Place, handle: &BlockHandle) -> Result<ByteBuffer, Flaw> {
    let (tag, body_bytes) = check(&stored, place, handle)?;
    match stored {
        StoredBytes::Owned(mut bytes) if tag == TAG_NONE => {
            bytes.truncate(body_bytes);
            Ok(bytes)
        }
        stored => {
            let mut payload = ByteBuffer::new();
            decompress(tag, &stored[..body_bytes], &mut payload)?;
            Ok(payload)
        }
    }
}

/// As [`open_block`], but puts the payload into `payload`, in the place of what it holds: for
/// readers of many blocks one after the other.
pub fn open_block_into(
    stored: &[u8],
    place: Place,
    handle: &BlockHandle,
    payload: &mut ByteBuffer,
) -> Result<(), Flaw> {
    let (tag, body_bytes) = check(stored, place, handle)?;
    decompress(tag, &stored[..body_bytes], payload)
}

/// Checks a stored block. Gives the tag of its compression and the length of its body.
fn check(stored: &[u8], place: Place, handle: &BlockHandle) -> Result<(u8, usize), Flaw> {
    let Some(body_bytes) = stored.len().checked_sub(TRAILER_BYTES).filter(|_| stored.len() == handle.bytes) else {
        return Err(Flaw::Damaged("a block is shorter than its index entry says"));
    };
    let (checked, trailer) = stored.split_at(body_bytes + 1);
    let checksum = place.checksum(handle.offset, checked);
    if trailer != checksum.to_le_bytes() {
        return Err(Flaw::Damaged("a block does not have its checksum"));
    }
    if handle.checksum != checksum {
        return Err(Flaw::Damaged("a block is whole but not the one its index entry means: stale or misdirected"));
    }
    Ok((checked[body_bytes], body_bytes))
}

/// Finds blocks in a file whose index is lost: by the length at which the bytes from some offset on
/// have their checksum. In bytes that are no blocks each possible length costs a checksum, so it
/// gives up after many of them, later the more it has found.
#[derive(Debug)]
pub struct Search<'a> {
    file: &'a [u8],
    place: Place,
    checksums_left: u64,
    /// How far it looks for the end of a block of which it does not know that it begins there.
    reach: u64,
}

impl<'a> Search<'a> {
    /// Searches `file`, whose checksums are bound to `place`.
    pub fn new(file: &'a [u8], place: Place) -> Self {
        Self { file, place, checksums_left: SEARCH_CHECKSUMS, reach: SEARCH_REACH_MAX }
    }

    /// True if it has given up. From then on it finds nothing.
    pub fn is_exhausted(&self) -> bool {
        self.checksums_left == 0
    }

    /// A block was found, by whomever. Most blocks of a table are about as long.
    pub fn found(&mut self, block: &BlockHandle) {
        let reach = (2 * block.bytes as u64 + SEARCH_REACH_MIN).min(SEARCH_REACH_MAX);
        self.reach = if self.reach == SEARCH_REACH_MAX { reach } else { self.reach.max(reach) };
        self.checksums_left = (self.checksums_left + SEARCH_CHECKSUMS / 4).min(SEARCH_CHECKSUMS_MAX);
    }

    /// The block that begins at `offset` and ends at or before `end`, if there is one.
    pub fn block_at(&mut self, offset: u64, end: u64) -> Option<BlockHandle> {
        let end = usize::try_from(end).ok()?.min(self.file.len());
        let bytes = self.file.get(usize::try_from(offset).ok()?..end)?;
        // No key of no bytes with a kind of 0, and no compressed payload of no bytes: so no block
        // begins like this, but zeroed space does.
        if bytes.starts_with(&[0, 0, 0]) {
            return None;
        }
        let mut running = self.place.running(offset);
        let (mut tag_at, mut added) = (0, 0);
        while tag_at + TRAILER_BYTES <= bytes.len() {
            // A checksum of zero is as unlikely as any other, and zeroed space is not.
            if bytes[tag_at..].starts_with(&[0; 16]) {
                tag_at += 8;
                continue;
            }
            if bytes[tag_at] > TAG_ZSTD || bytes[tag_at + 1..].starts_with(&[0; 8]) {
                tag_at += 1;
                continue;
            }
            self.checksums_left = self.checksums_left.checked_sub(1)?;
            running.add(&bytes[added..=tag_at]);
            added = tag_at + 1;
            let checksum = running.checksum();
            if bytes[added..].starts_with(&checksum.to_le_bytes()) {
                return BlockHandle::new(offset, (tag_at + TRAILER_BYTES) as u64, checksum).ok();
            }
            tag_at += 1;
        }
        None
    }

    /// The next block that begins after `offset` and ends at or before `end`. One that is much
    /// longer than those found so far is not found.
    pub fn block_after(&mut self, offset: u64, end: u64) -> Option<BlockHandle> {
        let mut offset = offset + 1;
        while offset < end && !self.is_exhausted() {
            if let Some(found) = self.block_at(offset, end.min(offset.saturating_add(self.reach))) {
                return Some(found);
            }
            offset += 1;
        }
        None
    }
}

/// The bounds of a search's reach, in bytes.
const SEARCH_REACH_MIN: u64 = 1 << 10;
const SEARCH_REACH_MAX: u64 = 64 << 10;

/// The checksums after which a search that finds nothing gives up, and after which any does: a
/// tenth of a second, and a second.
const SEARCH_CHECKSUMS: u64 = 1 << 20;
const SEARCH_CHECKSUMS_MAX: u64 = 1 << 23;

/// What people call the compression with that tag.
pub(super) fn name_of_tag(tag: u8) -> &'static str {
    match tag {
        TAG_NONE => "none",
        TAG_LZ4 => "lz4",
        TAG_ZSTD => "zstd",
        _ => "unknown",
    }
}

/// Puts the payload that a body was made of into `payload`, in the place of what it holds.
fn decompress(tag: u8, body: &[u8], payload: &mut ByteBuffer) -> Result<(), Flaw> {
    match tag {
        TAG_NONE => {
            payload.clear();
            payload.extend_from_slice(body);
            Ok(())
        }
        TAG_LZ4 => decompress_lz4(body, payload),
        TAG_ZSTD => decompress_zstd(body, payload),
        _ => Err(Flaw::Unsupported("a block is compressed by a method that this version does not know")),
    }
}

/// The payload's length and its compressed bytes, if the method could have made so much of so
/// little.
#[cfg(any(feature = "lz4", feature = "zstd"))]
fn claimed_length(body: &[u8], expansion_max: usize) -> Result<(usize, &[u8]), Flaw> {
    let mut reader = Reader::new(body);
    let length = reader.varint().and_then(|length| usize::try_from(length).ok());
    let compressed = reader.rest();
    let possible = compressed.len().saturating_mul(expansion_max).min(PAYLOAD_BYTES_MAX);
    match length {
        Some(length) if length <= possible => Ok((length, compressed)),
        _ => Err(Flaw::Damaged("a compressed block claims an impossible length")),
    }
}

#[cfg(feature = "lz4")]
fn decompress_lz4(body: &[u8], payload: &mut ByteBuffer) -> Result<(), Flaw> {
    // One byte of LZ4 stands for at most 255.
    let (length, compressed) = claimed_length(body, 255)?;
    payload.resize(length, 0);
    match lz4_flex::block::decompress_into(compressed, payload) {
        Ok(written) if written == length => Ok(()),
        _ => Err(Flaw::Damaged("a block cannot be decompressed")),
    }
}

#[cfg(not(feature = "lz4"))]
fn decompress_lz4(_: &[u8], _: &mut ByteBuffer) -> Result<(), Flaw> {
    Err(Flaw::Unsupported("a block is compressed by LZ4, and this build lacks the feature `lz4`"))
}

#[cfg(feature = "zstd")]
fn decompress_zstd(body: &[u8], payload: &mut ByteBuffer) -> Result<(), Flaw> {
    // Four bytes of Zstandard (a block header and one byte repeated) stand for at most 128 KiB.
    let (length, compressed) = claimed_length(body, 32 << 10)?;
    match zstd::bulk::decompress(compressed, length) {
        Ok(decompressed) if decompressed.len() == length => {
            *payload = decompressed.into();
            Ok(())
        }
        _ => Err(Flaw::Damaged("a block cannot be decompressed")),
    }
}

#[cfg(not(feature = "zstd"))]
fn decompress_zstd(_: &[u8], _: &mut ByteBuffer) -> Result<(), Flaw> {
    Err(Flaw::Unsupported("a block is compressed by Zstandard, and this build lacks the feature `zstd`"))
}

#[cfg(test)]
mod tests {
    //! Stored blocks come back for every method; anything else about them is refused.

    use tamarack_testing::Random;

    use super::*;
    use crate::checksum::FileKind;

    fn methods() -> impl Iterator<Item = Compression> {
        [Compression::None, Compression::Lz4, Compression::Zstd { level: 3 }].into_iter().filter(|c| c.is_available())
    }

    fn place() -> Place {
        Place::new(1, FileKind::Table, 2)
    }

    /// Handles of every size, and damaged ones: short ones are read at once, with the same result.
    #[test]
    fn short_handles_are_read_as_others_are() {
        let random = &mut Random::new(1);
        let mut short = 0;
        for _ in 0..20_000 {
            let offset = random.next() >> (1 + random.below(63));
            let bytes = TRAILER_BYTES + (random.below(1 << 30) >> random.below(30)) as usize;
            let handle = BlockHandle { offset, bytes, checksum: random.next() };
            let mut encoded = Vec::new();
            handle.encode(&mut encoded);
            assert_eq!(BlockHandle::decode(&encoded), Ok(handle));
            short += u32::from(BlockHandle::short_parts(&encoded).is_some());
            for _ in 0..random.below(4) {
                let at = random.below(encoded.len() as u64) as usize;
                match random.below(4) {
                    0 => encoded[at] = *random.pick(&[0, 0x80, 0xFF]),
                    1 => encoded[at] ^= 1 << random.below(8),
                    2 => drop(encoded.remove(at)),
                    _ => encoded.insert(at, *random.pick(&[0, 1, 0x80])),
                }
            }
            assert_eq!(BlockHandle::decode(&encoded), BlockHandle::decode_any(&encoded), "{encoded:x?}");
        }
        assert!(short > 5_000, "{short} handles are short");
    }

    #[test]
    fn payloads_come_back_by_every_method() {
        let mut reused = ByteBuffer::from(&b"what the block before had"[..]);
        let noise: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 13) as u8).collect();
        for payload in [vec![], b"x".to_vec(), vec![7; 100_000], noise].map(ByteBuffer::from) {
            for method in methods() {
                let mut stored = payload.clone();
                let handle = BlockEncoder::new(place()).finish_block(&mut stored, method, 4096);
                assert!(stored.len() <= payload.len() + TRAILER_BYTES, "{method:?}");
                assert_eq!(open_block(StoredBytes::Borrowed(&stored), place(), &handle), Ok(payload.clone()));
                assert_eq!(open_block_into(&stored, place(), &handle, &mut reused), Ok(()));
                assert_eq!(reused, payload, "{method:?}");
                assert_eq!(open_block(StoredBytes::Owned(stored), place(), &handle), Ok(payload.clone()));
            }
        }
    }

    /// A large block of noise takes no memory for a compressed copy. One with a sample that shrinks
    /// is compressed, if that pays in the end.
    #[test]
    fn samples_tell_whether_a_large_block_shrinks() {
        const BYTES: usize = 4 << 20;
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(BYTES)
        .collect();
        for method in methods().filter(|method| *method != Compression::None) {
            for (zeros_from, shrinks) in [(BYTES, false), (BYTES - SAMPLE_BYTES, false), (BYTES / 2, true), (0, true)] {
                let mut payload = noise.clone();
                payload[zeros_from..].fill(0);
                let mut stored = ByteBuffer::from(payload.clone());
                let mut encoder = BlockEncoder::new(place());
                let handle = encoder.finish_block(&mut stored, method, 4096);
                assert_eq!(stored.len() < BYTES, shrinks, "{method:?}, zeros from {zeros_from}");
                let is_noise = zeros_from == BYTES;
                assert!(!is_noise || encoder.memory_bytes() <= 2 * SAMPLE_BYTES, "{} bytes", encoder.memory_bytes());
                assert_eq!(open_block(StoredBytes::Owned(stored), place(), &handle), Ok(ByteBuffer::from(payload)));
            }
        }
    }

    #[test]
    fn a_whole_block_is_refused_where_it_does_not_belong() {
        let mut stored = ByteBuffer::from(&b"payload"[..]);
        let handle = BlockEncoder::new(place()).finish_block(&mut stored, Compression::None, 4096);
        let elsewhere = BlockHandle { offset: 8192, ..handle };
        let newer = BlockHandle { checksum: handle.checksum + 1, ..handle };
        let other_file = Place::new(1, FileKind::Table, 3);
        assert!(open_block(StoredBytes::Borrowed(&stored), place(), &elsewhere).is_err());
        assert!(open_block(StoredBytes::Borrowed(&stored), place(), &newer).is_err());
        assert!(open_block(StoredBytes::Borrowed(&stored), other_file, &handle).is_err());
    }

    #[test]
    fn a_compressed_block_cannot_claim_more_than_its_bytes_could_become() {
        for (tag, expansion) in [(TAG_LZ4, 255u64), (TAG_ZSTD, 32 << 10)] {
            let mut stored = ByteBuffer::new();
            put_varint(&mut stored, 10 * expansion + 1);
            stored.extend_from_slice(&[0; 10]);
            stored.push(tag);
            let checksum = place().checksum(0, &stored);
            stored.extend_from_slice(&checksum.to_le_bytes());
            let handle = BlockHandle { offset: 0, bytes: stored.len(), checksum };
            let answer = open_block(StoredBytes::Owned(stored), place(), &handle);
            assert!(
                matches!(
                    answer,
                    Err(Flaw::Damaged("a compressed block claims an impossible length") | Flaw::Unsupported(_))
                ),
                "{answer:?}"
            );
        }
    }
}
