//! [`Plan`]: data, memory and lengths of a measurement, and the request to the search that follows
//! from them.

use common::words::Words;
use serde_json::{Value, json};
use tamarack_model::Bytes;
use tamarack_model::device::Device;
use tamarack_model::navigator::union::{Bounds, Limits, Request};

use crate::mixes::Mix;

pub const KEY_BYTES: usize = 16;
pub const VALUE_BYTES: usize = 100;

/// Raw bytes of an entry: key, value, and 8 bytes.
pub const RAW_BYTES: u64 = (KEY_BYTES + VALUE_BYTES + 8) as u64;

pub const BLOCK_BYTES: u64 = 4096;

/// Memory that the engine reserves for memtables, in memtables.
const MEMTABLES_KEPT: f64 = 3.0;

/// The part of the memory that the engine reserves for compactions.
const COMPACTIONS_PART: u64 = 16;

/// The largest memtable of which the engine lets as many be as usual, as a part of the memory.
const MEMTABLE_PART_MIN: u64 = 8;

#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Entries loaded.
    pub entries: u64,
    /// Memory budget of a database.
    pub memory_bytes: u64,
    /// Measurements of a cell, of the chosen design and those near the best.
    pub rounds: usize,
    /// Places in the two turnovers at which operations are timed.
    pub phases: u64,
    /// Time of operations in a cell, in milliseconds.
    pub cell_ms: u64,
    /// Bytes and seconds of the calibration.
    pub calibration: (u64, u64),
}

impl Plan {
    pub fn read(words: &Words) -> Self {
        let quick = words.flag("quick");
        let either = |name: &str, quickly: u64, usual: u64| words.positive(name, if quick { quickly } else { usual });
        Self {
            entries: either("entries", 100_000, 500_000),
            memory_bytes: either("memory-mib", 4, 16) << 20,
            rounds: either("rounds", 1, 3) as usize,
            phases: either("phases", 8, 20),
            cell_ms: either("cell-ms", 40, 400),
            calibration: if quick { (32 << 20, 2) } else { (256 << 20, 10) },
        }
    }

    /// What figures that are compared have in common.
    pub fn setting(&self) -> Value {
        json!({ "entries": self.entries, "memory_bytes": self.memory_bytes, "phases": self.phases, "cell_ms": self.cell_ms })
    }

    /// The plan of figures that were kept.
    pub fn with_setting(self, setting: &Value) -> Self {
        let of = |name: &str, other: u64| setting[name].as_u64().unwrap_or(other);
        Self {
            entries: of("entries", self.entries),
            memory_bytes: of("memory_bytes", self.memory_bytes),
            phases: of("phases", self.phases),
            cell_ms: of("cell_ms", self.cell_ms),
            ..self
        }
    }

    /// What the search is asked: within the same limits as the engine asks for the policy `auto`,
    /// but a tree may lack filters, since it is new.
    pub fn request(&self, mix: &Mix, device: Device) -> Request {
        let limits = Limits {
            buffer_max: Bytes(self.memory_bytes / MEMTABLE_PART_MIN),
            memtables_kept: MEMTABLES_KEPT,
            ..Limits::default()
        };
        Request {
            entries: self.entries,
            entry_bytes: RAW_BYTES,
            block_bytes: BLOCK_BYTES,
            memory: Bytes(self.memory_bytes - self.memory_bytes / COMPACTIONS_PART),
            workload: mix.workload(),
            inserts: 0.0,
            theta: 0.0,
            device,
            bounds: Bounds::default(),
            limits,
        }
    }
}
