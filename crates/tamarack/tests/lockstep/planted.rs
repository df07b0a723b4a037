//! The test of the harness: a deliberate mistake between harness and database must be noticed, the
//! history shrunk to a few operations, and fail again when parsed from its text. Mistakes in
//! compactions are planted in the engine itself; see `tamarack::mistake`.

#[cfg(debug_assertions)]
use tamarack::mistake::{self, Mistake};

use crate::coverage::Coverage;
use crate::generate;
use crate::operation::{Environment, History};
use crate::run::run;
use crate::shrink::{quietly, shrink};
use crate::world::Sabotage;

/// Maximum number of histories until a mistake is noticed.
const HISTORIES_MAX: u64 = 300;

/// Maximum number of operations of a history in which a mistake of the engine is found.
#[cfg(debug_assertions)]
const OPERATIONS_MAX: usize = 20;

/// The same as [`HISTORIES_MAX`] for mistakes in the engine, which need a suitable tree.
#[cfg(debug_assertions)]
const HISTORIES_IN_COMPACTIONS_MAX: u64 = 2000;

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
    is_noticed(Sabotage::MovingSnapshot, Environment::Memory, 4);
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

/// A handover that does not cut every input back.
#[cfg(debug_assertions)]
#[test]
fn a_missing_cut_is_noticed() {
    is_noticed_in_compactions(Mistake::MissingCut);
}

#[cfg(debug_assertions)]
#[test]
fn a_cut_between_versions_is_noticed() {
    is_noticed_in_compactions(Mistake::CutBetweenVersions);
}

#[cfg(debug_assertions)]
#[test]
fn a_tombstone_that_is_dropped_early_is_noticed() {
    is_noticed_in_compactions(Mistake::TombstoneDroppedEarly);
}

/// Long histories are reduced as far as others.
#[cfg(debug_assertions)]
#[test]
fn a_mistake_in_a_long_history_is_noticed() {
    is_noticed_in(generate::long_history, Mistake::TombstoneDroppedEarly);
}

#[cfg(debug_assertions)]
#[test]
fn an_overlooked_static_run_is_noticed() {
    is_noticed_in_compactions(Mistake::StaticRunOverlooked);
}

#[cfg(debug_assertions)]
#[test]
fn a_slice_that_is_left_behind_is_noticed() {
    is_noticed_in_compactions(Mistake::SliceLeftBehind);
}

#[cfg(debug_assertions)]
#[test]
fn a_slice_that_is_moved_twice_is_noticed() {
    is_noticed_in_compactions(Mistake::SliceMovedTwice);
}

#[cfg(debug_assertions)]
#[test]
fn inputs_that_keep_their_levels_are_noticed() {
    is_noticed_in_compactions(Mistake::InputsNotRelabelled);
}

#[cfg(debug_assertions)]
#[test]
fn a_run_that_comes_before_what_is_in_buffers_is_noticed() {
    is_noticed_in_compactions(Mistake::RunBelowMemtables);
}

#[cfg(debug_assertions)]
#[test]
fn a_forgotten_sequence_base_is_noticed() {
    is_noticed_in_compactions(Mistake::SequenceBaseForgotten);
}

#[cfg(debug_assertions)]
#[test]
fn a_lost_operand_is_noticed() {
    is_noticed_in_compactions(Mistake::OperandLost);
}

#[cfg(debug_assertions)]
#[test]
fn a_range_delete_that_ends_early_is_noticed() {
    is_noticed_in_compactions(Mistake::RangeDeleteEndedEarly);
}

#[cfg(debug_assertions)]
#[test]
fn operands_that_are_merged_under_a_snapshot_are_noticed() {
    is_noticed_in_compactions(Mistake::OperandUnderSnapshot);
}

#[cfg(debug_assertions)]
fn is_noticed_in_compactions(mistake: Mistake) {
    is_noticed_in(generate::history, mistake);
}

/// Fails if no history notices a mistake that is not in the harness but in the engine itself, or if
/// the shrunk one is longer than [`OPERATIONS_MAX`]. The simulator's workers run on this thread,
/// and so make it.
#[cfg(debug_assertions)]
fn is_noticed_in(generate: impl Fn(Environment, u64) -> History, mistake: Mistake) {
    let fails =
        |history: &History| quietly(|| mistake::with(mistake, || run(history, None, &mut Coverage::default()))).err();
    let (history, what) = (0..HISTORIES_IN_COMPACTIONS_MAX)
        .map(|seed| generate(Environment::Simulator, seed))
        .find_map(|history| fails(&history).map(|what| (history, what)))
        .unwrap_or_else(|| panic!("{mistake:?} is not noticed by {HISTORIES_IN_COMPACTIONS_MAX} histories"));
    let (what, seed) = (what.to_string(), history.setup.seed);
    println!("{mistake:?} is noticed by history {seed}: {}", what.lines().next().unwrap_or_default());
    let outcome = run(&history, None, &mut Coverage::default());
    assert!(outcome.is_ok(), "without the mistake all is well");

    let small = shrink(history, |history| fails(history).is_some());
    println!("shrunk to {} operations:\n{small}", small.operations.len());
    assert!(small.operations.len() <= OPERATIONS_MAX, "{mistake:?} is shrunk no further than to\n{small}");
    assert!(run(&small, None, &mut Coverage::default()).is_ok(), "without the mistake all is well");
}

/// Fails if no history notices the mistake, or if the shrunk one has more operations than
/// `operations_max`.
fn is_noticed(sabotage: Sabotage, environment: Environment, operations_max: usize) {
    let fails = |history: &History| quietly(|| run(history, Some(sabotage), &mut Coverage::default())).is_err();
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
