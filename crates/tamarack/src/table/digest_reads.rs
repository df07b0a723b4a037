//! Digests of keys that tables store, in intervals: of one table, or of many concurrently.
//!
//! ```text
//! list of chunks ──► bytes of the chunks that the interval is in ──► digests
//! kept once read     one read
//! ```
//!
//! A partition of the filter over the whole tree is made from the digests of all tables in its
//! interval. Where each read takes the device's latency, hundreds of tables one after the other
//! take tens of milliseconds; together they take a few.
//!
//! A read that fails among others is not reported: it is repeated alone, and that reports it.
//!
//! Tests: `tests::digests`; those of the filter over the whole tree for all that is made of them.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use tamarack_env::{AlignedBuffer, ReadQueue, ReadRequest};
use tamarack_filter::{Digest, DigestChunks, SetError};

use super::reader::Table;
use super::storage::TableStorage;
use crate::error::{Error, Result};
use crate::format::meta::TableId;
use crate::format::stored::{BlockHandle, TRAILER_BYTES};
use crate::format::table::digests_seed;
use crate::stats::Reader;

/// What is read of stored digests at first: the list of chunks of a table of 150,000 keys.
const FRONT_BYTES: usize = 4 << 10;

/// The upper bound on the bytes of all reads in flight, unless one has more.
const IN_FLIGHT_BYTES_MAX: u64 = 1 << 20;

/// Longer reads than this are carried out alone, into memory of their own: the environment keeps
/// memory for as many as it once had in flight, and a long read gains little from others.
const SHORT_BYTES: u64 = 16 << 10;

/// The chunks that an interval is in, and where they stand from the beginning of the digests.
struct ChunkBytes {
    chunks: Range<usize>,
    bytes: Range<usize>,
}

impl Table {
    /// The stored digests of its keys from `first` to `last`, in order; `None` if it has none.
    ///
    /// # Errors
    /// If they cannot be read, or are damaged; [`Table::digest_damage`] then tells it, too.
    pub fn digests_between(&self, first: Digest, last: Digest) -> Result<Option<Vec<Digest>>> {
        let Some(handle) = self.digests_handle()? else { return Ok(None) };
        // Aligned, or the environment would read into memory of its own, which it keeps.
        let read = |bytes: Range<usize>| -> Result<Vec<u8>> {
            let start = handle.offset + bytes.start as u64;
            let (from, to) = self.file.aligned(start, start + bytes.len() as u64);
            let mut buffer = AlignedBuffer::zeroed((to - from) as usize);
            self.file.read_into(&mut buffer[..(to - from) as usize], from, Reader::Upkeep)?;
            Ok(buffer[(start - from) as usize..][..bytes.len()].to_vec())
        };
        if self.digests.list.get().is_none() {
            let mut front = read(front(handle))?;
            let list_bytes = self.noting(DigestChunks::list_bytes(&front).map_err(|flaw| self.digest_flaw(flaw)))?;
            if list_bytes > front.len() {
                front = read(self.inside(handle, 0..list_bytes)?)?;
            }
            self.note_list(&front)?;
        }
        let list = self.digests.list.get().expect("it has just been read");
        let chunks = self.chunks_of(handle, list, first, last)?;
        let bytes = read(chunks.bytes.clone())?;
        self.digests_in(list, &chunks, &bytes, first, last).map(Some)
    }

    /// The damage of the digests, if found. Takes no lock.
    pub fn digest_damage(&self) -> Option<&Error> {
        self.digests.damage.get()
    }

    /// The block of the digests; `None` if the table has none.
    fn digests_handle(&self) -> Result<Option<&BlockHandle>> {
        if let Some(damage) = self.digest_damage() {
            return Err(damage.clone());
        }
        let Some(handle) = &self.footer.digests else { return Ok(None) };
        self.noting(self.file.check_inside(handle))?;
        Ok(Some(handle))
    }

    /// Keeps the list of chunks that these bytes begin with.
    fn note_list(&self, front: &[u8]) -> Result<()> {
        let list = DigestChunks::decode(front, digests_seed(self.footer.place()));
        let list = self.noting(list.map_err(|flaw| self.digest_flaw(flaw)))?;
        // Another thread may have read it, too.
        let _ = self.digests.list.set(list);
        Ok(())
    }

    /// The chunks of an interval.
    fn chunks_of(&self, handle: &BlockHandle, list: &DigestChunks, first: Digest, last: Digest) -> Result<ChunkBytes> {
        let chunks = list.of_interval(first, last);
        let bytes = self.inside(handle, list.bytes(chunks.clone()))?;
        Ok(ChunkBytes { chunks, bytes })
    }

    /// The digests of an interval in its chunks, which these bytes are.
    fn digests_in(
        &self,
        list: &DigestChunks,
        ChunkBytes { chunks, bytes: whole }: &ChunkBytes,
        bytes: &[u8],
        first: Digest,
        last: Digest,
    ) -> Result<Vec<Digest>> {
        let mut digests = Vec::new();
        for chunk in chunks.clone() {
            let own = list.bytes(chunk..chunk + 1);
            let read = list.read(chunk, &bytes[own.start - whole.start..own.end - whole.start], &mut digests);
            self.noting(read.map_err(|flaw| self.digest_flaw(flaw)))?;
        }
        digests.retain(|digest| (first..=last).contains(digest));
        Ok(digests)
    }

    /// These bytes of the digests, unless they end past their block.
    fn inside(&self, handle: &BlockHandle, bytes: Range<usize>) -> Result<Range<usize>> {
        if bytes.end > handle.bytes - TRAILER_BYTES {
            let what = "the list of digests points past its block";
            return self.noting(Err(self.file.corruption(handle.offset, what)));
        }
        Ok(bytes)
    }

    fn digest_flaw(&self, error: SetError) -> Error {
        let offset = self.footer.digests.as_ref().map_or(0, |handle| handle.offset);
        self.file.corruption(offset, format!("digests: {error}"))
    }

    /// Remembers damage of the digests.
    fn noting<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|error| {
            if matches!(error, Error::Corruption { .. }) {
                let _ = self.digests.damage.set(error.clone());
            }
        })
    }
}

/// What is read of the digests at first.
fn front(handle: &BlockHandle) -> Range<usize> {
    0..(handle.bytes - TRAILER_BYTES).min(FRONT_BYTES)
}

/// The digests of a table in an interval, both ends included.
#[derive(Debug)]
pub struct DigestsWanted {
    /// The table.
    pub table: Arc<Table>,
    /// The first digest of the interval.
    pub first: Digest,
    /// The last one.
    pub last: Digest,
}

/// Reads digests of tables of one storage, each as [`Table::digests_between`] does, but
/// concurrently.
pub fn read_digests(wanted: &[DigestsWanted]) -> Vec<Result<Option<Vec<Digest>>>> {
    let mut reads = DigestReads::new(wanted);
    if let [DigestsWanted { table, .. }, _, ..] = wanted {
        let storage: &TableStorage = &table.storage;
        storage.read_queue(Reader::Upkeep, &mut reads);
        reads.begin_chunks();
        storage.read_queue(Reader::Upkeep, &mut reads);
    }
    let alone = |wanted: &DigestsWanted| wanted.table.digests_between(wanted.first, wanted.last);
    let found = reads.found.into_iter().zip(wanted);
    found.map(|(found, wanted)| found.map_or_else(|| alone(wanted), |digests| Ok(Some(digests)))).collect()
}

/// Reads of digests that are in flight together: first the lists of chunks that no table keeps yet,
/// then the chunks.
struct DigestReads<'w> {
    wanted: &'w [DigestsWanted],
    found: Vec<Option<Vec<Digest>>>,
    /// Tables whose list of chunks is read; `None` while chunks are.
    lists: Option<BTreeSet<TableId>>,
    /// The next one of `wanted` to be looked at.
    next: usize,
    /// Reads in the order in which they began.
    begun: Vec<DigestRead>,
    in_flight_bytes: u64,
}

/// A read of part of a table's digests.
struct DigestRead {
    /// Which one of those that are wanted.
    at: usize,
    /// Bytes of the read before those that are wanted, for the alignment of direct I/O.
    before: usize,
    /// The bytes that are wanted.
    bytes: usize,
    /// The bytes of the read.
    read_bytes: u64,
    /// The chunks that they are; `None` for the list of chunks.
    chunks: Option<ChunkBytes>,
}

impl<'w> DigestReads<'w> {
    fn new(wanted: &'w [DigestsWanted]) -> Self {
        let found = wanted.iter().map(|_| None).collect();
        Self { wanted, found, lists: Some(BTreeSet::new()), next: 0, begun: Vec::new(), in_flight_bytes: 0 }
    }

    fn begin_chunks(&mut self) {
        (self.lists, self.next) = (None, 0);
        self.begun.clear();
    }

    /// The read that one of those that are wanted needs now, if any.
    fn read_of(&mut self, at: usize) -> Option<(DigestRead, ReadRequest)> {
        let DigestsWanted { table, first, last } = &self.wanted[at];
        let handle = table.digests_handle().ok()??;
        let list = table.digests.list.get();
        let (bytes, chunks) = match &mut self.lists {
            Some(lists) => {
                let is_first = list.is_none() && lists.insert(table.meta.id);
                (is_first.then(|| front(handle))?, None)
            }
            None => {
                let chunks = table.chunks_of(handle, list?, *first, *last).ok()?;
                (chunks.bytes.clone(), Some(chunks))
            }
        };
        let (start, end) = (handle.offset + bytes.start as u64, handle.offset + bytes.end as u64);
        let (from, to) = table.file.aligned(start, end);
        if to - from > SHORT_BYTES {
            return None;
        }
        let request = table.file.request(from, (to - from) as usize).ok()?;
        let before = (start - from) as usize;
        Some((DigestRead { at, before, bytes: bytes.len(), read_bytes: to - from, chunks }, request))
    }
}

impl ReadQueue for DigestReads<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        while self.next < self.wanted.len() && self.in_flight_bytes < IN_FLIGHT_BYTES_MAX {
            self.next += 1;
            if let Some((read, request)) = self.read_of(self.next - 1) {
                self.in_flight_bytes += read.read_bytes;
                self.begun.push(read);
                return Some(request);
            }
        }
        None
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        let DigestRead { at, before, bytes: wanted_bytes, read_bytes, chunks } = &self.begun[number];
        self.in_flight_bytes -= read_bytes;
        let DigestsWanted { table, first, last } = &self.wanted[*at];
        let Ok(bytes) = bytes.map(|bytes| &bytes[*before..][..*wanted_bytes]) else { return };
        match (chunks, table.digests.list.get()) {
            (Some(chunks), Some(list)) => self.found[*at] = table.digests_in(list, chunks, bytes, *first, *last).ok(),
            // A longer list is read alone.
            _ if DigestChunks::list_bytes(bytes).is_ok_and(|list| list <= bytes.len()) => {
                let _ = table.note_list(bytes);
            }
            _ => {}
        }
    }
}
