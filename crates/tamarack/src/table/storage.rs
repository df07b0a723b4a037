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
use std::sync::Arc;

use tamarack_env::{Access, Env, File, ReadQueue, ReadRequest};

use super::filter_slots::{FilterSlots, PinnedFilters};
use super::index::IndexBudget;
use crate::cache::BlockCache;
use crate::format::SharedBlock;
use crate::format::block::Block;
use crate::memory::{Account, Budget, Charged, MemoryPart};
use crate::stats::{LookupCounters, ReadCounters, Reader, ReaderCounters};

/// The shared resources of tables. See the module's documentation.
#[derive(Debug)]
pub struct TableStorage {
    env: Arc<dyn Env>,
    access: Access,
    cache: Arc<BlockCache>,
    account: Arc<Account>,
    index_budget: IndexBudget,
    pub(super) filter_slots: FilterSlots,
    counters: Arc<ReadCounters>,
    lookups: LookupCounters,
}

impl TableStorage {
    /// Makes the storage of tables in `env` that keep blocks in `cache` and at most `index_bytes`
    /// of lower index blocks resident, and that are read with direct I/O if `direct` and if that is
    /// possible. Their memory is charged to `account`.
    pub fn new(
        env: Arc<dyn Env>,
        cache: Arc<BlockCache>,
        account: Arc<Account>,
        index_bytes: u64,
        direct: bool,
    ) -> Arc<Self> {
        let access = if direct { Access::ReadDirect } else { Access::Read };
        let index_budget = IndexBudget::new(index_bytes, account.clone());
        let lookups = LookupCounters::new(env.clone());
        let filter_slots = FilterSlots::default();
        Arc::new(Self { env, access, cache, account, index_budget, filter_slots, counters: Arc::default(), lookups })
    }

    /// Makes a storage with the page cache and a block cache of its own.
    pub fn buffered(env: Arc<dyn Env>, cache_bytes: u64) -> Arc<Self> {
        Self::new(env, Arc::new(BlockCache::new(cache_bytes)), Account::new(Budget::unlimited()), 0, false)
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

    /// A block that was read for a query, to be shared.
    pub(super) fn share(&self, block: Block) -> SharedBlock {
        Charged::share(block.indexed(), Block::memory_bytes, Some(&self.account), MemoryPart::Blocks)
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
    pub(super) fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.env.open(path, self.access)
    }

    /// Carries out the reads of a queue concurrently ([`Env::read_queue`]), and counts them.
    pub fn read_queue(&self, reader: Reader, queue: &mut dyn ReadQueue) {
        let mut counted = Counted { queue, counters: self.counters.of(reader), reads: 0 };
        self.env.read_queue(&mut counted);
        if counted.reads > 1 {
            counted.counters.batches.add(1);
        }
    }
}

/// Counts the requests of a queue.
struct Counted<'a> {
    queue: &'a mut dyn ReadQueue,
    counters: &'a ReaderCounters,
    reads: usize,
}

impl ReadQueue for Counted<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        let request = self.queue.next()?;
        self.counters.count_read(request.bytes);
        self.reads += 1;
        Some(request)
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        self.queue.arrived(number, bytes);
    }
}
