//! An embedded, durable, ordered key-value store whose LSM-tree shapes itself to its workload, memory and device.
//!
//! ```no_run
//! use tamarack::{Batch, Db};
//!
//! let db = Db::open("data/prices")?;
//! db.put("maple", "12.50")?;
//! db.write(Batch::new().put("oak", "9.80").delete("maple"))?;
//! for entry in db.scan("a"..="z") {
//!     let (key, value) = entry?;
//!     println!("{} {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # Ok::<(), tamarack::Error>(())
//! ```
//!
//! # What it promises
//!
//! A write is acknowledged once it has the [`Durability`] that was asked for. After any crash, what is there is a prefix of
//! the order of commits that contains everything so acknowledged; a [`Batch`] is there whole or not at all. Everything read from storage is
//! checked; damage gives an error that names the file and the offset, never a wrong answer.
//!
//! # Cargo features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `lz4` | yes | block compression with LZ4, in pure Rust |
//! | `zstd` | no | block compression with Zstandard: smaller, slower; needs a C compiler |
//! | `measure` | no | for benchmarks: lookups report the time of their parts |
//! | `shuttle` | no | for tests: locks, atomics and threads of a schedule explorer |
//!
//! Opening a database whose blocks need a compression that is not compiled in succeeds; reading such a block is an
//! [`Error`] that names the feature.
//!
//! # How it is built
//!
//! Modules, high to low; a module imports only what stands below it (the `tidy` crate checks that):
//!
//! | module | what it is |
//! |---|---|
//! | `db` | [`Db`]: wires the parts |
//! | `checkpoint` | a database of its own that shares the tables' files |
//! | `open`, `repair` | opening and recovery; salvaging what is damaged |
//! | `options` | [`Options`], [`Expert`] |
//! | `verify`, `structure` | checking everything; the numbers of [`Stats`] |
//! | `ingest` | [`Ingest`]: sorted data straight into tables |
//! | `engine` | the parts of an open database |
//! | `compact` | background jobs: flushes and merges |
//! | `write` | [`Batch`], the commit queue, durability |
//! | `read` | lookups, scans, [`Snapshot`] |
//! | `tree` | the state readers pin, versions, runs, the manifest |
//! | `wal` | the write-ahead log |
//! | `table`, `cache` | immutable files of sorted blocks; the cache of blocks and single entries |
//! | `buffer` | the memtable |
//! | `merge` | sorted sources brought together |
//! | `format` | bytes to values and back: `tamarack-format` |
//! | `events` | what happens, told to a listener |
//! | `step`, `stats`, `memory`, `entry`, `error` | names of what changes storage; counters; the account of memory; entries; the error type |
//! | `measure` | for benchmarks, behind a feature: hashes of each filter's own, times of a lookup's parts |
//! | `mistake` | mistakes that tests plant, to see that they are noticed |
//!
//! Modules that are public but hidden from this page are for tests and tools; they may change at any time.

#[doc(hidden)]
pub mod buffer;
#[doc(hidden)]
pub mod cache;
mod checkpoint;
#[doc(hidden)]
pub mod compact;
#[doc(hidden)]
pub mod database;
mod db;
mod engine;
mod entry;
mod error;
#[doc(hidden)]
pub mod events;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod ingest;
#[doc(hidden)]
pub mod measure;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod merge;
#[doc(hidden)]
pub mod mistake;
mod open;
#[doc(hidden)]
pub mod options;
#[doc(hidden)]
pub mod read;
mod repair;
mod stats;
#[doc(hidden)]
pub mod step;
mod structure;
#[doc(hidden)]
pub mod table;
#[doc(hidden)]
pub mod tree;
mod verify;
#[doc(hidden)]
pub mod wal;
#[doc(hidden)]
pub mod write;

pub use checkpoint::CheckpointReport;
pub use compact::ChangeEstimate;
pub use db::{Db, MergePause};
pub use engine::RecoveryReport;
#[doc(hidden)]
pub use entry::{Entry, EntryKind, Query, Sequence};
pub use error::{Error, Result};
pub use events::{EVENTS_MAX, Event, Listener};
pub use ingest::{Ingest, IngestReport};
pub use options::{Expert, MEMORY_BYTES_MIN, Options};
pub use read::{Scan, Snapshot, Value};
pub use repair::{Lost, RepairReport, Replaced};
#[doc(hidden)]
pub use stats::LookupTally;
pub use stats::{LOOKUPS_PER_SAMPLE, LatencyStats, LookupCounts, Percentiles, ReadStats, ReaderStats, RunLookups};
pub use structure::{BufferStats, JobStats, LevelStats, MemoryStats, RunStats, SpaceStats, Stats};
pub use tamarack_format::block::Compression;
pub use verify::VerifyReport;
pub use wal::Dropped;
pub use write::{Batch, DiskStats, Durability};

/// The program in the README, compiled with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
