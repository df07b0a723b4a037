//! What a user can set. Nothing below `db` sees these types: each part gets the small struct it
//! needs.
//!
//! ```text
//! two tables of rows ──► Options, AdvancedOptions: fields, methods, their documentation ── resolve ──► Resolved, with nothing left open
//!                   └──► docs/OPTIONS.md
//! ```
//!
//! A few things are public knobs; the rest is derived from them and can be overridden through
//! [`AdvancedOptions`], at the risk of whoever does. To add an option, write its row, use its field
//! in `Options::resolve`, and show in the tests below that default and range are what the row says.

mod rows;

use std::sync::Arc;

use tamarack_env::Env;
use tamarack_env::os::OsEnv;
use tamarack_model::BUFFER_MAX;
use tamarack_model::bound::{SPACE_BOUND_MIN, SpaceBound};
use tamarack_model::filter::{FilterChoice, FilterError};
use tamarack_model::policy::{self, Policy};

use crate::error::{Error, Result};
use crate::events::Listener;
use crate::format::block::Compression;
use crate::memory::Budget;
use crate::tree::manifest::ROLL_BYTES_MIN;
use crate::wal::Tail;
use crate::write::Durability;
use crate::write::batch::VALUE_BYTES_MAX;

pub use rows::Row;
use rows::{Unshown, options};

/// The least memory budget, in bytes: below it, not even small writes fit the eighth that one may
/// take.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The filters of who asks for none: few false reads for little memory, and one cache line for each
/// question.
const DEFAULT_FILTER: &str = "blocked:bits=10,allocation=monkey";

/// The policy of a new database, unless another is asked for.
pub(crate) const DEFAULT_POLICY: &str = "leveling:T=10";

/// The memory budget of who sets none, in bytes.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

options! {
    /// How to open a database.
    ///
    /// ```no_run
    /// use tamarack::{Durability, Options};
    ///
    /// let db = Options::new().memory_bytes(512 << 20).durability(Durability::Sync).open("data/prices")?;
    /// # Ok::<(), tamarack::Error>(())
    /// ```
    Options = {
        /// The memory that the database may take, in bytes: for buffers, filters, indexes, the cache, scans, flushes and merges, together.
        /// [`crate::Db::stats`] shows what each part takes.
        ///
        /// An eighth of it is a buffer's size, and the largest value or batch. The cache takes what the other parts leave, and gives it back when they
        /// need it; values and iterators that are held count as well. What comes on top is at most an eighth of the budget and 1 MiB: what lives for one
        /// call, and what is taken before the cache has given way; and, while values near the largest are written, up to four of them for each background
        /// thread, which flushes and merges have in hand. A process that reads many blocks at once keeps 4 MiB for that, whatever databases it has open.
        /// If filters and indexes, or what is held, are more than the budget leaves, the database is over it by that much, which statistics show, and goes on.
        ///
        /// A buffer's size is part of a tree's shape: a database that was made with another one changes its shape when it is opened with this. Without this
        /// (and without [`AdvancedOptions::memtable_bytes`]) it keeps its buffer's size, so that looking at a database changes nothing.
        memory_bytes(bytes: u64) -> u64, default "256 MiB", range "at least 1 MiB";

        /// What a write survives once it is acknowledged. With the default that is the end of the process, but a crash of the machine can cost the last
        /// writes. One write can ask for another level with [`crate::Db::write_with`].
        durability(durability: Durability) -> Durability, default "[`Durability::Buffered`]", range "[`Durability::Buffered`], [`Durability::Interval`], [`Durability::Sync`]";

        /// How blocks of new tables are compressed. Tables written before stay as they are.
        compression(compression: Compression) -> Compression,
            default "LZ4 if the feature `lz4` is on (it is by default), else none", range "what this build has the feature for";

        /// Whether opening a directory without a database makes one.
        create_if_missing(create: bool) -> bool, default "true", range "true or false";

        /// How many background threads flush and merge. More of them end merges sooner where the device can follow, and take more from whoever else computes.
        threads(threads: usize) -> usize, default "as many as the machine has cores, at most 4", range "at least 1";

        /// How many bytes the tree may take on storage for each one that is live. Without it that is what the policy makes of it: where the same keys are
        /// written over and over, 1.1 in a large full tree of `leveling:T=10` and 5.3 in one of `tiering:T=4`, and more in a tree that has just grown.
        ///
        /// It is kept with any policy, by merges of the whole tree, which name it as their cause: one is called for when that many bytes may not be live, by
        /// the numbers of entries and tombstones in each run. ([`crate::Stats::space_amplification_worst`] shows it; in truth it may be less, and if entries
        /// differ much in size it is an estimate.) With a bound of b they write at most b / (b - 1) bytes for each that is written, and up to twice as many in
        /// a busy tree: 3 with 1.5, 11 with 1.1. If that is often, a policy with fewer runs costs less.
        ///
        /// What snapshots and iterators hold counts as live. While merges are in progress, more may be taken. Buffers, the log, and what compression saves are
        /// no part of it. The database keeps the bound when it is closed, until it is opened with
        /// another
        /// one; `f64::INFINITY` takes it back.
        space_amplification_max(factor: f64) -> f64, default "no bound", range "at least 1.01";

        /// Who is told what happens in the background and to storage: flushes, merges, delays, low and slow disks, damage, failures and their end. See
        /// [`crate::Listener`] for what it may do, and [`crate::Event`] for what it is told.
        listener(listener: Arc<dyn Listener>) -> Unshown<Arc<dyn Listener>>, default "nobody", range "any listener";

        /// Overrides what is otherwise derived.
        advanced(advanced: AdvancedOptions) -> AdvancedOptions, default "nothing overridden", range "see [`AdvancedOptions`]";
    }
}

options! {
    /// Overrides of what Tamarack derives, at the risk of whoever sets them.
    AdvancedOptions = {
        /// Storage, clock, randomness and threads. Tests put memory or the simulator here.
        env(env: Arc<dyn Env>) -> Unshown<Arc<dyn Env>>, default "the operating system", range "any environment";

        /// The size at which a buffer is sealed, in raw bytes of its entries (keys, values, 8 each). A larger buffer makes fewer, larger runs, and a longer
        /// recovery.
        memtable_bytes(bytes: u64) -> u64,
            default "an eighth of the memory budget, if one was set; else what the database has; else 32 MiB", range "at least 1, at most 128 TiB";

        /// How many sealed buffers may wait for their flush before writers wait too.
        immutable_memtables_max(count: usize) -> usize, default "3", range "at least 1";

        /// The size of a block with its trailer, in bytes, before compression. Larger blocks compress better and need a smaller index; each lookup reads one
        /// whole.
        block_bytes(bytes: usize) -> usize, default "4096", range "at least 64";

        /// The size at which a run goes on in another table, in bytes of the file. Merges need extra space of a table per input; smaller tables need less,
        /// and cost more syncs and memory.
        table_bytes(bytes: u64) -> u64, default "a thirty-second of the run, between 2 and 64 MiB", range "at least 1";

        /// How many raw bytes per second merges may copy. Flushes are not held back. A limit below what the writes call for slows writers down.
        compaction_bytes_per_second(bytes: u64) -> u64, default "no limit", range "at least 1";

        /// The policy that gives the tree its shape: how many levels there are, how large each is, and in how many runs it may hold its data. Another policy
        /// than the database has changes its shape as [`crate::Db::set_policy`] does. More runs per level make writes cheaper, and reads and space dearer.
        policy(words: &str) -> String,
            default "what the database has; `leveling:T=10` for a new one",
            range "`leveling:T=10`, `tiering:T=4`, `lazy-leveling:T=5`, `dostoevsky:T=5,K=4,Z=1`, `garnering:T=2,c=0.8` (with a first level of four runs \
                   `garnering:T=2,c=0.8,first=4`), `moose:last=0.8,k=1`, `qlsm-bush:T=2,X=2` (the last three with these numbers where some or all are left out, as in `moose`), or a shape of your own as \
                   `custom:buffer 64MiB; level 640MiB in 1 run; level 6400MiB in 1 run`";

        /// The filters of tables. A filter keeps lookups away from tables that do not have their key, but for a share of about 1 % at 10 bits per entry
        /// and 10 % at 5; it is in memory while its table is open. Blocked filters take one cache line for each lookup, `bloom` filters err a little less
        /// often. Tables that were written with another one get theirs in the background ([`AdvancedOptions::filter_digests`]).
        ///
        /// With `allocation=monkey` large runs get fewer bits per entry, the largest perhaps none, and small ones more, so that lookups of keys that are not there
        /// search as few runs in vain as the memory of so many bits for all entries allows; with `monkey-general` the same for lookups of which `v` find something for each
        /// one that does not. With `observed` it is so for such lookups as there were: what a run gets when it is built depends on how often about the last half million
        /// of them passed each run in vain. Where those find what they look for, that is much less in vain than with `monkey`; a database that was just opened has seen none, and
        /// begins as with `monkey`. Without an allocation every run gets as many bits.
        ///
        /// Filters that are `elastic` are several small ones for each table, all of them stored, twice as many bits as were asked for; as many are in memory as lookups lately made them worth, more
        /// for tables that are often asked in vain and fewer for others, and all together what was asked for. That pays where some ranges of keys are asked for much more often than others.
        /// A lookup takes one cache line for each small filter that it asks.
        ///
        /// A database that is opened without this option keeps the filters that were chosen last.
        filter(words: &str) -> String,
            default "`blocked:bits=10,allocation=monkey`",
            range "`blocked:bits=10`, `bloom:bits=10`, with any number of bits per entry above 0 and up to 64, also as `bloom:bits=5,allocation=monkey`, \
                   `bloom:bits=5,allocation=monkey-general,v=3` and `bloom:bits=5,allocation=observed`; `elastic:bits=10`; or `none`";

        /// Whether new tables keep the digests of their keys, so that their filters can be made again, larger, smaller or of another kind, without reading
        /// data: when another filter is chosen, and when the tree changes so that memory is better
        /// spent elsewhere. They take 31 to 35 bits of a table's file for each
        /// key, 3 to 4 % of its size at entries of 116 bytes, and nothing in memory. Tables without
        /// digests keep the filter they were written with. With the filter `none`, no digests are
        /// kept either.
        filter_digests(keep: bool) -> bool, default "true", range "true or false";

        /// The most that the cache of blocks and hot entries may take, in bytes; 0 is none. If no budget was set, it is made large enough for this. Index
        /// blocks of open tables, about a hundredth of their data, stay in memory beside it, up to a quarter of its size; those beyond that share the cache
        /// with the data.
        cache_bytes(bytes: u64) -> u64, default "what the other parts leave of the memory budget", range "from 0 on";

        /// How many bytes of index blocks of open tables may stay in memory, beside the cache. With 0, and no cache, each block that is read costs another read, of the index block that
        /// leads to it; with enough, reads without a cache are those that models of LSM-trees count.
        index_bytes(bytes: u64) -> u64, default "a quarter of the cache's size", range "from 0 on";

        /// The size from which the manifest is begun anew once it is four times what describing the present state takes, in bytes. A larger one is rewritten
        /// less often and takes longer to read when the database is opened.
        manifest_bytes(bytes: u64) -> u64, default "1 MiB", range "from 0 on";

        /// How many bytes of the disk are left alone by puts, so that flushes and merges can go on when the disk is nearly full. While less is free, puts
        /// are refused with an error that [`crate::Error::is_storage_full`] is true for, deletes are taken, and background work goes on; once a quarter more than
        /// this is free, puts are taken again. With 0, puts go on until the disk is full, which loses nothing either; but then merges that would free space
        /// may find none to begin with.
        reserve_bytes(bytes: u64) -> u64, default "four full buffers, but at most a twentieth of the disk", range "from 0 on";

        /// Whether tables are read past the operating system's page cache. Without it, the page cache takes whatever memory the machine has to spare, which
        /// is more than the budget that a database is given without being asked, and a database that fits it is read at the speed of memory.
        ///
        /// With it, what is kept of the tables is what the block cache keeps, so the memory that the database takes is the memory it was given, a large scan
        /// or merge drives nothing out, and nothing is kept twice: give it a large [`AdvancedOptions::cache_bytes`]. Merges then take their inputs from the device,
        /// too. Writes go through the page cache in either mode. Where the file system cannot do it, this changes nothing.
        direct_io(direct: bool) -> bool, default "false", range "true or false";

        /// Whether opening fails if the log does not end cleanly. Without it, what a crash left half written at the log's end, past everything known durable,
        /// is dropped and reported.
        strict_recovery(strict: bool) -> bool, default "false", range "true or false";
    }
}

impl Options {
    /// Checks the options and derives what was not set.
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
                "compression {compression:?}: this build lacks the feature for it"
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
            return Err(Error::InvalidArgument(format!("buffer_bytes of {bytes}: at most {BUFFER_MAX} can be")));
        }
        at_least("block_bytes", advanced.block_bytes.map(|bytes| bytes as u64), 64)?;
        at_least("immutable_memtables_max", advanced.immutable_memtables_max.map(|count| count as u64), 1)?;
        at_least("table_bytes", advanced.table_bytes, 1)?;
        at_least("compaction_bytes_per_second", advanced.compaction_bytes_per_second, 1)?;
        at_least("threads", self.threads.map(|threads| threads as u64), 1)?;
        let space_bound = match self.space_amplification_max {
            // Takes back a bound that the database has.
            Some(f64::INFINITY) => None,
            Some(most) => Some(SpaceBound::new(most).ok_or_else(|| {
                let why = "it is bytes on storage for each live byte";
                Error::InvalidArgument(format!(
                    "space_amplification_max of {most}: {why}, so at least {SPACE_BOUND_MIN} is needed"
                ))
            })?),
            None => None,
        };
        let memtable_bytes = advanced.memtable_bytes.unwrap_or((memory_bytes / 8).min(BUFFER_MAX.0));
        // All buffers that may be at once, with half as much again for what entries take besides their raw
        // bytes.
        let all_buffers = (immutable_memtables_max as u64 + 1).saturating_mul(memtable_bytes).saturating_mul(3) / 2;
        let budget_bytes = match self.memory_bytes {
            Some(bytes) => bytes,
            None => {
                memory_bytes.max(advanced.cache_bytes.unwrap_or(0).saturating_add(all_buffers).saturating_mul(5) / 4)
            }
        };
        let env = advanced.env.clone().map_or_else(|| OsEnv::new() as Arc<dyn Env>, |Unshown(env)| env);
        Ok(Resolved {
            threads: self.threads.unwrap_or_else(|| env.cores().clamp(1, 4)),
            policy: advanced.policy.as_deref().map(parse_policy).transpose()?,
            filter: parse_filter(advanced.filter.as_deref().unwrap_or(DEFAULT_FILTER))?,
            env,
            durability: self.durability.unwrap_or(Durability::Buffered),
            compression,
            create_if_missing: self.create_if_missing.unwrap_or(true),
            memtable_bytes,
            memtables_memory_max: (memory_bytes / 4).saturating_mul(3).max(all_buffers),
            keeps: Kept {
                buffer: self.memory_bytes.is_none() && advanced.memtable_bytes.is_none(),
                filter: advanced.filter.is_none(),
                space_bound: self.space_amplification_max.is_none(),
            },
            memtable_bytes_max: (memory_bytes / 2).max(advanced.memtable_bytes.unwrap_or(0)),
            write_bytes_max: (memory_bytes / 8).min(VALUE_BYTES_MAX),
            immutable_memtables_max,
            block_bytes: advanced.block_bytes.unwrap_or(4096),
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
            tail: if advanced.strict_recovery.unwrap_or(false) { Tail::Strict } else { Tail::MayBeTorn },
        })
    }
}

/// The policy that these words name.
///
/// # Errors
/// [`Error::InvalidArgument`] that says which words there are.
pub(crate) fn parse_policy(words: &str) -> Result<Arc<dyn Policy>> {
    let policy = policy::parse(words).map_err(|error| Error::InvalidArgument(error.to_string()))?;
    Ok(Arc::from(policy))
}

/// The filter that these words name.
///
/// # Errors
/// [`Error::InvalidArgument`] that says which words there are.
pub(crate) fn parse_filter(words: &str) -> Result<FilterChoice> {
    words.parse().map_err(|error: FilterError| Error::InvalidArgument(error.to_string()))
}

impl Resolved {
    /// Whether new tables keep digests: where filters are wanted none is ever made of them.
    pub(crate) fn keeps_digests(&self) -> bool {
        self.filter_digests && self.filter != FilterChoice::None
    }
}

/// The parts of a database's design that the options say nothing about: it keeps those that it has.
/// (The policy says so by itself.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// The size of memtables.
    pub(crate) buffer: bool,
    /// The filters.
    pub(crate) filter: bool,
    /// The upper bound on space amplification.
    pub(crate) space_bound: bool,
}

/// The options with everything derived.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) durability: Durability,
    pub(crate) compression: Compression,
    pub(crate) create_if_missing: bool,
    pub(crate) memtable_bytes: u64,
    /// What of its design a database that is there keeps.
    pub(crate) keeps: Kept,
    /// What a shape that names its own buffer may ask for.
    pub(crate) memtable_bytes_max: u64,
    pub(crate) write_bytes_max: u64,
    pub(crate) immutable_memtables_max: usize,
    /// Writers wait for a flush rather than let the buffers take more memory than this.
    pub(crate) memtables_memory_max: u64,
    pub(crate) block_bytes: usize,
    pub(crate) table_bytes: Option<u64>,
    pub(crate) compaction_rate: Option<u64>,
    pub(crate) space_bound: Option<SpaceBound>,
    pub(crate) threads: usize,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) filter: FilterChoice,
    pub(crate) filter_digests: bool,
    pub(crate) budget: Budget,
    pub(crate) manifest_bytes: u64,
    pub(crate) direct_io: bool,
    /// `None` derives it from the cache's size.
    pub(crate) index_bytes: Option<u64>,
    /// `None` derives it.
    pub(crate) reserve_bytes: Option<u64>,
    pub(crate) listener: Option<Arc<dyn Listener>>,
    pub(crate) tail: Tail,
}

#[cfg(test)]
mod tests {
    use tamarack_env::SimEnv;

    use super::*;

    fn row(name: &str) -> &'static Row {
        let mut rows = Options::TABLE.iter().chain(AdvancedOptions::TABLE);
        rows.find(|row| row.name == name).unwrap_or_else(|| panic!("no option {name}"))
    }

    /// What holds if nothing is set is what the rows say; and each row is looked at.
    #[test]
    fn defaults_are_what_the_tables_say() {
        let resolved = Options::new().resolve().expect("the defaults are sound");
        let fresh = Options::new()
            .advanced(AdvancedOptions::new().env(Arc::new(SimEnv::new(1))))
            .open("/db")
            .expect("a new one");
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        let holds = [
            ("memory_bytes", mebibytes(resolved.budget.total_bytes)),
            ("durability", format!("[`Durability::{:?}`]", resolved.durability)),
            ("compression", if cfg!(feature = "lz4") { "LZ4 if" } else { "else none" }.to_owned()),
            ("create_if_missing", resolved.create_if_missing.to_string()),
            ("memtable_bytes", mebibytes(resolved.memtable_bytes)),
            ("immutable_memtables_max", resolved.immutable_memtables_max.to_string()),
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
        ];
        for (name, holds) in &holds {
            assert!(row(name).default.contains(holds), "{name}: {} instead of {holds}", row(name).default);
        }
        // No single value.
        let others = ["threads", "advanced", "env", "cache_bytes", "index_bytes", "listener", "reserve_bytes"];
        for row in Options::TABLE.iter().chain(AdvancedOptions::TABLE) {
            let looked_at = holds.iter().any(|(name, _)| *name == row.name) || others.contains(&row.name);
            assert!(looked_at, "say here what `{}` is if it is not set", row.name);
        }
    }

    /// The ends of ranges are where the rows say: what lies there is taken, what lies beyond is
    /// refused by name.
    #[test]
    fn ranges_are_what_the_tables_say() {
        let advanced = |advanced: AdvancedOptions| Options::new().advanced(advanced);
        type Set<'a> = &'a dyn Fn(u64) -> Options;
        let at_least: [(&str, u64, &str, Set<'_>); 7] = [
            ("memory_bytes", MEMORY_BYTES_MIN, "at least 1 MiB", &|n| Options::new().memory_bytes(n)),
            ("threads", 1, "at least 1", &|n| Options::new().threads(n as usize)),
            ("memtable_bytes", 1, "at least 1,", &|n| advanced(AdvancedOptions::new().memtable_bytes(n))),
            ("immutable_memtables_max", 1, "at least 1", &|n| {
                advanced(AdvancedOptions::new().immutable_memtables_max(n as usize))
            }),
            ("block_bytes", 64, "at least 64", &|n| advanced(AdvancedOptions::new().block_bytes(n as usize))),
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
        let bound = |most: f64| Options::new().space_amplification_max(most).resolve().map(|_| ());
        assert!(row("space_amplification_max").range.contains(&format!("at least {SPACE_BOUND_MIN}")));
        assert!(bound(SPACE_BOUND_MIN).is_ok());
        assert!(bound(f64::INFINITY).is_ok(), "takes back a bound");
        for none in [1.0, f64::NAN] {
            let refusal = bound(none).expect_err("no bound").to_string();
            assert!(refusal.contains("space_amplification_max"), "{refusal}");
        }
        assert!(advanced(AdvancedOptions::new().cache_bytes(0).index_bytes(0).manifest_bytes(0)).resolve().is_ok());
    }

    /// The words that rows show for policies and filters are understood.
    #[test]
    fn the_words_of_the_tables_are_understood() {
        let quoted = |words: &'static str| words.split('`').skip(1).step_by(2);
        for words in quoted(row("policy").range).chain(quoted(row("policy").default)) {
            assert!(Options::new().advanced(AdvancedOptions::new().policy(words)).resolve().is_ok(), "{words}");
        }
        for words in quoted(row("filter").range).chain(quoted(row("filter").default)) {
            assert!(Options::new().advanced(AdvancedOptions::new().filter(words)).resolve().is_ok(), "{words}");
        }
    }
}
