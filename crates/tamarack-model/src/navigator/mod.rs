//! Navigators: searches for the design with the least cost for a workload within a memory budget.
//!
//! Each paper's search is a module of its own, with the paper's costs and the paper's choices
//! alone, so that its results can be reproduced by name:
//!
//! | module | searches | for the least |
//! |---|---|---|
//! | [`monkey`] | leveling and tiering, size ratio, split of memory | block reads per operation |
//!
//! A navigator is a pure function of numbers: it measures nothing, and changes no tree.

pub mod monkey;
