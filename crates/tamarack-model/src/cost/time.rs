//! The time of operations on a device, from what they do: filters probed, blocks read, bytes
//! written.
//!
//! Of one thread that waits for everything it causes, including compactions, and without caches: to
//! compare designs. A scan's first blocks are read in parallel, its others one after the other. An
//! entry is written into the WAL, by its flush and by compactions, all of which but the flush read
//! what they write.

use crate::device::Device;
use crate::filter::{FilterChoice, FilterKind};
use crate::workload::Workload;

/// What a lookup does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookupWork {
    /// Filters probed.
    pub probes: f64,
    /// Blocks read from storage.
    pub reads: f64,
    /// Blocks or entries found in a cache.
    pub cached: f64,
}

/// What one operation of each kind does, in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// A zero-result lookup.
    pub zero_result: LookupWork,
    /// A lookup of an existing key.
    pub existing: LookupWork,
    /// Blocks that a scan reads until its first entry.
    pub seek_reads: f64,
    /// Blocks that a scan reads for its other entries.
    pub scan_reads: f64,
    /// Times that an entry is written by its flush and by compactions.
    pub update_writes: f64,
    /// Raw bytes of an entry.
    pub entry_bytes: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
    /// The filters that are probed.
    pub filter: FilterChoice,
}

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
        let lookup = |work: LookupWork| {
            let hash = if work.probes > 0.0 { device.digest_seconds(KEY_BYTES) } else { 0.0 };
            let probes = work.probes * probe_seconds(self.filter, device);
            hash + probes + work.reads * block + work.cached * device.entry_seconds
        };
        let blocks = self.seek_reads + self.scan_reads;
        let written = self.entry_bytes * (1.0 + self.update_writes) / device.write_bytes_per_second;
        let read = self.entry_bytes * (self.update_writes - 1.0).max(0.0) / device.read_bytes_per_second;
        Seconds {
            zero_result: lookup(self.zero_result),
            existing: lookup(self.existing),
            range: (self.seek_reads / device.reads_at_once()).max(1.0) * device.read_seconds
                + blocks * self.block_bytes / device.read_bytes_per_second,
            update: device.put_seconds + written + read,
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
