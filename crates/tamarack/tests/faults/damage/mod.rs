//! Shows what the database makes of damaged files: every bit flipped, every file cut at every
//! length, exchanged with every other, or gone.
//!
//! After each such damage to a small database, closed cleanly or killed in the middle, it is
//! opened, asked for everything, and verified. The answers must be as if nothing had happened, or
//! errors that name the file; never a panic, never a wrong answer. What else may be:
//!
//! * **The torn end of the WAL.** Damage to records that nothing undamaged says to have been
//!   durable looks like the end that a crash leaves: the WAL ends there, which is reported, and the
//!   state is that after the commits before. In a database that was closed, there is no such place.
//! * **The WAL's end cut off exactly between two records, or its last segment gone or emptied,**
//!   cannot be noticed, unless something that is left says that more was durable; nor reported.
//! * **A manifest that has lost its last edits,** cut off exactly between two records, is whole in
//!   itself. What gives it away is a file made later, or a WAL that begins too late: the error
//!   names that file. If there is neither, nothing was lost.
//! * **A segment that is gone, or cut between two records,** is missed by the segments beside it,
//!   or by the manifest: the error names one of the WAL's files.
//!
//! In an ordinary run a few thousand places are drawn from a seed that is printed;
//! `TAMARACK_EXHAUSTIVE=1` tries every one.

mod scene;
mod stories;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tamarack::{Error, VerifyReport};
use tamarack_env::{Env, Random, SimEnv, Step};

use crate::answers::Answers;
use crate::message;
use scene::{DIR, HEADER_BYTES, Record, Scene, options};

/// The seed from which places are drawn.
const SEED: u64 = 20_261;

/// Places drawn for each way of damage and each database.
const SAMPLES: usize = 2500;

/// Something that happened to the files of a database at rest.
#[derive(Clone, Debug)]
enum Damage {
    Flip { path: PathBuf, offset: u64, bit: u64 },
    Cut { path: PathBuf, length: u64 },
    Swap { a: PathBuf, b: PathBuf },
    Remove { path: PathBuf },
}

#[test]
fn flipped_bits_of_a_closed_database() {
    try_all(&Scene::closed(), flips);
}

#[test]
fn flipped_bits_of_a_killed_database() {
    try_all(&Scene::killed(), flips);
}

#[test]
fn cut_files_of_a_closed_database() {
    try_all(&Scene::closed(), cuts);
}

#[test]
fn cut_files_of_a_killed_database() {
    try_all(&Scene::killed(), cuts);
}

#[test]
fn swapped_and_missing_files() {
    for scene in [Scene::closed(), Scene::killed()] {
        try_all(&scene, swaps);
        try_all(&scene, removals);
    }
}

fn flips(scene: &Scene) -> Vec<Damage> {
    let places = places(scene, 8);
    places.into_iter().map(|(path, at)| Damage::Flip { path, offset: at / 8, bit: at % 8 }).collect()
}

fn cuts(scene: &Scene) -> Vec<Damage> {
    places(scene, 1).into_iter().map(|(path, length)| Damage::Cut { path, length }).collect()
}

fn swaps(scene: &Scene) -> Vec<Damage> {
    let mut damages = Vec::new();
    for (at, (a, _)) in scene.files.iter().enumerate() {
        for (b, _) in &scene.files[at + 1..] {
            damages.push(Damage::Swap { a: a.clone(), b: b.clone() });
        }
    }
    damages
}

fn removals(scene: &Scene) -> Vec<Damage> {
    scene.files.iter().map(|(path, _)| Damage::Remove { path: path.clone() }).collect()
}

/// Places in files, `per_byte` for each byte: all of them, or a sample, most of it from where the
/// files are not zero.
fn places(scene: &Scene, per_byte: u64) -> Vec<(PathBuf, u64)> {
    let all = |path: &PathBuf, bytes: u64| (0..bytes * per_byte).map(|at| (path.clone(), at)).collect::<Vec<_>>();
    if std::env::var_os("TAMARACK_EXHAUSTIVE").is_some() {
        return scene.files.iter().flat_map(|(path, bytes)| all(path, *bytes)).collect();
    }
    println!("{}: {SAMPLES} places, drawn from seed {SEED}", scene.name);
    let used = scene.files.iter().map(|(path, bytes)| (path, *bytes, scene.used_bytes(path)));
    let used: Vec<_> = used.filter(|(_, bytes, _)| *bytes > 0).collect();
    let random = Random::new(SEED);
    let draw = |_| {
        let (path, bytes, used_bytes) = used[random.below(used.len() as u64) as usize];
        let bound = if random.eighths(1) { bytes } else { used_bytes };
        (path.clone(), random.below(bound * per_byte))
    };
    (0..SAMPLES).map(draw).collect()
}

fn try_all(scene: &Scene, damages: impl Fn(&Scene) -> Vec<Damage>) {
    let damages = damages(scene);
    let mut violations = Vec::new();
    for damage in &damages {
        let outcome = catch_unwind(AssertUnwindSafe(|| damage.check(scene)));
        let outcome = outcome.unwrap_or_else(|panic| Err(format!("a panic: {:?}", panic.downcast_ref::<String>())));
        violations.extend(outcome.err().map(|why| format!("{damage}: {why}")));
    }
    println!("{}: {} damages, {} violations", scene.name, damages.len(), violations.len());
    let shown: String = violations.iter().take(20).map(|violation| format!("\n * {violation}")).collect();
    assert!(violations.is_empty(), "{}: {} of {} damages:{shown}", scene.name, violations.len(), damages.len());
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { path, offset, bit } => write!(f, "bit {bit} of byte {offset} of {} flipped", path.display()),
            Self::Cut { path, length } => write!(f, "{} cut to {length} bytes", path.display()),
            Self::Swap { a, b } => write!(f, "{} and {} swapped", a.display(), b.display()),
            Self::Remove { path } => write!(f, "{} removed", path.display()),
        }
    }
}

impl Damage {
    fn inflict(&self, env: &SimEnv) {
        let inflicted = match self {
            Self::Flip { path, offset, bit } => env.flip_bit(path, *offset, *bit),
            Self::Cut { path, length } => env.truncate(path, *length),
            Self::Swap { a, b } => env.swap(a, b),
            Self::Remove { path } => env.remove(path, Step("test: remove")),
        };
        inflicted.unwrap_or_else(|error| panic!("{self}: {error}"));
    }

    fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Flip { path, .. } | Self::Cut { path, .. } | Self::Remove { path } => vec![path],
            Self::Swap { a, b } => vec![a, b],
        }
    }

    /// True if the bytes at `range` of the file are not what they were.
    fn touches(&self, file: &Path, start: u64, end: u64) -> bool {
        self.paths().contains(&file)
            && match self {
                Self::Flip { offset, .. } => (start..end).contains(offset),
                Self::Cut { length, .. } => *length < end,
                Self::Swap { .. } | Self::Remove { .. } => true,
            }
    }

    fn check(&self, scene: &Scene) -> Result<(), String> {
        let env = scene.machine();
        self.inflict(&env);
        let at_rest = self.check_at_rest(scene, &env)?;
        let db = match options(&env).open(DIR) {
            Ok(_) if !at_rest.is_ok() && !self.paths().iter().any(|path| is(path, "sst")) => {
                return Err(format!("it opens, but at rest there was {:?}", at_rest.problems));
            }
            Ok(db) if at_rest.torn.is_empty() != db.recovery().dropped.is_empty() => {
                return Err(format!(
                    "opening dropped {:?}, at rest that was {:?}",
                    db.recovery().dropped,
                    at_rest.torn
                ));
            }
            Err(error) if at_rest.is_ok() => return Err(format!("at rest nothing was found, but: {error}")),
            Ok(db) => db,
            Err(error) if self.looks_torn(scene) => return Err(format!("it is no more than a torn end, but: {error}")),
            Err(error) => return self.check_error(scene, &error),
        };
        let answers = Answers::of(&db, &scene.history.keys());
        answers.errors().try_for_each(|error| self.check_error(scene, error))?;
        let commits = scene.history.explains(&answers, self.least(scene))?;
        let dropped = &db.recovery().dropped;
        if let Some(dropped) = dropped.iter().find(|dropped| !self.paths().contains(&&*dropped.path)) {
            return Err(format!("the end of another file was dropped: {dropped:?}"));
        }
        if commits < scene.history.acknowledged() && dropped.is_empty() && !self.leaves_no_trace(scene) {
            return Err(format!("only {commits} commits are there, and nothing is reported"));
        }
        let report = db.verify(&mut |_, _| {}).map_err(|error| format!("verify: {error}"))?;
        report.problems.iter().try_for_each(|error| self.check_error(scene, error))?;
        let in_table = self.paths().iter().any(|path| is(path, "sst"));
        if in_table && (report.is_ok() || at_rest.is_ok()) {
            return Err("verify does not find it".to_owned());
        }
        Ok(())
    }

    /// Verifies the files before anybody opens the database: what it lists must be what is damaged,
    /// and nothing may change.
    fn check_at_rest(&self, scene: &Scene, env: &SimEnv) -> Result<VerifyReport, String> {
        let before = contents(env);
        let report = options(env).verify(DIR, &mut |_, _| {}).map_err(|error| format!("verify at rest: {error}"))?;
        if contents(env) != before {
            return Err("verify at rest changed something".to_owned());
        }
        // A segment of the WAL that is no segment any more is missed by those beside it, too.
        let names_wal = |error: &&Error| message::path_of(error).is_some_and(|path| is(path, "wal"));
        let (of_wal, others): (Vec<_>, Vec<_>) = report.problems.iter().partition(names_wal);
        others.into_iter().try_for_each(|error| self.check_error(scene, error))?;
        if !of_wal.iter().any(|error| self.check_error(scene, error).is_ok()) {
            of_wal.into_iter().try_for_each(|error| self.check_error(scene, error))?;
        }
        Ok(report)
    }

    /// The commits that must be there: those in tables, those before the first record that is
    /// damaged, and those that something undamaged says to be durable.
    fn least(&self, scene: &Scene) -> usize {
        let damaged = scene.records.iter().filter(|record| self.damages(record));
        let before = damaged.map(|record| record.commits - 1).min().unwrap_or(scene.history.acknowledged());
        let durable = self.durable(scene);
        let found_durable =
            scene.records.iter().filter(|record| record.position <= durable).map(|record| record.commits).max();
        before.max(scene.flushed).max(found_durable.unwrap_or(0))
    }

    /// Up to where something that is not damaged says the WAL to have been durable.
    fn durable(&self, scene: &Scene) -> u64 {
        let whole = scene.records.iter().filter(|record| !self.damages(record));
        whole.map(|record| record.durable).max().unwrap_or(0).max(scene.durable)
    }

    /// Whether a record, or the header of its segment, is not what it was.
    fn damages(&self, record: &Record) -> bool {
        self.touches(&record.path, 0, HEADER_BYTES) || self.touches(&record.path, record.start, record.end)
    }

    /// True if a crash may have left it so: nothing is hurt but records of which nobody knows that
    /// they were durable.
    fn looks_torn(&self, scene: &Scene) -> bool {
        let durable = self.durable(scene);
        let damages_header = scene.records.iter().any(|record| self.touches(&record.path, 0, HEADER_BYTES));
        let is_one_wal = matches!(self, Self::Flip { path, .. } | Self::Cut { path, .. } if is(path, "wal"));
        let mut damaged = scene.records.iter().filter(|record| self.damages(record)).peekable();
        // Reserved space is only written to at the end of the last segment.
        let at_end =
            damaged.peek().is_some() || scene.records.last().is_some_and(|last| self.paths().contains(&&*last.path));
        is_one_wal && at_end && !damages_header && damaged.all(|record| record.position > durable)
    }

    /// True if what is left looks as if it had always been so.
    fn leaves_no_trace(&self, scene: &Scene) -> bool {
        match self {
            Self::Cut { path, length } if is(path, "wal") => {
                let mut records = scene.records.iter().filter(|record| record.path == *path);
                *length <= HEADER_BYTES
                    || records.any(|record| (record.end..=record.end.next_multiple_of(8)).contains(length))
            }
            Self::Remove { path } => is(path, "wal"),
            // The lock file is empty.
            Self::Swap { a, b } => is(a, "wal") && b.ends_with("LOCK"),
            _ => false,
        }
    }

    /// An error must name a damaged file; see the top of this file for the exceptions.
    fn check_error(&self, scene: &Scene, error: &Error) -> Result<(), String> {
        if let Some(complaint) = message::complaint(error, None) {
            return Err(complaint);
        }
        let named = message::path_of(error).expect("checked just now");
        let paths = self.paths();
        let lost_edits =
            matches!(self, Self::Cut { .. }) && is(paths[0], "manifest") && (is(named, "wal") || is(named, "sst"));
        let lost_segment = self.leaves_no_trace(scene) && is(named, "wal");
        if paths.contains(&named) || lost_edits || lost_segment {
            return Ok(());
        }
        Err(format!("the error names another file ({} of {}): {error}", named.display(), scene.name))
    }
}

/// All files but the lock, which is made.
fn contents(env: &SimEnv) -> Vec<(PathBuf, Vec<u8>)> {
    let files = env.files().into_iter().filter(|(path, _)| !path.ends_with("LOCK"));
    files.map(|(path, _)| (path.clone(), env.content(&path).expect("it is there"))).collect()
}

fn is(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}
