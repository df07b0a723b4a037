//! Crashes: the disk that a machine finds after a loss of power.
//!
//! From any state of the disk, a [`Crash`] decides which unsynced changes reached the device; all
//! synced ones did. The result is an independent disk on which nothing is unsynced. The kinds of
//! crash differ in the mistakes that they find fastest:
//!
//! | kind | finds |
//! |---|---|
//! | [`Crash::LoseAll`] | something promised before it was synced |
//! | [`Crash::KeepAll`] | something written too early, such as a name before its file was ready |
//! | [`Crash::Prefix`] | states between two calls |
//! | [`Crash::AllBut`] | one missing sync, exactly |
//! | [`Crash::ByFile`] | a missing order between files: all of one is there, nothing of another |
//! | [`Crash::Subset`] | assumptions on order within a file |
//! | [`Crash::Torn`] | assumptions on atomicity: of a write, of a write and its length |
//!
//! Names are kept or lost like writes, each change alone; a rename is one change. All draws come
//! from the crash's own seed, so the same disk and the same crash give the same image.
//!
//! Cost: a few list copies per file, plus the pages that surviving writes touch.

use std::sync::Arc;

use super::content::{Content, hash_bytes, mix};
use super::disk::Disk;
use super::inode::{Change, DirectoryState, FileState, Inode, Names, Node, ROOT};
use crate::random::Random;

/// The unsynced changes that survive a crash. The numbers in [`Crash::Prefix`] and
/// [`Crash::AllBut`] count changes in the order in which they were made, across all files and
/// directories.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Crash {
    /// Nothing that was not synced.
    LoseAll,
    /// Everything that a sync could still have written.
    KeepAll,
    /// The first so many changes.
    Prefix(usize),
    /// All but the one with this number, counted from 0.
    AllBut(usize),
    /// For each file, and for each directory's names, all or nothing.
    ByFile {
        /// Draws which.
        seed: u64,
    },
    /// Each change whole or not at all.
    Subset {
        /// Draws how dense, and which.
        seed: u64,
    },
    /// Each sector of each write, each change of length and each change of a name for itself.
    Torn {
        /// Draws how dense, and which.
        seed: u64,
        /// What the device writes in one piece.
        sector: Sector,
    },
}

/// The unit that a device writes whole or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sector {
    /// 512 bytes, what the contract of [`crate::env`] assumes.
    Bytes512,
    /// 4096 bytes, as on most devices of today.
    Bytes4096,
}

impl Sector {
    /// The sector's size in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes512 => 512,
            Self::Bytes4096 => 4096,
        }
    }
}

impl Crash {
    /// A crash of any kind, drawn from a seed, for a disk with so many unsynced changes.
    pub fn draw(seed: u64, unsynced: usize) -> Self {
        let random = Random::for_purpose(seed, 0xC4A5);
        let seed = random.next();
        match random.below(8) {
            0 => Self::LoseAll,
            1 => Self::KeepAll,
            2 => Self::Prefix(random.below(unsynced as u64 + 1) as usize),
            3 if unsynced > 0 => Self::AllBut(random.below(unsynced as u64) as usize),
            3 | 4 => Self::ByFile { seed },
            5 => Self::Subset { seed },
            6 => Self::Torn { seed, sector: Sector::Bytes512 },
            _ => Self::Torn { seed, sector: Sector::Bytes4096 },
        }
    }
}

/// The disk that a machine finds after `crash`.
pub(super) fn crashed(disk: &Disk, crash: Crash) -> Disk {
    let mut image = Disk {
        next_inode: disk.next_inode,
        capacity_bytes: disk.capacity_bytes,
        delayed_allocation: disk.delayed_allocation,
        ..Disk::default()
    };
    image.directories.clear();
    let mut judge = Judge::new(disk, crash);
    let mut directories = vec![ROOT];
    while let Some(inode) = directories.pop() {
        let names = judge.names(inode, &disk.directories[&inode]);
        for node in names.values() {
            match *node {
                Node::Directory(child) => directories.push(child),
                // A file has what it has under all of its names.
                Node::File(file) => {
                    image.files.entry(file).or_insert_with(|| FileState::durable(judge.content(file, disk.file(file))));
                }
            }
        }
        image.directories.insert(inode, DirectoryState::durable(names));
    }
    image
}

/// The same disk after the end of the process that used it.
pub(super) fn process_ended(disk: &Disk) -> Disk {
    let files = disk.files.iter().map(|(inode, file)| (*inode, file.closed())).collect();
    Disk { files, ..disk.clone() }
}

/// A number that two disks share if all names and contents that a process would see are the same,
/// and else with a chance of about 2⁻⁶⁴.
pub(super) fn identity(disk: &Disk) -> u64 {
    fn of_directory(disk: &Disk, inode: Inode, mut hash: u64) -> u64 {
        for (name, node) in disk.directories[&inode].volatile.iter() {
            hash = mix(hash, hash_bytes(name.as_encoded_bytes()));
            hash = match *node {
                Node::File(file) => mix(mix(hash, 1), disk.file(file).volatile.hash()),
                Node::Directory(child) => mix(of_directory(disk, child, mix(hash, 2)), 3),
            };
        }
        hash
    }
    of_directory(disk, ROOT, 0)
}

/// Decides, change by change.
struct Judge {
    crash: Crash,
    /// Of [`Crash::Prefix`]: the first change that is lost. Of [`Crash::AllBut`]: the one that is.
    limit: u64,
    /// How many of eight changes survive where each is drawn for itself: few, half, or most.
    eighths: u64,
    random: Random,
}

impl Judge {
    fn new(disk: &Disk, crash: Crash) -> Self {
        let limit = match crash {
            Crash::Prefix(at) | Crash::AllBut(at) => disk.unsynced().get(at).copied().unwrap_or(u64::MAX),
            _ => 0,
        };
        let random = Random::new(match crash {
            Crash::ByFile { seed } | Crash::Subset { seed } | Crash::Torn { seed, .. } => seed,
            _ => 0,
        });
        let eighths = [1, 4, 7][random.below(3) as usize];
        Self { crash, limit, eighths, random }
    }

    fn names(&mut self, inode: Inode, directory: &DirectoryState) -> Arc<Names> {
        if directory.changes.is_empty() {
            return directory.durable.clone();
        }
        let mut names = Names::clone(&directory.durable);
        for (number, change) in &directory.changes {
            if self.keeps(inode, *number) {
                change.apply(&mut names);
            }
        }
        Arc::new(names)
    }

    fn content(&mut self, inode: Inode, file: &FileState) -> Content {
        if file.changes.is_empty() || self.crash == Crash::LoseAll {
            return file.durable.clone();
        }
        if self.crash == Crash::KeepAll {
            return file.with_all_changes();
        }
        let mut content = file.durable.clone();
        for (number, change) in &file.changes {
            match (self.crash, change) {
                (Crash::Torn { sector, .. }, Change::Write { offset, bytes }) => {
                    self.tear(&mut content, *offset, bytes, sector.bytes());
                }
                _ if self.keeps(inode, *number) => change.apply(&mut content),
                _ => {}
            }
        }
        content.settle();
        content
    }

    fn keeps(&mut self, inode: Inode, number: u64) -> bool {
        match self.crash {
            Crash::LoseAll => false,
            Crash::KeepAll => true,
            Crash::Prefix(_) => number < self.limit,
            Crash::AllBut(_) => number != self.limit,
            Crash::ByFile { seed } => Random::for_purpose(seed, inode.0).eighths(4),
            Crash::Subset { .. } | Crash::Torn { .. } => self.random.eighths(self.eighths),
        }
    }

    /// Lets each sector through for itself, and the growth of the length for itself: in full, up to
    /// some sector, or not at all. File systems that give space to pages as they write them out
    /// raise the durable length page by page.
    fn tear(&mut self, content: &mut Content, offset: u64, bytes: &[u8], sector_bytes: u64) {
        let mut from = 0;
        while from < bytes.len() {
            let at = offset + from as u64;
            let to = bytes.len().min(from + (sector_bytes - at % sector_bytes) as usize);
            if self.random.eighths(self.eighths) {
                content.put(&bytes[from..to], at);
            }
            from = to;
        }
        let end = offset + bytes.len() as u64;
        if self.random.eighths(self.eighths) {
            content.extend(end);
        } else if self.random.eighths(4) {
            let border = (offset + self.random.below(bytes.len() as u64)) / sector_bytes * sector_bytes;
            content.extend(border.max(offset));
        }
    }
}
