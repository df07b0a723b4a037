//! Closed-form costs of a shape. Each formula is implemented here, and has a row in
//! `docs/FORMULAS.md`.
//!
//! The formulas hold for nominal batches and whole ratios. Otherwise they are approximations and
//! the [simulation](crate::simulate) is exact; tests compare the two.

pub mod autumn;
pub mod cache;
pub mod coverage;
pub mod hashing;
pub mod lookup;
pub mod monkey;
pub mod range;
pub mod space;
pub mod time;
pub mod update;
