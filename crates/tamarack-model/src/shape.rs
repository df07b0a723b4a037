//! [`Shape`]: the structure of an LSM-tree as data.
//!
//! ```text
//!            capacity    runs     r = capacity / capacity above     s = r / runs: batches per run
//! buffer      1
//! level 1     4          4        4                                 1      ▭▭▭▭            tiered
//! level 2    16          2        4                                 2      ▭▭▭▭▭▭▭▭ ▭▭▭▭▭▭▭▭
//! level 3    64          1        4                                 4      ▭▭▭▭▭▭▭▭▭▭▭▭ …  leveled
//! ```
//!
//! Leveling, tiering and all others are lists of such numbers; [`policy`](crate::policy) produces
//! them. Levels count from 1, small (young) to large (old); formulas with a level of index 0 use
//! the memtable for it. Capacities are raw entry bytes.
//!
//! Every `Shape` was checked by [`Shape::new`]: it has a level; the memtable and all levels have a
//! size above 0; each level holds at least one and a half of the **nominal batch** that arrives at
//! it (the capacity of the level above, or the memtable size); each run slot holds at least one.
//!
//! The text form is what [`Display`](fmt::Display) prints and [`FromStr`] reads; `custom:FILE`
//! names a file in this form.
//!
//! ```
//! use tamarack_model::Shape;
//!
//! let text = "\
//! buffer 64MiB
//! level 256MiB in 4 runs
//! level 1GiB in 1 run
//! ";
//! let shape: Shape = text.parse()?;
//! assert_eq!(shape.to_string(), text);
//! assert_eq!(shape.ratio(2), 4.0);
//! # Ok::<(), tamarack_model::ShapeError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use crate::units::Bytes;

/// A capacity of a whole number of batches and so many 64ths of one is rounded up. Not from one
/// half on: ratios of 2.5 are common (Garnering's T/c), and capacities are rounded to bytes.
const ROUNDED_UP_64THS: u128 = 31;

/// The maximum memtable size: with it, and the largest ratio of a policy, capacities fit 64 bits.
pub const BUFFER_MAX: Bytes = Bytes(1 << 47);

/// A memtable size, and levels from small to large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    buffer: Bytes,
    levels: Vec<Level>,
}

/// The limits of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// `N_i`: capacity in bytes.
    pub capacity: Bytes,
    /// `n_i`: run slots, at least 1. One slot makes a leveled level.
    pub runs: u32,
}

/// An invalid shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError(String);

impl Shape {
    /// Creates a shape from these numbers, level 1 first.
    ///
    /// # Errors
    /// If they break one of the rules in the [module's page](self); the error names the level and a
    /// valid value.
    pub fn new(buffer: Bytes, levels: Vec<Level>) -> Result<Self, ShapeError> {
        let shape = Self { buffer, levels };
        shape.check()?;
        Ok(shape)
    }

    /// The memtable size, `F`.
    pub fn buffer(&self) -> Bytes {
        self.buffer
    }

    /// All levels, level 1 first; at least one.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// `L`, the number of levels, which is also the number of the last level.
    pub fn last(&self) -> usize {
        self.levels.len()
    }

    /// The level with this number.
    ///
    /// # Panics
    /// If there is none: numbers are `1..=last()`.
    pub fn level(&self, number: usize) -> Level {
        assert!((1..=self.last()).contains(&number), "level {number} of a shape with levels 1 to {}", self.last());
        self.levels[number - 1]
    }

    /// The nominal size of a batch that arrives at a level: the capacity of the level above, or the
    /// memtable size.
    pub fn nominal_batch(&self, number: usize) -> Bytes {
        if number == 1 { self.buffer } else { self.level(number - 1).capacity }
    }

    /// Bytes that the tree holds before its last level is full and it needs another shape.
    ///
    /// That is the capacity of the last level alone, not the sum: a tree counts like an odometer.
    /// While digit `i` shows at most `r_i - 1`, all digits together show less than one of the next
    /// digit; the batch that would fill level L finds all levels above it empty.
    pub fn holds(&self) -> Bytes {
        self.level(self.last()).capacity
    }

    /// The sum of all capacities, `N`.
    pub fn capacity(&self) -> Bytes {
        self.levels.iter().map(|level| level.capacity).sum()
    }

    /// `r_i`: the level's capacity over that of the level above.
    pub fn ratio(&self, number: usize) -> f64 {
        self.level(number).capacity.ratio(self.nominal_batch(number))
    }

    /// Bytes of one run slot.
    pub fn run_size(&self, number: usize) -> f64 {
        self.level(number).capacity.as_f64() / f64::from(self.level(number).runs)
    }

    /// `s_i = r_i / n_i`, the run magnification: nominal batches per run slot; at least 1.
    pub fn magnification(&self, number: usize) -> f64 {
        self.ratio(number) / f64::from(self.level(number).runs)
    }

    /// `w_i`: the level's share of all capacity.
    pub fn share(&self, number: usize) -> f64 {
        self.level(number).capacity.ratio(self.capacity())
    }

    /// `a_i`: bytes of a batch that arrives at a level if each flush has the memtable's size: the
    /// memtable's size, or the `b_(i-1)` batches that make the level above full. The nominal batch
    /// if all ratios above are whole.
    pub fn actual_batch(&self, number: usize) -> f64 {
        self.batch(number) as f64
    }

    /// `b_i`: the number of such batches that make a level full: its capacity in [actual
    /// batches](Self::actual_batch), rounded to the nearest whole number, halves up. The ratio
    /// itself if all ratios up to this level are whole. At least 1: such a level only passes data
    /// on.
    pub fn batches(&self, number: usize) -> u64 {
        u64::try_from(self.batches_of(number, self.batch(number))).expect("no more batches than bytes")
    }

    /// `f_i`: bytes with which the level counts as full: half a batch less than `b_i` batches, and
    /// at most its capacity. Batches vary in size, and a level that is a little short must not wait
    /// for another one.
    pub fn full_from(&self, number: usize) -> Bytes {
        let batch = self.batch(number);
        let bytes = ((2 * self.batches_of(number, batch) - 1) * batch).div_ceil(2);
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX)).min(self.level(number).capacity)
    }

    /// `a_i` in whole bytes: at most the buffer and all levels above together.
    fn batch(&self, number: usize) -> u128 {
        (1..number).fold(self.buffer.0.into(), |batch, level| batch * self.batches_of(level, batch))
    }

    /// `b_i`, given `a_i`.
    fn batches_of(&self, number: usize, batch: u128) -> u128 {
        let capacity = u128::from(self.level(number).capacity.0);
        ((64 * capacity + (64 - ROUNDED_UP_64THS) * batch) / (64 * batch)).max(1)
    }

    /// `v_i`: the maximum number of runs that a lookup visits in the level, at rest.
    ///
    /// Batches are spread evenly over the slots, and the batch that makes the level full is never
    /// written there. A level therefore shows all its slots, or, if it has as many slots as batches
    /// (`s_i = 1`), one fewer: tiering with T slots shows T-1 runs.
    pub fn visible_runs(&self, number: usize) -> u64 {
        u64::from(self.level(number).runs).min(self.batches(number) - 1)
    }

    /// The maximum number of runs that a lookup visits in the whole tree, `Σ v_i`: also the seeks
    /// of a range scan.
    pub fn visible_runs_total(&self) -> u64 {
        (1..=self.last()).map(|number| self.visible_runs(number)).sum()
    }

    /// `H = Σ w_i log2(v_i / w_i)` in bits: the entropy of "which run is this entry in", in a full
    /// tree. Filters reach `2^H · e^(-m ln²2)` false positives with `m` bits per entry, and no code
    /// of runs is shorter on average.
    pub fn entropy(&self) -> f64 {
        // A level that a single batch fills shows no run at rest; it counts as one.
        let runs = |number| self.visible_runs(number).max(1) as f64;
        let part = |number| self.share(number) * (runs(number) / self.share(number)).log2();
        (1..=self.last()).map(part).sum()
    }

    fn check(&self) -> Result<(), ShapeError> {
        let refuse = |text: String| Err(ShapeError(text));
        if self.buffer == Bytes::ZERO {
            return refuse("the buffer has no size; a tree needs one to write anything".into());
        }
        if self.buffer > BUFFER_MAX {
            return refuse(format!(
                "a buffer of {} is larger than any memory; {BUFFER_MAX} is the largest",
                self.buffer
            ));
        }
        if self.levels.is_empty() {
            return refuse("there is no level; a tree needs at least one to flush its buffer to".into());
        }
        if self.levels.iter().try_fold(0_u64, |sum, level| sum.checked_add(level.capacity.0)).is_none() {
            return refuse("the levels together hold more bytes than can be counted (2^64)".into());
        }
        for (number, level) in (1..).zip(&self.levels) {
            let batch = self.nominal_batch(number);
            let (capacity, incoming) = (u128::from(level.capacity.0), u128::from(batch.0));
            if level.runs == 0 {
                return refuse(format!("level {number} has no run slot; a leveled level has 1"));
            }
            if 2 * capacity < 3 * incoming {
                return refuse(format!(
                    "level {number} holds {}, but {batch} arrive at a time: one batch would fill it, so it would only pass data on; \
                     it should hold at least one and a half batches",
                    level.capacity
                ));
            }
            if capacity < u128::from(level.runs) * incoming {
                return refuse(format!(
                    "level {number} has {} run slots for {}, but {batch} arrive at a time: a slot should hold at least one batch, so have at most {} slots",
                    level.runs,
                    level.capacity,
                    capacity / incoming
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "buffer {}", self.buffer)?;
        for Level { capacity, runs } in &self.levels {
            writeln!(f, "level {capacity} in {runs} run{}", if *runs == 1 { "" } else { "s" })?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    /// Parses the text form. Empty lines, and comments after `#`, are ignored.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let (mut buffer, mut levels) = (None, Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let at_line = |reason: String| ShapeError(format!("line {number}: {reason}"));
            let size = |text: &str| text.parse::<Bytes>().map_err(at_line);
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                ["buffer", bytes] if buffer.is_none() && levels.is_empty() => buffer = Some(size(bytes)?),
                ["level", capacity, "in", runs, "run" | "runs"] => {
                    let runs = runs.parse().map_err(|_| at_line(format!("`{runs}` is not a number of runs")))?;
                    levels.push(Level { capacity: size(capacity)?, runs });
                }
                _ => {
                    let forms = "a shape is `buffer 64MiB` in its first line, then for each level, small to large, `level 640MiB in 1 run`";
                    return Err(at_line(format!("`{}` is not understood; {forms}", line.trim())));
                }
            }
        }
        let buffer = buffer.ok_or_else(|| ShapeError("the line `buffer …` is missing".into()))?;
        Self::new(buffer, levels)
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a shape: {}", self.0)
    }
}

impl std::error::Error for ShapeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Result<Shape, String> {
        text.parse::<Shape>().map_err(|error| error.to_string())
    }

    /// Every rule refuses violations and names the level and a valid value.
    #[test]
    fn errors_explain() {
        for (text, part) in [
            ("level 4 in 1 run", "`buffer …` is missing"),
            ("buffer 4", "there is no level"),
            ("buffer 0\nlevel 4 in 1 run", "buffer has no size"),
            ("buffer 129TiB\nlevel 1000TiB in 1 run", "128TiB is the largest"),
            ("buffer 4\nlevel 5 in 1 run", "level 1 holds 5, but 4 arrive"),
            ("buffer 4\nlevel 8 in 3 runs", "at most 2 slots"),
            ("buffer 4\nlevel 8 in 0 runs", "level 1 has no run slot"),
            ("buffer 4\nlevel 8 in two runs", "line 2: `two` is not a number of runs"),
            ("buffer 4\n\nlevels 8", "line 3: `levels 8` is not understood"),
            ("buffer 1\nlevel 10000000TiB in 1 run\nlevel 15000000TiB in 1 run", "can be counted"),
        ] {
            let error = shape(text).expect_err(text);
            assert!(error.contains(part), "{text:?} gave: {error}");
        }
    }

    /// Quantities of the small example, by hand.
    #[test]
    fn quantities_of_an_example() {
        let shape =
            shape("buffer 1 # tiny\nlevel 4 in 4 runs\nlevel 16 in 2 runs\nlevel 64 in 1 run").expect("a shape");
        assert_eq!([1, 2, 3].map(|i| shape.magnification(i)), [1.0, 2.0, 4.0]);
        assert_eq!([1, 2, 3].map(|i| shape.visible_runs(i)), [3, 2, 1]);
        assert_eq!((shape.capacity(), shape.holds(), shape.run_size(2)), (Bytes(84), Bytes(64), 8.0));
        let by_hand =
            4.0 / 84.0 * (63.0_f64).log2() + 16.0 / 84.0 * (10.5_f64).log2() + 64.0 / 84.0 * (84.0_f64 / 64.0).log2();
        assert!((shape.entropy() - by_hand).abs() < 1e-12);
    }
}
