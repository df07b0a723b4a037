//! Which filter a run gets when it is built, in a tree that goes on changing.
//!
//! [`crate::allocate`] says how bits are spread best over runs that there are. But a run's filter is built when the run is, and the next day the tree is another one:
//! above the run, levels fill and empty; below it, what is there has filters already. So:
//!
//! * **What is older stays as it is.** Its filters have taken their bits of the budget.
//! * **What is younger is reckoned full.** Small levels come and go many times while a large run stands, and when they are there, they deserve more bits per entry than it does.
//!   What they will take is left to them.
//! * **The budget is per entry,** `m` bits for each, of those that are there and those that are to come; what older runs have taken of it less than their due is
//!   free for the younger.
//!
//! The new run's bits are its part of the best allocation of what is left, over itself and the younger runs to come. So a full tree has, run for run, the optimum that its
//! runs were promised; one that is not full is within the budget, and above the optimum of its moment by what it leaves to those that are missing: over the growth of a tree by
//! 6 to 40 %, where equal bits for all are above it by 80 to 230 %.
//!
//! Tests: `tests/assign.rs` grows trees by simulation and compares with the optimum at every moment.

use crate::allocate::{Curve, Load, weights};
use crate::shape::Shape;
use crate::units::{Bytes, Entries};

/// A run of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Its level, from 1 on.
    pub level: usize,
    /// What it holds.
    pub bytes: Bytes,
    /// So many entries are in it.
    pub entries: Entries,
    /// The bits that its filters have.
    pub filter_bits: f64,
}

/// What the filters of a tree are to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Bits for each entry of the tree.
    pub bits_per_entry: f64,
    /// The share of lookups that find something, any entry as likely as any other; from 0 to 1.
    pub found: f64,
}

/// Bits per entry for the filters of a run that is about to be built, so that the tree keeps to its budget.
///
/// `runs` are those of the tree as it will be then, young to old. The new one stands at `new`; what it says of its filters is not looked at. `shape` says what is younger when
/// it is full.
///
/// # Panics
/// If there is no run at `new`, or it stands in a level that the shape lacks.
pub fn bits_for_new(curve: &Curve, budget: Budget, shape: &Shape, runs: &[Standing], new: usize) -> f64 {
    let (built, older) = (&runs[new], &runs[new + 1..]);
    let one = |run: &Standing| Alike { runs: 1, entries: run.entries.0 };
    let groups: Vec<Alike> = to_come(shape, runs, new).chain([one(built)]).chain(older.iter().map(one)).collect();
    let mut loads = loads(&groups, budget.found);
    let due = |loads: &[Load]| -> f64 { loads.iter().map(|load| load.entries.0 as f64 * budget.bits_per_entry).sum() };
    let (all, older_due) = (due(&loads), due(&loads[loads.len() - older.len()..]));
    loads.truncate(loads.len() - older.len());
    let taken: f64 = older.iter().map(|run| run.filter_bits).sum();
    let best = curve.allocate(&loads, (all - taken).max(0.0));
    // Before anything younger is there, too, the budget is to hold.
    let own = built.entries.0 as f64;
    let most = (budget.bits_per_entry * own + older_due - taken).max(0.0) / own.max(1.0);
    best.last().expect("the new run is among them").min(most)
}

/// Runs of one size, side by side.
#[derive(Clone, Copy, Debug)]
struct Alike {
    /// How many; at least 1.
    runs: u64,
    /// The entries of all of them.
    entries: u64,
}

/// A level's runs to come are reckoned with in at most so many groups; a shape may have more runs than memory has room for.
const GROUPS_MAX: u64 = 64;

/// Runs that are alike as one: `g` runs with the weight of `w` each take the same bits per entry, and what they gain is what one run of all their entries with the weight `g · w`
/// gains. Exact where no lookup finds anything; else weights fall a little from run to run, and the group has their mean.
fn loads(groups: &[Alike], found: f64) -> Vec<Load> {
    let entries: Vec<u64> = groups.iter().map(|group| group.entries).collect();
    let targets = weights::by_entries(&entries);
    let weights = weights::weights(&targets, found);
    let load = |((group, target), oldest): ((&Alike, f64), f64)| {
        let runs = group.runs as f64;
        // The oldest of the group has that weight; of each other, what is found in its elder sisters passes it too.
        let weight = runs * oldest + found * target * (runs - 1.0) / 2.0;
        Load { entries: Entries(group.entries), weight }
    };
    groups.iter().zip(targets).zip(weights).map(load).collect()
}

/// The runs that will be younger than the one at `new` when the tree is full.
fn to_come(shape: &Shape, runs: &[Standing], new: usize) -> impl Iterator<Item = Alike> {
    let built = runs[new];
    let bytes_per_entry = built.bytes.as_f64() / (built.entries.0 as f64).max(1.0);
    let in_level = runs[new..].iter().filter(|run| run.level == built.level).count() as u64;
    // The batch that makes a level full is not written there: at rest, all but one are.
    let full = move |level: usize, runs: u64| {
        let batches = (shape.batches(level) - 1) as f64 / shape.visible_runs(level).max(1) as f64;
        let entries = (batches * shape.nominal_batch(level).as_f64() / bytes_per_entry.max(1.0)) as u64;
        let groups = runs.min(GROUPS_MAX);
        (0..groups).map(move |group| {
            let runs = runs / groups + u64::from(group < runs % groups);
            Alike { runs, entries: entries.saturating_mul(runs) }
        })
    };
    let smaller = (1..built.level).flat_map(move |level| full(level, shape.visible_runs(level)));
    smaller.chain(full(built.level, shape.visible_runs(built.level).saturating_sub(in_level)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterKind;
    use crate::shape::Level;

    /// Grouping changes nothing while no lookup finds anything, and little if some do.
    #[test]
    fn groups_stand_for_their_runs() {
        let curve = Curve::new(FilterKind::Bloom);
        let single = |count: u64, entries: u64| (0..count).map(move |_| Alike { runs: 1, entries });
        for (found, slack) in [(0.0, 1e-9), (0.5, 0.03), (1.0, 0.06)] {
            for bits in [0.5, 1.0, 3.0, 10.0] {
                let singles: Vec<Alike> =
                    single(100, 1_000).chain(single(7, 100_000)).chain(single(1, 3_000_000)).collect();
                let groups: Vec<Alike> = (0..4)
                    .map(|_| Alike { runs: 25, entries: 25_000 })
                    .chain(single(7, 100_000))
                    .chain(single(1, 3_000_000))
                    .collect();
                let total = bits * 3_800_000.0;
                let of = |groups: &[Alike]| *curve.allocate(&loads(groups, found), total).last().expect("not empty");
                let (of_singles, of_groups) = (of(&singles), of(&groups));
                assert!(
                    (of_singles - of_groups).abs() <= slack * of_singles,
                    "{found} found, {bits} bits: {of_singles} for single runs, {of_groups} for groups"
                );
            }
        }
    }

    /// A shape of more runs than memory could list is reckoned with all the same: what is left to what comes is what its entries deserve.
    #[test]
    fn billions_of_runs() {
        let shape =
            Shape::new(Bytes(1), vec![Level { capacity: Bytes(4_000_000_000), runs: 4_000_000_000 }]).expect("a shape");
        let run = Standing { level: 1, bytes: Bytes(1_000), entries: Entries(10), filter_bits: 0.0 };
        let budget = Budget { bits_per_entry: 10.0, found: 0.5 };
        let bits = bits_for_new(&Curve::new(FilterKind::Blocked), budget, &shape, &[run], 0);
        assert!((0.0..=10.0).contains(&bits), "{bits}");
    }
}
