//! Correct checksums for altered tables, for fuzzing: no fuzzer would ever pass a checksum, but the
//! decoders behind it must be total all the same. Not used for reading or writing tables.

use crate::block::{Block, BlockCursor};
use crate::checksum::Place;
use crate::meta::TableId;
use crate::stored::{BlockHandle, TRAILER_BYTES};
use crate::table::{FOOTER_BYTES, Footer, Units, place};

/// The length of a checksum.
const CHECKSUM_BYTES: usize = 8;

/// Corrects, in the bytes of a table file, all checksums that can be reached from the footer: of
/// the data blocks, then of the index blocks that contain those, finally the footer's. Bytes that
/// lead nowhere stay unchanged.
pub fn repair_checksums(file: &mut [u8], database: u64, table: TableId) {
    let Some(footer_offset) = file.len().checked_sub(FOOTER_BYTES) else { return };
    let place = place(database, table);
    let [top_index, properties, filter, digests] = Footer::unchecked_handles(&file[footer_offset..]);
    let (blocks, footer) = file.split_at_mut(footer_offset);
    if let Some(filter) = filter.as_ref().filter(|_| Footer::has_units(footer)) {
        repair_units(blocks, place, filter);
    }
    for (handle, levels, at) in [
        (top_index, 2, Footer::TOP_INDEX_END),
        (properties, 0, Footer::PROPERTIES_END),
        (filter, 0, Footer::FILTER_END),
        (digests, 0, Footer::DIGESTS_END),
    ] {
        if let Some(checksum) = handle.and_then(|handle| repair_block(blocks, place, &handle, levels)) {
            put_checksum_before(footer, at, checksum);
        }
    }
    let checksum = place.checksum(footer_offset as u64, &footer[..FOOTER_BYTES - CHECKSUM_BYTES]);
    put_checksum_before(footer, FOOTER_BYTES, checksum);
}

/// Corrects the checksums of a filter's units in the block that lists them.
fn repair_units(file: &mut [u8], place: Place, list: &BlockHandle) {
    let Ok(start) = usize::try_from(list.offset) else { return };
    let Some(bytes) = start.checked_add(list.bytes).and_then(|end| file.get(start..end)) else { return };
    let Some((payload, _)) = bytes.split_last_chunk::<TRAILER_BYTES>() else { return };
    let Ok(units) = Units::decode(payload, list.offset) else { return };
    for (at, unit) in units.0.iter().enumerate() {
        if let Some(checksum) = repair_block(file, place, unit, 0) {
            put_checksum_before(&mut file[start..], (at + 1) * Units::HANDLE_BYTES, checksum);
        }
    }
}

/// Corrects the checksum of one block and of `levels` levels of blocks that it is an index of;
/// returns the checksum.
fn repair_block(file: &mut [u8], place: Place, handle: &BlockHandle, levels: usize) -> Option<u64> {
    let start = usize::try_from(handle.offset).ok()?;
    let end = start.checked_add(handle.bytes)?;
    let payload = file.get(start..end)?.split_last_chunk::<TRAILER_BYTES>()?.0.to_vec();
    if levels > 0
        && let Ok(block) = Block::decode(payload)
    {
        let mut cursor = BlockCursor::default();
        let mut sound = cursor.seek_first(&block);
        while let (Ok(()), Some(entry)) = (sound, cursor.entry(&block)) {
            let below = BlockHandle::decode(entry.value).ok();
            if let Some(checksum) = below.and_then(|below| repair_block(file, place, &below, levels - 1)) {
                put_checksum_before(&mut file[start..], block.range_of(entry.value).end, checksum);
            }
            sound = cursor.next(&block);
        }
    }
    let checksum = place.checksum(handle.offset, &file[start..end - CHECKSUM_BYTES]);
    put_checksum_before(file, end, checksum);
    Some(checksum)
}

fn put_checksum_before(bytes: &mut [u8], end: usize, checksum: u64) {
    bytes[end - CHECKSUM_BYTES..end].copy_from_slice(&checksum.to_le_bytes());
}
