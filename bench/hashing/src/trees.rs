//! Trees to look things up in, and the lookups.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use common::machine::thread_cpu_ns;
use common::numbers::{mix, noise};
use tamarack::{AdvancedOptions, CompactionPause, Compression, Db, Options, Result};
use tamarack_env::{Env, OsEnv};
use tamarack_model::cost::hashing::Lookup;

use crate::waiting::{Waiting, waiting};

/// Bytes of each value.
const VALUE_BYTES: usize = 100;

/// What keys and filters a tree has.
#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    pub key_bytes: usize,
    /// As `AdvancedOptions::filter` takes it.
    pub filter: String,
}

/// Where the data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// In the cache.
    Memory,
    /// Read past the page cache, into no cache: an index block, and then the block.
    Direct,
    /// The same with a cache that holds the index, and little more.
    DirectButIndex,
    /// In memory, but each read waits so long.
    Waits(u64),
    /// In memory; for each read so much time is added to what was measured.
    Computed(u64),
}

impl Device {
    fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::DirectButIndex)
    }

    fn cache_bytes(self) -> u64 {
        match self {
            Self::Memory => 1 << 30,
            Self::DirectButIndex => 1 << 20,
            _ => 0,
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::Memory => "memory".to_owned(),
            Self::Direct | Self::DirectButIndex => "direct I/O".to_owned(),
            Self::Waits(ns) => format!("+{} µs", ns / 1000),
            Self::Computed(ns) => format!("+{} ms, added", ns / 1_000_000),
        }
    }
}

/// What a lookup took, in the mean of many.
#[derive(Clone, Copy, Default, Debug)]
pub struct Taken {
    /// Time on the clock of the tree's device: wall time where it reads a real one; otherwise
    /// processor time, which other programs do not lengthen.
    pub ns: f64,
    /// Processor time of the thread alone, without what is added by computation.
    pub cpu_ns: f64,
    /// Data blocks that were read.
    pub reads: f64,
}

/// Its entries, the bits of its filters, and their predicted false positive rate.
pub type RunOf = (u64, u64, f64);

/// A tree that stays as it is.
pub struct Tree {
    kind: Kind,
    /// Entries of each flush, and how many flushes.
    flushes: (u64, u64),
    policy: String,
    env: Arc<Waiting>,
    dir: PathBuf,
    open: Option<(Db, CompactionPause)>,
    /// Of each run, young to old.
    runs: Vec<RunOf>,
    device: Device,
    filler: Vec<u8>,
}

impl Tree {
    /// Builds a tree of `levels` full levels, each twice as large as the one before; each flush has
    /// `buffer_bytes` of entries.
    pub fn of_levels(kind: &Kind, levels: u32, buffer_bytes: u64, dir: &Path) -> Result<Self> {
        let entries = buffer_bytes / raw_bytes(kind);
        let tree = Self::load(kind, (entries, (1 << levels) - 1), "leveling:T=2", dir)?;
        let runs = tree.runs();
        assert_eq!(runs.len(), levels as usize, "one run in each level: {runs:?}");
        Ok(tree)
    }

    /// A tree of so many runs alike, with so many entries together.
    pub fn of_runs(kind: &Kind, runs: u64, entries: u64, dir: &Path) -> Result<Self> {
        let tree = Self::load(kind, (entries / runs, runs), "tiering:T=100", dir)?;
        assert_eq!(tree.runs().len() as u64, runs, "all of them in level 1");
        Ok(tree)
    }

    fn load(kind: &Kind, flushes: (u64, u64), policy: &str, dir: &Path) -> Result<Self> {
        let mut tree = Self {
            kind: kind.clone(),
            flushes,
            policy: policy.to_owned(),
            env: waiting(),
            dir: dir.to_owned(),
            open: None,
            runs: Vec::new(),
            device: Device::Memory,
            filler: noise(),
        };
        tree.fill(Device::Memory)?;
        tree.open(Device::Memory)?;
        Ok(tree)
    }

    fn fill(&self, device: Device) -> Result<()> {
        let db = self.options(device).open(self.path(device))?;
        let (mut key, value) = (self.first_key(), &self.filler[..VALUE_BYTES]);
        for flush in 0..self.flushes.1 {
            for nth in 0..self.flushes.0 {
                set_number(&mut key, nth * self.flushes.1 + flush);
                db.put(&key, value)?;
            }
            db.flush()?;
            db.wait_for_compactions()?;
            db.rebuild_filters()?;
        }
        db.close()
    }

    fn path(&self, device: Device) -> PathBuf {
        if device.is_direct() { self.dir.join("db") } else { PathBuf::from("/db") }
    }

    fn options(&self, device: Device) -> Options {
        let env: Arc<dyn Env> = if device.is_direct() { OsEnv::new() } else { self.env.clone() };
        let advanced = AdvancedOptions::new()
            .env(env)
            // A little more than is flushed at a time, so that it is flushed when it is said.
            .memtable_bytes((self.flushes.0 + 1) * raw_bytes(&self.kind))
            .policy(&self.policy)
            .filter(&self.kind.filter)
            .cache_bytes(device.cache_bytes())
            .direct_io(device.is_direct());
        Options::new().compression(Compression::None).threads(1).memory_bytes(2 << 30).advanced(advanced)
    }

    /// Opens it anew on `device` and lets it settle there: with everything in the cache, or all
    /// indexes in memory.
    pub fn open(&mut self, device: Device) -> Result<()> {
        self.open = None;
        self.device = device;
        self.env.hook().set_wait_ns(0);
        if device.is_direct() && !self.path(device).exists() {
            fs::create_dir_all(&self.dir).expect("a directory");
            self.fill(device)?;
        }
        let db = self.options(device).open(self.path(device))?;
        let pause = db.pause_compactions();
        let stats = db.stats();
        let runs = stats.levels.iter().flat_map(|level| &level.runs);
        self.runs = runs.map(|run| (run.entries, run.filter_bits, run.filter_fpr)).collect();
        self.open = Some((db, pause));
        let all = self.entries();
        let (mut key, step) = (self.first_key(), if device == Device::Memory { 1 } else { (all / 20_000).max(1) });
        for number in (0..all).step_by(step as usize) {
            set_number(&mut key, number);
            assert!(self.db().get(&key)?.is_some(), "entry {number} is lost");
        }
        if let Device::Waits(ns) = device {
            self.env.hook().set_wait_ns(ns);
        }
        Ok(())
    }

    pub fn open_if_closed(&mut self, device: Device) -> Result<()> {
        if self.open.is_none() { self.open(device) } else { Ok(()) }
    }

    pub fn close(&mut self) {
        self.open = None;
    }

    fn db(&self) -> &Db {
        &self.open.as_ref().expect("it is open").0
    }

    pub fn entries(&self) -> u64 {
        self.flushes.0 * self.flushes.1
    }

    pub fn runs(&self) -> &[RunOf] {
        &self.runs
    }

    /// What a mean lookup does by the model, if that share of lookups is for keys that are there.
    pub fn lookup(&self, found: f64) -> Lookup {
        let rates: Vec<f64> = self.runs.iter().map(|run| run.2).collect();
        let targets: Vec<f64> = self.runs.iter().map(|run| run.0 as f64 / self.entries() as f64).collect();
        Lookup::over(&rates, &targets, found)
    }

    /// Carries out `lookups` lookups from number `first` on, `found_percent` of them of existing
    /// keys. Returns the mean of each measure.
    pub fn take(&self, lookups: u64, first: u64, found_percent: u64) -> Result<Taken> {
        let (reads, began, cpu) = (self.reads(), Instant::now(), thread_cpu_ns());
        self.look_up(lookups, first, found_percent)?;
        let (cpu_ns, wall_ns) = ((thread_cpu_ns() - cpu) as f64, began.elapsed().as_nanos() as f64);
        let reads = (self.reads() - reads) as f64;
        let ns = match self.device {
            Device::Direct | Device::DirectButIndex => wall_ns,
            Device::Computed(each) => cpu_ns + reads * each as f64,
            Device::Memory | Device::Waits(_) => cpu_ns,
        };
        let lookups = lookups as f64;
        Ok(Taken { ns: ns / lookups, cpu_ns: cpu_ns / lookups, reads: reads / lookups })
    }

    /// The lookups of [`Tree::take`]; a function of its own, so that they can be counted.
    #[inline(never)]
    pub fn look_up(&self, lookups: u64, first: u64, found_percent: u64) -> Result<()> {
        let (db, all, mut key) = (self.db(), self.entries(), self.first_key());
        for lookup in first..first + lookups {
            let drawn = mix(lookup);
            let is_there = ((drawn >> 32) * 100) >> 32 < found_percent;
            let number = if is_there { ((drawn & 0xFFFF_FFFF) * all) >> 32 } else { all + lookup };
            set_number(&mut key, number);
            assert_eq!(db.get(&key)?.is_some(), is_there, "a wrong answer for entry {number}");
        }
        Ok(())
    }

    fn reads(&self) -> u64 {
        self.db().stats().lookups.data_blocks_read
    }

    fn first_key(&self) -> Vec<u8> {
        self.filler[..self.kind.key_bytes].to_vec()
    }
}

/// Raw bytes of an entry.
fn raw_bytes(kind: &Kind) -> u64 {
    (kind.key_bytes + VALUE_BYTES + 8) as u64
}

/// The key of an entry: eight bytes without visible order, and then what all keys share. It has
/// just been written, as the key of a request would be, so it is in the nearest cache.
fn set_number(key: &mut [u8], number: u64) {
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
}
