//! Opening files that must be regular ones.
//!
//! A name of ours may stand for something else: a directory, a FIFO, a device. Opening a FIFO would
//! wait for its other end for ever, so nothing is opened with a wait (`O_NONBLOCK`, which regular
//! files ignore), and what is not a regular file is refused with an error that says what it is.

#![expect(clippy::disallowed_types, reason = "this is what the others use instead")]

use std::fs::{FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::env::NotRegular;

/// Opens what `options` say, with more flags.
pub(super) fn open(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<std::fs::File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match options.custom_flags(flags.bits().cast_signed()).open(path) {
        // The answer for a socket, and for a FIFO that nobody reads.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
            return Err(NotRegular("a socket, a FIFO or a device").into());
        }
        opened => opened?,
    };
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(if kind.is_dir() { io::ErrorKind::IsADirectory.into() } else { NotRegular(name(kind)).into() })
}

fn name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "no regular file"
    }
}
