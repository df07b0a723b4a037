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

use tamarack::operators::Append;
use tamarack::{
    Batch, CompactionFilter, CompactionPause, Db, Error, FilterDecision, FilterEntry, FilterFailure, Ingest, Options,
    RepairReport, Result, Scan, Snapshot, Stats, VerifyReport,
};
use tamarack_env::memory::MemoryEnv;
use tamarack_env::os::{Batching, OsEnv, TempDir};
use tamarack_env::sim::{Crash, Failure, Fault, Moment};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, Env, SimEnv};
use tamarack_testing::STEP;

use crate::operation::{Change, Ending, Environment, History, Level, Range, Reader, Setup, Turn, Write};
use crate::options::{OptionSet, durability};

/// A key and its value, copied.
pub(crate) type Item = (Vec<u8>, Vec<u8>);

/// What a scan delivers, from both ends.
pub(crate) enum Items {
    Scan(Box<Scan>),
    /// With the first two exchanged.
    Disordered(std::vec::IntoIter<Result<Item>>),
}

impl Items {
    /// Calls one end, in one of two ways.
    pub(crate) fn take(&mut self, turn: Turn) -> Result<Option<Item>> {
        let copied = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
        match (self, turn) {
            (Self::Scan(scan), Turn::Front) => scan.next().transpose(),
            (Self::Scan(scan), Turn::Back) => scan.next_back().transpose(),
            (Self::Scan(scan), Turn::LentFront) => Ok(scan.next_lent()?.map(copied)),
            (Self::Scan(scan), Turn::LentBack) => Ok(scan.next_back_lent()?.map(copied)),
            (Self::Disordered(items), Turn::Front | Turn::LentFront) => items.next().transpose(),
            (Self::Disordered(items), Turn::Back | Turn::LentBack) => items.next_back().transpose(),
        }
    }
}

/// A compaction filter that gives some entries the value that they have: no answer may depend on
/// it, though each such decision takes effect as others do.
struct SameValue;

impl CompactionFilter for SameValue {
    fn name(&self) -> &str {
        "lockstep.same-value"
    }

    fn filter(
        &self,
        entry: &FilterEntry<'_>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<FilterDecision, FilterFailure> {
        value.extend_from_slice(entry.value);
        let is_even = entry.key.last().is_none_or(|last| last.is_multiple_of(2));
        Ok(if is_even { FilterDecision::Change } else { FilterDecision::Keep })
    }
}

/// One history in this many has databases with [`SameValue`].
const FILTERED: u64 = 4;

/// A machine, with its database while that is open.
pub(crate) struct World {
    setup: Setup,
    /// Databases are opened with a merge operator that appends.
    has_operands: bool,
    /// The options of the last opening, and their place among the named sets.
    opened_with: OptionSet,
    place_of_options: Option<usize>,
    /// The last process ended by closing the database.
    was_closed: bool,
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
    /// How many other directories were used.
    others: u64,
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
    pub(crate) fn new(history: &History, sabotage: Option<Sabotage>) -> Self {
        let setup = &history.setup;
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
            has_operands: history.has_operands(),
            opened_with: setup.options.clone(),
            place_of_options: None,
            was_closed: false,
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
            others: 0,
        }
    }

    /// Opens the database; creates it the first time.
    pub(crate) fn open(&mut self) -> Result<()> {
        let options = self.options();
        self.look_for_faults();
        let faults_before = self.faults_at_last_look;
        self.was_closed = false;
        self.db = Some(options.open(self.place.dir())?);
        self.opened_with = self.setup.options.clone();
        self.place_of_options = self.opened_with.place();
        self.faults_at_open = faults_before;
        self.was_limited = self.limited;
        Ok(())
    }

    /// The options of the last opening.
    pub(crate) fn opened_with(&self) -> &OptionSet {
        &self.opened_with
    }

    /// Their place among the named sets; `None` if they are not one of them.
    pub(crate) fn place_of_options(&self) -> Option<usize> {
        self.place_of_options
    }

    fn options(&self) -> Options {
        self.options_of(&self.setup.options, self.was_closed)
    }

    fn options_of(&self, set: &OptionSet, was_closed: bool) -> Options {
        let options = set.options(self.place.env(), was_closed);
        let options = if self.has_operands { options.merge_operator(Arc::new(Append)) } else { options };
        // By the seed alone, so that histories are what they were.
        let is_filtered = self.setup.seed % FILTERED == 3;
        if is_filtered { options.compaction_filter(Arc::new(SameValue)) } else { options }
    }

    /// What a write of this level is promised.
    pub(crate) fn durability(&self, level: Level) -> Level {
        if level == Level::Usual { self.opened_with.durability() } else { level }
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

    /// Where the next checkpoint or copy is to be made: a directory that no attempt has used.
    pub(crate) fn next_directory(&mut self) -> PathBuf {
        self.others += 1;
        self.place.dir().with_extension(format!("other{}", self.others))
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

    /// Opens a database of its own in another directory.
    pub(crate) fn open_another(&self, dir: &Path, options: &OptionSet) -> Result<Db> {
        self.options_of(options, false).open(dir)
    }

    /// Copies all files of the closed database but `CURRENT` and the lock, as repair may find them.
    pub(crate) fn copy_without_current(&self, dir: &Path) -> std::io::Result<()> {
        let env = self.place.env();
        env.create_dir(dir, STEP)?;
        let files = self.bytes()?.into_iter().filter(|(name, _)| name != "CURRENT" && name != "LOCK");
        for (name, bytes) in files {
            let file = env.create(&dir.join(name), STEP)?;
            file.write_all_at(&bytes, 0, STEP)?;
            // What is read past the page cache must be on the disk.
            file.sync(STEP)?;
        }
        Ok(())
    }

    pub(crate) fn repair(&self, dir: &Path) -> Result<RepairReport> {
        self.options().repair(dir, &mut |_, _| {})
    }

    /// Verifies the closed database, and asks what a repair would do to it.
    pub(crate) fn verify_closed(&self) -> Result<(VerifyReport, RepairReport)> {
        let dir = self.place.dir();
        let report = self.options().verify(&dir, &mut |_, _| {})?;
        Ok((report, self.options().plan_repair(&dir, &mut |_, _| {})?))
    }

    /// Removes what the files of another directory take.
    pub(crate) fn remove(&self, dir: &Path) {
        let env = self.place.env();
        for name in env.list(dir).unwrap_or_default() {
            // A fault may keep it; it is in nobody's way.
            let _ = env.remove(&dir.join(name), STEP);
        }
    }

    /// The answers to attempts to open what is open.
    pub(crate) fn open_again(&self) -> [(&'static str, Option<Error>); 3] {
        let dir = self.place.dir();
        [
            ("open", self.options().open(&dir).err()),
            ("open_read_only", self.options().open_read_only(&dir).err()),
            ("verify", self.options().verify(&dir, &mut |_, _| {}).err()),
        ]
    }

    /// Ends writing, then drops everything that was open.
    pub(crate) fn close(&mut self) -> Result<()> {
        let outcome = self.db.take().map_or(Ok(()), Db::close);
        self.drop_handles();
        self.was_closed = outcome.is_ok();
        outcome
    }

    /// Ends writing; a clone of the handle, and all that reads, stays.
    pub(crate) fn close_clone(&mut self) -> Result<()> {
        let outcome = self.db().clone().close();
        self.was_closed = outcome.is_ok();
        outcome
    }

    /// The process or the machine ends.
    pub(crate) fn end(&mut self, ending: Ending) {
        self.was_closed = false;
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
                let puts: Vec<_> = writes.iter().filter(|write| !write.change.deletes()).cloned().collect();
                self.commit(&puts, level)
            }
            _ => self.commit(writes, level),
        }
    }

    fn commit(&self, writes: &[Write], level: Level) -> Result<()> {
        if let ([write @ Write { key, change }], Level::Usual) = (writes, level) {
            return match change {
                Change::Put(value) => self.db().put(key, value),
                Change::Delete => self.db().delete(key),
                Change::Merge(operand) => self.db().merge(key, operand),
                Change::DeleteRange(_) => self.db().delete_range(write.range().expect("it deletes a range")),
            };
        }
        let mut batch = Batch::new();
        for write in writes {
            match &write.change {
                Change::Put(value) => batch.put(&write.key, value),
                Change::Delete => batch.delete(&write.key),
                Change::Merge(operand) => batch.merge(&write.key, operand),
                Change::DeleteRange(_) => batch.delete_range(write.range().expect("it deletes a range")),
            };
        }
        if level == Level::Usual { self.db().write(&batch) } else { self.db().write_with(&batch, durability(level)) }
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
            None => self.db().contains_key(key),
            Some(snapshot) => snapshot.contains_key(key),
        }
    }

    pub(crate) fn scan(&self, reader: Reader, range: &Range, limit: Option<usize>) -> Items {
        let scan = match (self.snapshot(reader), range.clone()) {
            (None, Range::Bounds(start, end)) => self.db().scan((start, end)),
            (None, Range::Prefix(prefix)) => self.db().prefix(prefix),
            (Some(snapshot), Range::Bounds(start, end)) => snapshot.scan((start, end)),
            (Some(snapshot), Range::Prefix(prefix)) => snapshot.prefix(prefix),
        };
        let scan = match limit {
            Some(limit) => scan.limit(limit),
            None => scan,
        };
        if self.sabotage != Some(Sabotage::DisorderedScan) {
            return Items::Scan(Box::new(scan));
        }
        let mut items: Vec<_> = scan.collect();
        if items.len() > 1 {
            items.swap(0, 1);
        }
        Items::Disordered(items.into_iter())
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
        for Write { key, change } in writes {
            let Change::Put(value) = change else { panic!("only puts are ingested, not {change:?}") };
            ingest.put(key, value)?;
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

    /// Returns the policy that the estimate says it is for.
    pub(crate) fn estimate(&self, policy: &str, bytes: u64) -> Result<String> {
        self.db().estimate_reshape(policy, bytes).map(|estimate| estimate.policy)
    }

    pub(crate) fn settle_filters(&self) -> Result<()> {
        self.db().rebuild_filters()
    }

    pub(crate) fn set_policy(&self, words: &str) -> Result<()> {
        self.db().set_policy(words)
    }

    pub(crate) fn set_filter(&self, words: &str) -> Result<()> {
        self.db().set_filter(words)
    }

    /// From the next opening on.
    pub(crate) fn set_options(&mut self, options: &OptionSet) {
        self.setup.options = options.clone();
    }

    pub(crate) fn pause(&mut self) {
        self.pause = Some(self.db().pause_compactions());
    }

    pub(crate) fn resume(&mut self) {
        self.pause = None;
    }

    /// True while a limit is in force.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited
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
        self.was_closed = false;
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

    pub(crate) fn drop_handles(&mut self) {
        self.scans.clear();
        self.ingests.clear();
        self.snapshots.clear();
        self.pause = None;
        self.db = None;
    }

    /// The open database.
    pub(crate) fn db(&self) -> &Db {
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

/// True for an answer that says: from now on, no writes.
pub(crate) fn is_stop(error: &Error) -> bool {
    matches!(error, Error::Stopped { .. })
}
