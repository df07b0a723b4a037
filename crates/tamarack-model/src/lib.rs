//! The models of Tamarack: the structure of an LSM-tree, its compactions and its costs, as pure
//! functions on numbers.
//!
//! # Vocabulary
//!
//! | term | meaning |
//! |---|---|
//! | [shape](Shape) | structure of a tree: memtable size, and capacity and run slots per level |
//! | [policy] | a function from data size, memtable size and parameters to a shape |
//! | [run](Run) | one sorted sequence of entries; runs of a level are ordered young to old |
//! | [occupancy](Occupancy) | the runs of each level and their sizes |
//! | [planner] | chooses the next compaction from shape and occupancy alone |
//! | [plan](planner::CompactionPlan) | the runs that become one, the target level, the cause |
//! | active run | the youngest run of a level: takes batches until it is full |
//! | static run | every other run: takes no batches |
//! | [relabel](planner::relabel) | carries a tree over to another shape without moving bytes |
//! | [agenda] | decides the next action for a tree: flush, compaction, new shape or nothing |
//! | [simulation](simulate) | the agenda on counts: predicts the engine without running it |
//!
//! # An example
//!
//! A tree of three levels, of which the first two may have several runs, takes its ninth flush.
//! Level 1 has two runs of four bytes and is full with the third:
//!
//! ```
//! use tamarack_model::planner::{self, Occasion};
//! use tamarack_model::{Bytes, Occupancy, Run, RunId, Shape};
//!
//! let shape: Shape = "\
//! buffer 4
//! level 12 in 3 runs
//! level 36 in 3 runs
//! level 108 in 1 run
//! ".parse()?;
//! let mut tree: Occupancy = "\
//! level 1: r8 4, r7 4
//! level 2: r6 12, r3 12
//! ".parse()?;
//!
//! // A flush writes one run of level 1. This one fills the level, so it joins no other run yet.
//! let flush = planner::flush(&shape, &tree, &[], Bytes(4));
//! assert_eq!(flush.to_string(), "flush memtable 4 into level 1");
//! planner::apply(&mut tree, &flush, Some(Run { id: RunId(9), bytes: Bytes(4), entries: None }));
//!
//! // The arrival finds level 1 full and fills level 2 as well, so everything moves to level 3.
//! let arrived = Occasion::Arrived { level: 1 };
//! let plan = planner::next_compaction(&shape, &tree, &[], arrived).expect("level 1 is full");
//! let why = "level 1 is full and fills level 2";
//! assert_eq!(plan.to_string(), format!("compact r9 + r8 + r7 + r6 + r3 into level 3: {why}"));
//! let output = Run { id: RunId(10), bytes: Bytes(36), entries: None };
//! planner::apply(&mut tree, &plan, Some(output));
//! assert_eq!(tree.to_string(), "level 1:\nlevel 2:\nlevel 3: r10 36\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The write amplification of two policies, predicted:
//!
//! ```
//! use tamarack_model::simulate::{Pace, simulate};
//! use tamarack_model::{Bytes, policy};
//!
//! let flushes = vec![Bytes(1); 1000];
//! let amplification = |specification| {
//!     let policy = policy::parse(specification)?;
//!     let report = simulate(&policy, Bytes(1), &flushes, Pace::Settled);
//!     Ok::<_, policy::PolicyError>(report.write_amplification())
//! };
//! assert!(amplification("leveling:T=10")? > 3.0 * amplification("tiering:T=10")?);
//! # Ok::<(), policy::PolicyError>(())
//! ```
//!
//! # Map
//!
//! From high to low; a module uses only modules below it.
//!
//! | module | question | never |
//! |---|---|---|
//! | [navigator] | the best design for a workload within a memory budget | changes a tree |
//! | [prediction] | mean costs of a tree that does not exist yet | measures anything |
//! | [design] | structure and cost of a hypothetical, full tree | searches for the best one |
//! | [simulate] | outcome of a sequence of flushes | |
//! | [agenda] | next action, and when the shape changes | carries it out |
//! | [pace] | which job continues, and the rate of writers | asks a clock |
//! | [bound] | compactions for an upper bound on space amplification | |
//! | [cost] | cost of a shape in closed form | |
//! | [filter_plan] | the filter of each table within one budget | reads a file |
//! | [allocate] | bits of filter for each run | sees a level |
//! | [access_frequency] | how often lookups miss in a table | sees a key |
//! | [filter] | properties of a filter, predicted from its bits | sees a key |
//! | [growth] | when a tree takes its policy's next shape | |
//! | [policy] | the shape | sees a tree |
//! | [planner] | the next compaction | sees a policy |
//! | [occupancy] | runs of a tree | |
//! | [shape] | structure of a tree | |
//! | [tables] | size of a compaction's tables, and its parts | |
//! | [workload] | mix of operations | |
//! | [device] | duration of a machine's steps, assumed or given as text | measures them |
//! | [units] | bytes and entries | |
//!
//! The crate does no I/O, asks no clock, starts no thread, holds no key, depends on nothing,
//! and builds for `wasm32`.

#![forbid(unsafe_code)]

pub mod navigator;

pub mod design;
pub mod prediction;
pub mod simulate;

pub mod access_frequency;
pub mod agenda;
pub mod allocate;
pub mod bound;
pub mod cost;
pub mod device;
pub mod filter;
pub mod filter_plan;
pub mod growth;
pub mod occupancy;
pub mod pace;
pub mod planner;
pub mod policy;
pub mod shape;
pub mod tables;
pub mod units;
pub mod workload;

pub use filter::FilterKind;
pub use occupancy::{Occupancy, Run, RunId};
pub use shape::{BUFFER_MAX, Level, Shape, ShapeError};
pub use units::{Bytes, Entries};
