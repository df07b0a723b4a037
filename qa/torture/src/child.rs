//! The process that is killed: writers carry out their streams on a real directory and tell each
//! acknowledged commit, beside an operator that flushes, compacts, changes the design and makes
//! checkpoints.
//!
//! What it tells, one line each, through its standard output:
//!
//! | line | means |
//! |---|---|
//! | `O` | the database is open |
//! | `A writer number begin end synced` | that commit is acknowledged, at these times |
//! | `S begin end` | `Db::sync` has returned |
//! | `C name begin end` | the checkpoint in that directory is complete |
//! | `N name` | that call of the operator has returned |
//! | `F call` | that call of the operating system was made to fail |
//! | `E what` | an error |
//! | `W what` | a wrong answer |
//!
//! Writers also compare what they read with what they wrote.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{ExitCode, exit};
use std::time::Duration;

use tamarack::{Batch, Db, Durability, Error};
use tamarack_testing::Random;

use crate::args::Args;
use crate::clock::now_ns;
use crate::design::Design;
use crate::disturb::disturb;
use crate::faults;
use crate::prefix::difference;
use crate::stream::{Commit, Content, Kind, Stream, apply, writer_of};

/// Status after a wrong answer.
const WRONG: i32 = 3;

/// Status after an error where none may be.
const ERROR: i32 = 4;

/// What a child expects of storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// No call fails, but for lack of space.
    Works,
    /// Calls may fail: an error ends the process without complaint.
    MayFail,
    /// The same, and calls of the operating system are made to fail at random.
    FailsAtRandom,
}

impl Storage {
    const ALL: [Self; 3] = [Self::Works, Self::MayFail, Self::FailsAtRandom];
}

/// What a child is told to do, as arguments of its command line.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) design_seed: u64,
    pub(crate) operator_seed: u64,
    pub(crate) streams: Vec<Stream>,
    /// How many commits of each writer the database has.
    pub(crate) from: Vec<u64>,
    pub(crate) storage: Storage,
    /// Whether the disk is small and may be full: then writes are tried again, no checkpoint takes
    /// space, and nothing is compared here, so that the process keeps nothing in memory.
    pub(crate) is_small_disk: bool,
}

impl Task {
    /// The arguments of the command line after `--`.
    pub(crate) fn words(&self) -> Vec<String> {
        let first = &self.streams[0];
        let (storage, is_small_disk) = (self.storage as u64, u64::from(self.is_small_disk));
        let numbers =
            [self.design_seed, self.operator_seed, storage, is_small_disk, first.seed, first.keys, first.synced_one_in];
        numbers.iter().chain(&self.from).map(u64::to_string).collect()
    }

    fn parse(words: &[String]) -> Option<Self> {
        let numbers: Vec<u64> = words.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [design_seed, operator_seed, storage, is_small_disk, seed, keys, synced_one_in, from @ ..] = &numbers[..]
        else {
            return None;
        };
        let stream = |writer| Stream { seed: *seed, writer, keys: *keys, synced_one_in: *synced_one_in };
        Some(Self {
            design_seed: *design_seed,
            operator_seed: *operator_seed,
            streams: (0..from.len() as u64).map(stream).collect(),
            from: from.to_vec(),
            storage: *Storage::ALL.get(*storage as usize)?,
            is_small_disk: *is_small_disk != 0,
        })
    }
}

/// Runs until it is killed, or until storage fails where it may.
pub(crate) fn run(args: &Args) -> ExitCode {
    let Some(task) = Task::parse(&args.rest) else { return ExitCode::from(2) };
    let dir = args.dir.join("db");
    let mut design = Design::random(&mut Random::new(task.design_seed));
    if task.storage == Storage::FailsAtRandom {
        design = design.with_env(faults::env(task.operator_seed, |call| tell(&format!("F {call}"))));
    }
    let db = match design.options().open(&dir) {
        Ok(db) => db,
        Err(error) => fail(task.storage, "open", &error),
    };
    tell(&"O");
    std::thread::scope(|scope| {
        let (db, task) = (&db, &task);
        for (stream, from) in task.streams.iter().zip(&task.from) {
            scope.spawn(move || write(db, stream, *from, task));
        }
        scope.spawn(move || operate(db, &args.dir, task));
    });
    ExitCode::SUCCESS
}

/// Prints one line, in one write. The process ends when nobody listens.
fn tell(line: &impl Display) {
    let line = format!("{line}\n");
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        exit(0);
    }
}

fn fail(storage: Storage, what: &str, error: &Error) -> ! {
    tell(&format!("E {what}: {}", error.to_string().replace('\n', " ")));
    exit(if storage == Storage::Works { ERROR } else { 0 });
}

fn wrong(what: &str) -> ! {
    tell(&format!("W {what}"));
    exit(WRONG);
}

/// Carries out a stream for ever.
fn write(db: &Db, stream: &Stream, from: u64, task: &Task) {
    let mut content = Content::new();
    if !task.is_small_disk {
        stream.apply(&mut content, 0, from);
    }
    let mut random = Random::new(stream.seed ^ from);
    for number in from + 1.. {
        let commit = stream.commit(number);
        let begin = now_ns();
        while let Err(error) = carry_out(db, &commit) {
            if !task.is_small_disk || !error.is_storage_full() {
                fail(task.storage, "write", &error);
            }
            tell(&"N refused");
            std::thread::sleep(Duration::from_millis(5));
        }
        let end = now_ns();
        tell(&format!("A {} {number} {begin} {end} {}", stream.writer, u8::from(commit.is_synced)));
        if task.is_small_disk {
            continue;
        }
        apply(&mut content, commit);
        let looked = match random.below(1000) {
            0 => look_at_all(db, stream, &content),
            1..50 => look_at_one(db, &stream.key(random.below(stream.keys)), &content),
            _ => Ok(()),
        };
        if let Err(error) = looked {
            fail(task.storage, "read", &error);
        }
    }
}

/// Writes a commit in its way.
///
/// # Errors
/// The call's error.
pub(crate) fn carry_out(db: &Db, commit: &Commit) -> Result<(), Error> {
    match (commit.kind, &commit.entries[..]) {
        (Kind::Ingest, entries) => {
            let mut ingest = db.ingest()?;
            for (key, value) in entries {
                ingest.put(key, value.as_ref().expect("an ingest has only puts"))?;
            }
            ingest.finish().map(drop)
        }
        (Kind::Single, [(key, Some(value))]) if !commit.is_synced => db.put(key, value),
        (Kind::Single, [(key, None)]) if !commit.is_synced => db.delete(key),
        (_, entries) => {
            let mut batch = Batch::new();
            for (key, value) in entries {
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                };
            }
            db.write_with(&batch, if commit.is_synced { Durability::Sync } else { Durability::Buffered })
        }
    }
}

fn look_at_one(db: &Db, key: &[u8], content: &Content) -> Result<(), Error> {
    let found = db.get(key)?;
    if found.as_deref() != content.get(key).map(Vec::as_slice) {
        wrong(&format!("get of {}", key.escape_ascii()));
    }
    Ok(())
}

fn look_at_all(db: &Db, stream: &Stream, content: &Content) -> Result<(), Error> {
    let mut found = Content::new();
    for entry in db.scan(..) {
        let (key, value) = entry?;
        if writer_of(&key) == Some(stream.writer) {
            found.insert(key.to_vec(), value.to_vec());
        }
    }
    if found != *content {
        wrong(&difference("scan", content, &found));
    }
    Ok(())
}

/// Disturbs the database for ever.
fn operate(db: &Db, dir: &Path, task: &Task) {
    let (random, storage) = (&mut Random::new(task.operator_seed), task.storage);
    let mut checkpoints = VecDeque::new();
    loop {
        let begin = now_ns();
        if random.one_in(25) && !task.is_small_disk {
            let name = format!("checkpoint-{begin}");
            if let Err(error) = db.checkpoint(dir.join(&name)) {
                fail(storage, "checkpoint", &error);
            }
            tell(&format!("C {name} {begin} {}", now_ns()));
            checkpoints.push_back(name);
            if checkpoints.len() > 2 {
                let oldest = dir.join(checkpoints.pop_front().expect("there are three"));
                if let Err(error) = fs::remove_dir_all(&oldest) {
                    fail(storage, "checkpoint", &Error::io("torture: remove", &oldest, error));
                }
            }
            continue;
        }
        match disturb(db, random) {
            Ok("sync") => tell(&format!("S {begin} {}", now_ns())),
            Ok(name) => tell(&format!("N {name}")),
            Err(error) if task.is_small_disk && error.is_storage_full() => tell(&"N refused"),
            Err(error) => fail(storage, "operator", &error),
        }
    }
}
