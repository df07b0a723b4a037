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

use crate::allocate::weights::{Asked, Extent};
use crate::allocate::{Curve, Load};
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
    /// How often lookups were seen to pass it in vain, if that counts ([`Asked::Seen`]) and there was something to be seen.
    pub seen: Option<f64>,
}

/// What the filters of a tree are to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget<'a> {
    /// Bits for each entry of the tree.
    pub bits_per_entry: f64,
    /// For which lookups they are shared out.
    pub asked: &'a Asked,
}

/// Bits per entry for the filters of a run that is about to be built, so that the tree keeps to its budget.
///
/// `runs` are those of the tree as it will be then, young to old. The new one stands at `new`; what it says of its filters is not looked at. `shape` says what is younger when
/// it is full.
///
/// # Panics
/// If there is no run at `new`, or it stands in a level that the shape lacks.
pub fn bits_for_new(curve: &Curve, budget: Budget<'_>, shape: &Shape, runs: &[Standing], new: usize) -> f64 {
    let (built, older) = (&runs[new], &runs[new + 1..]);
    let extents: Vec<Extent> =
        to_come(shape, runs, new).chain([built.extent()]).chain(older.iter().map(Standing::extent)).collect();
    let mut loads = loads(&extents, budget.asked);
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

/// A level's runs to come are reckoned with in at most so many groups; a shape may have more runs than memory has room for.
const GROUPS_MAX: u64 = 64;

impl Standing {
    /// How large it is.
    pub fn extent(&self) -> Extent {
        Extent { runs: 1, bytes: self.bytes, entries: self.entries, seen: self.seen }
    }
}

/// Runs that are alike as one.
fn loads(extents: &[Extent], asked: &Asked) -> Vec<Load> {
    let load = |(extent, weight): (&Extent, f64)| Load { entries: extent.entries, weight };
    extents.iter().zip(asked.weights(extents)).map(load).collect()
}

/// The runs that will be younger than the one at `new` when the tree is full.
fn to_come(shape: &Shape, runs: &[Standing], new: usize) -> impl Iterator<Item = Extent> {
    let built = runs[new];
    let bytes_per_entry = built.bytes.as_f64() / (built.entries.0 as f64).max(1.0);
    let in_level = runs[new..].iter().filter(|run| run.level == built.level).count() as u64;
    let full = move |level: usize, runs: u64| full_runs(shape, bytes_per_entry, level, runs);
    let smaller = (1..built.level).flat_map(move |level| full(level, shape.visible_runs(level)));
    smaller.chain(full(built.level, shape.visible_runs(built.level).saturating_sub(in_level)))
}

/// So many runs of a level, as large as they get at rest.
pub(crate) fn full_runs(shape: &Shape, bytes_per_entry: f64, level: usize, runs: u64) -> impl Iterator<Item = Extent> {
    // The batch that makes a level full is not written there: at rest, all but one are.
    let batches = (shape.batches(level) - 1) as f64 / shape.visible_runs(level).max(1) as f64;
    let bytes = batches * shape.nominal_batch(level).as_f64();
    let (bytes, entries) = (bytes as u64, (bytes / bytes_per_entry.max(1.0)) as u64);
    let groups = runs.min(GROUPS_MAX);
    (0..groups).map(move |group| {
        let runs = runs / groups + u64::from(group < runs % groups);
        let [bytes, entries] = [bytes, entries].map(|of_each| of_each.saturating_mul(runs));
        Extent { runs, bytes: Bytes(bytes), entries: Entries(entries), seen: None }
    })
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
        let alike = |runs, entries| Extent { runs, bytes: Bytes(100 * entries), entries: Entries(entries), seen: None };
        let single = |count: u64, entries: u64| (0..count).map(move |_| alike(1, entries));
        for (found, slack) in [(0.0, 1e-9), (0.5, 0.03), (1.0, 0.06)] {
            for bits in [0.5, 1.0, 3.0, 10.0] {
                let singles: Vec<Extent> =
                    single(100, 1_000).chain(single(7, 100_000)).chain(single(1, 3_000_000)).collect();
                let groups: Vec<Extent> =
                    (0..4).map(|_| alike(25, 25_000)).chain(single(7, 100_000)).chain(single(1, 3_000_000)).collect();
                let total = bits * 3_800_000.0;
                let of = |groups: &[Extent]| {
                    *curve.allocate(&loads(groups, &Asked::Found(found)), total).last().expect("not empty")
                };
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
        let run = Standing { level: 1, bytes: Bytes(1_000), entries: Entries(10), filter_bits: 0.0, seen: None };
        let budget = Budget { bits_per_entry: 10.0, asked: &Asked::Found(0.5) };
        let bits = bits_for_new(&Curve::new(FilterKind::Blocked), budget, &shape, &[run], 0);
        assert!((0.0..=10.0).contains(&bits), "{bits}");
    }
}
