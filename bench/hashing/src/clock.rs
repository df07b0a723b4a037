//! The clock that is read between the parts of a lookup.

use std::sync::LazyLock;
use std::time::Instant;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the first look. A look takes some tens of them, and waits until what was begun before is done.
pub fn nanoseconds() -> u64 {
    BEGAN.elapsed().as_nanos() as u64
}
