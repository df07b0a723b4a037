//! Memory for unaligned direct reads: pieces of one huge page, and a small pool of longer buffers.
//!
//! A device takes a read as a list of addresses, one for each page of memory that does not follow
//! the one before, and each costs time. Neighbouring pages of a program are hardly ever neighbours
//! in the machine, except within a huge page. So an unaligned block, which touches two pages, is
//! read nearly as fast as an aligned one if it goes into a huge page:
//!
//! ```text
//! huge page   │ piece │ piece │ piece │ …   2 MiB in pieces of 16 KiB, shared by the process
//!                 └─ a block of 4 KiB, with the alignment's padding before and behind
//! ```
//!
//! The huge page is allocated for the first such read, and stays. Longer reads, and those that find
//! no free piece, get a buffer of their own; the pool keeps at most [`IDLE_BYTES_MAX`] of these. So
//! reading allocates nothing once the pool has enough buffers. One lock each, held for a few
//! instructions beside a read of 50 µs or more.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use super::huge_pages::{HUGE_PAGE_BYTES, prefer_huge_page};
use crate::aligned::AlignedBuffer;
use crate::sync::{Mutex, Rank};

/// Length of a piece, in bytes: one serves a read of two blocks of 4 KiB at any position.
const PIECE_BYTES: usize = 16 << 10;

/// Upper bound on the buffer of a single read, in bytes; a longer read returns fewer bytes.
pub(super) const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Upper bound on idle memory in the pool, in bytes.
const IDLE_BYTES_MAX: usize = 1 << 20;

/// Idle pieces.
static PIECES: OnceLock<Mutex<Vec<&'static mut [u8]>>> = OnceLock::new();

/// Idle buffers.
#[derive(Debug)]
pub(super) struct Bounces {
    idle: Mutex<Vec<AlignedBuffer>>,
}

/// Memory on loan.
#[derive(Debug)]
pub(super) struct Bounce<'a> {
    pool: &'a Bounces,
    /// `None` only during the drop.
    memory: Option<Memory>,
}

#[derive(Debug)]
enum Memory {
    Piece(&'static mut [u8]),
    Buffer(AlignedBuffer),
}

impl Default for Bounces {
    /// An empty pool.
    fn default() -> Self {
        Self { idle: Mutex::new(Rank::BounceBuffers, Vec::new()) }
    }
}

impl Bounces {
    /// Returns aligned memory of at least `bytes`, with unspecified content.
    pub(super) fn take(&self, bytes: usize) -> Bounce<'_> {
        let piece = if bytes <= PIECE_BYTES { pieces().lock().pop() } else { None };
        let memory = match piece {
            Some(piece) => Memory::Piece(piece),
            None => Memory::Buffer(self.take_buffer(bytes)),
        };
        Bounce { pool: self, memory: Some(memory) }
    }

    /// Capacities are powers of two, so that similar sizes share their buffers.
    fn take_buffer(&self, bytes: usize) -> AlignedBuffer {
        let mut idle = self.idle.lock();
        let fitting = idle.iter().rposition(|buffer| buffer.len() >= bytes).map(|at| idle.swap_remove(at));
        drop(idle);
        fitting.unwrap_or_else(|| AlignedBuffer::zeroed(bytes.next_power_of_two().max(PIECE_BYTES)))
    }

    fn give_back(&self, buffer: AlignedBuffer) {
        let mut idle = self.idle.lock();
        let kept: usize = idle.iter().map(|kept| kept.len()).sum();
        if kept + buffer.len() <= IDLE_BYTES_MAX {
            idle.push(buffer);
        }
    }
}

/// The pieces of the huge page, which the first call allocates.
fn pieces() -> &'static Mutex<Vec<&'static mut [u8]>> {
    PIECES.get_or_init(|| {
        // Only the huge page within the allocation is ever touched.
        let memory = Box::leak(vec![0; 2 * HUGE_PAGE_BYTES].into_boxed_slice());
        let address = memory.as_ptr().addr();
        let start = address.next_multiple_of(HUGE_PAGE_BYTES) - address;
        prefer_huge_page(address + start);
        Mutex::new(Rank::BouncePieces, memory[start..][..HUGE_PAGE_BYTES].chunks_exact_mut(PIECE_BYTES).collect())
    })
}

impl Deref for Bounce<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self.memory.as_ref().expect("on loan until the drop") {
            Memory::Piece(piece) => piece,
            Memory::Buffer(buffer) => buffer,
        }
    }
}

impl DerefMut for Bounce<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self.memory.as_mut().expect("on loan until the drop") {
            Memory::Piece(piece) => piece,
            Memory::Buffer(buffer) => buffer,
        }
    }
}

impl Drop for Bounce<'_> {
    fn drop(&mut self) {
        match self.memory.take() {
            Some(Memory::Piece(piece)) => pieces().lock().push(piece),
            Some(Memory::Buffer(buffer)) => self.pool.give_back(buffer),
            None => {}
        }
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in use at the same time never overlaps, is aligned and long enough, also when no
    /// pieces are left.
    #[test]
    fn loans_do_not_overlap() {
        let pool = Bounces::default();
        let sizes = [1, 512, 4608, PIECE_BYTES, PIECE_BYTES + 1].repeat(60);
        let mut loans: Vec<_> = sizes.iter().map(|&bytes| pool.take(bytes)).collect();
        for (number, (loan, bytes)) in loans.iter_mut().zip(&sizes).enumerate() {
            assert!(loan.len() >= *bytes && loan.as_ptr().addr().is_multiple_of(AlignedBuffer::ALIGNMENT));
            loan.fill(number as u8);
        }
        assert!(loans.iter().any(|loan| matches!(&loan.memory, Some(Memory::Piece(_)))));
        let is_own = |(number, loan): (usize, &Bounce<'_>)| loan.iter().all(|&byte| byte == number as u8);
        assert!(loans.iter().enumerate().all(is_own));
    }

    /// The second read of a length gets the memory of the first, and a pool after many concurrent
    /// reads keeps no more than its limit.
    #[test]
    fn buffers_are_used_again_within_the_limit() {
        let pool = Bounces::default();
        let first = pool.take(50_000).as_ptr();
        assert_eq!(pool.take(60_000).as_ptr(), first);
        let large = pool.take(BUFFER_BYTES_MAX);
        assert!(large.len() >= BUFFER_BYTES_MAX && large.as_ptr() != first);
        drop(large);
        let many: Vec<_> = (0..8).map(|_| pool.take(BUFFER_BYTES_MAX / 4)).collect();
        drop(many);
        let kept: usize = pool.idle.lock().iter().map(|buffer| buffer.len()).sum();
        assert!((IDLE_BYTES_MAX / 2..=IDLE_BYTES_MAX).contains(&kept), "keeps {kept} bytes");
    }
}
