//! What a shape costs, in closed form: each formula has its home here, and a row in
//! `docs/FORMULAS.md`.
//!
//! These are the formulas of trees whose batches are nominal and whose ratios are whole numbers.
//! Where that does not hold, the [simulation](crate::simulate) is exact and these are close; tests
//! compare the two.

pub mod autumn;
pub mod hashing;
pub mod lookup;
pub mod monkey;
pub mod range;
pub mod space;
pub mod update;
