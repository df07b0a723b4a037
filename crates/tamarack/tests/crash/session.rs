//! A machine with a database, and the ledger of its guarantees.
//!
//! A [`Session`] runs one action at a time and records in its [`Ledger`] the guarantees from then
//! on, against which each crash of the machine is checked. The simulator's hook, which is called
//! during an action, shares the ledger: so a commit is in it before it begins, and counts as
//! acknowledged only after.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Durability, Error, Options};
use tamarack_env::env::Env;
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Random, SimEnv};

use crate::death::Death;
use crate::history::{Commit, Entries, Timeline, difference, digest_all};
use crate::recorded_designs::RecordedChanges;

/// The database's directory on every machine.
pub(crate) const DIR: &str = "/db";

/// A failure, in words.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Who chooses the design.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Designer {
    /// The options say it.
    User,
    /// The policy is automatic; the options say how large memtables are.
    Navigator,
    /// The policy is automatic, and all of the design changes at random.
    AtRandom,
}

/// The options of a database, small enough that everything happens often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    pub(crate) memtable_bytes: u64,
    pub(crate) immutable_memtables_max: usize,
    /// How late compactions may be.
    pub(crate) late_memtables_max: usize,
    pub(crate) block_bytes: usize,
    pub(crate) table_bytes: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) manifest_bytes: u64,
    pub(crate) direct_io: bool,
    /// The policy's specification; `None` keeps the database's policy.
    pub(crate) policy: Option<&'static str>,
    pub(crate) threads: usize,
    /// Unless it is the user, other policies are not given.
    pub(crate) designer: Designer,
}

/// The guarantees after a crash at this moment.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// All commits, the one that is being written included.
    pub(crate) line: Arc<Timeline>,
    /// The number of acknowledged commits, which survive the end of the process.
    pub(crate) acknowledged: usize,
    /// The number of durable commits, which survive everything.
    pub(crate) durable: usize,
    /// The number of commits that will be durable at that time, after background work.
    intervals: Vec<(usize, Duration)>,
    /// All checkpoints that were ever begun.
    checkpoints: Vec<Checkpoint>,
    /// True while an existing database is being opened.
    pub(crate) recovering: bool,
    /// The number of the last change of the design that was seen made.
    pub(crate) changes: u64,
}

/// A checkpoint, by its place in the ledger.
#[derive(Clone, Copy, Debug)]
struct Checkpoint {
    /// Of what it holds if it is there.
    digest: u64,
    /// It was acknowledged, so it is there.
    done: bool,
}

/// The contents of an image.
#[derive(Clone, Debug)]
pub(crate) struct ImageContents {
    /// How many commits.
    pub(crate) commits: usize,
    /// What was there.
    pub(crate) digest: u64,
    /// Which checkpoints.
    pub(crate) checkpoints: BTreeSet<usize>,
}

/// A machine and, while it is open, the database on it.
pub(crate) struct Session {
    pub(crate) env: SimEnv,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    db: Option<Db>,
    settings: Settings,
    /// What is there after all commits.
    state: Entries,
    /// A fault was injected: an error is an answer, not a failure.
    faulty: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::Buffered,
            memtable_bytes: 256,
            immutable_memtables_max: 3,
            late_memtables_max: 16,
            block_bytes: 128,
            table_bytes: 512,
            cache_bytes: 0,
            manifest_bytes: 1,
            direct_io: false,
            policy: None,
            threads: 2,
            designer: Designer::User,
        }
    }
}

impl Settings {
    pub(crate) fn options(&self, env: &SimEnv) -> Options {
        let mut advanced = AdvancedOptions::new()
            .env(Arc::new(env.clone()))
            .immutable_memtables_max(self.immutable_memtables_max)
            .late_memtables_max(self.late_memtables_max)
            .block_bytes(self.block_bytes)
            .table_bytes(self.table_bytes)
            .cache_bytes(self.cache_bytes)
            .manifest_bytes(self.manifest_bytes)
            .direct_io(self.direct_io);
        if self.designer != Designer::AtRandom {
            advanced = advanced.memtable_bytes(self.memtable_bytes);
        }
        match self.policy {
            _ if self.designer != Designer::User => advanced = advanced.policy("auto"),
            Some(words) => advanced = advanced.policy(words),
            None => {}
        }
        let options = Options::new().memory_bytes(1 << 20).durability(self.durability).compression(Compression::None);
        options.threads(self.threads).advanced(advanced)
    }
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            line: Arc::new(Timeline::new()),
            acknowledged: 0,
            durable: 0,
            intervals: Vec::new(),
            checkpoints: Vec::new(),
            recovering: false,
            changes: 0,
        }
    }

    /// Returns the minimum number of commits after `death`.
    pub(crate) fn owed(&self, death: Death) -> usize {
        match death {
            Death::Process => self.acknowledged,
            Death::Power(_) => self.durable,
        }
    }

    /// Checks the number of commits found against the guarantees.
    pub(crate) fn check(&self, death: Death, found: usize) -> Outcome {
        let (least, most) = (self.owed(death), self.line.len());
        if found < least {
            return Err(format!("{found} commits found, at least {least} guaranteed, {most} begun"));
        }
        if found > most {
            return Err(format!("{found} commits are there, but only {most} were ever begun"));
        }
        Ok(())
    }

    /// Checks those checkpoints that were found against what is owed. Nothing makes one go away,
    /// not even a loss of power.
    pub(crate) fn check_checkpoints(&self, found: &BTreeSet<usize>) -> Outcome {
        let mut owed = self.checkpoints.iter().enumerate().filter(|(_, checkpoint)| checkpoint.done);
        match owed.find(|(number, _)| !found.contains(number)) {
            Some((number, _)) => Err(format!("checkpoint {number} was complete, and is not there")),
            None => Ok(()),
        }
    }

    fn make_durable(&mut self, count: usize) {
        self.durable = self.durable.max(count);
    }
}

impl Session {
    /// The machine after `death`, on which the database is not open.
    pub(crate) fn new(env: SimEnv, mut ledger: Ledger, settings: Settings, death: Death) -> Self {
        ledger.acknowledged = ledger.owed(death);
        ledger.intervals.clear();
        let state = Entries::new();
        Self { env, ledger: Arc::new(Mutex::new(Rank::Test, ledger)), db: None, settings, state, faulty: false }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// Opens what `death` left, checks that it is what is owed, and returns how many commits are
    /// there. From now on these are history.
    pub(crate) fn open(&mut self, settings: Settings, death: Death) -> Outcome<usize> {
        self.settings = settings;
        self.ledger.lock().recovering = self.env.files().iter().any(|(path, _)| path.ends_with("CURRENT"));
        let opened = settings.options(&self.env).open(DIR);
        self.ledger.lock().recovering = false;
        let db = opened.map_err(|error| format!("opening it failed: {error}"))?;
        let written = db.stats().visible_sequence;
        let found = scan(&db)?;
        self.db = Some(db);

        let mut ledger = self.ledger.lock();
        let Some(position) = ledger.line.position(written) else {
            return Err(format!("{written} entries were written, which is in the midst of a batch or past the end"));
        };
        ledger.check(death, position)?;
        if digest_all(&found) != ledger.line.digest(position) {
            let expected = ledger.line.state(position);
            return Err(format!("after {position} commits: {}", difference(&expected, &found)));
        }
        Arc::make_mut(&mut ledger.line).truncate(position);
        // What was read was shown, so it stays.
        (ledger.acknowledged, ledger.durable) = (position, position);
        ledger.intervals.clear();
        drop(ledger);
        self.state = found;
        self.note_changes()?;
        Ok(position)
    }

    /// Returns what is recorded of changes of the design, unless the user chooses it.
    ///
    /// # Errors
    /// If that is not how the design came to be what it is.
    pub(crate) fn recorded_changes(&self) -> Outcome<Option<RecordedChanges>> {
        match self.settings.designer {
            Designer::User => Ok(None),
            designer => RecordedChanges::of(self.db(), designer == Designer::Navigator).map(Some),
        }
    }

    /// Checks the design, and that no change was lost; those that are there stay.
    pub(crate) fn note_changes(&self) -> Outcome {
        let Some(recorded) = self.recorded_changes()? else { return Ok(()) };
        let mut ledger = self.ledger.lock();
        if recorded.number < ledger.changes {
            return Err(format!(
                "change {} of the design was seen, and {} is the last",
                ledger.changes, recorded.number
            ));
        }
        ledger.changes = recorded.number;
        Ok(())
    }

    /// Scans some entries from places all over, so many times.
    pub(crate) fn scan(&self, times: u64) -> Outcome {
        let keys: Vec<&Vec<u8>> = self.state.keys().collect();
        let random = Random::new(times);
        for _ in 0..times {
            let from = keys[random.below(keys.len() as u64) as usize];
            for entry in self.db().scan(&from[..]..).limit(10) {
                entry.map_err(|error| format!("a scan failed: {error}"))?;
            }
        }
        Ok(())
    }

    /// Looks up keys that are not there.
    pub(crate) fn look_up_absent(&self, times: u64) -> Outcome {
        for number in 0..times {
            match self.db().get(format!("key{number:06} is absent")) {
                Ok(None) => {}
                other => return Err(format!("an absent key gives {other:?}")),
            }
        }
        Ok(())
    }

    /// Commits.
    pub(crate) fn write(&mut self, commit: Commit, durability: Durability) -> Outcome {
        let commit = Arc::new(commit);
        let before = if self.faulty { Some(self.state.clone()) } else { None };
        let change = commit.apply(&mut self.state);
        Arc::make_mut(&mut self.ledger.lock().line).push(commit.clone(), change);
        let written = commit.write(self.db(), durability, self.settings.durability);
        self.written("a write", written, durability, before)
    }

    /// Ingests a run.
    pub(crate) fn ingest(&mut self, commit: Commit) -> Outcome {
        let mut ingest = match self.db().ingest() {
            Ok(ingest) => ingest,
            Err(_) if self.faulty => return Ok(()),
            Err(error) => return Err(format!("an ingest could not begin: {error}")),
        };
        let commit = Arc::new(commit);
        let before = if self.faulty { Some(self.state.clone()) } else { None };
        let change = commit.apply(&mut self.state);
        Arc::make_mut(&mut self.ledger.lock().line).push(commit.clone(), change);
        let put = |change: &crate::history::KeyChange| {
            ingest.put(&change.key, change.value.as_ref().expect("only puts are ingested"))
        };
        let finished = commit.changes.iter().try_for_each(put).and_then(|()| ingest.finish());
        self.written("an ingest", finished.map(drop), Durability::Sync, before)
    }

    /// Notes the end of a commit, which is the last of the line. `before` is the state without it,
    /// kept while there are faults.
    fn written(
        &mut self,
        what: &str,
        written: tamarack::Result<()>,
        durability: Durability,
        before: Option<Entries>,
    ) -> Outcome {
        let mut ledger = self.ledger.lock();
        let count = ledger.line.len();
        match written {
            Ok(()) => {
                ledger.acknowledged = count;
                match durability {
                    Durability::Buffered => {}
                    Durability::Sync => ledger.make_durable(count),
                    Durability::Interval(time) => ledger.intervals.push((count, self.env.now() + time)),
                }
                Ok(())
            }
            // Nothing was written, says the error; so nothing may come back.
            Err(Error::Io { .. }) if self.faulty => {
                Arc::make_mut(&mut ledger.line).truncate(count - 1);
                drop(ledger);
                self.state = before.expect("kept while there are faults");
                Ok(())
            }
            // Its fate is unknown: it may be there.
            Err(Error::Stopped { .. }) if self.faulty => Ok(()),
            Err(error) => Err(format!("{what} failed: {error}")),
        }
    }

    pub(crate) fn sync(&mut self) -> Outcome {
        let synced = self.db().sync();
        self.made_durable("sync", synced)
    }

    pub(crate) fn flush(&mut self) -> Outcome {
        let flushed = self.db().flush();
        self.made_durable("flush", flushed)
    }

    pub(crate) fn compact(&mut self) -> Outcome {
        let compacted = self.db().compact();
        self.made_durable("compact", compacted)
    }

    pub(crate) fn compact_range(&mut self, range: Range<Vec<u8>>) -> Outcome {
        let compacted = self.db().compact_range(range);
        self.made_durable("compact_range", compacted)
    }

    /// Waits until no compaction is due.
    pub(crate) fn settle(&mut self) -> Outcome {
        let settled = self.db().wait_for_compactions();
        self.unless_faulty("waiting for compactions", settled)
    }

    /// Reshapes the tree.
    pub(crate) fn reshape(&mut self) -> Outcome {
        let reshaped = self.db().reshape();
        self.unless_faulty("reshaping", reshaped)
    }

    pub(crate) fn set_policy(&mut self, words: &str) -> Outcome {
        let set = self.db().set_policy(words);
        self.unless_faulty("a change of policy", set)
    }

    fn unless_faulty(&self, what: &str, done: tamarack::Result<()>) -> Outcome {
        match done {
            Err(error) if !self.faulty => Err(format!("{what} failed: {error}")),
            _ => Ok(()),
        }
    }

    /// Makes a checkpoint of all that is there.
    pub(crate) fn checkpoint(&mut self) -> Outcome {
        let number = {
            let checkpoints = &mut self.ledger.lock().checkpoints;
            checkpoints.push(Checkpoint { digest: digest_all(&self.state), done: false });
            checkpoints.len() - 1
        };
        let made = self.db().checkpoint(checkpoint_dir(number)).map(drop);
        self.ledger.lock().checkpoints[number].done = made.is_ok();
        self.made_durable("checkpoint", made)
    }

    /// Opens all checkpoints that are there, and returns their numbers. Each must be what it was to
    /// be; and a directory without one must not pass for one.
    pub(crate) fn open_checkpoints(&self) -> Outcome<BTreeSet<usize>> {
        let checkpoints = self.ledger.lock().checkpoints.clone();
        let mut there = BTreeSet::new();
        for (number, Checkpoint { digest, .. }) in checkpoints.into_iter().enumerate() {
            let dir = checkpoint_dir(number);
            let wrong = |what: String| format!("checkpoint {number}: {what}");
            let Ok(names) = self.env.list(Path::new(&dir)) else { continue };
            let opened = self.settings.options(&self.env).create_if_missing(false).open(&dir);
            if !names.iter().any(|name| name == "CURRENT") {
                match opened {
                    Err(_) => continue,
                    Ok(_) => return Err(wrong("a database without CURRENT".to_owned())),
                }
            }
            let db = opened.map_err(|error| wrong(format!("opening it failed: {error}")))?;
            let found = scan(&db).map_err(wrong)?;
            if digest_all(&found) != digest {
                return Err(wrong(format!("it holds something else: {found:?}")));
            }
            let report = db.verify(&mut |_, _| {}).map_err(|error| wrong(error.to_string()))?;
            if !report.is_ok() {
                return Err(wrong(format!("verification found {:?}", report.problems)));
            }
            there.insert(number);
        }
        Ok(there)
    }

    pub(crate) fn close(&mut self) -> Outcome {
        let closed = self.db.take().expect("it is open").close();
        self.made_durable("close", closed)
    }

    fn made_durable(&mut self, what: &str, done: tamarack::Result<()>) -> Outcome {
        let mut ledger = self.ledger.lock();
        match done {
            Ok(()) => {
                let all = ledger.acknowledged;
                ledger.make_durable(all);
                Ok(())
            }
            Err(_) if self.faulty => Ok(()),
            Err(error) => Err(format!("{what} failed: {error}")),
        }
    }

    /// Lets background work take so many steps.
    pub(crate) fn step_background(&mut self, steps: usize) {
        for _ in 0..steps {
            self.env.step_background();
        }
    }

    /// Lets a little time pass, and background work take so many steps.
    pub(crate) fn tick(&mut self, time: Duration, steps: usize) {
        self.env.advance(time);
        self.step_background(steps);
    }

    /// Lets time pass and background work do what it then should.
    pub(crate) fn pass_time(&mut self, time: Duration) {
        self.env.advance(time);
        self.env.run_background_until_idle();
        let now = self.env.now();
        let mut ledger = self.ledger.lock();
        let due = ledger.intervals.iter().filter(|(_, deadline)| *deadline <= now).map(|(count, _)| *count).max();
        ledger.intervals.retain(|(_, deadline)| *deadline > now);
        if let Some(due) = due.filter(|_| !self.faulty) {
            ledger.make_durable(due);
        }
    }

    /// From now on errors are allowed.
    pub(crate) fn expect_faults(&mut self) {
        self.faulty = true;
    }

    /// The process dies; another one may open what is there.
    pub(crate) fn die(&mut self) {
        self.env.clear_faults();
        self.faulty = false;
        self.env = self.env.kill();
        self.db = None;
    }

    /// All that was written is there, and nothing else.
    pub(crate) fn check(&self) -> Outcome {
        let found = scan(self.db())?;
        match found == self.state {
            true => Ok(()),
            false => Err(format!("after compactions: {}", difference(&self.state, &found))),
        }
    }

    /// Everything on storage is right, says the database.
    pub(crate) fn verify(&self) -> Outcome {
        match self.db().verify(&mut |_, _| {}) {
            Ok(report) if report.is_ok() => Ok(()),
            Ok(report) => Err(format!("verification found {:?}", report.problems)),
            Err(error) => Err(format!("verification failed: {error}")),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }
}

/// Where the checkpoint with that number is made.
fn checkpoint_dir(number: usize) -> String {
    format!("/checkpoint{number}")
}

/// All that is there, which must come in the order of keys.
fn scan(db: &Db) -> Outcome<Entries> {
    let mut found = Entries::new();
    for entry in db.scan(..) {
        let (key, value) = entry.map_err(|error| format!("a scan failed: {error}"))?;
        if found.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(format!("a scan yields {} out of order", key.escape_ascii()));
        }
        found.insert(key, value);
    }
    Ok(found)
}
