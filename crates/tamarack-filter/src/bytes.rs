//! A filter as bytes, and back.
//!
//! ```text
//! │ version u8 │ kind u8 │ probes u8 │ unit u8 │ lines u32 │ entries u64 │ lines × 64 bytes │
//! ```
//!
//! * version: 1. It stands for the digest's function and seed as well as for where the probes fall; if any of these change,
//!   so does it.
//! * kind: 1 standard, 2 blocked.
//! * probes: at least 1, at most what the kind allows. Stored, so that readers need not agree with the writer on which number is best.
//! * unit: 0. Reserved for filters that consist of several small ones, which derive different probes from one digest.
//! * lines: at least 1. All numbers are little-endian.
//! * entries: how many digests it was built from. Nothing depends on it but predictions.
//!
//! One filter has one encoding. Any bytes are either refused or a filter that answers something for every digest: there is no
//! checksum here, because whoever stores the bytes has one.
//!
//! Reading copies the bits into aligned memory. Bytes within a file or a cached block begin anywhere, where nearly every line of
//! the filter would lie across two of the machine's; one copy when a table is opened makes "one line per lookup" true.

use std::fmt;

use tamarack_model::FilterKind;

use crate::filter::{Bits, Filter};
use crate::lines::{LINE_BYTES, Line};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;

/// What is wrong with bytes that are no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// There are fewer bytes than a header has.
    TooShort(usize),
    /// A format that this version does not know.
    UnknownVersion(u8),
    /// A kind that this version of the format does not have.
    UnknownKind(u8),
    /// No probes, or more than the kind allows.
    Probes(u8),
    /// A number of unit, which filters of this version do not have.
    Unit(u8),
    /// The header's number of lines is 0, or does not fit the number of bytes.
    Lines {
        /// As the header says.
        lines: u32,
        /// All bytes, those of the header among them.
        bytes: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort(bytes) => write!(f, "a filter has at least {HEADER_BYTES} bytes, these are {bytes}"),
            Self::UnknownVersion(version) => write!(f, "version {version} of filters is not known, only {VERSION}"),
            Self::UnknownKind(kind) => write!(f, "kind {kind} of filters is not known"),
            Self::Probes(probes) => write!(f, "a filter of this kind cannot have {probes} probes"),
            Self::Unit(unit) => write!(f, "unit {unit} of a filter is not known, only 0"),
            Self::Lines { lines, bytes } => write!(f, "a filter of {lines} lines does not have {bytes} bytes"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Filter {
    /// The number of bytes that [`encode`](Self::encode) gives.
    pub fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + self.lines() * LINE_BYTES
    }

    /// As bytes.
    ///
    /// # Panics
    /// If it was [rebuilt](Self::rebuild) from shortened digests: readers of the bytes would ask it with whole ones.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.mask == u64::MAX, "{self:?} was made of shortened digests");
        let mut bytes = Vec::with_capacity(self.encoded_bytes());
        let lines = u32::try_from(self.lines()).expect("checked when the filter was made");
        bytes.extend_from_slice(&[VERSION, kind_to_number(self.kind()), self.probes as u8, 0]);
        bytes.extend_from_slice(&lines.to_le_bytes());
        bytes.extend_from_slice(&self.entries.to_le_bytes());
        let mut add = |word: &u64| bytes.extend_from_slice(&word.to_le_bytes());
        match &self.bits {
            Bits::Bloom(words) => words.iter().for_each(&mut add),
            Bits::Blocked(lines) => lines.iter().flat_map(|line| &line.0).for_each(&mut add),
        }
        bytes
    }

    /// The filter that these bytes are. Takes as much memory as they do.
    ///
    /// # Errors
    /// If they are not the bytes of a filter, all of them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(DecodeError::TooShort(bytes.len()))?;
        let [version, kind, probes, unit, l0, l1, l2, l3, entries @ ..] = *header;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion(version));
        }
        let kind = kind_from_number(kind).ok_or(DecodeError::UnknownKind(kind))?;
        if !(1..=kind.probes_max()).contains(&u32::from(probes)) {
            return Err(DecodeError::Probes(probes));
        }
        if unit != 0 {
            return Err(DecodeError::Unit(unit));
        }
        let lines = u32::from_le_bytes([l0, l1, l2, l3]);
        let (body, remainder) = rest.as_chunks::<LINE_BYTES>();
        if lines == 0 || body.len() != lines as usize || !remainder.is_empty() {
            return Err(DecodeError::Lines { lines, bytes: bytes.len() });
        }
        let entries = u64::from_le_bytes(entries);
        let bits = match kind {
            FilterKind::Bloom => Bits::Bloom(rest.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()),
            FilterKind::Blocked => Bits::Blocked(body.iter().map(Line::from_bytes).collect()),
        };
        Ok(Self { bits, probes: u32::from(probes), entries, mask: u64::MAX })
    }
}

/// The kind's number in the format, never 0: tables and manifests say with it which filter a table carries.
pub const fn kind_to_number(kind: FilterKind) -> u8 {
    match kind {
        FilterKind::Bloom => 1,
        FilterKind::Blocked => 2,
    }
}

fn kind_from_number(number: u8) -> Option<FilterKind> {
    FilterKind::ALL.into_iter().find(|kind| kind_to_number(*kind) == number)
}

/// Makes the number of lines in a header fit the number of bytes that follow, and the version the known one, so that inputs of
/// fuzzers get past these checks.
pub(crate) fn mend(bytes: &mut [u8]) {
    if let Some(lines) = bytes.len().checked_sub(HEADER_BYTES).map(|body| (body / LINE_BYTES) as u32) {
        bytes[0] = VERSION;
        bytes[3] = 0;
        bytes[4..8].copy_from_slice(&lines.to_le_bytes());
    }
}
