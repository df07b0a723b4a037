//! [`RecordChunk`]: records of a WAL that cannot be recovered as a whole, as entries to be written
//! into tables.
//!
//! Every whole record counts, wherever it is, in the order of sequence numbers. They form chunks
//! that fit into memory; of two chunks, the later has the larger sequence numbers.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use crate::entry::{Entry, EntryKind, Sequence};
use crate::error::{Error, Result};
use crate::format::meta::TreeId;
use crate::range_tombstones::RangeTombstone;
use crate::wal::{Findings, Record};

/// Upper bound on the bytes of records in a chunk, except for a single larger record.
const CHUNK_BYTES: u64 = 32 << 20;

/// Records that become a table together.
#[derive(Clone, Debug)]
pub(super) struct RecordChunk {
    /// Each with the index of its segment.
    records: Vec<(usize, Record)>,
    /// Only entries after this one count.
    after: Sequence,
}

/// Entries by key, young to old.
pub(super) type Sorted = BTreeMap<(Vec<u8>, Reverse<u64>), (EntryKind, Vec<u8>)>;

/// The entries of a chunk, and its range deletes, which no table has.
#[derive(Debug, Default)]
pub(super) struct ChunkEntries {
    pub(super) sorted: Sorted,
    pub(super) range_deletes: Vec<RangeTombstone>,
}

/// The readable part of a WAL.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Old to young.
    pub(super) chunks: Vec<RecordChunk>,
    /// Sequence numbers without a record, between the first wanted and the last present one.
    pub(super) missing: Vec<(u64, u64)>,
    /// The last sequence number present.
    pub(super) last: Sequence,
}

/// All records with entries after `after`. If `from_first`, the tables' content is not known, and
/// sequence numbers before the first record are not missed.
pub(super) fn left(wal: &Findings, after: Sequence, from_first: bool) -> Left {
    let mut records: Vec<(usize, Record)> = Vec::new();
    for (segment, found) in wal.segments.iter().enumerate() {
        records.extend(found.records.iter().filter(|record| last(record) > after).map(|record| (segment, *record)));
    }
    records.sort_by_key(|(segment, record)| (record.head.first, *segment, record.offset));
    let mut left = Left { last: after, ..Left::default() };
    let mut bytes = 0;
    for (segment, record) in records {
        // Two records have the same sequence numbers only if files of different times were put
        // together; then the first counts.
        let first = Sequence(record.head.first);
        if first <= left.last && !left.chunks.is_empty() {
            continue;
        }
        let expected = left.last.next();
        if first > expected && !(from_first && left.chunks.is_empty()) {
            left.missing.push((expected.0, first.0 - 1));
        }
        left.last = last(&record);
        bytes += u64::from(record.head.payload_bytes);
        if left.chunks.is_empty() || bytes > CHUNK_BYTES {
            left.chunks.push(RecordChunk { records: Vec::new(), after });
            bytes = u64::from(record.head.payload_bytes);
        }
        left.chunks.last_mut().expect("there is one now").records.push((segment, record));
    }
    left
}

/// The sequence number of a record's last entry.
fn last(record: &Record) -> Sequence {
    Sequence(record.head.next() - 1)
}

impl RecordChunk {
    /// Number of its entries in each file.
    pub(super) fn counts<'a>(&self, wal: &'a Findings) -> Vec<(&'a Path, u64)> {
        let count = |(segment, record): &(usize, Record)| {
            let first = record.head.first.max(self.after.0 + 1);
            (&*wal.segments[*segment].path, record.head.next() - first)
        };
        self.records.iter().map(count).collect()
    }

    /// Its entries. Whole records without entries are reported as problems.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what a newer version wrote; [`Error::Io`].
    pub(super) fn entries(&self, wal: &Findings, problems: &mut Vec<Error>) -> Result<ChunkEntries> {
        let mut found = ChunkEntries::default();
        for records in self.records.chunk_by(|a, b| a.0 == b.0) {
            let (segment, path) = (records[0].0, &wal.segments[records[0].0].path);
            let heads: Vec<Record> = records.iter().map(|(_, record)| *record).collect();
            let insert = &mut |tree, entry: Entry<'_>| {
                if tree != TreeId::DEFAULT {
                    let what = "the WAL has entries of several trees, and this version knows one; repair it with a newer version";
                    return Err(Error::Unsupported { path: path.clone(), what: what.to_owned() });
                }
                if entry.kind == EntryKind::RangeDelete {
                    let tombstone = RangeTombstone::of(&entry);
                    if entry.sequence > self.after && !tombstone.range.is_empty() {
                        found.range_deletes.push(tombstone);
                    }
                } else if entry.sequence > self.after {
                    let value = (entry.kind, entry.value.to_vec());
                    found.sorted.insert((entry.key.to_vec(), Reverse(entry.sequence.0)), value);
                }
                Ok(())
            };
            problems.extend(wal.visit(segment, &heads, insert)?);
        }
        Ok(found)
    }
}
