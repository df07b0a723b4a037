//! The system's allocator with counters for each thread: allocations, and allocated bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// The allocations of this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };

    /// The bytes that this thread has allocated minus those that it has freed. Wraps below zero.
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: both calls are passed on unchanged to the system's allocator; counting does not touch the
// memory, and needs none itself: its counters are constants until they are first used. The provided
// methods for zeroed memory and for growing are made of these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get().wrapping_add(layout.size() as u64));
        // SAFETY: the caller's promise, unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get().wrapping_sub(layout.size() as u64));
        // SAFETY: the caller's promise, unchanged.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The bytes that this thread has allocated minus those that it has freed. Only differences are
/// meaningful.
pub(crate) fn bytes_of_thread() -> u64 {
    ALLOCATED_BYTES.get()
}

/// The number of allocations of this thread.
pub(crate) fn allocations_of_thread() -> u64 {
    ALLOCATIONS.get()
}
