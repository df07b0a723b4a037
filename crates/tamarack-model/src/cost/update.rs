//! Write amplification: how often each entry is written, level by level.
//!
//! In level i, of the `b` batches that make it full, `b - 1` are spread evenly over `v_i` runs, and
//! the last one moves the level down. A run of `k` batches writes `1 + 2 + … + k` batches, since
//! each arrival rewrites the run. For whole ratios and whole s = r/n, that gives
//!
//! ```text
//! A_i = (s_i + 1) / 2 - 1 / n_i          leveling: (T-1)/2      tiering: (T-1)/T
//! ```
//!
//! **Level 1** has one more term. The batch that fills a level is not written there, but a flush
//! has to be written somewhere: once, as a run of its own, `1 / r_1` of all entries. Tiering
//! therefore writes each entry exactly once in level 1, and leveling (T-1)/2 + 1/T times.
//!
//! **Over time.** The mean hides that a leveled level writes little while it is nearly empty and
//! most when it is nearly full; [`Filling`] gives the amount at each point.

use crate::shape::Shape;

/// Bytes written in a level for each byte that passes through it, including the flush into level 1:
/// `A_i`, and `1/r_1` more for level 1.
pub fn writes_per_entry(shape: &Shape, level: usize) -> f64 {
    let batches = shape.batches(level);
    let runs = shape.visible_runs(level).max(1);
    let (short, longer_runs) = ((batches - 1) / runs, (batches - 1) % runs);
    // In real numbers: a tiny memtable under a large level has more batches than have a square in
    // 64 bits.
    let merged =
        longer_runs as f64 * triangle((short + 1) as f64) + (runs - longer_runs) as f64 * triangle(short as f64);
    let flushed_alone = if level == 1 { 1.0 } else { 0.0 };
    (merged + flushed_alone) / batches as f64
}

/// Bytes written for each byte that passes through the whole tree: `Σ A_i + 1/r_1`.
///
/// An entry in a full tree has on average not yet passed through its last level; for the write
/// amplification of a growing tree, simulate it.
pub fn writes_per_entry_total(shape: &Shape) -> f64 {
    (1..=shape.last()).map(|level| writes_per_entry(shape, level)).sum()
}

/// Bytes written in one level while it fills, precomputed from a shape for repeated use.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    full_from: f64,
    batch: f64,
    writes_per_entry: f64,
    /// Batches of each visible run, of those that are written; not whole if they cannot be spread
    /// evenly.
    per_run: f64,
    /// The factor from such runs to runs of whole batches; 1 if batches are spread evenly.
    uneven: f64,
    /// Bytes written before the batch that makes the level full arrives.
    merged: f64,
}

impl Filling {
    /// Precomputes the values for this level.
    pub fn new(shape: &Shape, level: usize) -> Self {
        let (full_from, batch) = (shape.full_from(level).as_f64(), shape.actual_batch(level));
        let runs = shape.visible_runs(level).max(1) as f64;
        let batches = shape.batches(level) as f64;
        let writes_per_entry = writes_per_entry(shape, level);
        let flushed_alone = if level == 1 { 1.0 } else { 0.0 };
        let per_run = (batches - 1.0) / runs;
        let merged = (writes_per_entry * batches - flushed_alone) * batch;
        let uneven = if merged > 0.0 { merged / (runs * triangle(per_run) * batch) } else { 1.0 };
        Self { full_from, batch, writes_per_entry, per_run, uneven, merged }
    }

    /// Size of the level when it is full, given its present size and batches of
    /// [`Shape::actual_batch`] from now on: the first size of at least [`Shape::full_from`]. The
    /// capacity itself, if all ratios are whole and the present size is a whole number of batches.
    pub fn full_at(&self, size: f64) -> f64 {
        size + ((self.full_from - size) / self.batch).ceil().max(0.0) * self.batch
    }

    /// Size of the level when the next batch should leave it: as [`Filling::full_at`], and for a
    /// level that is full already [`Shape::full_from`].
    pub fn due_at(&self, size: f64) -> f64 {
        if size < self.full_from { self.full_at(size) } else { self.full_from }
    }

    /// [`writes_per_entry()`].
    pub fn writes_per_entry(&self) -> f64 {
        self.writes_per_entry
    }

    /// Bytes written in the level from when it was empty until it has this size; between batches,
    /// as if bytes arrived one at a time. A level that is full, or more, has written what it had
    /// before its last batch.
    pub fn written(&self, size: f64) -> f64 {
        if self.per_run == 0.0 {
            return self.merged;
        }
        let batches = size / self.batch;
        let full_runs = (batches / self.per_run).floor();
        let written = full_runs * triangle(self.per_run) + triangle(batches - full_runs * self.per_run);
        (written * self.uneven * self.batch).min(self.merged)
    }
}

/// `1 + 2 + … + k`, also for k that are not whole.
fn triangle(k: f64) -> f64 {
    k * (k + 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Level;
    use crate::units::Bytes;

    /// A level that fills batch by batch has written, after each batch, what the formula says; and
    /// when it is full, what [`writes_per_entry()`] says.
    #[test]
    fn filling_adds_up() {
        let shape: Shape = "buffer 1\nlevel 12 in 3 runs\nlevel 72 in 1 run".parse().expect("a shape");
        let fillings = [1, 2].map(|level| Filling::new(&shape, level));
        // Runs of 4, 4 and 3 batches: 10 + 10 + 6. The twelfth is a run of its own.
        let [spread, leveled] = fillings;
        assert_eq!([0.0, 11.0, 12.0, 99.0].map(|size| spread.written(size)), [0.0, 26.0, 26.0, 26.0]);
        assert!((spread.written(11.0 / 3.0) - 26.0 / 3.0).abs() < 1e-9, "a third of it in each run");
        let batches = [0, 1, 2, 3, 4, 5, 6].map(|count| leveled.written(f64::from(count) * 12.0) / 12.0);
        assert_eq!(batches, [0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 15.0]);
        for (filling, alone) in fillings.into_iter().zip([1.0, 0.0]) {
            let capacity = filling.full_at(0.0);
            assert!((filling.written(capacity) + alone - filling.writes_per_entry() * capacity).abs() < 1e-9);
        }
    }

    /// A level of six batches of 12 is full with the first batch that brings it to 66.
    #[test]
    fn full_with_whole_batches() {
        let shape: Shape = "buffer 12\nlevel 72 in 1 run".parse().expect("a shape");
        let full_at = |size| Filling::new(&shape, 1).full_at(size);
        assert_eq!([0.0, 24.0, 22.0, 65.0, 66.0, 90.0].map(full_at), [72.0, 72.0, 70.0, 77.0, 66.0, 90.0]);
    }

    /// For whole `s`, the printed formula.
    #[test]
    fn equals_the_printed_formula() {
        for runs in 1..=20_u32 {
            for magnification in 1..=20_u32 {
                let ratio = u64::from(runs * magnification);
                if ratio < 2 {
                    continue;
                }
                let levels =
                    vec![Level { capacity: Bytes(ratio), runs }, Level { capacity: Bytes(ratio * ratio), runs }];
                let shape = Shape::new(Bytes(1), levels).expect("a shape");
                let printed = f64::from(magnification + 1) / 2.0 - 1.0 / f64::from(runs);
                assert!((writes_per_entry(&shape, 2) - printed).abs() < 1e-12, "n = {runs}, s = {magnification}");
                assert!((writes_per_entry(&shape, 1) - printed - 1.0 / ratio as f64).abs() < 1e-12);
            }
        }
    }
}
