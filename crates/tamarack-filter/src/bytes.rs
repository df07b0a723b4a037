//! Encoding of filters as bytes.
//!
//! ```text
//! │ version u8 │ kind u8 │ probes u8 │ unit u8 │ lines u32 │ entries u64 │ lines × 64 bytes │
//! ```
//!
//! * version: 1. It covers the hash function and seed of the digest and the positions of probes; a
//!   change of any of these changes the version.
//! * kind: 1 standard, 2 blocked, 3 elastic.
//! * probes: at least 1, at most what the kind allows. Stored, so that readers and writers may
//!   choose differently.
//! * unit: the number of the unit, from 0; 0 for filters without units.
//! * lines: at least 1. All numbers are little-endian.
//! * entries: the number of digests that it was built from, for predictions only.
//!
//! An elastic filter is the sequence of its units, each with a header of its own, so that each can
//! be stored and read alone; all have the same number of probes, lines and entries.
//!
//! A filter has exactly one encoding. Decoding hostile bytes gives an error or a filter that
//! answers for every digest. There is no checksum here: the block that stores the bytes has one.
//!
//! Decoding copies the bits into aligned memory. Bytes in a file or a cached block are unaligned,
//! so that nearly every line of the filter would span two cache lines; one copy when a table is
//! opened makes "one cache line per lookup" true.

use std::fmt;
use std::sync::Arc;

use tamarack_model::FilterKind;
use tamarack_model::filter::UNITS_MAX;

use crate::filter::{Bits, Filter};
use crate::lines::{LINE_BYTES, Line};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 16;

/// Why bytes are not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Fewer bytes than a header.
    TooShort(usize),
    /// An unknown format version.
    UnknownVersion(u8),
    /// An unknown kind.
    UnknownKind(u8),
    /// Zero probes, or more than the kind allows.
    Probes(u8),
    /// A unit with a wrong number, one unit too many, or a header that differs from that of the
    /// units before.
    Unit(u8),
    /// The number of lines in the header is 0, or contradicts the number of bytes.
    Lines {
        /// Lines in the header.
        lines: u32,
        /// Bytes in total, header included.
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
            Self::Unit(unit) => write!(f, "unit {unit} of a filter does not go on where those before it end"),
            Self::Lines { lines, bytes } => write!(f, "a filter of {lines} lines does not have {bytes} bytes"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Filter {
    /// Number of bytes of the encoding.
    pub fn encoded_bytes(&self) -> usize {
        self.units() * HEADER_BYTES + self.lines() * LINE_BYTES
    }

    /// Encodes the filter; an elastic one with all of its units.
    ///
    /// # Panics
    /// If the filter was [rebuilt](Self::rebuild) from shortened digests: readers of the bytes
    /// would probe it with whole ones.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes());
        (0..self.units()).for_each(|unit| self.encode_into(unit, &mut bytes));
        bytes
    }

    /// Encodes one unit; the first unit alone is a filter.
    ///
    /// # Panics
    /// Like [`encode`](Self::encode), and if the unit does not exist.
    pub fn encode_unit(&self, unit: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes() / self.units());
        self.encode_into(unit, &mut bytes);
        bytes
    }

    fn encode_into(&self, unit: usize, bytes: &mut Vec<u8>) {
        assert!(self.mask == u64::MAX, "{self:?} was made of shortened digests");
        assert!(unit < self.units(), "unit {unit} of {self:?}");
        let lines = u32::try_from(self.lines() / self.units()).expect("checked when the filter was made");
        bytes.extend_from_slice(&[VERSION, kind_to_number(self.kind()), self.probes as u8, unit as u8]);
        bytes.extend_from_slice(&lines.to_le_bytes());
        bytes.extend_from_slice(&self.entries.to_le_bytes());
        let mut add = |word: &u64| bytes.extend_from_slice(&word.to_le_bytes());
        match &self.bits {
            Bits::Bloom(words) => words.iter().for_each(&mut add),
            Bits::Blocked(lines) => lines.iter().flat_map(|line| &line.0).for_each(&mut add),
            Bits::Elastic(units) => units[unit].iter().flat_map(|line| &line.0).for_each(&mut add),
        }
    }

    /// Decodes a filter, which takes as much memory as its bytes.
    ///
    /// # Errors
    /// If the bytes are not exactly one filter.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (first, body) = Header::read(bytes)?;
        if first.kind != FilterKind::Elastic {
            let body = first.lines(body, bytes.len())?;
            if first.unit != 0 {
                return Err(DecodeError::Unit(first.unit));
            }
            let words = || body.as_flattened().as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            let bits = match first.kind {
                FilterKind::Bloom => Bits::Bloom(words().collect()),
                _ => Bits::Blocked(body.iter().map(Line::from_bytes).collect()),
            };
            return Ok(first.filter(bits));
        }
        let unit_bytes = HEADER_BYTES + first.lines as usize * LINE_BYTES;
        let mut units = Vec::new();
        for unit in bytes.chunks(unit_bytes) {
            units.push(first.unit(units.len(), unit)?);
        }
        Ok(first.filter(Bits::Elastic(units.into())))
    }

    /// Decodes the next unit of an elastic filter; the result shares the other units with this
    /// filter.
    ///
    /// # Errors
    /// If the bytes are not exactly its next unit.
    pub fn with_next_unit(&self, bytes: &[u8]) -> Result<Self, DecodeError> {
        let Bits::Elastic(units) = &self.bits else {
            return Err(DecodeError::UnknownKind(kind_to_number(self.kind())));
        };
        let first = Header {
            kind: FilterKind::Elastic,
            probes: self.probes as u8,
            unit: 0,
            lines: units[0].len() as u32,
            entries: self.entries,
        };
        let next = first.unit(units.len(), bytes)?;
        Ok(Self { bits: Bits::Elastic(units.iter().cloned().chain([next]).collect()), ..*self })
    }
}

/// Header of a filter or unit.
#[derive(Clone, Copy, PartialEq)]
struct Header {
    kind: FilterKind,
    probes: u8,
    unit: u8,
    lines: u32,
    entries: u64,
}

impl Header {
    /// Splits the bytes into header and rest.
    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(DecodeError::TooShort(bytes.len()))?;
        let [version, kind, probes, unit, l0, l1, l2, l3, entries @ ..] = *header;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion(version));
        }
        let kind = kind_from_number(kind).ok_or(DecodeError::UnknownKind(kind))?;
        if !(1..=kind.probes_max()).contains(&u32::from(probes)) {
            return Err(DecodeError::Probes(probes));
        }
        let lines = u32::from_le_bytes([l0, l1, l2, l3]);
        Ok((Self { kind, probes, unit, lines, entries: u64::from_le_bytes(entries) }, rest))
    }

    /// The lines after the header; `bytes` is the total length.
    fn lines(self, body: &[u8], bytes: usize) -> Result<&[[u8; LINE_BYTES]], DecodeError> {
        let (lines, remainder) = body.as_chunks::<LINE_BYTES>();
        if self.lines == 0 || lines.len() != self.lines as usize || !remainder.is_empty() {
            return Err(DecodeError::Lines { lines: self.lines, bytes });
        }
        Ok(lines)
    }

    /// The lines of unit `number` of the filter that has this header.
    fn unit(self, number: usize, bytes: &[u8]) -> Result<Arc<[Line]>, DecodeError> {
        let (header, body) = Self::read(bytes)?;
        let lines = header.lines(body, bytes.len())?;
        let expected = Self { unit: number as u8, ..self };
        if header != expected || number >= UNITS_MAX as usize {
            return Err(DecodeError::Unit(header.unit));
        }
        Ok(lines.iter().map(Line::from_bytes).collect())
    }

    fn filter(self, bits: Bits) -> Filter {
        Filter { bits, probes: u32::from(self.probes), entries: self.entries, mask: u64::MAX }
    }
}

/// The kind's number in the format, never 0: tables and manifests say with it which filter a table
/// carries.
pub const fn kind_to_number(kind: FilterKind) -> u8 {
    match kind {
        FilterKind::Bloom => 1,
        FilterKind::Blocked => 2,
        FilterKind::Elastic => 3,
    }
}

fn kind_from_number(number: u8) -> Option<FilterKind> {
    FilterKind::ALL.into_iter().find(|kind| kind_to_number(*kind) == number)
}

/// Corrects version and number of lines in a header, so that inputs of fuzzers get past these
/// checks.
pub(crate) fn mend(bytes: &mut [u8]) {
    if let Some(lines) = bytes.len().checked_sub(HEADER_BYTES).map(|body| (body / LINE_BYTES) as u32) {
        bytes[0] = VERSION;
        bytes[3] = 0;
        bytes[4..8].copy_from_slice(&lines.to_le_bytes());
    }
}
