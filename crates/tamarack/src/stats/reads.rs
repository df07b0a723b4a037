//! Reads from tables by reader, as counters ([`ReadCounters`]) and as plain numbers
//! ([`ReadStats`]).
//!
//! Only reads from storage count, not block cache hits; so counting costs little beside the read.

use std::ops::{Add, Sub};

use super::Counter;

/// Operation that reads tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// Lookup of one key.
    Get,
    /// Lookup of several keys.
    MultiGet,
    /// Scan.
    Scan,
    /// Compaction.
    Compaction,
    /// Opening or verifying a table.
    Upkeep,
}

/// Number of kinds of readers.
const READERS: usize = Reader::Upkeep as usize + 1;

/// Reads from tables, by reader. Each has its own cache line, so that they do not contend.
#[derive(Debug, Default)]
pub struct ReadCounters([ReaderCounters; READERS]);

impl ReadCounters {
    /// Returns the counters of `reader`.
    pub fn of(&self, reader: Reader) -> &ReaderCounters {
        &self.0[reader as usize]
    }
}

/// Reads from tables by one kind of reader, counted when they are requested, whether they succeed
/// or not.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ReaderCounters {
    /// Data blocks and index blocks read and decoded.
    pub blocks: Counter,
    /// Lower index blocks among them.
    pub index_blocks: Counter,
    /// Read requests to the environment.
    pub reads: Counter,
    /// Batches of several read requests.
    pub batches: Counter,
    /// Bytes of these requests.
    pub bytes: Counter,
}

impl ReaderCounters {
    /// Counts one read of `bytes` bytes.
    pub fn count_read(&self, bytes: usize) {
        self.reads.add(1);
        self.bytes.add(bytes as u64);
    }
}

impl ReadCounters {
    /// Returns the values so far.
    pub fn get(&self) -> ReadStats {
        let of = |reader| ReaderStats::of(self.of(reader));
        ReadStats {
            gets: of(Reader::Get),
            multi_gets: of(Reader::MultiGet),
            scans: of(Reader::Scan),
            compactions: of(Reader::Compaction),
            upkeep: of(Reader::Upkeep),
        }
    }
}

/// Reads from tables since the database was opened, by reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadStats {
    /// Reads of [`crate::Db::get`] and [`crate::Db::contains`].
    pub gets: ReaderStats,
    /// Reads of [`crate::Db::multi_get`].
    pub multi_gets: ReaderStats,
    /// Reads of scans.
    pub scans: ReaderStats,
    /// Reads of compactions.
    pub compactions: ReaderStats,
    /// Reads for opening tables, for filter rebuilds, and of [`crate::Db::verify`].
    pub upkeep: ReaderStats,
}

/// Reads from tables by one kind of reader. Block cache hits do not count; reads that the operating
/// system's page cache serves do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReaderStats {
    /// Data blocks and index blocks read and decoded.
    pub blocks: u64,
    /// Lower index blocks among them. Those of a table are read once if they fit in memory
    /// ([`crate::AdvancedOptions::index_bytes`]); models predict the other blocks.
    pub index_blocks: u64,
    /// Reads of files; one may return several blocks.
    pub reads: u64,
    /// Batches of several reads submitted at once.
    pub batches: u64,
    /// Bytes read.
    pub bytes: u64,
}

impl ReadStats {
    /// Returns the sums over all readers.
    pub fn total(&self) -> ReaderStats {
        self.gets + self.multi_gets + self.scans + self.compactions + self.upkeep
    }

    /// Returns the reads since `earlier`, a value of the same open database.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            gets: self.gets - earlier.gets,
            multi_gets: self.multi_gets - earlier.multi_gets,
            scans: self.scans - earlier.scans,
            compactions: self.compactions - earlier.compactions,
            upkeep: self.upkeep - earlier.upkeep,
        }
    }
}

impl ReaderStats {
    fn of(counters: &ReaderCounters) -> Self {
        Self {
            blocks: counters.blocks.get(),
            index_blocks: counters.index_blocks.get(),
            reads: counters.reads.get(),
            batches: counters.batches.get(),
            bytes: counters.bytes.get(),
        }
    }
}

impl Add for ReaderStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            index_blocks: self.index_blocks + other.index_blocks,
            reads: self.reads + other.reads,
            batches: self.batches + other.batches,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sub for ReaderStats {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            blocks: self.blocks - earlier.blocks,
            index_blocks: self.index_blocks - earlier.index_blocks,
            reads: self.reads - earlier.reads,
            batches: self.batches - earlier.batches,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
