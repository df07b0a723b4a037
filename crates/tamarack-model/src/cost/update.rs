//! What writes cost: how often each entry is written, level by level.
//!
//! In level i, of `b` batches that make it full, `b - 1` are spread evenly over `v_i` runs, and the last sends all
//! down. A run that is filled by `k` batches writes `1 + 2 + … + k` batches, since each arrival rewrites the run. For a
//! ratio of whole numbers, with s = r/n whole, that gives
//!
//! ```text
//! A_i = (s_i + 1) / 2 - 1 / n_i          leveling: (T-1)/2      tiering: (T-1)/T
//! ```
//!
//! **Level 1** has one more term. The batch that fills a level is not written there, but a flush has to be written
//! somewhere: once, as a run of its own, `1 / r_1` of all entries. So tiering writes each entry exactly once in level
//! 1, and leveling (T-1)/2 + 1/T times.

use crate::shape::Shape;

/// How many bytes merges write in a level for each byte that passes through it, the flush into level 1 included: `A_i`,
/// and `1/r_1` more for level 1.
pub fn writes_per_entry(shape: &Shape, level: usize) -> f64 {
    let batches = shape.batches(level);
    let runs = shape.visible_runs(level).max(1);
    let (short, longer_runs) = ((batches - 1) / runs, (batches - 1) % runs);
    let filling = |batches: u64| batches * (batches + 1) / 2;
    let merged = longer_runs * filling(short + 1) + (runs - longer_runs) * filling(short);
    let flushed_alone = if level == 1 { 1 } else { 0 };
    (merged + flushed_alone) as f64 / batches as f64
}

/// How many bytes are written for each byte that passes through the whole tree: `Σ A_i + 1/r_1`.
///
/// An entry that is in a full tree has on average not yet passed through its last level; for the write amplification of
/// a tree that grows, simulate it.
pub fn writes_per_entry_total(shape: &Shape) -> f64 {
    (1..=shape.last()).map(|level| writes_per_entry(shape, level)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Level;
    use crate::units::Bytes;

    /// For whole `s`, the formula as it is printed.
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
