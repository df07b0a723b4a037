//! The models of Tamarack: what an LSM-tree is, what happens to it, and what that costs, as pure
//! functions on numbers.
//!
//! # Vocabulary
//!
//! | word | meaning |
//! |---|---|
//! | [shape](Shape) | the structure of a tree as data: the buffer's size, and for each level from small to large a capacity and a number of run slots |
//! | [policy] | a function from data size, buffer size and parameters to a shape; nothing else |
//! | [run](Run) | one sorted sequence of entries; within a level, runs are ordered young to old |
//! | [occupancy](Occupancy) | what each level holds: the runs and their sizes |
//! | [planner] | decides what is merged next, from shape and occupancy alone |
//! | [merge](planner::Merge) | a decision: these neighbouring runs become one, in this level, for this cause |
//! | active, static run | the youngest run of a level takes what arrives until it is full; fuller, older ones stay as they are |
//! | [relabel](planner::relabel) | carrying a tree over into another shape by names alone |
//! | [agenda] | what is to be done next to a tree: flush, compaction, new shape or nothing |
//! | [simulation](simulate) | the agenda on counts; the engine's future, without the engine |
//!
//! # An example
//!
//! A tree of three levels, of which the first two may show several runs, takes its ninth flush.
//! Level 1 has two runs of four, and is full with the third:
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
//! // A flush writes one run of level 1. This one fills the level, so it is not merged with anything yet.
//! let flush = planner::flush(&shape, &tree, &[], Bytes(4));
//! assert_eq!(flush.to_string(), "flush buffer 4 into level 1");
//! planner::apply(&mut tree, &flush, Some(Run { id: RunId(9), bytes: Bytes(4), entries: None }));
//!
//! // Something has arrived at level 1. It is full; what comes down from it fills level 2 as well; so all goes to level 3 at once.
//! let merge = planner::next_compaction(&shape, &tree, &[], Occasion::Arrived { level: 1 }).expect("level 1 is full");
//! assert_eq!(merge.to_string(), "merge r9 + r8 + r7 + r6 + r3 into level 3: level 1 is full, and with it level 2");
//! planner::apply(&mut tree, &merge, Some(Run { id: RunId(10), bytes: Bytes(36), entries: None }));
//! assert_eq!(tree.to_string(), "level 1:\nlevel 2:\nlevel 3: r10 36\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a policy will write, before anything is written:
//!
//! ```
//! use tamarack_model::simulate::{Pace, simulate};
//! use tamarack_model::{Bytes, policy};
//!
//! let flushes = vec![Bytes(1); 1000];
//! let amplification = |words| {
//!     let policy = policy::parse(words)?;
//!     Ok::<_, policy::PolicyError>(simulate(policy.as_ref(), Bytes(1), &flushes, Pace::Settled).write_amplification())
//! };
//! assert!(amplification("leveling:T=10")? > 3.0 * amplification("tiering:T=10")?);
//! # Ok::<(), policy::PolicyError>(())
//! ```
//!
//! # Map
//!
//! High to low; a module knows only those below it.
//!
//! | module | what it answers | what it never does |
//! |---|---|---|
//! | [design] | what would a tree be, and what would it cost | search for the best one |
//! | [simulate] | what would become of these flushes | |
//! | [agenda] | what is done next, and when another shape is taken | carry it out |
//! | [pace] | which job is next, and how fast may writers go | ask a clock |
//! | [bound] | what is merged because a tree takes too much space | |
//! | [cost] | what does a shape cost, in closed form | |
//! | [filter_plan] | which filter should each table have, within one budget | read a file |
//! | [allocate] | how many bits of filter does each run get | see a level |
//! | [access_frequency] | how often do lookups pass a table in vain | see a key |
//! | [filter] | what does a filter of so many bits promise | see a key |
//! | [growth] | when does a tree take its policy's next shape | |
//! | [policy] | which shape | see a tree |
//! | [planner] | what is merged next | see a policy |
//! | [occupancy] | what does a tree hold | |
//! | [shape] | what may a tree hold | |
//! | [workload] | what is asked of it | |
//! | [device] | what do steps take | measure them |
//! | [units] | how much | |
//!
//! The whole crate does no I/O, asks no clock, starts no thread, holds no key, depends on nothing,
//! and builds for `wasm32`.

#![forbid(unsafe_code)]

pub mod design;
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
pub mod units;
pub mod workload;

pub use filter::FilterKind;
pub use occupancy::{Occupancy, Run, RunId};
pub use shape::{BUFFER_MAX, Level, Shape, ShapeError};
pub use units::{Bytes, Entries};
