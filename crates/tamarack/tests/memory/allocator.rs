//! An allocator that counts live bytes of all threads, and their maximum.

use std::alloc::{GlobalAlloc, Layout, System};

use tamarack_env::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(bytes: usize) {
    let live = LIVE.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64;
    PEAK.fetch_max(live, Ordering::SeqCst);
}

fn subtract(bytes: usize) {
    LIVE.fetch_sub(bytes as u64, Ordering::SeqCst);
}

// SAFETY: all calls are passed on unchanged to the system's allocator; counting does not touch the
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise, unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise, unchanged.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size);
        subtract(layout.size());
        // SAFETY: the caller's promise, unchanged.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: the caller's promise, unchanged.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Live bytes.
pub(crate) fn live_bytes() -> u64 {
    LIVE.load(Ordering::SeqCst)
}

/// The maximum of live bytes since the last call.
pub(crate) fn take_peak_bytes() -> u64 {
    PEAK.swap(live_bytes(), Ordering::SeqCst)
}
