//! [`DigestSet`]: a compact set of the digests of a table's keys, from which its filter can be
//! rebuilt without reading keys.
//!
//! # Which bits are kept
//!
//! Of `n` digests, each keeps its `h = ⌈log₂ n⌉` high bits, by which a filter of that many entries
//! spreads them, and the 24 bits below, which tell them apart. An absent key shares its kept bits
//! with a present one with a probability of at most 2⁻²⁴ = 6·10⁻⁸; the false positive rate of a
//! filter with 30 bits per entry is ten times as high. A filter that is built from a set is probed
//! with the same bits only; [`Filter`](crate::Filter) ensures that.
//!
//! # How
//!
//! ```text
//! │ version u8 │ h u8 │ n u64 │ n + 2^h bits, filled up to whole bytes │ n × 24 bits │
//! ```
//!
//! The digests are sorted, so that their high bits never decrease; they are stored in unary
//! (Elias-Fano): for each value of `h` bits one 1 per digest that has it, then a 0. The low bits
//! follow, three bytes each. All numbers are little-endian, bits of a byte from the low end. This
//! takes 26 to 27 bits per key, where sorted digests of 64 bits would take at least 66 - log₂ n.
//!
//! A set has exactly one encoding; other bytes are refused. Cost: building sorts the digests;
//! decoding is one pass over the bytes.

use std::fmt;

use crate::digest::Digest;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 10;

/// Bits that are kept below the high ones.
const LOW_BITS: u32 = 24;
const LOW_BYTES: usize = 3;

/// More high bits than this would mean more keys than digests can distinguish.
const HIGH_BITS_MAX: u32 = 64 - LOW_BITS;

/// The sorted digests of a table's keys, shortened to the bits that a filter of that many keys
/// uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestSet {
    /// With cleared low bits.
    digests: Vec<Digest>,
    high_bits: u32,
}

/// Why bytes are not a digest set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// Fewer bytes than a header.
    TooShort(usize),
    /// An unknown format version.
    UnknownVersion(u8),
    /// The number of high bits contradicts the number of digests.
    HighBits(u8),
    /// The number of bytes contradicts the number of digests.
    Length(usize),
    /// The high bits encode more or fewer digests, or end in the wrong place.
    Unary,
    /// Two digests are out of order.
    Order,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort(bytes) => write!(f, "a set of digests has at least {HEADER_BYTES} bytes, these are {bytes}"),
            Self::UnknownVersion(version) => write!(f, "version {version} of sets of digests is not known"),
            Self::HighBits(bits) => write!(f, "so many digests do not have {bits} high bits"),
            Self::Length(bytes) => write!(f, "so many digests do not take {bytes} bytes"),
            Self::Unary => f.write_str("the high bits of digests are malformed"),
            Self::Order => f.write_str("digests are not in order"),
        }
    }
}

impl std::error::Error for SetError {}

impl DigestSet {
    /// Builds the set from digests in any order. Duplicates count, as they do for filters.
    pub fn new(mut digests: Vec<Digest>) -> Self {
        let high_bits = high_bits_of(digests.len() as u64);
        let mask = mask(high_bits);
        digests.iter_mut().for_each(|digest| *digest = digest.masked(mask));
        digests.sort_unstable();
        Self { digests, high_bits }
    }

    /// The digests in ascending order, with cleared low bits.
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// Mask of the kept bits.
    pub(crate) fn mask(&self) -> u64 {
        mask(self.high_bits)
    }

    /// Encodes the set.
    pub fn encode(&self) -> Vec<u8> {
        let count = self.digests.len();
        let unary = unary_bytes(count, self.high_bits).expect("there are no more digests than fit memory");
        let mut bytes = vec![0; HEADER_BYTES + unary + LOW_BYTES * count];
        (bytes[0], bytes[1]) = (VERSION, self.high_bits as u8);
        bytes[2..HEADER_BYTES].copy_from_slice(&(count as u64).to_le_bytes());
        let (high_part, low_part) = bytes[HEADER_BYTES..].split_at_mut(unary);
        for (at, digest) in self.digests.iter().enumerate() {
            let kept = digest.stored() >> (HIGH_BITS_MAX - self.high_bits);
            let one = (kept >> LOW_BITS) as usize + at;
            high_part[one / 8] |= 1 << (one % 8);
            low_part[LOW_BYTES * at..][..LOW_BYTES].copy_from_slice(&kept.to_le_bytes()[..LOW_BYTES]);
        }
        bytes
    }

    /// Decodes a set, which takes eight bytes of memory per digest.
    ///
    /// # Errors
    /// If the bytes are not exactly one set.
    pub fn decode(bytes: &[u8]) -> Result<Self, SetError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(SetError::TooShort(bytes.len()))?;
        let [version, high_bits, count @ ..] = *header;
        if version != VERSION {
            return Err(SetError::UnknownVersion(version));
        }
        let count = u64::from_le_bytes(count);
        // Not more than there are bytes for, before anything is reckoned with it.
        if count > (rest.len() / LOW_BYTES) as u64 {
            return Err(SetError::Length(bytes.len()));
        }
        if u32::from(high_bits) != high_bits_of(count) {
            return Err(SetError::HighBits(high_bits));
        }
        let (count, high_bits) = (count as usize, u32::from(high_bits));
        let unary = unary_bytes(count, high_bits).filter(|unary| unary + LOW_BYTES * count == rest.len());
        let (high_part, low_part) = rest.split_at(unary.ok_or(SetError::Length(bytes.len()))?);
        let digests = Self::read(high_part, low_part, count, high_bits)?;
        if !digests.is_sorted() {
            return Err(SetError::Order);
        }
        Ok(Self { digests, high_bits })
    }

    fn read(high_part: &[u8], low_part: &[u8], count: usize, high_bits: u32) -> Result<Vec<Digest>, SetError> {
        let mut digests = Vec::with_capacity(count);
        let mut lows = low_part.as_chunks::<LOW_BYTES>().0.iter();
        for (at, byte) in high_part.iter().enumerate() {
            let mut left = *byte;
            while left != 0 {
                let one = at * 8 + left.trailing_zeros() as usize;
                left &= left - 1;
                let [a, b, c] = *lows.next().ok_or(SetError::Unary)?;
                let high = (one - digests.len()) as u64;
                if high >> high_bits != 0 {
                    return Err(SetError::Unary);
                }
                let kept = high << LOW_BITS | u64::from(u32::from_le_bytes([a, b, c, 0]));
                digests.push(Digest::from_stored(kept << (HIGH_BITS_MAX - high_bits)));
            }
        }
        if digests.len() == count { Ok(digests) } else { Err(SetError::Unary) }
    }
}

/// `⌈log₂ n⌉`, at most [`HIGH_BITS_MAX`].
fn high_bits_of(count: u64) -> u32 {
    (u64::BITS - count.saturating_sub(1).leading_zeros()).min(HIGH_BITS_MAX)
}

/// Mask of the kept bits.
fn mask(high_bits: u32) -> u64 {
    u64::MAX << (HIGH_BITS_MAX - high_bits)
}

/// Bytes of the high bits; `None` on overflow.
fn unary_bytes(count: usize, high_bits: u32) -> Option<usize> {
    let values = 1_usize.checked_shl(high_bits)?;
    Some(count.checked_add(values)?.div_ceil(8))
}
