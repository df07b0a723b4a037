//! The filter of a memtable. A lookup whose key is not there is spared the search in the list,
//! which in a full memtable takes longer than all else that the lookup does: a search touches
//! about fifteen nodes that no cache has, this filter one word.
//!
//! It has one 64-bit word for each [`RAW_BYTES_PER_WORD`] that the memtable is expected to take,
//! allocated when the first entry comes: 1/64 of the memtable. Entries of 116 bytes get 14 bits
//! each, and 1 in 150 lookups of other keys searches the list all the same; a memtable that grows
//! larger than expected has a higher rate. An empty memtable has none, and denies every key.
//!
//! # Order of memory
//!
//! Bits are set before the entry is linked, and never cleared. A reader that must see an entry
//! begins after its insert has returned, so it sees the bits as well; `Relaxed` suffices.

use std::ptr;
use std::slice;

use tamarack_env::prefetch;
use tamarack_env::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use tamarack_filter::{Digest, WordPlace};

/// Raw bytes of entries for each word.
const RAW_BYTES_PER_WORD: u64 = 512;

/// The memtable that the largest filter is for, which has 16 MiB: zeroing it takes the first writer
/// some milliseconds.
const RAW_BYTES_MAX: u64 = 1 << 30;

/// A filter that is added to while it is read.
#[derive(Debug)]
pub(super) struct MemtableFilter {
    /// The number of words.
    count: usize,
    /// The words; null before the first entry comes. Not a `OnceLock`: the thread sanitizer does
    /// not see the order that one of the standard library makes.
    words: AtomicPtr<AtomicU64>,
}

/// The word that a key belongs in, prefetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyWord<'a> {
    word: &'a AtomicU64,
    place: WordPlace,
}

impl MemtableFilter {
    /// Makes a filter without memory for a memtable of so many raw bytes.
    pub(super) fn new(raw_bytes: u64) -> Self {
        let count = (raw_bytes.min(RAW_BYTES_MAX) / RAW_BYTES_PER_WORD).max(1) as usize;
        Self { count, words: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The words, if they are allocated.
    #[inline]
    fn words(&self) -> Option<&[AtomicU64]> {
        // Acquire: whoever allocated them has written them before.
        let words = self.words.load(Ordering::Acquire);
        // SAFETY: a pointer that is not null came from a box of `count` words, is never replaced,
        // and is freed when the filter is dropped; the words are changed through their atomics.
        (!words.is_null()).then(|| unsafe { slice::from_raw_parts(words, self.count) })
    }

    /// The word of a key, prefetched. Allocates the filter if nobody has; `allocated` is told how
    /// many bytes.
    #[inline]
    pub(super) fn word_of(&self, key: &[u8], allocated: impl FnOnce(usize)) -> KeyWord<'_> {
        let words = match self.words() {
            Some(words) => words,
            None => self.allocate(allocated),
        };
        let place = WordPlace::of(Digest::of(key), words.len());
        let word = &words[place.word];
        prefetch(ptr::from_ref(word));
        KeyWord { word, place }
    }

    /// Allocates the words, unless another thread is first.
    #[cold]
    #[inline(never)]
    fn allocate(&self, allocated: impl FnOnce(usize)) -> &[AtomicU64] {
        let words: Box<[AtomicU64]> = (0..self.count).map(|_| AtomicU64::new(0)).collect();
        let words = Box::into_raw(words).cast::<AtomicU64>();
        let set = self.words.compare_exchange(ptr::null_mut(), words, Ordering::Release, Ordering::Relaxed);
        match set {
            Ok(_) => allocated(self.count * size_of::<AtomicU64>()),
            // SAFETY: made here, and not published.
            Err(_) => unsafe { self.free(words) },
        }
        self.words().expect("they were set just now")
    }

    /// Frees words.
    ///
    /// # Safety
    /// They came from a box of `count` words, and nobody else knows them, or knows them any more.
    unsafe fn free(&self, words: *mut AtomicU64) {
        // SAFETY: the caller says so.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(words, self.count)) });
    }

    /// The bytes allocated.
    #[inline]
    pub(super) fn memory_bytes(&self) -> u64 {
        self.words().map_or(0, |words| size_of_val(words) as u64)
    }

    /// Returns false if no entry with such a key was inserted.
    #[inline]
    pub(super) fn may_have(&self, digest: Digest) -> bool {
        self.words().is_some_and(|words| {
            let place = WordPlace::of(digest, words.len());
            place.is_in(words[place.word].load(Ordering::Relaxed))
        })
    }
}

impl Drop for MemtableFilter {
    fn drop(&mut self) {
        let words = self.words.load(Ordering::Acquire);
        if !words.is_null() {
            // SAFETY: made by `allocate`, and `&mut self` means that nobody uses them any more.
            unsafe { self.free(words) };
        }
    }
}

impl KeyWord<'_> {
    /// Adds the key.
    #[inline]
    pub(super) fn add(self) {
        // Overwrites find their bits set, and leave the line shared.
        if !self.place.is_in(self.word.load(Ordering::Relaxed)) {
            self.word.fetch_or(self.place.mask, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    /// With entries of 116 bytes it has the rate that this module's page names, denies nothing that
    /// was inserted, and takes 1/64 of the memtable; an empty one denies everything and takes
    /// nothing.
    #[test]
    fn rate_and_memory() {
        let entries = if cfg!(miri) { 200 } else { 20_000_u64 };
        let filter = MemtableFilter::new(116 * entries);
        let digest = |number: u64| Digest::of(&number.to_be_bytes());
        assert!(!filter.may_have(digest(1)));
        assert_eq!(filter.memory_bytes(), 0);
        for number in 0..entries {
            filter
                .word_of(&number.to_be_bytes(), |bytes| {
                    assert_eq!((number, bytes as u64 / 8), (0, 116 * entries / 512))
                })
                .add();
        }
        assert!((0..entries).all(|number| filter.may_have(digest(number))));
        let found = (entries..11 * entries).filter(|number| filter.may_have(digest(*number))).count() as f64;
        let rate = found / (10 * entries) as f64;
        let predicted = WordPlace::false_positive_rate(64.0 * 116.0 / 512.0);
        assert!(predicted < 1.0 / 140.0 && (cfg!(miri) || rate < 1.1 * predicted), "{rate} of {predicted}");
        assert_eq!(filter.memory_bytes(), 116 * entries / 512 * 8);
    }
}
