//! Runs a history on a database and on the model, in lockstep, and compares every answer.
//!
//! An error is an answer too. It is accepted only if a fault was injected since the database was
//! opened; and its statement about a write must be true: that nothing was written, or that its fate
//! is unknown.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use tamarack::{Error, Stats};

use crate::copies::all_of;
use crate::coverage::Coverage;
use crate::model::{Guarantee, KeyValues, Model, Pair, Recovered, pairs, show};
use crate::operation::{Change, Ending, History, Level, Operation, Quoted, Range, Reader, Turn, Write};
use crate::world::{Items, Sabotage, Survives, World, is_stop};

/// The slot of ingests that are begun and finished at once.
const INGEST_SLOT: u8 = 200;

/// The first difference between a history and the model.
#[derive(Clone, Debug)]
pub(crate) struct Mismatch {
    /// The operation's index in the history; its length for the last check.
    pub(crate) operation: usize,
    pub(crate) what: String,
}

/// Runs a history, from an empty machine on.
///
/// # Errors
/// The first wrong answer; a panic is one.
pub(crate) fn run(history: &History, sabotage: Option<Sabotage>, coverage: &mut Coverage) -> Result<(), Mismatch> {
    let mut at = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut run = LockstepRun::new(history, sabotage, coverage)?;
        for operation in &history.operations {
            run.apply(operation)?;
            at += 1;
        }
        run.apply(&Operation::Reopen)?;
        run.apply(&Operation::Verify)?;
        run.look_at_checkpoint()?;
        run.count();
        Ok(())
    }));
    outcome
        .unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))))
        .map_err(|what| Mismatch { operation: at, what })
}

pub(crate) struct LockstepRun<'a> {
    pub(crate) world: World,
    pub(crate) model: Model,
    /// The last checkpoint, and what was in it when it was closed.
    pub(crate) checkpoint: Option<(PathBuf, KeyValues)>,
    pub(crate) coverage: &'a mut Coverage,
    /// The operation had nothing to do.
    skipped: bool,
}

impl<'a> LockstepRun<'a> {
    fn new(history: &History, sabotage: Option<Sabotage>, coverage: &'a mut Coverage) -> Result<Self, String> {
        let mut world = World::new(history, sabotage);
        world.open().map_err(|error| format!("a new database cannot be opened: {error}"))?;
        let model = Model::new(world.is_simulated());
        Ok(Self { world, model, checkpoint: None, coverage, skipped: false })
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        let (kind, options) = (operation.kind(), self.world.place_of_options());
        self.skipped = false;
        self.carry_out(operation)?;
        if !self.skipped {
            self.coverage.operations += 1;
            if let Some(options) = options {
                self.coverage.pairs.count(kind, options);
            }
        }
        self.skipped = false;
        Ok(())
    }

    /// Notes that an operation had nothing to do.
    fn skip(&mut self) -> Result<(), String> {
        self.skipped = true;
        Ok(())
    }

    fn carry_out(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Write { writes, level } => self.write(writes, *level),
            Operation::Get { reader, key } => self.get(*reader, key),
            Operation::Contains { reader, key } => self.contains(*reader, key),
            Operation::MultiGet { reader, key } => self.multi_get(*reader, key),
            Operation::Scan { reader, range, turns, limit, is_told } => {
                self.scan(*reader, range, turns, *limit as usize, *is_told)
            }
            Operation::TakeSnapshot(slot) => {
                self.world.take_snapshot(*slot);
                let state = self.model.state(Reader::Now).expect("there is always a state");
                self.model.snapshots.insert(*slot, state);
                Ok(())
            }
            Operation::DropSnapshot(slot) => {
                self.world.drop_snapshot(*slot);
                self.skip_unless(|run| run.model.snapshots.remove(slot).is_some())
            }
            Operation::OpenScan { slot, reader, range } => {
                let Some(state) = self.model.state(*reader) else { return self.skip() };
                self.world.scans.insert(*slot, self.world.scan(*reader, range, None));
                self.model.scans.insert(*slot, pairs(&state, range));
                Ok(())
            }
            Operation::StepScan { slot, turns } => self.step_scan(*slot, turns),
            Operation::DropScan(slot) => {
                self.world.scans.remove(slot);
                self.skip_unless(|run| run.model.scans.remove(slot).is_some())
            }
            Operation::OpenIngest { slot, writes } => self.open_ingest(*slot, writes),
            Operation::FinishIngest(slot) => self.finish_ingest(*slot),
            Operation::DropIngest(slot) => {
                self.world.drop_ingest(*slot);
                self.skip_unless(|run| run.model.ingests.remove(slot).is_some())
            }
            Operation::Ingest(writes) => {
                self.open_ingest(INGEST_SLOT, writes)?;
                self.finish_ingest(INGEST_SLOT)
            }
            Operation::Flush => {
                let outcome = self.world.flush();
                self.durable_if(outcome, "flush")
            }
            Operation::Compact => {
                let outcome = self.world.compact();
                self.refused_while_paused(outcome, |run, outcome| run.durable_if(outcome, "compact"))
            }
            Operation::CompactRange(range) => match self.world.compact_range(range) {
                // Without keys between the bounds nothing happens, not even a flush.
                Ok(()) => Ok(()),
                Err(Error::InvalidArgument(_)) if self.world.is_paused() => Ok(()),
                Err(error) => self.excuse(error, "compact_range"),
            },
            Operation::Settle => {
                let before = self.world.stats();
                let outcome = self.world.settle();
                if outcome.is_ok() {
                    check_space(before, self.world.stats())?;
                }
                self.refused_while_paused(outcome, |run, outcome| {
                    outcome.or_else(|error| run.excuse(error, "waiting for compactions"))
                })
            }
            Operation::Reshape => {
                let outcome = self.world.reshape();
                self.refused_while_paused(outcome, |run, outcome| {
                    outcome.or_else(|error| run.excuse(error, "reshaping"))
                })
            }
            Operation::Estimate { bytes, policy } => match self.world.estimate(policy, *bytes) {
                // Words that leave something out are completed, and a shape is printed anew.
                Ok(said) if said.split(':').next() == policy.split(':').next() => Ok(()),
                Ok(said) => Err(format!("an estimate for {policy} says it is for {said}")),
                Err(error) => self.excuse(error, "estimate_reshape"),
            },
            Operation::Checkpoint => self.make_checkpoint(),
            Operation::Pause => {
                self.world.pause();
                Ok(())
            }
            Operation::Resume => {
                let was_paused = self.world.is_paused();
                self.world.resume();
                self.skip_unless(|_| was_paused)
            }
            Operation::SettleFilters => {
                let outcome = self.world.settle_filters();
                self.refused_while_paused(outcome, |run, outcome| {
                    outcome.or_else(|error| run.excuse(error, "waiting for filters"))
                })
            }
            Operation::Policy(words) => match self.world.set_policy(words) {
                Ok(()) if self.model.stopped => Err("a policy was set after writing had ended".to_owned()),
                Ok(()) => Ok(()),
                Err(error) => self.excuse(error, "set_policy"),
            },
            Operation::Filter(words) => match self.world.set_filter(words) {
                Ok(()) if self.model.stopped => Err("a filter was set after writing had ended".to_owned()),
                Ok(()) => Ok(()),
                Err(error) => self.excuse(error, "set_filter"),
            },
            Operation::Options(options) => {
                self.world.set_options(options);
                Ok(())
            }
            Operation::Verify => self.verify(),
            Operation::Stats => self.compare_stats(),
            Operation::Refused => self.ask_for_what_is_invalid(),
            Operation::Locked => self.open_again(),
            Operation::Linger => self.linger(),
            Operation::Look => self.close_and(|run| run.look_first()),
            Operation::VerifyClosed => self.close_and(|run| run.verify_closed().map(|()| None)),
            Operation::Repair => self.close_and(|run| run.repair_copy().map(|()| None)),
            Operation::Transfer(options) => self.transfer(options),
            Operation::Sync => {
                let outcome = self.world.sync();
                self.durable_if(outcome, "sync")
            }
            Operation::Reopen => self.reopen(),
            Operation::End(ending) => self.end(*ending),
            Operation::Interrupt { calls, ending, operation } => self.interrupt(*calls, *ending, operation),
            Operation::Background(steps) => {
                self.world.step_background(*steps);
                Ok(())
            }
            Operation::Advance(ms) => {
                self.world.advance(Duration::from_millis(*ms));
                if !self.model.stopped && !self.world.is_troubled() {
                    self.model.time_passed(self.world.now());
                }
                Ok(())
            }
            Operation::Fault { failure, after } => {
                self.world.inject(failure, *after);
                Ok(())
            }
            Operation::Limit(bytes) => {
                let was_limited = self.world.is_limited();
                self.world.limit(*bytes);
                self.skip_unless(|_| was_limited || bytes.is_some())
            }
        }
    }

    fn skip_unless(&mut self, did: impl FnOnce(&mut Self) -> bool) -> Result<(), String> {
        self.skipped = !did(self);
        Ok(())
    }

    fn write(&mut self, writes: &[Write], level: Level) -> Result<(), String> {
        match self.world.write(writes, level) {
            Ok(()) if self.model.stopped => Err("a write was acknowledged after writing had ended".to_owned()),
            Ok(()) => {
                let is_operand = |write: &&Write| matches!(write.change, Change::Merge(_));
                let is_range_delete = |write: &&Write| matches!(write.change, Change::DeleteRange(_));
                self.coverage.operands += writes.iter().filter(is_operand).count() as u64;
                self.coverage.range_deletes += writes.iter().filter(is_range_delete).count() as u64;
                let level = self.world.durability(level);
                self.model.acknowledge(writes, level, self.world.now());
                Ok(())
            }
            Err(error) if is_stop(&error) => {
                // The first write that returns this may be the one whose sync failed; later ones
                // were not even tried.
                if !self.model.stopped {
                    self.model.lose_track(writes);
                }
                self.excuse(error, "write")
            }
            // Nothing was written, so the model does not change.
            Err(error) => self.excuse(error, "write"),
        }
    }

    fn open_ingest(&mut self, slot: u8, writes: &[Write]) -> Result<(), String> {
        self.model.ingests.remove(&slot);
        match self.world.open_ingest(slot, writes) {
            Ok(()) if self.model.stopped => Err("an ingest began after writing had ended".to_owned()),
            Ok(()) => {
                self.model.ingests.insert(slot, writes.to_vec());
                Ok(())
            }
            Err(error) => self.excuse(error, "ingest"),
        }
    }

    /// As one large batch that is synced.
    fn finish_ingest(&mut self, slot: u8) -> Result<(), String> {
        let Some(writes) = self.model.ingests.remove(&slot) else { return self.skip() };
        match self.world.finish_ingest(slot) {
            Ok(()) if self.model.stopped => Err("something was ingested after writing had ended".to_owned()),
            Ok(()) => {
                self.coverage.ingests += 1;
                self.coverage.ingests_beside += u64::from(!self.model.ingests.is_empty());
                if !writes.is_empty() {
                    self.model.acknowledge(&writes, Level::Sync, self.world.now());
                }
                Ok(())
            }
            Err(error) => {
                if is_stop(&error) && !self.model.stopped {
                    self.model.lose_track(&writes);
                }
                self.excuse(error, "finishing an ingest")
            }
        }
    }

    fn durable_if(&mut self, outcome: tamarack::Result<()>, what: &str) -> Result<(), String> {
        match outcome {
            Ok(()) if self.model.stopped => Err(format!("{what} succeeded after writing had ended")),
            Ok(()) => {
                self.model.make_durable();
                Ok(())
            }
            Err(error) => self.excuse(error, what),
        }
    }

    /// Waiting for compactions is refused while they are paused; it would block for ever.
    fn refused_while_paused(
        &mut self,
        outcome: tamarack::Result<()>,
        otherwise: impl FnOnce(&mut Self, tamarack::Result<()>) -> Result<(), String>,
    ) -> Result<(), String> {
        match outcome {
            Err(Error::InvalidArgument(_)) if self.world.is_paused() => Ok(()),
            Ok(()) if self.world.is_paused() => {
                Err("waiting for compactions returned while they were paused".to_owned())
            }
            outcome => otherwise(self, outcome),
        }
    }

    /// Opens the database read-only, reads it, and checks that nothing changes. `None` if a fault
    /// prevents that.
    pub(crate) fn look_first(&mut self) -> Result<Option<KeyValues>, String> {
        let before = self.world.bytes();
        let looked = self.world.open_to_look().and_then(|[one, another]| {
            let found = all_of(&one)?;
            if all_of(&another)? != found {
                return Err(Error::InvalidArgument("two readers see different things".to_owned()));
            }
            match one.put(b"key", b"value") {
                Err(Error::ReadOnly { .. }) => Ok(found),
                other => Err(Error::InvalidArgument(format!("a write to what is open for reading only: {other:?}"))),
            }
        });
        match (looked, before, self.world.bytes()) {
            (Ok(found), Ok(before), Ok(after)) if before == after => {
                self.coverage.looks += 1;
                Ok(Some(found))
            }
            (Ok(_), Ok(_), Ok(_)) => Err("looking at a database has changed it".to_owned()),
            (Err(error), ..) if !self.world.is_troubled() => {
                Err(format!("the database cannot be opened for reading only: {error}"))
            }
            (_, before, after) if !self.world.is_troubled() => {
                Err(format!("files cannot be read: {:?}, {:?}", before.err(), after.err()))
            }
            _ => Ok(None),
        }
    }

    /// Reads all tables and checks them and what the manifest says.
    fn verify(&mut self) -> Result<(), String> {
        match self.world.verify() {
            Ok(report) if report.is_ok() || self.world.has_lost_pages() => Ok(()),
            Ok(report) => Err(format!("verify finds {:?}", report.problems)),
            Err(error) => self.excuse(error, "verify"),
        }
    }

    /// Adds the open database's statistics. Called before it is dropped.
    pub(crate) fn count(&mut self) {
        let Some(stats) = self.world.stats() else { return };
        let coverage = &mut *self.coverage;
        coverage.flushes += stats.flushes;
        coverage.compactions += stats.compactions;
        coverage.filtered += stats.compaction_filter_changed;
        coverage.moves += stats.moves;
        coverage.reshapes += stats.reshapes;
        let used = stats.levels.iter().filter(|level| !level.runs.is_empty()).count();
        coverage.levels_max = coverage.levels_max.max(used as u64);
        let runs: usize = stats.levels.iter().map(|level| level.runs.len()).sum();
        coverage.runs_max = coverage.runs_max.max(runs as u64);
    }

    fn get(&mut self, reader: Reader, key: &[u8]) -> Result<(), String> {
        let Some(state) = self.model.state(reader) else { return self.skip() };
        let expected = state.get(key).map(|value| &**value);
        match self.world.get(reader, key) {
            Ok(found) if found.as_deref() == expected => Ok(()),
            Ok(found) => {
                let show = |value: Option<&[u8]>| value.map_or("nothing".to_owned(), |v| Quoted(v).to_string());
                Err(format!("get {}: found {}, expected {}", Quoted(key), show(found.as_deref()), show(expected)))
            }
            Err(error) => self.excuse(error, "get"),
        }
    }

    /// Looks up the key, all that there are, and the key once more.
    fn multi_get(&mut self, reader: Reader, key: &[u8]) -> Result<(), String> {
        let Some(state) = self.model.state(reader) else { return self.skip() };
        let there = state.keys().map(|key| &**key);
        let keys: Vec<_> = std::iter::once(key).chain(there).chain([key]).collect();
        match self.world.multi_get(reader, &keys) {
            Ok(found) => {
                let expected: Vec<_> = keys.iter().map(|&key| state.get(key).map(|value| value.to_vec())).collect();
                let wrong = (0..keys.len()).find(|&at| found.get(at) != Some(&expected[at]));
                wrong.map_or(Ok(()), |at| {
                    let key = Quoted(keys[at]);
                    Err(format!("multi_get {key}: found {:?}, expected {:?}", found.get(at), expected[at]))
                })
            }
            Err(error) => self.excuse(error, "multi_get"),
        }
    }

    fn contains(&mut self, reader: Reader, key: &[u8]) -> Result<(), String> {
        let Some(state) = self.model.state(reader) else { return self.skip() };
        match self.world.contains(reader, key) {
            Ok(found) if found == state.contains_key(key) => Ok(()),
            Ok(found) => Err(format!("contains {}: found {found}", Quoted(key))),
            Err(error) => self.excuse(error, "contains"),
        }
    }

    fn scan(
        &mut self,
        reader: Reader,
        range: &Range,
        turns: &[Turn],
        limit: usize,
        is_told: bool,
    ) -> Result<(), String> {
        let Some(state) = self.model.state(reader) else { return self.skip() };
        let mut items = self.world.scan(reader, range, is_told.then_some(limit));
        let mut expected = pairs(&state, range);
        let goes_on = self.compare(&mut items, &mut expected, turns.iter().copied().cycle().take(limit))?;
        match (goes_on && is_told).then(|| items.take(turns[0])) {
            None | Some(Ok(None)) => Ok(()),
            Some(after) => Err(format!("a scan with a limit of {limit} goes on with {after:?}")),
        }
    }

    fn step_scan(&mut self, slot: u8, turns: &[Turn]) -> Result<(), String> {
        let Some(mut items) = self.world.scans.remove(&slot) else { return self.skip() };
        let mut expected = self.model.scans.remove(&slot).expect("the model has the scans that the world has");
        if self.compare(&mut items, &mut expected, turns.iter().copied())? {
            self.world.scans.insert(slot, items);
            self.model.scans.insert(slot, expected);
        }
        Ok(())
    }

    /// Calls a scan's ends in turns, until the first end. False if an excusable error ended it.
    fn compare(
        &mut self,
        items: &mut Items,
        expected: &mut VecDeque<Pair>,
        turns: impl Iterator<Item = Turn>,
    ) -> Result<bool, String> {
        for turn in turns {
            let wanted = match turn {
                Turn::Front | Turn::LentFront => expected.pop_front(),
                Turn::Back | Turn::LentBack => expected.pop_back(),
            };
            let found = match items.take(turn) {
                Ok(found) => found,
                Err(error) => {
                    self.excuse(error, "scan")?;
                    return match (items.take(Turn::Front), items.take(Turn::LentBack)) {
                        (Ok(None), Ok(None)) => Ok(false),
                        _ => Err("a scan went on after an error".to_owned()),
                    };
                }
            };
            let same = match (&found, &wanted) {
                (None, None) => true,
                (Some((key, value)), Some((wanted_key, wanted_value))) => {
                    key[..] == wanted_key[..] && value[..] == wanted_value[..]
                }
                _ => false,
            };
            if !same {
                let found = found.map(|(key, value)| (key.into(), value.into()));
                let show = |pair: Option<Pair>| show(&pair.into_iter().collect::<KeyValues>());
                return Err(format!("scan, {turn:?}: found {}, expected {}", show(found), show(wanted)));
            }
            self.coverage.items_scanned += 1;
            if wanted.is_none() {
                break;
            }
        }
        Ok(true)
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.close_and(|_| Ok(None))
    }

    fn end(&mut self, ending: Ending) -> Result<(), String> {
        self.count();
        if self.world.has_lost_pages() && ending == Ending::Kill {
            return self.open(Guarantee::Acknowledged, None);
        }
        self.world.end(ending);
        let loses = self.world.is_simulated() && ending != Ending::Kill;
        self.open(if loses { Guarantee::Durable } else { Guarantee::Acknowledged }, None)
    }

    /// If the end comes during the operation, its answer is lost: its write may be there or not.
    fn interrupt(&mut self, calls: u64, ending: Ending, operation: &Operation) -> Result<(), String> {
        let before = self.model.clone();
        let checkpoint = self.checkpoint.clone();
        self.world.start_watch(calls, ending);
        let outcome = self.apply(operation);
        let Some(survives) = self.world.end_watch(ending) else {
            outcome?;
            return self.end(ending);
        };
        outcome?;
        self.coverage.interrupted += 1;
        self.model = before;
        let cut = self.checkpoint.take().filter(|made| Some(made) != checkpoint.as_ref());
        self.checkpoint = checkpoint;
        if let (Operation::Checkpoint, Some((dir, _))) = (operation, cut) {
            let state = self.model.state(Reader::Now).expect("there is always a state");
            self.check_cut_checkpoint(&dir, &state)?;
        }
        let writes = match operation {
            Operation::Write { writes, .. } | Operation::Ingest(writes) => Some(writes.clone()),
            Operation::FinishIngest(slot) => self.model.ingests.get(slot).cloned(),
            _ => None,
        };
        if let Some(writes) = writes
            && !self.model.stopped
        {
            self.model.lose_track(&writes);
        }
        let guarantee = match survives {
            Survives::WhatWasWritten => Guarantee::Acknowledged,
            Survives::WhatWasSynced => Guarantee::Durable,
        };
        self.open(guarantee, None)
    }

    /// Opens the database and reads everything, which must be what was seen since it was closed, if
    /// anything was. Opening may fail because of a fault, but not once that is removed.
    pub(crate) fn open(&mut self, mut guarantee: Guarantee, seen: Option<KeyValues>) -> Result<(), String> {
        self.coverage.recoveries += 1;
        if self.world.has_lost_pages() {
            self.lose_power(&mut guarantee);
        }
        let mut seen = if seen.is_none() && self.world.looks_first() { self.look_first()? } else { seen };
        if let Err(error) = self.world.open() {
            // After a second crash there may be less.
            seen = None;
            if !self.world.is_troubled() {
                return Err(format!("the database cannot be opened: {error}"));
            }
            self.coverage.errors += 1;
            self.world.heal();
            if self.world.has_lost_pages() {
                self.lose_power(&mut guarantee);
            }
            self.world
                .open()
                .map_err(|error| format!("the database cannot be opened after a failed attempt: {error}"))?;
        }
        let found = self.read_all()?;
        if let Some(seen) = seen.filter(|seen| *seen != found) {
            return Err(format!("for reading only it holds {}, and then {}", show(&seen), show(&found)));
        }
        match self.model.recover(found, guarantee)? {
            Recovered::All => {}
            Recovered::Less => self.coverage.recovered_less += 1,
            Recovered::More => self.coverage.recovered_more += 1,
        }
        self.check_all()
    }

    /// When a failed sync has dropped pages, the machine must restart: no program can know what is
    /// on its disk.
    fn lose_power(&mut self, guarantee: &mut Guarantee) {
        self.world.end(Ending::Crash(self.coverage.operations));
        *guarantee = Guarantee::Durable;
    }

    /// Reads the database without an expectation. Removes faults that get in the way.
    fn read_all(&mut self) -> Result<KeyValues, String> {
        match all_of(self.world.db()) {
            Ok(found) => Ok(found),
            Err(error) => {
                self.excuse(error, "scan")?;
                self.world.heal();
                all_of(self.world.db()).map_err(|error| format!("scan after faults were mended: {error}"))
            }
        }
    }

    /// Asks for everything in the other ways.
    fn check_all(&mut self) -> Result<(), String> {
        let state = self.model.state(Reader::Now).expect("there is always a state");
        for key in state.keys() {
            self.get(Reader::Now, key)?;
            self.contains(Reader::Now, key)?;
        }
        self.multi_get(Reader::Now, b"")?;
        let all = Range::Prefix(Vec::new());
        self.scan(Reader::Now, &all, &[Turn::Back], state.len() + 1, false)
    }

    /// As [`LockstepRun::excuse`], for an error of another database, which says nothing of this
    /// one.
    pub(crate) fn excuse_of_another(&mut self, error: Error, what: &str) -> Result<(), String> {
        let stopped = self.model.stopped;
        let outcome = self.excuse(error, what);
        self.model.stopped = stopped;
        outcome
    }

    /// Accepts an error if a fault was injected and its kind is right.
    pub(crate) fn excuse(&mut self, error: Error, what: &str) -> Result<(), String> {
        self.coverage.errors += 1;
        if is_stop(&error) {
            self.coverage.stops += u64::from(!self.model.stopped);
            self.model.stopped = true;
        }
        let kind_is_right = matches!(error, Error::Io { .. } | Error::Stopped { .. });
        if kind_is_right && self.world.is_troubled() { Ok(()) } else { Err(format!("{what} failed: {error}")) }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at operation {} (line {}): {}", self.operation, self.operation + 2, self.what)
    }
}

/// Checks that an idle tree is within its bound on space amplification, if nothing has been flushed
/// since it was waited for.
fn check_space(before: Option<Stats>, after: Option<Stats>) -> Result<(), String> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    let worst = after.space_amplification_worst;
    let Some(most) = after.space_amplification_max.filter(|most| worst > *most) else { return Ok(()) };
    let nothing_came = before.flushes == after.flushes && after.jobs.is_empty();
    if nothing_came { Err(format!("a space amplification of {worst}, bound to {most}, at rest")) } else { Ok(()) }
}
