//! How many blocks an operation has to look into, by what the tree is: the sums of the models, over its runs as they are.
//!
//! ```text
//! runs, young to old      p = what the filter promises, e = its share of all entries
//!   absent key    Σ p                                  a block for each filter that errs
//!   present key   Σ e · (1 + Σ p of younger runs)      and one where the key is
//!   seek          1 for each run                       a block in each
//!   next          bytes of an entry / bytes of a block
//! ```
//!
//! Nothing in it knows a cache, or of entries in buffers. It says nothing of mixes that write: their tree changes meanwhile.

use tamarack::{RunStats, Stats};

use super::data::Data;
use super::{Does, Operation, Workload};

/// Data blocks for each operation; `None` if it cannot be said.
pub(super) fn blocks(workload: &Workload, stats: &Stats, data: &Data, block_bytes: u64) -> Option<f64> {
    let Does::Mix(mix) = workload.does else { return None };
    let runs = || stats.levels.iter().flat_map(|level| &level.runs).filter(|run| run.entries > 0);
    let per_entry = data.entry_bytes() as f64 / block_bytes as f64;
    let of = |operation| match operation {
        Operation::Get => found(runs()),
        Operation::GetMissing => runs().map(|run| run.filter_fpr).sum(),
        Operation::Seek { nexts } => runs().count() as f64 + nexts as f64 * per_entry,
        Operation::Scan { .. } | Operation::Update | Operation::ReadModifyWrite | Operation::Insert => f64::NAN,
    };
    let sum: f64 = mix.operations.iter().map(|(share, operation)| *share as f64 / 100.0 * of(*operation)).sum();
    (!workload.writes() && sum.is_finite()).then_some(sum)
}

/// For a key that is in one of the runs, which are given young to old.
fn found<'a>(runs: impl Iterator<Item = &'a RunStats> + Clone) -> f64 {
    let entries: u64 = runs.clone().map(|run| run.entries).sum();
    let mut errors = 0.0;
    runs.map(|run| {
        let blocks = run.entries as f64 / entries as f64 * (1.0 + errors);
        errors += run.filter_fpr;
        blocks
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use tamarack::LevelStats;

    use super::*;

    /// Three runs in two levels, by hand.
    #[test]
    fn sums_by_hand() {
        let run = |entries, filter_fpr| RunStats { entries, filter_fpr, ..RunStats::default() };
        let level = |runs| LevelStats { runs, ..LevelStats::default() };
        let levels = vec![level(vec![run(100, 0.5), run(300, 0.1), run(0, 1.0)]), level(vec![run(600, 0.01)])];
        let stats = Stats { levels, ..Stats::default() };
        let data = Data::new(1000, 84);
        let of = |name| blocks(Workload::named(name).expect("it is in the list"), &stats, &data, 1000);
        let near = |found: Option<f64>, expected: f64| {
            assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} instead of {expected}");
        };
        near(of("readmissing"), 0.61);
        near(of("readrandom"), 0.1 + 0.3 * 1.5 + 0.6 * 1.6);
        near(of("ycsb-c"), 0.1 + 0.3 * 1.5 + 0.6 * 1.6);
        near(of("seekrandom"), 3.0);
        near(of("seekrandom-next10"), 4.0);
        for none in ["fillseq", "overwrite", "readwhilewriting", "ycsb-a", "ycsb-e"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
