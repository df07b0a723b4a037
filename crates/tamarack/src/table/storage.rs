//! [`TableStorage`]: what all tables of a database read with: the environment, the mode, the cache, and the counters.
//!
//! # Through the page cache or past it
//!
//! A table is read in one mode for as long as it is open, and it is opened only after its writer
//! has synced it in full; both is what the environment asks of who reads a file directly
//! ([`Access::ReadDirect`]). Writes go through the page cache in either mode. A file that no
//! edit may name yet ([`Table::read_meta`](super::Table::read_meta)) is looked at through the page
//! cache.
//!
//! # One read or many
//!
//! A single block is a read of its own. Who wants several at once makes a queue of them
//! ([`TableStorage::read_queue`]), so that they take as long as one where the device can do that,
//! and what is done with those that have arrived takes no time of its own.
//!
//! Tests: `tests/suite/reads.rs` counts what the simulator is asked for, and how long it takes on a
//! device with latency.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::{Access, Env, File, ReadQueue, ReadRequest};

use super::filter_slots::{FilterSlots, PinnedFilters};
use super::index::IndexRoom;
use crate::cache::BlockCache;
use crate::format::SharedBlock;
use crate::format::block::Block;
use crate::memory::{Account, Budget, Charged, Part};
use crate::stats::{LookupCounters, ReadCounters, Reader, ReaderCounters};

/// What tables read with. See the module's documentation.
#[derive(Debug)]
pub struct TableStorage {
    env: Arc<dyn Env>,
    access: Access,
    cache: Arc<BlockCache>,
    account: Arc<Account>,
    index_room: IndexRoom,
    pub(super) filter_slots: FilterSlots,
    counters: Arc<ReadCounters>,
    lookups: LookupCounters,
}

impl TableStorage {
    /// Tables of `env` that keep their blocks in `cache`, with room for lower index blocks of
    /// `index_bytes`, and are read past the page cache if `direct` and if that is possible.
    /// Their memory is charged to `account`.
    pub fn new(
        env: Arc<dyn Env>,
        cache: Arc<BlockCache>,
        account: Arc<Account>,
        index_bytes: u64,
        direct: bool,
    ) -> Arc<Self> {
        let access = if direct { Access::ReadDirect } else { Access::Read };
        let index_room = IndexRoom::new(index_bytes, account.clone());
        let lookups = LookupCounters::new(env.clone());
        let filter_slots = FilterSlots::default();
        Arc::new(Self { env, access, cache, account, index_room, filter_slots, counters: Arc::default(), lookups })
    }

    /// Tables that are read through the page cache, with a block cache of their own.
    pub fn buffered(env: Arc<dyn Env>, cache_bytes: u64) -> Arc<Self> {
        Self::new(env, Arc::new(BlockCache::new(cache_bytes)), Account::new(Budget::unlimited()), 0, false)
    }

    /// The environment.
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }

    /// The filters in use now, for the tables that there are now: to be asked for after the tables.
    #[inline]
    pub fn pin_filters(&self) -> PinnedFilters {
        self.filter_slots.pin()
    }

    /// The room for lower index blocks.
    pub fn index_room(&self) -> &IndexRoom {
        &self.index_room
    }

    /// The cache.
    pub fn cache(&self) -> &BlockCache {
        &self.cache
    }

    /// Where memory is charged.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// A block that was read for a query, to be shared.
    pub(super) fn share(&self, block: Block) -> SharedBlock {
        Charged::share(block.indexed(), Block::memory_bytes, Some(&self.account), Part::Blocks)
    }

    /// What was read so far.
    pub fn counters(&self) -> &Arc<ReadCounters> {
        &self.counters
    }

    /// What lookups did so far.
    pub fn lookups(&self) -> &LookupCounters {
        &self.lookups
    }

    /// Opens a file that is durable as a whole.
    pub(super) fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.env.open(path, self.access)
    }

    /// Carries out the reads of a queue, many at a time ([`Env::read_queue`]), and counts them.
    pub fn read_queue(&self, reader: Reader, queue: &mut dyn ReadQueue) {
        let mut counted = Counted { queue, counters: self.counters.of(reader), reads: 0 };
        self.env.read_queue(&mut counted);
        if counted.reads > 1 {
            counted.counters.batches.add(1);
        }
    }
}

/// Counts what a queue asks for.
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
