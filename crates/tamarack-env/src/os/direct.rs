//! Files that are read past the page cache (`O_DIRECT`).
//!
//! The kernel carries out such a read only if its position, its length and the address of its
//! memory are multiples of an alignment, usually 512 or 4096 bytes. A [`DirectFile`] takes any
//! read: an aligned one goes straight into the caller's memory, any other through a buffer of the
//! environment's pool. The end of the file needs no alignment; there the kernel returns fewer
//! bytes.
//!
//! # Which alignment
//!
//! The kernel names it for each file (`statx`, from Linux 6.1 on); otherwise 512 and then 4096 are
//! tried. Either is proved by a real read that is aligned to exactly this, once per device. Some
//! file systems accept the flag and use the page cache all the same (those in memory, for example):
//! a read at an odd position that succeeds shows this, and then, as where the flag is refused, the
//! file is opened without it. [`File::direct_alignment`] returns the result.

#![expect(clippy::disallowed_types, reason = "this is what the others use instead")]

use std::collections::BTreeMap;
use std::fs::File as OpenFile;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use super::bounce::Bounces;
use super::buffered::BufferedFile;
use super::read::Span;
use super::regular;
use crate::aligned::AlignedBuffer;
use crate::env::{File, Step};
use crate::sync::{Mutex, Rank};

/// The alignments that are tried where the kernel names none, in bytes.
const ALIGNMENTS: &[usize] = &[512, 4096];

/// Opens files for direct reads, and remembers the alignments of their devices.
#[derive(Debug)]
pub(super) struct DirectFiles {
    bounces: Arc<Bounces>,
    /// Results of trial reads: the alignment, or `None` where direct reads do not work.
    proved: Mutex<BTreeMap<DeviceKey, Option<usize>>>,
}

/// The key of a trial's result: the device's number, and the alignment that the kernel names.
type DeviceKey = (u64, Option<usize>);

/// An open file whose reads bypass the page cache.
#[derive(Debug)]
pub(super) struct DirectFile {
    /// The flag belongs to the open file, and affects only reads and writes.
    file: BufferedFile,
    alignment: usize,
    bounces: Arc<Bounces>,
}

/// The result of a trial read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trial {
    Works,
    Refused,
    /// The file is too short to tell.
    TooShort,
}

/// The result of all trial reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proof {
    /// In bytes.
    Aligned(usize),
    Impossible,
    TooShort,
}

impl DirectFiles {
    /// Makes the opener; unaligned reads will go through `bounces`.
    pub(super) fn new(bounces: Arc<Bounces>) -> Self {
        Self { bounces, proved: Mutex::new(Rank::DirectAlignments, BTreeMap::new()) }
    }

    /// Opens a file; `None` if it cannot be read past the page cache. Fails as any open does.
    pub(super) fn open(&self, path: &Path) -> io::Result<Option<DirectFile>> {
        let mut options = OpenFile::options();
        let file = match regular::open(path, options.read(true), OFlags::DIRECT) {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::OPNOTSUPP)) => {
                return Ok(None);
            }
            opened => opened?,
        };
        let alignment = self.alignment(&file)?;
        Ok(alignment.map(|alignment| DirectFile {
            file: BufferedFile::new(file),
            alignment,
            bounces: self.bounces.clone(),
        }))
    }

    /// The alignment of direct reads of `file`, in bytes; `None` if there are none.
    fn alignment(&self, file: &OpenFile) -> io::Result<Option<usize>> {
        let named = named_alignment(file);
        let device = (file.metadata()?.dev(), named);
        if let Some(&proved) = self.proved.lock().get(&device) {
            return Ok(proved);
        }
        let proved = match prove(file, named)? {
            Proof::Aligned(alignment) => Some(alignment),
            Proof::Impossible => None,
            // An alignment that the kernel names is used without proof; a guessed one is not.
            // Neither is remembered.
            Proof::TooShort => return Ok(named.filter(|named| ALIGNMENTS.contains(named))),
        };
        self.proved.lock().insert(device, proved);
        Ok(proved)
    }
}

/// The alignment that the kernel names, in bytes: 0 if it does not read this file directly, `None`
/// if it names none.
fn named_alignment(file: &OpenFile) -> Option<usize> {
    let status = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_named = status.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    is_named.then(|| status.stx_dio_mem_align.max(status.stx_dio_offset_align) as usize)
}

/// Tries the alignment that the kernel named, or else the usual ones.
fn prove(file: &OpenFile, named: Option<usize>) -> io::Result<Proof> {
    // A file that can be read at an odd position is read through the page cache.
    match trial(file, 1)? {
        Trial::TooShort => return Ok(Proof::TooShort),
        Trial::Works => return Ok(Proof::Impossible),
        Trial::Refused => {}
    }
    for &alignment in ALIGNMENTS.iter().filter(|&&alignment| named.is_none_or(|named| named == alignment)) {
        match trial(file, alignment)? {
            Trial::TooShort => return Ok(Proof::TooShort),
            Trial::Works => return Ok(Proof::Aligned(alignment)),
            Trial::Refused => {}
        }
    }
    Ok(Proof::Impossible)
}

/// Reads `alignment` bytes at a position and an address that are multiples of it, and of no higher
/// power of two.
fn trial(file: &OpenFile, alignment: usize) -> io::Result<Trial> {
    let mut buffer = AlignedBuffer::zeroed(2 * AlignedBuffer::ALIGNMENT);
    let memory = &mut buffer[alignment..2 * alignment];
    match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *memory, alignment as u64)) {
        Ok(0) => Ok(Trial::TooShort),
        Ok(_) => Ok(Trial::Works),
        Err(Errno::INVAL) => Ok(Trial::Refused),
        Err(error) => Err(error.into()),
    }
}

impl File for DirectFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(span) = Span::around(self.alignment, offset, buffer) else {
            return self.file.read_at(buffer, offset);
        };
        let mut bounce = self.bounces.take(span.length);
        let mut count = self.file.read_at(&mut bounce[..span.length], span.start)?;
        while !span.is_decided_by(count) {
            let more = self.file.read_at(&mut bounce[count..span.length], span.start + count as u64)?;
            if more == 0 {
                break;
            }
            count += more;
        }
        Ok(span.copy_wanted(&bounce[..count], buffer))
    }

    fn direct_alignment(&self) -> Option<usize> {
        Some(self.alignment)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize> {
        self.file.write_at(bytes, offset, step)
    }

    fn sync(&self, step: Step) -> io::Result<()> {
        self.file.sync(step)
    }

    fn set_len(&self, length: u64, step: Step) -> io::Result<()> {
        self.file.set_len(length, step)
    }

    fn allocate(&self, length: u64, step: Step) -> io::Result<()> {
        self.file.allocate(length, step)
    }

    fn reserve(&self, length: u64, step: Step) -> io::Result<()> {
        self.file.reserve(length, step)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn start_writeback(&self, offset: u64, length: u64) {
        self.file.start_writeback(offset, length);
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::TempDir;

    fn files() -> DirectFiles {
        DirectFiles::new(Arc::default())
    }

    /// A file of so many bytes, synced.
    fn written(scratch: &TempDir, name: &str, length: usize) -> std::path::PathBuf {
        let path = scratch.path().join(name);
        let file = BufferedFile::new(OpenFile::create_new(&path).unwrap());
        file.write_all_at(&vec![0x5A; length], 0, Step("test: write")).unwrap();
        file.sync(Step("test: sync")).unwrap();
        path
    }

    /// A file system in memory has no device to read from, whatever flags it accepts.
    #[test]
    #[cfg(target_os = "linux")]
    fn files_in_memory_are_not_direct() {
        let Ok(scratch) = TempDir::below(Path::new("/dev/shm")) else {
            println!("no file system in memory here");
            return;
        };
        let files = files();
        for (name, length) in [("empty", 0), ("short", 100), ("long", 100_000), ("long again", 100_000)] {
            assert!(files.open(&written(&scratch, name, length)).unwrap().is_none(), "{name}");
        }
    }

    /// One trial answers for all files of a device, and a file that is too short for a trial is
    /// read all the same.
    #[test]
    fn what_a_device_answered_is_remembered() {
        let (scratch, files) = (TempDir::new().unwrap(), files());
        let opened = |name: &str, length| {
            let file = files.open(&written(&scratch, name, length)).unwrap();
            let mut bytes = vec![0; length];
            if let Some(file) = &file {
                file.read_exact_at(&mut bytes, 0).unwrap();
                assert!(bytes.iter().all(|&byte| byte == 0x5A), "{name}");
            }
            file.map(|file| file.alignment)
        };
        opened("empty", 0);
        opened("short", 100);
        assert!(files.proved.lock().is_empty(), "nothing is proved by files without bytes to read");
        let first = opened("long", 100_000);
        assert_eq!(files.proved.lock().values().collect::<Vec<_>>(), [&first]);
        assert_eq!(opened("long again", 100_000), first);
        assert!(first.is_none_or(|alignment| ALIGNMENTS.contains(&alignment)));
        println!("alignment here: {first:?}");
    }
}
