//! Cached descriptors of directories that are synced repeatedly.
//!
//! `fsync` of a directory needs a descriptor of it. Opening one for each sync can fail (at the
//! limit of open files) after the names have changed, and the caller then knows no more than after
//! a failed sync. So the descriptors of the last few directories stay open. A directory that was
//! replaced by another one of the same path is noticed: `stat`, which needs no descriptor, must
//! return the identity of the open directory.
//!
//! Tested by the contract suite, and by `tests/descriptors.rs` with no descriptor left.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::sync::{Mutex, Rank};

/// Number of directories that stay open. A database has its own, its parent for a moment, and those
/// of checkpoints.
const OPEN_MAX: usize = 4;

/// The directories synced last.
#[derive(Debug)]
pub(super) struct Directories(Mutex<Vec<Directory>>);

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    identity: Identity,
    descriptor: Arc<OwnedFd>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Directories {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Rank::Directories, Vec::new()))
    }

    /// Syncs the names in the directory.
    pub(super) fn sync(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(&*self.descriptor(path)?)?)
    }

    fn descriptor(&self, path: &Path) -> io::Result<Arc<OwnedFd>> {
        let there = identity(&rustix::fs::stat(path)?);
        let mut open = self.0.lock();
        if let Some(place) = open.iter().position(|directory| directory.path == path) {
            let directory = open.remove(place);
            if directory.identity == there {
                let descriptor = directory.descriptor.clone();
                open.push(directory);
                return Ok(descriptor);
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = Arc::new(rustix::fs::open(path, flags, Mode::empty())?);
        let identity = identity(&rustix::fs::fstat(&*descriptor)?);
        if open.len() == OPEN_MAX {
            open.remove(0);
        }
        open.push(Directory { path: path.to_owned(), identity, descriptor: descriptor.clone() });
        Ok(descriptor)
    }
}

#[expect(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
fn identity(stat: &rustix::fs::Stat) -> Identity {
    (stat.st_dev as u64, stat.st_ino as u64)
}
