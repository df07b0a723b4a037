//! `copy`: files of an open database are copied one after the other in a random order, as a backup
//! that knows nothing of databases would, while threads write; and checkpoints are made.
//!
//! * A **checkpoint** opens, and holds a prefix of each writer's commits with all that was
//!   acknowledged before the call.
//! * A **copy** promises nothing, but must not lie: it is refused, or a read gives an error, or
//!   what it holds was written. Whether that is a prefix of the commits is counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tamarack::{Db, Options};
use tamarack_testing::Random;

use crate::child::carry_out;
use crate::design::Design;
use crate::disturb::disturb;
use crate::prefix::matching;
use crate::run::{Outcome, Run};
use crate::stream::{Content, Stream};
use crate::writers::Writers;

/// Copies and checkpoints of one database.
const COPIES: u64 = 30;

/// Runs the command.
pub(crate) fn run(run: Run) -> ExitCode {
    run.rounds(one_database)
}

/// How far a writer has come.
#[derive(Default)]
struct Pace {
    begun: AtomicU64,
    acked: AtomicU64,
}

fn one_database(run: &mut Run, dir: &Path) -> Outcome {
    let mut random = Random::new(run.seed());
    let design = Design::random(&mut random);
    let db = design.options().open(dir.join("db")).map_err(|error| format!("open: {error}; {design}"))?;
    let writers = Writers::random(run.seed(), &mut random, &[0, 20]);
    let paces: Vec<Pace> = writers.streams.iter().map(|_| Pace::default()).collect();
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let (db, paces, is_over) = (&db, &paces, &is_over);
        let working: Vec<_> = (writers.streams.iter().zip(paces))
            .map(|(stream, pace)| scope.spawn(move || write(db, stream, pace, is_over)))
            .collect();
        let mut operator_random = Random::new(random.next());
        let operator = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                disturb(db, &mut operator_random).map_err(|error| format!("operator: {error}"))?;
            }
            Ok::<(), String>(())
        });
        let copied = copies(run, dir, db, &writers, paces, &mut random);
        is_over.store(true, Ordering::Relaxed);
        for thread in working.into_iter().chain([operator]) {
            thread.join().expect("threads do not panic")?;
        }
        copied
    });
    outcome.map_err(|stop| stop.within(&design.to_string()))?;
    run.add("databases", 1);
    Ok(())
}

/// Carries out a stream until the copies are made.
fn write(db: &Db, stream: &Stream, pace: &Pace, is_over: &AtomicBool) -> Result<(), String> {
    for number in 1.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        pace.begun.store(number, Ordering::SeqCst);
        carry_out(db, &stream.commit(number)).map_err(|error| format!("write: {error}"))?;
        pace.acked.store(number, Ordering::SeqCst);
    }
    Ok(())
}

fn copies(run: &mut Run, dir: &Path, db: &Db, writers: &Writers, paces: &[Pace], random: &mut Random) -> Outcome {
    let read = |pick: fn(&Pace) -> &AtomicU64| -> Vec<u64> {
        paces.iter().map(|pace| pick(pace).load(Ordering::SeqCst)).collect()
    };
    for number in 0..COPIES {
        let to = dir.join(format!("copy-{number}"));
        let options = Design::random(random).options();
        if random.one_in(3) {
            let acked = read(|pace| &pace.acked);
            db.checkpoint(&to).map_err(|error| format!("checkpoint: {error}"))?;
            let begun = read(|pace| &pace.begun);
            judge_checkpoint(&options, &to, writers, &acked, &begun)?;
            run.add("checkpoints", 1);
        } else {
            run.add("files that were gone before they were copied", copy(&dir.join("db"), &to, random)?);
            judge_copy(run, &options, &to, writers, &read(|pace| &pace.begun))?;
            run.add("copies", 1);
        }
        fs::remove_dir_all(&to).map_err(|error| error.to_string())?;
        run.progress();
        if !run.has_time() && run.args.count.is_none() {
            break;
        }
    }
    Ok(())
}

fn judge_checkpoint(options: &Options, dir: &Path, writers: &Writers, acked: &[u64], begun: &[u64]) -> Outcome {
    let db = options.open(dir).map_err(|error| format!("a checkpoint is refused: {error}"))?;
    let mut writers = writers.clone();
    let found = writers.read(&db)?;
    writers.explain(&found, acked, begun)?;
    let report = db.verify(&mut |_, _| {}).map_err(|error| format!("verify of a checkpoint: {error}"))?;
    if report.is_ok() { Ok(()) } else { Err(format!("verify of a checkpoint: {:?}", report.problems))? }
}

/// Copies a directory's files in a random order; returns how many were gone meanwhile.
fn copy(from: &Path, to: &Path, random: &mut Random) -> Outcome<u64> {
    let list = || fs::read_dir(from)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut files: BTreeMap<u64, PathBuf> = BTreeMap::new();
    for path in list().map_err(|error| error.to_string())? {
        files.insert(random.next(), path);
    }
    fs::create_dir(to).map_err(|error| error.to_string())?;
    let mut gone = 0;
    let pause = random.below(10_000);
    for path in files.values() {
        // A backup of large files takes long.
        std::thread::sleep(Duration::from_micros(random.below(pause + 1)));
        match fs::copy(path, to.join(path.file_name().expect("a file has a name"))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => gone += 1,
            Err(error) => Err(format!("{}: {error}", path.display()))?,
            Ok(_) => {}
        }
    }
    Ok(gone)
}

fn judge_copy(run: &mut Run, options: &Options, dir: &Path, writers: &Writers, begun: &[u64]) -> Outcome {
    let db = match options.open(dir) {
        Ok(db) => db,
        Err(error) if error.to_string().len() < 20 => Err(format!("no clear error: {error}"))?,
        Err(_) => return count(run, "copies that are refused"),
    };
    let Ok(found) = writers.try_read(&db) else { return count(run, "copies with errors of reading") };
    let found = found?;
    for (stream, (content, begun)) in writers.streams.iter().zip(found.iter().zip(begun)) {
        if let Some((key, value)) = content.iter().find(|(key, value)| !stream.wrote(key, value, *begun)) {
            Err(format!("a copy has an invented value at {}: {}", key.escape_ascii(), value.escape_ascii()))?;
        }
    }
    let is_prefix = |(stream, (content, begun)): (&Stream, (&Content, &u64))| {
        matching(stream, &mut Content::new(), 0, *begun, content).is_ok()
    };
    let all = writers.streams.iter().zip(found.iter().zip(begun)).all(is_prefix);
    count(run, if all { "copies with a prefix of each writer" } else { "copies with something else" })
}

fn count(run: &mut Run, name: &str) -> Outcome {
    run.add(name, 1);
    Ok(())
}
