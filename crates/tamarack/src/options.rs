//! Options of a database. Modules below `db` do not see these types: each gets the small struct it
//! needs.
//!
//! ```text
//! two tables of rows ─┬─► Options, AdvancedOptions (fields, setters, docs) ─ resolve ─► Resolved
//!                     └─► docs/OPTIONS.md
//! ```
//!
//! [`Options`] has the settings that most programs need; [`AdvancedOptions`] overrides those that
//! are derived from them. To add an option, write its row, use its field in `Options::resolve`, and
//! cover its default and range in the tests below.

mod rows;

use std::fmt;
use std::sync::Arc;

use tamarack_env::Env;
use tamarack_env::os::OsEnv;
use tamarack_model::BUFFER_MAX;
use tamarack_model::bound::{SPACE_BOUND_MIN, SpaceBound};
use tamarack_model::filter::{FilterChoice, FilterError};
use tamarack_model::policy::{self, Policy};

use crate::compaction_filter::{CompactionFilter, RegisteredFilter};
use crate::error::{Error, Result};
use crate::events::Listener;
use crate::format::block::Compression;
use crate::format::shape::BLOCK_BYTES;
use crate::memory::Budget;
use crate::operator::{MergeOperator, NAME_BYTES_MAX};
use crate::redesign::keeps_digests;
use crate::table::{TableAccess, open_files_max};
use crate::tree::manifest::ROLL_BYTES_MIN;
use crate::wal::Tail;
use crate::write::Durability;
use crate::write::batch::VALUE_BYTES_MAX;

pub use rows::Row;
use rows::{Unshown, options};

/// Minimum memory budget, in bytes. Below it, not even small writes fit into the eighth of the
/// budget that one write may take.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Maximum size of a block, in bytes: lookups read whole blocks, and compactions keep several in
/// memory for each input.
const BLOCK_BYTES_MAX: usize = *BLOCK_BYTES.end() as usize;

/// Default filter: a low false positive rate for little memory, and one cache line per probe.
const DEFAULT_FILTER: &str = "blocked:bits=10,allocation=monkey";

/// Default of `late_memtables_max`: about as many runs more as RocksDB allows before it slows
/// writers down (20).
const LATE_MEMTABLES_MAX: usize = 16;

/// Default memory budget, in bytes.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

options! {
    /// Options of opening a database.
    ///
    /// ```no_run
    /// use tamarack::{Durability, Options};
    ///
    /// let options = Options::new().memory_bytes(512 << 20).durability(Durability::Sync);
    /// let db = options.open("data/prices")?;
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    Options = {
        /// Memory budget of the database, in bytes, for memtables, filters, indexes, caches, scans,
        /// flushes and compactions together. [`crate::Db::stats`] shows the share of each.
        ///
        /// The memtable's size is an eighth of the budget, and so is the largest value or batch.
        /// The block cache takes what the other parts leave and shrinks when they grow; values and
        /// iterators that the program keeps count as well. Usage may exceed the budget by an eighth
        /// and 1 MiB, for allocations of a single call and until the cache has shrunk, and, while
        /// values near the largest size are written, by up to four of them per background thread. A
        /// process that reads many blocks at once keeps another 4 MiB, shared by all its databases.
        /// A search for a design (`Stats::searching_design`) takes one to two MiB while it lasts.
        /// If filters, indexes and pinned memory alone exceed the budget, the database goes on, and
        /// [`crate::MemoryStats::over_bytes`] shows by how much. What transactions have
        /// read, written and locked counts as well, and is not bounded either: it goes with the
        /// transaction.
        ///
        /// Where memory is short, work waits or slows down:
        ///
        /// * Writes of more than a 64th of the largest size take turns, so that those in progress
        ///   take no more than one of the largest; so do queries' reads of blocks that have as much
        ///   on storage, at the latest from 512 KiB on. Such a write waits for flushes, too, while
        ///   memtables, compactions and what readers pin leave it too little of three quarters of
        ///   the budget, or of what all memtables take if that is more.
        /// * A read of a block of 1 MiB and more first waits for others to release what they have
        ///   read, a millisecond for each MiB at most, while the budget has no space for it and
        ///   pinned blocks take more than an eighth; so do compactions while theirs do.
        /// * While pinned blocks take more than an eighth of the budget, a scan over many runs
        ///   keeps large values in memory only where they are next, and reads them twice; so do
        ///   compactions while they take as much.
        /// * Iterators release their cursors between calls, so that each call begins with a seek,
        ///   if all cursors, taken as 16 KiB for each run, would take more than an eighth of the
        ///   budget (and more than 4 MiB); also if all that readers pin does, while the cache
        ///   cannot shrink any more. Eight iterators may keep theirs all the same, or one, if all
        ///   cursors would take more than half of the budget and 32 MiB; idle ones count. What an
        ///   iterator has lent last is kept, as a copy; an iterator that lends an entry of more
        ///   than 16 KiB keeps its cursors.
        ///
        /// Resident memory of the process is larger than the account
        /// ([`crate::MemoryStats::total_bytes`]), for three reasons:
        ///
        /// * The memory of the program is its own: its values, the keys and values that an iterator
        ///   copies, the iterators themselves, code, and stacks of threads.
        /// * A [`crate::Value`] pins its block or memtable, which is charged, but nothing makes the
        ///   program drop it: 64 threads that each keep a value of 4 MiB keep 256 MiB.
        /// * An allocator keeps what is freed. Buffers of 128 KiB and more give their pages back to
        ///   the operating system (on Linux). Smaller ones do not, and the C library's allocator
        ///   has a heap for every few threads, up to eight per core. While many iterators release
        ///   their cursors, the library makes it give back all whole pages that are free, once in
        ///   4,096 times (`malloc_trim`, with glibc). That takes some milliseconds for each hundred
        ///   MiB that the whole process has from this allocator. A program with many threads and a
        ///   small budget can limit the number of heaps (`MALLOC_ARENA_MAX=2` in its environment)
        ///   or choose an allocator that returns memory (jemalloc, mimalloc). The library changes
        ///   no settings of the allocator.
        ///
        /// The page cache of the operating system is neither in the account nor in the process.
        ///
        /// `cargo run --release -p tamarack --example resident_memory` measures resident memory
        /// from the outside under hostile loads.
        ///
        /// The memtable's size is part of the tree's shape: opening a database with another budget
        /// changes its shape. Without this option (and without [`AdvancedOptions::memtable_bytes`])
        /// a database keeps its memtable's size.
        ///
        /// Raise it if the working set does not fit the block cache.
        memory_bytes(bytes: u64) -> u64, default "256 MiB", range "at least 1 MiB";

        /// Durability of acknowledged writes: the failures that they survive. After any crash the
        /// database has a prefix of the commit order. [`crate::Db::write_with`] sets it for one
        /// write.
        ///
        /// * `Buffered`: the operating system has the write. It survives the end of the process; a
        ///   crash of the machine can lose the last writes.
        /// * `Interval`: the same, and a sync begins at most this much later.
        /// * `Sync`: storage has the write. It survives a crash of the machine; concurrent writers
        ///   share a sync.
        durability(durability: Durability) -> Durability, default "[`Durability::Buffered`]", range "[`Durability::Buffered`], [`Durability::Interval`], [`Durability::Sync`]";

        /// Compression of the blocks of new tables. Existing tables stay as they are until they are
        /// compacted. Zstandard takes less space and more CPU time than LZ4. While disk space is
        /// low, compactions keep a stronger compression that their inputs have.
        compression(compression: Compression) -> Compression,
            default "LZ4 if the feature `lz4` is on (it is by default), else none", range "what this build has the feature for";

        /// Whether opening a directory without a database creates one.
        create_if_missing(create: bool) -> bool, default "true", range "true or false";

        /// Number of background threads for flushes and compactions. More threads finish
        /// compactions sooner if the device can follow, and take CPU time from the rest of the
        /// program. On Linux all background threads run at a niceness of 5 above the thread that
        /// opens the database, so that threads that read and write have the processor first.
        threads(threads: usize) -> usize, default "as many as the machine has cores, at most 4", range "at least 1";

        /// Upper bound on space amplification: raw bytes in the tree per live raw byte. Without a
        /// bound it follows from the policy: where the same keys are overwritten all the time,
        /// about 1.1 in a large full tree of `leveling:T=10` and 5.3 in one of `tiering:T=4`, and
        /// more in a tree that has just grown.
        ///
        /// The bound holds under any policy. When the worst case
        /// ([`crate::Stats::space_amplification_worst`], computed from the numbers of entries and
        /// tombstones in each run) exceeds it, all runs from the oldest on that are in no
        /// compaction become one, with the bound as the compaction's cause. The true value may be
        /// lower; if the sizes of entries differ much, the worst case is an estimate. With a bound
        /// of b, these compactions write at most b / (b - 1) bytes for each byte written, and up to
        /// twice as many in a busy tree: 3 with 1.5, 11 with 1.1. If they are frequent, a policy
        /// with fewer runs is cheaper.
        ///
        /// Entries that snapshots and iterators pin count as live. Compactions in progress may take
        /// more space. Memtables, the WAL, and the effect of compression are not counted. The bound
        /// is part of the database's design: it holds until the database is opened with another
        /// one; `f64::INFINITY` removes it.
        space_amplification_max(factor: f64) -> f64, default "what the database has; no bound for a new one", range "at least 1.01";

        /// Listener for events of background work and storage: flushes, compactions, write
        /// throttling and stalls, full and slow disks, corruption, and failures and recoveries of
        /// background work. [`crate::Event`] lists the events, [`crate::Listener`] what a listener
        /// may do.
        listener(listener: Arc<dyn Listener>) -> Unshown<Arc<dyn Listener>>, default "none", range "any listener";

        /// Merge operator: what [`crate::Db::merge`] does to values. [`crate::operators`] has
        /// ready-made ones; [`crate::MergeOperator`] is what others implement. The database records
        /// the operator's name. It does not open with an operator of another name while it has
        /// operands; once compactions have merged all of them, the operator can be replaced.
        ///
        /// Without this option, a ready-made operator whose name is recorded is used. If there is
        /// none, a database with operands opens, and reads of keys that have some fail
        /// ([`crate::Error::Merge`]).
        merge_operator(operator: Arc<dyn MergeOperator>) -> Unshown<Arc<dyn MergeOperator>>, default "the recorded one, if it is ready-made; else none", range "any operator with a name of 1 to 255 bytes";

        /// Compaction filter: what compactions drop or change of the entries that they write, such
        /// as entries that have expired. [`CompactionFilter`] says which entries it is shown, and
        /// when its decisions take effect. Nothing on storage depends on it: a database opens with
        /// another filter, or without one.
        compaction_filter(filter: Arc<dyn CompactionFilter>) -> Unshown<Arc<dyn CompactionFilter>>, default "none", range "any filter";

        /// Overrides of derived settings.
        advanced(advanced: AdvancedOptions) -> AdvancedOptions, default "nothing overridden", range "see [`AdvancedOptions`]";
    }
}

options! {
    /// Overrides of settings that are otherwise derived. The defaults suit most programs; measure
    /// before and after a change.
    AdvancedOptions = {
        /// Environment: storage, clock, random numbers and threads. Tests use memory or the
        /// simulator here.
        env(env: Arc<dyn Env>) -> Unshown<Arc<dyn Env>>, default "the operating system", range "any environment";

        /// Size of a memtable, in raw bytes of its entries (keys, values, and 8 per entry). A
        /// larger memtable makes fewer and larger runs and so lowers write amplification; it takes
        /// more memory, and recovery takes longer.
        memtable_bytes(bytes: u64) -> u64,
            default "an eighth of the memory budget, if one was set; else what the database has; else 32 MiB", range "at least 1, at most 128 TiB";

        /// Maximum number of immutable memtables that wait for their flush; at the maximum, writes
        /// stall. More of them absorb longer bursts of writes and take memory.
        immutable_memtables_max(count: usize) -> usize, default "3", range "at least 1";

        /// Size of a block of new tables with its trailer, in bytes, before compression. Larger
        /// blocks compress better and need a smaller index, but each lookup reads a whole block.
        /// Existing tables keep their blocks until compactions rewrite them. With the policy
        /// `auto`, the navigator may choose other sizes, up to 32 KiB, unless this option is set.
        block_bytes(bytes: usize) -> usize, default "4096, until the policy `auto` chooses another size", range "at least 64, at most 16 MiB";

        /// Size of a table file, in bytes; a run continues in another table beyond it. A compaction
        /// needs temporary space of about one table per input: smaller tables need less of it, but
        /// cost more syncs and memory. While disk space is low, new tables have at most about a
        /// 1024th of the disk.
        table_bytes(bytes: u64) -> u64, default "a thirty-second of the run, between 2 and 64 MiB", range "at least 1";

        /// Upper limit on the rate of compactions, in raw bytes per second. Flushes are not
        /// limited. A limit below the rate that the writes need throttles writers.
        compaction_bytes_per_second(bytes: u64) -> u64, default "no limit", range "at least 1";

        /// Maximum amount by which compactions may be late, in memtables. A compaction is late when
        /// the level that it empties is full again before it has ended. Writers are throttled only
        /// as the allowance is used up, so bursts of writes run at full speed, and late compactions
        /// write less, since each takes more with it. Lookups and scans search up to so many runs
        /// more meanwhile; when writers rest, the tree takes its shape again. With 0, writers are
        /// throttled so that no compaction is late; likewise with a bound on space amplification
        /// ([`Options::space_amplification_max`]), and while disk space is low.
        late_memtables_max(count: usize) -> usize, default "16", range "from 0 on";

        /// Compaction policy, which gives the tree its shape: the number of levels, their
        /// capacities, and the number of runs in each. More runs per level lower write
        /// amplification, and raise read and space amplification. Where level 1 has more than level
        /// 2, its runs become one when nothing has been flushed for some seconds.
        ///
        /// `moose` makes `last` of all capacity that of the last level (0.5 to 0.99), with `k √r`
        /// runs (k from 0.01 to 100) in a level that is r times the one above, and chooses the
        /// ratios r. A larger `k` makes updates cheaper, and scans more expensive; what `last` is
        /// best depends on how numbers of runs are rounded, and `tamarack design` compares.
        /// `smoose` chooses the ratios for a workload: `range` is its share of scans (0.0001 to 1),
        /// `update` its share of updates over the entries that a block has (0.00001 to 1). Where
        /// scans prevail it makes fewer and larger levels, and fewer runs.
        ///
        /// With `auto`, the navigator chooses, and goes on choosing: it counts lookups, scans and
        /// writes, and when another design is predicted to save more time than the change to it
        /// takes, it changes policy, size of memtables (unless
        /// [`AdvancedOptions::memtable_bytes`] is set), filters (unless
        /// [`AdvancedOptions::filter`] is) and size of blocks (unless
        /// [`AdvancedOptions::block_bytes`] is). It begins with the policy that the database has,
        /// `leveling:T=5,first=4` in a new one. The policy in use is what follows `auto:` in
        /// [`crate::Stats::policy`], and [`crate::Db::design_history`] says why.
        ///
        /// Opening a database with another policy than it has changes its shape, as
        /// [`crate::Db::set_policy`] does. Takes a specification or a [`crate::Policy`].
        policy(policy: impl Into<String>) -> String,
            default "what the database has; `auto:leveling:T=5,first=4` for a new one",
            range "`auto`, `leveling:T=10` (with a first level of four runs `leveling:T=10,first=4`), `tiering:T=4`, `lazy-leveling:T=5`, `dostoevsky:T=5,K=4,Z=1`, `garnering:T=2,c=0.8` (likewise \
                   `garnering:T=2,c=0.8,first=4`), `moose:last=0.8,k=1`, `smoose:last=0.8,k=0.5,range=0.33,update=0.0825`, `qlsm-bush:T=2,X=2` (the last four with these numbers where some or all are left out, as in `moose`; \
                   and smoose has a k of √(update/range) then), or a shape of your own as \
                   `custom:buffer 64MiB; level 640MiB in 1 run; level 6400MiB in 1 run`";

        /// Filters of tables and the allocation of memory among them. A filter lets a lookup skip a
        /// table that does not have its key, except for false positives: about 1 % at 10 bits per
        /// entry and 10 % at 5. It stays in memory while its table is open. A `blocked` Bloom
        /// filter costs a lookup one cache line; a `bloom` filter has a slightly lower false
        /// positive rate. Existing tables get another filter in the background
        /// ([`AdvancedOptions::filter_digests`]). Filters of the right kind stay as they are while
        /// they keep to the memory and lookups would gain little.
        ///
        /// The allocation sets the bits per entry of each run for the same total memory:
        ///
        /// * none: equal bits per entry in all runs;
        /// * `monkey`: more bits per entry for small runs, fewer (perhaps none) for large ones,
        ///   which minimizes the expected false positives of zero-result lookups;
        /// * `monkey-general`: the same for a mix of `v` lookups of existing keys per zero-result
        ///   lookup;
        /// * `observed`: the same for the measured workload: a run's bits, set when it is built,
        ///   follow from the false positives of about the last half million lookups. It pays where
        ///   most lookups find their key. A database that was just opened begins as with `monkey`.
        ///
        /// `elastic` filters are several small filters per table, all of them stored, with twice as
        /// many bits as the option says; those of hot tables are loaded and those of cold ones
        /// dropped, within the memory that the option allows. They pay where lookups are skewed
        /// towards some ranges of keys. A lookup costs one cache line per small filter that it
        /// probes. Tables that were written with other filters keep those until a compaction
        /// rewrites them.
        ///
        /// `chucky` is one filter for the whole tree, which maps each key to the runs that hold it:
        /// a lookup reads two cache lines, however many runs there are, and has few false
        /// positives. It pays where levels have many runs, as with tiering, and from three runs on
        /// where many keys are looked up that are not there. Loads of small entries at full speed
        /// take 1.6 times as long as with Bloom filters. It is made of digests, which tables then
        /// always store, after opening and in the background; until then lookups search all runs.
        /// It needs at least 10 bits per entry; 10, 12, 14.2 and 18 are good sizes.
        ///
        /// Without this option a database keeps its filters.
        filter(specification: &str) -> String,
            default "what the database has; `blocked:bits=10,allocation=monkey` for a new one",
            range "`blocked:bits=10`, `bloom:bits=10`, with any number of bits per entry above 0 and up to 64, also as `bloom:bits=5,allocation=monkey`, \
                   `bloom:bits=5,allocation=monkey-general,v=3` and `bloom:bits=5,allocation=observed`; `elastic:bits=10`; `chucky:bits=12`, from 10 on; or `none`";

        /// Whether new tables store the digests of their keys, so that a filter of another size or
        /// kind can be rebuilt without reading data: when another filter is chosen, and when the
        /// allocation changes with the tree. Digests take 31 to 35 bits per key of a table's file,
        /// 3 to 4 % of its size at entries of 116 bytes, and no memory. A table without digests
        /// keeps the filter it was written with. With the filter `none`, no digests are stored;
        /// with `chucky`, they always are.
        filter_digests(keep: bool) -> bool, default "true", range "true or false";

        /// Maximum size of the block cache and the entry cache together, in bytes; 0 disables both.
        /// If no memory budget was set, the budget grows to fit it. Index blocks of open tables
        /// (mostly 0.5 to 0.7 % of their data) are kept beside the cache, up to a quarter of its
        /// size; further index blocks share the cache with data blocks.
        cache_bytes(bytes: u64) -> u64, default "what the other parts leave of the memory budget", range "from 0 on";

        /// Maximum size of the index blocks of open tables that are kept beside the block cache, in
        /// bytes. Those of new tables are kept from when they are written, and those of other
        /// tables are loaded after opening, until an eighth is left, which is for those that
        /// lookups read. With 0 and no cache, each read of a data block costs another read of its
        /// index block; with enough, reads without a cache are those that models of LSM-trees
        /// count.
        index_bytes(bytes: u64) -> u64, default "a quarter of the cache's size", range "from 0 on";

        /// Minimum size at which the manifest is rewritten, in bytes; it is rewritten once it is
        /// also four times the size of a description of the present state. A larger one is
        /// rewritten less often and takes longer to read at opening.
        manifest_bytes(bytes: u64) -> u64, default "1 MiB", range "from 0 on";

        /// Free disk space reserved for flushes and compactions, in bytes. While less is free, puts
        /// fail with an error for which [`crate::Error::is_storage_full`] is true, while deletes
        /// and background work go on; once a quarter more than the reserve is free, puts succeed
        /// again. Deletes fail with that error as well while little more is free than compactions
        /// need; these free what was deleted, so try again after a moment. With 0, writes go on
        /// until the disk is full: nothing is lost, but compactions that would free space may lack
        /// the space to begin.
        reserve_bytes(bytes: u64) -> u64,
            default "all memtables that there may be, each with a piece of the WAL (144 MiB for memtables of 32 MiB), at most a quarter of the disk, and what a compaction of all runs takes, at most an eighth of the disk", range "from 0 on";

        /// Whether tables are read with direct I/O, past the operating system's page cache. Without
        /// it, the page cache uses the machine's free memory, beyond the database's budget, and a
        /// database that fits it is read at the speed of memory.
        ///
        /// With it, tables are cached in the block cache only: the budget bounds the memory used,
        /// large scans and compactions evict nothing, and nothing is cached twice. Combine it with
        /// a large [`AdvancedOptions::cache_bytes`]. Compactions then read their inputs from the
        /// device as well; a thread reads ahead for them. Writes use the page cache either way. On
        /// a file system without direct I/O the option has no effect.
        direct_io(direct: bool) -> bool, default "false", range "true or false";

        /// Maximum number of files of tables that are open at a time. With more tables than that, a
        /// table's file is closed when it was not read for a while, and opened again when it is; a
        /// read in progress keeps its file. Besides, a database opens a few files for its WAL, its
        /// manifest and directories, and some for each background thread.
        open_files_max(count: usize) -> usize, default "half of the process's limit of open files when the database is opened", range "at least 1";

        /// Whether opening fails if the WAL does not end cleanly. Without it, an incomplete end
        /// that a crash left, after everything known to be durable, is dropped and reported
        /// ([`crate::RecoveryReport`]).
        strict_recovery(strict: bool) -> bool, default "false", range "true or false";
    }
}

impl Options {
    /// Checks the options and derives those that were not set.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        let nothing = AdvancedOptions::new();
        let advanced = self.advanced.as_ref().unwrap_or(&nothing);
        let memory_bytes = self.memory_bytes.unwrap_or(MEMORY_BYTES_DEFAULT);
        let immutable_memtables_max = advanced.immutable_memtables_max.unwrap_or(3);
        let lz4_or_none = if Compression::Lz4.is_available() { Compression::Lz4 } else { Compression::None };
        let compression = self.compression.unwrap_or(lz4_or_none);
        if memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::InvalidArgument(format!(
                "a memory budget of {memory_bytes} bytes: at least {MEMORY_BYTES_MIN} are needed"
            )));
        }
        if !compression.is_available() {
            return Err(Error::InvalidArgument(format!(
                "compression {compression:?}: this build of tamarack lacks its feature"
            )));
        }
        let at_least = |name: &str, value: Option<u64>, least: u64| match value {
            Some(value) if value < least => {
                Err(Error::InvalidArgument(format!("{name} of {value}: at least {least} is needed")))
            }
            _ => Ok(()),
        };
        at_least("memtable_bytes", advanced.memtable_bytes, 1)?;
        if let Some(bytes) = advanced.memtable_bytes.filter(|bytes| *bytes > BUFFER_MAX.0) {
            return Err(Error::InvalidArgument(format!("memtable_bytes of {bytes}: at most {BUFFER_MAX} are allowed")));
        }
        at_least("block_bytes", advanced.block_bytes.map(|bytes| bytes as u64), 64)?;
        if let Some(bytes) = advanced.block_bytes.filter(|bytes| *bytes > BLOCK_BYTES_MAX) {
            return Err(Error::InvalidArgument(format!(
                "block_bytes of {bytes}: at most {BLOCK_BYTES_MAX} are allowed"
            )));
        }
        at_least("immutable_memtables_max", advanced.immutable_memtables_max.map(|count| count as u64), 1)?;
        at_least("table_bytes", advanced.table_bytes, 1)?;
        at_least("open_files_max", advanced.open_files_max.map(|count| count as u64), 1)?;
        at_least("compaction_bytes_per_second", advanced.compaction_bytes_per_second, 1)?;
        at_least("threads", self.threads.map(|threads| threads as u64), 1)?;
        let space_bound = match self.space_amplification_max {
            // Removes the bound that the database has.
            Some(f64::INFINITY) => None,
            Some(most) => Some(SpaceBound::new(most).ok_or_else(|| {
                let why = "it is raw bytes in the tree per live byte";
                Error::InvalidArgument(format!(
                    "space_amplification_max of {most}: {why}, so at least {SPACE_BOUND_MIN} is needed"
                ))
            })?),
            None => None,
        };
        let memtable_bytes = advanced.memtable_bytes.unwrap_or((memory_bytes / 8).min(BUFFER_MAX.0));
        // The most memtables at a time, with half as much again for the memory that entries take
        // beyond their raw bytes.
        let all_memtables = (immutable_memtables_max as u64 + 1).saturating_mul(memtable_bytes).saturating_mul(3) / 2;
        let budget_bytes = match self.memory_bytes {
            Some(bytes) => bytes,
            None => {
                memory_bytes.max(advanced.cache_bytes.unwrap_or(0).saturating_add(all_memtables).saturating_mul(5) / 4)
            }
        };
        let env = advanced.env.clone().map_or_else(|| OsEnv::new() as Arc<dyn Env>, |Unshown(env)| env);
        Ok(Resolved {
            threads: self.threads.unwrap_or_else(|| env.cores().clamp(1, 4)),
            policy: advanced.policy.as_deref().map(parse_policy).transpose()?,
            filter: parse_filter(advanced.filter.as_deref().unwrap_or(DEFAULT_FILTER))?,
            open_files_max: advanced.open_files_max.unwrap_or_else(|| open_files_max(&*env)),
            env,
            durability: self.durability.unwrap_or(Durability::Buffered),
            compression,
            create_if_missing: self.create_if_missing.unwrap_or(true),
            memtable_bytes,
            memtables_memory_max: (memory_bytes / 4).saturating_mul(3).max(all_memtables),
            is_memtable_given: advanced.memtable_bytes.is_some(),
            keeps: Kept {
                memtable_bytes: self.memory_bytes.is_none() && advanced.memtable_bytes.is_none(),
                filter: advanced.filter.is_none(),
                space_bound: self.space_amplification_max.is_none(),
            },
            memtable_bytes_max: (memory_bytes / 2).max(advanced.memtable_bytes.unwrap_or(0)),
            write_bytes_max: (memory_bytes / 8).min(VALUE_BYTES_MAX),
            immutable_memtables_max,
            late_memtables_max: advanced.late_memtables_max.unwrap_or(LATE_MEMTABLES_MAX),
            block_bytes: advanced.block_bytes.unwrap_or(4096),
            is_block_given: advanced.block_bytes.is_some(),
            table_bytes: advanced.table_bytes,
            compaction_rate: advanced.compaction_bytes_per_second,
            space_bound,
            filter_digests: advanced.filter_digests.unwrap_or(true),
            budget: Budget::new(budget_bytes, advanced.cache_bytes.unwrap_or(u64::MAX)),
            manifest_bytes: advanced.manifest_bytes.unwrap_or(ROLL_BYTES_MIN),
            direct_io: advanced.direct_io.unwrap_or(false),
            index_bytes: advanced.index_bytes,
            reserve_bytes: advanced.reserve_bytes,
            listener: self.listener.clone().map(|Unshown(listener)| listener),
            compaction_filter: self.compaction_filter.clone().map(|Unshown(filter)| {
                let value_bytes_max = (memory_bytes / 8).min(VALUE_BYTES_MAX);
                RegisteredFilter::new(filter, value_bytes_max)
            }),
            merge_operator: operator(self.merge_operator.clone().map(|Unshown(operator)| operator))?,
            tail: if advanced.strict_recovery.unwrap_or(false) { Tail::Strict } else { Tail::MayBeTorn },
        })
    }
}

/// Parses the specification of a policy.
///
/// # Errors
/// [`Error::InvalidArgument`] that lists the valid specifications.
pub(crate) fn parse_policy(specification: &str) -> Result<Arc<Policy>> {
    let policy = policy::parse(specification).map_err(|error| Error::InvalidArgument(error.to_string()))?;
    Ok(Arc::new(policy))
}

/// The registered operator, if its name can be recorded.
///
/// # Errors
/// [`Error::InvalidArgument`] if it cannot.
fn operator(registered: Option<Arc<dyn MergeOperator>>) -> Result<Option<RegisteredOperator>> {
    let Some(registered) = registered else { return Ok(None) };
    let bytes = registered.name().len();
    if !(1..=NAME_BYTES_MAX).contains(&bytes) {
        let what = format!("merge_operator with a name of {bytes} bytes: 1 to {NAME_BYTES_MAX} are allowed");
        return Err(Error::InvalidArgument(what));
    }
    Ok(Some(RegisteredOperator(registered)))
}

/// Parses the specification of a filter.
///
/// # Errors
/// [`Error::InvalidArgument`] that lists the valid specifications.
pub(crate) fn parse_filter(specification: &str) -> Result<FilterChoice> {
    specification.parse().map_err(|error: FilterError| Error::InvalidArgument(error.to_string()))
}

impl Resolved {
    /// The size of memtables, in raw bytes, of which there may be as many as the options say
    /// without a write stall.
    pub(crate) fn usual_memtable_bytes_max(&self) -> u64 {
        let memtables = self.immutable_memtables_max as u64 + 1;
        (self.memtables_memory_max.saturating_mul(2) / memtables.saturating_mul(3)).min(self.memtable_bytes_max)
    }

    /// How tables are read.
    pub(crate) fn table_access(&self) -> TableAccess {
        TableAccess { direct: self.direct_io, open_files_max: self.open_files_max }
    }

    /// True if new tables store digests.
    pub(crate) fn keeps_digests(&self) -> bool {
        keeps_digests(self.filter, self.filter_digests)
    }
}

/// Parts of a database's design that the options leave as they are. (For the policy, `None` says
/// so.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The size of memtables.
    pub(crate) memtable_bytes: bool,
    /// The filters.
    pub(crate) filter: bool,
    /// The upper bound on space amplification.
    pub(crate) space_bound: bool,
}

/// Options with all settings derived.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) durability: Durability,
    pub(crate) compression: Compression,
    pub(crate) create_if_missing: bool,
    pub(crate) memtable_bytes: u64,
    /// True if the options say how large memtables are, beside what follows from the budget.
    pub(crate) is_memtable_given: bool,
    /// Parts of its design that an existing database keeps.
    pub(crate) keeps: Kept,
    /// Upper bound on the memtable size of a custom shape, in raw bytes.
    pub(crate) memtable_bytes_max: u64,
    pub(crate) write_bytes_max: u64,
    pub(crate) immutable_memtables_max: usize,
    pub(crate) late_memtables_max: usize,
    /// Memory of all memtables at which writes stall, in bytes.
    pub(crate) memtables_memory_max: u64,
    pub(crate) block_bytes: usize,
    /// True if the options say how large blocks are.
    pub(crate) is_block_given: bool,
    pub(crate) table_bytes: Option<u64>,
    pub(crate) compaction_rate: Option<u64>,
    pub(crate) space_bound: Option<SpaceBound>,
    pub(crate) threads: usize,
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) filter: FilterChoice,
    pub(crate) filter_digests: bool,
    pub(crate) budget: Budget,
    pub(crate) manifest_bytes: u64,
    pub(crate) direct_io: bool,
    pub(crate) open_files_max: usize,
    /// `None` derives it from the cache's size.
    pub(crate) index_bytes: Option<u64>,
    /// `None` derives it.
    pub(crate) reserve_bytes: Option<u64>,
    pub(crate) listener: Option<Arc<dyn Listener>>,
    pub(crate) merge_operator: Option<RegisteredOperator>,
    pub(crate) compaction_filter: Option<RegisteredFilter>,
    pub(crate) tail: Tail,
}

/// The merge operator of the options.
#[derive(Clone)]
pub(crate) struct RegisteredOperator(pub(crate) Arc<dyn MergeOperator>);

impl fmt::Debug for RegisteredOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

#[cfg(test)]
mod tests {
    use tamarack_env::SimEnv;

    use super::*;

    fn row(name: &str) -> &'static Row {
        let mut rows = Options::TABLE.iter().chain(AdvancedOptions::TABLE);
        rows.find(|row| row.name == name).unwrap_or_else(|| panic!("no option {name}"))
    }

    /// The defaults are those of the rows, and every row is covered.
    #[test]
    fn defaults_are_what_the_tables_say() {
        let resolved = Options::new().resolve().expect("the defaults are valid");
        let fresh = Options::new()
            .advanced(AdvancedOptions::new().env(Arc::new(SimEnv::new(1))))
            .open("/db")
            .expect("a new database");
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        let holds = [
            ("memory_bytes", mebibytes(resolved.budget.total_bytes)),
            ("durability", format!("[`Durability::{:?}`]", resolved.durability)),
            ("compression", if cfg!(feature = "lz4") { "LZ4 if" } else { "else none" }.to_owned()),
            ("create_if_missing", resolved.create_if_missing.to_string()),
            ("memtable_bytes", mebibytes(resolved.memtable_bytes)),
            ("immutable_memtables_max", resolved.immutable_memtables_max.to_string()),
            ("late_memtables_max", resolved.late_memtables_max.to_string()),
            ("block_bytes", resolved.block_bytes.to_string()),
            ("table_bytes", resolved.table_bytes.map_or("of the run".to_owned(), |bytes| bytes.to_string())),
            (
                "compaction_bytes_per_second",
                resolved.compaction_rate.map_or("no limit".to_owned(), |rate| rate.to_string()),
            ),
            ("space_amplification_max", resolved.space_bound.map_or("no bound", |_| "a bound").to_owned()),
            ("policy", format!("`{}` for a new one", fresh.stats().policy)),
            ("filter", format!("`{DEFAULT_FILTER}`")),
            ("filter_digests", resolved.filter_digests.to_string()),
            ("manifest_bytes", mebibytes(resolved.manifest_bytes)),
            ("direct_io", resolved.direct_io.to_string()),
            ("strict_recovery", (resolved.tail == Tail::Strict).to_string()),
            ("open_files_max", "half of the process's limit".to_owned()),
        ];
        assert_eq!(resolved.open_files_max as u64, resolved.env.open_files_max().expect("a limit") / 2);
        for (name, holds) in &holds {
            assert!(row(name).default.contains(holds), "{name}: {} instead of {holds}", row(name).default);
        }
        // No single value.
        let others = [
            "threads",
            "advanced",
            "env",
            "cache_bytes",
            "index_bytes",
            "listener",
            "merge_operator",
            "compaction_filter",
            "reserve_bytes",
        ];
        for row in Options::TABLE.iter().chain(AdvancedOptions::TABLE) {
            let looked_at = holds.iter().any(|(name, _)| *name == row.name) || others.contains(&row.name);
            assert!(looked_at, "cover the default of `{}` in this test", row.name);
        }
    }

    /// The ends of the ranges are those of the rows: values at an end are accepted, values beyond
    /// it are refused by the option's name.
    #[test]
    fn ranges_are_what_the_tables_say() {
        let advanced = |advanced: AdvancedOptions| Options::new().advanced(advanced);
        type Set<'a> = &'a dyn Fn(u64) -> Options;
        let at_least: [(&str, u64, &str, Set<'_>); 8] = [
            ("memory_bytes", MEMORY_BYTES_MIN, "at least 1 MiB", &|n| Options::new().memory_bytes(n)),
            ("threads", 1, "at least 1", &|n| Options::new().threads(n as usize)),
            ("memtable_bytes", 1, "at least 1,", &|n| advanced(AdvancedOptions::new().memtable_bytes(n))),
            ("immutable_memtables_max", 1, "at least 1", &|n| {
                advanced(AdvancedOptions::new().immutable_memtables_max(n as usize))
            }),
            ("block_bytes", 64, "at least 64,", &|n| advanced(AdvancedOptions::new().block_bytes(n as usize))),
            ("open_files_max", 1, "at least 1", &|n| advanced(AdvancedOptions::new().open_files_max(n as usize))),
            ("table_bytes", 1, "at least 1", &|n| advanced(AdvancedOptions::new().table_bytes(n))),
            ("compaction_bytes_per_second", 1, "at least 1", &|n| {
                advanced(AdvancedOptions::new().compaction_bytes_per_second(n))
            }),
        ];
        for (name, least, words, set) in at_least {
            assert!(row(name).range.contains(words), "{name}: {}", row(name).range);
            assert!(set(least).resolve().is_ok(), "{name} of {least}");
            let refusal = set(least - 1).resolve().map(|_| ()).expect_err(name).to_string();
            assert!(refusal.contains(name) || name == "memory_bytes", "{name}: {refusal}");
        }
        assert!(row("memtable_bytes").range.contains(&format!("at most {} TiB", BUFFER_MAX.0 >> 40)));
        assert!(advanced(AdvancedOptions::new().memtable_bytes(BUFFER_MAX.0 + 1)).resolve().is_err());
        assert!(row("block_bytes").range.contains(&format!("at most {} MiB", BLOCK_BYTES_MAX >> 20)));
        for (bytes, is_allowed) in [(BLOCK_BYTES_MAX, true), (BLOCK_BYTES_MAX + 1, false)] {
            assert_eq!(advanced(AdvancedOptions::new().block_bytes(bytes)).resolve().is_ok(), is_allowed);
        }
        let bound = |most: f64| Options::new().space_amplification_max(most).resolve().map(|_| ());
        assert!(row("space_amplification_max").range.contains(&format!("at least {SPACE_BOUND_MIN}")));
        assert!(bound(SPACE_BOUND_MIN).is_ok());
        assert!(bound(f64::INFINITY).is_ok(), "removes a bound");
        for none in [1.0, f64::NAN] {
            let refusal = bound(none).expect_err("no bound").to_string();
            assert!(refusal.contains("space_amplification_max"), "{refusal}");
        }
        assert!(advanced(AdvancedOptions::new().cache_bytes(0).index_bytes(0).manifest_bytes(0)).resolve().is_ok());
    }

    /// The specifications of policies and filters in the rows are valid.
    #[test]
    fn specifications_in_the_tables_are_valid() {
        let quoted = |words: &'static str| words.split('`').skip(1).step_by(2);
        for words in quoted(row("policy").range).chain(quoted(row("policy").default)) {
            assert!(Options::new().advanced(AdvancedOptions::new().policy(words)).resolve().is_ok(), "{words}");
        }
        for words in quoted(row("filter").range).chain(quoted(row("filter").default)) {
            assert!(Options::new().advanced(AdvancedOptions::new().filter(words)).resolve().is_ok(), "{words}");
        }
    }
}
