//! The system's allocator with counters for each thread: allocations, and allocated bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Calls of this thread that took memory.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };

    /// Bytes that this thread took, less those that it gave back. Wraps below zero.
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: both calls are handed on to the system's allocator as they came; counting does not touch
// the memory, and needs none itself: its counters are constants until they are first used. The
// provided methods for zeroed memory and for growing are made of these two.
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

/// Bytes that this thread took, less those that it gave back. Only differences mean something.
pub(crate) fn bytes_of_thread() -> u64 {
    ALLOCATED_BYTES.get()
}

/// How often this thread took memory.
pub(crate) fn allocations_of_thread() -> u64 {
    ALLOCATIONS.get()
}
