//! Memory that a device can write into by itself: bytes that begin at a multiple of 4 KiB.
//!
//! Reads that bypass the page cache ([`crate::Access::ReadDirect`]) go from the device straight
//! into the reader's memory, and devices want addresses, lengths and positions that are multiples
//! of their sector. A read that is aligned in all three costs no copy; any other is carried out
//! into such a buffer of the environment's own and copied from there:
//!
//! ```text
//! file      ──┼───────────┼───────────┼───────────┼──   ┼ a multiple of the alignment
//! wanted          ├───────────────┤
//! read        ├───────────────────────┤                 into an aligned buffer
//! copied          ├───────────────┤                     to where the reader wants it
//! ```
//!
//! Copying a 4 KiB block is cheap beside reading it, so a cache of blocks copies each into memory
//! of just its size. An aligned buffer pays for long reads (read-ahead of scans and compactions),
//! or where the bytes are decoded from it anyway.
//!
//! There is no `unsafe` here: a vector that is a little longer than needed holds an aligned part.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::buffer::ByteBuffer;

/// Bytes whose address is a multiple of [`AlignedBuffer::ALIGNMENT`]. Takes up to 4 KiB more than
/// its length.
///
/// ```
/// use tamarack_env::AlignedBuffer;
///
/// let mut buffer = AlignedBuffer::zeroed(8192);
/// assert!(buffer.as_ptr().addr().is_multiple_of(AlignedBuffer::ALIGNMENT));
/// buffer[8191] = 1;
/// ```
pub struct AlignedBuffer {
    /// Never grows, so what is aligned in it stays so.
    memory: ByteBuffer,
    /// Where the aligned part begins.
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// The alignment in bytes: a multiple of what devices ask for, which is 512 or 4096.
    pub const ALIGNMENT: usize = 4096;

    /// A buffer of `length` zeros. One of none takes no memory, and has no address to speak of.
    pub fn zeroed(length: usize) -> Self {
        if length == 0 {
            return Self { memory: ByteBuffer::new(), start: 0, length };
        }
        let memory = ByteBuffer::zeroed(length + Self::ALIGNMENT - 1);
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(Self::ALIGNMENT) - address;
        Self { memory, start, length }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all sizes, also after it has been moved.
    #[test]
    fn begins_at_a_multiple_and_is_as_long_as_asked() {
        let buffers: Vec<_> = [0, 1, 511, 4096, 4097, 300_000].map(AlignedBuffer::zeroed).into_iter().collect();
        let moved: Vec<_> = buffers.into_iter().rev().collect();
        for (mut buffer, length) in moved.into_iter().zip([300_000, 4097, 4096, 511, 1, 0]) {
            assert_eq!(buffer.len(), length);
            let is_aligned = buffer.as_ptr().addr().is_multiple_of(AlignedBuffer::ALIGNMENT);
            assert!(is_aligned || length == 0, "{:p}", buffer.as_ptr());
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(0xAA);
        }
    }
}
