//! One file and one directory, each as it looks now and as it is durable, and the ordered changes
//! in between.
//!
//! ```text
//!                 durable  ──  not yet synced, numbered in the order of all changes  ──▶  volatile
//! one file        bytes, length      write #7   extend #9   write #12   cut #15      bytes, length
//! one directory   names              set #8     move #10    remove #13               names
//! ```
//!
//! Reads see the volatile side. A sync moves the durable side up to it and empties the list. A
//! crash ([`super::crash`]) starts from the durable side and lets some of the changes through.
//!
//! Invariant: a file's durable side with all its changes applied is its volatile side, unless
//! `diverged` says that a fault has left something in the cache that no sync will ever write. For
//! directories it holds always.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

use super::content::{Content, PAGE_BYTES};

/// The number of a file or directory; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Inode(pub(super) u64);

/// The directory in which all paths begin.
pub(super) const ROOT: Inode = Inode(0);

#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    pub(super) durable: Content,
    pub(super) volatile: Content,
    /// What is not synced, in order, each with its place in the order of all changes.
    pub(super) changes: Vec<(u64, Change)>,
    /// The cache shows something that no sync will write.
    pub(super) diverged: bool,
    /// Reserved on the disk by `allocate`, in bytes from the file's start.
    pub(super) reserved_bytes: u64,
    /// How many handles hold it open.
    pub(super) handles: u64,
}

/// An unsynced change to one file.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Bytes written at an offset; the length grows as needed.
    Write { offset: u64, bytes: Arc<[u8]> },
    /// The length grows to at least this.
    Extend(u64),
    /// The length becomes this.
    SetLen(u64),
}

pub(super) type Names = BTreeMap<Arc<OsStr>, Node>;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Node {
    File(Inode),
    Directory(Inode),
}

#[derive(Clone, Debug, Default)]
pub(super) struct DirectoryState {
    pub(super) durable: Arc<Names>,
    pub(super) volatile: Arc<Names>,
    pub(super) changes: Vec<(u64, NameChange)>,
}

/// An unsynced change to one directory.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    /// The name stands for the node, whatever it stood for before.
    Set { name: Arc<OsStr>, node: Node },
    /// The name is gone.
    Remove { name: Arc<OsStr> },
    /// The node has this name and no other in the directory: a rename, which a crash keeps whole or
    /// not at all.
    Move { to: Arc<OsStr>, node: Node },
}

/// The three ways in which real file systems fail a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FailedSync {
    /// Pages stay dirty; a later sync writes them.
    KeepsPages,
    /// Pages are marked clean: reads still show them, no later sync writes them.
    DropsPages,
    /// The data is gone from cache and device; the length, which is metadata, is durable.
    KeepsLengthOnly,
}

impl Change {
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write(bytes, *offset),
            Self::Extend(length) => content.extend(*length),
            Self::SetLen(length) => content.set_len(*length),
        }
    }

    /// The same without its data.
    fn length_only(&self) -> Self {
        match self {
            Self::Write { offset, bytes } => Self::Extend(offset + bytes.len() as u64),
            other => other.clone(),
        }
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Set { name, node } => {
                names.insert(name.clone(), *node);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            Self::Move { to, node } => {
                names.retain(|_, other| other != node);
                names.insert(to.clone(), *node);
            }
        }
    }
}

impl FileState {
    /// A file of which all is durable.
    pub(super) fn durable(content: Content) -> Self {
        Self { volatile: content.clone(), durable: content, ..Self::default() }
    }

    /// What a read sees: the page cache, or if it is direct, the device.
    pub(super) fn seen(&self, direct: bool) -> &Content {
        if direct { &self.durable } else { &self.volatile }
    }

    pub(super) fn change(&mut self, number: u64, change: Change) {
        change.apply(&mut self.volatile);
        self.changes.push((number, change));
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.with_all_changes();
        self.changes.clear();
    }

    pub(super) fn fail_sync(&mut self, way: FailedSync) {
        if way == FailedSync::KeepsPages {
            return;
        }
        for (_, change) in &mut self.changes {
            *change = change.length_only();
        }
        self.diverged = true;
        if way == FailedSync::KeepsLengthOnly {
            self.sync();
            self.volatile = self.durable.clone();
            self.diverged = false;
        }
    }

    /// The same for a new process, or on a new disk: nobody holds it open.
    pub(super) fn closed(&self) -> Self {
        Self { handles: 0, ..self.clone() }
    }

    /// What would be durable if all changes were.
    pub(super) fn with_all_changes(&self) -> Content {
        if !self.diverged {
            return self.volatile.clone();
        }
        let mut content = self.durable.clone();
        self.changes.iter().for_each(|(_, change)| change.apply(&mut content));
        content
    }

    /// Space it takes on the disk, in bytes.
    pub(super) fn space_bytes(&self) -> u64 {
        self.volatile.space_bytes().max(self.reserved_bytes.next_multiple_of(PAGE_BYTES as u64))
    }

    /// The part of it that has its place on the disk even if pages get theirs only when they are
    /// synced.
    pub(super) fn allocated_bytes(&self) -> u64 {
        self.durable.space_bytes().max(self.reserved_bytes.next_multiple_of(PAGE_BYTES as u64))
    }
}

impl DirectoryState {
    /// A directory of which all is durable.
    pub(super) fn durable(names: Arc<Names>) -> Self {
        Self { durable: names.clone(), volatile: names, changes: Vec::new() }
    }

    pub(super) fn change(&mut self, number: u64, change: NameChange) {
        change.apply(Arc::make_mut(&mut self.volatile));
        self.changes.push((number, change));
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.volatile.clone();
        self.changes.clear();
    }
}

/// The files among what these names stand for.
pub(super) fn file_inodes(names: &Names) -> impl Iterator<Item = Inode> {
    names.values().filter_map(|node| match node {
        Node::File(inode) => Some(*inode),
        Node::Directory(_) => None,
    })
}
