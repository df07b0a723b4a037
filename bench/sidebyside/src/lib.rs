//! The same workloads on Tamarack and its peers, in turns.
//!
//! Three programs: `beside` measures everything and makes the report that is to be read; `sidebyside` times fills without merges, also with a sync for each put;
//! `delays` looks at single puts while everything is merged.
//!
//! * [`stores`]: the stores behind one trait.
//! * [`data`]: what is stored, and how keys are drawn; [`load`] stores it; [`check`] compares answers with it byte for byte.
//! * [`rows`]: what is asked, as lists of operations; [`slice`] works through them, timed; [`latency`] collects what single ones take.
//! * [`plan`], [`worker`], [`beside`], [`table`]: what `beside` measures, a process for each store, their turns, and the report.
//! * [`fills`], [`delays`]: the other two programs.

pub mod beside;
pub mod check;
pub mod data;
pub mod delays;
pub mod fills;
pub mod latency;
pub mod load;
pub mod plan;
pub mod rows;
pub mod slice;
pub mod stores;
pub mod table;
pub mod worker;
