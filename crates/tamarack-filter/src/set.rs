//! [`DigestSet`]: the digests of a table's keys, kept small, so that its filter can be rebuilt
//! without
//! reading a key: larger, smaller, or of another kind; and [`DigestChunks`], by which the digests
//! of an
//! interval are read alone.
//!
//! # Which bits are kept
//!
//! The 48 high bits of every digest, whatever the table's size, so that the same bits of a key can
//! be
//! looked up in anything that is made of the digests of several tables. Two keys agree in them with
//! a
//! probability of 2⁻⁴⁸. What is made of a set must be asked with the same bits only
//! ([`Filter`](crate::Filter) sees to that).
//!
//! # How
//!
//! ```text
//! set    │ version u8 │ c u8 │ n u64 │ list │ checksum u64 │ chunk 0 │ chunk 1 │ …
//! list   2^c × (end u32, digests u32, checksum u32)
//! chunk  │ m + 2^h bits, whole bytes │ m × (48 − c − h) bits, whole bytes │
//!        h = ⌈log₂ m⌉; nothing if m = 0; ends count from the beginning of chunk 0
//! ```
//!
//! The `c` highest bits of a digest say which **chunk** it stands in; their number is such that a
//! chunk has
//! about 512 to 1,024 digests. Within a chunk the next `h` bits are numbers that never fall,
//! written in
//! unary (Elias and Fano): for each value as many ones as digests have it, then a zero. The bits
//! below follow, packed. Numbers are little-endian, bits of a byte from the low end.
//!
//! Each chunk has a checksum of its own, which stands in the list, and the list has one; both are
//! XXH3-64
//! with a seed that belongs to the table (of a chunk the low half, with the chunk's number plus 1
//! xored into the seed). So
//! a reader of some chunks checks what it reads.
//!
//! Size: `48 − log₂ n + 2` bits for each key, and 0.1 to 0.2 for the list: 31 for a table of
//! 580,000
//! keys, 35 for one of 40,000 (a test holds that).
//!
//! One set has one encoding; any other bytes are refused. Cost: making one sorts the digests;
//! reading
//! one is a pass over its bytes.

use std::fmt;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::digest::Digest;

const VERSION: u8 = 2;
const HEADER_BYTES: usize = 10;
const ITEM_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 8;

/// The high bits of a digest that are kept.
const KEPT_BITS: u32 = 48;
const LOST_BITS: u32 = u64::BITS - KEPT_BITS;

/// Chunks are halved while they have more digests than this on the mean.
const CHUNK_DIGESTS: u64 = 1024;

/// Digests of the keys of a table, in ascending order, without the bits that are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestSet {
    digests: Vec<Digest>,
}

/// Where the chunks of a set stand in its bytes: enough to read the digests of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestChunks {
    chunks: Vec<ListItem>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListItem {
    /// Where it ends, from the beginning of the first one.
    end: u32,
    digests: u32,
    checksum: u32,
}

/// What is wrong with bytes that are no set of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// Fewer bytes than a header has.
    TooShort(usize),
    /// A format that this version does not know.
    UnknownVersion(u8),
    /// A number of chunks that does not go with the number of digests.
    Chunks(u8),
    /// More or fewer bytes than so many digests take.
    Length(usize),
    /// The list of chunks does not have its checksum.
    List,
    /// This chunk does not have its checksum.
    Chunk(usize),
    /// The high bits are of more digests, or of fewer, or do not end where they must.
    Unary,
    /// Two digests stand in the wrong order.
    Order,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort(bytes) => write!(f, "a set of digests has at least {HEADER_BYTES} bytes, these are {bytes}"),
            Self::UnknownVersion(version) => write!(f, "version {version} of sets of digests is not known"),
            Self::Chunks(bits) => write!(f, "so many digests do not have 2^{bits} chunks"),
            Self::Length(bytes) => write!(f, "so many digests do not take {bytes} bytes"),
            Self::List => f.write_str("the list of chunks does not have its checksum"),
            Self::Chunk(chunk) => write!(f, "chunk {chunk} does not have its checksum"),
            Self::Unary => f.write_str("the high bits of digests are malformed"),
            Self::Order => f.write_str("digests are not in order"),
        }
    }
}

impl std::error::Error for SetError {}

impl DigestSet {
    /// Ones where bits are kept.
    pub const MASK: u64 = u64::MAX << LOST_BITS;

    /// The set of these, in any order. Digests that come twice count twice, as they do for filters.
    pub fn new(mut digests: Vec<Digest>) -> Self {
        digests.iter_mut().for_each(|digest| *digest = digest.masked(Self::MASK));
        digests.sort_unstable();
        Self { digests }
    }

    /// Its digests, in order, with cleared low bits.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// As bytes, whose checksums have that seed.
    pub fn encode(&self, seed: u64) -> Vec<u8> {
        let chunk_bits = chunk_bits_of(self.digests.len() as u64);
        let mut bytes = vec![VERSION, chunk_bits as u8];
        bytes.extend_from_slice(&(self.digests.len() as u64).to_le_bytes());
        let (mut list, mut chunks) = (Vec::new(), Vec::new());
        let mut left = &self.digests[..];
        for number in 0..1_usize << chunk_bits {
            let (own, rest) = left.split_at(left.partition_point(|digest| chunk_of(*digest, chunk_bits) <= number));
            left = rest;
            let start = chunks.len();
            encode_chunk(own, chunk_bits, &mut chunks);
            let end = u32::try_from(chunks.len()).expect("a set of less than 4 GiB");
            let checksum = chunk_checksum(seed, number, &chunks[start..]);
            [end, own.len() as u32, checksum].iter().for_each(|field| list.extend_from_slice(&field.to_le_bytes()));
        }
        bytes.extend(list);
        bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, seed).to_le_bytes());
        bytes.extend(chunks);
        bytes
    }

    /// The set that these bytes are, of which the checksums have that seed. Takes eight bytes for
    /// each digest.
    ///
    /// # Errors
    /// If they are not the bytes of a set, all of them.
    pub fn decode(bytes: &[u8], seed: u64) -> Result<Self, SetError> {
        let chunks = DigestChunks::decode(bytes, seed)?;
        if chunks.bytes(0..chunks.count()).end != bytes.len() {
            return Err(SetError::Length(bytes.len()));
        }
        let mut digests = Vec::new();
        for chunk in 0..chunks.count() {
            chunks.read(chunk, &bytes[chunks.bytes(chunk..chunk + 1)], &mut digests)?;
        }
        Ok(Self { digests })
    }
}

impl DigestChunks {
    /// How many bytes from the beginning of a set are needed for [`DigestChunks::decode`], by its
    /// first 10 bytes.
    ///
    /// # Errors
    /// If no set begins like this.
    pub fn list_bytes(header: &[u8]) -> Result<usize, SetError> {
        let header = header.first_chunk::<HEADER_BYTES>().ok_or(SetError::TooShort(header.len()))?;
        let [version, chunk_bits, count @ ..] = *header;
        match version {
            VERSION if u32::from(chunk_bits) != chunk_bits_of(u64::from_le_bytes(count)) => {
                Err(SetError::Chunks(chunk_bits))
            }
            VERSION => {
                let list = 1_usize.checked_shl(chunk_bits.into()).and_then(|chunks| chunks.checked_mul(ITEM_BYTES));
                list.map(|list| HEADER_BYTES + list + CHECKSUM_BYTES).ok_or(SetError::Chunks(chunk_bits))
            }
            other => Err(SetError::UnknownVersion(other)),
        }
    }

    /// The list of chunks of the set that `bytes` are, or begin with.
    ///
    /// # Errors
    /// If they are damaged, or fewer than [`DigestChunks::list_bytes`].
    pub fn decode(bytes: &[u8], seed: u64) -> Result<Self, SetError> {
        let front = bytes.get(..Self::list_bytes(bytes)?).ok_or(SetError::Length(bytes.len()))?;
        let (checked, checksum) = front.split_last_chunk::<CHECKSUM_BYTES>().expect("longer than its checksum");
        if u64::from_le_bytes(*checksum) != xxh3_64_with_seed(checked, seed) {
            return Err(SetError::List);
        }
        let numbers = checked[HEADER_BYTES..].as_chunks::<4>().0;
        let chunks = numbers.as_chunks::<3>().0.iter().map(|item| {
            let [end, digests, checksum] = item.map(u32::from_le_bytes);
            ListItem { end, digests, checksum }
        });
        let this = Self { chunks: chunks.collect(), seed };
        let count = u64::from_le_bytes(checked[2..HEADER_BYTES].try_into().expect("eight bytes"));
        let mut end = 0;
        for chunk in &this.chunks {
            // What the digests take, which so are not more than there are bytes for.
            let (unary, lows) = chunk_bytes(chunk.digests as usize, this.chunk_bits());
            end += (unary + lows) as u64;
            if u64::from(chunk.end) != end {
                return Err(SetError::Length(bytes.len()));
            }
        }
        let digests: u64 = this.chunks.iter().map(|chunk| u64::from(chunk.digests)).sum();
        if digests == count { Ok(this) } else { Err(SetError::Length(bytes.len())) }
    }

    /// How many chunks there are; at least 1.
    pub fn count(&self) -> usize {
        self.chunks.len()
    }

    /// The chunks that digests from `first` to `last`, inclusive, stand in.
    pub fn of_interval(&self, first: Digest, last: Digest) -> Range<usize> {
        chunk_of(first, self.chunk_bits())..chunk_of(last, self.chunk_bits()) + 1
    }

    /// Where neighbouring chunks stand in the bytes of the set.
    pub fn bytes(&self, chunks: Range<usize>) -> Range<usize> {
        let front = HEADER_BYTES + self.chunks.len() * ITEM_BYTES + CHECKSUM_BYTES;
        let end_before = |chunk: usize| if chunk == 0 { 0 } else { self.chunks[chunk - 1].end as usize };
        front + end_before(chunks.start)..front + end_before(chunks.end)
    }

    /// Appends the digests of a chunk, of which these are the bytes.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn read(&self, chunk: usize, bytes: &[u8], digests: &mut Vec<Digest>) -> Result<(), SetError> {
        let ListItem { digests: count, checksum, .. } = self.chunks[chunk];
        if chunk_checksum(self.seed, chunk, bytes) != checksum {
            return Err(SetError::Chunk(chunk));
        }
        let (unary, lows) = chunk_bytes(count as usize, self.chunk_bits());
        if bytes.len() != unary + lows {
            return Err(SetError::Length(bytes.len()));
        }
        decode_chunk(chunk, count as usize, self.chunk_bits(), bytes.split_at(unary), digests)
    }

    fn chunk_bits(&self) -> u32 {
        self.chunks.len().trailing_zeros()
    }
}

/// The chunk that a digest stands in, of 2^`chunk_bits`.
fn chunk_of(digest: Digest, chunk_bits: u32) -> usize {
    digest.stored().checked_shr(u64::BITS - chunk_bits).unwrap_or(0) as usize
}

fn chunk_checksum(seed: u64, number: usize, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(bytes, seed ^ (number as u64 + 1)) as u32
}

fn encode_chunk(digests: &[Digest], chunk_bits: u32, out: &mut Vec<u8>) {
    let high_bits = high_bits_of(digests.len(), chunk_bits);
    let low_bits = KEPT_BITS - chunk_bits - high_bits;
    let (unary, lows) = chunk_bytes(digests.len(), chunk_bits);
    let start = out.len();
    out.resize(start + unary + lows, 0);
    let (high_part, low_part) = out[start..].split_at_mut(unary);
    for (at, digest) in digests.iter().enumerate() {
        let kept = (digest.stored() >> LOST_BITS) & ones(KEPT_BITS - chunk_bits);
        let one = (kept >> low_bits) as usize + at;
        high_part[one / 8] |= 1 << (one % 8);
        let (bit, low) = (at * low_bits as usize, kept & ones(low_bits));
        let word = (low << (bit % 8)).to_le_bytes();
        low_part[bit / 8..].iter_mut().zip(word).for_each(|(byte, more)| *byte |= more);
    }
}

fn decode_chunk(
    number: usize,
    count: usize,
    chunk_bits: u32,
    (high_part, low_part): (&[u8], &[u8]),
    digests: &mut Vec<Digest>,
) -> Result<(), SetError> {
    let high_bits = high_bits_of(count, chunk_bits);
    let low_bits = KEPT_BITS - chunk_bits - high_bits;
    let first = digests.len();
    digests.reserve(count);
    for (at, byte) in high_part.iter().enumerate() {
        let mut left = *byte;
        while left != 0 {
            let one = at * 8 + left.trailing_zeros() as usize;
            left &= left - 1;
            let index = digests.len() - first;
            let high = (one - index) as u64;
            if index == count || high >> high_bits != 0 {
                return Err(SetError::Unary);
            }
            let bit = index * low_bits as usize;
            let mut word = [0; 8];
            word.iter_mut().zip(&low_part[bit / 8..]).for_each(|(byte, stored)| *byte = *stored);
            let low = (u64::from_le_bytes(word) >> (bit % 8)) & ones(low_bits);
            let kept = (number as u64).checked_shl(KEPT_BITS - chunk_bits).unwrap_or(0) | high << low_bits | low;
            digests.push(Digest::from_stored(kept << LOST_BITS));
        }
    }
    // The bits past the last digest's are zero.
    let used = count * low_bits as usize;
    let clean = low_part.last().is_none_or(|last| used.is_multiple_of(8) || last >> (used % 8) == 0);
    match digests.len() - first == count && clean {
        false => Err(SetError::Unary),
        true if digests[first..].is_sorted() => Ok(()),
        true => Err(SetError::Order),
    }
}

/// The bits by which so many digests are divided into chunks.
fn chunk_bits_of(count: u64) -> u32 {
    log2_up(count.div_ceil(CHUNK_DIGESTS)).min(KEPT_BITS)
}

/// The bits that so many digests of a chunk have in unary.
fn high_bits_of(count: usize, chunk_bits: u32) -> u32 {
    log2_up(count as u64).min(KEPT_BITS - chunk_bits)
}

/// What the two parts of a chunk with so many digests take.
fn chunk_bytes(count: usize, chunk_bits: u32) -> (usize, usize) {
    if count == 0 {
        return (0, 0);
    }
    let high_bits = high_bits_of(count, chunk_bits);
    let low_bits = (KEPT_BITS - chunk_bits - high_bits) as usize;
    ((count + (1 << high_bits)).div_ceil(8), (count * low_bits).div_ceil(8))
}

/// `⌈log₂ n⌉`; 0 of 0.
fn log2_up(number: u64) -> u32 {
    u64::BITS - number.saturating_sub(1).leading_zeros()
}

/// A number of so many ones, fewer than 64.
fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Makes the checksums of altered bytes fit, as far as the list leads, for fuzzing.
pub(crate) fn mend(bytes: &mut [u8], seed: u64) {
    let Some(list) = DigestChunks::list_bytes(bytes).ok().filter(|list| *list <= bytes.len()) else { return };
    let (front, chunks) = bytes.split_at_mut(list);
    let mut start = 0;
    for (number, item) in
        front[HEADER_BYTES..list - CHECKSUM_BYTES].as_chunks_mut::<ITEM_BYTES>().0.iter_mut().enumerate()
    {
        let end = u32::from_le_bytes(*item.first_chunk().expect("four bytes")) as usize;
        if let Some(chunk) = chunks.get(start..end) {
            item[8..].copy_from_slice(&chunk_checksum(seed, number, chunk).to_le_bytes());
        }
        start = end;
    }
    let (checked, checksum) = front.split_last_chunk_mut::<CHECKSUM_BYTES>().expect("longer than its checksum");
    *checksum = xxh3_64_with_seed(checked, seed).to_le_bytes();
}
