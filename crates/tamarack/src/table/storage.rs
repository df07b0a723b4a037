//! [`TableStorage`]: the environment, read mode, cache and counters that all tables of a database
//! share.
//!
//! # Page cache or direct I/O
//!
//! A table has one read mode while it is open, and is opened only after its writer has synced it
//! completely; the environment requires both of direct reads ([`Access::ReadDirect`]). Writes use
//! the page cache in either mode. A file that no edit names yet
//! ([`Table::read_meta`](super::Table::read_meta)) is read through the page cache.
//!
//! # Single reads and queues
//!
//! A single block is a read of its own. Several blocks are requested as a queue
//! ([`TableStorage::read_queue`]), so that they take as long as one where the device can do that,
//! and processing those that have arrived overlaps with the reads.
//!
//! Tests: `tests/suite/reads.rs` counts the calls of the simulator, and their duration on a device
//! with latency.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::sync::Rank;
use tamarack_env::{Access, Env, ReadQueue, ReadRequest, Worker};

use super::ahead::ReadAhead;
use super::filter_slots::{FilterSlots, PinnedFilters};
use super::index::IndexBudget;
use super::open_files::{OpenFiles, PooledFile};
use crate::admission::Admission;
use crate::cache::BlockCache;
use crate::format::SharedBlock;
use crate::format::block::Block;
use crate::memory::{Account, Budget, Charge, Charged, MemoryPart};
use crate::stats::{LookupCounters, ReadCounters, Reader, ReaderCounters};

/// A read of a large block waits for space so long ...
const PAUSE: Duration = Duration::from_millis(1);

/// ... for each so many bytes of it at most. A device reads about as much meanwhile.
const PAUSE_FOR: usize = 1 << 20;

/// The shared resources of tables. See the module's documentation.
#[derive(Debug)]
pub struct TableStorage {
    env: Arc<dyn Env>,
    files: Arc<OpenFiles>,
    cache: Arc<BlockCache>,
    account: Arc<Account>,
    index_budget: IndexBudget,
    pub(super) filter_slots: FilterSlots,
    counters: Arc<ReadCounters>,
    lookups: LookupCounters,
    /// Bounds the memory of large blocks that are being read for queries.
    large_reads: Arc<Admission>,
    /// Reads ahead for compactions, once it is started.
    read_ahead: OnceLock<ReadAhead>,
}

/// How the files of tables are opened.
#[derive(Clone, Copy, Debug)]
pub struct TableAccess {
    /// With direct I/O, where that is possible.
    pub direct: bool,
    /// How many of them may be open at a time.
    pub open_files_max: usize,
}

/// How many files of tables a database opens at a time where no option says it: half of what the
/// process may open, since it opens other files as well.
pub fn open_files_max(env: &dyn Env) -> usize {
    env.open_files_max().map_or(usize::MAX, |most| usize::try_from(most / 2).unwrap_or(usize::MAX))
}

impl TableStorage {
    /// Makes the storage of tables in `env` that keep blocks in `cache` and at most `index_bytes`
    /// of lower index blocks resident, and that are read by `access`. Their memory is charged to
    /// `account`.
    pub fn new(
        env: Arc<dyn Env>,
        cache: Arc<BlockCache>,
        account: Arc<Account>,
        index_bytes: u64,
        access: TableAccess,
    ) -> Arc<Self> {
        let how = if access.direct { Access::ReadDirect } else { Access::ReadRandom };
        let files = OpenFiles::new(env.clone(), how, access.open_files_max);
        let index_budget = IndexBudget::new(index_bytes, account.clone());
        let lookups = LookupCounters::new(env.clone());
        let filter_slots = FilterSlots::default();
        // A block of the largest value; see `Options::memory_bytes`.
        let large_reads = Arc::new(Admission::new(Rank::LargeReads, account.budget().total_bytes / 8));
        let (counters, read_ahead) = (Arc::default(), OnceLock::new());
        Arc::new(Self {
            env,
            files,
            cache,
            account,
            index_budget,
            filter_slots,
            counters,
            lookups,
            large_reads,
            read_ahead,
        })
    }

    /// Makes a storage with the page cache and a block cache of its own.
    pub fn buffered(env: Arc<dyn Env>, cache_bytes: u64) -> Arc<Self> {
        let access = TableAccess { direct: false, open_files_max: open_files_max(&*env) };
        Self::new(env, Arc::new(BlockCache::new(cache_bytes)), Account::new(Budget::unlimited()), 0, access)
    }

    /// The environment.
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }

    /// Pins the current filters; to be called after the tables are known.
    #[inline]
    pub fn pin_filters(&self) -> PinnedFilters {
        self.filter_slots.pin()
    }

    /// The turns of large blocks that are being read for queries.
    pub fn large_reads(&self) -> &Arc<Admission> {
        &self.large_reads
    }

    /// Charges a large block of `bytes` to `part` that is about to be read, until it has a charge
    /// of its own. Waits before, while the budget has no space for it because of others, unless the
    /// reader has such a block itself (`has_large`): it is to get on. Readers may pin blocks for
    /// ever, this thread too, so this waits no longer than [`PAUSE_FOR`] says.
    pub(super) fn charge_large_read(&self, part: MemoryPart, bytes: usize, has_large: bool) -> Option<Charge> {
        if !self.large_reads.is_large(bytes as u64) {
            return None;
        }
        let pauses = if has_large { 0 } else { bytes / PAUSE_FOR };
        for _ in 0..pauses {
            if self.account.has_space_for_block(part, bytes as u64) {
                break;
            }
            self.env.sleep_until(self.env.now() + PAUSE);
        }
        Some(self.account.charge(part, bytes))
    }

    /// The budget for resident lower index blocks.
    pub fn index_budget(&self) -> &IndexBudget {
        &self.index_budget
    }

    /// The cache.
    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// The account of their memory.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// A block that was read for a query, to be shared. The cache indexes what it takes in, without
    /// more memory; what would take more is indexed here, and charged.
    pub(super) fn share(&self, block: Block) -> SharedBlock {
        Charged::share(block.indexed_if_large(), Block::memory_bytes, Some(&self.account), MemoryPart::Blocks)
    }

    /// The counters of reads.
    pub fn counters(&self) -> &Arc<ReadCounters> {
        &self.counters
    }

    /// The counters of lookups.
    pub fn lookups(&self) -> &LookupCounters {
        &self.lookups
    }

    /// Opens a file that is completely durable.
    pub(super) fn open(&self, path: &Path) -> io::Result<PooledFile> {
        self.files.open(path)
    }

    /// Returns true if a file can be opened without closing another.
    pub fn can_open_another_file(&self) -> bool {
        self.files.can_open_another()
    }

    /// Starts the worker that reads ahead for compactions. Its owner must stop it.
    ///
    /// # Errors
    /// If no thread can be started.
    ///
    /// # Panics
    /// If it is started already.
    pub fn start_read_ahead(&self) -> io::Result<Arc<dyn Worker>> {
        let ahead = ReadAhead::start(&self.env, self.files.in_flight_max())?;
        let worker = ahead.worker().clone();
        assert!(self.read_ahead.set(ahead).is_ok(), "one worker reads ahead for a database");
        Ok(worker)
    }

    /// Returns true if a worker reads ahead for compactions.
    pub fn reads_ahead(&self) -> bool {
        self.read_ahead.get().is_some()
    }

    /// Who reads ahead for compactions, if that is started.
    pub(super) fn read_ahead(&self) -> Option<&ReadAhead> {
        self.read_ahead.get()
    }

    /// The number of files of tables that were opened again after they had been closed for others.
    pub fn files_reopened(&self) -> u64 {
        self.files.reopened()
    }

    /// Carries out the reads of a queue concurrently ([`Env::read_queue`]), and counts them.
    pub fn read_queue(&self, reader: Reader, queue: &mut dyn ReadQueue) {
        let in_flight_max = self.files.in_flight_max();
        let mut counted = Counted { queue, counters: self.counters.of(reader), reads: 0, in_flight: 0, in_flight_max };
        self.env.read_queue(&mut counted);
        if counted.reads > 1 {
            counted.counters.batches.add(1);
        }
    }
}

/// Counts the requests of a queue, and holds them back while too many are in flight: each keeps a
/// file open.
struct Counted<'a> {
    queue: &'a mut dyn ReadQueue,
    counters: &'a ReaderCounters,
    reads: usize,
    in_flight: usize,
    in_flight_max: usize,
}

impl ReadQueue for Counted<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        if self.in_flight >= self.in_flight_max {
            return None;
        }
        let request = self.queue.next()?;
        self.in_flight += 1;
        self.counters.count_read(request.bytes);
        self.reads += 1;
        Some(request)
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        self.in_flight -= 1;
        self.queue.arrived(number, bytes);
    }
}
