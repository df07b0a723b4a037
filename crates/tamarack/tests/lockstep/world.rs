//! The database under test with its machine, and the operations of histories on both.
//!
//! In memory and on real files, the end of a process is imitated by dropping the database without
//! closing it, and so is a loss of power. Only the simulator has background steps, faults, and
//! crashes that lose something.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack::{
    AdvancedOptions, Batch, CompactionPause, Db, Durability, Error, Ingest, MEMORY_BYTES_MIN, Options, Result,
    Snapshot, Stats, VerifyReport,
};
use tamarack_env::memory::MemoryEnv;
use tamarack_env::os::{Batching, OsEnv, TempDir};
use tamarack_env::sim::{Crash, Failure, Fault, Moment};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, Env, SimEnv};

use crate::operation::{Ending, Environment, Level, Range, Reader, Setup, TreeSetup, Write};

/// What a scan delivers, from both ends.
pub(crate) type Items = Box<dyn DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>>>;

/// A machine, with its database while that is open.
pub(crate) struct World {
    setup: Setup,
    place: Location,
    db: Option<Db>,
    snapshots: BTreeMap<u8, Snapshot>,
    pub(crate) scans: BTreeMap<u8, Items>,
    ingests: BTreeMap<u8, Ingest>,
    pause: Option<CompactionPause>,
    /// The last injected failure.
    failure: Option<Failure>,
    /// Faults that had occurred when the database was opened, and when the machine started.
    faults_at_open: u64,
    faults_at_last_look: u64,
    /// A failed sync has dropped pages: reads may show data that is not on the disk, whatever syncs
    /// return from now on.
    pages_lost: bool,
    limited: bool,
    /// A limit was in force since the database was opened.
    was_limited: bool,
    watch: Option<Arc<Mutex<Watch>>>,
    sabotage: Option<Sabotage>,
    writes_seen: u64,
    flushed: bool,
    /// How many were asked for.
    checkpoints: u64,
}

enum Location {
    Real { env: Arc<dyn Env>, dir: PathBuf, _temporary: Option<TempDir> },
    Simulated(SimEnv),
}

impl Location {
    fn env(&self) -> Arc<dyn Env> {
        match self {
            Self::Real { env, .. } => env.clone(),
            Self::Simulated(env) => Arc::new(env.clone()),
        }
    }

    /// Where the database is.
    fn dir(&self) -> PathBuf {
        match self {
            Self::Real { dir, .. } => dir.clone(),
            Self::Simulated(_) => "/database".into(),
        }
    }
}

/// Waits for one call, and takes both kinds of image before it.
struct Watch {
    calls_left: u64,
    crash_seed: u64,
    images: Option<Images>,
    /// The machine crashed meanwhile.
    crashed: bool,
}

/// What survives an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Survives {
    WhatWasWritten,
    WhatWasSynced,
}

struct Images {
    process: SimEnv,
    crash: SimEnv,
}

/// A deliberate mistake between the harness and the database, which the harness must notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sabotage {
    /// Every fifth write is acknowledged and forgotten.
    LostWrite,
    /// After a flush, deletes do nothing.
    ResurrectedDelete,
    /// The first two items of a scan are exchanged.
    DisorderedScan,
    /// Snapshots show the current state.
    MovingSnapshot,
    /// A write that requests a sync gets none.
    ForgottenSync,
    /// The writes of a batch are committed one by one.
    DividedBatch,
    /// A write that failed is acknowledged.
    SwallowedError,
}

/// Real files, with each implementation of batched reads.
fn files_env(seed: u64) -> Arc<dyn Env> {
    match seed / 2 % 3 {
        0 => OsEnv::with_batching(Batching::OneByOne),
        1 => OsEnv::with_batching(Batching::Threads),
        _ => OsEnv::with_batching(Batching::Rings),
    }
}

impl World {
    /// A machine without a database.
    pub(crate) fn new(setup: &Setup, sabotage: Option<Sabotage>) -> Self {
        let place = match setup.environment {
            Environment::Memory => {
                Location::Real { env: MemoryEnv::new(setup.seed), dir: "/database".into(), _temporary: None }
            }
            Environment::Files => {
                let temporary = temporary_directory(setup.seed % 32 == 1).expect("a temporary directory can be made");
                let dir = temporary.path().join("database");
                Location::Real { env: files_env(setup.seed), dir, _temporary: Some(temporary) }
            }
            Environment::Simulator | Environment::Faulty => Location::Simulated(SimEnv::new(setup.seed)),
        };
        Self {
            setup: setup.clone(),
            place,
            db: None,
            snapshots: BTreeMap::new(),
            scans: BTreeMap::new(),
            ingests: BTreeMap::new(),
            pause: None,
            failure: None,
            faults_at_open: 0,
            faults_at_last_look: 0,
            pages_lost: false,
            limited: false,
            was_limited: false,
            watch: None,
            sabotage,
            writes_seen: 0,
            flushed: false,
            checkpoints: 0,
        }
    }

    /// Opens the database; creates it the first time.
    pub(crate) fn open(&mut self) -> Result<()> {
        let options = self.options();
        self.look_for_faults();
        let faults_before = self.faults_at_last_look;
        self.db = Some(options.open(self.place.dir())?);
        self.faults_at_open = faults_before;
        self.was_limited = self.limited;
        Ok(())
    }

    fn options(&self) -> Options {
        let env = self.place.env();
        let TreeSetup { memtable_bytes, threads, space, policy } = &self.setup.tree;
        let mut advanced = AdvancedOptions::new()
            .env(env)
            .memtable_bytes(*memtable_bytes)
            .immutable_memtables_max(self.setup.immutable_memtables_max as usize)
            .block_bytes(self.setup.block_bytes as usize)
            .table_bytes(self.setup.table_bytes)
            .cache_bytes(self.setup.cache_bytes)
            .direct_io(reads_directly(&self.setup));
        if let Some(words) = policy {
            advanced = advanced.policy(words);
        }
        // Other histories have the default filters.
        if self.setup.seed % 3 == 1 {
            advanced = advanced.filter(if self.setup.seed % 2 == 1 { "elastic:bits=8" } else { "elastic:bits=3" });
        }
        let options = Options::new().memory_bytes(MEMORY_BYTES_MIN).threads(*threads as usize).advanced(advanced);
        match space {
            Some(hundredths) => options.space_amplification_max(*hundredths as f64 / 100.0),
            None => options,
        }
    }

    /// Whether this history looks at each database before it is opened for writing.
    pub(crate) fn looks_first(&self) -> bool {
        self.setup.seed % 4 == 1
    }

    /// Opens the closed database twice, read-only.
    pub(crate) fn open_to_look(&self) -> Result<[Db; 2]> {
        let open = || self.options().open_read_only(self.place.dir());
        Ok([open()?, open()?])
    }

    /// All bytes of the database's files, by their names.
    pub(crate) fn bytes(&self) -> std::io::Result<BTreeMap<OsString, Vec<u8>>> {
        let (env, dir) = (self.place.env(), self.place.dir());
        let read = |name: OsString| {
            let bytes = env.open(&dir.join(&name), Access::Read)?.read_all()?;
            Ok((name, bytes))
        };
        env.list(&dir)?.into_iter().map(read).collect()
    }

    /// Where the next checkpoint is to be made: a directory that no attempt has used.
    pub(crate) fn next_checkpoint(&mut self) -> PathBuf {
        self.checkpoints += 1;
        self.place.dir().with_extension(format!("checkpoint{}", self.checkpoints))
    }

    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<()> {
        self.db().checkpoint(dir).map(drop)
    }

    /// True if a checkpoint in that directory is complete.
    pub(crate) fn is_complete(&self, dir: &Path) -> bool {
        self.place.env().list(dir).is_ok_and(|names| names.iter().any(|name| name == "CURRENT"))
    }

    pub(crate) fn open_checkpoint(&self, dir: &Path) -> Result<Db> {
        self.options().create_if_missing(false).open(dir)
    }

    /// Ends writing, then drops everything that was open.
    pub(crate) fn close(&mut self) -> Result<()> {
        let outcome = self.db.take().map_or(Ok(()), Db::close);
        self.drop_handles();
        outcome
    }

    /// The process or the machine ends.
    pub(crate) fn end(&mut self, ending: Ending) {
        let after = match &self.place {
            Location::Real { .. } => None,
            Location::Simulated(env) => Some(match ending {
                Ending::Kill => env.kill(),
                Ending::Crash(seed) => env.image(Crash::draw(seed, env.unsynced_changes())),
            }),
        };
        if let Some(env) = after {
            self.enter(env, ending != Ending::Kill, ending != Ending::Kill);
        }
        self.drop_handles();
    }

    /// Returns true if this machine can lose writes.
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulator().is_some()
    }

    /// Writes with one call, or as a batch where that is the only way.
    pub(crate) fn write(&mut self, writes: &[Write], level: Level) -> Result<()> {
        self.writes_seen += 1;
        match self.sabotage {
            Some(Sabotage::LostWrite) if self.writes_seen.is_multiple_of(5) => Ok(()),
            Some(Sabotage::ForgottenSync) => self.commit(writes, Level::Buffered),
            Some(Sabotage::DividedBatch) => {
                writes.iter().try_for_each(|write| self.commit(std::slice::from_ref(write), level))
            }
            Some(Sabotage::SwallowedError) => self.commit(writes, level).or(Ok(())),
            Some(Sabotage::ResurrectedDelete) if self.flushed => {
                let puts: Vec<_> = writes.iter().filter(|write| write.value.is_some()).cloned().collect();
                self.commit(&puts, level)
            }
            _ => self.commit(writes, level),
        }
    }

    fn commit(&self, writes: &[Write], level: Level) -> Result<()> {
        match (writes, level) {
            ([Write { key, value: Some(value) }], Level::Buffered) => return self.db().put(key, value),
            ([Write { key, value: None }], Level::Buffered) => return self.db().delete(key),
            _ => {}
        }
        let mut batch = Batch::new();
        for write in writes {
            match &write.value {
                Some(value) => batch.put(&write.key, value),
                None => batch.delete(&write.key),
            };
        }
        let durability = match level {
            Level::Buffered => Durability::Buffered,
            Level::Sync => Durability::Sync,
            Level::Interval(ms) => Durability::Interval(Duration::from_millis(ms)),
        };
        self.db().write_with(&batch, durability)
    }

    /// Whether this history looks keys up many at a time.
    pub(crate) fn looks_up_together(&self) -> bool {
        self.setup.seed.is_multiple_of(3)
    }

    pub(crate) fn multi_get(&self, reader: Reader, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let values = match self.snapshot(reader) {
            None => self.db().multi_get(keys)?,
            Some(snapshot) => snapshot.multi_get(keys)?,
        };
        Ok(values.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
    }

    pub(crate) fn get(&self, reader: Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = match self.snapshot(reader) {
            None => self.db().get(key)?,
            Some(snapshot) => snapshot.get(key)?,
        };
        Ok(value.map(|value| value.to_vec()))
    }

    pub(crate) fn contains(&self, reader: Reader, key: &[u8]) -> Result<bool> {
        match self.snapshot(reader) {
            None => self.db().contains(key),
            Some(snapshot) => snapshot.contains(key),
        }
    }

    pub(crate) fn scan(&self, reader: Reader, range: &Range) -> Items {
        let scan = match (self.snapshot(reader), range.clone()) {
            (None, Range::Bounds(start, end)) => self.db().scan((start, end)),
            (None, Range::Prefix(prefix)) => self.db().prefix(prefix),
            (Some(snapshot), Range::Bounds(start, end)) => snapshot.scan((start, end)),
            (Some(snapshot), Range::Prefix(prefix)) => snapshot.prefix(prefix),
        };
        if self.sabotage != Some(Sabotage::DisorderedScan) {
            return Box::new(scan);
        }
        let mut items: Vec<_> = scan.collect();
        if items.len() > 1 {
            items.swap(0, 1);
        }
        Box::new(items.into_iter())
    }

    pub(crate) fn take_snapshot(&mut self, slot: u8) {
        let snapshot = self.db().snapshot();
        self.snapshots.insert(slot, snapshot);
    }

    pub(crate) fn drop_snapshot(&mut self, slot: u8) {
        self.snapshots.remove(&slot);
    }

    /// Replaces the one that is open there.
    pub(crate) fn open_ingest(&mut self, slot: u8, writes: &[Write]) -> Result<()> {
        self.ingests.remove(&slot);
        let mut ingest = self.db().ingest()?;
        for Write { key, value } in writes {
            ingest.put(key, value.as_ref().expect("only puts are ingested"))?;
        }
        self.ingests.insert(slot, ingest);
        Ok(())
    }

    pub(crate) fn finish_ingest(&mut self, slot: u8) -> Result<()> {
        let ingest = self.ingests.remove(&slot).expect("the world has the ingests that the model has");
        ingest.finish().map(drop)
    }

    pub(crate) fn drop_ingest(&mut self, slot: u8) {
        self.ingests.remove(&slot);
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.flushed = true;
        self.db().flush()
    }

    pub(crate) fn compact(&mut self) -> Result<()> {
        self.flushed = true;
        self.db().compact()
    }

    pub(crate) fn compact_range(&mut self, range: &Range) -> Result<()> {
        match range.clone() {
            Range::Bounds(start, end) => self.db().compact_range((start, end)),
            Range::Prefix(prefix) => self.db().compact_range(prefix..),
        }
    }

    pub(crate) fn settle(&self) -> Result<()> {
        self.db().wait_for_compactions()
    }

    pub(crate) fn reshape(&self) -> Result<()> {
        self.db().reshape()
    }

    pub(crate) fn estimate(&self) -> Result<()> {
        self.db().estimate_reshape("moose:last=0.8,k=1", 100).map(drop)
    }

    pub(crate) fn set_policy(&self, words: &str) -> Result<()> {
        self.db().set_policy(words)
    }

    pub(crate) fn set_filter(&self, words: &str) -> Result<()> {
        self.db().set_filter(words)
    }

    /// From the next opening on.
    pub(crate) fn set_options(&mut self, tree: &TreeSetup) {
        self.setup.tree = tree.clone();
    }

    pub(crate) fn pause(&mut self) {
        self.pause = Some(self.db().pause_compactions());
    }

    pub(crate) fn resume(&mut self) {
        self.pause = None;
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    pub(crate) fn verify(&self) -> Result<VerifyReport> {
        self.db().verify(&mut |_, _| {})
    }

    /// `None` if the database is not open.
    pub(crate) fn stats(&self) -> Option<Stats> {
        self.db.as_ref().map(Db::stats)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.db().sync()
    }

    /// The time, if it is simulated.
    pub(crate) fn now(&self) -> Duration {
        self.simulator().map_or(Duration::ZERO, |env| env.now())
    }

    pub(crate) fn step_background(&self, steps: u64) {
        if let Some(env) = self.simulator() {
            (0..steps).take_while(|_| env.step_background()).for_each(drop);
        }
    }

    pub(crate) fn advance(&self, time: Duration) {
        if let Some(env) = self.simulator() {
            env.advance(time);
            env.run_background_until_idle();
        }
    }

    /// Replaces a fault that has not struck yet.
    pub(crate) fn inject(&mut self, failure: &Failure, after: u64) {
        self.look_for_faults();
        let Some(env) = self.simulator() else { return };
        env.clear_faults();
        let fitting = failure.clone();
        let passed = Mutex::new(Rank::Test, 0);
        let passes = move |call: &tamarack_env::sim::Call| {
            let mut passed = passed.lock();
            *passed += u64::from(fitting.fits(call));
            *passed > after
        };
        env.inject(Fault::new(failure.clone()).matching(passes));
        self.failure = Some(failure.clone());
    }

    pub(crate) fn limit(&mut self, more_bytes: Option<u64>) {
        let Some(env) = self.simulator() else { return };
        env.set_capacity(more_bytes.map(|bytes| env.used_bytes() + bytes));
        self.limited = more_bytes.is_some();
        self.was_limited |= self.limited;
    }

    /// Removes all faults and limits. Their effects may still lead to errors until the database is
    /// opened again.
    pub(crate) fn heal(&mut self) {
        self.look_for_faults();
        if let Some(env) = self.simulator() {
            env.clear_faults();
            env.set_capacity(None);
        }
        self.limited = false;
    }

    /// Returns true if a fault since the database was opened excuses an error.
    pub(crate) fn is_troubled(&mut self) -> bool {
        self.look_for_faults();
        self.was_limited || self.faults_at_last_look > self.faults_at_open
    }

    /// Returns true if a failed sync has dropped pages. Neither this process nor the next one can
    /// be trusted to have written anything then, since cached pages look right and are not on the
    /// disk.
    pub(crate) fn has_lost_pages(&mut self) -> bool {
        self.look_for_faults();
        self.pages_lost
    }

    /// Makes images of the machine before the call with that number.
    pub(crate) fn start_watch(&mut self, calls: u64, ending: Ending) {
        let crash_seed = if let Ending::Crash(seed) = ending { seed } else { 0 };
        self.watch = Some(Arc::new(Mutex::new(
            Rank::Test,
            Watch { calls_left: calls, crash_seed, images: None, crashed: false },
        )));
        self.install_watch();
    }

    /// Continues from an image, if one was made, and returns what it is an image of. `None`, and no
    /// change, if there were fewer calls.
    pub(crate) fn end_watch(&mut self, ending: Ending) -> Option<Survives> {
        let lost_pages = self.has_lost_pages();
        if let Some(env) = self.simulator() {
            env.clear_hook();
        }
        let watch = self.watch.take()?;
        let (images, crashed_before) = {
            let mut watch = watch.lock();
            (watch.images.take()?, watch.crashed)
        };
        let crashed = lost_pages || ending != Ending::Kill;
        self.enter(if crashed { images.crash } else { images.process }, true, crashed);
        self.drop_handles();
        Some(if crashed || crashed_before { Survives::WhatWasSynced } else { Survives::WhatWasWritten })
    }

    fn install_watch(&self) {
        let (Some(watch), Some(env)) = (self.watch.clone(), self.simulator()) else { return };
        env.set_hook(move |moment| watch.lock().see(moment));
    }

    /// Continues in another process, perhaps on another machine, perhaps after a crash. Handles on
    /// the old one must be dropped afterwards.
    fn enter(&mut self, env: SimEnv, other_machine: bool, crashed: bool) {
        self.look_for_faults();
        if other_machine {
            // Nothing is injected there, but a limit comes along, and may be one that was lifted
            // here since the image was made.
            env.set_capacity(None);
            self.failure = None;
            (self.faults_at_open, self.faults_at_last_look) = (0, 0);
            (self.limited, self.was_limited) = (false, false);
        }
        self.place = Location::Simulated(env);
        if crashed {
            self.pages_lost = false;
            if let Some(watch) = &self.watch {
                watch.lock().crashed = true;
            }
        }
        self.install_watch();
    }

    fn look_for_faults(&mut self) {
        let shown = self.simulator().map_or(0, SimEnv::faults_shown);
        if shown > self.faults_at_last_look {
            self.pages_lost |= matches!(self.failure, Some(Failure::SyncDropsPages | Failure::SyncKeepsLengthOnly));
        }
        self.faults_at_last_look = shown;
    }

    fn drop_handles(&mut self) {
        self.scans.clear();
        self.ingests.clear();
        self.snapshots.clear();
        self.pause = None;
        self.db = None;
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// `None` reads the database as it is now.
    fn snapshot(&self, reader: Reader) -> Option<&Snapshot> {
        match reader {
            Reader::Snapshot(slot) if self.sabotage != Some(Sabotage::MovingSnapshot) => self.snapshots.get(&slot),
            _ => None,
        }
    }

    fn simulator(&self) -> Option<&SimEnv> {
        match &self.place {
            Location::Simulated(env) => Some(env),
            Location::Real { .. } => None,
        }
    }
}

impl Drop for World {
    /// A database of a machine that was left must not be what fails last.
    fn drop(&mut self) {
        self.drop_handles();
    }
}

impl Watch {
    fn see(&mut self, moment: &Moment<'_>) {
        if self.images.is_some() {
            return;
        }
        if self.calls_left > 0 {
            self.calls_left -= 1;
            return;
        }
        let crash = Crash::draw(self.crash_seed, moment.unsynced_changes());
        self.images = Some(Images { process: moment.process_image(), crash: moment.image(crash) });
    }
}

/// Files in memory are real files too; only their syncs cost nothing, which leaves time for more
/// histories.
fn temporary_directory(on_disk: bool) -> std::io::Result<TempDir> {
    // What is in memory is not read past the page cache, whatever is asked for; a few histories are
    // on a disk for that.
    if on_disk { TempDir::new() } else { TempDir::below(Path::new("/dev/shm")).or_else(|_| TempDir::new()) }
}

/// Whether tables are read past the page cache, where that is possible.
fn reads_directly(setup: &Setup) -> bool {
    setup.seed % 2 == 1
}

/// True for an answer that says: from now on, no writes.
pub(crate) fn is_stop(error: &Error) -> bool {
    matches!(error, Error::Stopped { .. })
}
