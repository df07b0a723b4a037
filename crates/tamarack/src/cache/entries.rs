//! [`EntryTable`]: the cached entries by name, in a hash table that is read without a lock.
//!
//! The cache's lock orders changes; lookups take none and allocate nothing (`papaya`). What a
//! thread removes is freed at once if no other thread reads in the table at that moment, else with
//! what the thread removes next: its memory is not charged any more.

use std::hash::{BuildHasher, Hasher};

use papaya::HashMap;
use seize::Collector;
use tamarack_env::sync::schedule_point;

use super::entry::CachedEntry;
use super::uses::Uses;

/// The entries. See the module's documentation.
pub(super) struct EntryTable(HashMap<u64, KeptEntry, NameHash>);

/// An entry and how often it was used lately.
struct KeptEntry {
    entry: CachedEntry,
    uses: Uses,
}

impl EntryTable {
    pub(super) fn new() -> Self {
        // By default each thread keeps what it has removed until that is 32 entries.
        let collector = Collector::new().batch_size(1);
        Self(HashMap::builder().hasher(NameHash).collector(collector).build())
    }

    /// The entry of that name, which counts as a use.
    #[inline]
    pub(super) fn get(&self, name: u64) -> Option<CachedEntry> {
        schedule_point();
        let entries = self.0.pin();
        let kept = entries.get(&name)?;
        kept.uses.note();
        Some(kept.entry.clone())
    }

    /// Returns true if there is an entry of that name.
    #[inline]
    pub(super) fn has(&self, name: u64) -> bool {
        schedule_point();
        self.0.pin().contains_key(&name)
    }

    /// What `look` says of the uses of the entry of that name. The caller has the lock of the
    /// cache, and knows that the entry is there.
    pub(super) fn uses<T>(&self, name: u64, look: impl FnOnce(&Uses) -> T) -> T {
        let entries = self.0.pin();
        let kept = entries.get(&name).unwrap_or_else(|| panic!("entry {name:x} is in a queue, but not in the cache"));
        look(&kept.uses)
    }

    /// Adds or replaces an entry. Returns the memory of the one that it replaces, in bytes. The
    /// caller has the lock of the cache.
    pub(super) fn insert(&self, name: u64, entry: CachedEntry) -> Option<usize> {
        let entries = self.0.pin();
        let kept = KeptEntry { entry, uses: Uses::default() };
        // What is written stays as hot as it was.
        entries.get(&name).into_iter().for_each(|before| kept.uses.set(before.uses.get()));
        entries.insert(name, kept).map(|replaced| replaced.entry.memory_bytes())
    }

    /// The names of the entries that are `wanted`, of those that are there all the time.
    pub(super) fn names_of(&self, wanted: impl Fn(&CachedEntry) -> bool) -> Vec<u64> {
        let entries = self.0.pin();
        entries.iter().filter(|(_, kept)| wanted(&kept.entry)).map(|(name, _)| *name).collect()
    }

    /// Removes an entry. Returns its memory in bytes. The caller has the lock of the cache.
    pub(super) fn remove(&self, name: u64) -> Option<usize> {
        self.0.pin().remove(&name).map(|kept| kept.entry.memory_bytes())
    }
}

/// Hashes names, which are hashes already.
#[derive(Clone)]
struct NameHash;

impl BuildHasher for NameHash {
    type Hasher = NameHasher;
    fn build_hasher(&self) -> NameHasher {
        NameHasher(0)
    }
}

struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }

    fn write(&mut self, bytes: &[u8]) {
        unreachable!("names are numbers, not {bytes:?}");
    }
}
