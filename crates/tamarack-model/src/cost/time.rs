//! The time of operations on a device, from what they do: filters probed, blocks searched and read,
//! bytes written.
//!
//! Of one thread that waits for everything it causes, including compactions: to compare designs. A
//! block is found by the index of its run and searched, whether it is read or cached. A scan's
//! first blocks are read in parallel, its others one after the other. An entry is written into the
//! WAL, by its flush and by compactions, all of which but the flush read what they write.

use crate::device::Device;
use crate::filter::{FilterChoice, FilterKind};
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
    /// Raw bytes of an entry.
    pub entry_bytes: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
    /// The filters that are probed.
    pub filter: FilterChoice,
}

/// Probes of Chucky's filter that take as long as to change the place of an entry in it, once for
/// each time that the entry is written: loads with it take 0.3 µs more for each of these than with
/// Bloom filters, on a machine whose probes take 0.1 µs.
const MOVE_PROBES: f64 = 3.0;

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
        let block = device.block_seconds(self.block_bytes);
        let search = device.index_seconds + device.entry_seconds;
        let lookup = |work: LookupWork| {
            let hash = if work.probes > 0.0 { device.digest_seconds(KEY_BYTES) } else { 0.0 };
            let probes = work.probes * probe_seconds(self.filter, device);
            hash + probes + work.blocks * (search + (1.0 - work.hits) * block)
        };
        let ScanWork { seeks, blocks, entries, hits } = self.scan;
        let read_part = 1.0 - hits;
        // The first reads wait for each other only where there are more than the device takes, and
        // there is no wait if all are cached.
        let waits = (seeks * read_part / device.reads_at_once()).max(read_part);
        let scan_read = waits * device.read_seconds
            + (seeks + blocks) * read_part * self.block_bytes / device.read_bytes_per_second;
        let again = (self.update_writes - 1.0).max(0.0);
        let moved = match self.filter {
            FilterChoice::Tree { .. } => self.update_writes * MOVE_PROBES * device.probe_seconds.chucky,
            FilterChoice::None | FilterChoice::Each { .. } => 0.0,
        };
        let written = self.entry_bytes * (1.0 + self.update_writes) / device.write_bytes_per_second;
        let read = self.entry_bytes * again / device.read_bytes_per_second;
        Seconds {
            zero_result: lookup(self.zero_result),
            existing: lookup(self.existing),
            range: scan_read + seeks * search + entries * device.scan_seconds,
            update: device.put_seconds + again * device.compaction_seconds + moved + written + read,
        }
    }
}

impl Seconds {
    /// The mean over the operations of a workload.
    pub fn mean(&self, workload: &Workload) -> f64 {
        workload.zero_result * self.zero_result
            + workload.existing * self.existing
            + workload.ranges * self.range
            + workload.updates * self.update
    }
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
