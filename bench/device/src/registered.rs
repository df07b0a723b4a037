//! io_uring used directly, with and without registered files and memory: shows whether the
//! environment, which registers nothing, loses anything.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, opcode, types};
use tamarack_env::{AlignedBuffer, File};

use crate::{BATCH_MAX, BLOCK_BYTES};

/// A ring, and what it reads into.
pub(crate) struct Registered {
    // First, so that the ring is closed before its memory goes.
    ring: IoUring,
    memory: AlignedBuffer,
    file: Arc<dyn File>,
    is_registered: bool,
}

impl Registered {
    pub(crate) fn new(file: Arc<dyn File>, is_registered: bool) -> io::Result<Self> {
        let ring = IoUring::new(BATCH_MAX.next_power_of_two() as u32)?;
        let mut memory = AlignedBuffer::zeroed(BATCH_MAX * BLOCK_BYTES);
        if is_registered {
            let descriptor = file.descriptor().ok_or(io::ErrorKind::Unsupported)?;
            ring.submitter().register_files(&[descriptor.as_raw_fd()])?;
            let whole = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
            // SAFETY: the memory lives until after the ring is closed.
            unsafe { ring.submitter().register_buffers(&[whole])? };
        }
        Ok(Self { ring, memory, file, is_registered })
    }

    /// Reads a block at each offset.
    pub(crate) fn read(&mut self, offsets: &[u64]) -> io::Result<()> {
        let descriptor = self.file.descriptor().ok_or(io::ErrorKind::Unsupported)?.as_raw_fd();
        for (memory, &offset) in self.memory.chunks_exact_mut(BLOCK_BYTES).zip(offsets) {
            let (memory, length) = (memory.as_mut_ptr(), BLOCK_BYTES as u32);
            let request = match self.is_registered {
                true => opcode::ReadFixed::new(types::Fixed(0), memory, length, 0).offset(offset).build(),
                false => opcode::Read::new(types::Fd(descriptor), memory, length).offset(offset).build(),
            };
            // SAFETY: `self` owns file and memory; all requests complete below, or the program
            // ends.
            unsafe { self.ring.submission().push(&request).expect("room for a batch") };
        }
        let submitted = self.ring.submit_and_wait(offsets.len()).expect("a ring that works");
        assert_eq!(submitted, offsets.len());
        for answer in self.ring.completion() {
            assert_eq!(answer.result(), BLOCK_BYTES as i32, "a whole block");
        }
        Ok(())
    }
}
