//! How many bytes of a run's tables lie in a range of keys, without reading data.
//!
//! ```text
//! range            ├───────────────────────┤
//! tables    ├── 7 ──┤├── 8 ─────┤  ├──── 9 ─────┤
//!              from its   from its    from its
//!              fences     metadata    fences
//! ```
//!
//! Tests: `tests/suite/sorted_map.rs`.

use super::run::Run;
use super::slice::Slice;
use crate::error::Result;
use crate::format::key_range::KeyRange;

impl Run {
    /// Returns the bytes in files of the data blocks that may have entries in `range`, which is not
    /// empty. Whole tables inside of it count with their index.
    ///
    /// # Errors
    /// Errors of opening a table at an end of the range, and of reading its index.
    pub fn data_bytes_within(&self, range: &KeyRange) -> Result<u64> {
        let start =
            range.from.as_deref().map_or(0, |from| self.slices().partition_point(|slice| slice.ends_before(from)));
        let slices = self.slices().iter_from(start);
        let slices = slices.take_while(|slice| range.to.as_deref().is_none_or(|to| slice.first_key() < to));
        slices.map(|slice| data_bytes_within(slice, range)).sum()
    }
}

/// The part of a slice that shares keys with `range`.
fn data_bytes_within(slice: &Slice, range: &KeyRange) -> Result<u64> {
    if slice.is_whole() && slice.is_within(range) {
        return Ok(slice.volume().data_bytes);
    }
    let own = KeyRange { from: slice.from().cloned(), to: slice.to().cloned() };
    slice.table().open()?.data_bytes_within(&own.and(range))
}
