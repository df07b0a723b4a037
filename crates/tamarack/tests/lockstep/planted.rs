//! The test of the test: between harness and database sits a deliberate mistake, and the harness must notice it, shrink the history to a few
//! operations, and fail again on what it prints.

use crate::generate;
use crate::operation::{Environment, History};
use crate::run::{Coverage, run};
use crate::shrink::shrink;
use crate::world::Sabotage;

/// A mistake that needs more histories than this counts as not noticed.
const HISTORIES_MAX: u64 = 300;

#[test]
fn a_lost_write_is_noticed() {
    is_noticed(Sabotage::LostWrite, Environment::Memory, 7);
}

#[test]
fn a_resurrected_delete_is_noticed() {
    is_noticed(Sabotage::ResurrectedDelete, Environment::Memory, 4);
}

#[test]
fn a_disordered_scan_is_noticed() {
    is_noticed(Sabotage::DisorderedScan, Environment::Memory, 3);
}

#[test]
fn a_moving_snapshot_is_noticed() {
    is_noticed(Sabotage::MovingSnapshot, Environment::Memory, 3);
}

#[test]
fn a_forgotten_sync_is_noticed() {
    is_noticed(Sabotage::ForgottenSync, Environment::Simulator, 3);
}

#[test]
fn a_divided_batch_is_noticed() {
    is_noticed(Sabotage::DividedBatch, Environment::Simulator, 4);
}

#[test]
fn a_swallowed_error_is_noticed() {
    is_noticed(Sabotage::SwallowedError, Environment::Faulty, 4);
}

/// Fails if no history notices the mistake, or if the shrunk one has more operations than `operations_max`.
fn is_noticed(sabotage: Sabotage, environment: Environment, operations_max: usize) {
    let fails = |history: &History| run(history, Some(sabotage), &mut Coverage::default()).is_err();
    let history = (0..HISTORIES_MAX)
        .map(|seed| generate::history(environment, seed))
        .find(fails)
        .unwrap_or_else(|| panic!("{sabotage:?} is not noticed by {HISTORIES_MAX} histories"));
    assert!(run(&history, None, &mut Coverage::default()).is_ok(), "without the mistake all is well");

    let small = shrink(history, fails);
    assert!(small.operations.len() <= operations_max, "{sabotage:?} is shrunk no further than to\n{small}");
    let read_back = History::parse(&small.to_string()).expect("what is printed can be read");
    assert!(fails(&read_back), "what is printed fails too");
}
