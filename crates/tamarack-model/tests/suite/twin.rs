//! A slow, obvious twin of planner and simulation: a tree of single entries, written down as the
//! rules are told, compared after every flush.
//!
//! The twin shares no code with the crate but the shape. Its runs are lists of entry numbers, so it
//! also sees what the crate's counts cannot: that nothing is lost, and that within the whole tree
//! every entry of a younger run is younger than every entry of an older one. Flushes vary in size
//! from nothing to twice the buffer.

use tamarack_model::planner;
use tamarack_model::policy::Custom;
use tamarack_model::simulate::{Pace, Tree, simulate};
use tamarack_model::{Bytes, Level, Shape};
use tamarack_testing::{Random, seeds};

/// Levels of runs of entry numbers; level 1 first, runs **old to young**, which is the other way
/// round than in the crate.
struct Twin {
    shape: Shape,
    levels: Vec<Vec<Vec<u64>>>,
    written: Vec<u64>,
    entries: u64,
}

impl Twin {
    fn new(shape: Shape) -> Self {
        Self { levels: vec![Vec::new(); shape.last()], written: vec![0; shape.last()], entries: 0, shape }
    }

    fn size(&self, level: usize) -> f64 {
        self.levels[level - 1].iter().map(|run| run.len() as f64).sum()
    }

    fn is_full(&self, level: usize, size: f64) -> bool {
        let (mut batch, mut full) = (self.shape.buffer().as_f64(), 0.0);
        for level in &self.shape.levels()[..level] {
            let batches = (level.capacity.as_f64() / batch + 33.0 / 64.0).floor().max(1.0);
            full = f64::min((batches - 0.5) * batch, level.capacity.as_f64());
            batch *= batches;
        }
        size >= full
    }

    fn flush(&mut self, count: u64) {
        let batch: Vec<u64> = (self.entries..self.entries + count).collect();
        self.entries += count;
        if self.shape.last() > 1 && self.is_full(1, self.size(1) + count as f64) {
            // What fills level 1 is written there once, alone.
            self.written[0] += count;
            self.levels[0].push(batch);
        } else {
            self.arrive(1, vec![batch], 1);
        }
        if self.is_full(1, self.size(1)) && self.shape.last() > 1 {
            let batch = std::mem::take(&mut self.levels[0]);
            self.come_down(2, batch);
        }
    }

    /// A batch of runs on its way down: through the level, or into it.
    fn come_down(&mut self, level: usize, batch: Vec<Vec<u64>>) {
        let entries: usize = batch.iter().map(Vec::len).sum();
        if level < self.shape.last() && self.is_full(level, self.size(level) + entries as f64) {
            let mut all = std::mem::take(&mut self.levels[level - 1]);
            all.extend(batch);
            self.come_down(level + 1, all);
        } else {
            self.arrive(level, batch, usize::MAX);
        }
    }

    /// A batch becomes one run of a level, with at most so many of the youngest runs there. A
    /// single run that comes from above and joins no other is not written again.
    fn arrive(&mut self, level: usize, mut batch: Vec<Vec<u64>>, most: usize) {
        let slots = self.shape.level(level).runs as usize;
        let active = self.has_active_run(level);
        let runs = &mut self.levels[level - 1];
        let mut taken = 0;
        let size = |runs: &[Vec<u64>]| runs.iter().map(Vec::len).sum::<usize>();
        // Into the active run: as many as it needs to have a slot, and then those that are small
        // beside the batch.
        while taken < most
            && ((taken == 0 && active)
                || runs.len() >= slots
                || (taken > 0 && runs.last().is_some_and(|run| 3 * run.len() < size(&batch))))
        {
            batch.insert(0, runs.pop().expect("a run"));
            taken += 1;
        }
        let is_new = batch.len() > 1 || most == 1;
        let output: Vec<u64> = batch.into_iter().flatten().collect();
        self.written[level - 1] += if is_new { output.len() as u64 } else { 0 };
        runs.push(output);
    }

    /// Whether the youngest run has room for another batch.
    fn has_active_run(&self, level: usize) -> bool {
        let Some((youngest, older)) = self.levels[level - 1].split_last() else { return false };
        let batch = self.shape.nominal_batch(level).as_f64();
        let older_bytes: f64 = older.iter().map(|run| run.len() as f64).sum();
        let slots = f64::from(self.shape.level(level).runs) - older.len() as f64;
        let fair = (self.shape.level(level).capacity.as_f64() - 0.75 * batch - older_bytes).max(0.0) / slots.max(1.0);
        youngest.len() as f64 <= fair - batch / 2.0
    }

    fn check(&self) {
        let in_order: Vec<u64> = self.levels.iter().rev().flatten().flatten().copied().collect();
        assert!(in_order.iter().copied().eq(0..self.entries), "entries from old to young: {in_order:?}");
    }
}

fn random_shape(random: &mut Random) -> Shape {
    let buffer = 1 + random.below(6);
    let mut batch = buffer;
    let levels = (0..1 + random.below(4)).map(|_| {
        let capacity = (batch * 3).div_ceil(2) + random.below(batch * 8);
        let runs = 1 + random.below(capacity / batch);
        batch = capacity;
        Level { capacity: Bytes(capacity), runs: u32::try_from(runs).expect("few") }
    });
    Shape::new(Bytes(buffer), levels.collect()).expect("a shape")
}

#[test]
fn agrees_with_the_twin() {
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let shape = random_shape(&mut random);
        let context = format!("seed {seed}:\n{shape}");
        // The policy has nothing larger to offer: a last level that is full stays the last.
        let endless = Endless(shape.clone());
        let mut tree = Tree::new(&endless, shape.buffer());
        let mut twin = Twin::new(shape.clone());
        for _ in 0..200 {
            let count = if random.below(2) == 0 { shape.buffer().0 } else { random.below(2 * shape.buffer().0 + 1) };
            if count == 0 {
                continue;
            }
            tree.rotate_memtable(Bytes(count));
            tree.settle();
            twin.flush(count);
            twin.check();
            let (relabelled, _) = planner::relabel(tree.occupancy(), &[], &shape);
            assert_eq!(&relabelled, tree.occupancy(), "a tree at rest fits its own shape, {context}");
            for level in 1..=shape.last() {
                let ours: Vec<u64> = tree.occupancy().level(level).iter().rev().map(|run| run.bytes.0).collect();
                let theirs: Vec<u64> = twin.levels[level - 1].iter().map(|run| run.len() as u64).collect();
                assert_eq!(ours, theirs, "level {level}, {context}");
                let written = tree.report().written.get(level - 1).map_or(0, |bytes| bytes.0);
                assert_eq!(written, twin.written[level - 1], "written to level {level}, {context}");
            }
        }
    }
}

/// What a report says of runs, writes and space is what the twin sees: its largest run and all its
/// entries counted one by one after each flush.
#[test]
fn reports_agree_with_the_twin() {
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let shape = random_shape(&mut random);
        let context = format!("seed {seed}:\n{shape}");
        let sizes: Vec<u64> = (0..150).map(|_| 1 + random.below(2 * shape.buffer().0)).collect();
        let mut twin = Twin::new(shape.clone());
        let (mut runs, mut runs_total, mut space) = (vec![0; shape.last()], vec![], vec![]);
        for size in &sizes {
            twin.flush(*size);
            let all: Vec<&Vec<u64>> = twin.levels.iter().flatten().collect();
            let largest = all.iter().map(|run| run.len()).max().expect("a run");
            space.push(twin.entries as f64 / largest as f64);
            runs_total.push(all.len() as f64);
            runs = runs.iter().zip(&twin.levels).map(|(most, level)| level.len().max(*most)).collect();
        }
        let sizes: Vec<Bytes> = sizes.into_iter().map(Bytes).collect();
        let report = simulate(&Endless(shape.clone()), shape.buffer(), &sizes, Pace::Settled);
        assert_eq!(report.flushed.0, twin.entries, "{context}");
        let mut written: Vec<u64> = report.written.iter().map(|bytes| bytes.0).collect();
        written.resize(shape.last(), 0);
        assert_eq!(written, twin.written, "{context}");
        let seen_runs: Vec<usize> = report.runs.iter().map(|seen| seen.most as usize).collect();
        assert_eq!(seen_runs, runs, "{context}");
        for (seen, counted) in [(report.runs_total, runs_total), (report.space_worst, space)] {
            assert_eq!(seen.most, counted.iter().copied().fold(0.0, f64::max), "{context}");
            let mean = counted.iter().sum::<f64>() / counted.len() as f64;
            assert!((seen.mean() - mean).abs() < 1e-9, "{}, not {mean}, {context}", seen.mean());
        }
    }
}

/// One shape for any size.
#[derive(Debug)]
struct Endless(Shape);

impl tamarack_model::policy::ShapeFamily for Endless {
    fn shape(&self, _data: Bytes, _buffer: Bytes) -> Shape {
        self.0.clone()
    }
}

impl std::fmt::Display for Endless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Custom::new(self.0.clone()).fmt(f)
    }
}
