//! What was read from tables, counted by who reads ([`ReadCounters`]), and as plain numbers
//! ([`ReadStats`]).
//!
//! Only what goes to storage counts, not what the cache has; so a count costs nothing beside what
//! it counts.

use std::ops::{Add, Sub};

use super::Counter;

/// On whose behalf tables are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// A lookup of one key.
    Get,
    /// A lookup of many keys.
    MultiGet,
    /// A scan.
    Scan,
    /// A merge.
    Compaction,
    /// Opening a table, or checking it.
    Upkeep,
}

/// How many kinds of readers there are.
const READERS: usize = Reader::Upkeep as usize + 1;

/// What was read from tables, by reader. A cache line for each, so that they do not meet.
#[derive(Debug, Default)]
pub struct ReadCounters([ReaderCounters; READERS]);

impl ReadCounters {
    /// What was read for `reader`.
    pub fn of(&self, reader: Reader) -> &ReaderCounters {
        &self.0[reader as usize]
    }
}

/// What was read from tables for one kind of reader. Counted when it is asked for, whatever comes
/// of it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct ReaderCounters {
    /// Blocks that were read and decoded: data blocks and index blocks.
    pub blocks: Counter,
    /// Lower index blocks among them.
    pub index_blocks: Counter,
    /// Reads that the environment was asked for.
    pub reads: Counter,
    /// The times that several of these were handed over together.
    pub batches: Counter,
    /// Their bytes.
    pub bytes: Counter,
}

impl ReaderCounters {
    /// Counts one read of so many bytes.
    pub fn count_read(&self, bytes: usize) {
        self.reads.add(1);
        self.bytes.add(bytes as u64);
    }
}

impl ReadCounters {
    /// The numbers so far.
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

/// What was read from tables since the database was opened, by reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadStats {
    /// For [`crate::Db::get`] and [`crate::Db::contains`].
    pub gets: ReaderStats,
    /// For lookups of many keys at once.
    pub multi_gets: ReaderStats,
    /// For scans.
    pub scans: ReaderStats,
    /// For merges.
    pub compactions: ReaderStats,
    /// For opening tables, and for [`crate::Db::verify`].
    pub upkeep: ReaderStats,
}

/// What was read from tables by one kind of reader. It does not count what the block cache had; the
/// page cache may have had all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReaderStats {
    /// Blocks read and decoded: data blocks and index blocks.
    pub blocks: u64,
    /// Lower index blocks among them. Those of a table are read once if they find room in memory
    /// ([`crate::AdvancedOptions::index_bytes`]); models of reads foretell the others.
    pub index_blocks: u64,
    /// Reads of files; one may bring several blocks.
    pub reads: u64,
    /// Times that several of these reads were handed over at once.
    pub batches: u64,
    /// Bytes that these reads brought.
    pub bytes: u64,
}

impl ReadStats {
    /// All readers together.
    pub fn total(&self) -> ReaderStats {
        self.gets + self.multi_gets + self.scans + self.compactions + self.upkeep
    }

    /// What was read since `earlier`, of the same open database.
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
