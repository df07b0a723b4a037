//! [`Policy`], and how capacities that grow by a fixed ratio come in size steps.

use std::fmt;

use crate::shape::{Level, Shape};
use crate::units::Bytes;

/// A family of shapes. Its [`Display`](fmt::Display) form are the words that [`parse`](super::parse) reads back. It can
/// be shared between threads: it is a few numbers that never change.
pub trait Policy: fmt::Debug + fmt::Display + Send + Sync {
    /// The smallest shape of this family that holds more than `data` bytes (at most [`DATA_MAX`]).
    ///
    /// # Panics
    /// If the buffer is empty, or larger than [`BUFFER_MAX`](crate::BUFFER_MAX).
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape;
}

/// The largest data size that shapes are made for, 128 TiB; what is larger is taken for this. With the largest ratio,
/// 2^16, all capacities together can still be counted in 64 bits.
pub const DATA_MAX: Bytes = Bytes(1 << 47);

/// The shape whose levels have the capacities `buffer · T^i`, as many as it takes to hold more than `data`. `runs` says
/// how many slots a level has, given whether it is the last one.
pub(super) fn geometric(data: Bytes, buffer: Bytes, ratio: u32, runs: impl Fn(bool) -> u32) -> Shape {
    let enough = data.min(Bytes(DATA_MAX.0 - 1));
    let mut levels = Vec::new();
    let mut capacity = buffer;
    while levels.is_empty() || capacity <= enough {
        capacity = capacity * u64::from(ratio);
        levels.push(Level { capacity, runs: runs(capacity > enough) });
    }
    Shape::new(buffer, levels).unwrap_or_else(|error| panic!("ratio {ratio}, buffer {buffer}, data {data}: {error}"))
}
