//! The size of a compaction's tables, and the parts that workers carry out at once.
//!
//! A run has [`TABLES_PER_RUN`] tables, if these are neither too small nor too large. Its size
//! decides two things that a tree beside writers shows: a compaction hands over its keys one table
//! at a time, and only one of several tables has parts for several workers.

/// Minimum size of a table: each table costs a sync and an entry in the manifest.
pub const TABLE_BYTES_MIN: u64 = 2 << 20;
/// Maximum size of a table: a compaction needs temporary space for a table per input, and hands
/// over one at a time.
pub const TABLE_BYTES_MAX: u64 = 64 << 20;

/// Target number of tables of a run, within the bounds on their size.
pub const TABLES_PER_RUN: u64 = 32;

/// Minimum size of a part that copies, in tables: each part costs reading a block twice per input,
/// and temporary space.
pub const PART_TABLES: u64 = 4;

/// Tables may exceed their size by one part in this many: files are a little larger than their
/// entries.
const TABLE_MARGIN: u64 = 16;

/// The size of the tables of a compaction whose inputs have so many raw bytes, in bytes, at most
/// `most` but for the margin of a file. Tables of a run of few tables get equal sizes: a small rest
/// would be a table of its own, whose filter takes a cache line for few entries.
///
/// # Panics
/// If `most` is 0.
pub fn table_bytes(raw_bytes: u64, most: u64) -> u64 {
    let most = most.min(TABLE_BYTES_MAX);
    let derived = (raw_bytes / TABLES_PER_RUN).clamp(TABLE_BYTES_MIN.min(most), most);
    let tables = ((raw_bytes + derived / 2) / derived).max(1);
    let equal = raw_bytes / tables;
    (equal + equal / TABLE_MARGIN).max(TABLE_BYTES_MIN.min(most))
}

/// The parts into which a compaction with tables of this size is divided for so many workers, at
/// least 1.
pub fn parts(raw_bytes: u64, table_bytes: u64, workers: usize) -> usize {
    let most = raw_bytes / table_bytes.saturating_mul(PART_TABLES).max(1);
    usize::try_from(most).unwrap_or(usize::MAX).clamp(1, workers.max(1))
}

/// How often a compaction of so many raw bytes hands over keys, at least once: whenever each of its
/// parts has filled a table.
pub fn handovers(raw_bytes: u64, workers: usize) -> u64 {
    let table = table_bytes(raw_bytes, TABLE_BYTES_MAX);
    (raw_bytes / table / parts(raw_bytes, table, workers) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Small runs are one table, large ones have a few more than 32, and no table is too large.
    #[test]
    fn sizes() {
        let of = |mib: u64| table_bytes(mib * MIB, TABLE_BYTES_MAX);
        assert_eq!([of(0), of(1), of(2)], [2 * MIB, 2 * MIB, 2 * MIB + MIB / 8]);
        assert_eq!(of(3), 2 * MIB, "two of one and a half would be too small");
        assert_eq!(of(320), 10 * MIB + 10 * MIB / 16);
        let largest = of(10_000);
        assert!((64 * MIB..=72 * MIB).contains(&largest), "{largest}");
        assert_eq!(table_bytes(64 * MIB, MIB), MIB + MIB / 16, "on a small disk");
    }

    /// Parts have four tables at least, and there is one for each worker at most.
    #[test]
    fn parts_and_handovers() {
        let of = |mib: u64| parts(mib * MIB, table_bytes(mib * MIB, TABLE_BYTES_MAX), 2);
        assert_eq!([of(1), of(16), of(18), of(1_000)], [1, 1, 2, 2]);
        let of = |mib: u64| handovers(mib * MIB, 2);
        assert_eq!([of(1), of(8), of(1_000), of(100_000)], [1, 3, 15, 735]);
    }
}
