//! The fuzz target `block`: the input as the payload of a block, and as a compressed body.
//!
//! Any input must be decoded without a panic and without memory that its length does not justify.
//! The ways to read what a decoder accepts must agree. Called by the program in `fuzz/` and by the
//! test that replays the stored corpus.

use std::ops::ControlFlow;

use tamarack_env::ByteBuffer;

use crate::block::{Block, BlockBuilder, BlockCursor, Versions};
use crate::checksum::{FileKind, Place};
use crate::entry::{self, OwnedEntry, Sequence};
use crate::fences::{FIRST_PLACE, Fences};
use crate::stored::{BlockHandle, Flaw, StoredBytes, open_block};

/// Decodes the input as the payload of a block, and as a compressed body.
pub fn block(input: &[u8]) {
    for tag in 0..=3 {
        open_block_as(tag, input);
    }
    let Ok(block) = Block::decode(input.to_vec()) else { return };
    let sound = block.check_restarts().is_ok();
    let Ok(entries) = walk_block(&block) else {
        poke_block(&block);
        poke_block(&block.indexed());
        return;
    };
    let ascending = entries.windows(2).all(|pair| entry::compare(pair[0].place(), pair[1].place()).is_lt());
    if sound && ascending {
        check_block(&block, &entries);
        check_block(&block.indexed(), &entries);
        check_rebuilt(&entries);
    } else {
        poke_block(&block);
        poke_block(&block.indexed());
    }
}

/// A body with any tag and its checksum must be refused or decompressed.
fn open_block_as(tag: u8, body: &[u8]) {
    let place = Place::new(1, FileKind::Table, 1);
    let mut stored = ByteBuffer::from(body);
    stored.push(tag);
    let checksum = place.checksum(0, &stored);
    stored.extend_from_slice(&checksum.to_le_bytes());
    let handle = BlockHandle { offset: 0, bytes: stored.len(), checksum };
    let _ = open_block(StoredBytes::Owned(stored), place, &handle);
}

fn walk_block(block: &Block) -> Result<Vec<OwnedEntry>, Flaw> {
    let mut cursor = BlockCursor::default();
    let mut entries = Vec::new();
    cursor.seek_first(block)?;
    while let Some(entry) = cursor.entry(block) {
        entries.push(OwnedEntry::from(entry));
        cursor.next(block)?;
    }
    Ok(entries)
}

/// Calls everything on a malformed block; the results may be anything.
fn poke_block(block: &Block) {
    let mut cursor = BlockCursor::default();
    let _ = cursor.seek_last(block);
    for _ in 0..block.bytes().len() {
        if cursor.entry(block).is_none() || cursor.prev(block).is_err() {
            break;
        }
    }
    for (key, sequence) in [(&b""[..], Sequence::MAX), (b"key", Sequence(1)), (b"\xFF\xFF", Sequence::ZERO)] {
        let _ = block.versions(key, sequence, &mut |_| ControlFlow::Continue(()));
        let _ = cursor.seek(block, key, sequence);
        let _ = cursor.seek_before(block, key, sequence);
        if let Ok(fences) = Fences::decode(block, FIRST_PLACE) {
            let at = fences.floor(key, sequence);
            let (place, next) = (fences.place(at), fences.place((at + 1).min(fences.len() - 1)));
            let here = at == 0 || entry::compare((&place.0, place.1), (key, sequence)).is_le();
            let ends = at + 1 == fences.len() || entry::compare((&next.0, next.1), (key, sequence)).is_gt();
            assert!(here && ends, "{place:?} {next:?}, but {key:?} {sequence:?} was sought");
        }
    }
}

/// A sound block yields the same entries in every way to read it.
fn check_block(block: &Block, entries: &[OwnedEntry]) {
    let mut cursor = BlockCursor::default();
    cursor.seek_last(block).expect("sound");
    for expected in entries.iter().rev() {
        assert_eq!(cursor.entry(block).map(OwnedEntry::from).as_ref(), Some(expected));
        cursor.prev(block).expect("sound");
    }
    assert_eq!(cursor.entry(block), None);
    for (i, expected) in entries.iter().enumerate() {
        let (key, sequence) = expected.place();
        cursor.seek(block, key, sequence).expect("sound");
        assert_eq!(cursor.entry(block).map(OwnedEntry::from).as_ref(), Some(expected));
        cursor.seek_before(block, key, sequence).expect("sound");
        assert_eq!(cursor.entry(block).map(OwnedEntry::from).as_ref(), i.checked_sub(1).map(|i| &entries[i]));
        let mut first = None;
        let ended = block.versions(key, sequence, &mut |entry| {
            first = Some(OwnedEntry::from(entry));
            ControlFlow::Break(())
        });
        assert_eq!((ended, first.as_ref()), (Ok(Versions::Stopped), Some(expected)));
    }
}

/// Entries that are written again read the same.
fn check_rebuilt(entries: &[OwnedEntry]) {
    let mut builder = BlockBuilder::new(3);
    entries.iter().for_each(|entry| {
        builder.add(&entry.entry());
    });
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    let again = Block::decode(payload).and_then(|block| walk_block(&block));
    assert_eq!(again.as_deref(), Ok(entries));
}
