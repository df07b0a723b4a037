//! The same workloads on Tamarack and its peers, in turns.
//!
//! Three programs: `beside` measures everything and makes the report that is to be read;
//! `sidebyside` times fills without compactions, also with a sync for each put; `delays` shows the
//! latencies of single puts under compaction.
//!
//! * [`stores`]: the stores behind one trait.
//! * [`data`]: the stored entries, and how keys are drawn; [`load`] stores them; [`check`] compares
//!   answers with them byte for byte.
//! * [`rows`]: the workloads, as lists of operations; [`slice`] works through them, timed.
//! * [`plan`], [`worker`], [`beside`], [`table`]: what `beside` measures, a process for each store,
//!   their turns, and the report.
//! * [`fills`], [`delays`]: the other two programs.

pub mod beside;
pub mod check;
pub mod data;
pub mod delays;
pub mod fills;
pub mod load;
pub mod plan;
pub mod rows;
pub mod slice;
pub mod stores;
pub mod table;
pub mod worker;
