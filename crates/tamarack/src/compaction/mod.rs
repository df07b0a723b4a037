//! Background work on the tree: flushes, compactions and filter rebuilds, in steps of a few
//! milliseconds.
//!
//! ```text
//! scheduler   carries out the agenda: begins jobs, hands their parts to workers, installs edits
//!   schedule  its state: the design, the agenda, the jobs, their speed
//!   jobs      the flushes and compactions in progress
//!   speed     how fast they copy, and the limit on compactions
//!   edits     the changes that begin, advance and end a job
//!   filter_rebuild    filters of new tables, and the loop that rebuilds those of existing ones
//!   filter_inputs     the tree as the filter decider sees it
//!   filter_worker     the worker of the filter rebuild
//!   tree_filter       changes of a filter over the whole tree, with the edits they belong to
//!   filter_changes    which entries change with an edit
//!   partitions        its partitions: changes, and how they are made anew from digests
//!   key_lists         which keys a part has merged, and from which inputs, for that filter
//!   access_frequency  how often lookups reach each table without finding their key
//!   task      what a job does
//!   job       a compaction or flush: pieces of its keys, cursors, steps
//!   output    the tables that a piece writes
//!   retry     retries of failed jobs
//!   workers   several workers as one
//!   progress  background work in progress, as plain values for statistics
//! ```
//!
//! A flush turns an immutable memtable into a run of level 1, a compaction several runs into one;
//! both are jobs of the same kind. Readers never wait for either.

mod access_frequency;
mod edits;
mod filter_changes;
mod filter_inputs;
pub mod filter_rebuild;
mod filter_worker;
mod job;
mod jobs;
mod key_lists;
pub mod output;
mod partitions;
pub mod progress;
pub mod retry;
mod schedule;
pub mod scheduler;
mod speed;
mod task;
mod tree_filter;
mod workers;

pub use edits::reshaped;
pub use filter_worker::FilterWorker;
pub use output::{CompactionOutput, OutputContext, OutputSettings};
pub use scheduler::{DesignChange, ReshapeEstimate, Scheduler, SchedulerParts, SchedulerSettings};
pub use workers::WorkerGroup;
