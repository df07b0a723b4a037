//! Files that are read and written through the operating system's page cache.
//!
//! Each call is one system call: `pread`, `pwrite`, `fdatasync`, `ftruncate`, `fallocate`, `fstat`,
//! `sync_file_range`, `posix_fadvise`. A file's only state is its descriptor, so all calls may run
//! concurrently.

#![expect(clippy::disallowed_types, reason = "this is what the others use instead")]

use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

#[cfg(target_os = "linux")]
use rustix::fs::Advice;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::env::{File, Step};

/// An open file.
#[derive(Debug)]
pub(super) struct BufferedFile(std::fs::File);

impl BufferedFile {
    pub(super) fn new(file: std::fs::File) -> Self {
        Self(file)
    }

    /// Has the page cache read nothing that is not asked for.
    ///
    /// It would take neighbouring reads of a scan for the beginning of a long one, and read as much
    /// with them as the device's read-ahead is set to: several MiB on some machines.
    #[cfg(target_os = "linux")]
    pub(super) fn advise_random(&self) {
        advise(&self.0, 0, 0, Advice::Random);
    }

    /// Extends the file to `length`, if it is shorter, without reserving space.
    fn extend(&self, length: u64) -> io::Result<()> {
        if self.len()? < length { self.0.set_len(length) } else { Ok(()) }
    }
}

impl File for BufferedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _step: Step) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    /// Not by the standard library, which repeats an interrupted call: what the first one completed
    /// is unknown.
    fn sync(&self, _step: Step) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.0)?)
    }

    fn set_len(&self, length: u64, _step: Step) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn allocate(&self, length: u64, _step: Step) -> io::Result<()> {
        if length == 0 {
            return Ok(()); // The system call refuses it.
        }
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, length)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.extend(length),
            result => Ok(result?),
        }
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, length: u64, _step: Step) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        match rustix::io::retry_on_intr(|| rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, length)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            result => Ok(result?),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn start_writeback(&self, offset: u64, length: u64) {
        start_writeback(&self.0, offset, length);
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, offset: u64, length: u64) {
        if length > 0 {
            advise(&self.0, offset, length, Advice::WillNeed);
        }
    }
}

/// Advises the page cache about a range; up to the end of the file, if `length` is 0. A file system
/// may refuse advice, which harms nothing.
#[cfg(target_os = "linux")]
fn advise(file: &impl AsFd, offset: u64, length: u64, advice: Advice) {
    let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(length), advice);
}

/// Starts write-back without waiting for it: the next sync reports a failure.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe wrapper of this call exists")]
fn start_writeback(file: &impl std::os::fd::AsRawFd, offset: u64, length: u64) {
    // A length of 0 would mean "to the end"; positions from 2⁶³ on, which no file has, do not fit
    // the call.
    let (Ok(start), Ok(bytes @ 1..)) = (i64::try_from(offset), i64::try_from(length)) else { return };
    // SAFETY: the call takes four numbers and touches no memory of ours. The descriptor is open for
    // as long as `file` is borrowed; were it not, the call would fail without harm.
    unsafe { libc::sync_file_range(file.as_raw_fd(), start, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Without such a call, the next sync does all the work.
#[cfg(not(target_os = "linux"))]
fn start_writeback<F>(_file: &F, _offset: u64, _length: u64) {}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::TempDir;

    /// The fallback where the file system cannot reserve space: it lengthens a file with zeros and
    /// never cuts one. The file systems that tests run on can reserve, so the contract suite does
    /// not reach it.
    #[test]
    fn extending_never_cuts() {
        let scratch = TempDir::new().unwrap();
        let mut options = std::fs::File::options();
        let file = options.read(true).write(true).create_new(true).open(scratch.path().join("file")).unwrap();
        let file = BufferedFile::new(file);
        file.write_all_at(b"kept", 0, Step("test: write")).unwrap();
        for (length, expected) in [(2, &b"kept"[..]), (6, b"kept\0\0"), (6, b"kept\0\0"), (0, b"kept\0\0")] {
            file.extend(length).unwrap();
            let mut bytes = vec![0xAA; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, expected, "after extending to {length}");
        }
    }
}
