//! A memtable's account of its memory is exact: compared with a counting allocator after every
//! insert, for entries of nothing to some mebibytes; and dropping the last owner frees everything.

use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack::internals::Memtable;
use tamarack::internals::Query;
use tamarack_format::entry::{Entry, EntryKind, Sequence};

use crate::allocator::bytes_of_thread;

#[test]
fn the_account_is_exact() {
    let value = vec![7; 3 << 20];
    let at_first = bytes_of_thread();
    let buffer = Arc::new(Memtable::new());
    let empty = bytes_of_thread();
    assert_eq!(buffer.memory_bytes(), 0);
    for sequence in 1..=60_000_u64 {
        let bytes = if sequence % 5000 == 0 { value.len() } else { (sequence * 31 % 150) as usize };
        let key = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let entry = Entry { key: &key, sequence: Sequence(sequence), kind: EntryKind::Put, value: &value[..bytes] };
        buffer.insert(entry);
        assert_eq!(empty + buffer.memory_bytes(), bytes_of_thread(), "after insert {sequence}");
    }
    // The overhead: 57 bytes per entry for links, numbers and alignment, and at most an unused
    // chunk of 2 MiB in each of the two regions.
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
    assert_eq!(pinned.as_deref(), Some(&value[..31]), "the value pins the memtable");
    drop(pinned);
    assert_eq!(bytes_of_thread(), at_first);
}
