//! The lock file that keeps out a second process, or a second handle in this one; or, shared, keeps
//! out writers.
//!
//! The file is empty and stays when the lock ends, so its existence means nothing. The lock is the
//! `flock` on it, which the kernel releases with the last descriptor, so also when the process is
//! killed. The file must not be removed while it may be locked: the next process would lock a new
//! file of the same name.

use std::fs::TryLockError;
use std::io;
use std::path::Path;

use rustix::fs::OFlags;

use super::regular;
use crate::env::Lock;

/// A held lock. Closing its descriptor releases it.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "this is what the others use instead")]
pub(super) struct LockFile(#[expect(dead_code, reason = "only held")] std::fs::File);

impl LockFile {
    /// Takes the lock at `path`, or fails with `WouldBlock`.
    #[expect(clippy::disallowed_types, reason = "this is what the others use instead")]
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let mut options = std::fs::OpenOptions::new();
        let file = regular::open(path, options.read(true).write(true).create(true).truncate(false), OFlags::empty())?;
        Self::held(file.try_lock(), file, path)
    }

    /// Takes a shared lock at `path`, which must exist, or fails with `WouldBlock`.
    #[expect(clippy::disallowed_types, reason = "this is what the others use instead")]
    pub(super) fn share(path: &Path) -> io::Result<Self> {
        let file = regular::open(path, std::fs::OpenOptions::new().read(true), OFlags::empty())?;
        Self::held(file.try_lock_shared(), file, path)
    }

    #[expect(clippy::disallowed_types, reason = "this is what the others use instead")]
    fn held(outcome: Result<(), TryLockError>, file: std::fs::File, path: &Path) -> io::Result<Self> {
        match outcome {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is locked by another process or another handle of this one", path.display()),
            )),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Lock for LockFile {}
