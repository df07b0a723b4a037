//! The entries that are merged: unique random keys, dealt to several runs.
//!
//! Each entry is a pure function of its number, so every engine gets the same data and none is
//! stored.

use common::numbers::{mix, noise};
use common::words::List;
use tamarack::Compression;
use tamarack_format::entry::{Entry, EntryKind, Sequence};

/// What is merged.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub runs: u64,
    /// In all runs together.
    pub entries: u64,
    pub shape: Shape,
    pub compression: Compression,
}

/// How large keys and values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// 16 random bytes, 100 bytes.
    Small,
    /// 24 bytes of which the first eight are the same in all keys, 1,024 bytes.
    Large,
}

impl Shape {
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Small => 16,
            Self::Large => 24,
        }
    }

    pub fn value_bytes(self) -> usize {
        match self {
            Self::Small => 100,
            Self::Large => 1024,
        }
    }
}

impl Data {
    /// All that is chosen, with names: keys and values of `mib` MiB in so many runs.
    pub fn chosen(shapes: &List, compressions: &List, runs: u64, mib: u64) -> Vec<(String, Self)> {
        let mut chosen = Vec::new();
        for (shape_name, shape) in [("small", Shape::Small), ("large", Shape::Large)] {
            for (compression_name, compression) in [("none", Compression::None), ("lz4", Compression::Lz4)] {
                if shapes.wants(shape_name) && compressions.wants(compression_name) {
                    let entries = (mib << 20) / (shape.key_bytes() + shape.value_bytes()) as u64;
                    let name = format!("{shape_name}, {compression_name}");
                    chosen.push((name, Self { runs, entries, shape, compression }));
                }
            }
        }
        chosen
    }

    /// Keys and values, without what any engine adds.
    pub fn bytes(&self) -> u64 {
        self.entries * (self.shape.key_bytes() + self.shape.value_bytes()) as u64
    }

    /// Calls `add` with the entries of run `run`, in key order.
    pub fn for_each_of_run(&self, run: u64, mut add: impl FnMut(Entry<'_>)) {
        let mut numbers: Vec<(u64, u64)> =
            (run..self.entries).step_by(self.runs as usize).map(|n| (mix(n), n)).collect();
        numbers.sort_unstable();
        let noise = noise();
        let mut key = *b"account:................";
        let mut value = vec![0; self.shape.value_bytes()];
        for (mixed, n) in numbers {
            key[8..16].copy_from_slice(&mixed.to_be_bytes());
            key[16..].copy_from_slice(&mix(!n).to_be_bytes());
            self.fill_value(&mut value, &noise, n);
            let key = &key[key.len() - self.shape.key_bytes()..];
            add(Entry { key, sequence: Sequence(n + 1), kind: EntryKind::Put, value: &value });
        }
    }

    /// For compressed data, half of each value is noise and half one byte repeated; otherwise all
    /// of it is noise.
    fn fill_value(&self, value: &mut [u8], noise: &[u8], n: u64) {
        let noisy = if self.compression == Compression::None { value.len() } else { value.len() / 2 };
        let start = mix(n ^ 0x55) as usize % (noise.len() - noisy);
        value[..noisy].copy_from_slice(&noise[start..start + noisy]);
    }
}
