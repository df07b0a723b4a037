//! A user of a failing machine, who checks every answer and records the guarantees.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tamarack::{AdvancedOptions, Batch, Compression, Db, Durability, Error, Options, Snapshot};
use tamarack_env::{Env, SimEnv};

use super::workload::{Op, Workload, deletes_within};
use crate::answers::{Answers, collect, lookups_contradiction, multi_get, scan_contradiction};
use crate::history::{History, KeyWrite, Model, apply};
use crate::message;
use crate::recorded_designs::RecordedChanges;

/// Where the database lives.
pub(crate) const DIR: &str = "/db";

/// Everything tiny, so that a few writes pass through all of the engine; and no cache, so that
/// every read is a call. Tables are read past the page cache if `direct`.
pub(crate) fn options(env: &SimEnv, direct: bool) -> Options {
    Options::new().compression(Compression::None).advanced(tiny(env, direct).memtable_bytes(160))
}

/// The same for a workload: with designs at random, an automatic policy, and memtables of the size
/// that is chosen.
pub(crate) fn options_of(is_at_random: bool, env: &SimEnv, direct: bool) -> Options {
    if !is_at_random {
        return options(env, direct);
    }
    Options::new().memory_bytes(1 << 20).compression(Compression::None).advanced(tiny(env, direct).policy("auto"))
}

fn tiny(env: &SimEnv, direct: bool) -> AdvancedOptions {
    let advanced = AdvancedOptions::new().immutable_memtables_max(2).block_bytes(96).table_bytes(300).cache_bytes(0);
    // Rolled as soon as it has grown enough.
    let advanced = advanced.manifest_bytes(1);
    advanced.env(std::sync::Arc::new(env.clone())).direct_io(direct)
}

/// What the session should expect of the fault at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expect {
    /// Nothing fails: any error is a violation.
    NoError,
    /// Calls fail, and say so.
    Errors,
    /// There is no space, and nothing else is wrong.
    Full,
    /// Calls do something else than they say: damage may be noticed anywhere, and what was promised
    /// may be lost; but no answer is wrong.
    Damage,
}

/// One user and one database.
pub(crate) struct Session {
    pub(crate) env: SimEnv,
    /// Tables are read past the page cache.
    direct: bool,
    /// The design changes at random.
    is_at_random: bool,
    /// The number of the last change of the design that was made.
    pub(crate) changes: u64,
    pub(crate) db: Option<Db>,
    pub(crate) history: History,
    expect: Expect,
    /// The path of the one call that fails, if there is only one.
    struck: Option<PathBuf>,
    /// What a reader of the open handle must see.
    visible: Model,
    snapshot: Option<(Snapshot, Model)>,
    /// What each checkpoint holds, and whether it was acknowledged.
    checkpoints: Vec<(Model, bool)>,
    /// A write was answered with `Stopped`, or a sync failed: so must be all later ones.
    stopped: bool,
    interval_pending: bool,
    /// Operations that were answered with an error.
    pub(crate) refused: std::cell::Cell<u64>,
}

/// What went wrong that must not.
pub(crate) type Checked<T = ()> = Result<T, String>;

impl Session {
    pub(crate) fn new(env: SimEnv, direct: bool, expect: Expect, struck: Option<PathBuf>) -> Self {
        Self {
            env,
            direct,
            is_at_random: false,
            changes: 0,
            db: None,
            history: History::default(),
            expect,
            struck,
            visible: Model::new(),
            snapshot: None,
            checkpoints: Vec::new(),
            stopped: false,
            interval_pending: false,
            refused: std::cell::Cell::new(0),
        }
    }

    /// The same for this workload.
    pub(crate) fn of(self, workload: &Workload) -> Self {
        Self { is_at_random: workload.is_at_random, ..self }
    }

    /// Options for the database on this machine or on an image of it.
    pub(crate) fn options(&self, env: &SimEnv) -> Options {
        options_of(self.is_at_random, env, self.direct)
    }

    /// Opens the database. If that fails the session is over: nothing more can be done with it.
    pub(crate) fn open(&mut self) -> Checked {
        self.stopped = false;
        self.interval_pending = false;
        match self.options(&self.env).open(DIR) {
            Ok(db) => {
                let answers = Answers::of(&db, &self.history.keys());
                answers.errors().try_for_each(|error| self.check_error(error))?;
                let least = if self.expect == Expect::Damage { 0 } else { self.history.durable() };
                let commits = self.history.explains(&answers, least)?;
                if answers.errors().next().is_some() {
                    // What was recovered is not known, and so nothing more can be checked.
                    return Ok(());
                }
                self.history.adopt(commits);
                self.visible = self.history.state(commits);
                self.db = Some(db);
                Ok(())
            }
            Err(error) => self.check_error(&error),
        }
    }

    /// Writing has ended: every later write must say so.
    pub(crate) fn expect_stopped(&mut self) {
        self.stopped = true;
    }

    /// The fault is gone: no call fails from here on.
    pub(crate) fn expect_no_errors(&mut self) {
        self.expect = Expect::NoError;
    }

    /// Does one thing and checks its answer, and the design.
    pub(crate) fn step(&mut self, op: &Op) -> Checked {
        self.carry_out(op)?;
        self.check_design()
    }

    /// What is recorded of changes of the design is what was made, whatever has failed.
    fn check_design(&mut self) -> Checked {
        let Some(db) = &self.db else { return Ok(()) };
        self.changes = self.check_design_of(db)?;
        Ok(())
    }

    /// The same of the database, perhaps on an image of this machine. Returns the number of the
    /// last change.
    pub(crate) fn check_design_of(&self, db: &Db) -> Checked<u64> {
        if !self.is_at_random {
            return Ok(0);
        }
        let number = RecordedChanges::of(db, false)?.number;
        if number < self.changes && self.expect != Expect::Damage {
            return Err(format!("change {} of the design was made, and {number} is the last", self.changes));
        }
        Ok(number)
    }

    fn carry_out(&mut self, op: &Op) -> Checked {
        let Some(db) = self.db.clone() else { return Ok(()) };
        match op {
            Op::Write(changes, durability) => self.write(&db, None, changes, *durability),
            Op::DeleteRange(from, to, changes, durability) => self.write(&db, Some((from, to)), changes, *durability),
            Op::Sync => {
                let outcome = db.sync();
                self.end_durable(outcome)
            }
            Op::Flush => {
                let outcome = db.flush();
                self.end_durable(outcome)
            }
            Op::Compact => {
                let outcome = db.compact();
                self.end_durable(outcome)
            }
            Op::CompactRange(from, to) => {
                let outcome = db.compact_range(&from[..]..&to[..]);
                self.end(outcome)
            }
            Op::Settle => {
                let outcome = db.wait_for_compactions();
                self.end(outcome)
            }
            Op::Reshape => {
                let outcome = db.reshape();
                self.end(outcome)
            }
            Op::Policy(words) => {
                let outcome = db.set_policy(*words);
                self.end(outcome)
            }
            Op::Checkpoint => {
                let made = db.checkpoint(checkpoint_dir(self.checkpoints.len())).map(drop);
                self.checkpoints.push((self.visible.clone(), made.is_ok()));
                self.end_durable(made)
            }
            Op::Get(key) => match db.get(key) {
                Ok(value) if value.as_deref() == self.visible.get(key).map(Vec::as_slice) => Ok(()),
                Ok(value) => Err(format!("get {} gives {value:?}", key.escape_ascii())),
                Err(error) => self.check_error(&error),
            },
            Op::GetAll => {
                let keys: Vec<_> = self.visible.keys().cloned().chain([b"no such key".to_vec()]).collect();
                let found = multi_get(&db, &keys);
                match (lookups_contradiction(&found, keys.iter(), &self.visible), found) {
                    (Some(contradiction), _) => Err(contradiction),
                    (None, found) => found.map_or_else(|error| self.check_error(&error), |_| Ok(())),
                }
            }
            Op::Scan { reverse: false } => {
                let delivered = collect(db.scan(..));
                let contradiction = scan_contradiction(&delivered, self.visible.iter());
                self.check_scan(delivered.1, contradiction)
            }
            Op::Scan { reverse: true } => {
                let delivered = collect(db.scan(..).rev());
                let contradiction = scan_contradiction(&delivered, self.visible.iter().rev());
                self.check_scan(delivered.1, contradiction)
            }
            Op::Snapshot => {
                self.snapshot = Some((db.snapshot(), self.visible.clone()));
                Ok(())
            }
            Op::ScanSnapshot => {
                let Some((snapshot, model)) = &self.snapshot else { return Ok(()) };
                let delivered = collect(snapshot.scan(..));
                let contradiction = scan_contradiction(&delivered, model.iter());
                self.check_scan(delivered.1, contradiction)
            }
            Op::Verify => match db.verify(&mut |_, _| {}) {
                Ok(report) => report.problems.iter().try_for_each(|problem| self.check_error(problem)),
                Err(error) => self.check_error(&error),
            },
            Op::Wait(time) => {
                self.wait(*time);
                Ok(())
            }
            Op::Reopen | Op::DropAndReopen => {
                self.snapshot = None;
                self.db = None;
                if matches!(op, Op::Reopen) {
                    let outcome = db.close();
                    self.end_durable(outcome)?;
                } else {
                    drop(db);
                }
                self.open()
            }
        }
    }

    /// In the directory of each checkpoint that was asked for is on `env` all that it was to hold,
    /// or no database: the latter only if it was not acknowledged.
    pub(crate) fn check_checkpoints(&self, env: &SimEnv) -> Checked {
        for (number, (model, acknowledged)) in self.checkpoints.iter().enumerate() {
            let dir = checkpoint_dir(number);
            let wrong = |what: String| Err(format!("checkpoint {number}: {what}"));
            let names = env.list(Path::new(&dir)).unwrap_or_default();
            let opened = self.options(env).create_if_missing(false).open(&dir);
            match (names.iter().any(|name| name == "CURRENT"), opened) {
                (false, Ok(_)) => return wrong("a database without CURRENT".to_owned()),
                (false, Err(_)) if *acknowledged => return wrong("it was acknowledged, and is gone".to_owned()),
                (false, Err(_)) => {}
                (true, Err(error)) if self.expect == Expect::Damage => self.check_error(&error)?,
                (true, Err(error)) => return wrong(format!("it does not open: {error}")),
                (true, Ok(db)) => {
                    let answers = Answers::of(&db, &self.history.keys());
                    if let Some(contradiction) = answers.contradiction(model) {
                        return wrong(contradiction);
                    }
                    if let Some(error) = answers.errors().next().filter(|_| self.expect != Expect::Damage) {
                        return wrong(error.to_string());
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets time pass and the background work do what it can.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.env.advance(time);
        self.env.run_background_until_idle();
    }

    /// The deadline of all writes with `Durability::Interval` has passed, and no sync has failed.
    pub(crate) fn interval_has_passed(&mut self) {
        if std::mem::take(&mut self.interval_pending) && !self.stopped {
            self.history.mark_durable();
        }
    }

    /// All answers of the open handle are there and right, and it can write.
    pub(crate) fn check_handle(&mut self) -> Checked {
        let Some(db) = self.db.clone() else { return Ok(()) };
        self.expect_no_errors();
        let answers = Answers::of(&db, &self.history.keys());
        answers.errors().try_for_each(|error| self.check_error(error))?;
        if let Some(contradiction) = answers.contradiction(&self.visible) {
            return Err(format!("the same handle, after the fault: {contradiction}"));
        }
        for op in [Op::Write(vec![probe(1)], Durability::Sync), Op::Flush, Op::Verify, Op::Scan { reverse: false }] {
            self.step(&op).map_err(|why| format!("the same handle, after the fault, {op:?}: {why}"))?;
        }
        Ok(())
    }

    /// Writes a range delete, if there is one, and changes after it.
    fn write(
        &mut self,
        db: &Db,
        deleted: Option<(&Vec<u8>, &Vec<u8>)>,
        changes: &[KeyWrite],
        durability: Durability,
    ) -> Checked {
        let mut batch = Batch::new();
        if let Some((from, to)) = deleted {
            batch.delete_range(&from[..]..&to[..]);
        }
        for (key, value) in changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        // For the history, a range delete deletes each key.
        let deletes = deleted.into_iter().flat_map(|(from, to)| deletes_within(from, to));
        let changes: Vec<KeyWrite> = deletes.chain(changes.iter().cloned()).collect();
        match db.write_with(&batch, durability) {
            Ok(()) if self.stopped => Err("a write was acknowledged after writing had ended".to_owned()),
            Ok(()) => {
                apply(&mut self.visible, &changes);
                self.history.acknowledge(changes);
                match durability {
                    Durability::Sync => self.history.mark_durable(),
                    Durability::Interval(_) => self.interval_pending = true,
                    Durability::Buffered => {}
                }
                Ok(())
            }
            Err(error) => {
                if is_stop(&error) && !std::mem::replace(&mut self.stopped, true) {
                    self.history.leave_open(changes);
                }
                if self.stopped && !is_stop(&error) {
                    return Err(format!("a write after writing had ended was answered with: {error}"));
                }
                self.check_error(&error)
            }
        }
    }

    fn end_durable(&mut self, outcome: Result<(), Error>) -> Checked {
        match outcome {
            Ok(()) => self.history.mark_durable(),
            Err(error) => self.refused(&error)?,
        }
        Ok(())
    }

    /// Something was answered with an error. If that says that writing has ended, a sync has
    /// failed, and what was to be durable after some time need not be.
    fn refused(&mut self, error: &Error) -> Checked {
        self.interval_pending &= !is_stop(error);
        self.check_error(error)
    }

    /// Of an operation that promises nothing about what was written.
    fn end(&mut self, outcome: Result<(), Error>) -> Checked {
        outcome.map_or_else(|error| self.refused(&error), |()| Ok(()))
    }

    fn check_scan(&self, error: Option<Error>, contradiction: Option<String>) -> Checked {
        error.iter().try_for_each(|error| self.check_error(error))?;
        contradiction.map_or(Ok(()), Err)
    }

    fn check_error(&self, error: &Error) -> Checked {
        self.refused.set(self.refused.get() + 1);
        let complaint = match self.expect {
            Expect::NoError => Some(format!("an error although nothing fails: {error}")),
            Expect::Full if !is_full(error) => Some(format!("only space is missing, but: {error}")),
            Expect::Errors | Expect::Full if matches!(error, Error::Corruption { .. }) => {
                Some(format!("damage is claimed where there is none: {error}"))
            }
            Expect::Errors | Expect::Full => message::complaint(error, self.struck.as_ref()),
            Expect::Damage => message::complaint(error, None),
        };
        complaint.map_or(Ok(()), Err)
    }
}

fn checkpoint_dir(number: usize) -> String {
    format!("/checkpoint{number}")
}

/// A write that no workload does.
pub(crate) fn probe(number: u64) -> KeyWrite {
    (format!("probe {number}").into_bytes(), Some(b"written after all was well again".to_vec()))
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}

fn is_stop(error: &Error) -> bool {
    matches!(error, Error::Stopped { .. })
}
