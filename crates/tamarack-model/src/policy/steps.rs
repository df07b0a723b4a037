//! [`ShapeFamily`], and the size steps of a family of shapes.

use std::fmt;

use crate::shape::{Level, Shape};
use crate::units::Bytes;

/// A family of shapes: what planner, agenda and simulator ask a [`Policy`](super::Policy) for. They
/// simulate any family, also one that has no specification and cannot be stored.
pub trait ShapeFamily: fmt::Debug + fmt::Display + Send + Sync {
    /// The smallest shape of this family that holds more than `data` bytes (at most [`DATA_MAX`]).
    ///
    /// # Panics
    /// If the buffer is empty, or larger than [`BUFFER_MAX`](crate::BUFFER_MAX).
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape;
}

/// The maximum data size that shapes are made for, 128 TiB; larger sizes are treated as this. With
/// the largest ratio, 2^16, the sum of all capacities still fits 64 bits.
pub const DATA_MAX: Bytes = Bytes(1 << 47);

/// The size that a shape for this much data has to exceed.
pub(super) fn enough(data: Bytes) -> Bytes {
    data.min(Bytes(DATA_MAX.0 - 1))
}

/// A shape with level capacities `buffer · T^i`, with as many levels as needed to hold more than
/// `data`. `runs` returns the slots of a level, given its number and whether it is the last one.
pub(super) fn geometric(data: Bytes, buffer: Bytes, ratio: u32, runs: impl Fn(usize, bool) -> u32) -> Shape {
    let enough = enough(data);
    let mut levels = Vec::new();
    let mut capacity = buffer;
    while levels.is_empty() || capacity <= enough {
        capacity = capacity * u64::from(ratio);
        let runs = runs(levels.len() + 1, capacity > enough);
        levels.push(Level { capacity, runs });
    }
    Shape::new(buffer, levels).unwrap_or_else(|error| panic!("ratio {ratio}, buffer {buffer}, data {data}: {error}"))
}

/// The first shape that holds more than `data`, of a family in which all capacities depend on the
/// number of levels. `levels` returns the levels for a number of levels, or `None` if their
/// capacities do not fit 64 bits; then the last level of the largest possible shape is doubled as
/// often as needed.
pub(super) fn by_number_of_levels(data: Bytes, buffer: Bytes, levels: impl Fn(u32) -> Option<Vec<Level>>) -> Shape {
    let enough = enough(data);
    let mut found = levels(1).expect("a single level can be counted");
    for number in 2.. {
        if holds(&found) > enough {
            break;
        }
        match levels(number) {
            Some(next) => found = next,
            None => enlarge(&mut found, enough),
        }
    }
    Shape::new(buffer, found).unwrap_or_else(|error| panic!("buffer {buffer}, data {data}: {error}"))
}

/// Doubles the last level as often as needed to hold more than `enough`.
pub(super) fn enlarge(levels: &mut [Level], enough: Bytes) {
    let last = levels.last_mut().expect("a shape has a level");
    while last.capacity <= enough {
        last.capacity = last.capacity * 2;
    }
}

fn holds(levels: &[Level]) -> Bytes {
    levels.last().expect("a shape has a level").capacity
}
