//! The time of operations on a device, from what they do: filters probed, blocks searched and read,
//! bytes written.
//!
//! Of one thread that waits for everything it causes, including compactions: to compare designs. A
//! block is found by the index of its run and searched, whether it is read or cached; if it is
//! read, it is checked, decoded and cached before. A scan's first blocks are read together, for as
//! long as the device takes for so many at once; its others come with read-ahead, at the device's
//! bandwidth. An entry is written into the WAL, by its flush and by compactions, all of which but
//! the flush read what they write. Each table of these is synced, and so is what makes it a part of
//! the tree. Filters that are built anew because a write has changed the tree are its cost, too.

use crate::device::Device;
use crate::filter::chucky::GROWTH;
use crate::filter::{FilterChoice, FilterKind};
use crate::filter_plan::REBUILD_SECONDS;
use crate::units::Bytes;
use crate::workload::Workload;

/// What a lookup does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookupWork {
    /// Filters probed.
    pub probes: f64,
    /// Blocks searched.
    pub blocks: f64,
    /// The share of these that a cache serves, from 0 to 1; all others are read.
    pub hits: f64,
}

/// What a scan does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScanWork {
    /// Blocks searched until the first entry.
    pub seeks: f64,
    /// Blocks for the other entries.
    pub blocks: f64,
    /// Entries after the first.
    pub entries: f64,
    /// The share of the blocks that a cache serves, from 0 to 1; all others are read.
    pub hits: f64,
}

/// What one operation of each kind does, in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// A zero-result lookup.
    pub zero_result: LookupWork,
    /// A lookup of an existing key.
    pub existing: LookupWork,
    /// A scan.
    pub scan: ScanWork,
    /// Times that an entry is written by its flush and by compactions.
    pub update_writes: f64,
    /// Tables that are written for an update.
    pub tables: f64,
    /// Entries of a filter over the whole tree that are put into a place, for an update.
    pub filter_entries: f64,
    /// Entries of tables' filters that are built anew, for an update.
    pub filters_rebuilt: f64,
    /// Raw bytes of an entry.
    pub entry_bytes: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
    /// The filters that are probed.
    pub filter: FilterChoice,
}

/// Probes of Chucky's filter that take as long as to put an entry into a place in it: loads with it
/// take 0.3 µs more for each of these than with Bloom filters, on a machine whose probes take
/// 0.1 µs.
const MOVE_PROBES: f64 = 3.0;

/// Syncs for each table that is written: of its file, of its directory, and of the manifest.
const SYNCS_PER_TABLE: f64 = 3.0;

/// Bytes of the key whose digest is computed: digests depend little on them.
const KEY_BYTES: f64 = 16.0;

/// Seconds of one operation of each kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// A zero-result lookup.
    pub zero_result: f64,
    /// A lookup of an existing key.
    pub existing: f64,
    /// A scan.
    pub range: f64,
    /// A put or delete.
    pub update: f64,
}

impl Work {
    /// How long the operations take on a device.
    pub fn seconds(&self, device: &Device) -> Seconds {
        let decoding = device.decoding_seconds(self.block_bytes);
        let block = device.block_seconds(self.block_bytes) + decoding;
        let search = device.index_seconds + device.entry_seconds;
        let lookup = |work: LookupWork| {
            let hash = if work.probes > 0.0 { device.digest_seconds(KEY_BYTES) } else { 0.0 };
            let probes = work.probes * probe_seconds(self.filter, device);
            device.lookup_seconds + hash + probes + work.blocks * (search + (1.0 - work.hits) * block)
        };
        let ScanWork { seeks, blocks, entries, hits } = self.scan;
        let read_part = 1.0 - hits;
        // First blocks are read together; there is no wait if all of them are cached.
        let is_read = 1.0 - hits.powf(seeks);
        let waits =
            if is_read > 0.0 { is_read * device.concurrent_reads_seconds(seeks * read_part / is_read) } else { 0.0 };
        let one = self.block_bytes / device.read_bytes_per_second + decoding;
        let first = seeks * read_part * device.scan_block_seconds;
        let scan_read = waits + first + (seeks + blocks) * read_part * one;
        let again = (self.update_writes - 1.0).max(0.0);
        let moved = self.filter_entries * MOVE_PROBES * device.probe_seconds.chucky;
        let rebuilt = self.filters_rebuilt * REBUILD_SECONDS;
        let synced = self.tables * SYNCS_PER_TABLE * device.sync_seconds;
        let written = self.entry_bytes * (1.0 + self.update_writes) / device.write_bytes_per_second;
        let read = self.entry_bytes * again / device.read_bytes_per_second;
        Seconds {
            zero_result: lookup(self.zero_result),
            existing: lookup(self.existing),
            range: device.scan_begin_seconds + scan_read + seeks * search + entries * device.scan_seconds,
            update: device.put_seconds
                + self.update_writes * device.compaction_seconds
                + moved
                + rebuilt
                + synced
                + written
                + read,
        }
    }
}

impl Work {
    /// The tables that are written for an update, as large as a memtable.
    pub fn tables_of(update_writes: f64, entry_bytes: f64, memtable: Bytes) -> f64 {
        update_writes * entry_bytes / memtable.as_f64().max(entry_bytes)
    }

    /// Entries of a filter over the whole tree that are put into a place for an update that is
    /// written so many times; 0 if there is no such filter. `growth` is the most entries of the
    /// tree over the least.
    ///
    /// Each time that an entry is written, it gets another place. Partitions are made anew each
    /// time that the tree has grown by [`GROWTH`], and smaller once they are half empty: a tree
    /// that loses half of its entries by a compaction, and gets them again, has
    /// `1 / ln(1 + GROWTH)` of them put into a new partition for each one that comes.
    pub fn filter_entries_of(filter: FilterChoice, update_writes: f64, growth: f64) -> f64 {
        let FilterChoice::Tree { .. } = filter else { return 0.0 };
        let made_anew = if growth * (1.0 + GROWTH / 2.0) > 2.0 { 1.0 / (1.0 + GROWTH).ln() } else { 0.0 };
        update_writes + made_anew
    }

    /// Blocks that a read of the workload reads from storage, in the mean over its lookups and
    /// scans: without those that a cache serves. `None` if the workload does not read.
    pub fn block_reads(&self, workload: &Workload) -> Option<f64> {
        let lookup = |work: LookupWork| work.blocks * (1.0 - work.hits);
        let scan = (self.scan.seeks + self.scan.blocks) * (1.0 - self.scan.hits);
        mean_of_reads(workload, [lookup(self.zero_result), lookup(self.existing), scan])
    }
}

impl Seconds {
    /// The mean over the reads of a workload; `None` if it does not read.
    pub fn mean_of_reads(&self, workload: &Workload) -> Option<f64> {
        mean_of_reads(workload, [self.zero_result, self.existing, self.range])
    }

    /// The mean over the operations of a workload.
    pub fn mean(&self, workload: &Workload) -> f64 {
        workload.zero_result * self.zero_result
            + workload.existing * self.existing
            + workload.ranges * self.range
            + workload.updates * self.update
    }
}

/// The mean of the costs of a zero-result lookup, a lookup of an existing key and a scan.
fn mean_of_reads(workload: &Workload, costs: [f64; 3]) -> Option<f64> {
    let shares = [workload.zero_result, workload.existing, workload.ranges];
    let reads: f64 = shares.iter().sum();
    let sum: f64 = shares.iter().zip(costs).map(|(share, cost)| share * cost).sum();
    (reads > 0.0).then_some(sum / reads)
}

/// Seconds to probe one of the filters, or the one over the whole tree.
fn probe_seconds(filter: FilterChoice, device: &Device) -> f64 {
    let probe = device.probe_seconds;
    match filter {
        FilterChoice::None => 0.0,
        FilterChoice::Each { kind: FilterKind::Blocked, .. } => probe.blocked,
        FilterChoice::Each { kind: FilterKind::Bloom, .. } => probe.bloom,
        FilterChoice::Each { kind: FilterKind::Elastic, .. } => probe.elastic,
        FilterChoice::Tree { .. } => probe.chucky,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::ProbeSeconds;

    fn work() -> Work {
        Work {
            zero_result: LookupWork { probes: 3.0, blocks: 0.5, hits: 0.0 },
            existing: LookupWork { probes: 2.0, blocks: 1.25, hits: 0.2 },
            scan: ScanWork { seeks: 4.0, blocks: 6.0, entries: 100.0, hits: 0.5 },
            update_writes: 8.0,
            tables: 0.001,
            filter_entries: 0.0,
            filters_rebuilt: 0.0,
            entry_bytes: 100.0,
            block_bytes: 4096.0,
            filter: FilterChoice::None,
        }
    }

    /// The reads of a scan wait for each other as the device says, and for nothing if all blocks
    /// are cached.
    #[test]
    fn scans_wait_for_their_first_blocks() {
        let slow = Device { reads_per_second: [10e3; 6], read_bytes_per_second: 1e15, ..Device::nvme() };
        let fast = Device { read_bytes_per_second: 1e15, ..Device::nvme() };
        let of = |device: &Device, seeks, hits| {
            let scan = ScanWork { seeks, blocks: 0.0, entries: 0.0, hits };
            let decoded = seeks * (1.0 - hits) * (device.decode_seconds + device.scan_block_seconds);
            let search = seeks * (device.index_seconds + device.entry_seconds);
            let processor = device.scan_begin_seconds + search + decoded;
            1e6 * (Work { scan, ..work() }.seconds(device).range - processor)
        };
        let found = [of(&slow, 4.0, 0.0), of(&fast, 4.0, 0.0), of(&fast, 4.0, 1.0), of(&fast, 1.0, 0.25)];
        // One of two blocks is read with a chance of a half, both with one of a quarter.
        let of_two = [of(&fast, 2.0, 0.5), of(&slow, 2.0, 0.5)];
        for (found, expected) in found.iter().chain(&of_two).zip([400.0, 100.0, 0.0, 75.0, 75.0, 100.0]) {
            assert!((found - expected).abs() < 1e-3, "{found} instead of {expected}");
        }
    }

    /// Block reads of reads by hand: `0.5`, `1.25 × 0.8` and `(4 + 6) × 0.5`, by their shares among
    /// the reads. Updates change nothing.
    #[test]
    fn block_reads_by_hand() {
        let of = |parts: [f64; 4]| {
            let workload = Workload::of_parts(parts[0], parts[1], parts[2], parts[3], 100.0).expect("shares");
            work().block_reads(&workload)
        };
        assert_eq!(of([1.0, 0.0, 0.0, 3.0]), Some(0.5));
        assert_eq!(of([0.0, 1.0, 0.0, 0.0]), Some(1.0));
        assert_eq!(of([0.0, 0.0, 1.0, 7.0]), Some(5.0));
        assert_eq!(of([2.0, 1.0, 1.0, 4.0]), Some(1.75));
        assert_eq!(of([0.0, 0.0, 0.0, 1.0]), None);
    }

    /// An update by hand: one put, 8 writes of the entry, a thousandth of a table with its syncs, 9
    /// times its bytes written and 7 times read; and 3 probes for each place in a filter.
    #[test]
    fn updates_by_hand() {
        let device = Device {
            put_seconds: 1.0,
            compaction_seconds: 0.5,
            sync_seconds: 100.0,
            write_bytes_per_second: 1000.0,
            read_bytes_per_second: 500.0,
            ..Device::default()
        };
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}, {expected}");
        let update = 1.0 + 8.0 * 0.5 + 0.001 * 3.0 * 100.0 + 9.0 * 0.1 + 7.0 * 0.2;
        near(work().seconds(&device).update, update);
        let filter = FilterChoice::Tree { bits_per_entry: 12.0 };
        near(Work::filter_entries_of(filter, 8.0, 1.5), 8.0);
        let filter_entries = Work::filter_entries_of(filter, 8.0, 2.0);
        near(filter_entries, 8.0 + 1.0 / 1.125_f64.ln());
        let probe_seconds = ProbeSeconds { chucky: 10.0, ..device.probe_seconds };
        let moved = Work { filter_entries, ..work() }.seconds(&Device { probe_seconds, ..device }).update;
        near(moved, update + 30.0 * filter_entries);
        assert_eq!(Work::filter_entries_of(FilterChoice::None, 8.0, 2.0), 0.0);
        let rebuilt = Work { filters_rebuilt: 1e8, ..work() }.seconds(&device).update;
        near(rebuilt, update + 4.0);
        near(Work::tables_of(8.0, 100.0, Bytes(100_000)), 0.008);
    }

    /// The mean of all operations is that of the reads and that of the updates, by their shares.
    #[test]
    fn means_of_reads_and_of_all() {
        let workload = Workload::of_parts(1.0, 2.0, 3.0, 4.0, 100.0).expect("shares");
        let seconds = work().seconds(&Device::default());
        let reads = seconds.mean_of_reads(&workload).expect("it reads");
        let both = 0.6 * reads + 0.4 * seconds.update;
        assert!((seconds.mean(&workload) / both - 1.0).abs() < 1e-12, "{seconds:?}");
    }
}
