//! Background work on the tree: carrying data from where it is to where it should be, in steps of a
//! few milliseconds.
//!
//! ```text
//! scheduler   carries out what the agenda decides: begins jobs, hands their parts to workers, installs their edits
//!   schedule  what it knows of a tree: the design, the agenda, the jobs, their speed
//!   jobs      the flushes and compactions in progress
//!   speed     how fast they copy, and the limit on compactions
//!   edits     the changes that begin, advance and end a job
//!   filter_rebuild  which filters new tables get, and the loop that gives others to those that exist
//!   filter_inputs   the tree as the filter decider sees it
//!   access_frequency  how often lookups pass each table in vain
//!   job       one merge or flush: pieces of its keys, cursors, steps
//!   output    the tables that a piece writes
//!   retry     what becomes of an attempt that failed
//!   workers   several workers as one
//!   progress  what is going on, as plain values for statistics
//! ```
//!
//! A flush makes a run of level 1 from a sealed buffer, a merge makes one run of several; they are
//! the same kind of job. Neither is ever waited for by a reader.

mod access_frequency;
mod edits;
mod filter_inputs;
pub mod filter_rebuild;
mod filter_worker;
mod job;
mod jobs;
pub mod output;
pub mod progress;
pub mod retry;
mod schedule;
pub mod scheduler;
mod speed;
mod workers;

pub use edits::reshaped;
pub use filter_worker::FilterWorker;
pub use output::{Output, OutputSettings, Workshop};
pub use scheduler::{ReshapeEstimate, Scheduler, SchedulerParts, SchedulerSettings};
pub use workers::WorkerGroup;
