//! Lockstep: random histories of operations on a database and on a simple model must give the same
//! answers, whatever happens to the process, the machine and its disk in between.
//!
//! ```text
//!   seed ── generate ── history ── run ──┬── world: a database on memory, files, or the simulator
//!                          ▲             └── model: the list of all states
//!                          └── shrink ◄── first answer that differs ── print, write to a file
//! ```
//!
//! # Every operation under every option set
//!
//! Histories consist of 59 kinds of operations (`kind`), 52 of them possible in every environment,
//! and begin with one of 47 named sets of options (`options`), from which they go on to others.
//! Each environment counts its pairs of kind and set; at the default size none is missing, because
//! every history begins with the kinds that are due under its set (`generate`).
//!
//! That all option sets give the same answers need not be asked for: the model knows no options.
//! Each answer of a history, and the whole content at each opening and at the end, is compared
//! with the model's, so two runs of one history that both agree with the model agree with each
//! other. One operation, `transfer`, compares two databases with different options directly.
//!
//! One history of four has operands of a merge operator instead of half of its puts. Its databases
//! are opened with the operator; the model appends each operand at once. One history of three has
//! range deletes instead of some of its deletes.
//!
//! One history of four has databases with a compaction filter that gives entries the value that
//! they have. What filters drop is tested elsewhere (`suite compaction_filters`): when that
//! happens, a model of answers cannot know.
//!
//! # Short and long histories
//!
//! Short histories, of some 85 operations, do everything often. Long ones, of 2,000, mostly read
//! (`generate` has the shares), and so make trees that a few dozen writes do not; their options
//! change as they go on. An operation is counted when a database has carried it out and its answer
//! was compared; a batch is one operation, and so is a scan. What is compared at each opening is
//! not counted.
//!
//! `cargo test -p tamarack --test lockstep` runs 10,000 short histories and 6,000 long ones, in sum
//! ten million operations, always the same ones. Before it:
//!
//! | variable | what it does |
//! |---|---|
//! | `TAMARACK_HISTORIES=1000000` | so many short ones; `-- --nocapture` shows what they met |
//! | `TAMARACK_LONG_HISTORIES=1000000` | so many long ones |
//! | `TAMARACK_SEED=4711`, and the name of a test as filter | that history alone |
//! | `TAMARACK_SEED` and one of the others | so many histories from that seed on |
//! | `TAMARACK_HISTORY=file`, and `replay` as filter | the history that a failure printed |
//!
//! That the harness notices mistakes is tested in `planted`.

#![cfg(not(feature = "shuttle"))]

mod answers;
mod copies;
mod coverage;
mod generate;
mod kind;
mod model;
mod operation;
mod options;
mod planted;
mod run;
mod shrink;
mod world;

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::coverage::Coverage;
use crate::generate::histories_of_all_pairs;
use crate::operation::{Environment, History};
use crate::run::{Mismatch, run};
use crate::shrink::{TRIES_MAX, shrink};

/// Default number of histories, over all environments.
const HISTORIES: u64 = 10_000;

/// Default number of long histories, over all environments.
const LONG_HISTORIES: u64 = 6000;

#[test]
fn memory() {
    check(Environment::Memory, 20);
}

#[test]
fn files() {
    check(Environment::Files, 5);
}

#[test]
fn simulator() {
    let coverage = check(Environment::Simulator, 35);
    assert_met(coverage.recovered_less, "unsynced writes were lost", &coverage);
    assert_met(coverage.recovered_more, "interrupted writes were kept", &coverage);
    assert_met(coverage.ingests_beside, "an ingest finished beside another", &coverage);
    assert_met(coverage.checkpoints, "checkpoints were made", &coverage);
    assert_met(coverage.looks, "databases were looked at", &coverage);
    assert_met(coverage.operands, "operands were merged", &coverage);
    assert_met(coverage.filtered, "a compaction filter gave entries a value", &coverage);
    assert_met(coverage.range_deletes, "ranges were deleted", &coverage);
}

#[test]
fn faulty() {
    let coverage = check(Environment::Faulty, 40);
    assert_met(coverage.errors, "operations failed", &coverage);
    assert_met(coverage.stops, "databases stopped writing", &coverage);
    assert_met(coverage.operands, "operands were merged", &coverage);
    assert_met(coverage.filtered, "a compaction filter gave entries a value", &coverage);
    assert_met(coverage.range_deletes, "ranges were deleted", &coverage);
    assert_met(coverage.recovered_less, "unsynced writes were lost", &coverage);
    assert_met(coverage.recovered_more, "failed or interrupted writes were kept", &coverage);
}

#[test]
fn long_memory() {
    check_long(Environment::Memory, 75);
}

#[test]
fn long_simulator() {
    check_long(Environment::Simulator, 25);
}

/// A controller that changes policy, memtables and filters at random, all the time, changes no
/// answer: in databases with an automatic policy, through crashes.
#[test]
#[cfg(debug_assertions)]
fn designs_at_random() {
    use tamarack::mistake::{self, Mistake};

    for environment in [Environment::Simulator, Environment::Faulty] {
        let seeds = seeds("TAMARACK_HISTORIES", HISTORIES, 3);
        let run = || run_all("designs_at_random", environment, seeds, generate::automatic);
        mistake::with(Mistake::DesignsAtRandom, run);
    }
}

/// Runs one history from a file, if one is named.
#[test]
fn replay() {
    let Some(path) = std::env::var_os("TAMARACK_HISTORY") else { return };
    let history = History::parse(&read(Path::new(&path))).expect("a history");
    if let Err(mismatch) = run(&history, None, &mut Coverage::default()) {
        panic!("{history}\n{mismatch}");
    }
}

/// Parsing a printed history gives the same history.
#[test]
fn histories_read_back_what_they_print() {
    for seed in 0..300 {
        let history = generate::history(Environment::Faulty, seed);
        assert_eq!(History::parse(&history.to_string()).as_ref(), Ok(&history), "seed {seed}");
    }
}

/// Runs `percent` of all short histories in one environment.
fn check(environment: Environment, percent: u64) -> Coverage {
    let seeds = seeds("TAMARACK_HISTORIES", HISTORIES, percent);
    let histories = seeds.end - seeds.start;
    let coverage = run_all(&environment.to_string(), environment, seeds, generate::history);
    let pairs = coverage.pairs.least(environment);
    assert!(
        pairs[0].0 > 0 || histories < histories_of_all_pairs(environment),
        "{} × {} is missing",
        pairs[0].1.name(),
        pairs[0].2
    );
    coverage
}

/// Runs `percent` of all long histories in one environment.
fn check_long(environment: Environment, percent: u64) {
    let seeds = seeds("TAMARACK_LONG_HISTORIES", LONG_HISTORIES, percent);
    let histories = seeds.end - seeds.start;
    let coverage = run_all(&format!("long_{environment}"), environment, seeds, generate::long_history);
    assert!(
        coverage.operations > histories * 1000 || histories < 100,
        "too few operations were possible: {coverage:?}"
    );
}

/// The seeds of `percent` of the histories, whose number a variable may give.
fn seeds(variable: &str, default: u64, percent: u64) -> Range<u64> {
    let first = number("TAMARACK_SEED");
    let histories = match (number(variable), first) {
        (Some(histories), _) => histories * percent / 100,
        (None, Some(_)) => 1,
        (None, None) => default * percent / 100,
    };
    let first = first.unwrap_or(0);
    first..first + histories
}

/// Generates the history of a seed.
type Generate = fn(Environment, u64) -> History;

/// Runs the histories of these seeds.
fn run_all(test: &str, environment: Environment, seeds: Range<u64>, generate: Generate) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in seeds.clone() {
        let history = generate(environment, seed);
        if let Err(mismatch) = run(&history, None, &mut coverage) {
            report(test, history, &mismatch);
        }
    }
    println!("{test}: {} histories: {coverage:?}", seeds.end - seeds.start);
    let pairs = coverage.pairs.least(environment);
    let least: Vec<_> =
        pairs.iter().take(12).map(|(times, kind, set)| format!("{times} {} × {set}", kind.name())).collect();
    println!("of {} pairs of a kind and an option set, the least covered: {}", pairs.len(), least.join(", "));
    coverage
}

/// Reports a failing history, shrinks it, writes it to a file, and reports that one.
fn report(test: &str, history: History, mismatch: &Mismatch) -> ! {
    let seed = history.setup.seed;
    let failed = history.operations.get(mismatch.operation).map_or("the last checks".to_owned(), ToString::to_string);
    // Not by a macro, whose output a test keeps to itself until it has ended.
    let _ = writeln!(
        std::io::stderr(),
        "{test}: history {seed} fails {mismatch}\nin: {failed}\nit is shrunk now, by at most {TRIES_MAX} tries"
    );
    let small = shrink(history, |candidate| run(candidate, None, &mut Coverage::default()).is_err());
    let outcome = match run(&small, None, &mut Coverage::default()) {
        Err(mismatch) => mismatch.to_string(),
        Ok(()) => "this time it did not fail: it depends on threads".to_owned(),
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lockstep-{test}-{seed}.history"));
    write(&path, &small.to_string());
    panic!(
        "{test}: history {seed} fails {mismatch}\n\nshrunk:\n\n{small}\nfails {outcome}\n\n\
         to run the shrunk one:  TAMARACK_HISTORY={} cargo test -p tamarack --test lockstep replay\n\
         to run the whole one:   TAMARACK_SEED={seed} cargo test -p tamarack --test lockstep -- --exact {test}",
        path.display()
    );
}

/// With this many histories, every case that they are for must have occurred.
fn assert_met(times: u64, what: &str, coverage: &Coverage) {
    assert!(times > 0 || coverage.operations < 50_000, "no history showed that {what}: {coverage:?}");
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number is expected")))
}

#[expect(clippy::disallowed_methods, reason = "the file of a failed history is no part of any environment")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| println!("{}: {error}", path.display()));
}

#[expect(clippy::disallowed_methods, reason = "the file of a failed history is no part of any environment")]
fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8(bytes).expect("a history is text")
}
