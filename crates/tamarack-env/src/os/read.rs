//! One read as the kernel gets it, and the wanted part of it.
//!
//! ```text
//! file      ──┼───────────┼───────────┼───────────┼──   ┼ a multiple of the alignment
//! wanted          ├───────────────┤
//! span        ├──►├───────────────────┤
//!        start  head                        the kernel returns less of it where the file ends
//! ```
//!
//! Nothing here does I/O: this is the arithmetic that single reads and queues share.

use super::bounce::BUFFER_BYTES_MAX;

/// The aligned read around an unaligned one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Its start in the file, in bytes.
    pub(super) start: u64,
    /// Its length in bytes.
    pub(super) length: usize,
    /// Number of bytes before the wanted ones.
    head: usize,
    alignment: usize,
}

impl Span {
    /// The aligned read for a direct read into `buffer`, cut at [`BUFFER_BYTES_MAX`]; `None` if the
    /// read is aligned itself.
    pub(super) fn around(alignment: usize, offset: u64, buffer: &[u8]) -> Option<Self> {
        let head = (offset % alignment as u64) as usize;
        if head == 0 && buffer.len().is_multiple_of(alignment) && buffer.as_ptr().addr().is_multiple_of(alignment) {
            return None;
        }
        let span = Self::covering(alignment, offset, buffer.len());
        Some(Self { length: span.length.min(BUFFER_BYTES_MAX), ..span })
    }

    /// The aligned read that contains `bytes` bytes from `offset`.
    pub(super) fn covering(alignment: usize, offset: u64, bytes: usize) -> Self {
        let head = (offset % alignment as u64) as usize;
        Self { start: offset - head as u64, length: (head + bytes).next_multiple_of(alignment), head, alignment }
    }

    /// The `bytes` wanted bytes among the first of the span, if all of them are in it.
    pub(super) fn wanted<'a>(&self, brought: &'a [u8], bytes: usize) -> Option<&'a [u8]> {
        brought.get(self.head..)?.get(..bytes)
    }

    /// True if `count` bytes of the span complete the read: some of them are wanted, or the file
    /// ends there. If not, the kernel stopped early, and the rest must be read.
    pub(super) fn is_decided_by(&self, count: usize) -> bool {
        count > self.head || count == 0 || !count.is_multiple_of(self.alignment)
    }

    /// Copies the wanted part of the first bytes of the span; returns its length.
    pub(super) fn copy_wanted(&self, bytes: &[u8], buffer: &mut [u8]) -> usize {
        let wanted = bytes.get(self.head..).unwrap_or_default();
        let count = wanted.len().min(buffer.len());
        buffer[..count].copy_from_slice(&wanted[..count]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aligned::AlignedBuffer;

    /// A read that is aligned in all three needs no span; one that is unaligned in any of them
    /// does, and its span contains it.
    #[test]
    fn a_span_is_aligned_and_contains_what_is_wanted() {
        let buffer = AlignedBuffer::zeroed(8192);
        for alignment in [512, 4096] {
            assert_eq!(Span::around(alignment, 8192, &buffer[..4096]), None);
            let cases = [(8193, 0..4096), (8192, 1..4097), (8192, 0..4095), (8192 + 511, 3..4), (511, 0..8192)];
            for (offset, range) in cases {
                let span = Span::around(alignment, offset, &buffer[range.clone()]).expect("not aligned");
                let (wanted, end) = (range.len() as u64, span.start + span.length as u64);
                assert!(span.start.is_multiple_of(alignment as u64) && span.length.is_multiple_of(alignment));
                assert!(span.start <= offset && offset + wanted <= end, "{span:?} around {offset} + {wanted}");
                assert!(end - span.start < wanted + 2 * alignment as u64, "{span:?} around {offset} + {wanted}");
            }
        }
    }

    /// The wanted part is found wherever the file ends: before it, in it, behind it.
    #[test]
    fn what_is_wanted_is_copied() {
        let file: Vec<u8> = (0..2000_u32).map(|byte| (byte % 251) as u8).collect();
        for (end, expected) in [(0, 0), (599, 0), (600, 0), (601, 1), (899, 299), (900, 300), (1024, 300)] {
            let mut buffer = [0xAA; 300];
            let span = Span::around(512, 600, &buffer).expect("not aligned");
            let brought = &file[512..end.max(512)];
            assert!(span.is_decided_by(brought.len()));
            assert_eq!(span.copy_wanted(brought, &mut buffer), expected, "with the end at {end}");
            assert_eq!(buffer[..expected], file[600..600 + expected]);
            assert!(buffer[expected..].iter().all(|&byte| byte == 0xAA));
        }
    }

    /// A kernel that stops at a sector before the wanted bytes has not reported the end of the
    /// file.
    #[test]
    fn an_early_stop_is_not_the_end() {
        let span = Span::around(512, 4096 + 1000, &[0; 100]).expect("not aligned");
        assert_eq!(span.start, 4096 + 512, "the head is shorter than the alignment");
        let long = Span { start: 0, length: 8192, head: 4000, alignment: 512 };
        assert!(!long.is_decided_by(512) && !long.is_decided_by(3584));
        assert!(long.is_decided_by(0) && long.is_decided_by(700) && long.is_decided_by(4096));
    }
}
