//! The same workloads on Tamarack and its peers, in interleaved rounds.
//!
//! ```text
//! settings ──► for each round: for each workload: for each engine: one run on a fresh database ──► samples ──► report
//! ```
//!
//! Three programs: `sidebyside` times fills without merges, `delays` looks at single puts while everything is merged, `reads-beside` reads.
//!
//! * [`workload`]: which keys and values, in which order, by how many threads, how durable.
//! * [`engines`]: the stores behind one narrow trait.
//! * [`settings`]: what the command line of `sidebyside` asks for.
//! * [`run`]: one fill, timed; [`latency`] collects its latencies.
//! * [`report`]: medians and spreads, as a table and as Markdown; [`machine`] says where they were taken.
//! * [`delays`]: what puts take under a sustained load, beside a thread that shows what the machine itself does.
//! * [`reads`]: what gets and scans cost, with stores, data and a report of their own.

pub mod delays;
pub mod engines;
pub mod latency;
pub mod machine;
pub mod reads;
pub mod report;
pub mod run;
pub mod settings;
pub mod workload;
