//! Changes of a [`Partition`], by whoever holds the lock of its [`Occupation`].

use std::hint::black_box;
use std::sync::Arc;

use tamarack_env::sync::atomic::Ordering;
use tamarack_env::sync::{MutexGuard, schedule_point};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Bucket, BucketSlot, Encoded, Matches};

use super::partition::{Occupation, Partition, crowds, emptier, first_bits, matching};
use super::place::Place;
use super::stash::{Stash, StashChange, Summary};
use super::way::{Move, Ways};
use crate::mistake::{self, Mistake};

/// A change of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// The run with this LID has the key.
    Insert(u16),
    /// The entry with the first LID gets the second one.
    Relabel(u16, u16),
    /// The run with this LID has the key no longer.
    Remove(u16),
}

/// The LIDs of entries that came since a move was counted, or others too.
#[derive(Clone, Copy)]
struct Arrivals(u64);

impl Arrivals {
    const ANY: Self = Self(!0);
    const NONE: Self = Self(0);

    fn add(&mut self, lid: u16) {
        self.0 |= 1 << (lid % 64);
    }

    fn may_have(self, lid: u16) -> bool {
        self.0 >> (lid % 64) & 1 == 1
    }
}

/// Changes of a partition, one after the other. The stash changes for others when they end.
struct Changes<'a> {
    partition: &'a Partition,
    occupation: MutexGuard<'a, Occupation>,
    stash: StashChange,
    /// Made by the first search: most calls need none.
    ways: Option<Ways>,
}

impl Partition {
    /// Carries out changes, one after the other. It is fastest if keys are in the order of their
    /// digests.
    ///
    /// # Panics
    /// If an entry to be changed is not there: a broken invariant of ours.
    pub fn change(&self, changes: impl IntoIterator<Item = (Place, EntryChange)>) {
        let mut this = Changes::begin(self);
        let mut arrivals = Arrivals::ANY;
        let mut changes = changes.into_iter().peekable();
        while let Some((place, change)) = changes.next() {
            if let Some((next, _)) = changes.peek() {
                next.distinct().for_each(|bucket| self.touch(bucket));
            }
            if let EntryChange::Relabel(lid, _) | EntryChange::Remove(lid) = change
                && arrivals.may_have(lid)
                && !mistake::is_planted(Mistake::FilterEqualEntryUncounted)
            {
                this.count_move();
                arrivals = Arrivals::NONE;
            }
            match change {
                EntryChange::Insert(lid) => this.insert(place, lid),
                EntryChange::Relabel(from, to) => this.replace(place, from, Some(to)),
                EntryChange::Remove(lid) => this.replace(place, lid, None),
            }
            if let EntryChange::Insert(lid) | EntryChange::Relabel(_, lid) = change {
                arrivals.add(lid);
            }
        }
        this.end();
    }

    /// Puts entries of the stash into buckets that have empty slots by now. `place_of` gives the
    /// place of a key, from those bits of its digest that tables store.
    pub fn empty_stash(&self, place_of: impl Fn(Digest) -> Place) {
        let mut this = Changes::begin(self);
        let stash = self.stash.load_full();
        let mut is_put = |entry: u64| {
            let (lid, place) = (entry as u16, place_of(Digest::from_stored(entry & !0xFFFF)));
            !this.is_crowded(place) && this.put(place, self.code.slot(lid, place.fingerprint))
        };
        let left: Vec<u64> = stash.0.iter().copied().filter(|entry| !is_put(*entry)).collect();
        if left.len() < stash.0.len() {
            // All copies come before the count, and the removals after it.
            this.count_move();
            self.set_stash(Stash(left).into());
        }
        this.end();
    }

    /// Begins to load a bucket that is needed soon, while others are worked on: most are in no near
    /// cache.
    #[inline]
    fn touch(&self, bucket: usize) {
        black_box(self.buckets[bucket].load(Ordering::Relaxed));
    }

    /// Replaces the stash, then its summary.
    fn set_stash(&self, stash: Arc<Stash>) {
        schedule_point();
        let summary = stash.summary();
        self.stash.store(stash);
        for (word, bits) in self.summary.iter().zip(summary.0) {
            word.store(bits, Ordering::Release);
        }
    }
}

impl<'a> Changes<'a> {
    fn begin(partition: &'a Partition) -> Self {
        let occupation = partition.occupation.lock();
        let summary = Summary(partition.summary.each_ref().map(|word| word.load(Ordering::Relaxed)));
        let stash = StashChange::new(partition.stash.load_full(), summary);
        Self { partition, occupation, stash, ways: None }
    }

    fn end(mut self) {
        if let Some(stash) = self.stash.changed() {
            self.partition.set_stash(stash);
        }
        let memory_bytes = self.partition.memory_bytes(&self.occupation);
        self.occupation.charge.set(memory_bytes);
    }

    /// Counts a move. Nobody else does meanwhile.
    fn count_move(&self) {
        let moves = &self.partition.moves;
        moves.store(moves.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn set(&mut self, bucket: usize, slots: &Bucket) {
        let Partition { code, buckets, .. } = self.partition;
        let rare_of = || self.partition.rare_of(bucket);
        let before = buckets[bucket].load(Ordering::Relaxed);
        let after = match code.encode(slots) {
            Encoded::Frequent(bits) => bits,
            Encoded::Rare(bits, fingerprints) => {
                let rare = rare_of().load().with(bucket, bits, fingerprints);
                schedule_point();
                rare_of().store(Arc::new(rare));
                bits
            }
        };
        buckets[bucket].store(after, Ordering::Release);
        if before != after && code.is_rare(before) {
            let rare = rare_of().load().without(bucket, before);
            schedule_point();
            rare_of().store(Arc::new(rare));
        }
        self.occupation.full.set(bucket, slots.empty_slots() == 0);
    }

    fn insert(&mut self, place: Place, lid: u16) {
        let slot = self.partition.code.slot(lid, place.fingerprint);
        self.occupation.entries += 1;
        if self.put(place, slot) {
            return;
        }
        let is_crowded = self.is_crowded(place);
        if is_crowded || !self.make_space(place, slot) {
            self.occupation.unplaced += u64::from(!is_crowded);
            self.stash.insert(place.digest, lid);
        }
    }

    fn is_crowded(&self, place: Place) -> bool {
        let Partition { code, buckets, .. } = self.partition;
        crowds(code, place, |bucket| {
            let bits = buckets[bucket].load(Ordering::Relaxed);
            let of_frequent = code.matches(bits, place.fingerprint).map(Matches::count);
            of_frequent.unwrap_or_else(|| matching(code, &self.partition.bucket(bucket), place.fingerprint))
        })
    }

    fn empty_slots(&self, bucket: usize) -> usize {
        if self.occupation.full.has(bucket) {
            return 0;
        }
        let bits = self.partition.buckets[bucket].load(Ordering::Relaxed);
        let of_frequent = self.partition.code.empty_slots(bits);
        of_frequent.unwrap_or_else(|| self.partition.bucket(bucket).empty_slots())
    }

    /// Puts an entry into an empty slot of one of its key's buckets; false if none has one.
    fn put(&mut self, place: Place, slot: BucketSlot) -> bool {
        let bucket = emptier(place, |bucket| self.empty_slots(bucket));
        bucket.inspect(|&bucket| self.put_along(&[], bucket, slot)).is_some()
    }

    /// Moves entries out of the way of a new one, and puts it there; false if no place was found.
    /// The way is found first, so that few entries move, and none for nothing.
    fn make_space(&mut self, place: Place, slot: BucketSlot) -> bool {
        let Partition { code, buckets, offsets, .. } = self.partition;
        let first_bits = |bucket: usize| {
            let bits = buckets[bucket].load(Ordering::Relaxed);
            code.first_bits_of_slots(bits).unwrap_or_else(|| first_bits(code, &self.partition.bucket(bucket)))
        };
        // Taken out, for `put_along` changes the rest.
        let mut ways = self.ways.take().unwrap_or_else(|| Ways::new(buckets.len()));
        let way = ways.find((code.slots(), offsets), place, &self.occupation.full, first_bits);
        let is_found = way.inspect(|(moves, free)| self.put_along(moves, *free, slot)).is_some();
        self.ways = Some(ways);
        is_found
    }

    /// Carries out moves, and puts an entry where the last one came from, or into the free bucket.
    ///
    /// The copy, the count, the deletion: see the page on atomics. The store that deletes an entry
    /// writes the next one to its slot.
    fn put_along(&mut self, moves: &[Move], free: usize, slot: BucketSlot) {
        let (mut to, mut bucket, mut left) = (free, self.partition.bucket(free), BucketSlot::EMPTY);
        for &(from, number) in moves {
            let next = self.partition.bucket(from);
            let moved = next.slots()[number];
            if mistake::is_planted(Mistake::FilterEntryDeletedFirst) {
                let mut without = next;
                assert!(without.remove(moved), "bucket {from} has {moved:?}");
                self.set(from, &without);
                self.count_move();
            }
            assert!(bucket.replace(left, moved), "bucket {to} has {left:?}: {bucket:?}");
            self.set(to, &bucket);
            self.count_move();
            (to, bucket, left) = (from, next, moved);
        }
        assert!(bucket.replace(left, slot), "bucket {to} has {left:?}: {bucket:?}");
        self.set(to, &bucket);
    }

    /// Gives an entry another LID, or none: removes it.
    fn replace(&mut self, place: Place, from: u16, to: Option<u16>) {
        self.occupation.entries -= u64::from(to.is_none());
        // The stash first: it knows the key. An equal fingerprint in a bucket may be another
        // key's.
        if self.stash.has(place.digest, from) {
            self.stash.remove(place.digest, from);
            return to.into_iter().for_each(|to| self.stash.insert(place.digest, to));
        }
        let old = self.partition.code.slot(from, place.fingerprint);
        let new = to.map_or(BucketSlot::EMPTY, |to| self.partition.code.slot(to, place.fingerprint));
        let changed = place.distinct().any(|bucket| {
            let bits = self.partition.buckets[bucket].load(Ordering::Relaxed);
            if self.partition.code.matches(bits, place.fingerprint).is_some_and(Matches::is_empty) {
                return false;
            }
            let mut slots = self.partition.bucket(bucket);
            let done = slots.replace(old, new);
            if done {
                self.set(bucket, &slots);
            }
            done
        });
        assert!(changed, "no entry of {place:?} has LID {from}");
    }
}
