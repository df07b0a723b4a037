//! Storage failures: every call of several workloads, reading and changing ones, fails in every way
//! it can, once, and from then on for ever.
//!
//! Checked in each run:
//!
//! * No panic, and no wrong answer: what a lookup or a scan says, if it is no error, is what the
//!   model says.
//! * Every error names what was being done and the file of the call that failed, and says what to
//!   do.
//! * After a failed sync every later write is answered with `Stopped`, unless it lacked space and
//!   what it was to make durable can be thrown away. After anything else, a full disk too, the same
//!   handle can write again once the fault is gone.
//! * When all is well again the database opens, after the end of the process as well as after a
//!   loss of power, and holds a prefix of the commits with all that was promised: a commit whose
//!   sync failed may be there, one that was refused is not. What was recovered is durable.
//!
//! Writes that are lost, or land elsewhere, while the device says that all is well, are damage
//! rather than failure. Then an error that names a file may come from anywhere, but still no answer
//! may be wrong, with one exception that no log can notice: if the last record itself was lost,
//! with no later one to say that it was durable, it is simply not there.
//!
//! The same holds while the controller changes the design at random. Then, after each step and on
//! each image, what is recorded of changes has led to the design that there is
//! (`recorded_designs`).
//!
//! `TAMARACK_EXHAUSTIVE=1` adds many more drawn workloads; a failure prints everything that is
//! needed to repeat it.

mod full;
mod session;
mod stories;
mod workload;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tamarack::mistake::{self, Mistake};
use tamarack::{Durability, Options, step};
use tamarack_env::sim::{Call, CallKind, Crash, Failure, Fault};
use tamarack_env::{SimEnv, Step};

use crate::answers::Answers;
use crate::history::History;
use crate::message;
use session::{Checked, DIR, Expect, Session, options, options_of, probe};
use workload::{INTERVAL, Op, Workload};

/// Every simulated machine is made from it.
const SEED: u64 = 1;

/// One way in which one call of a workload fails.
struct Trial<'a> {
    workload: &'a Workload,
    call: Call,
    failure: Failure,
    forever: bool,
    /// Tables are read past the page cache.
    direct: bool,
    /// A step that the database forgets, for the test of the tests.
    omitted: Option<Step>,
}

#[test]
fn every_call_of_rotations_and_flushes() {
    try_all(&[workload::rotation()]);
}

#[test]
fn every_call_of_all_durability_levels() {
    try_all(&[workload::durability()]);
}

#[test]
fn every_call_beneath_snapshots() {
    try_all(&[workload::snapshots()]);
}

#[test]
fn every_call_of_compactions() {
    try_all(&[workload::merging()]);
}

#[test]
fn every_call_of_a_tree_that_takes_shapes() {
    try_all(&[workload::shaping()]);
}

#[test]
fn every_call_of_checkpoints() {
    try_all(&[workload::checkpoints()]);
}

#[test]
fn every_call_of_closing_and_opening() {
    try_all(&[workload::reopening()]);
}

#[test]
fn every_call_of_rolled_manifests() {
    try_all(&[workload::rolling()]);
}

#[test]
fn every_call_of_range_deletes() {
    try_all(&[workload::range_deletes()]);
}

#[test]
fn every_call_of_drawn_workloads() {
    let count = if exhaustive() { 200 } else { 4 };
    try_all(&(0..count).map(workload::drawn).collect::<Vec<_>>());
}

/// A change of the design that fails leaves a valid design, and is recorded only if it was made.
#[test]
fn every_call_of_flushes_with_designs_at_random() {
    try_all(&[workload::rotation().at_random()]);
}

#[test]
fn every_call_of_shapes_with_designs_at_random() {
    try_all(&[workload::shaping().at_random()]);
}

#[test]
fn every_call_of_opening_with_designs_at_random() {
    try_all(&[workload::reopening().at_random()]);
}

/// A decision that stays recorded although its edit failed would be stored with the next one.
#[test]
fn a_decision_that_is_kept_though_undone_is_noticed() {
    is_noticed(Mistake::DecisionKeptThoughUndone);
}

/// Memtables would have a size that no design has.
#[test]
fn memtables_that_are_resized_early_are_noticed() {
    is_noticed(Mistake::MemtableResizedEarly);
}

/// Shows that these tests notice a mistake of the engine.
fn is_noticed(mistake: Mistake) {
    let workload = workload::reopening().at_random();
    let noticed = mistake::with(mistake, || Trial::all(&workload, None).find_map(|trial| trial.violation()));
    println!("{mistake:?}: {}", noticed.unwrap_or_else(|| panic!("nobody noticed {mistake:?}")));
}

/// The disk is full at each number of pages that the workload ever takes, and is freed again in the
/// middle or at the end: then the same handle works as if nothing had been.
#[test]
fn a_disk_that_is_full_and_freed_again() {
    let count = if exhaustive() { 200 } else { 4 };
    for workload in workload::scripts().into_iter().chain((0..count).map(workload::drawn)) {
        let (mut runs, mut refused) = (0, 0);
        for pages in 0..=pages_taken(&workload) {
            for freed_at in [workload.ops.len() / 3, workload.ops.len() * 2 / 3, workload.ops.len()] {
                let outcome = fill(&workload, pages, freed_at);
                refused += outcome.unwrap_or_else(|why| {
                    panic!("{}, {pages} pages, freed before operation {freed_at}: {why}", workload.name)
                });
                runs += 1;
            }
        }
        println!("{}: {runs} runs, {refused} with an operation that was refused", workload.name);
        assert!(refused > 5, "the disk was seldom too small");
    }
}

/// The most pages that the workload takes at any time.
fn pages_taken(workload: &Workload) -> u64 {
    let mut session = Session::new(SimEnv::new(SEED), false, Expect::NoError, None).of(workload);
    session.open().expect("nothing fails");
    let mut most = session.env.used_bytes();
    for op in &workload.ops {
        session.step(op).expect("nothing fails");
        most = most.max(session.env.used_bytes());
    }
    most / PAGE_BYTES
}

/// Runs the workload on a disk of so many pages; 1 if anything was refused.
fn fill(workload: &Workload, pages: u64, freed_at: usize) -> Result<u64, String> {
    let env = SimEnv::new(SEED);
    env.set_capacity(Some(pages * PAGE_BYTES));
    let mut session = Session::new(env.clone(), freed_at % 2 == 1, Expect::Full, None);
    session.open()?;
    for (at, op) in workload.ops.iter().enumerate() {
        if at == freed_at {
            free(&mut session);
        }
        session.step(op).map_err(|why| format!("operation {at}, {op:?}: {why}"))?;
    }
    let refused = u64::from(session.refused.get() > 0);
    let (image, history) = (env.image(Crash::LoseAll), session.history.clone());
    image.set_capacity(None);
    let db = options(&image, false).open(DIR).map_err(|error| format!("after a loss of power: {error}"))?;
    history.explains(&Answers::of(&db, &history.keys()), history.durable())?;
    free(&mut session);
    session.check_handle()?;
    Ok(refused)
}

/// Frees the disk, and gives the flush the time after which it tries again.
fn free(session: &mut Session) {
    session.env.set_capacity(None);
    session.expect_no_errors();
    session.wait(Duration::from_secs(1));
}

/// Syncs of files that nobody has built on.
const OF_NEW_FILES: [Step; 4] = [step::TABLE_SYNC, step::WAL_SYNC_HEADER, step::MANIFEST_SYNC_BASE, step::CURRENT_SYNC];

/// What the simulator counts space in.
const PAGE_BYTES: u64 = 4096;

/// Shows that these tests notice when a step is left out that only failures make necessary.
#[test]
fn leaving_out_a_step_is_noticed() {
    let workloads = [workload::durability(), workload::rotation(), workload::snapshots(), workload::reopening()];
    for step in [
        step::DATABASE_SYNC_PARENT,
        step::WAL_CUT,
        step::WAL_SYNC,
        step::WAL_RECOVERY_WRITE,
        step::WAL_RECOVERY_SYNC,
        step::TABLE_SYNC,
        step::MANIFEST_CUT_APPEND,
        step::MANIFEST_SYNC,
        step::MANIFEST_RECOVERY_WRITE,
        step::MANIFEST_RECOVERY_SYNC,
    ] {
        let noticed =
            workloads.iter().find_map(|workload| Trial::all(workload, Some(step)).find_map(|t| t.violation()));
        let noticed = noticed.unwrap_or_else(|| panic!("nobody noticed that {:?} was left out", step.0));
        println!("without {:?}: {noticed}", step.0);
    }
}

fn exhaustive() -> bool {
    std::env::var_os("TAMARACK_EXHAUSTIVE").is_some()
}

/// Tries every failure at every call, and fails with a list of what must not happen.
fn try_all(workloads: &[Workload]) {
    for workload in workloads {
        let mut trials = 0;
        let violations: Vec<String> =
            Trial::all(workload, None).inspect(|_| trials += 1).filter_map(|trial| trial.violation()).collect();
        println!("{}: {trials} trials", workload.name);
        let shown = violations.iter().take(20).map(|violation| format!("\n * {violation}")).collect::<String>();
        assert!(violations.is_empty(), "{} of {trials} trials show what must not happen:{shown}", violations.len());
    }
}

/// The calls that the workload makes if nothing fails; with direct reads they are others where a
/// table is read.
fn calls_of(workload: &Workload, direct: bool) -> Vec<Call> {
    let mut session = Session::new(SimEnv::new(SEED), direct, Expect::NoError, None).of(workload);
    session.env.start_recording();
    let outcome =
        workload.planted(|| session.open().and_then(|()| workload.ops.iter().try_for_each(|op| session.step(op))));
    outcome.unwrap_or_else(|why| panic!("{} goes wrong with no fault at all: {why}", workload.name));
    if workload.is_at_random {
        let changes = session.changes;
        assert!(changes as usize >= workload.ops.len() / 5, "{}: only {changes} changes of the design", workload.name);
    }
    session.env.stop_recording()
}

/// The ways in which the call can fail, and whether for ever. Writes that lie are tried once each.
fn failures_of(call: &Call) -> Vec<(Failure, bool)> {
    let mut failures = Vec::new();
    for failure in Failure::ALL.into_iter().filter(|failure| failure.fits(call)) {
        failures.push((failure.clone(), false));
        if failure != Failure::LostWrite && (failure != Failure::StorageFull || call.kind.takes_space()) {
            failures.push((failure, true));
        }
    }
    if call.kind == CallKind::Write {
        let elsewhere = [None, Some("CURRENT"), Some("0000000001.manifest"), Some("0000000001.wal")];
        for name in elsewhere {
            let path = name.map(|name| std::path::Path::new(DIR).join(name));
            failures.push((Failure::MisdirectedWrite { path, offset: 0 }, false));
        }
    }
    failures
}

impl fmt::Display for Trial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, call, failure, forever, direct, .. } = self;
        let how_long = if *forever { "for ever" } else { "once" };
        let step = call.step.map_or("", |step| step.0);
        write!(
            f,
            "{}{}, call {} ({:?} {} {step:?}), {failure:?} {how_long}",
            workload.name,
            if *direct { ", direct reads" } else { "" },
            call.number,
            call.kind,
            call.path.display()
        )
    }
}

impl<'a> Trial<'a> {
    /// Every failure at every call of the workload.
    fn all(workload: &'a Workload, omitted: Option<Step>) -> impl Iterator<Item = Self> {
        let calls = |direct| calls_of(workload, direct).into_iter().map(move |call| (direct, call));
        [false, true].into_iter().flat_map(calls).flat_map(move |(direct, call)| {
            let failures = failures_of(&call).into_iter().enumerate();
            // Every call in both modes, though not with every failure.
            let number = call.number;
            let failures = failures.filter(move |(index, _)| ((number + *index as u64) % 2 == 1) == direct);
            failures.map(move |(_, (failure, forever))| Self {
                workload,
                call: call.clone(),
                failure,
                forever,
                direct,
                omitted,
            })
        })
    }

    /// Runs it; what happened that must not, a panic included.
    fn violation(&self) -> Option<String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.workload.planted(|| self.run())));
        let outcome = outcome.unwrap_or_else(|panic| Err(format!("a panic: {}", panic_text(&*panic))));
        outcome.err().map(|why| format!("{self}: {why}"))
    }

    fn run(&self) -> Checked {
        let env = SimEnv::new(SEED);
        self.forget(&env);
        env.inject(self.fault());
        let struck = (!self.forever).then(|| self.call.path.to_path_buf());
        let mut session = Session::new(env, self.direct, self.expectation(), struck).of(self.workload);
        session.open()?;
        for op in &self.workload.ops {
            let shown = session.env.faults_shown();
            session.step(op).map_err(|why| format!("{op:?}: {why}"))?;
            let kept_handle = !matches!(op, Op::Reopen | Op::DropAndReopen);
            if session.env.faults_shown() > shown && self.must_stop() && kept_handle {
                session.expect_stopped();
            }
            if matches!(op, Op::Wait(time) if *time >= INTERVAL) && session.env.faults_shown() == shown {
                session.interval_has_passed();
            }
        }
        assert!(session.env.faults_shown() > 0, "the workload is not the same each time");
        self.check_after(session)
    }

    /// Switches off the step that is left out.
    fn forget(&self, env: &SimEnv) {
        if let Some(step) = self.omitted {
            env.omit(step);
        }
    }

    fn fault(&self) -> Fault {
        let fault = Fault::new(self.failure.clone());
        match (self.forever, &self.failure) {
            (false, _) => fault.at_call(self.call.number),
            // A disk that is full refuses what takes space; it still syncs, cuts and removes.
            (true, Failure::StorageFull) => {
                fault.from_call(self.call.number).matching(|call| call.kind.takes_space()).forever()
            }
            (true, _) => fault.from_call(self.call.number).forever(),
        }
    }

    fn expectation(&self) -> Expect {
        if self.is_damage() { Expect::Damage } else { Expect::Errors }
    }

    fn is_damage(&self) -> bool {
        matches!(self.failure, Failure::LostWrite | Failure::MisdirectedWrite { .. })
    }

    /// What fails is a sync of the database, surely: not of a checkpoint, whose files are none of
    /// it; and not one that only lacked space, of a file that another can take the place of.
    fn must_stop(&self) -> bool {
        if !self.call.path.starts_with(DIR) {
            return false;
        }
        if self.failure == Failure::StorageFull && self.call.step.is_some_and(|step| OF_NEW_FILES.contains(&step)) {
            return false;
        }
        let is_sync = matches!(self.call.kind, CallKind::Sync | CallKind::SyncDir);
        match self.failure {
            Failure::SyncKeepsPages | Failure::SyncDropsPages | Failure::SyncKeepsLengthOnly => true,
            _ => is_sync && !self.forever,
        }
    }

    /// Whether writing may have ended for the handle. A failure for ever strikes syncs, too, if it
    /// can.
    fn may_stop(&self) -> bool {
        let strikes_syncs = matches!(
            self.failure,
            Failure::Io
                | Failure::ErrorAfterEffect
                | Failure::SyncKeepsPages
                | Failure::SyncDropsPages
                | Failure::SyncKeepsLengthOnly
        );
        self.must_stop() || self.forever && strikes_syncs || self.is_damage()
    }

    /// All is well again: the machine is looked at after a loss of power, after the end of the
    /// process, and as it is.
    fn check_after(&self, mut session: Session) -> Checked {
        let history = session.history.clone();
        let env = session.env.clone();
        let durable = history.durable();
        // A failed sync that throws pages away takes with them what only the operating system had.
        let kept = if self.failure == Failure::SyncKeepsLengthOnly { durable } else { history.acknowledged() };
        for crash in [Crash::LoseAll, Crash::draw(self.call.number, env.unsynced_changes())] {
            self.check_image(env.image(crash), &history, durable, session.changes)
                .map_err(|why| format!("{crash:?}: {why}"))?;
            session.check_checkpoints(&env.image(crash)).map_err(|why| format!("{crash:?}: {why}"))?;
        }
        self.check_image(env.process_image(), &history, kept, session.changes)
            .map_err(|why| format!("process ended: {why}"))?;
        session.check_checkpoints(&env.process_image()).map_err(|why| format!("process ended: {why}"))?;
        env.clear_faults();
        session.wait(Duration::from_secs(1));
        if !self.may_stop() {
            session.check_handle()?;
        }
        Ok(())
    }

    /// Opens the database on `env` and expects at least the first `least` commits and `changes` of
    /// the design; then writes, loses power, and looks again.
    fn check_image(&self, env: SimEnv, history: &History, least: usize, changes: u64) -> Checked {
        self.forget(&env);
        let db = match self.options(&env).open(DIR) {
            Ok(db) => db,
            Err(error) if self.is_damage() => return message::complaint(&error, None).map_or(Ok(()), Err),
            Err(error) => return Err(format!("the database does not open again: {error}")),
        };
        let mut history = history.clone();
        let answers = Answers::of(&db, &history.keys());
        if let Some(error) = answers.errors().next() {
            let complaint = if self.is_damage() { message::complaint(error, None) } else { Some(error.to_string()) };
            let commits = history.explains(&answers, 0).map(|_| ());
            return complaint.map_or(commits, Err);
        }
        let commits = history.explains(&answers, if self.may_lose() { 0 } else { least })?;
        let report = db.verify(&mut |_, _| {}).map_err(|error| format!("verify: {error}"))?;
        if !report.is_ok() && !self.is_damage() {
            return Err(format!("verify: {:?}", report.problems));
        }
        history.adopt(commits);
        let mut session = Session::new(env.clone(), self.direct, self.expectation(), None).of(self.workload);
        session.db = Some(db);
        session.history = history;
        session.changes = changes;
        session.step(&Op::Write(vec![probe(0)], Durability::Sync)).map_err(|why| format!("a write: {why}"))?;
        let image = env.image(Crash::LoseAll);
        let db = match self.options(&image).open(DIR) {
            Err(error) if self.is_damage() => return message::complaint(&error, None).map_or(Ok(()), Err),
            db => db.map_err(|error| format!("what was recovered does not survive a loss of power: {error}"))?,
        };
        let answers = Answers::of(&db, &session.history.keys());
        let least = if self.may_lose() { 0 } else { session.history.durable() };
        let explained = session.history.explains(&answers, least);
        explained.map(|_| ()).map_err(|why| format!("what was recovered does not survive a loss of power: {why}"))
    }

    fn options(&self, env: &SimEnv) -> Options {
        options_of(self.workload.is_at_random, env, self.direct)
    }

    /// Whether a record of the WAL was lost with nothing to show it.
    fn may_lose(&self) -> bool {
        self.is_damage()
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}
