//! A hint to the operating system that a range of memory is used as a whole and at random, so that
//! huge pages serve it best.
//!
//! An ordinary page has 4 KiB, and a processor caches the addresses of one or two thousand of them,
//! so random access to more than about 8 MiB looks up an address nearly every time, and twice in a
//! virtual machine. One huge page takes the place of 512 ordinary ones, and costs one page fault
//! instead of 512.
//!
//! It is a hint only: the memory's content does not change, and without free huge pages nothing
//! happens. The price is that a range takes all of its memory with the first byte that is written.

/// Size and alignment of a huge page on the usual processors, in bytes.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Requests huge pages for the `HUGE_PAGE_BYTES` from `address` on, which should be a multiple of
/// that. Has no effect if there is no memory at the address, or the system declines.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "no safe wrapper of this call exists")]
pub fn prefer_huge_page(address: usize) {
    // SAFETY: this advice never changes what memory holds or whether it may be used, only how the
    // system keeps it, so it can do no harm to any range, whoever owns it. The call fails on a
    // range that is not memory, which is as good as no advice.
    unsafe { libc::madvise(address as *mut libc::c_void, HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE) };
}

/// Without such a call, there is no hint.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn prefer_huge_page(_address: usize) {}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    /// The hint leaves memory as it is, and accepts an address without memory.
    #[test]
    fn advice_changes_nothing_that_can_be_read() {
        let bytes = vec![7_u8; 2 * HUGE_PAGE_BYTES];
        prefer_huge_page((bytes.as_ptr() as usize).next_multiple_of(HUGE_PAGE_BYTES));
        prefer_huge_page(0);
        prefer_huge_page(1);
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
