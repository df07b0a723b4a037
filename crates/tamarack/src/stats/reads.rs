//! Reads from tables by reader, as counters ([`ReadCounters`]) and as plain numbers
//! ([`ReadStats`]).
//!
//! Only reads from storage count, not block cache hits; so counting costs little beside the read.

use super::statistics::statistics;

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
        let of = |reader| ReaderStats::counted(self.of(reader));
        ReadStats {
            gets: of(Reader::Get),
            multi_gets: of(Reader::MultiGet),
            scans: of(Reader::Scan),
            compactions: of(Reader::Compaction),
            upkeep: of(Reader::Upkeep),
        }
    }
}

statistics! {
    sums;
    /// Reads from tables since the database was opened, by reader.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ReadStats {
        /// Reads of [`crate::Db::get`] and [`crate::Db::contains_key`].
        gets: ReaderStats;

        /// Reads of [`crate::Db::multi_get`].
        multi_gets: ReaderStats;

        /// Reads of scans.
        scans: ReaderStats;

        /// Reads of compactions.
        compactions: ReaderStats;

        /// Reads for opening tables, for filter rebuilds, and of [`crate::Db::verify`].
        upkeep: ReaderStats;
    }
}

statistics! {
    sums;
    /// Reads from tables by one kind of reader. Block cache hits do not count; reads that the
    /// operating system's page cache serves do.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ReaderStats {
    }

    /// Reads from tables by one kind of reader, counted when they are requested, whether they
    /// succeed or not.
    #[repr(align(64))]
    counters ReaderCounters {
        /// Data blocks and index blocks read and decoded.
        blocks: u64, "blocks";

        /// Lower index blocks among them. Those of a table are read once if they fit in memory
        /// ([`crate::AdvancedOptions::index_bytes`]); models predict the other blocks.
        index_blocks: u64, "index blocks";

        /// Reads of files; one may return several blocks.
        reads: u64, "reads";

        /// Reads among them that a worker carried out before a compaction came to their bytes; with
        /// [`crate::AdvancedOptions::direct_io`] only.
        ahead: u64, "reads";

        /// Batches of several reads submitted at once.
        batches: u64, "batches";

        /// Bytes read.
        bytes: u64, "bytes";
    }
}

impl ReadStats {
    /// Returns the sums over all readers.
    pub fn total(&self) -> ReaderStats {
        self.gets + self.multi_gets + self.scans + self.compactions + self.upkeep
    }

    /// Returns the reads since `earlier`, a value of the same open database.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        *self - *earlier
    }
}
