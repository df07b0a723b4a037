//! [`Pieces`]: what a lookup may meet in a tree, young to old: its runs, and the outputs of
//! compactions in progress, each for a part of the keys.

use crate::cost::range::Met;
use crate::occupancy::{Run, RunId};
use crate::planner::CompactionPlan;
use crate::simulate::Tree;

/// The runs and outputs of a tree, young to old.
pub(super) struct Pieces<'a> {
    pieces: Vec<RunPart<'a>>,
}

/// A run, or an output.
struct RunPart<'a> {
    /// Its bytes, if it covered all keys.
    bytes: f64,
    /// The part of all keys that it covers.
    covers: f64,
    /// The runs whose keys it has, by their index; of a run itself, one.
    runs: Vec<usize>,
    /// The compaction whose output it is.
    output: Option<&'a CompactionPlan>,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(tree: &'a Tree<'_>) -> Self {
        let runs: Vec<&Run> = tree.occupancy().runs().map(|(_, run)| run).collect();
        let place = |id: &RunId| runs.iter().position(|run| run.id == *id).expect("an input is in the tree");
        let mut pieces: Vec<RunPart<'_>> = runs
            .iter()
            .enumerate()
            .map(|(at, run)| RunPart { bytes: run.bytes.as_f64(), covers: 1.0, runs: vec![at], output: None })
            .collect();
        for (plan, part, bytes) in tree.handing_over() {
            let inputs: Vec<usize> = plan.inputs.iter().map(place).collect();
            inputs.iter().for_each(|&at| pieces[at].covers = 1.0 - part);
            pieces.push(RunPart { bytes: bytes.as_f64(), covers: part, runs: inputs, output: Some(plan) });
        }
        // An output is where its oldest input is.
        pieces.sort_by_key(|piece| (piece.runs.last().copied(), piece.output.is_some()));
        Self { pieces }
    }

    /// As a scan sees them; entries have so many bytes.
    pub(super) fn met(&self, entry_bytes: f64) -> Vec<Met> {
        let met = |piece: &RunPart<'_>| Met { entries: piece.bytes * piece.covers / entry_bytes, covers: piece.covers };
        self.pieces.iter().map(met).collect()
    }

    /// Probabilities of the memtable and of each run, divided among the pieces.
    pub(super) fn divided(&self, of_runs: &[f64]) -> Vec<f64> {
        let of = |piece: &RunPart<'_>| piece.covers * piece.runs.iter().map(|&at| of_runs[at + 1]).sum::<f64>();
        std::iter::once(of_runs[0]).chain(self.pieces.iter().map(of)).collect()
    }

    /// False positive rates of the pieces, given those of the runs and of outputs.
    pub(super) fn rates(&self, of_runs: &[f64], mut of_output: impl FnMut(&CompactionPlan) -> f64) -> Vec<f64> {
        let of = |piece: &RunPart<'_>| piece.output.map_or_else(|| of_runs[piece.runs[0]], &mut of_output);
        self.pieces.iter().map(of).collect()
    }

    /// What each piece costs a lookup of any key, given what it costs one of a key that it covers.
    pub(super) fn covered(&self, of_pieces: &[f64]) -> impl Iterator<Item = f64> {
        self.pieces.iter().zip(of_pieces).map(|(piece, cost)| piece.covers * cost)
    }

    /// The mean cost of a lookup of an existing key, given the probabilities of its newest entry
    /// ([`Self::divided`]): what it pays in each piece that it misses, and where it ends. It pays
    /// nothing in the memtable. 0 if no key exists, so that there is no such lookup.
    pub(super) fn until_found(&self, newest: &[f64], missed: &[f64], found: &[f64]) -> f64 {
        let mut younger = 0.0;
        let parts = self.covered(missed).zip(found).zip(&newest[1..]);
        let sum: f64 = parts
            .map(|((missed, end), part)| {
                let cost = part * (younger + end);
                younger += missed;
                cost
            })
            .sum();
        let existing = newest.iter().sum::<f64>();
        if existing > 0.0 { sum / existing } else { 0.0 }
    }
}
