//! A small pool of aligned buffers, for direct reads that are not aligned themselves.
//!
//! A buffer is taken for one read or one batch and comes back when the guard is dropped, so that reading allocates nothing once the pool
//! has what the reads need. Capacities are powers of two from [`BUFFER_BYTES_MIN`] on, so that sizes that differ a little share their
//! buffers. One lock, held for a few instructions beside a read of 50 µs or more.
//!
//! The pool keeps at most [`IDLE_BYTES_MAX`]; while it is empty, buffers are made as needed, one for each read in progress.

use std::ops::{Deref, DerefMut};

use crate::aligned::AlignedBuffer;
use crate::sync::Mutex;

/// No buffer is smaller, in bytes: one serves any read of a block.
const BUFFER_BYTES_MIN: usize = 16 << 10;

/// What one read or batch takes at most, in bytes; a read that wants more is short, and a batch is carried out in parts.
pub(super) const BUFFER_BYTES_MAX: usize = 1 << 20;

/// What the pool keeps at most while nobody reads, in bytes.
const IDLE_BYTES_MAX: usize = 2 << 20;

/// Buffers that wait for a read.
#[derive(Debug, Default)]
pub(super) struct Bounces {
    idle: Mutex<Vec<AlignedBuffer>>,
}

/// A buffer on loan.
#[derive(Debug)]
pub(super) struct Bounce<'a> {
    pool: &'a Bounces,
    /// `None` only during the drop.
    buffer: Option<AlignedBuffer>,
}

impl Bounces {
    /// A buffer of at least `bytes`, which must not exceed [`BUFFER_BYTES_MAX`]. What it holds is of no meaning.
    pub(super) fn take(&self, bytes: usize) -> Bounce<'_> {
        assert!(bytes <= BUFFER_BYTES_MAX, "one read takes {bytes} bytes of buffer");
        let mut idle = self.idle.lock();
        let fitting = idle.iter().rposition(|buffer| buffer.len() >= bytes).map(|at| idle.swap_remove(at));
        drop(idle);
        let buffer = fitting.unwrap_or_else(|| AlignedBuffer::zeroed(bytes.next_power_of_two().max(BUFFER_BYTES_MIN)));
        Bounce { pool: self, buffer: Some(buffer) }
    }

    fn give_back(&self, buffer: AlignedBuffer) {
        let mut idle = self.idle.lock();
        let kept: usize = idle.iter().map(|kept| kept.len()).sum();
        if kept + buffer.len() <= IDLE_BYTES_MAX {
            idle.push(buffer);
        }
    }
}

impl Deref for Bounce<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().expect("on loan until the drop")
    }
}

impl DerefMut for Bounce<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().expect("on loan until the drop")
    }
}

impl Drop for Bounce<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.give_back(buffer);
        }
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;

    /// The second read of a size gets the memory of the first, and a pool that many have used keeps no more than its limit.
    #[test]
    fn buffers_are_used_again_within_the_limit() {
        let pool = Bounces::default();
        let first = pool.take(5000).as_ptr();
        assert_eq!(pool.take(6000).as_ptr(), first);
        let (small, large) = (pool.take(1), pool.take(BUFFER_BYTES_MAX));
        assert!(!small.is_empty() && large.len() >= BUFFER_BYTES_MAX && small.as_ptr() != large.as_ptr());
        drop((small, large));
        let many: Vec<_> = (0..8).map(|_| pool.take(BUFFER_BYTES_MAX / 2)).collect();
        drop(many);
        let kept: usize = pool.idle.lock().iter().map(|buffer| buffer.len()).sum();
        assert!((BUFFER_BYTES_MAX..=IDLE_BYTES_MAX).contains(&kept), "keeps {kept} bytes");
    }
}
