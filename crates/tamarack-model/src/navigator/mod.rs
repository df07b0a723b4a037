//! Navigators: searches for the design with the least cost for a workload within a memory budget.
//!
//! | module | searches | for the least |
//! |---|---|---|
//! | [`union`] | all policies, memtable sizes, filters, split of memory | time per operation |
//! | [`monkey`] | leveling and tiering, size ratio, split of memory | block reads per operation |
//! | [`smoose`] | last level, structure above it, runs of levels | MOOSE, Eq. 17 |
//! | [`controller`] | the same, for a tree in use, when it pays | time of the operations to come |
//! | [`read_compaction`] | how many runs of a tree in use become one | time of the reads to come |
//! | [`guard`] | a list of designs | worst cost over workloads near the expected one |
//! | [`pareto`] | a list of designs | two costs at once: the trade-offs between them |
//!
//! A paper's search is a module of its own, with the paper's costs and the paper's choices alone,
//! so that its results can be reproduced by name. The union search predicts its costs by
//! simulation.
//!
//! A navigator is a pure function of numbers: it measures nothing, and changes no tree.

pub mod controller;
pub mod guard;
pub mod monkey;
pub mod pareto;
pub mod read_compaction;
pub mod smoose;
pub mod union;
