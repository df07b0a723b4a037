//! Memory of filters: aligned cache lines.
//!
//! A line is 512 bits in eight words. Encoded words are little-endian; bit `i` of a line is bit `i
//! % 64` of word `i / 64`.

use tamarack_model::filter::LINE_BITS;

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = 64;

/// Words of a line.
pub(crate) const LINE_WORDS: usize = 8;

/// One cache line of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Line(pub [u64; LINE_WORDS]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES && align_of::<Line>() == LINE_BYTES);
const _: () = assert!(LINE_BYTES as u64 * 8 == LINE_BITS);

impl Line {
    pub(crate) fn from_bytes(bytes: &[u8; LINE_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks();
        Self(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
    }
}
