//! [`EntryTable`]: the cached entries by name, in a hash table that is read without a lock, and
//! that grows by one bucket at a time.
//!
//! ```text
//! homes    │ 0 │ 1 │ 2 │ 3 │ 4 │          next, home 5 is added: entries of 1 whose next
//!                ▼                        bit is set move there. Then 2 is divided with 6, …
//! further      │   │                      for those that find their home full
//! ```
//!
//! This is linear hashing (Litwin: Linear Hashing: A New Tool for File and Table Addressing, VLDB
//! 1980). So no insertion copies a table, no two tables are there at once, and the memory is always
//! known. The table never shrinks; a removed entry's slot is free for others.
//!
//! Changes need a [`TableWriter`], which is under the cache's lock; lookups take none and allocate
//! nothing. A lookup that finds nothing searches again if the table has grown meanwhile: the entry
//! may have moved. It is in its new place before that counts, and in the old one until then, so an
//! entry that stays in the table is always found.
//!
//! Cost: some 25 bytes for an entry. A lookup touches the cache line of the home, and the entry;
//! one in ten touches another bucket.

use std::iter::successors;

use tamarack_env::prefetch;
use tamarack_env::sync::atomic::{AtomicU32, Ordering};

use super::buckets::{Bucket, Buckets};
use super::entry::{CachedEntry, ReadEntry};
use super::slot::{FoundEntry, Reclaimer, Removed};
use crate::mistake::{self, Mistake};

/// Entries for each home, of six slots. The homes that are still to be divided have up to twice as
/// many as those that were.
const ENTRIES_PER_HOME: u64 = 3;

/// The entries. See the module's documentation.
pub(super) struct EntryTable {
    homes: Buckets,
    further: Buckets,
    /// The number of homes.
    count: AtomicU32,
    reclaimer: Reclaimer,
}

/// What only changes of the table need. Whoever has it is alone in changing the table.
#[derive(Debug, Default)]
pub(super) struct TableWriter {
    entries: u64,
    /// The number of buckets for further entries, and those of them that have none.
    further: u32,
    empty: Vec<u32>,
}

impl TableWriter {
    /// Its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.empty.capacity() * size_of::<u32>()) as u64
    }
}

/// The home of a name, of `count` homes.
#[inline]
fn home_of(name: u64, count: u32) -> u32 {
    let undivided = (1 << count.ilog2()) - 1;
    let divided = name as u32 & (undivided << 1 | 1);
    if divided < count { divided } else { divided & undivided }
}

impl EntryTable {
    pub(super) fn new() -> Self {
        let homes = Buckets::new();
        homes.make(0);
        Self { homes, further: Buckets::new(), count: AtomicU32::new(1), reclaimer: Reclaimer::new() }
    }

    /// The entry of that name, which counts as a use.
    #[inline]
    pub(super) fn get(&self, name: u64) -> Option<FoundEntry<'_>> {
        let (bucket, slot, found) = self.find(name)?;
        bucket.note_use(slot);
        Some(found)
    }

    /// Asks for the cache line in which a search for that name begins.
    #[inline]
    pub(super) fn prefetch(&self, name: u64) {
        prefetch(self.homes.at(home_of(name, self.count.load(Ordering::Acquire))));
    }

    /// Returns true if there is an entry of that name.
    #[inline]
    pub(super) fn has(&self, name: u64) -> bool {
        self.find(name).is_some()
    }

    #[inline]
    fn find(&self, name: u64) -> Option<(&Bucket, usize, FoundEntry<'_>)> {
        let mut reading = self.reclaimer.enter();
        let mut count = self.count.load(Ordering::Acquire);
        loop {
            for bucket in self.chain(home_of(name, count)) {
                match bucket.find(name, reading) {
                    Ok((slot, found)) => return Some((bucket, slot, found)),
                    Err(read_on) => reading = read_on,
                }
            }
            // This load is not earlier than those before.
            let count_now = self.count.load(Ordering::Acquire);
            if count_now == count || mistake::is_planted(Mistake::CacheGrowthUnnoticed) {
                return None;
            }
            count = count_now;
        }
    }

    /// A home and the buckets with its further entries.
    #[inline]
    fn chain(&self, home: u32) -> impl Iterator<Item = &Bucket> {
        successors(Some(self.homes.at(home)), |bucket| bucket.next().map(|next| self.further.at(next)))
    }

    /// How often the entry of that name was used since the queues last looked, up to three times;
    /// `change` says how often it is to have been used from now on. The caller has the lock of the
    /// cache, and knows that the entry is there.
    pub(super) fn uses(&self, name: u64, change: impl FnOnce(u8) -> u8) -> u8 {
        let Some((bucket, slot, _)) = self.find(name) else {
            panic!("entry {name:x} is in a queue, but not in the cache")
        };
        let before = bucket.uses(slot);
        bucket.set_uses(slot, change(before));
        before
    }

    /// The names of the entries that are `wanted`, of those that are there all the time; perhaps
    /// some of them twice, as the table may change meanwhile.
    pub(super) fn names_of(&self, wanted: impl Fn(ReadEntry<'_>) -> bool) -> Vec<u64> {
        let mut names = Vec::new();
        let mut home = 0;
        // An entry moves only to a home after its own, which counts before it leaves its own.
        while home < self.count.load(Ordering::Acquire) {
            for bucket in self.chain(home) {
                // Each is read for itself, so that what is removed meanwhile can be freed.
                names.extend(bucket.entries(&self.reclaimer, |entry| wanted(entry).then(|| entry.name())));
            }
            home += 1;
        }
        names
    }

    /// Adds an entry, or replaces the one of its name, which is returned then.
    pub(super) fn insert(&self, writer: &mut TableWriter, entry: CachedEntry) -> Option<Removed<'_>> {
        let name = entry.read().name();
        if let Some((bucket, slot, _)) = self.find(name) {
            return bucket.replace(slot, entry, &self.reclaimer);
        }
        let count = self.count.load(Ordering::Relaxed);
        self.add(writer, home_of(name, count), entry, 0);
        writer.entries += 1;
        if writer.entries > ENTRIES_PER_HOME * u64::from(count) && count < u32::MAX {
            self.divide(writer, count);
        }
        None
    }

    /// Removes an entry, if it is there.
    pub(super) fn remove(&self, writer: &mut TableWriter, name: u64) -> Option<Removed<'_>> {
        let (bucket, slot, _) = self.find(name)?;
        let removed = bucket.take(slot, &self.reclaimer)?;
        writer.entries -= 1;
        self.give_back(writer, home_of(name, self.count.load(Ordering::Relaxed)));
        Some(removed)
    }

    /// Adds an entry to a home or the buckets behind it.
    fn add(&self, writer: &mut TableWriter, home: u32, entry: CachedEntry, uses: u8) {
        let place = self.chain(home).find_map(|bucket| Some((bucket, bucket.empty_slot()?)));
        let (bucket, slot) = place.unwrap_or_else(|| {
            let number = writer.empty.pop().unwrap_or_else(|| {
                writer.further += 1;
                writer.further
            });
            let bucket = self.further.make(number);
            let last = self.chain(home).last().expect("a chain has its home");
            last.set_next(Some(number));
            (bucket, 0)
        });
        bucket.put(slot, entry, uses, &self.reclaimer);
    }

    /// Takes the last buckets from a chain as long as they are empty. Those before them stay:
    /// somebody may be on the way to the next.
    fn give_back(&self, writer: &mut TableWriter, home: u32) {
        loop {
            let mut before = None;
            let mut last = self.homes.at(home);
            while let Some(next) = last.next() {
                before = Some(last);
                last = self.further.at(next);
            }
            match before {
                Some(before) if last.is_empty() => writer.empty.extend(before.set_next(None)),
                _ => return,
            }
        }
    }

    /// Adds a home, the one after `count`, and moves its entries there.
    fn divide(&self, writer: &mut TableWriter, count: u32) {
        let bit = 1 << count.ilog2();
        let (divided, added) = (count - bit, count);
        self.homes.make(added);
        let moving = |bucket: &Bucket| -> Vec<usize> {
            let moves = |&slot: &usize| bucket.entry(slot, self.reclaimer.enter()).read().name() as u32 & bit != 0;
            bucket.full_slots().filter(moves).collect()
        };
        for bucket in self.chain(divided) {
            for slot in moving(bucket) {
                let (entry, uses) = (bucket.entry(slot, self.reclaimer.enter()).keep(), bucket.uses(slot));
                if mistake::is_planted(Mistake::CachedEntryTakenFirst) {
                    drop(bucket.take(slot, &self.reclaimer));
                }
                self.add(writer, added, entry, uses);
            }
        }
        self.count.store(count + 1, Ordering::Release);
        for bucket in self.chain(divided) {
            for slot in moving(bucket) {
                drop(bucket.take(slot, &self.reclaimer));
            }
        }
        self.give_back(writer, divided);
    }

    /// The memory of the table, without the entries, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.homes.memory_bytes() + self.further.memory_bytes()
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod schedules;
#[cfg(test)]
mod tests;
