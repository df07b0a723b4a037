//! [`ByteBuffer`]: a growable array of bytes that keeps no memory from the operating system once it
//! is dropped.
//!
//! A `Vec<u8>` leaves its memory to the allocator, which may keep it. That is right for small
//! buffers. Values, blocks and WAL groups of some MiB, allocated on one thread and freed on
//! another, add up to several times a database's memory budget in the heaps of a usual allocator.
//! From [`ByteBuffer::LARGE_BYTES`] on, a buffer therefore gives its pages back by itself
//! ([`discard_pages`]).
//!
//! It costs a system call, and page faults at the next use of the memory: a tenth to a third of the
//! time of writing the bytes. A small buffer costs a comparison.
//!
//! Use it for all bytes whose number the user decides. It is a `Vec<u8>` otherwise; only growth
//! beyond its capacity may leave pages behind, so a large buffer should be made in its final size.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::pages::discard_pages;

/// Bytes whose pages return to the operating system when the buffer is dropped.
///
/// ```
/// use tamarack_env::ByteBuffer;
///
/// let mut buffer = ByteBuffer::zeroed(5 << 20);
/// buffer[0] = 1;
/// buffer.push(2);
/// assert_eq!(buffer.len(), (5 << 20) + 1);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ByteBuffer(Vec<u8>);

impl ByteBuffer {
    /// The capacity from which a buffer gives back its pages, in bytes: allocators begin to treat
    /// allocations specially at about this size.
    pub const LARGE_BYTES: usize = 128 << 10;

    /// Makes an empty buffer without memory.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Makes a buffer of `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        Self(vec![0; length])
    }

    /// Lowers the capacity to the larger of `bytes` and the length. The vector's method would leave
    /// the pages behind.
    #[inline]
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.capacity() > bytes {
            self.shrink(bytes.max(self.len()));
        }
    }

    #[cold]
    #[inline(never)]
    fn shrink(&mut self, bytes: usize) {
        if self.capacity() < Self::LARGE_BYTES {
            self.0.shrink_to(bytes);
        } else if bytes < self.capacity() {
            let mut smaller = Vec::with_capacity(bytes);
            smaller.extend_from_slice(self);
            *self = Self(smaller);
        }
    }

    #[cold]
    #[inline(never)]
    fn discard(&mut self) {
        self.0.clear();
        discard_pages(self.0.spare_capacity_mut());
    }
}

impl Drop for ByteBuffer {
    #[inline]
    fn drop(&mut self) {
        if self.capacity() >= Self::LARGE_BYTES {
            self.discard();
        }
    }
}

impl Deref for ByteBuffer {
    type Target = Vec<u8>;
    #[inline]
    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for ByteBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl From<Vec<u8>> for ByteBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for ByteBuffer {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl AsRef<[u8]> for ByteBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ByteBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteBuffer").field("length", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It keeps its bytes while it grows and shrinks, small or large.
    #[test]
    fn bytes_stay_until_the_drop() {
        let sizes = [0, 10, ByteBuffer::LARGE_BYTES - 1, ByteBuffer::LARGE_BYTES, 3 << 20];
        for (from, to) in sizes.iter().flat_map(|from| sizes.map(|to| (*from, to))) {
            let mut buffer = ByteBuffer::zeroed(from);
            buffer.fill(7);
            buffer.resize(to, 8);
            buffer.shrink_to(100);
            assert_eq!(buffer.len(), to, "from {from}");
            assert!(buffer.capacity() <= to.max(100) || buffer.capacity() <= from.max(to), "from {from} to {to}");
            let kept = from.min(to);
            assert!(buffer[..kept].iter().all(|&byte| byte == 7) && buffer[kept..].iter().all(|&byte| byte == 8));
            buffer.truncate(5);
            buffer.shrink_to(0);
            assert_eq!(buffer.len(), to.min(5));
            assert!(buffer.capacity() < 100, "a capacity of {} is left", buffer.capacity());
        }
    }
}
