//! The stores behind one trait. What only one store has to be told stands in its file, with the reason.

mod fjall;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tamarack;

use std::path::Path;

use super::data::Data;

/// A store as it is set up for a measurement.
pub trait Kind {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// The name of its files, which kinds share that differ only in what is in memory.
    fn files(&self) -> &'static str {
        self.name()
    }

    /// The crate whose version the report gives.
    fn package(&self) -> &'static str;

    /// How it was set up beyond what holds for all.
    fn setup(&self) -> &'static str;

    /// Opens the store in `dir`, or makes it there.
    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store>;
}

/// What all stores are told.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub data: Data,
    pub shape: Shape,
    pub buffer_bytes: u64,
    pub cache_bytes: u64,
    pub direct_io: bool,
}

/// Bits per entry of every filter.
pub const FILTER_BITS: u64 = 10;

/// The size of blocks.
pub const BLOCK_BYTES: usize = 4096;

impl Place {
    /// What the filters of all entries take.
    pub fn filter_bytes(&self) -> u64 {
        self.data.entries * FILTER_BITS / 8
    }
}

/// What the tree looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Leveled, with a size ratio of 10.
    Leveled,
    /// So many runs, side by side.
    Runs(u64),
}

impl Shape {
    /// In the names of directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leveled => "leveled",
            Self::Runs(_) => "runs",
        }
    }
}

/// An open store. A failure of it ends the measurement.
pub trait Store: Sync {
    fn put(&self, key: &[u8], value: &[u8]);

    /// Writes the buffer out, as a run of its own if the shape is of runs.
    fn flush(&self);

    /// Waits until nothing is left to be merged.
    fn settle(&self);

    /// Gets one value, without a copy if the store can do that.
    fn get(&self, key: &[u8], seen: &mut Seen);

    /// Goes over up to `limit` entries from `from` on, in the store's fastest way; from it downward if `reverse`.
    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen);

    /// What the tree looks like now.
    fn tree(&self) -> String;

    /// What cache, filters and indexes take in memory, if the store can tell.
    fn memory_bytes(&self) -> Option<u64>;

    /// Blocks that this thread's reads took from storage, if the store can tell; only differences mean something. Counting begins with the
    /// first call on a thread.
    fn block_reads(&self) -> Option<u64>;
}

/// What was read: counts, and a sum over every key and value that makes engines comparable and forces them to hand out the bytes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Seen {
    pub entries: u64,
    pub sum: u64,
    /// Keys (of scans) and values, if they are to be looked at.
    pub kept: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Seen {
    #[inline]
    pub fn value(&mut self, value: &[u8]) {
        self.entry(&[], value);
    }

    #[inline]
    pub fn entry(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        let of = |bytes: &[u8]| bytes.len() as u64 + u64::from(bytes.last().copied().unwrap_or(0));
        self.sum += of(key) + (of(value) << 16);
        if let Some(kept) = &mut self.kept {
            kept.push((key.to_vec(), value.to_vec()));
        }
    }
}

/// All kinds, in the order of a round.
pub fn all() -> Vec<Box<dyn Kind>> {
    let mut kinds: Vec<Box<dyn Kind>> = vec![Box::new(tamarack::Tamarack)];
    #[cfg(feature = "rocksdb")]
    kinds.extend(rocksdb::variants());
    kinds.push(Box::new(fjall::Fjall));
    kinds
}
