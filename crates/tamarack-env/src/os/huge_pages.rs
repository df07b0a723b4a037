//! A hint about memory: that a range is used as a whole and at random, so that huge pages serve it
//! best.
//!
//! An ordinary page holds 4 KiB and a processor remembers the addresses of one or two thousand of
//! them, so random access to more than about 8 MiB looks up an address nearly every time; in a
//! virtual machine each of these is looked up twice. One huge page takes the place of 512 ordinary
//! ones. It also comes with one page fault instead of 512.
//!
//! It is a hint only: what the memory holds does not change, and where there are no huge pages, or
//! none are free, nothing happens. The price is that a range takes all of its memory with the first
//! byte that is written.

/// The size of a huge page, and what it is aligned to, in bytes: that of the usual processors.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for huge pages for the `HUGE_PAGE_BYTES` from `address` on, which should be a multiple of
/// that. Nothing comes of it if the address is not that of memory, or the system does not want to.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "no safe wrapper of this call exists")]
pub fn prefer_huge_page(address: usize) {
    // SAFETY: this advice never changes what memory holds or whether it may be used, only how the
    // system keeps it, so it can do no harm to any range, whoever owns it. The call fails on a
    // range that is not memory, which is as good as no advice.
    unsafe { libc::madvise(address as *mut libc::c_void, HUGE_PAGE_BYTES, libc::MADV_HUGEPAGE) };
}

/// Where there is no such call, there is no such advice.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn prefer_huge_page(_address: usize) {}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    /// Advice leaves memory as it is, and does not mind an address where there is none.
    #[test]
    fn advice_changes_nothing_that_can_be_read() {
        let bytes = vec![7_u8; 2 * HUGE_PAGE_BYTES];
        prefer_huge_page((bytes.as_ptr() as usize).next_multiple_of(HUGE_PAGE_BYTES));
        prefer_huge_page(0);
        prefer_huge_page(1);
        assert!(bytes.iter().all(|&byte| byte == 7));
    }
}
