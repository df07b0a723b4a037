//! The statistics of memory and disk: [`MemoryStats`], [`DiskStats`].

use super::statistics::statistics;

statistics! {
    /// Memory of a database, in bytes, by part: all that counts towards its memory budget, as of
    /// about now.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MemoryStats {
        /// Memory budget of all parts together; see [`crate::Options::memory_bytes`].
        budget_bytes: u64, "bytes";

        /// Memory of all parts together.
        total_bytes: u64, "bytes";

        /// Memory over the budget, although the caches have shrunk: filters, indexes or pinned
        /// memory have outgrown it.
        over_bytes: u64, "bytes";

        /// Active and immutable memtables.
        memtables_bytes: u64, "bytes";

        /// Block cache and entry cache, with their bookkeeping.
        cache_bytes: u64, "bytes";

        /// Present upper bound on the size of the caches.
        cache_capacity_bytes: u64, "bytes";

        /// Filters of open tables.
        filters_bytes: u64, "bytes";

        /// Indexes of open tables, without index blocks in the block cache.
        indexes_bytes: u64, "bytes";

        /// Scans: cursors, also those that are kept for the next scan, read-ahead, and scans that
        /// rest, with what they have lent.
        iterators_bytes: u64, "bytes";

        /// Read-ahead of flushes and compactions, and the tables that they build.
        compactions_bytes: u64, "bytes";

        /// Memory that only readers pin: blocks that the cache has evicted, memtables that are
        /// flushed.
        pinned_bytes: u64, "bytes";

        /// Writes on their way into the WAL.
        wal_bytes: u64, "bytes";

        /// Metadata of tables, and range deletes that tables still need.
        tables_bytes: u64, "bytes";

        /// Transactions: what they have read, written and locked, and the keys that were written
        /// while they are active.
        transactions_bytes: u64, "bytes";
    }
}

impl MemoryStats {
    /// Returns the parts of the total, by name, in bytes.
    pub fn parts(&self) -> [(&'static str, u64); 10] {
        [
            ("memtables", self.memtables_bytes),
            ("cache", self.cache_bytes),
            ("filters", self.filters_bytes),
            ("indexes", self.indexes_bytes),
            ("iterators", self.iterators_bytes),
            ("compactions", self.compactions_bytes),
            ("pinned", self.pinned_bytes),
            ("wal", self.wal_bytes),
            ("tables", self.tables_bytes),
            ("transactions", self.transactions_bytes),
        ]
    }
}

statistics! {
    /// Disk space and reserve of a database.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DiskStats {
        /// Free space.
        free_bytes: u64, "bytes";

        /// Size of the file system.
        total_bytes: u64, "bytes";

        /// Reserve for flushes and compactions: [`crate::AdvancedOptions::reserve_bytes`].
        reserve_bytes: u64, "bytes";

        /// True while puts are refused: free space fell below the reserve and has not risen a
        /// quarter above it since.
        is_low: bool;
    }
}
