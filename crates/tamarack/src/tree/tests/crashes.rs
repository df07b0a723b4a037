//! Crashes and failing calls at every step of a manifest's life, on the simulator.
//!
//! A history of commits, with rolls in between, runs on a simulated machine. Before every call that
//! changes storage, images of what a crash might leave at that moment are taken, and afterwards
//! each is opened. What recovery finds must be a state the history went through, no older than the
//! last commit that had returned; must still be there after another crash right away; and must take
//! further commits. The same is asked after every call that can fail has failed, in every way it
//! can.
//!
//! The tests of the tests leave out one sync at a time, and must then find something.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::sim::{CallKind, Crash, Failure, Fault};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Random, SimEnv, Step};

use super::model::{Model, no_files};
use crate::error::Error;
use crate::format::edit::{Change, Edit};
use crate::journal::Tail;
use crate::step;
use crate::tree::manifest::{Manifest, Recovered};

const COMMITS: u64 = 24;
const IMAGES_PER_CALL: u64 = 6;

fn dir() -> &'static Path {
    Path::new("/db")
}

fn shared(sim: &SimEnv) -> Arc<dyn Env> {
    Arc::new(sim.clone())
}

fn new_machine(seed: u64) -> SimEnv {
    let sim = SimEnv::new(seed);
    sim.create_dir(dir(), step::DATABASE_CREATE).expect("no faults yet");
    sim.sync_dir(Path::new("/"), step::DATABASE_SYNC_PARENT).expect("no faults yet");
    sim
}

/// The states of a history by their edits' numbers, and how far it got.
#[derive(Debug)]
struct History {
    states: Mutex<BTreeMap<u64, Edit>>,
    /// The last edit whose commit has returned `Ok`; 0 before there is a database.
    acknowledged: AtomicU64,
}

impl History {
    fn new() -> Self {
        Self { states: Mutex::new(Rank::Test, BTreeMap::new()), acknowledged: AtomicU64::new(0) }
    }

    /// Makes a database and commits to it, up to the first error.
    fn run(&self, sim: &SimEnv, seed: u64) -> Result<(), Error> {
        let mut manifest = Manifest::create(&shared(sim), dir(), no_files())?;
        manifest.roll_from(1200);
        self.acknowledge(&manifest);
        let (mut model, random) = (Model::new(), Random::new(seed));
        for _ in 0..COMMITS {
            let changes = model.change(&random);
            if let Err(error) = manifest.commit(changes) {
                let next = manifest.commit(Vec::new());
                match error {
                    Error::Stopped { .. } => {
                        assert!(matches!(next, Err(Error::Stopped { .. })), "after {error}: {next:?}")
                    }
                    _ => assert!(next.is_ok(), "after {error}, which changed nothing: {next:?}"),
                }
                if next.is_ok() {
                    self.acknowledge(&manifest);
                }
                return Err(error);
            }
            self.acknowledge(&manifest);
        }
        Ok(())
    }

    fn acknowledge(&self, manifest: &Manifest) {
        let version = manifest.version();
        self.states.lock().insert(version.edit_number().0, version.state_edit());
        self.acknowledged.store(version.edit_number().0, Ordering::Relaxed);
    }

    /// Opens what is there and checks that it is a state of the history, no older than edit
    /// `acknowledged`; then crashes, and looks again; then commits, crashes, and looks once
    /// more.
    fn check(&self, sim: &SimEnv, acknowledged: u64, omitted: Option<Step>) -> Result<(), String> {
        if let Some(step) = omitted {
            sim.omit(step);
        }
        let found = self.recover(sim, acknowledged)?;
        let again = found.as_ref().map_or(0, |manifest| manifest.version().edit_number().0);
        self.recover(&sim.image(Crash::LoseAll), again)?;
        let manifest = match found {
            Some(manifest) => manifest,
            None => Manifest::create(&shared(sim), dir(), no_files()).map_err(|error| error.to_string())?,
        };
        let wal_durable = Change::WalDurable { position: 1 << 50 };
        let committed = manifest.commit(vec![wal_durable]).map_err(|error| error.to_string())?;
        let image = sim.image(Crash::LoseAll);
        match recover(&image)? {
            Some(last) if last.version().state_edit() == committed.state_edit() => Ok(()),
            other => Err(format!("lost the commit after recovery: {other:?}")),
        }
    }

    fn recover(&self, sim: &SimEnv, acknowledged: u64) -> Result<Option<Manifest>, String> {
        let manifest = recover(sim)?;
        let number = manifest.as_ref().map_or(0, |manifest| manifest.version().edit_number().0);
        if number < acknowledged {
            return Err(format!("edit {acknowledged} was acknowledged, but the last one is {number}"));
        }
        if let (Some(manifest), Some(state)) = (&manifest, self.states.lock().get(&number))
            && manifest.version().state_edit() != *state
        {
            return Err(format!("the state after edit {number} is another"));
        }
        Ok(manifest)
    }
}

fn recover(sim: &SimEnv) -> Result<Option<Manifest>, String> {
    let found = Manifest::recover(&shared(sim), dir(), Tail::MayBeTorn, no_files());
    found.map(|found| found.map(|Recovered { manifest, .. }| manifest)).map_err(|error| error.to_string())
}

/// An image, how far the history had got, and the call before which it was taken.
type Image = (SimEnv, u64, Step);

/// Runs the history and takes images before every call.
fn images(seed: u64, omitted: Option<Step>) -> (Arc<History>, Vec<Image>) {
    let (sim, history) = (new_machine(seed), Arc::new(History::new()));
    if let Some(step) = omitted {
        sim.omit(step);
    }
    let images: Arc<Mutex<Vec<Image>>> = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let (sink, progress, random) = (images.clone(), history.clone(), Random::new(seed));
    sim.set_hook(move |moment| {
        let step = moment.call.step.expect("calls that change storage have a step");
        let acknowledged = progress.acknowledged.load(Ordering::Relaxed);
        let mut images = sink.lock();
        for _ in 0..IMAGES_PER_CALL {
            let crash = Crash::draw(random.next(), moment.unsynced_changes());
            images.push((moment.image(crash), acknowledged, step));
        }
        images.push((moment.process_image(), acknowledged, step));
    });
    history.run(&sim, seed).expect("no faults");
    sim.clear_hook();
    let taken = std::mem::take(&mut *images.lock());
    (history, taken)
}

/// Checks all images; the number of them, or the first trouble.
fn crash_everywhere(seed: u64, omitted: Option<Step>) -> Result<usize, String> {
    let (history, images) = images(seed, omitted);
    for (image, acknowledged, step) in &images {
        let check = history.check(image, *acknowledged, omitted);
        check.map_err(|trouble| format!("seed {seed}, crash before {:?}: {trouble}", step.0))?;
    }
    Ok(images.len())
}

/// Shows the promise above for crashes at every step.
#[test]
fn every_crash_leaves_a_state_that_was_committed() {
    let mut count = 0;
    for seed in 0..6 {
        count += crash_everywhere(seed, None).unwrap_or_else(|trouble| panic!("{trouble}"));
    }
    println!("{count} images");
}

/// Shows it for crashes during the recovery from a crash.
#[test]
fn a_crash_during_recovery_loses_nothing_either() {
    let (history, images) = images(7, None);
    let mut count = 0;
    for (image, acknowledged, step) in images.iter().step_by(3) {
        let inner: Arc<Mutex<Vec<SimEnv>>> = Arc::new(Mutex::new(Rank::Test, Vec::new()));
        let (sink, random) = (inner.clone(), Random::new(count));
        image.set_hook(move |moment| {
            let crash = Crash::draw(random.next(), moment.unsynced_changes());
            sink.lock().push(moment.image(crash));
        });
        recover(image).unwrap_or_else(|trouble| panic!("{step:?}: {trouble}"));
        image.clear_hook();
        for image in inner.lock().iter() {
            count += 1;
            let check = history.check(image, *acknowledged, None);
            check.unwrap_or_else(|trouble| panic!("{step:?}: {trouble}"));
        }
    }
    println!("{count} images");
}

/// Shows that the crash test finds each sync that is left out.
#[test]
fn leaving_out_a_sync_is_found() {
    for step in [
        step::MANIFEST_SYNC_BASE,
        step::MANIFEST_SYNC_DIRECTORY,
        step::MANIFEST_SYNC,
        step::MANIFEST_RECOVERY_SYNC,
        step::MANIFEST_RECOVERY_SYNC_DIRECTORY,
        step::CURRENT_SYNC,
        step::CURRENT_SYNC_DIRECTORY,
    ] {
        let found = (0..6).any(|seed| crash_everywhere(seed, Some(step)).is_err());
        assert!(found, "nobody noticed that {:?} was left out", step.0);
    }
}

/// One run in which one call fails in one way, and what it leaves behind. `None` if the fault
/// fitted no call.
fn fail_at(call: u64, failure: &Failure, omitted: Option<Step>) -> Option<Result<(), String>> {
    let (sim, history) = (new_machine(3), History::new());
    sim.inject(Fault::new(failure.clone()).at_call(call));
    let outcome = history.run(&sim, 3);
    if sim.faults_shown() == 0 {
        return None;
    }
    let acknowledged = history.acknowledged.load(Ordering::Relaxed);
    let sim = sim.kill();
    sim.clear_faults();
    let check = history.check(&sim, acknowledged, omitted);
    Some(match check {
        // A write that the device lied about is lost; but that shows.
        Err(trouble) if *failure == Failure::LostWrite && trouble.contains("damaged at byte") => Ok(()),
        check => check.map_err(|trouble| format!("{failure:?} at call {call} gave {outcome:?}, and then: {trouble}")),
    })
}

/// Shows the promise for every call of the history that fails, in every way that it can.
#[test]
fn every_failing_call_loses_nothing() {
    let sim = new_machine(3);
    History::new().run(&sim, 3).expect("no faults");
    let mut count = 0;
    for failure in &Failure::ALL {
        for call in 0..sim.calls_made() {
            if let Some(result) = fail_at(call, failure, None) {
                result.unwrap_or_else(|trouble| panic!("{trouble}"));
                count += 1;
            }
        }
    }
    println!("{count} faults");
}

/// Shows that recovery must write again what no mark says to be durable: after a sync that failed
/// and took its pages for clean, a sync alone makes nothing durable.
#[test]
fn leaving_out_the_second_write_at_recovery_is_found() {
    let sim = new_machine(3);
    History::new().run(&sim, 3).expect("no faults");
    let found = (0..sim.calls_made()).any(|call| {
        let result = fail_at(call, &Failure::SyncDropsPages, Some(step::MANIFEST_RECOVERY_WRITE));
        result.is_some_and(|result| result.is_err())
    });
    assert!(found);
}

/// Shows that a call failing during recovery is an error or does no harm, and that recovery
/// succeeds afterwards.
#[test]
fn a_failing_call_during_recovery_loses_nothing() {
    let (history, images) = images(5, None);
    for (number, (image, acknowledged, step)) in images.iter().enumerate().step_by(7) {
        let failure = &Failure::ALL[number % Failure::ALL.len()];
        if *failure == Failure::LostWrite {
            continue;
        }
        for call in 0.. {
            let sim = image.process_image();
            sim.inject(
                Fault::new(failure.clone())
                    .at_call(sim.calls_made() + call)
                    .matching(|call| call.kind != CallKind::Lock),
            );
            let outcome = recover(&sim).map(|found| found.is_some());
            if sim.faults_shown() == 0 && call > 30 {
                break;
            }
            let sim = sim.kill();
            sim.clear_faults();
            let check = history.check(&sim, *acknowledged, None);
            check.unwrap_or_else(|trouble| {
                panic!("{failure:?} at {call} of recovery after {step:?}, {outcome:?}: {trouble}")
            });
        }
    }
}
