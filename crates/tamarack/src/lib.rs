//! An embedded, durable, ordered key-value store: an LSM-tree whose shape (levels, capacities, runs
//! per level) follows a policy that can be changed on a live database.
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
//! A write is acknowledged once it has the [`Durability`] that was asked for. After any crash, what
//! is there is a prefix of the order of commits that contains everything so acknowledged; a
//! [`Batch`] is there whole or not at all. Everything read from storage is checked; damage gives an
//! error that names the file and the offset, never a wrong answer.
//!
//! # Cargo features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `lz4` | yes | block compression with LZ4, in pure Rust |
//! | `zstd` | no | block compression with Zstandard: smaller, slower; needs a C compiler |
//! | `bytes` | no | values become `bytes::Bytes` without a copy |
//! | `metrics` | no | statistics in the OpenMetrics text format: `Stats::to_openmetrics` |
//! | `measure` | no | for benchmarks: lookups report the time of their parts |
//! | `fuzzing`, `internals` | no | parts of the engine, for this repository's tests and tools |
//! | `planted-mistakes` | no | for tests: mistakes that others must notice |
//! | `shuttle` | no | for tests: locks, atomics and threads of a schedule explorer |
//!
//! Opening a database whose blocks need a compression that is not compiled in succeeds; reading
//! such a block is an [`Error`] that names the feature.
//!
//! # In memory
//!
//! [`MemoryEnv`] has files that end with the process: for tests, and for data that may be lost.
//!
//! ```
//! use tamarack::{AdvancedOptions, MemoryEnv, Options};
//!
//! let options = Options::new().advanced(AdvancedOptions::new().env(MemoryEnv::new(1)));
//! let db = options.open("/prices")?;
//! db.put("maple", "12.50")?;
//! # Ok::<(), tamarack::Error>(())
//! ```
//!
//! # What it tells
//!
//! Background work reports through [`tracing`] spans and events, and to a [`Listener`]
//! ([`Options::listener`]). A program that uses the crate `log` instead turns on the feature `log`
//! of `tracing` in its own `Cargo.toml`, and receives the events as log records; nothing else is
//! needed as long as no `tracing` subscriber is set.
//!
//! [`tracing`]: https://docs.rs/tracing
//!
//! # How it is built
//!
//! Modules, high to low; a module imports only what stands below it (the `tidy` crate checks that):
//!
//! | module | what it is |
//! |---|---|
//! | `calibrate` | measuring the device and the processor for cost models |
//! | `db` | [`Db`]: wires the parts |
//! | `checkpoint` | copies as of one moment that share the tables' files |
//! | `open`, `repair` | opening and recovery; verifying and salvaging a damaged database |
//! | `options` | [`Options`], [`AdvancedOptions`] |
//! | `collect` | collecting [`Stats`] |
//! | `ingest` | [`Ingest`]: sorted data straight into tables |
//! | `transaction` | [`Transaction`]: reads and writes at one place of the commit order |
//! | `engine` | the parts of an open database |
//! | `compaction` | flushes, compactions and filter rebuilds in the background |
//! | `write` | [`Batch`], the commit queue, durability |
//! | `read` | lookups, scans, [`Snapshot`] |
//! | `tree` | the state readers pin, versions, runs, the manifest |
//! | `database` | what all trees share: sequence numbers, snapshots, background errors, events |
//! | `wal` | the write-ahead log |
//! | `journal` | the common base of WAL and manifest: records appended, made durable, recovered |
//! | `directory` | the names of a database's files |
//! | `table`, `cache` | immutable files of sorted blocks; the cache of blocks and single entries |
//! | `memtable` | the memtable: sorted entries in memory, until a flush |
//! | `merge` | the k-way merging iterator |
//! | `locks` | the locks of pessimistic transactions, and deadlocks |
//! | `range_tombstones` | ranges of keys that are deleted, and what they hide |
//! | `format` | bytes to values and back: `tamarack-format` |
//! | `events` | events, delivered to a listener |
//! | `step`, `stats` | names of the steps that change storage; statistics |
//! | `operator` | [`MergeOperator`]: merge operators, and ready-made ones ([`operators`]) |
//! | `compaction_filter` | [`CompactionFilter`]: what compactions may drop and change |
//! | `memory`, `entry`, `error` | the account of memory; entries; the error type |
//! | `internals` | parts of the engine for tests and tools, behind a feature |
//! | `measure` | for benchmarks, behind a feature: times of a lookup's parts |
//! | `mistake` | mistakes that tests plant, to see that they are noticed, behind a feature |
//!
//! Modules that are public but hidden from this page are for this repository's tests and tools. All
//! but `step`, the names of the steps that change storage, are behind features; they may change at
//! any time.

#![expect(
    unreachable_pub,
    reason = "`pub` is a module's interface to the engine; this file says what of it leaves the crate"
)]
#![cfg_attr(
    not(any(test, feature = "internals")),
    expect(dead_code, reason = "tests of parts ask the parts for more than the engine does")
)]

mod admission;
mod cache;
mod calibrate;
mod calibration;
mod checkpoint;
mod collect;
mod compaction;
mod compaction_filter;
mod controller;
mod cuckoo;
mod database;
mod db;
mod directory;
mod engine;
mod entry;
mod error;
mod events;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzz;
mod ingest;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod journal;
mod locks;
#[cfg(not(feature = "measure"))]
mod measure;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod measure;
mod memory;
mod memtable;
mod merge;
#[cfg(not(feature = "planted-mistakes"))]
mod mistake;
#[cfg(feature = "planted-mistakes")]
#[doc(hidden)]
pub mod mistake;
mod open;
mod operator;
pub mod operators {
    //! The ready-made merge operators, for
    //! [`Options::merge_operator`](crate::Options::merge_operator).

    pub use crate::operator::check_laws;
    pub use crate::operator::ready::{Add, Append, Max, Min, SetUnion};
}
mod options;
pub mod policy {
    //! Compaction policies as values, to be built and matched on: [`Policy`].
    //!
    //! ```
    //! use tamarack::AdvancedOptions;
    //! use tamarack::policy::{Garnering, Policy};
    //!
    //! let options = AdvancedOptions::new().policy(Policy::from(Garnering::new(2, 0.8, 4)?));
    //! let same = AdvancedOptions::new().policy("garnering:T=2,c=0.8,first=4");
    //! # assert_eq!(format!("{options:?}"), format!("{same:?}"));
    //! # Ok::<(), tamarack::policy::PolicyError>(())
    //! ```

    pub use tamarack_model::policy::{
        Auto, Custom, Dostoevsky, Garnering, LazyLeveling, Leveling, Moose, Policy, PolicyError, QlsmBush, Smoose,
        Tiering,
    };
    pub use tamarack_model::{Bytes, Level, Shape, ShapeError};
}
mod random_reads;
mod range_tombstones;
mod read;
mod redesign;
mod repair;
mod stats;
#[doc(hidden)]
pub mod step;
mod table;
mod transaction;
mod tree;
mod wal;
mod write;

pub use calibrate::Calibration;
pub use checkpoint::CheckpointReport;
pub use compaction::ReshapeEstimate;
pub use compaction_filter::{CompactionFilter, FilterDecision, FilterEntry, FilterFailure};
pub use db::{CompactionPause, Db};
pub use engine::RecoveryReport;
pub use error::{Error, ErrorKind, Result};
pub use events::{EVENTS_MAX, Event, Listener};
pub use ingest::{Ingest, IngestReport};
pub use journal::Dropped;
pub use operator::{MergeFailure, MergeOperator, Merged};
pub use options::{AdvancedOptions, MEMORY_BYTES_MIN, Options};
pub use policy::Policy;
pub use read::{KeyBounds, Scan, Snapshot, Value};
pub use repair::{Lost, RepairReport, Replaced, VerifyReport};
pub use stats::{
    DecisionStats, DiskStats, Figure, JobStats, LOOKUPS_PER_SAMPLE, LatencyStats, LevelStats, LookupCounts,
    MemoryStats, MemtableStats, Percentiles, ReadStats, ReaderStats, RunLookups, RunStats, ScanCounts, SpaceStats,
    Statistic, Stats, WRITES_PER_SAMPLE,
};
#[cfg(feature = "metrics")]
pub use stats::{OPENMETRICS_CONTENT_TYPE, openmetrics};
pub use tamarack_env::histogram::Histogram;
pub use tamarack_env::{Env, MemoryEnv};
pub use tamarack_format::block::Compression;
pub use tamarack_model::device::{Device, DeviceError, ProbeSeconds};
pub use transaction::{PessimisticTransaction, Savepoint, Transaction, TransactionScan};
pub use write::{Batch, Durability};

/// The programs in the documents, compiled and run with the documentation's examples.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/GUIDE.md")]
    struct Guide;
    #[doc = include_str!("../../../docs/COMING_FROM.md")]
    struct ComingFrom;
}
