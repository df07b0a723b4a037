//! [`EntrySlot`]: a place for a cached entry, which is read without a lock and without counting a
//! reference.
//!
//! A slot is a pointer. Who reads it says so before ([`Reclaimer::enter`]); what is taken out is
//! freed when all have ended that read at that moment ([`Removed`], with `seize`). Usually nobody
//! does, and that is at once. Else it may wait until the thread has removed as many entries as
//! threads were reading: with T threads, at most T² entries wait.
//!
//! One thread at a time writes. All slots of a table, with their readers, have one [`Reclaimer`];
//! that it is the right one is not checked.
//!
//! Cost: to begin and end reading, two atomic operations on a cache line of the thread's own.
//! Removing an entry looks at that line of each thread.

#![expect(unsafe_code, reason = "a pointer that others read while it is replaced cannot be written without")]
#![expect(
    clippy::disallowed_types,
    reason = "`seize` reads only pointers of the standard library; steps are made known to the explorer of schedules"
)]

use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use seize::{Collector, Guard, LocalGuard};
use tamarack_env::sync::schedule_point;

use super::entry::{CachedEntry, ReadEntry};

/// Knows who reads in the slots of a table, and frees what was removed from them.
pub(super) struct Reclaimer(Collector);

/// The right to read slots.
pub(super) type Reading<'a> = LocalGuard<'a>;

/// A place for a cached entry. See the module's documentation.
pub(super) struct EntrySlot(AtomicPtr<()>);

/// A cached entry, or the absence of one, while a lookup uses it.
pub struct FoundEntry<'a> {
    /// Without a reference of its own.
    entry: ManuallyDrop<CachedEntry>,
    reading: Reading<'a>,
}

/// An entry that was taken out of its slot. Dropping it frees it, or has it freed by the last
/// lookup that may look at it.
#[must_use]
pub(super) struct Removed<'a> {
    entry: *mut (),
    bytes: usize,
    reclaimer: &'a Reclaimer,
}

impl Reclaimer {
    pub(super) fn new() -> Self {
        // By default each thread keeps what it has removed until that is 32 entries.
        Self(Collector::new().batch_size(1))
    }

    /// Begins to read slots.
    #[inline]
    pub(super) fn enter(&self) -> Reading<'_> {
        self.0.enter()
    }
}

impl EntrySlot {
    /// Makes a slot without an entry.
    pub(super) const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The entry; or the right to read once more, if there is none.
    #[inline]
    pub(super) fn load<'a>(&self, reading: Reading<'a>) -> Result<FoundEntry<'a>, Reading<'a>> {
        schedule_point();
        let pointer = reading.protect(&self.0, Ordering::Acquire);
        if pointer.is_null() {
            return Err(reading);
        }
        // SAFETY: The pointer came from `CachedEntry::into_raw` in `EntrySlot::swap`, and whoever
        // takes it out of the slot gives it to the collector, which frees it only when `reading`
        // has ended. No reference is counted, and `ManuallyDrop` gives none back.
        let entry = ManuallyDrop::new(unsafe { CachedEntry::from_raw(pointer) });
        Ok(FoundEntry { entry, reading })
    }

    /// Puts an entry into the slot, or none. Returns the one before.
    pub(super) fn swap<'a>(&self, entry: Option<CachedEntry>, reclaimer: &'a Reclaimer) -> Option<Removed<'a>> {
        schedule_point();
        let pointer = entry.map_or(ptr::null_mut(), CachedEntry::into_raw);
        // The collector's rules want no less.
        let before = self.0.swap(pointer, Ordering::SeqCst);
        if before.is_null() {
            return None;
        }
        // SAFETY: As in `load`; it is freed only once the `Removed` that is made here is dropped.
        let bytes = ManuallyDrop::new(unsafe { CachedEntry::from_raw(before) }).memory_bytes();
        Some(Removed { entry: before, bytes, reclaimer })
    }
}

impl Drop for EntrySlot {
    fn drop(&mut self) {
        let pointer = *self.0.get_mut();
        if !pointer.is_null() {
            // SAFETY: Nobody else has the slot any more, so the reference is ours.
            drop(unsafe { CachedEntry::from_raw(pointer) });
        }
    }
}

impl Removed<'_> {
    /// The memory of the entry, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // SAFETY: No slot has the entry any more, so whoever begins to read from now on does not
        // find it; and the slot's reference, which came from `CachedEntry::into_raw`, is given back
        // exactly once, here.
        unsafe {
            self.reclaimer.0.retire(self.entry, |entry, _| drop(CachedEntry::from_raw(entry)));
        }
    }
}

impl<'a> FoundEntry<'a> {
    /// What it says.
    #[inline]
    pub fn read(&self) -> ReadEntry<'_> {
        self.entry.read()
    }

    /// Keeps it for longer than the lookup.
    pub fn keep(&self) -> CachedEntry {
        CachedEntry::clone(&self.entry)
    }

    /// Gives up the entry, and reads on.
    #[inline]
    pub(super) fn into_reading(self) -> Reading<'a> {
        self.reading
    }
}

impl std::fmt::Debug for FoundEntry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FoundEntry").field(&self.read().entry()).finish()
    }
}

#[cfg(test)]
mod tests {
    //! Tests: an entry lives as long as somebody has it, and no longer.

    use super::*;
    use crate::entry::Sequence;

    fn entry(name: u64) -> CachedEntry {
        CachedEntry::absent(name, b"key", Sequence(1))
    }

    #[test]
    fn an_entry_lives_as_long_as_somebody_has_it() {
        let (slot, reclaimer) = (EntrySlot::empty(), Reclaimer::new());
        let (first, second) = (entry(1), entry(2));
        assert!(slot.load(reclaimer.enter()).is_err());
        assert!(slot.swap(Some(first.clone()), &reclaimer).is_none());
        let found = slot.load(reclaimer.enter()).expect("it is full");
        assert_eq!((found.read().name(), first.references()), (1, 2), "reading counts no reference");
        let kept = found.keep();
        assert_eq!(first.references(), 3);
        let removed = slot.swap(Some(second.clone()), &reclaimer).expect("it was full");
        assert_eq!(removed.memory_bytes(), first.memory_bytes());
        drop(removed);
        assert_eq!((found.read().name(), first.references()), (1, 3), "it is still being read");
        drop(found);
        assert_eq!(first.references(), 2, "the slot's reference is gone");
        drop(kept);
        assert_eq!(first.references(), 1);
        drop(slot.swap(None, &reclaimer));
        assert_eq!(second.references(), 1, "nobody reads, so it is gone at once");
        slot.swap(Some(second.clone()), &reclaimer);
        drop(slot);
        assert_eq!(second.references(), 1);
    }

    /// One thread replaces the entry of a slot, others read it: Miri and sanitizers look at this.
    #[test]
    fn entries_are_replaced_while_they_are_read() {
        let rounds = if cfg!(miri) { 40 } else { 20_000 };
        let (slot, reclaimer) = (EntrySlot::empty(), Reclaimer::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < rounds {
                        if let Ok(found) = slot.load(reclaimer.enter()) {
                            let name = found.read().name();
                            assert!(name >= last && found.read().key() == b"key", "{name} after {last}");
                            last = name;
                        }
                    }
                });
            }
            for name in 1..=rounds {
                drop(slot.swap((name % 5 > 0 || name == rounds).then(|| entry(name)), &reclaimer));
            }
        });
    }
}
