//! `kill`: processes that are killed with SIGKILL at a random moment, and what their database then
//! holds.
//!
//! ```text
//! child  ──open──writes, flushes, …──✗ SIGKILL     told: acknowledged commits
//! parent                              └─► (verify) ─► open ─► scan ─► verify ─► next child
//! ```
//!
//! A kill of a process loses nothing that it has acknowledged, at any durability. So each writer's
//! content must be that of its acknowledged commits, or of one more that was in flight. Each child
//! and each check opens the database with another random design; a third of the kills comes early,
//! while the child recovers what the one before it left.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tamarack::{Db, Error, Options};
use tamarack_testing::Random;

use crate::child::{Storage, Task};
use crate::design::Design;
use crate::run::{Outcome, Run};
use crate::told::{Running, Told};
use crate::writers::Writers;

/// Kills of one database, before the next one begins.
const KILLS: u64 = 12;

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    run.rounds(one_database)
}

fn one_database(run: &mut Run, dir: &Path) -> Outcome {
    let mut random = Random::new(run.seed());
    let mut writers = Writers::random(run.seed(), &mut random, &[0, 3, 20]);
    for _ in 0..KILLS {
        let longest = if random.one_in(3) { 40_000 } else { 500_000 };
        let delay = Duration::from_micros(random.below(longest));
        let told = killed(run, dir, &writers, random.next(), delay)?;
        check(run, dir, &mut writers, &told, &mut random)?;
        run.progress();
        if !run.has_time() {
            break;
        }
    }
    run.add("databases", 1);
    Ok(())
}

/// Starts a child, kills it after `delay`, and returns what it told.
pub(crate) fn killed(run: &mut Run, dir: &Path, writers: &Writers, seed: u64, delay: Duration) -> Outcome<Told> {
    let task = Task {
        design_seed: seed,
        operator_seed: seed ^ 1,
        streams: writers.streams.clone(),
        from: writers.reached.clone(),
        storage: Storage::Works,
        is_small_disk: false,
    };
    let mut child = Running::start(dir, &dir.join("stderr"), &task)?;
    std::thread::sleep(delay);
    child.kill()?;
    let (status, told) = child.wait()?;
    if !told.wrong.is_empty() || !told.errors.is_empty() || status.code().is_some() {
        let errors = fs::read_to_string(dir.join("stderr")).unwrap_or_default();
        let design = Design::random(&mut Random::new(seed));
        Err(format!("a child ended by itself, {status}: {:?} {:?} {errors} {design}", told.wrong, told.errors))?;
    }
    run.add("kills", 1);
    let acked: usize = told.acks.iter().map(Vec::len).sum();
    run.add("commits acknowledged", acked as u64);
    run.add("of these synced", told.acks.iter().flatten().filter(|ack| ack.is_synced).count() as u64);
    run.add("other calls", told.calls);
    run.add("kills before opening ended", u64::from(!told.is_open));
    Ok(told)
}

/// Checks what a kill left, and the last checkpoint that was complete.
pub(crate) fn check(run: &mut Run, dir: &Path, writers: &mut Writers, told: &Told, random: &mut Random) -> Outcome {
    let db_dir = dir.join("db");
    let acked: Vec<u64> = (0..told.from.len()).map(|writer| told.acked(writer)).collect();
    let design = Design::random(random);
    let options = design.options();
    let before = writers.clone();
    if random.one_in(3) {
        match options.verify(&db_dir, &mut |_, _| {}) {
            Ok(report) if report.is_ok() => run.add("torn ends of files", report.torn.len() as u64),
            Ok(report) => Err(format!("verify before opening: {:?}", report.problems))?,
            // Killed before the database was made.
            Err(Error::NotFound { .. }) if acked.iter().all(|count| *count == 0) => {}
            Err(error) => Err(format!("verify before opening: {error}"))?,
        }
    }
    let db = options.open(&db_dir).map_err(|error| format!("open: {error}; {design}"))?;
    run.add("entries recovered from the WAL", db.recovery().entries_replayed);
    let found = writers.read(&db)?;
    let prefixes = writers.check(&found, told, &acked)?;
    let in_flight = prefixes.iter().zip(&acked).filter(|(prefix, acked)| prefix.least > **acked).count();
    run.add("commits in flight that survived", in_flight as u64);
    run.add("entries compared", found.iter().map(|content| content.len() as u64).sum());
    look_again(&db, writers, random)?;
    let report = db.verify(&mut |_, _| {}).map_err(|error| format!("verify: {error}"))?;
    if !report.is_ok() {
        Err(format!("verify: {:?}", report.problems))?;
    }
    // Some databases are closed, the others just dropped, as by another end of the process.
    if random.one_in(2) {
        db.close().map_err(|error| format!("close: {error}"))?;
    } else {
        drop(db);
    }
    check_checkpoints(run, dir, before, told, &options)
}

/// Compares some lookups and a scan in the other direction with what the first scan found.
fn look_again(db: &Db, writers: &Writers, random: &mut Random) -> Outcome {
    for (stream, content) in writers.streams.iter().zip(&writers.contents) {
        for _ in 0..50 {
            let key = stream.key(random.below(stream.keys));
            let found = db.get(&key).map_err(|error| format!("get: {error}"))?;
            if found.as_deref() != content.get(&key).map(Vec::as_slice) {
                Err(format!("get of {} differs from the scan", key.escape_ascii()))?;
            }
        }
    }
    let all: usize = writers.contents.iter().map(std::collections::BTreeMap::len).sum();
    let mut count = 0;
    for entry in db.scan(..).rev() {
        entry.map_err(|error| format!("reverse scan: {error}"))?;
        count += 1;
    }
    if count != all {
        Err(format!("{count} entries in a reverse scan, {all} in the other"))?;
    }
    Ok(())
}

/// The last checkpoint that was complete holds a prefix with all that was acknowledged before it
/// was begun. The directories of all of them are removed.
fn check_checkpoints(run: &mut Run, dir: &Path, mut before: Writers, told: &Told, options: &Options) -> Outcome {
    if let Some(checkpoint) = told.checkpoints.last() {
        let count = told.from.len();
        let required: Vec<u64> = (0..count).map(|writer| told.acked_before(writer, checkpoint.begin)).collect();
        let most: Vec<u64> = (0..count).map(|writer| told.begun_before(writer, checkpoint.end)).collect();
        let db = options.open(dir.join(&checkpoint.name)).map_err(|error| format!("{}: {error}", checkpoint.name))?;
        let found = before.read(&db)?;
        let prefixes = before.explain(&found, &required, &most)?;
        crate::writers::check_order(&prefixes, told)?;
        run.add("checkpoints compared", 1);
    }
    for entry in fs::read_dir(dir).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("checkpoint-")) {
            fs::remove_dir_all(&path).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
