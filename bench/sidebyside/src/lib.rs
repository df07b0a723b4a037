//! The same workloads on Tamarack and its peers, in turns.
//!
//! Six programs: `beside` measures everything and makes the report that is to be read; `writes`
//! measures loads, overwrites and updates, with what they cost; `lookups` measures gets over trees
//! of more and more runs, with filters of equal memory; `sidebyside` times fills without
//! compactions, also with a sync for each put; `delays` shows the latencies of single puts under
//! compaction; `defaults` compares engines as they are when nothing is set but the memory.
//!
//! * [`stores`]: the stores behind one trait.
//! * [`data`]: the stored entries, and how keys are drawn; [`drive`] puts and gets them by several
//!   threads, [`load`] stores all; [`check`] compares answers with them byte for byte.
//! * [`process`]: a process for each store, asked by a line of JSON.
//! * [`rows`]: the workloads, as lists of operations; [`slice`] works through them, timed.
//! * [`plan`], [`worker`], [`beside`], [`table`]: what `beside` measures, what a store is asked,
//!   their turns, and the report.
//! * [`writes`], [`lookups`]: the same of `writes` and of `lookups`.
//! * [`outcome`]: figures, reports with plots, and the status that a program ends with.
//! * [`defaults`]: the same of `defaults`; [`confine`] bounds what a process takes.
//! * [`fills`], [`delays`]: the other two programs.

pub mod beside;
pub mod check;
pub mod circumstances;
pub mod confine;
pub mod data;
pub mod defaults;
pub mod delays;
pub mod drive;
pub mod fills;
pub mod load;
pub mod lookups;
pub mod outcome;
pub mod plan;
pub mod process;
pub mod rows;
pub mod slice;
pub mod stores;
pub mod table;
pub mod worker;
pub mod writes;
