//! Background work on the tree: carrying data from where it is to where it should be, in steps of a few milliseconds.
//!
//! ```text
//! scheduler   what is begun, who works on what: asks the planner, hands parts of jobs to workers, commits their edits
//!   desk      everything that is going on
//!   edits     the changes that begin, advance and end a job
//!   filters   which filters the tables of a job get
//!   job       one merge or flush: pieces of its keys, cursors, steps
//!   retuning  which tables are still to get other filters
//!   output    the tables that a piece writes
//!   retry     what becomes of an attempt that failed
//!   units     how many units of elastic filters are in memory
//!   progress  what is going on, as plain values for statistics
//! ```
//!
//! A flush makes a run of level 1 from a sealed buffer, a merge makes one run of several; they are the same kind of job. Neither is ever waited
//! for by a reader.

pub mod crew;
mod desk;
mod edits;
pub mod filters;
mod job;
pub mod output;
pub mod progress;
pub mod retry;
mod retuning;
pub mod scheduler;
mod units;

pub use crew::Crew;
pub use edits::relabelled;
pub use filters::{Filters, stored_bits};
pub use output::{Output, OutputSettings, Workshop};
pub use scheduler::retune::Retuner;
pub use scheduler::{ChangeEstimate, Scheduler, SchedulerSettings, Surroundings};
