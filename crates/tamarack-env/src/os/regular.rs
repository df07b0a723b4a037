//! Opening files that must be regular ones.
//!
//! One of our names may belong to something else: a directory, a FIFO, a device. Opening a FIFO
//! would wait for its other end for ever, so files are opened without waiting (`O_NONBLOCK`, which
//! regular files ignore), and anything that is no regular file is refused with an error that names
//! its type.

#![expect(clippy::disallowed_types, reason = "this is what the others use instead")]

use std::fs::{FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::env::NotRegular;

/// Opens a file with `options` and additional flags.
pub(super) fn open(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<std::fs::File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match options.custom_flags(flags.bits().cast_signed()).open(path) {
        // The error for a socket, and for a FIFO without a reader.
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
