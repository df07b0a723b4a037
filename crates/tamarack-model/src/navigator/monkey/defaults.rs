//! The default designs of other stores, in Monkey's terms: Table 4 and Appendix K.
//!
//! The values are those of the paper, of the year 2018, which the projects may have changed since;
//! where the projects' own documentation differs, the source says so. All these stores give each
//! entry the same bits: [`price_uniform`](super::MonkeySetting::price_uniform) is their cost, and
//! [`price`](super::MonkeySetting::price) that of the same design with Monkey's filters.

use super::setting::MonkeyDesign;
use crate::cost::monkey::{Merging, MonkeyTree};
use crate::filter::{Allocation, FilterChoice, FilterKind};
use crate::policy::{Leveling, Policy, Tiering};
use crate::units::Bytes;

/// A store as it is if nobody configures it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DefaultDesign {
    /// Its name.
    pub store: &'static str,
    /// Merge policy and size ratio.
    pub tree: MonkeyTree,
    /// The memtable size, `M_buf`.
    pub buffer: Bytes,
    /// `M_filt / N`, the same for every entry.
    pub bits_per_entry: f64,
    /// Where the values come from.
    pub source: &'static str,
}

const MIB: u64 = 1 << 20;

const fn leveling(ratio: f64) -> MonkeyTree {
    MonkeyTree { ratio, merging: Merging::Leveling }
}

const fn tiering(ratio: f64) -> MonkeyTree {
    MonkeyTree { ratio, merging: Merging::Tiering }
}

/// LevelDB: leveling, T = 10, which cannot be changed.
pub const LEVELDB: DefaultDesign = DefaultDesign {
    store: "LevelDB",
    tree: leveling(10.0),
    buffer: Bytes(2 * MIB),
    bits_per_entry: 10.0,
    source: "Table 4, Appendix K; LevelDB's options.h has 4 MiB as write_buffer_size, and filters only if asked for",
};

/// RocksDB: leveling, T = 10.
pub const ROCKSDB: DefaultDesign = DefaultDesign {
    store: "RocksDB",
    tree: leveling(10.0),
    buffer: Bytes(64 * MIB),
    bits_per_entry: 10.0,
    source: "Table 4, Appendix K; the ratio's option is max_bytes_for_level_multiplier, not target_file_size_multiplier",
};

/// Cassandra: tiering, T = 4.
pub const CASSANDRA: DefaultDesign = DefaultDesign {
    store: "Cassandra",
    tree: tiering(4.0),
    buffer: Bytes(2048 * MIB),
    bits_per_entry: 10.0,
    source: "Table 4, Appendix K (min_threshold); the buffer is the memtable_heap_space_in_mb that cassandra.yaml \
             suggests, a quarter of the heap if omitted, since that of Table 4 is illegible in our copy",
};

/// HBase: leveling, T = 2.
pub const HBASE: DefaultDesign = DefaultDesign {
    store: "HBase",
    tree: leveling(2.0),
    buffer: Bytes(128 * MIB),
    bits_per_entry: 10.0,
    source: "Table 4, Appendix K (hbase.store.compaction.ratio = 1.2, so T is 2.2, printed as 2)",
};

/// WiredTiger's LSM-trees: tiering, T = 15.
pub const WIREDTIGER: DefaultDesign = DefaultDesign {
    store: "WiredTiger",
    tree: tiering(15.0),
    buffer: Bytes(10 * MIB),
    bits_per_entry: 16.0,
    source: "not in Table 4; WiredTiger's defaults of WT_SESSION::create, lsm: merge_max=15, chunk_size=10MB, \
             bloom_bit_count=16 (its oldest chunk has no filter, bloom_oldest=false)",
};

/// Accumulo: leveling, T = 4.
pub const ACCUMULO: DefaultDesign = DefaultDesign {
    store: "Accumulo",
    tree: leveling(4.0),
    buffer: Bytes(1024 * MIB),
    bits_per_entry: 11.0,
    source: "Table 4, Appendix K (table.compaction.major.ratio = 3)",
};

/// All of them.
pub const ALL: [DefaultDesign; 6] = [LEVELDB, ROCKSDB, CASSANDRA, HBASE, WIREDTIGER, ACCUMULO];

impl DefaultDesign {
    /// The design for so many entries.
    pub fn design(&self, entries: u64) -> MonkeyDesign {
        MonkeyDesign {
            tree: self.tree,
            buffer_bytes: self.buffer.as_f64(),
            filter_bits: self.bits_per_entry * entries as f64,
        }
    }

    /// Its policy in this engine.
    pub fn policy(&self) -> Policy {
        let ratio = self.tree.ratio as u32;
        match self.tree.merging {
            Merging::Leveling => Leveling::new(ratio, 1).expect("it is in range").into(),
            Merging::Tiering => Tiering::new(ratio).expect("it is in range").into(),
        }
    }

    /// Its filters: equal bits for each entry.
    pub fn filter(&self) -> FilterChoice {
        let allocation = Allocation::Uniform;
        FilterChoice::Each { kind: FilterKind::Bloom, bits_per_entry: self.bits_per_entry, allocation }
    }

    /// `M̂` of this design: the memory with which a search competes with it.
    pub fn memory(&self, entries: u64) -> Bytes {
        self.buffer + Bytes((self.bits_per_entry / 8.0 * entries as f64).ceil() as u64)
    }
}
