//! An embedded, durable, ordered key-value store whose LSM-tree shapes itself to its workload, memory and device.
//!
//! Modules, high to low; a module imports only what stands below it (the `tidy` crate checks this list against the code).

#[doc(hidden)]
pub mod buffer;
#[doc(hidden)]
pub mod cache;
pub mod entry;
pub mod error;
#[doc(hidden)]
pub mod format;
#[doc(hidden)]
pub mod fuzz;
#[doc(hidden)]
pub mod merge;
#[doc(hidden)]
pub mod read;
#[doc(hidden)]
pub mod step;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod tree;

pub use entry::{Entry, EntryKind, Query, Sequence};
pub use error::{Error, Result};
