//! The shape that a policy gives a tree, within the memory budget.
//!
//! Knows no particular policy. Tested where databases are opened and reshaped
//! (`tests/suite/limits.rs`, `tests/suite/design.rs`).

use tamarack_model::policy::Policy;
use tamarack_model::{Bytes, Shape};

use crate::error::{Error, Result};

/// Returns the shape that a policy gives a tree of `data` bytes with a memtable of
/// `memtable_bytes`. A custom shape sets its own memtable size.
///
/// # Errors
/// [`Error::InvalidArgument`] if the shape's memtable size exceeds both `memtable_bytes` and
/// `memtable_bytes_max`.
pub fn shape_of(policy: &Policy, data: Bytes, memtable_bytes: u64, memtable_bytes_max: u64) -> Result<Shape> {
    let shape = policy.shape(data, Bytes(memtable_bytes));
    let buffer = shape.buffer();
    if buffer.0 > memtable_bytes.max(memtable_bytes_max) {
        return Err(Error::InvalidArgument(format!(
            "the shape's memtable size of {buffer} is more than half of the memory budget, {}: give more memory, or a smaller memtable",
            Bytes(memtable_bytes_max.saturating_mul(2))
        )));
    }
    Ok(shape)
}
