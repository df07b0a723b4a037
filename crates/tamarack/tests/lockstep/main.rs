//! Lockstep: random histories of operations on a database and on a simple model must give the same
//! answers, whatever happens to the process, the machine and its disk in between.
//!
//! ```text
//!   seed ── generate ── history ── run ──┬── world: a database on memory, files, or the simulator
//!                          ▲             └── model: the list of all states
//!                          └── shrink ◄── first answer that differs ── print, write to a file
//! ```
//!
//! `cargo test -p tamarack --test lockstep` runs 10,000 histories, always the same ones. Before it:
//!
//! | variable | what it does |
//! |---|---|
//! | `TAMARACK_HISTORIES=1000000` | so many; `-- --nocapture` shows what they met |
//! | `TAMARACK_SEED=4711`, and an environment's name as filter | that history alone |
//! | both | so many histories from that seed on |
//! | `TAMARACK_HISTORY=file`, and `replay` as filter | the history that a failure printed |
//!
//! That the harness notices mistakes is tested in `planted`.

#![cfg(not(feature = "shuttle"))]

mod generate;
mod model;
mod operation;
mod planted;
mod run;
mod shrink;
mod world;

use std::path::{Path, PathBuf};

use crate::operation::{Environment, History};
use crate::run::{Coverage, Mismatch, run};
use crate::shrink::shrink;

/// Default number of histories, over all environments.
const HISTORIES: u64 = 10_000;

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
    assert_met(coverage.recovered_less, "unsynced writes were lost", coverage);
    assert_met(coverage.recovered_more, "interrupted writes were kept", coverage);
    assert_met(coverage.ingests_beside, "an ingest finished beside another", coverage);
    assert_met(coverage.checkpoints, "checkpoints were made", coverage);
    assert_met(coverage.looks, "databases were looked at", coverage);
}

#[test]
fn faulty() {
    let coverage = check(Environment::Faulty, 40);
    assert_met(coverage.errors, "operations failed", coverage);
    assert_met(coverage.stops, "databases stopped writing", coverage);
    assert_met(coverage.recovered_less, "unsynced writes were lost", coverage);
    assert_met(coverage.recovered_more, "failed or interrupted writes were kept", coverage);
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

/// Runs `percent` of all histories in one environment.
fn check(environment: Environment, percent: u64) -> Coverage {
    let seed = number("TAMARACK_SEED");
    let histories = match (number("TAMARACK_HISTORIES"), seed) {
        (Some(histories), _) => histories * percent / 100,
        (None, Some(_)) => 1,
        (None, None) => HISTORIES * percent / 100,
    };
    let first = seed.unwrap_or(0);
    let mut coverage = Coverage::default();
    for seed in first..first + histories {
        let history = generate::history(environment, seed);
        if let Err(mismatch) = run(&history, None, &mut coverage) {
            report(history, &mismatch);
        }
    }
    println!("{histories} histories on {environment}: {coverage:?}");
    coverage
}

/// Shrinks a failing history, writes it to a file, and reports it.
fn report(history: History, mismatch: &Mismatch) -> ! {
    let (environment, seed) = (history.setup.environment, history.setup.seed);
    let small = shrink(history, |candidate| run(candidate, None, &mut Coverage::default()).is_err());
    let outcome = match run(&small, None, &mut Coverage::default()) {
        Err(mismatch) => mismatch.to_string(),
        Ok(()) => "this time it did not fail: it depends on threads".to_owned(),
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("lockstep-{environment}-{seed}.history"));
    write(&path, &small.to_string());
    panic!(
        "history {seed} on {environment} fails {mismatch}\n\nshrunk:\n\n{small}\nfails {outcome}\n\n\
         to run the shrunk one:  TAMARACK_HISTORY={} cargo test -p tamarack --test lockstep replay\n\
         to run the whole one:   TAMARACK_SEED={seed} cargo test -p tamarack --test lockstep {environment}",
        path.display()
    );
}

/// With this many histories, every case that they are for must have occurred.
fn assert_met(times: u64, what: &str, coverage: Coverage) {
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
