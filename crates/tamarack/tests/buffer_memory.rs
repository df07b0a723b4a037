//! Shows that a buffer's account of its memory is exact: beside a counting allocator, after every insert, for entries from nothing to
//! some mebibytes, and that dropping the last owner gives everything back.

#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack::buffer::Buffer;
use tamarack::{Entry, EntryKind, Query, Sequence};

struct Counting;

thread_local! {
    /// What this thread holds. The test's own thread only: that of the harness allocates when it likes.
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: both calls are handed on to the system's allocator as they came; counting does not touch the memory. The provided
// methods for zeroed memory and for growing are made of these two.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
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

#[test]
fn the_account_is_exact() {
    let value = vec![7; 3 << 20];
    let at_first = ALLOCATED_BYTES.get();
    let buffer = Arc::new(Buffer::new());
    let empty = ALLOCATED_BYTES.get();
    assert_eq!(buffer.memory_bytes(), 0);
    for sequence in 1..=60_000_u64 {
        let bytes = if sequence % 5000 == 0 { value.len() } else { (sequence * 31 % 150) as usize };
        let key = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let entry = Entry { key: &key, sequence: Sequence(sequence), kind: EntryKind::Put, value: &value[..bytes] };
        buffer.insert(entry);
        assert_eq!(empty + buffer.memory_bytes(), ALLOCATED_BYTES.get(), "after insert {sequence}");
    }
    // What is not entries: 57 bytes per entry for links, numbers and alignment, and at most a chunk of 2 MiB in each of
    // the two regions that is not used yet.
    let overhead_bytes = buffer.memory_bytes() - (buffer.raw_bytes() - 8 * buffer.entries());
    assert!(overhead_bytes < 64 * buffer.entries() + (4 << 20), "{overhead_bytes} bytes for {}", buffer.entries());

    let cursor = buffer.cursor();
    let mut pinned = None;
    let key = 1_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let _ = buffer.get(Query::new(&key, Sequence::MAX), &mut |entry| {
        pinned = Some(buffer.pin(entry.value));
        ControlFlow::Break(())
    });
    drop(buffer);
    drop(cursor);
    assert_eq!(pinned.as_deref(), Some(&value[..31]), "the value keeps the buffer");
    drop(pinned);
    assert_eq!(ALLOCATED_BYTES.get(), at_first);
}
