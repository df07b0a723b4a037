//! What a user can set. Nothing below `db` sees these types: each part gets the small struct it needs.
//!
//! Six things are public knobs; the rest is derived from them and can be overridden through [`Expert`], at the risk of
//! whoever does.

use std::fmt;
use std::sync::Arc;

use tamarack_env::Env;
use tamarack_env::os::OsEnv;
use tamarack_model::BUFFER_MAX;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::{self, Policy};

use crate::error::{Error, Result};
use crate::format::block::Compression;
use crate::memory::Budget;
use crate::table::FilterSettings;
use crate::tree::manifest::ROLL_BYTES_MIN;
use crate::wal::Tail;
use crate::write::Durability;
use crate::write::batch::VALUE_BYTES_MAX;

/// The least memory budget, in bytes: below it, not even small writes fit the eighth that one may take.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The filters of who asks for none: few false reads for little memory, and one cache line for each question.
const DEFAULT_FILTER: &str = "blocked:bits=10";

/// The memory budget of who sets none, in bytes.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

/// How to open a database.
///
/// ```no_run
/// use tamarack::{Durability, Options};
///
/// let db = Options::new().memory_bytes(512 << 20).durability(Durability::Sync).open("data/prices")?;
/// # Ok::<(), tamarack::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    memory_bytes: Option<u64>,
    durability: Durability,
    compression: Compression,
    create_if_missing: bool,
    threads: Option<usize>,
    expert: Expert,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            memory_bytes: None,
            durability: Durability::Buffered,
            compression: if Compression::Lz4.is_available() { Compression::Lz4 } else { Compression::None },
            create_if_missing: true,
            threads: None,
            expert: Expert::default(),
        }
    }

    /// The memory that the database may take, in bytes: for buffers, filters, indexes, the cache, scans, flushes and merges, together. Default 256 MiB, at
    /// least 1 MiB. [`crate::Db::stats`] shows what each part takes.
    ///
    /// An eighth of it is a buffer's size, and the largest value or batch. The cache takes what the other parts leave, and gives it back when they
    /// need it; values and iterators that are held count as well. What comes on top is at most an eighth of the budget and 1 MiB: what lives for one call, and what is taken
    /// before the cache has given way; and, while values near the largest are written, up to four of them for each background thread, which flushes and merges
    /// have in hand. A process that reads many blocks at once keeps 4 MiB for that, whatever databases it has open.
    /// If filters and indexes, or what is held, are more than the budget leaves, the database is over it by that much, which statistics show, and goes on.
    ///
    /// A buffer's size is part of a tree's shape: a
    /// database that was made with another one changes its shape when it is opened with this. Without this (and without
    /// [`Expert::buffer_bytes`]) it keeps its buffer's size, so that looking at a database changes nothing.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// What a write survives once it is acknowledged. Default [`Durability::Buffered`]: the end of the process, but a crash of the
    /// machine can cost the last writes. One write can ask for another level with [`crate::Db::write_with`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How blocks of new tables are compressed. Default: LZ4 if the feature `lz4` is on (it is by default), else none. Tables written before stay as
    /// they are.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Whether opening a directory without a database makes one. Default true.
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// How many background threads flush and merge, at least 1. Default: as many as the machine has cores, at most 4. More of them end merges sooner
    /// where the device can follow, and take more from whoever else computes.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Overrides what is otherwise derived.
    #[must_use]
    pub fn expert(mut self, expert: Expert) -> Self {
        self.expert = expert;
        self
    }

    /// Checks the options and derives what was not set.
    pub(crate) fn resolve(&self) -> Result<Resolved> {
        let memory_bytes = self.memory_bytes.unwrap_or(MEMORY_BYTES_DEFAULT);
        let sealed_max = self.expert.sealed_max.unwrap_or(3);
        if memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::InvalidArgument(format!(
                "a memory budget of {memory_bytes} bytes: at least {MEMORY_BYTES_MIN} are needed"
            )));
        }
        if !self.compression.is_available() {
            return Err(Error::InvalidArgument(format!(
                "compression {:?}: this build lacks the feature for it",
                self.compression
            )));
        }
        let expert = &self.expert;
        let at_least = |name: &str, value: Option<u64>, least: u64| match value {
            Some(value) if value < least => {
                Err(Error::InvalidArgument(format!("{name} of {value}: at least {least} is needed")))
            }
            _ => Ok(()),
        };
        at_least("buffer_bytes", expert.buffer_bytes, 1)?;
        if let Some(bytes) = expert.buffer_bytes.filter(|bytes| *bytes > BUFFER_MAX.0) {
            return Err(Error::InvalidArgument(format!("buffer_bytes of {bytes}: at most {BUFFER_MAX} can be")));
        }
        at_least("block_bytes", expert.block_bytes.map(|bytes| bytes as u64), 64)?;
        at_least("sealed_max", expert.sealed_max.map(|count| count as u64), 1)?;
        at_least("table_bytes", expert.table_bytes, 1)?;
        at_least("merge_bytes_per_second", expert.merge_rate, 1)?;
        at_least("threads", self.threads.map(|threads| threads as u64), 1)?;
        let buffer_bytes = expert.buffer_bytes.unwrap_or((memory_bytes / 8).min(BUFFER_MAX.0));
        // All buffers that may be at once, with half as much again for what entries take besides their raw bytes.
        let all_buffers = (sealed_max as u64 + 1).saturating_mul(buffer_bytes).saturating_mul(3) / 2;
        let budget_bytes = match self.memory_bytes {
            Some(bytes) => bytes,
            None => memory_bytes.max(expert.cache_bytes.unwrap_or(0).saturating_add(all_buffers).saturating_mul(5) / 4),
        };
        let env = expert.env.clone().unwrap_or_else(|| OsEnv::new());
        Ok(Resolved {
            threads: self.threads.unwrap_or_else(|| env.cores().clamp(1, 4)),
            policy: expert.policy.as_deref().map(parse_policy).transpose()?,
            filter: parse_filter(expert.filter.as_deref().unwrap_or(DEFAULT_FILTER))?,
            env,
            durability: self.durability,
            compression: self.compression,
            create_if_missing: self.create_if_missing,
            buffer_bytes,
            buffers_memory_max: (memory_bytes / 4).saturating_mul(3).max(all_buffers),
            keeps_buffer: self.memory_bytes.is_none() && expert.buffer_bytes.is_none(),
            buffer_bytes_max: (memory_bytes / 2).max(expert.buffer_bytes.unwrap_or(0)),
            write_bytes_max: (memory_bytes / 8).min(VALUE_BYTES_MAX),
            sealed_max,
            block_bytes: expert.block_bytes.unwrap_or(4096),
            table_bytes: expert.table_bytes,
            merge_rate: expert.merge_rate,
            budget: Budget::new(budget_bytes, expert.cache_bytes.unwrap_or(u64::MAX)),
            manifest_bytes: expert.manifest_bytes.unwrap_or(ROLL_BYTES_MIN),
            direct_io: expert.direct_io,
            tail: if expert.strict_recovery { Tail::Strict } else { Tail::MayBeTorn },
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
fn parse_filter(words: &str) -> Result<Option<FilterSettings>> {
    let choice = words.parse::<FilterChoice>().map_err(|error| Error::InvalidArgument(error.to_string()))?;
    Ok(match choice {
        FilterChoice::None => None,
        FilterChoice::Uniform { kind, bits_per_entry } => Some(FilterSettings { kind, bits_per_entry }),
    })
}

/// Overrides of what Tamarack derives. Each is `None` (derive) by default.
#[derive(Clone, Default)]
pub struct Expert {
    env: Option<Arc<dyn Env>>,
    buffer_bytes: Option<u64>,
    sealed_max: Option<usize>,
    block_bytes: Option<usize>,
    table_bytes: Option<u64>,
    policy: Option<String>,
    filter: Option<String>,
    merge_rate: Option<u64>,
    cache_bytes: Option<u64>,
    manifest_bytes: Option<u64>,
    direct_io: bool,
    strict_recovery: bool,
}

impl fmt::Debug for Expert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expert")
            .field("buffer_bytes", &self.buffer_bytes)
            .field("sealed_max", &self.sealed_max)
            .field("block_bytes", &self.block_bytes)
            .field("table_bytes", &self.table_bytes)
            .field("policy", &self.policy)
            .field("filter", &self.filter)
            .field("merge_rate", &self.merge_rate)
            .field("cache_bytes", &self.cache_bytes)
            .field("manifest_bytes", &self.manifest_bytes)
            .field("direct_io", &self.direct_io)
            .field("strict_recovery", &self.strict_recovery)
            .finish_non_exhaustive()
    }
}

impl Expert {
    /// Nothing overridden.
    pub fn new() -> Self {
        Self::default()
    }

    /// Storage, clock, randomness and threads. Default: the operating system. Tests put memory or the simulator here.
    #[must_use]
    pub fn env(mut self, env: Arc<dyn Env>) -> Self {
        self.env = Some(env);
        self
    }

    /// The size at which a buffer is sealed, in raw bytes of its entries (keys, values, 8 each). Default: an eighth of the memory budget, if
    /// one was set; else what the database has; else 32 MiB. At least 1, at most 128 TiB. A larger buffer makes fewer, larger runs, and a longer recovery.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = Some(bytes);
        self
    }

    /// How many sealed buffers may wait for their flush before writers wait too. Default 3, at least 1.
    #[must_use]
    pub fn sealed_max(mut self, count: usize) -> Self {
        self.sealed_max = Some(count);
        self
    }

    /// The size of a block with its trailer, in bytes, before compression. Default 4096, at least 64. Larger blocks compress better and need a
    /// smaller index; each lookup reads one whole.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = Some(bytes);
        self
    }

    /// The size at which a run goes on in another table, in bytes of the file. Default: a thirty-second of the run, between 2 and 64 MiB. Merges need
    /// extra space of a table per input; smaller tables need less, and cost more syncs and memory.
    #[must_use]
    pub fn table_bytes(mut self, bytes: u64) -> Self {
        self.table_bytes = Some(bytes);
        self
    }

    /// How many raw bytes per second merges may copy, at least 1. Default: no limit. Flushes are not held back. A limit below what the
    /// writes call for slows writers down.
    #[must_use]
    pub fn merge_bytes_per_second(mut self, bytes: u64) -> Self {
        self.merge_rate = Some(bytes);
        self
    }

    /// The policy that gives the tree its shape: `leveling:T=10`, `tiering:T=4`, `lazy-leveling:T=5`, `dostoevsky:T=5,K=4,Z=1`, or a shape of your own as
    /// `custom:buffer 64MiB; level 640MiB in 1 run; level 6400MiB in 1 run`. Default: what the database has; `leveling:T=10` for a new one. Another policy
    /// than it has changes its shape as [`crate::Db::set_policy`] does. More runs per level make writes cheaper, and reads and space dearer.
    #[must_use]
    pub fn policy(mut self, words: &str) -> Self {
        self.policy = Some(words.to_owned());
        self
    }

    /// The filters of new tables: `blocked:bits=10`, `bloom:bits=10`, with any number of bits per entry above 0 and up to 64, or `none`. Default
    /// `blocked:bits=10`. A filter keeps lookups away from tables that do not have their key, but for a share of about 1 % at 10 bits
    /// and 10 % at 5; it is in memory while its table is open. Blocked filters take one cache line for each lookup, `bloom` filters err a little less often.
    /// Tables written before keep theirs.
    #[must_use]
    pub fn filter(mut self, words: &str) -> Self {
        self.filter = Some(words.to_owned());
        self
    }

    /// The most that the cache of blocks and hot entries may take, in bytes; 0 is none. Default: what the other parts leave of the memory budget. If no budget was set, it is made
    /// large enough for this. Index blocks of open tables, about a hundredth of their data, stay in memory beside it, up to a quarter of its size; those
    /// beyond that share the cache with the data.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// The size from which the manifest is begun anew once it is four times what describing the present state takes, in bytes.
    /// Default 1 MiB. A larger one is rewritten less often and takes longer to read when the database is opened.
    #[must_use]
    pub fn manifest_bytes(mut self, bytes: u64) -> Self {
        self.manifest_bytes = Some(bytes);
        self
    }

    /// Whether tables are read past the operating system's page cache. Default false: the page cache takes whatever memory the machine has
    /// to spare, which is more than the budget that a database is given without being asked, and a database that fits it is read at
    /// the speed of memory.
    ///
    /// With it, what is kept of the tables is what the block cache keeps, so the memory that the database takes is the memory it was given, a
    /// large scan or merge drives nothing out, and nothing is kept twice: give it a large [`Expert::cache_bytes`]. Merges
    /// then take their inputs from the device, too. Writes go through the page cache in either mode. Where the file system cannot do it, this changes nothing.
    #[must_use]
    pub fn direct_io(mut self, direct: bool) -> Self {
        self.direct_io = direct;
        self
    }

    /// Whether opening fails if the log does not end cleanly. Default false: what a crash left half written at the log's
    /// end, past everything known durable, is dropped and reported.
    #[must_use]
    pub fn strict_recovery(mut self, strict: bool) -> Self {
        self.strict_recovery = strict;
        self
    }
}

/// The options with everything derived.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) durability: Durability,
    pub(crate) compression: Compression,
    pub(crate) create_if_missing: bool,
    pub(crate) buffer_bytes: u64,
    /// A database that is there has its own size of buffers, instead of this one.
    pub(crate) keeps_buffer: bool,
    /// What a shape that names its own buffer may ask for.
    pub(crate) buffer_bytes_max: u64,
    pub(crate) write_bytes_max: u64,
    pub(crate) sealed_max: usize,
    /// Writers wait for a flush rather than let the buffers take more memory than this.
    pub(crate) buffers_memory_max: u64,
    pub(crate) block_bytes: usize,
    pub(crate) table_bytes: Option<u64>,
    pub(crate) merge_rate: Option<u64>,
    pub(crate) threads: usize,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) filter: Option<FilterSettings>,
    pub(crate) budget: Budget,
    pub(crate) manifest_bytes: u64,
    pub(crate) direct_io: bool,
    pub(crate) tail: Tail,
}
