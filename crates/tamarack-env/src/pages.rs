//! Pages of memory: giving them back to the operating system, those of a buffer before it is freed
//! or all that the allocator keeps; and huge pages in the place of small ones.
//!
//! # Giving pages back
//!
//! An allocator keeps much of what is freed, for later allocations: the C library's has a heap for
//! every few threads, and returns memory only from a heap's end. A program that frees a value of
//! 4 MiB on each of eight threads keeps tens of MiB of nothing. This returns the pages at once and
//! leaves the addresses with the allocator, whichever that is. The next use of them takes a page
//! fault for each page, about as much time as copying it.
//!
//! ```text
//! memory     ├──┼────────┼────────┼────────┼───┤
//! given back    ├──────────────────────────┤        whole pages
//! ```
//!
//! Small pieces of memory share their pages, so nobody can give those back one by one. For them
//! there is [`trim_allocator`], which asks the C library to look for pages that are free.
//!
//! # Huge pages
//!
//! The processor finds the place of a page of 4 KiB in tables in memory, and remembers some
//! thousands of places. Random reads of more memory than that wait for the tables first, in a
//! virtual machine for two kinds of them. Pages of 2 MiB need a fewer by 512.
//!
//! ```text
//! memory       ├──────┼─────────────┼─────────────┼─────────────┼────┤    regions of 2 MiB
//! collapsed           ├─────────────────────────────────────────┤         whole regions
//! ```
//!
//! [`collapse_pages`] leaves addresses and content as they are, and the memory with its allocator.

use std::mem::MaybeUninit;
use std::ops::Range;

/// The size of a huge page, in bytes, on x86-64 and on most other 64-bit processors. Where it is
/// another one, the kernel declines.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Gives the whole pages within `memory` back to the operating system. What they held is lost; they
/// can be used like uninitialised memory. Has no effect on systems other than Linux.
#[cfg(all(target_os = "linux", not(miri)))]
#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "no safe wrapper of this call exists")]
pub fn discard_pages(memory: &mut [MaybeUninit<u8>]) {
    let page_bytes = rustix::param::page_size();
    let range = memory.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(page_bytes);
    let end = range.end.addr() - range.end.addr() % page_bytes;
    if start < end {
        // SAFETY: the pages lie within `memory`, which nobody else can use while it is borrowed
        // here, and any content is valid for bytes that may be uninitialised. The mapping stays. A
        // kernel that declines, as for locked pages, changes nothing.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

/// Without such a call, the allocator decides.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn discard_pages(_memory: &mut [MaybeUninit<u8>]) {}

/// Gives back to the operating system all whole pages that the C library's allocator has free, in
/// all of its heaps, whichever part of the program they are from. Takes some milliseconds for each
/// hundred MiB in them, during which it locks one heap after the other. Has no effect on other
/// allocators, and on systems other than Linux with glibc.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "no safe wrapper of this call exists")]
pub fn trim_allocator() {
    // SAFETY: it changes nothing that is allocated, and any thread may call it at any time.
    unsafe { libc::malloc_trim(0) };
}

/// Without such a call, the allocator decides.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub fn trim_allocator() {}

/// Asks the kernel to back the whole regions of [`HUGE_PAGE_BYTES`] within a range of addresses by
/// huge pages, at once; returns true if it did so for all of them. Content and addresses stay, and
/// other threads may go on using the memory. Pages that were never touched are filled with zeros,
/// so resident memory grows by the unused part of each region.
///
/// A hint: false is not an error, and there is nothing to do about it. Kernels decline while they
/// have no huge page free, where part of a region is not mapped, and before Linux 6.1. Has no
/// effect on other systems.
///
/// Takes about as long as copying the regions, during which threads that touch them wait. Before
/// that, the kernel waits once for something to be done on each processor: some tens of
/// milliseconds where all are busy. So give it many regions at once, and not on a thread that
/// somebody waits for.
#[cfg(all(target_os = "linux", not(miri)))]
#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "no safe wrapper of this call exists")]
pub fn collapse_pages(addresses: Range<usize>) -> bool {
    /// The same number on all processors; not every C library that the crate `libc` knows has it.
    const MADV_COLLAPSE: libc::c_int = 25;
    let start = addresses.start.div_ceil(HUGE_PAGE_BYTES).saturating_mul(HUGE_PAGE_BYTES);
    let end = addresses.end - addresses.end % HUGE_PAGE_BYTES;
    if start >= end {
        return true;
    }
    // `MADV_HUGEPAGE` is not used: it marks the mapping, so it would cut the heap's mapping into
    // many, of which a process may have 65,530.
    // SAFETY: it changes neither the content of memory nor what is mapped, whoever owns it. A
    // kernel that declines changes nothing.
    unsafe { libc::madvise(start as *mut libc::c_void, end - start, MADV_COLLAPSE) == 0 }
}

/// Without such a call, the kernel decides.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn collapse_pages(_addresses: Range<usize>) -> bool {
    false
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri), not(feature = "shuttle")))]
#[expect(clippy::disallowed_types, reason = "a lock of tests that measure, which no schedule explores")]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    const BYTES: usize = 64 << 20;

    /// Locked by the test that measures: the others need little.
    static MEASURING: Mutex<()> = Mutex::new(());

    /// Resident memory of this process, in bytes.
    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages = status.split(' ').nth(1).expect("the second number");
        pages.parse::<usize>().expect("a number") * rustix::param::page_size()
    }

    /// Pages are given back and read as zeros afterwards; the bytes beside them keep their content.
    #[test]
    #[expect(unsafe_code, reason = "reads memory that this type does not show")]
    fn only_whole_pages_within_are_given_back() {
        let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = vec![MaybeUninit::new(7_u8); BYTES];
        let before = resident_bytes();
        discard_pages(&mut memory[100..BYTES - 100]);
        // Other tests run meanwhile, and need less than a quarter.
        assert!(resident_bytes() + BYTES * 3 / 4 < before, "{} of {before} bytes are resident", resident_bytes());
        // SAFETY: each byte was written; a page that was given back is one of zeros.
        let value = |byte: &MaybeUninit<u8>| unsafe { byte.assume_init() };
        assert!(memory[..100].iter().chain(&memory[BYTES - 100..]).all(|byte| value(byte) == 7));
        assert_eq!(value(&memory[BYTES / 2]), 0);
    }

    /// Small pieces of memory that are freed between others stay with the allocator until it is
    /// trimmed. The others keep their content.
    #[cfg(target_env = "gnu")]
    #[test]
    fn pages_between_small_pieces_are_given_back() {
        const PIECE_BYTES: usize = 4000;
        let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pieces: Vec<_> = (0..BYTES / PIECE_BYTES).map(|n| vec![n as u8; PIECE_BYTES]).collect();
        let mut number = 0;
        // One of sixteen stays.
        pieces.retain(|_| {
            number += 1;
            number % 16 == 0
        });
        let before = resident_bytes();
        trim_allocator();
        assert!(resident_bytes() + BYTES / 2 < before, "{} of {before} bytes are resident", resident_bytes());
        let numbers = (15..BYTES / PIECE_BYTES).step_by(16);
        assert!(pieces.iter().zip(numbers).all(|(piece, n)| *piece == vec![n as u8; PIECE_BYTES]));
    }

    /// Huge pages have the content of the small ones, written or not, and what is asked for may lie
    /// anywhere. Whether the kernel has huge pages is not tested.
    #[test]
    fn collapsed_pages_keep_their_content() {
        let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = vec![0_u8; 5 * HUGE_PAGE_BYTES];
        let written = |at: usize| at.is_multiple_of(5000);
        (0..memory.len()).filter(|&at| written(at)).for_each(|at| memory[at] = at as u8 | 1);
        let Range { start, end } = memory.as_ptr_range();
        collapse_pages(start.addr()..end.addr());
        assert!(memory.iter().enumerate().all(|(at, &byte)| byte == if written(at) { at as u8 | 1 } else { 0 }));
        let is_declined = !collapse_pages(0..HUGE_PAGE_BYTES);
        assert!(is_declined, "nothing is mapped at address 0");
        for (from, to) in [(0, 0), (1, 100), (5, HUGE_PAGE_BYTES), (100, 1), (usize::MAX - 10, usize::MAX)] {
            assert!(collapse_pages(from..to), "nothing is asked for");
        }
    }

    /// Memory without a whole page keeps its content.
    #[test]
    #[expect(unsafe_code, reason = "reads memory that this type does not show")]
    fn less_than_a_page_stays() {
        let mut memory = vec![MaybeUninit::new(7_u8); 4000];
        for (from, to) in [(0, 0), (1, 2), (0, 900), (90, 3999), (0, 4000)] {
            discard_pages(&mut memory[from..to]);
        }
        // SAFETY: each byte was written.
        assert!(memory.iter().all(|byte| unsafe { byte.assume_init() } == 7));
    }
}
