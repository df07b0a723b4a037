//! The stored state: a tree of names that lead to inodes, and the operations on it.
//!
//! Files live in inodes, names in directories, so data and name survive independently, a removed
//! file stays readable through its handles, and one whose removal was not synced comes back. Every
//! change gets a number, its place in the order of all changes to the disk.
//!
//! Space is counted in pages: of a file, all up to its last written page, or its allocated ones if
//! these are more. A file takes space while it has a name or a handle. Beyond that it is kept while
//! a crash could bring its name back.
//!
//! Absent here: calls, steps, faults by number, the clock. This is the state alone, and its
//! operations never wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::content::{Content, LENGTH_MAX, PAGE_BYTES};
use super::inode::{Change, DirectoryState, FailedSync, FileState, Inode, NameChange, Node, ROOT, file_inodes};
use crate::env::Space;

#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<Inode, FileState>,
    pub(super) directories: BTreeMap<Inode, DirectoryState>,
    pub(super) next_inode: u64,
    /// The place of the next change in the order of all changes.
    pub(super) next_change: u64,
    /// How much fits, in bytes; `None` is without limit.
    pub(super) capacity_bytes: Option<u64>,
    /// Pages get their place when they are synced, not when they are written.
    pub(super) delayed_allocation: bool,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            directories: BTreeMap::from([(ROOT, DirectoryState::default())]),
            next_inode: ROOT.0 + 1,
            next_change: 0,
            capacity_bytes: None,
            delayed_allocation: false,
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

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = Node::File(self.file_at(from)?);
        let (parent, name) = self.vacant(to)?;
        // A rename in the journal of a directory moves the node from whatever name it has there.
        assert_ne!(self.parent_of(from)?.0, parent, "links {from:?} as {to:?}, in the same directory");
        self.change_names(parent, NameChange::Set { name, node });
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
        self.directories.get_mut(&inode).expect("a name leads to a directory that is there").sync();
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
        self.directories.get_mut(&inode).expect("the directory was just looked up").change(number, change);
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
        let space_end = self.file(inode).space_bytes().saturating_add(self.free_bytes());
        let space_end = if self.delayed_allocation { end } else { space_end };
        let count = end.min(space_end).saturating_sub(offset) as usize;
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
        self.reserve(inode, length)?;
        self.change_file(inode, Change::Extend(length));
        Ok(())
    }

    pub(super) fn reserve(&mut self, inode: Inode, length: u64) -> io::Result<()> {
        checked_end(length, 0)?;
        let space = length.next_multiple_of(PAGE_BYTES as u64);
        if space.saturating_sub(self.space_of(self.file(inode))) > self.free_bytes() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = self.file_mut(inode);
        file.reserved_bytes = file.reserved_bytes.max(length);
        Ok(())
    }

    /// With delayed allocation, fails if there is no space for what was written since the last
    /// sync, which is thrown away then.
    pub(super) fn sync(&mut self, inode: Inode) -> io::Result<()> {
        let file = self.file(inode);
        let more_bytes = file.space_bytes().saturating_sub(self.space_of(file));
        if more_bytes > self.free_bytes() {
            self.fail_sync(inode, FailedSync::DropsPages);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file_mut(inode).sync();
        Ok(())
    }

    pub(super) fn fail_sync(&mut self, inode: Inode, way: FailedSync) {
        self.file_mut(inode).fail_sync(way);
    }

    fn change_file(&mut self, inode: Inode, change: Change) {
        let number = self.new_change();
        self.file_mut(inode).change(number, change);
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

    /// How many changes are not synced.
    pub(super) fn unsynced_count(&self) -> usize {
        let files: usize = self.files.values().map(|file| file.changes.len()).sum();
        files + self.directories.values().map(|dir| dir.changes.len()).sum::<usize>()
    }

    /// Space taken by what has a name or a handle, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        let named: BTreeSet<Inode> = self.directories.values().flat_map(|dir| file_inodes(&dir.volatile)).collect();
        self.files
            .iter()
            .filter(|(inode, file)| file.handles > 0 || named.contains(inode))
            .map(|(_, file)| self.space_of(file))
            .sum()
    }

    /// Space that a file takes, in bytes.
    fn space_of(&self, file: &FileState) -> u64 {
        if self.delayed_allocation { file.allocated_bytes() } else { file.space_bytes() }
    }

    /// Space that there is, used and free, in bytes; `None` is without limit.
    pub(super) fn space(&self) -> Option<Space> {
        Some(Space { free_bytes: self.free_bytes(), total_bytes: self.capacity_bytes? })
    }

    fn free_bytes(&self) -> u64 {
        match self.capacity_bytes {
            None => u64::MAX,
            Some(capacity) => capacity.saturating_sub(self.used_bytes()) / PAGE_BYTES as u64 * PAGE_BYTES as u64,
        }
    }

    /// Drops files that neither a name, an unsynced change of names nor a handle can ever reach
    /// again.
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

fn checked_end(offset: u64, count: u64) -> io::Result<u64> {
    match offset.checked_add(count) {
        Some(end) if end <= LENGTH_MAX => Ok(end),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
