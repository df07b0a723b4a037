//! [`prefetch`]: asks the processor for memory that will be needed soon.
//!
//! A search in memory that the caches do not hold is a chain of waits, each for the address of the
//! next. Several searches that ask first and look later wait together.

use std::sync::Arc;

/// Asks for the cache line at `place`. Neither waits nor changes anything, whatever the address is.
/// Nothing happens where the processor has no such instruction that is known here.
#[inline(always)]
#[cfg_attr(all(target_arch = "x86_64", not(miri)), expect(unsafe_code, reason = "no safe interface exists"))]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint without effect on what a program sees, for any address, and
        // the instruction is part of every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast::<i8>()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Asks for the cache lines of `value` itself, and of the counters before it that an `Arc` has; at
/// most five.
#[inline(always)]
pub fn prefetch_shared<T>(value: &Arc<T>) {
    const LINE_BYTES: usize = 64;
    let counters = 2 * size_of::<usize>();
    let first = Arc::as_ptr(value).cast::<u8>().wrapping_sub(counters);
    let lines = (counters + size_of::<T>() - 1) / LINE_BYTES + 1;
    for line in 0..lines.min(4) {
        prefetch(first.wrapping_add(line * LINE_BYTES));
    }
    prefetch(first.wrapping_add(counters + size_of::<T>() - 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do() {
        prefetch(std::ptr::null::<u8>());
        prefetch(usize::MAX as *const u64);
        prefetch_shared(&Arc::new([0_u64; 100]));
        prefetch_shared(&Arc::new(0_u8));
    }
}
