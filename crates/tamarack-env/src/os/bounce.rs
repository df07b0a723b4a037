//! Memory for direct reads that are not aligned themselves: pieces of one huge page, and a small
//! pool of longer buffers.
//!
//! A device takes a read as a list of addresses, one for each page of memory that is not next to
//! the page before, and each costs it time. Two ordinary pages that are neighbours for a program
//! hardly ever are in the machine; all of a huge page is. So a block that is not aligned, and
//! touches two pages, is read nearly as fast as one that is aligned if it goes into a huge page:
//!
//! ```text
//! huge page   │ piece │ piece │ piece │ …   2 MiB in pieces of 16 KiB, shared by the process
//!                 └─ a block of 4 KiB, with the alignment's padding before and behind
//! ```
//!
//! The huge page is made for the first such read, and stays. Longer reads, and those that find no
//! piece, get a buffer of their own; of these the pool keeps at most [`IDLE_BYTES_MAX`]. So reading
//! allocates nothing once the pool has what the reads need. One lock each, held for a few
//! instructions beside a read of 50 µs or more.

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use super::huge_pages::{HUGE_PAGE_BYTES, prefer_huge_page};
use crate::aligned::AlignedBuffer;
use crate::sync::{Mutex, Rank};

/// The length of a piece, in bytes: one serves a read of two blocks of 4 KiB, wherever they begin.
const PIECE_BYTES: usize = 16 << 10;

/// What one single read takes at most, in bytes; one that wants more is short.
pub(super) const BUFFER_BYTES_MAX: usize = 1 << 20;

/// What the pool keeps at most while nobody reads, in bytes.
const IDLE_BYTES_MAX: usize = 1 << 20;

/// The pieces that wait for a read.
static PIECES: OnceLock<Mutex<Vec<&'static mut [u8]>>> = OnceLock::new();

/// Buffers that wait for a read.
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
    /// Aligned memory of at least `bytes`. What it holds is of no meaning.
    pub(super) fn take(&self, bytes: usize) -> Bounce<'_> {
        let piece = if bytes <= PIECE_BYTES { pieces().lock().pop() } else { None };
        let memory = match piece {
            Some(piece) => Memory::Piece(piece),
            None => Memory::Buffer(self.take_buffer(bytes)),
        };
        Bounce { pool: self, memory: Some(memory) }
    }

    /// Capacities are powers of two, so that sizes that differ a little share their buffers.
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

/// The pieces of the huge page, which the first caller makes.
fn pieces() -> &'static Mutex<Vec<&'static mut [u8]>> {
    PIECES.get_or_init(|| {
        // Of what is allocated, only the huge page in it is ever touched.
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

    /// What is taken together never overlaps, is aligned and long enough, also when there are no
    /// pieces left.
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

    /// The second read of a length gets the memory of the first, and a pool that many have used
    /// keeps no more than its limit.
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
