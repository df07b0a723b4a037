//! The arena of one memtable: chunks that only grow and are freed together.
//!
//! An allocation is one `fetch_add` on the current chunk. Only a full chunk takes a lock, to add
//! the next one, so concurrent inserts hardly ever wait. Nothing is freed or moved before the arena
//! is dropped: that is why readers may follow pointers without any protection.
//!
//! ```text
//!   newest ──► chunk ──older──► chunk of one huge entry ──older──► chunk ──older──► chunk ──► null
//!                ▲                                                   ▲
//!   current: cold┘                                               hot ┘
//!
//!   chunk = [ header | entry | entry | ... | used ►   free        ]
//! ```
//!
//! The size of a new chunk is an eighth of what is allocated, at least [`CHUNK_BYTES_MIN`]; from
//! [`HUGE_FROM_BYTES`] on it is nearly a huge page ([`CHUNK_BYTES_MAX`]), aligned to one. A small
//! memtable stays small, and a large one wastes at most one such chunk in each of its two regions.
//! An allocation of more than a quarter of a chunk gets a chunk of exactly its size, and the
//! current chunk stays in use.
//!
//! A large chunk gives its pages back before it is freed, as a [`ByteBuffer`] does.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::{MaybeUninit, align_of, size_of};
use std::ptr::{self, NonNull};
use std::slice;

use tamarack_env::os::{HUGE_PAGE_BYTES, prefer_huge_page};
use tamarack_env::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{ByteBuffer, discard_pages};

use crate::memory::{Charge, MemoryPart};

/// The first chunk: four pages.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// The largest ordinary chunk: a huge page minus a cache line. The cache line is for allocators
/// that keep a header between allocations, so that the next chunk can lie on the next huge page.
const CHUNK_BYTES_MAX: usize = HUGE_PAGE_BYTES - 64;
/// The allocation size from which chunks are of the largest kind. Smaller memtables gain little
/// from huge pages and should not grow by a quarter at once.
const HUGE_FROM_BYTES: usize = 8 << 20;
/// The alignment of every allocation, in bytes.
pub(super) const ALIGN_BYTES: usize = 8;

/// Memory that grows by chunks and is freed as a whole.
#[derive(Debug)]
pub(super) struct Arena {
    /// For each region, the chunk that small allocations are taken from; null before the first.
    current: [AtomicPtr<Chunk>; 2],
    /// Head of the list of all chunks.
    newest: AtomicPtr<Chunk>,
    /// Bytes of all chunks.
    allocated_bytes: AtomicU64,
    /// The charge for all chunks, and what lies beside them. Its lock is held while a chunk is
    /// added.
    charge: Mutex<Charge>,
}

/// The group of chunks for an allocation. Nodes that are read often share few pages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Region {
    /// Nodes that most searches pass.
    Hot,
    /// All other nodes.
    Cold,
}

/// The header of a chunk, on a cache line of its own since every insert writes to it.
#[repr(C, align(64))]
struct Chunk {
    /// Bytes taken, this header included; may exceed `size_bytes` if several threads raced for the
    /// last bytes.
    used_bytes: AtomicUsize,
    size_bytes: usize,
    older: *mut Chunk,
}

const HEADER_BYTES: usize = size_of::<Chunk>();

impl Arena {
    /// Makes an empty arena. Its chunks are added to `charge`.
    pub(super) fn new(charge: Charge) -> Self {
        Self {
            current: [AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut())],
            newest: AtomicPtr::new(ptr::null_mut()),
            allocated_bytes: AtomicU64::new(0),
            charge: Mutex::new(Rank::MemtableMemory, charge),
        }
    }

    /// Returns `bytes` of uninitialised memory, aligned to [`ALIGN_BYTES`], exclusive to the
    /// caller, valid until the arena is dropped.
    pub(super) fn allocate(&self, bytes: usize, region: Region) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGN_BYTES);
        loop {
            let current = &self.current[region as usize];
            let chunk = current.load(Ordering::Acquire);
            if let Some(place) = Self::take(chunk, bytes) {
                return place;
            }
            if let Some(place) = self.grow(current, chunk, bytes) {
                return place;
            }
        }
    }

    /// Bytes of all chunks, headers included: exactly what the global allocator was asked for.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes.load(Ordering::Relaxed)
    }

    /// Charges memory that somebody else has allocated and frees together with this.
    pub(super) fn charge_beside(&self, bytes: usize) {
        self.charge.lock().grow(bytes);
    }

    /// Charges the chunks to another part of the account.
    pub(super) fn charge_to(&self, part: MemoryPart) {
        self.charge.lock().move_to(part);
    }

    /// [`allocated_bytes`](Self::allocated_bytes) without what is free in the current chunks.
    pub(super) fn used_bytes(&self) -> u64 {
        let free = |current: &AtomicPtr<Chunk>| {
            let chunk = NonNull::new(current.load(Ordering::Acquire));
            // SAFETY: as in `take`.
            let header = chunk.map(|chunk| unsafe { chunk.as_ref() });
            header.map_or(0, |header| header.size_bytes.saturating_sub(header.used_bytes.load(Ordering::Relaxed)))
        };
        let free: usize = self.current.iter().map(free).sum();
        // The two numbers may be of different moments.
        self.allocated_bytes().saturating_sub(free as u64)
    }

    /// Returns true if all of `bytes` lies in this arena.
    pub(super) fn contains(&self, bytes: &[u8]) -> bool {
        let range = bytes.as_ptr_range();
        let mut chunk = self.newest.load(Ordering::Acquire);
        while !chunk.is_null() {
            // SAFETY: `chunk` came from `newest` or from `older`, so `add_chunk` wrote its header
            // before publishing it, and chunks live as long as `self`. `size_bytes` and `older` are
            // never written again.
            let (size_bytes, older) = unsafe { ((*chunk).size_bytes, (*chunk).older) };
            let start = chunk.cast::<u8>().cast_const();
            if start <= range.start && range.end <= start.wrapping_add(size_bytes) {
                return true;
            }
            chunk = older;
        }
        false
    }

    /// Takes `bytes` from `chunk`, if there is a chunk with enough free bytes.
    fn take(chunk: *mut Chunk, bytes: usize) -> Option<NonNull<u8>> {
        let chunk = NonNull::new(chunk)?;
        // SAFETY: a non-null pointer out of `current` is a chunk with a written header that lives
        // as long as the arena; the shared reference covers the header only, which is changed
        // through its atomic alone.
        let header = unsafe { chunk.as_ref() };
        // Look first, so that a large request does not use up the rest for smaller ones.
        if header.used_bytes.load(Ordering::Relaxed) + bytes > header.size_bytes {
            return None;
        }
        // Relaxed is enough: the sum alone decides who gets which bytes. It cannot wrap: only
        // threads that looked just before can fail here, each once.
        let start = header.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if start + bytes > header.size_bytes {
            return None;
        }
        // SAFETY: `start + bytes <= size_bytes`, so the offset stays within the chunk's allocation.
        Some(unsafe { chunk.cast::<u8>().add(start) })
    }

    /// Adds a chunk because `full` lacks `bytes`. `None` if another thread has done so meanwhile.
    fn grow(&self, current: &AtomicPtr<Chunk>, full: *mut Chunk, bytes: usize) -> Option<NonNull<u8>> {
        let mut charge = self.charge.lock();
        if current.load(Ordering::Acquire) != full {
            return None;
        }
        let allocated_bytes = usize::try_from(self.allocated_bytes()).unwrap_or(usize::MAX);
        let chunk_bytes = Self::next_chunk_bytes(allocated_bytes);
        if bytes > chunk_bytes / 4 {
            let own = self.add_chunk(HEADER_BYTES + bytes, &mut charge);
            return Self::take(own.as_ptr(), bytes);
        }
        let chunk = self.add_chunk(chunk_bytes, &mut charge);
        let place = Self::take(chunk.as_ptr(), bytes);
        current.store(chunk.as_ptr(), Ordering::Release);
        place
    }

    /// The size of the next ordinary chunk.
    fn next_chunk_bytes(allocated_bytes: usize) -> usize {
        if allocated_bytes >= HUGE_FROM_BYTES {
            CHUNK_BYTES_MAX
        } else {
            (allocated_bytes / 8).next_multiple_of(4096).max(CHUNK_BYTES_MIN)
        }
    }

    /// Allocates a chunk and links it into the list. Called with the lock of `charge` held, so one
    /// at a time.
    fn add_chunk(&self, size_bytes: usize, charge: &mut Charge) -> NonNull<Chunk> {
        charge.grow(size_bytes);
        let layout = Self::layout(size_bytes);
        // SAFETY: the layout is not of size zero: every chunk holds its header.
        let memory = unsafe { alloc(layout) }.cast::<Chunk>();
        let Some(chunk) = NonNull::new(memory) else { handle_alloc_error(layout) };
        if size_bytes == CHUNK_BYTES_MAX {
            prefer_huge_page(memory as usize);
        }
        let older = self.newest.load(Ordering::Relaxed);
        // SAFETY: freshly allocated with the size and alignment of at least a header.
        unsafe { chunk.write(Chunk { used_bytes: AtomicUsize::new(HEADER_BYTES), size_bytes, older }) };
        self.allocated_bytes.fetch_add(size_bytes as u64, Ordering::Relaxed);
        self.newest.store(chunk.as_ptr(), Ordering::Release);
        chunk
    }

    fn layout(size_bytes: usize) -> Layout {
        let align = if size_bytes == CHUNK_BYTES_MAX { HUGE_PAGE_BYTES } else { align_of::<Chunk>() };
        Layout::from_size_align(size_bytes, align).expect("a chunk is a little more than 1 GiB at most")
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut chunk = self.newest.load(Ordering::Acquire);
        while !chunk.is_null() {
            // SAFETY: every chunk is in the list once, with its header written; `&mut self` means
            // that nobody uses it any more.
            let Chunk { size_bytes, older, .. } = unsafe { chunk.read() };
            if size_bytes >= ByteBuffer::LARGE_BYTES {
                // SAFETY: the chunk's memory, which nobody uses any more; its header was read.
                let memory = unsafe { slice::from_raw_parts_mut(chunk.cast::<MaybeUninit<u8>>(), size_bytes) };
                discard_pages(memory);
            }
            // SAFETY: allocated by `add_chunk` with this very layout, and freed only here.
            unsafe { dealloc(chunk.cast(), Self::layout(size_bytes)) };
            chunk = older;
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    /// Allocations of all sizes are aligned, do not overlap, and are found by `contains`, until the
    /// chunk's end.
    #[test]
    fn allocations_are_aligned_and_apart() {
        let arena = Arena::new(Charge::default());
        assert_eq!(arena.allocated_bytes(), 0);
        let mut ranges = Vec::new();
        for number in 0..3000_usize {
            let bytes = if number % 500 == 499 { 300_000 } else { number * 7 % 900 };
            let place = arena.allocate(bytes, Region::Cold);
            let start = place.as_ptr() as usize;
            assert_eq!(start % ALIGN_BYTES, 0);
            // SAFETY: `allocate` gave us these bytes; writing makes them readable.
            let written = unsafe {
                place.write_bytes(number as u8, bytes);
                slice::from_raw_parts(place.as_ptr(), bytes)
            };
            assert!(arena.contains(written), "allocation {number} of {bytes} bytes");
            ranges.push((start, start + bytes));
        }
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "overlap: {pair:?}");
        }
        assert!(!arena.contains(&[1, 2, 3]));
    }

    /// A huge allocation leaves the current chunk in use.
    #[test]
    fn huge_allocations_stand_alone() {
        let arena = Arena::new(Charge::default());
        let small = arena.allocate(8, Region::Cold).as_ptr() as usize;
        let before = arena.allocated_bytes();
        arena.allocate(10 << 20, Region::Cold);
        assert_eq!(arena.allocated_bytes(), before + HEADER_BYTES as u64 + (10 << 20));
        assert_eq!(arena.allocate(8, Region::Cold).as_ptr() as usize, small + 8);
    }
}
