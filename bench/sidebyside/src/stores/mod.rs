//! The stores behind one trait. Settings of a single store are in its file, with their reasons.

mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tamarack;

use std::io;
use std::path::Path;
use std::time::Duration;

use common::machine;
use serde::{Deserialize, Serialize};

use crate::data::Data;

/// A store as it is set up for a measurement.
pub trait Kind {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// The name of its files, which kinds share that differ only in what is in memory.
    fn files(&self) -> &'static str {
        self.name()
    }

    /// The crate whose version the report gives, or another library's name.
    fn package(&self) -> &'static str;

    fn version(&self) -> String {
        machine::version(self.package()).to_owned()
    }

    /// How it was set up beyond what holds for all, and what could not be made equal.
    fn setup(&self) -> &'static str;

    /// The same for [`Shape::Default`].
    fn default_setup(&self) -> &'static str {
        self.setup()
    }

    /// True if it can read past the page cache; if not, the page cache is emptied of its files
    /// before each slice with direct I/O.
    fn has_direct_io(&self) -> bool {
        true
    }

    /// Whether it has one shape for all trees.
    fn has_one_shape(&self) -> bool {
        false
    }

    /// Whether its tree can be made to look so.
    fn takes(&self, shape: Shape) -> bool {
        shape == Shape::Leveled || !self.has_one_shape()
    }

    /// Opens the store in `dir`, which exists, or makes it there.
    fn open(&self, dir: &Path, place: &Place) -> Box<dyn Store>;

    /// The same with its defaults, and nothing given but memory, in bytes; only kinds of
    /// [`with_defaults`] can.
    fn open_with_defaults(&self, _dir: &Path, _memory_bytes: u64) -> Box<dyn Store> {
        unreachable!("{} is not measured with its defaults", self.name())
    }
}

/// A store as a report tells it, and as it is kept in JSON.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct EngineFacts {
    pub name: String,
    pub version: String,
    pub setup: String,
    /// Its figures stand for all shapes of a tree; not told by figures of programs that measure one
    /// shape.
    #[serde(default)]
    pub has_one_shape: bool,
}

impl EngineFacts {
    pub fn new(kind: &dyn Kind) -> Self {
        Self {
            name: kind.name().to_owned(),
            version: format!("{} {}", kind.package(), kind.version()),
            setup: kind.setup().to_owned(),
            has_one_shape: kind.has_one_shape(),
        }
    }
}

/// What all stores are told.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub data: Data,
    pub shape: Shape,
    pub buffer_bytes: u64,
    pub cache_bytes: u64,
    /// Bits per entry of every filter.
    pub filter_bits: u64,
    /// The size ratio of [`Shape::Default`], where the store has one that can be set; its own
    /// default otherwise.
    pub ratio: Option<u64>,
    pub direct_io: bool,
    pub compression: Compression,
    pub durability: Durability,
    /// All that is done is to load: a store may make larger commits if it needs them.
    pub loading: bool,
}

impl Place {
    /// Memtable size for engines that count more for an entry than its bytes: one that is flushed
    /// by hand must not fill up before.
    pub fn generous_buffer_bytes(&self) -> u64 {
        if self.shape == (Shape::Runs { by_hand: true }) { 2 * self.buffer_bytes } else { self.buffer_bytes }
    }
}

/// Compression of tables. The WAL is never compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    None,
    Lz4,
}

/// What a put survives once it has returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The end of the process: the log was written to the operating system.
    Buffered,
    /// A crash of the machine: the log was synced.
    Sync,
}

/// Bits per entry of filters, unless something else is asked for.
pub const FILTER_BITS: u64 = 10;

/// The size of blocks.
pub const BLOCK_BYTES: usize = 4096;

/// Memtables of a store that lets their number be set: the active one, and three immutable ones.
pub const MEMTABLES: u64 = 4;

impl Place {
    /// What the filters of all entries take.
    pub fn filter_bytes(&self) -> u64 {
        self.data.entries * self.filter_bits / 8
    }
}

/// What the tree looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The store's own default, in proportion to the memtable.
    Default,
    /// Leveled, with a size ratio of 10.
    Leveled,
    /// Every flushed memtable stays a run of its own. By hand: only [`Store::flush`] flushes it,
    /// before it is full.
    Runs { by_hand: bool },
}

/// An open store. A failure of it ends the measurement.
pub trait Store: Sync {
    fn put(&self, key: &[u8], value: &[u8]);

    /// Writes the buffer out, as a run of its own if the shape is of runs.
    fn flush(&self);

    /// Waits until nothing is left to be merged, and returns how long of that was only to be sure.
    fn settle(&self) -> Duration;

    /// Waits until no compaction is running or due by the store's own rules, and brings about none
    /// that is not; returns how long of that was only to make sure.
    fn settle_as_due(&self) -> Duration {
        self.settle()
    }

    /// Waits until the store's own compactions have ended; returns how long of that was only to
    /// make sure.
    fn rest(&self) -> Duration {
        self.settle()
    }

    /// Gets one value, without a copy if the store can do that.
    fn get(&self, key: &[u8], seen: &mut Seen);

    /// Scans up to `limit` entries from `from` on, in the store's fastest way; downward if
    /// `reverse`.
    fn scan(&self, from: &[u8], limit: usize, reverse: bool, seen: &mut Seen);

    /// What the tree looks like now.
    fn tree(&self) -> String;

    /// Figures of the tree, as far as the store tells them.
    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// Bytes written to tables since opening, by flushes and compactions, by the store's own count.
    fn table_bytes_written(&self) -> Option<u64> {
        None
    }

    /// How far off a difference of [`Store::table_bytes_written`] may be.
    fn table_bytes_rounding(&self) -> u64 {
        0
    }

    /// Reads of files by lookups so far, those that open tables included, by its own count, or else
    /// the process's calls that read. Only differences mean something. `None` if files are mapped.
    fn file_reads(&self) -> Option<u64> {
        Some(machine::io().calls)
    }

    /// Ends the measurement if the tree is not as requested: at least two levels, the last mostly
    /// full; or at least so many runs.
    fn assert_tree(&self, _place: &Place, _runs: u64) {}

    /// Blocks read from files so far, by its own count, or else the process's calls that read. Only
    /// differences mean something.
    fn block_reads(&self) -> Option<u64> {
        Some(machine::io().calls)
    }

    /// The same, `None` if it does not count blocks.
    fn block_counts(&self) -> Option<u64> {
        None
    }

    /// Takes its files, which are in `dir`, out of the page cache.
    fn evict(&self, dir: &Path) -> io::Result<()> {
        machine::evict(dir)
    }

    /// Whether it counts for each thread by itself, from that thread's first call on.
    fn counts_by_thread(&self) -> bool {
        false
    }
}

/// Figures of a tree at one moment.
#[derive(Clone, Copy, Default, Debug)]
pub struct Gauges {
    /// Bytes that compactions have yet to write, by the store's own estimate.
    pub debt_bytes: Option<u64>,
    /// Sorted runs on storage: tables of L0, and other levels that are not empty.
    pub runs: Option<u64>,
}

/// What was read: counts, and a sum over every key and value, which makes engines comparable and
/// forces them to return the bytes.
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
    let mut kinds: Vec<Box<dyn Kind>> = vec![Box::new(tamarack::Tamarack::new())];
    #[cfg(feature = "rocksdb")]
    kinds.extend(rocksdb::variants());
    #[cfg(feature = "leveldb")]
    kinds.push(Box::new(leveldb::LevelDb));
    kinds.push(Box::new(fjall::Fjall));
    kinds.push(Box::new(redb::Redb));
    kinds
}

/// All but variants that differ in how they read.
pub fn plain() -> Vec<Box<dyn Kind>> {
    all().into_iter().filter(|kind| kind.name() == kind.files()).collect()
}

/// The stores whose writing is compared, in the order of a round: Tamarack with its default policy
/// and with each of `policies`, and the other LSM trees.
pub fn writing(policies: &[String]) -> Vec<Box<dyn Kind>> {
    let mut kinds: Vec<Box<dyn Kind>> = vec![Box::new(tamarack::Tamarack::new())];
    kinds.extend(policies.iter().map(|policy| Box::new(tamarack::Tamarack::with_policy(policy)) as Box<dyn Kind>));
    #[cfg(feature = "rocksdb")]
    kinds.extend(rocksdb::styles());
    #[cfg(feature = "leveldb")]
    kinds.push(Box::new(leveldb::LevelDb));
    kinds.push(Box::new(fjall::Fjall));
    kinds
}

/// The stores that are measured with their defaults, in the order of a round.
pub fn with_defaults() -> Vec<Box<dyn Kind>> {
    let mut kinds: Vec<Box<dyn Kind>> = vec![Box::new(tamarack::Tamarack::by_default())];
    #[cfg(feature = "rocksdb")]
    kinds.extend(rocksdb::by_default());
    kinds.push(Box::new(fjall::ByDefault));
    kinds.push(Box::new(redb::ByDefault));
    kinds
}
