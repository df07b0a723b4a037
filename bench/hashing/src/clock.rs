//! The clock that is read between the parts of a lookup.

use std::sync::LazyLock;
use std::time::Instant;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the first call. A call takes some tens of them, and waits until pending
/// instructions have finished.
pub fn nanoseconds() -> u64 {
    BEGAN.elapsed().as_nanos() as u64
}
