//! What is stored: files and directories, each as it looks now and as it is durable, and the ordered changes in between.
//!
//! ```text
//!                 durable  ──  changes not yet synced, each with its place in the order of all changes  ──▶  volatile
//! one file        bytes, length      write #7   extend #9   write #12   cut #15                              bytes, length
//! one directory   names              set #8     move #10    remove #13                                       names
//! ```
//!
//! Reads see the volatile side. A sync moves the durable side up to it and empties the list. A crash ([`super::crash`]) starts from the
//! durable side and lets some of the changes through. Names lead to inodes and files live in inodes, so data and name
//! survive independently, a removed file stays readable through its handles, and one whose removal was not synced comes back.
//!
//! Invariant: a file's durable side with all its changes applied is its volatile side, unless `diverged` says that a fault has
//! left something in the cache that no sync will ever write. For directories it holds always.
//!
//! Absent here: calls, steps, faults by number, the clock. This is the state alone, and its operations never wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::content::{Content, LENGTH_MAX, PAGE_BYTES};

/// The number of a file or directory; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Inode(pub(super) u64);

/// The directory in which all paths begin.
pub(super) const ROOT: Inode = Inode(0);

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<Inode, FileState>,
    pub(super) directories: BTreeMap<Inode, DirectoryState>,
    pub(super) next_inode: u64,
    /// The place of the next change in the order of all changes.
    pub(super) next_change: u64,
    /// How much fits, in bytes; `None` is without limit.
    pub(super) capacity_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct FileState {
    pub(super) durable: Content,
    pub(super) volatile: Content,
    /// What is not synced, in order, each with its place in the order of all changes.
    pub(super) changes: Vec<(u64, Change)>,
    /// The cache shows something that no sync will write.
    pub(super) diverged: bool,
    /// Reserved on the disk by `allocate`, in bytes from the file's start.
    reserved_bytes: u64,
    handles: u64,
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
    /// The node has this name and no other in the directory: a rename, which a crash keeps whole or not at all.
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

impl Default for Disk {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            directories: BTreeMap::from([(ROOT, DirectoryState::default())]),
            next_inode: ROOT.0 + 1,
            next_change: 0,
            capacity_bytes: None,
        }
    }
}

/// Names.
impl Disk {
    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.vacant(path)?;
        let inode = self.new_inode();
        self.directories.insert(inode, DirectoryState::default());
        self.change_names(parent, NameChange::Set { name, node: Node::Directory(inode) });
        Ok(())
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<Inode> {
        let (parent, name) = self.vacant(path)?;
        if self.free_bytes() == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = self.new_inode();
        self.files.insert(inode, FileState::default());
        self.change_names(parent, NameChange::Set { name, node: Node::File(inode) });
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = Node::File(self.file_at(from)?);
        let (parent, to) = self.parent_of(to)?;
        if self.parent_of(from)?.0 != parent {
            return Err(invalid("a rename stays in one directory"));
        }
        if let Some(Node::Directory(_)) = self.directories[&parent].volatile.get(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.change_names(parent, NameChange::Move { to: to.into(), node });
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file_at(path)?;
        let (parent, name) = self.parent_of(path)?;
        self.change_names(parent, NameChange::Remove { name: name.into() });
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.directory_at(path)?;
        let directory = self.directories.get_mut(&inode).expect("a name leads to a directory that is there");
        directory.durable = directory.volatile.clone();
        directory.changes.clear();
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let inode = self.directory_at(path)?;
        Ok(self.directories[&inode].volatile.keys().map(|name| name.as_ref().to_owned()).collect())
    }

    pub(super) fn file_at(&self, path: &Path) -> io::Result<Inode> {
        match self.node_at(path)? {
            Node::File(inode) => Ok(inode),
            Node::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn directory_at(&self, path: &Path) -> io::Result<Inode> {
        match self.node_at(path)? {
            Node::Directory(inode) => Ok(inode),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn node_at(&self, path: &Path) -> io::Result<Node> {
        let mut node = Node::Directory(ROOT);
        for component in path.components() {
            let name = match component {
                Component::RootDir | Component::CurDir => continue,
                Component::Normal(name) => name,
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(invalid("the simulator knows plain paths only"));
                }
            };
            let Node::Directory(inode) = node else { return Err(io::ErrorKind::NotADirectory.into()) };
            node = *self.directories[&inode].volatile.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    fn parent_of<'a>(&self, path: &'a Path) -> io::Result<(Inode, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| invalid("the path names no file"))?;
        Ok((self.directory_at(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn vacant(&self, path: &Path) -> io::Result<(Inode, Arc<OsStr>)> {
        let (parent, name) = self.parent_of(path)?;
        if self.directories[&parent].volatile.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok((parent, name.into()))
    }

    fn change_names(&mut self, inode: Inode, change: NameChange) {
        let number = self.new_change();
        let directory = self.directories.get_mut(&inode).expect("the directory was just looked up");
        change.apply(Arc::make_mut(&mut directory.volatile));
        directory.changes.push((number, change));
    }
}

/// Bytes.
impl Disk {
    pub(super) fn file(&self, inode: Inode) -> &FileState {
        self.files.get(&inode).expect("a file with a handle or a name is kept")
    }

    fn file_mut(&mut self, inode: Inode) -> &mut FileState {
        self.files.get_mut(&inode).expect("a file with a handle or a name is kept")
    }

    /// Writes what fits on the disk, at least one byte.
    pub(super) fn write(&mut self, inode: Inode, offset: u64, bytes: &Arc<[u8]>) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let end = checked_end(offset, bytes.len() as u64)?;
        let room_end = self.file(inode).space_bytes().saturating_add(self.free_bytes());
        let count = end.min(room_end).saturating_sub(offset) as usize;
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let bytes = if count == bytes.len() { bytes.clone() } else { bytes[..count].into() };
        self.change_file(inode, Change::Write { offset, bytes });
        Ok(count)
    }

    /// The length grows as by a write, and the bytes land nowhere.
    pub(super) fn lose_write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = checked_end(offset, bytes.len() as u64)?;
        self.change_file(inode, Change::Extend(end));
        Ok(())
    }

    /// The bytes land where they do not belong, as far as there is something to overwrite.
    pub(super) fn stray_write(&mut self, inode: Inode, offset: u64, bytes: &[u8]) {
        let count = self.file(inode).volatile.len().saturating_sub(offset).min(bytes.len() as u64) as usize;
        if count > 0 {
            self.change_file(inode, Change::Write { offset, bytes: bytes[..count].into() });
        }
    }

    pub(super) fn set_len(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        checked_end(length, 0)?;
        let file = self.file_mut(inode);
        file.reserved_bytes = file.reserved_bytes.min(length);
        self.change_file(inode, Change::SetLen(length));
        Ok(())
    }

    pub(super) fn allocate(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        checked_end(length, 0)?;
        let space = length.next_multiple_of(PAGE_BYTES as u64);
        if space.saturating_sub(self.file(inode).space_bytes()) > self.free_bytes() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = self.file_mut(inode);
        file.reserved_bytes = file.reserved_bytes.max(length);
        self.change_file(inode, Change::Extend(length));
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: Inode) {
        let file = self.file_mut(inode);
        file.durable = file.with_all_changes();
        file.changes.clear();
    }

    pub(super) fn fail_sync(&mut self, inode: Inode, way: FailedSync) {
        let file = self.file_mut(inode);
        if way == FailedSync::KeepsPages {
            return;
        }
        for (_, change) in &mut file.changes {
            *change = change.length_only();
        }
        file.diverged = true;
        if way == FailedSync::KeepsLengthOnly {
            file.durable = file.with_all_changes();
            file.changes.clear();
            file.volatile = file.durable.clone();
            file.diverged = false;
        }
    }

    fn change_file(&mut self, inode: Inode, change: Change) {
        let number = self.new_change();
        let file = self.file_mut(inode);
        change.apply(&mut file.volatile);
        file.changes.push((number, change));
    }
}

/// What is stored, space, and numbers.
impl Disk {
    /// Changes both sides of a file behind everybody's back: damage at rest.
    pub(super) fn damage(&mut self, inode: Inode, mut damage: impl FnMut(&mut Content)) {
        let file = self.file_mut(inode);
        damage(&mut file.durable);
        damage(&mut file.volatile);
    }

    /// The bytes of two files change places; their names and lengths' durability do not.
    pub(super) fn swap(&mut self, a: Inode, b: Inode) {
        let (left, right) = (self.file(a).clone(), self.file(b).clone());
        *self.file_mut(a) = FileState { handles: left.handles, ..right.clone() };
        *self.file_mut(b) = FileState { handles: right.handles, ..left };
    }

    pub(super) fn opened(&mut self, inode: Inode) {
        self.file_mut(inode).handles += 1;
    }

    pub(super) fn closed(&mut self, inode: Inode) {
        self.file_mut(inode).handles -= 1;
    }

    /// The paths of all files, sorted, with their lengths in bytes.
    pub(super) fn all_files(&self) -> Vec<(PathBuf, u64)> {
        let mut found = Vec::new();
        let mut directories = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = directories.pop() {
            for (name, node) in self.directories[&inode].volatile.iter() {
                let path = path.join(name.as_ref());
                match *node {
                    Node::Directory(child) => directories.push((path, child)),
                    Node::File(file) => found.push((path, self.file(file).volatile.len())),
                }
            }
        }
        found.sort();
        found
    }

    /// The places of all unsynced changes in the order of all changes, ascending.
    pub(super) fn unsynced(&self) -> Vec<u64> {
        let files = self.files.values().flat_map(|file| file.changes.iter().map(|(number, _)| *number));
        let names = self.directories.values().flat_map(|dir| dir.changes.iter().map(|(number, _)| *number));
        let mut numbers: Vec<u64> = files.chain(names).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Space taken by what has a name or a handle, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<Inode> = self.directories.values().flat_map(|dir| file_inodes(&dir.volatile)).collect();
        self.files
            .iter()
            .filter(|(inode, file)| file.handles > 0 || named.contains(inode))
            .map(|(_, file)| file.space_bytes())
            .sum()
    }

    fn free_bytes(&self) -> u64 {
        match self.capacity_bytes {
            None => u64::MAX,
            Some(capacity) => capacity.saturating_sub(self.used_bytes()) / PAGE_BYTES as u64 * PAGE_BYTES as u64,
        }
    }

    /// Drops files that neither a name, an unsynced change of names nor a handle can ever reach again.
    fn forget_unreachable(&mut self) {
        let mut reachable = BTreeSet::new();
        for directory in self.directories.values() {
            reachable.extend(file_inodes(&directory.durable).chain(file_inodes(&directory.volatile)));
            reachable.extend(directory.changes.iter().filter_map(|(_, change)| match change {
                NameChange::Set { node: Node::File(inode), .. } | NameChange::Move { node: Node::File(inode), .. } => {
                    Some(*inode)
                }
                _ => None,
            }));
        }
        self.files.retain(|inode, file| file.handles > 0 || reachable.contains(inode));
    }

    fn new_inode(&mut self) -> Inode {
        self.next_inode += 1;
        Inode(self.next_inode - 1)
    }

    fn new_change(&mut self) -> u64 {
        self.next_change += 1;
        self.next_change - 1
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

    fn space_bytes(&self) -> u64 {
        self.volatile.space_bytes().max(self.reserved_bytes.next_multiple_of(PAGE_BYTES as u64))
    }
}

fn file_inodes(names: &Names) -> impl Iterator<Item = Inode> {
    names.values().filter_map(|node| match node {
        Node::File(inode) => Some(*inode),
        Node::Directory(_) => None,
    })
}

fn checked_end(offset: u64, count: u64) -> io::Result<u64> {
    match offset.checked_add(count) {
        Some(end) if end <= LENGTH_MAX => Ok(end),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
