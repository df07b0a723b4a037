//! An allocator that counts live bytes of all threads, and their maximum.

use std::alloc::{GlobalAlloc, Layout, System};

use tamarack_env::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
/// Live bytes by the size of allocations, in powers of two.
static LIVE_BY_SIZE: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(bytes: usize) {
    let live = LIVE.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64;
    PEAK.fetch_max(live, Ordering::SeqCst);
    LIVE_BY_SIZE[bytes.max(1).ilog2() as usize].fetch_add(bytes as u64, Ordering::Relaxed);
}

fn subtract(bytes: usize) {
    LIVE.fetch_sub(bytes as u64, Ordering::SeqCst);
    LIVE_BY_SIZE[bytes.max(1).ilog2() as usize].fetch_sub(bytes as u64, Ordering::Relaxed);
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

/// The least size of allocations, and live bytes of allocations from that size to twice that.
pub(crate) fn live_bytes_by_size() -> Vec<(u64, u64)> {
    let sizes = (0..64).map(|power| (1 << power, LIVE_BY_SIZE[power].load(Ordering::Relaxed)));
    sizes.filter(|(_, bytes)| *bytes > 0).collect()
}

/// The maximum of live bytes since the last call.
pub(crate) fn take_peak_bytes() -> u64 {
    PEAK.swap(live_bytes(), Ordering::SeqCst)
}
