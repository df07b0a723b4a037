//! [`RecordScan`]: the whole records in the bytes of a journal file, and what lies between them.
//! Pure.
//!
//! ```text
//! header │ record │ record │ damage │ stray │ stray │ damage │ zeros
//!                          ▲ end                             ▲ written_bytes
//! ```
//!
//! Records follow each other from the header on, until something is not a whole record. If anything
//! is written behind that, it is searched for whole records all the same, by their markers: these
//! **strays** do not count as part of the journal, but their durable marks do.

use super::Growth;
use crate::format::checksum::Place;
use crate::format::record::{FILE_HEADER_BYTES, Position, RECORD_ALIGNMENT, RECORD_HEAD_BYTES, RecordHead, record_at};

/// A whole record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where it begins in the file.
    pub offset: u64,
    /// What it says about its payload.
    pub head: RecordHead,
}

impl Record {
    /// Where the next record can begin.
    pub fn end(&self) -> u64 {
        self.offset + self.head.stride()
    }
}

/// What the bytes of a journal file hold. See the module's documentation.
#[derive(Clone, Debug)]
pub struct RecordScan {
    /// The records that follow each other from the header on.
    pub records: Vec<Record>,
    /// Where these end. The file may end before, within the last one's padding.
    pub end: u64,
    /// Where that ends which was written, whole or not.
    pub written_bytes: u64,
    /// The whole records behind the end.
    pub strays: Vec<Record>,
    /// The highest durable mark of all records, strays included.
    pub durable: Position,
}

impl RecordScan {
    /// Scans `file`, whose checksums are bound to `place`.
    pub fn of(file: &[u8], place: Place, growth: Growth) -> Self {
        let written_bytes = match growth {
            Growth::Extends => without_zeros(file).len(),
            Growth::Keeps => file.len(),
        };
        let mut scan = Self {
            records: Vec::new(),
            end: FILE_HEADER_BYTES,
            written_bytes: written_bytes as u64,
            strays: Vec::new(),
            durable: Position(0),
        };
        while let Some(record) = whole_at(file, scan.end, place, growth) {
            scan.records.push(record);
            scan.end = record.end();
        }
        let mut offset = scan.end + RECORD_ALIGNMENT;
        while offset < scan.written_bytes {
            match whole_at(file, offset, place, growth) {
                Some(record) => {
                    scan.strays.push(record);
                    offset = record.end();
                }
                None => offset += RECORD_ALIGNMENT,
            }
        }
        scan.durable = scan.all().map(|record| record.head.durable).max().unwrap_or_default();
        scan
    }

    /// All whole records, wherever they are.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().chain(&self.strays)
    }

    /// True if something that is not a whole record follows the records.
    pub fn is_dirty(&self) -> bool {
        self.written_bytes > self.end
    }

    /// What is written and belongs to no whole record: from where to where.
    pub fn gaps(&self) -> Vec<(u64, u64)> {
        let (mut gaps, mut from) = (Vec::new(), self.end);
        for stray in &self.strays {
            gaps.extend((from < stray.offset).then_some((from, stray.offset)));
            from = stray.end();
        }
        gaps.extend((from < self.written_bytes).then_some((from, self.written_bytes)));
        gaps
    }
}

/// The record at `offset`, if it is whole. Where a file's length is that of what was written, its
/// padding must be zeros too, so that no byte of the file goes unchecked.
fn whole_at(file: &[u8], offset: u64, place: Place, growth: Growth) -> Option<Record> {
    let (head, payload) = record_at(file, offset, place)?;
    let record = Record { offset, head };
    let padding = offset as usize + RECORD_HEAD_BYTES + payload.len()..file.len().min(record.end() as usize);
    let is_padded = growth == Growth::Extends || file[padding].iter().all(|&byte| byte == 0);
    is_padded.then_some(record)
}

/// Bytes up to the last that is not zero. Most of a file that was extended ahead is zeros, so they
/// are compared in pieces.
fn without_zeros(mut bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 1024] = [0; 1024];
    while let Some((rest, piece)) = bytes.split_last_chunk()
        && *piece == ZEROS
    {
        bytes = rest;
    }
    &bytes[..bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::checksum::FileKind;
    use crate::format::record::RecordBuffer;

    /// The last byte that is not zero is found wherever it stands.
    #[test]
    fn zeros_at_the_end_are_passed_over() {
        for length in [0, 1, 1023, 1024, 1025, 5000] {
            let mut bytes = vec![0; length];
            assert_eq!(without_zeros(&bytes), b"");
            for last in [0, 1, 975, 1023, 1024, 1025, 2047, 2048, 4999].into_iter().filter(|last| *last < length) {
                bytes[last] = 7;
                assert_eq!(without_zeros(&bytes).len(), last + 1, "of {length}");
            }
        }
    }

    /// Each record that is damaged becomes a gap, the others stay whole, and the marks of all that
    /// are whole count.
    #[test]
    fn every_set_of_damaged_records_leaves_the_others() {
        let place = Place::new(5, FileKind::Wal, 1);
        let mut file = vec![0; FILE_HEADER_BYTES as usize];
        let mut begins = Vec::new();
        for number in 1..=5_u64 {
            let offset = file.len() as u64;
            begins.push(offset);
            let mut record = RecordBuffer::with_payload(&vec![b'x'; number as usize * 3]);
            file.extend(record.finish(place, offset, 1, number, Position(offset)).expect("it is short"));
        }
        let end = file.len() as u64;
        for damaged in 0..1_usize << begins.len() {
            let mut bytes = file.clone();
            let is_damaged = |at: usize| damaged >> at & 1 == 1;
            let spans: Vec<_> = begins.iter().copied().zip(begins[1..].iter().copied().chain([end])).collect();
            (0..5).filter(|at| is_damaged(*at)).for_each(|at| bytes[begins[at] as usize + 41] ^= 1);
            bytes.extend([0; 16]);
            let scan = RecordScan::of(&bytes, place, Growth::Extends);
            let whole: Vec<u64> = (0..5).filter(|at| !is_damaged(*at)).map(|at| begins[at]).collect();
            assert_eq!(scan.all().map(|record| record.offset).collect::<Vec<_>>(), whole, "{damaged:b}");
            assert_eq!(scan.durable.0, whole.last().copied().unwrap_or(0));
            let lost: u64 = (0..5).filter(|at| is_damaged(*at)).map(|at| spans[at].1 - spans[at].0).sum();
            let padding = if is_damaged(4) { end - scan.written_bytes } else { 0 };
            assert_eq!(scan.gaps().iter().map(|(from, to)| to - from).sum::<u64>(), lost - padding, "{damaged:b}");
            assert_eq!(scan.is_dirty(), damaged > 0);
            assert!(RecordScan::of(&bytes, place, Growth::Keeps).is_dirty(), "zeros are no reserved space there");
        }
    }
}
