//! Workloads: which keys and values, in which order, by how many threads, how durable.
//!
//! The n-th put of a workload is a pure function of n, so that every engine gets the same work and threads can share it out: thread t of T does
//! the puts t, t + T, t + 2T, …

use std::fmt;

use crate::settings::Settings;

/// The length of every key, in bytes.
pub const KEY_BYTES: usize = 16;
/// The length of every value, in bytes.
pub const VALUE_BYTES: usize = 100;

/// What a put survives once it has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The end of the process: the log was written to the operating system.
    Buffered,
    /// A crash of the machine: the log was synced.
    Sync,
}

/// In which order keys come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Random,
    Sequential,
}

/// One workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub order: Order,
    pub durability: Durability,
    pub threads: u64,
    pub entries: u64,
    /// Whether stores merge meanwhile, and the clock runs until they have nothing left to merge.
    pub settled: bool,
}

/// The workloads that the settings ask for.
pub fn all(settings: &Settings) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for durability in [Durability::Buffered, Durability::Sync] {
        for order in [Order::Random, Order::Sequential] {
            for &threads in &settings.threads {
                let entries = match durability {
                    Durability::Buffered => settings.entries,
                    Durability::Sync => settings.sync_entries,
                };
                workloads.push(Workload { order, durability, threads, entries, settled: false });
            }
        }
    }
    for &threads in &settings.threads {
        let (order, durability, entries) = (Order::Random, Durability::Buffered, settings.load_entries);
        workloads.push(Workload { order, durability, threads, entries, settled: true });
    }
    workloads.retain(|w| settings.wants_workload(w.name()) && settings.wants_durability(w.durability.name()));
    workloads
}

impl Workload {
    /// Its name, without threads and durability.
    pub fn name(&self) -> &'static str {
        match self.order {
            _ if self.settled => "loadrandom",
            Order::Random => "fillrandom",
            Order::Sequential => "fillseq",
        }
    }

    /// The key of the n-th put: 16 hexadecimal digits.
    pub fn key(&self, n: u64) -> [u8; KEY_BYTES] {
        let number = match self.order {
            Order::Random => mix(n),
            Order::Sequential => n,
        };
        std::array::from_fn(|i| b"0123456789abcdef"[(number >> (60 - 4 * i) & 15) as usize])
    }
}

/// The value of the n-th put: a window into `noise`.
pub fn value(noise: &[u8], n: u64) -> &[u8] {
    let start = (mix(n) % (noise.len() - VALUE_BYTES) as u64) as usize;
    &noise[start..start + VALUE_BYTES]
}

/// Bytes without any pattern, for [`value`].
pub fn noise() -> Vec<u8> {
    (0..1u64 << 17).flat_map(|n| mix(n).to_le_bytes()).collect()
}

impl Durability {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, {} thread{}",
            self.name(),
            self.durability.name(),
            self.threads,
            if self.threads == 1 { "" } else { "s" }
        )
    }
}

/// A permutation of the 64-bit numbers without visible order (splitmix64): distinct numbers give distinct keys.
fn mix(n: u64) -> u64 {
    let mut mixed = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
