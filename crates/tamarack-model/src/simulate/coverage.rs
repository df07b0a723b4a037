//! Two simulations with keys, of what runs cover and of the bytes that it costs: whole-level
//! compaction by the engine's planner ([`WholeTree`]), and compaction by key ranges
//! ([`RangeTree`]).
//!
//! The planner counts bytes and knows no keys, and the engine compacts whole levels. These trees
//! have keys, so that gaps in runs show: [`cost::coverage`](crate::cost::coverage) explains where
//! gaps come from, and has the closed forms. In: sizes, an order, and batches of keys. Out: the
//! mean coverage of each level over time, and bytes written to it.
//!
//! Both have the same rules:
//!
//! * **Steady state.** Each entry that arrives at the last level replaces one there, so its size is
//!   constant. All other entries have keys of their own.
//! * **Moves are free.** A slice whose keys no other input covers is moved without being written.
//! * **Tables go on across gaps.** What a compaction writes between two slices that are moved has
//!   no gaps: a table is full when it has its entries, wherever their keys are.
//!
//! Sizes are numbers of entries of one byte. Neither tree draws random numbers: keys are given.
//! Tests: `tests/suite/coverage.rs`.

mod ranges;
mod slices;
mod whole;

pub use ranges::{RangeOrder, RangeSizes, RangeTree};
pub use whole::WholeTree;

/// Sums of what was seen of each level, level 1 first.
#[derive(Clone, Debug)]
struct Sums {
    covered: Vec<f64>,
    written: Vec<f64>,
    looks: u64,
    arrived: u64,
}

impl Sums {
    fn new(levels: usize) -> Self {
        Self { covered: vec![0.0; levels], written: vec![0.0; levels], looks: 0, arrived: 0 }
    }

    fn coverage(&self) -> Vec<f64> {
        self.covered.iter().map(|sum| sum / self.looks as f64).collect()
    }

    fn written(&self) -> Vec<f64> {
        self.written.iter().map(|sum| sum / self.arrived as f64).collect()
    }
}
