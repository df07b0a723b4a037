//! [`Bucket`]: a cache line with slots for entries; [`Buckets`]: as many as are needed, none of
//! which ever moves.
//!
//! ```text
//! │ entry │ entry │ entry │ entry │ entry │ entry │ tags │ uses │ next │
//! │ a pointer, or none                            │ 6 B  │      │      │      64 bytes
//! ```
//!
//! A tag is a byte of an entry's name, so that a lookup compares the names of hardly any other
//! entries; 0 is no entry. All six are compared at once. Only one thread at a time writes.

use std::sync::OnceLock;

use tamarack_env::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::entry::{CachedEntry, ReadEntry};
use super::slot::{EntrySlot, FoundEntry, Reading, Reclaimer, Removed};

/// The slots of a bucket.
const SLOTS: usize = 6;

/// A one in each tag.
const ONES: u64 = 0x0101_0101_0101;

/// The highest bit of each tag.
const HIGH_BITS: u64 = ONES << 7;

/// The most uses that count.
const USES_MAX: u32 = 3;

/// A bucket. See the module's documentation.
#[repr(align(64))]
pub(super) struct Bucket {
    slots: [EntrySlot; SLOTS],
    /// The tag of slot 0 is the lowest byte.
    tags: AtomicU64,
    /// How often each entry was used lately: two bits for each slot.
    uses: AtomicU32,
    /// The number of the bucket with further entries, from 1; 0 if there is none.
    next: AtomicU32,
}

fn tag_of(name: u64) -> u64 {
    (name >> 56).max(1)
}

/// Has the highest bit of each byte that is zero; perhaps of a later one, too.
fn zero_bytes(bytes: u64) -> u64 {
    bytes.wrapping_sub(ONES) & !bytes & HIGH_BITS
}

/// The numbers of the slots whose highest bits are in `bits`.
fn slots_of(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = (bits != 0).then(|| bits.trailing_zeros() as usize / 8);
        bits &= bits.wrapping_sub(1);
        slot
    })
}

impl Bucket {
    fn new() -> Self {
        Self {
            slots: [const { EntrySlot::empty() }; SLOTS],
            tags: AtomicU64::new(0),
            uses: AtomicU32::new(0),
            next: AtomicU32::new(0),
        }
    }

    /// The slot of the entry of that name, and the entry; or the right to read on.
    #[inline]
    pub(super) fn find<'a>(&self, name: u64, mut reading: Reading<'a>) -> Result<(usize, FoundEntry<'a>), Reading<'a>> {
        let tags = self.tags.load(Ordering::Acquire);
        for slot in slots_of(zero_bytes(tags ^ (tag_of(name) * ONES))) {
            match self.slots[slot].load(reading) {
                Ok(found) if found.read().name() == name => return Ok((slot, found)),
                Ok(other) => reading = other.into_reading(),
                Err(read_on) => reading = read_on,
            }
        }
        Err(reading)
    }

    /// A slot without an entry.
    pub(super) fn empty_slot(&self) -> Option<usize> {
        slots_of(zero_bytes(self.tags.load(Ordering::Relaxed))).next()
    }

    /// The slots with an entry.
    pub(super) fn full_slots(&self) -> impl Iterator<Item = usize> {
        let tags = self.tags.load(Ordering::Relaxed);
        (0..SLOTS).filter(move |slot| tags >> (8 * slot) & 0xFF != 0)
    }

    /// Returns true if no slot has an entry.
    pub(super) fn is_empty(&self) -> bool {
        self.tags.load(Ordering::Relaxed) == 0
    }

    /// The entry in a slot that has one.
    pub(super) fn entry<'a>(&self, slot: usize, reading: Reading<'a>) -> FoundEntry<'a> {
        let Ok(found) = self.slots[slot].load(reading) else { panic!("slot {slot} has a tag, but no entry") };
        found
    }

    /// What `look` returns for each entry. Others may change the bucket meanwhile.
    pub(super) fn entries<'b, T>(
        &'b self,
        reclaimer: &'b Reclaimer,
        look: impl Fn(ReadEntry<'_>) -> Option<T> + 'b,
    ) -> impl Iterator<Item = T> + 'b {
        self.slots.iter().filter_map(move |slot| look(slot.load(reclaimer.enter()).ok()?.read()))
    }

    /// Puts an entry into a slot without one.
    pub(super) fn put(&self, slot: usize, entry: CachedEntry, uses: u8, reclaimer: &Reclaimer) {
        let tag = tag_of(entry.read().name()) << (8 * slot);
        let before = self.slots[slot].swap(Some(entry), reclaimer);
        assert!(before.is_none(), "slot {slot} has no tag, but an entry");
        self.set_uses(slot, uses);
        // Who sees the tag sees the entry.
        self.tags.store(self.tags.load(Ordering::Relaxed) | tag, Ordering::Release);
    }

    /// Replaces the entry in a slot by another one of its name, which stays as hot as it was.
    /// Returns the one before.
    pub(super) fn replace<'a>(&self, slot: usize, entry: CachedEntry, reclaimer: &'a Reclaimer) -> Option<Removed<'a>> {
        self.slots[slot].swap(Some(entry), reclaimer)
    }

    /// Takes the entry out of a slot.
    pub(super) fn take<'a>(&self, slot: usize, reclaimer: &'a Reclaimer) -> Option<Removed<'a>> {
        let tags = self.tags.load(Ordering::Relaxed);
        self.tags.store(tags & !(0xFF << (8 * slot)), Ordering::Release);
        self.slots[slot].swap(None, reclaimer)
    }

    /// Counts a use of the entry in a slot.
    #[inline]
    pub(super) fn note_use(&self, slot: usize) {
        let uses = self.uses.load(Ordering::Relaxed);
        // Most are used often: then their cache line is only read.
        if uses >> (2 * slot) & USES_MAX < USES_MAX {
            // This may fail because another use counts, perhaps of another entry.
            let _ = self.uses.compare_exchange(uses, uses + (1 << (2 * slot)), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How often the entry in a slot was used, up to three times.
    pub(super) fn uses(&self, slot: usize) -> u8 {
        (self.uses.load(Ordering::Relaxed) >> (2 * slot) & USES_MAX) as u8
    }

    /// Sets how often the entry in a slot was used.
    pub(super) fn set_uses(&self, slot: usize, uses: u8) {
        assert!(u32::from(uses) <= USES_MAX, "{uses} uses");
        self.uses.fetch_and(!(USES_MAX << (2 * slot)), Ordering::Relaxed);
        self.uses.fetch_or(u32::from(uses) << (2 * slot), Ordering::Relaxed);
    }

    /// The number of the bucket with further entries.
    #[inline]
    pub(super) fn next(&self) -> Option<u32> {
        Some(self.next.load(Ordering::Acquire)).filter(|&next| next != 0)
    }

    /// Sets it. Returns the one before.
    pub(super) fn set_next(&self, next: Option<u32>) -> Option<u32> {
        assert!(next != Some(0), "buckets with further entries have numbers from 1");
        let before = self.next.load(Ordering::Relaxed);
        self.next.store(next.unwrap_or(0), Ordering::Release);
        Some(before).filter(|&before| before != 0)
    }
}

/// The buckets of a chunk: 16 KiB.
const CHUNK: usize = 256;

/// Lists of chunks, each twice as long as the one before: enough for as many buckets as a number of
/// 32 bits counts.
const LISTS: usize = 25;

type Chunk = Box<[Bucket; CHUNK]>;

/// Buckets by number. They are made in chunks, of which the first has a list of its own, the next
/// two share one, and so on.
pub(super) struct Buckets {
    lists: [OnceLock<Box<[OnceLock<Chunk>]>>; LISTS],
    bytes: AtomicU64,
}

impl Buckets {
    /// Has no buckets, and takes no memory but its own.
    pub(super) fn new() -> Self {
        Self { lists: [const { OnceLock::new() }; LISTS], bytes: AtomicU64::new(0) }
    }

    /// The bucket of that number, which was made before.
    #[inline]
    pub(super) fn at(&self, number: u32) -> &Bucket {
        let chunk = number as usize / CHUNK + 1;
        let list = chunk.ilog2() as usize;
        let chunk = self.lists[list].get().and_then(|chunks| chunks[chunk - (1 << list)].get());
        let Some(chunk) = chunk else { panic!("bucket {number} was not made") };
        &chunk[number as usize % CHUNK]
    }

    /// The bucket of that number. Makes it if it is not there.
    pub(super) fn make(&self, number: u32) -> &Bucket {
        let chunk = number as usize / CHUNK + 1;
        let list = chunk.ilog2() as usize;
        let chunks = self.lists[list].get_or_init(|| self.charge((0..1 << list).map(|_| OnceLock::new()).collect()));
        let chunk = chunks[chunk - (1 << list)].get_or_init(|| {
            let buckets = self.charge((0..CHUNK).map(|_| Bucket::new()).collect());
            buckets.try_into().unwrap_or_else(|_| unreachable!("there are {CHUNK} of them"))
        });
        &chunk[number as usize % CHUNK]
    }

    fn charge<T>(&self, parts: Box<[T]>) -> Box<[T]> {
        self.bytes.fetch_add(size_of_val(&*parts) as u64, Ordering::Relaxed);
        parts
    }

    /// The memory of all buckets, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(not(feature = "shuttle"))]
const _: () = assert!(size_of::<Bucket>() == 64);

#[cfg(test)]
mod tests {
    //! Tests: tags are compared as if one by one; buckets are where they were.

    use tamarack_testing::{Random, seeds};

    use super::*;

    /// The first byte that is found is the first zero, none is missed, and what is found besides is
    /// after one.
    #[test]
    fn zero_bytes_are_found() {
        for seed in seeds(1000) {
            let mut random = Random::new(seed);
            let tags: [u8; SLOTS] =
                std::array::from_fn(|_| [0, 1, 0x80, 0xFF, random.next() as u8][random.below(5) as usize]);
            let mut bytes = [0; 8];
            bytes[..SLOTS].copy_from_slice(&tags);
            let found: Vec<usize> = slots_of(zero_bytes(u64::from_le_bytes(bytes))).collect();
            let zeros: Vec<usize> = (0..SLOTS).filter(|&at| tags[at] == 0).collect();
            assert_eq!(found.first(), zeros.first(), "{tags:?}");
            assert!(zeros.iter().all(|zero| found.contains(zero)) && found.is_sorted(), "{found:?} of {tags:?}");
        }
    }

    #[test]
    fn buckets_stay_where_they_are() {
        let buckets = Buckets::new();
        let address = |bucket: &Bucket| std::ptr::from_ref(bucket).addr();
        let made: Vec<usize> = (0..3000).map(|number| address(buckets.make(number))).collect();
        assert!((0..3000).all(|number| address(buckets.at(number)) == made[number as usize]));
        let distinct: std::collections::HashSet<&usize> = made.iter().collect();
        assert!(distinct.len() == 3000 && made.iter().all(|address| address % 64 == 0));
        let least = 3000 * size_of::<Bucket>() as u64;
        assert!((least..least + 40_000).contains(&buckets.memory_bytes()), "{} bytes", buckets.memory_bytes());
    }
}
