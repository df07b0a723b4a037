//! The structure of a tree on storage, and the only code that changes it.
//!
//! ```text
//! Manifest ── current ──▶ Version            immutable; a new one per edit, sharing the rest
//!                           └ TreeVersion    one per tree (keyspace)
//!                               ├ Level      1, 2, … small (young) to large (old)
//!                               │   └ Run    young to old; a list of slices without overlap
//!                               │       └ Slice ──▶ TableFile ──▶ reader, opened when first needed
//!                               └ Compaction in progress: input runs, output run, key ranges done
//! ```
//!
//! Only [`manifest::Manifest`] changes the structure, by committing an
//! [`Edit`](crate::format::edit::Edit). Readers hold a [`version::Version`] as long as they need it
//! and block no one: a table's file is removed after the last version that names it.
//!
//! Knows no policy, plans no compaction, and touches no memtable, except [`state`].

pub mod manifest;

pub mod state;

pub mod memtable_or_run;

pub mod kept_cursors;

pub mod filters;

pub mod level_ids;

mod apply;
mod check;

pub mod occupancy;

pub mod range_delete_cuts;

pub mod version;

mod extent;

mod filter_fpr;

pub mod range_deletes;

pub mod run;

pub mod design;

mod run_index;

pub mod slice;

pub mod table_file;

pub mod chunks;

pub mod broken;

#[cfg(test)]
mod tests;
