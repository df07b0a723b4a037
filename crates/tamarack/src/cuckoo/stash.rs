//! [`Stash`]: the entries of a partition that are in none of its buckets.

use std::sync::Arc;

/// Entries that are in no bucket, ordered: 48 bits of the digest, then the LID. There are many if
/// some keys are in more runs than two buckets have slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Stash(pub(super) Vec<u64>);

impl Stash {
    pub(super) fn entry(digest: u64, lid: u16) -> u64 {
        digest << 16 | u64::from(lid)
    }

    /// The LIDs of a key.
    pub(super) fn of(&self, digest: u64) -> impl Iterator<Item = u16> {
        let from = self.0.partition_point(|entry| *entry < Self::entry(digest, 0));
        self.0[from..].iter().take_while(move |entry| **entry >> 16 == digest).map(|entry| *entry as u16)
    }

    pub(super) fn has(&self, digest: u64, lid: u16) -> bool {
        self.0.binary_search(&Self::entry(digest, lid)).is_ok()
    }

    /// Adds an entry.
    pub(super) fn insert(&mut self, digest: u64, lid: u16) {
        let entry = Self::entry(digest, lid);
        self.0.insert(self.0.partition_point(|other| *other < entry), entry);
    }

    /// Takes an entry away; false if there is none.
    pub(super) fn remove(&mut self, digest: u64, lid: u16) -> bool {
        let found = self.0.binary_search(&Self::entry(digest, lid));
        found.map(|place| self.0.remove(place)).is_ok()
    }

    pub(super) fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        self.0.iter().for_each(|entry| summary.add(entry >> 16));
        summary
    }
}

/// For each key of the stash, a bit: most other keys have none there.
#[derive(Clone, Copy, Default)]
pub(super) struct Summary(pub(super) [u64; SUMMARY_WORDS]);

pub(super) const SUMMARY_WORDS: usize = 8;

impl Summary {
    /// The bit of a key, from bits of the digest that keys of one partition do not share.
    #[inline]
    pub(super) fn place(digest: u64) -> (usize, u64) {
        ((digest >> 22) as usize % SUMMARY_WORDS, 1 << (digest >> 16 & 63))
    }

    pub(super) fn add(&mut self, digest: u64) {
        let (word, bit) = Self::place(digest);
        self.0[word] |= bit;
    }

    pub(super) fn may_have(&self, digest: u64) -> bool {
        let (word, bit) = Self::place(digest);
        self.0[word] & bit != 0
    }
}

/// The stash, as a call that changes the partition leaves it. It is copied at most once in a call,
/// however many of its entries change.
pub(super) struct StashChange {
    stash: Arc<Stash>,
    /// Has a bit for each entry, and perhaps for some that are gone.
    summary: Summary,
    is_changed: bool,
}

impl StashChange {
    pub(super) fn new(stash: Arc<Stash>, summary: Summary) -> Self {
        Self { stash, summary, is_changed: false }
    }

    /// The stash, if it has changed.
    pub(super) fn changed(self) -> Option<Arc<Stash>> {
        self.is_changed.then_some(self.stash)
    }

    pub(super) fn has(&self, digest: u64, lid: u16) -> bool {
        self.summary.may_have(digest) && self.stash.has(digest, lid)
    }

    pub(super) fn insert(&mut self, digest: u64, lid: u16) {
        self.is_changed = true;
        self.summary.add(digest);
        Arc::make_mut(&mut self.stash).insert(digest, lid);
    }

    /// Takes an entry away, which is there.
    pub(super) fn remove(&mut self, digest: u64, lid: u16) {
        self.is_changed = true;
        let was_there = Arc::make_mut(&mut self.stash).remove(digest, lid);
        assert!(was_there, "the stash has LID {lid} of {digest:#x}");
    }
}
