//! Compaction by key ranges: a level that is over its capacity passes on one range after another.
//!
//! ```text
//! batch     ▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬   joins the run of level 1, all of it
//! level 1   ▬▬▬▬▬▬▬▬▬ ┆ ▬▬▬▬▬▬▬▬   gives the range ┆ to level 2, and has a gap there
//! level 2   ▬▬▬▬▬▬▬▬▬▬▬▬▬▬     ▬   rewrites what it has in that range
//! level L   ▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬▬   has all keys
//! ```
//!
//! * **Ranges are cut exactly.** A compaction rewrites no entry outside of its range, as slices
//!   allow it. RocksDB rewrites whole tables at the edges, one more for each table passed on.
//! * **Level 1 is paced.** What a batch has brought above the capacity is passed on evenly until
//!   the next batch. Other levels exceed their capacity by a range at most.
//!
//! Cost: proportional to the entries written, and with every order but round robin to the tables of
//! two levels for each range.

use std::ops::Range;

use super::Sums;
use super::slices::{Slice, Slices};

/// The order in which a level passes on its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeOrder {
    /// One range after the other through the key space, and again from its beginning.
    RoundRobin,
    /// The range that was emptied longest ago.
    Oldest,
    /// The range with the most entries for its part of the key space.
    Densest,
    /// The range with the fewest entries in the next level for each of its own; if that is the last
    /// level, the densest.
    LeastOverlap,
}

impl RangeOrder {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::RoundRobin, Self::Oldest, Self::Densest, Self::LeastOverlap];
}

/// The sizes of a tree that is compacted by ranges, in entries.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeSizes {
    /// For levels 1 to L-1, the entries above which they pass on ranges.
    pub capacities: Vec<usize>,
    /// Entries of the last level.
    pub last: usize,
    /// Maximum entries of a table. A range that is passed on has about as many.
    pub table: usize,
    /// True if a batch does not join the run of level 1, but becomes a younger run of it, as in
    /// tiering. A range is then passed on by all runs of the level together, round robin.
    pub stacked: bool,
}

/// A simulated tree that is compacted by ranges.
#[derive(Debug)]
pub struct RangeTree {
    sizes: RangeSizes,
    order: RangeOrder,
    /// The runs of levels 1 to L-1.
    levels: Vec<Slices>,
    /// In a stacked tree, the older runs of level 1, young to old.
    older: Vec<Slices>,
    /// For each of these levels, the key at which round robin goes on.
    cursors: Vec<u64>,
    /// Counts batches.
    time: u64,
    sums: Sums,
}

/// Steps in which the excess of level 1 is passed on between two batches.
const STEPS: usize = 32;

impl RangeTree {
    /// Creates a tree in which only the last level has entries.
    ///
    /// # Panics
    /// If it is stacked and the order is not round robin.
    pub fn new(sizes: RangeSizes, order: RangeOrder) -> Self {
        let levels = sizes.capacities.len();
        assert!(order == RangeOrder::RoundRobin || !sizes.stacked, "stacked runs pass on ranges round robin");
        Self {
            order,
            levels: vec![Slices::default(); levels],
            older: Vec::new(),
            cursors: vec![0; levels],
            time: 0,
            sums: Sums::new(levels + 1),
            sizes,
        }
    }

    /// Lets a batch of keys arrive, at least one and in order, and carries out all compactions
    /// until the next one.
    pub fn arrive(&mut self, keys: Vec<u64>) {
        let batch = keys.len();
        self.time += 1;
        self.sums.arrived += batch as u64;
        if self.sizes.stacked {
            self.older.insert(0, std::mem::take(&mut self.levels[0]));
            self.older.retain(|run| run.entries() > 0);
        }
        self.put(0, Slice::of_keys(keys, self.time));
        for step in 1..=STEPS {
            self.pass_on(0, self.sizes.capacities[0] + batch - batch * step / STEPS);
            self.look();
        }
    }

    /// Forgets what was counted so far.
    pub fn count_anew(&mut self) {
        self.sums = Sums::new(self.levels.len() + 1);
    }

    /// The mean part of the keys that each level covers, level 1 first.
    pub fn coverage(&self) -> Vec<f64> {
        self.sums.coverage()
    }

    /// Entries written to each level, level 1 first, for each entry that arrived.
    pub fn written(&self) -> Vec<f64> {
        self.sums.written()
    }

    fn look(&mut self) {
        self.sums.looks += 1;
        let covers = self.levels.iter().map(Slices::covers).chain([1.0]);
        self.sums.covered.iter_mut().zip(covers).for_each(|(sum, covers)| *sum += covers);
        self.sums.covered[0] += self.older.iter().map(Slices::covers).sum::<f64>();
    }

    /// Passes on ranges of a level (an index, from 0) until it has no more entries than this, and
    /// then ranges of the levels that follow.
    fn pass_on(&mut self, level: usize, until: usize) {
        while self.entries(level) > until {
            let picked = self.pick(level);
            self.cursors[level] = picked.last().expect("a level over its capacity has a range").end;
            let parts: Vec<Range<u64>> = match self.levels.get(level + 1) {
                Some(next) => picked.iter().flat_map(|range| next.divided(range)).collect(),
                None => picked,
            };
            for range in parts {
                let mut keys = self.levels[level].keys_cut(&range);
                if level == 0 {
                    keys.extend(self.older.iter_mut().flat_map(|run| run.keys_cut(&range)));
                }
                if !keys.is_empty() {
                    self.put(level + 1, Slice::new(keys, range, self.time));
                }
            }
            if level + 1 < self.levels.len() {
                self.pass_on(level + 1, self.sizes.capacities[level + 1]);
            }
        }
    }

    fn entries(&self, level: usize) -> usize {
        let older = if level == 0 { self.older.iter().map(Slices::entries).sum() } else { 0 };
        self.levels[level].entries() + older
    }

    /// Puts a slice into the run of a level, together with what that has in its range.
    fn put(&mut self, level: usize, arrived: Slice) {
        let Some(run) = self.levels.get_mut(level) else {
            self.sums.written[level] += self.sizes.last as f64 * arrived.width();
            return;
        };
        let replaced = run.cut(&arrived.range);
        let is_move = level > 0 && replaced.is_empty();
        let merged = Slice::merged(arrived, &replaced);
        self.sums.written[level] += if is_move { 0.0 } else { merged.keys.len() as f64 };
        run.put(merged, &replaced, self.sizes.table);
    }

    /// The neighbouring ranges that a level passes on next, about a table of them.
    fn pick(&self, level: usize) -> Vec<Range<u64>> {
        let (run, table) = (&self.levels[level], self.sizes.table);
        let oldest = self.older.iter().rfind(|run| level == 0 && run.entries() > 0);
        let run = oldest.unwrap_or(run);
        let densest = || run.best_window(table, |window| -(window.entries as f64) / window.width);
        match (self.order, self.levels.get(level + 1)) {
            (RangeOrder::RoundRobin, _) => run.window_from(self.cursors[level], table),
            (RangeOrder::Oldest, _) => run.best_window(table, |window| window.since),
            (RangeOrder::LeastOverlap, Some(next)) => run.least_overlap(next, table),
            (RangeOrder::LeastOverlap, None) | (RangeOrder::Densest, _) => densest(),
        }
    }
}
