//! Background work on the tree: carrying data from where it is to where it should be, in steps of a few milliseconds.
//!
//! ```text
//! scheduler   what is begun, who works on what: asks the planner, hands parts of jobs to workers, commits their edits
//!   desk      everything that is going on
//!   edits     the changes that begin, advance and end a job
//!   filter_rebuild  which filters new tables get, and the loop that gives others to those that exist
//!   filter_inputs   the tree as the filter decider sees it
//!   access_frequency  how often lookups pass each table in vain
//!   job       one merge or flush: pieces of its keys, cursors, steps
//!   output    the tables that a piece writes
//!   retry     what becomes of an attempt that failed
//!   progress  what is going on, as plain values for statistics
//! ```
//!
//! A flush makes a run of level 1 from a sealed buffer, a merge makes one run of several; they are the same kind of job. Neither is ever waited
//! for by a reader.

mod access_frequency;
pub mod crew;
mod desk;
mod edits;
mod filter_inputs;
pub mod filter_rebuild;
mod filter_worker;
mod job;
pub mod output;
pub mod progress;
pub mod retry;
pub mod scheduler;

pub use crew::Crew;
pub use edits::relabelled;
pub use filter_worker::FilterWorker;
pub use output::{Output, OutputSettings, Workshop};
pub use scheduler::{ChangeEstimate, Scheduler, SchedulerSettings, Surroundings};
