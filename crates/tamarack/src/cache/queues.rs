//! [`Queues`]: the order in which the cache evicts: S3-FIFO, with sizes in bytes.
//!
//! ```text
//!            ┌────────────── new ──────────────┐  not used again        ┌── ghosts ──┐
//! insert ──► │ a tenth of the memory, in order │ ─────────────────────► │ names only │
//!            └─────────────────────────────────┘ ◄── used again? main   └────────────┘
//!            ┌────────────── main ─────────────┐                              │
//!        ┌─► │ the rest, in order              │ ◄── inserted again soon ─────┘
//!        │   └─────────────────────────────────┘ ─► evicted
//!        └── used since it was here last: again, up to three times
//! ```
//!
//! (Yang, Zhang, Qiu, Yue, Vinayak: FIFO Queues Are All You Need for Cache Eviction, SOSP 2023.) A
//! hit sets a counter in the item and takes no lock; only insertions and evictions come here. Items
//! that are used once, as in a long scan, pass through *new* and leave *main* alone.
//!
//! What has left the cache otherwise, with its table, stays in the queues as an orphan until it is
//! met, or until orphans are many.

use std::collections::VecDeque;
use std::sync::Weak;

use super::entries::EntryTable;
use super::lower::{LowerBlock, LowerSlots};
use super::uses::Uses;
use crate::format::SharedBlock;
use crate::memory::Charged;

/// The share of the memory for new items is one part in this many.
const NEW_PARTS: u64 = 10;

/// What an item in a queue is, and where the cache has it.
#[derive(Debug)]
pub(super) enum Home {
    /// The data block of a fence.
    Data(Weak<Charged<LowerBlock>>, u32),
    /// The lower index block of a fence.
    Lower(Weak<LowerSlots>, u32),
    /// The entry of that name.
    Entry(u64),
}

/// An item in a queue, with its memory in bytes.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) home: Home,
    pub(super) bytes: u64,
}

impl Home {
    /// How often the item was used since it came into its queue, up to three times; `None` if it is
    /// gone. `change` says how often it is to have been used from now on.
    fn uses(&self, entries: &EntryTable, change: fn(u8) -> u8) -> Option<u8> {
        let look = |uses: &Uses| {
            let before = uses.get();
            uses.set(change(before));
            before
        };
        match self {
            Self::Data(lower, at) => lower.upgrade().map(|lower| look(lower.slots().uses(*at as usize))),
            Self::Lower(slots, top) => slots.upgrade().map(|slots| look(slots.slots().uses(*top as usize))),
            Self::Entry(name) => Some(entries.uses(*name, change)),
        }
    }

    /// The hash of the item, to remember it; `None` if it is gone.
    fn name(&self) -> Option<u64> {
        match self {
            Self::Data(lower, at) => Some(lower.upgrade()?.name_of(*at as usize)),
            Self::Lower(slots, top) => Some(slots.upgrade()?.name_of(*top as usize)),
            Self::Entry(name) => Some(*name),
        }
    }
}

/// The queues. See the module's documentation.
#[derive(Debug)]
pub(super) struct Queues {
    new: VecDeque<Item>,
    new_bytes: u64,
    main: VecDeque<Item>,
    ghosts: Ghosts,
}

/// Names of items that were evicted from *new*: each slot, chosen by the name, has the last one.
#[derive(Debug)]
struct Ghosts(Box<[u32]>);

impl Ghosts {
    fn slot(&mut self, name: u64) -> &mut u32 {
        let at = name as usize & (self.0.len() - 1);
        &mut self.0[at]
    }

    fn add(&mut self, name: u64) {
        *self.slot(name) = (name >> 32) as u32;
    }

    /// Returns true if the name was there, and removes it.
    fn remove(&mut self, name: u64) -> bool {
        let slot = self.slot(name);
        let was_there = *slot == (name >> 32) as u32;
        if was_there {
            *slot = !*slot;
        }
        was_there
    }
}

impl Queues {
    /// Makes empty queues that remember the names of about `ghosts` evicted items.
    pub(super) fn new(ghosts: usize) -> Self {
        let ghosts = Ghosts(vec![u32::MAX; ghosts.next_power_of_two()].into());
        Self { new: VecDeque::new(), new_bytes: 0, main: VecDeque::new(), ghosts }
    }

    /// Adds an item.
    pub(super) fn insert(&mut self, item: Item) {
        if item.home.name().is_some_and(|name| self.ghosts.remove(name)) {
            self.main.push_back(item);
        } else {
            self.new_bytes += item.bytes;
            self.new.push_back(item);
        }
    }

    /// Removes the next item to evict, of a cache of `capacity_bytes` with these entries; `None` if
    /// there is none. Orphans on the way are removed and counted in `orphans`.
    pub(super) fn evict(&mut self, capacity_bytes: u64, entries: &EntryTable, orphans: &mut u64) -> Option<Item> {
        loop {
            if self.new_bytes > capacity_bytes / NEW_PARTS || self.main.is_empty() {
                let item = self.new.pop_front()?;
                self.new_bytes -= item.bytes;
                match item.home.uses(entries, |_| 0) {
                    None => *orphans += 1,
                    Some(0) => {
                        item.home.name().into_iter().for_each(|name| self.ghosts.add(name));
                        return Some(item);
                    }
                    Some(_) => self.main.push_back(item),
                }
                continue;
            }
            let item = self.main.pop_front().expect("it is not empty");
            match item.home.uses(entries, |uses| uses.saturating_sub(1)) {
                None => *orphans += 1,
                Some(0) => return Some(item),
                Some(_) => self.main.push_back(item),
            }
        }
    }

    /// Removes all orphans, and returns how many there were.
    pub(super) fn remove_orphans(&mut self) -> u64 {
        let before = self.len();
        let is_there = |item: &Item| match &item.home {
            Home::Data(lower, _) => lower.strong_count() > 0,
            Home::Lower(slots, _) => slots.strong_count() > 0,
            Home::Entry(_) => true,
        };
        for queue in [&mut self.new, &mut self.main] {
            queue.retain(is_there);
            if queue.capacity() > 4 * queue.len() {
                queue.shrink_to(2 * queue.len());
            }
        }
        self.new_bytes = self.new.iter().map(|item| item.bytes).sum();
        (before - self.len()) as u64
    }

    /// All data blocks.
    pub(super) fn data_blocks(&self) -> impl Iterator<Item = SharedBlock> {
        self.new.iter().chain(&self.main).filter_map(|item| match &item.home {
            Home::Data(lower, at) => lower.upgrade()?.slots().block(*at as usize).load_full(),
            Home::Lower(..) | Home::Entry(_) => None,
        })
    }

    /// The number of items, orphans among them.
    pub(super) fn len(&self) -> usize {
        self.new.len() + self.main.len()
    }

    /// Its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let items = self.new.capacity() + self.main.capacity();
        (items * size_of::<Item>() + size_of_val(&*self.ghosts.0)) as u64
    }
}
