//! Shutting a file system down, as a loss of power would: from the call on, nothing more reaches
//! its device.

use std::fs::File;
use std::path::Path;

use rustix::fs::{fstat, major};
use rustix::ioctl::{Setter, ioctl, opcode};

use crate::run::{Outcome, Stop};

/// `EXT4_IOC_SHUTDOWN`, which is also `XFS_IOC_GOINGDOWN`.
const SHUTDOWN: rustix::ioctl::Opcode = opcode::read::<u32>(b'X', 125);

/// The major number of loop devices.
const LOOP_MAJOR: u32 = 7;

/// What is written before nothing more is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// All that is dirty.
    Default = 0,
    /// The journal.
    JournalFlushed = 1,
    /// Nothing.
    NothingFlushed = 2,
}

/// The manners, the hardest one more often.
pub(super) const MANNERS: &[Manner] =
    &[Manner::Default, Manner::JournalFlushed, Manner::NothingFlushed, Manner::NothingFlushed];

/// Shuts down the file system that is mounted at `path` from a loop device, and no other.
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
pub(super) fn shut_down(path: &Path, manner: Manner) -> Outcome {
    let failed = |what: String| Stop::Failed(format!("shutdown of {}: {what}", path.display()));
    let dir = File::open(path).map_err(|error| failed(error.to_string()))?;
    let about = fstat(&dir).map_err(|error| failed(error.to_string()))?;
    if major(about.st_dev) != LOOP_MAJOR {
        return Err(failed("it is not on a loop device".to_owned()));
    }
    // SAFETY: the call with this number reads one `u32` through its argument, on the file systems
    // that know it; others refuse it. `Setter` passes the address of its own value.
    unsafe { ioctl(&dir, Setter::<SHUTDOWN, u32>::new(manner as u32)) }.map_err(|error| failed(error.to_string()))
}
