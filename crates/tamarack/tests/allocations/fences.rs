//! A decoded index block's account of its memory is exact: compared with a counting allocator, for
//! keys that are short, long, and of several versions, and for blocks with gaps between them.

use tamarack_env::ByteBuffer;
use tamarack_format::block::{Block, BlockBuilder};
use tamarack_format::entry::Sequence;
use tamarack_format::fences::Fences;
use tamarack_format::stored::BlockHandle;
use tamarack_format::table::fence_entry;

use crate::allocator::bytes_of_thread;

/// Decodes an index block of `count` fences, and compares its memory with what was allocated.
fn check(count: u64, place: impl Fn(u64) -> (String, Sequence), gap: u64) {
    let mut builder = BlockBuilder::new(4);
    for number in 0..count {
        let mut handle = Vec::new();
        BlockHandle { offset: number * (3000 + gap), bytes: 3000, checksum: number }.encode(&mut handle);
        let (key, sequence) = place(number);
        builder.add(&fence_entry(key.as_bytes(), sequence, &handle));
    }
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    let block = Block::decode(payload).expect("sound");
    let (key, sequence) = place(0);
    let at_first = bytes_of_thread();
    let fences = Box::new(Fences::decode(&block, (key.as_bytes(), sequence)).expect("sound"));
    assert_eq!(at_first + fences.memory_bytes() as u64, bytes_of_thread(), "{count} fences from {key}, gaps of {gap}");
    drop(fences);
    assert_eq!(bytes_of_thread(), at_first);
}

#[test]
fn the_account_is_exact() {
    for count in [1, 2, 3, 100, 1000] {
        for gap in [0, 1] {
            check(count, |number| (format!("short {number:06}"), Sequence::MAX), gap);
            check(count, |number| (format!("{number:06}, which is a long one"), Sequence::MAX), gap);
            check(count, |number| ("of many versions".to_owned(), Sequence(1000 - number)), gap);
        }
    }
}
