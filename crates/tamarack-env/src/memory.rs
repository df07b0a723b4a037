//! Environment in memory: for tests, for the exploration of thread schedules, and for databases
//! that need not survive the process.
//!
//! In: the calls of the [`Env`] contract. Out: what the operating system would answer, much faster.
//! There are no faults, nothing is lost, and syncs do nothing; the simulator is for crashes and
//! faults. Threads are real, or those of the schedule explorer (feature `shuttle`), where the clock
//! is the explorer's too: no call takes real time. Random numbers come from a seed.
//!
//! ```text
//! names:  "db"          → directory
//!         "db/CURRENT"  → file ──► ┌ length 100 ┐ ◄── handle (reading)
//!         "db/LOCK"     → file     │ bytes 0…60 │ ◄── handle (reading and writing)
//!                                  └────────────┘     bytes 60…100 read as zero
//! ```
//!
//! A file lives on as long as it has a name or a handle. The root and the empty path exist from the
//! start; all other directories must be created. Paths are compared part by part, and `..` means
//! nothing special.
//!
//! One lock protects the names, one more each file; no call holds two at a time. A file takes
//! memory up to its last written byte; reserving space takes none.
//!
//! Tested by the contract suite.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::env::{Access, Env, Event, File, Lock, Step, Work, Worker};
use crate::random::Random;
use crate::sync::{Mutex, Rank};
use crate::workers::Workers;

/// Maximum length of a file in bytes: a wrong offset gives an error instead of exhausting memory.
const FILE_BYTES_MAX: u64 = 1 << 32;

/// The answer of [`Env::cores`]: fixed, so that what a test does depends on no machine, and the
/// smallest number that lets workers run at the same time.
const CORES: usize = 2;

/// An environment in memory. Lives as long as something refers to it; a database in it can be
/// closed and opened again.
#[derive(Debug)]
pub struct MemoryEnv {
    names: Arc<Mutex<MemoryNames>>,
    workers: Workers,
    random: Random,
}

impl MemoryEnv {
    /// An environment with no files, whose random numbers come from `seed`.
    #[expect(clippy::new_ret_no_self, reason = "an environment is only ever used as a shared `dyn Env`")]
    pub fn new(seed: u64) -> Arc<dyn Env> {
        Arc::new(Self {
            names: Arc::new(Mutex::new(Rank::MemoryNames, MemoryNames::default())),
            workers: Workers::new(),
            random: Random::new(seed),
        })
    }
}

/// What exists.
#[derive(Debug, Default)]
struct MemoryNames {
    nodes: BTreeMap<PathBuf, MemoryNode>,
    /// Locks that are held, with the number of sharers; 0 is an exclusive holder.
    locked: BTreeMap<PathBuf, usize>,
}

#[derive(Clone, Debug)]
enum MemoryNode {
    Dir,
    File(Arc<Mutex<Contents>>),
}

/// Content of a file: at most as many bytes as its length.
#[derive(Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    length: u64,
}

impl Contents {
    fn empty() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Rank::MemoryFile, Self::default()))
    }
}

/// An open file.
#[derive(Debug)]
struct MemoryFile {
    contents: Arc<Mutex<Contents>>,
    writable: bool,
}

/// A held lock.
#[derive(Debug)]
struct MemoryLock {
    names: Arc<Mutex<MemoryNames>>,
    path: PathBuf,
}

impl Env for MemoryEnv {
    fn create_dir(&self, dir: &Path, _step: Step) -> io::Result<()> {
        self.names.lock().insert_new(dir, MemoryNode::Dir)
    }

    fn sync_dir(&self, dir: &Path, _step: Step) -> io::Result<()> {
        self.names.lock().expect_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.names.lock().list(dir)
    }

    fn rename(&self, from: &Path, to: &Path, _step: Step) -> io::Result<()> {
        assert_eq!(from.parent(), to.parent(), "renames {from:?} to {to:?}, in another directory");
        self.names.lock().rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path, _step: Step) -> io::Result<()> {
        assert_ne!(from.parent(), to.parent(), "links {from:?} as {to:?}, in the same directory");
        let mut names = self.names.lock();
        let contents = names.file(from)?;
        names.insert_new(to, MemoryNode::File(contents))
    }

    fn remove(&self, path: &Path, _step: Step) -> io::Result<()> {
        let mut names = self.names.lock();
        names.file(path)?;
        names.nodes.remove(path);
        Ok(())
    }

    fn create(&self, path: &Path, _step: Step) -> io::Result<Arc<dyn File>> {
        let contents = Contents::empty();
        self.names.lock().insert_new(path, MemoryNode::File(Arc::clone(&contents)))?;
        Ok(Arc::new(MemoryFile { contents, writable: true }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let contents = self.names.lock().file(path)?;
        Ok(Arc::new(MemoryFile { contents, writable: access == Access::ReadWrite }))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.names.lock().take_lock(path)?;
        Ok(Box::new(MemoryLock { names: self.names.clone(), path: path.into() }))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.names.lock().share_lock(path)?;
        Ok(Box::new(MemoryLock { names: self.names.clone(), path: path.into() }))
    }

    fn now(&self) -> Duration {
        self.workers.clock().now()
    }

    fn unix_time(&self) -> Duration {
        self.workers.clock().unix_time()
    }

    fn random(&self) -> u64 {
        self.random.next()
    }

    fn cores(&self) -> usize {
        CORES
    }

    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        self.workers.start(name, work)
    }

    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        self.workers.wait(event, deadline, ready)
    }
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.contents.lock().read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _step: Step) -> io::Result<usize> {
        self.writable()?.lock().write(bytes, offset)?;
        Ok(bytes.len())
    }

    fn sync(&self, _step: Step) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, length: u64, _step: Step) -> io::Result<()> {
        self.writable()?.lock().set_len(length)
    }

    fn allocate(&self, length: u64, _step: Step) -> io::Result<()> {
        let mut contents = self.writable()?.lock();
        let length = length.max(contents.length);
        contents.set_len(length)
    }

    fn reserve(&self, _length: u64, _step: Step) -> io::Result<()> {
        self.writable().map(drop)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.contents.lock().length)
    }

    fn start_writeback(&self, _offset: u64, _length: u64) {}
}

impl MemoryFile {
    fn writable(&self) -> io::Result<&Mutex<Contents>> {
        if self.writable { Ok(&self.contents) } else { Err(ErrorKind::PermissionDenied.into()) }
    }
}

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let locked = &mut self.names.lock().locked;
        match locked.get_mut(&self.path) {
            Some(shares) if *shares > 1 => *shares -= 1,
            _ => drop(locked.remove(&self.path)),
        }
    }
}

impl MemoryNames {
    /// What `path` names. The root and the empty path (the current directory) need no entry.
    fn node(&self, path: &Path) -> io::Result<MemoryNode> {
        if path.parent().is_none() {
            return Ok(MemoryNode::Dir);
        }
        self.nodes.get(path).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Mutex<Contents>>> {
        match self.node(path)? {
            MemoryNode::File(contents) => Ok(contents),
            MemoryNode::Dir => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn expect_dir(&self, path: &Path) -> io::Result<()> {
        match self.node(path)? {
            MemoryNode::Dir => Ok(()),
            MemoryNode::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn insert_new(&mut self, path: &Path, node: MemoryNode) -> io::Result<()> {
        if path.parent().is_none() || self.nodes.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.expect_dir(path.parent().unwrap_or(path))?;
        self.nodes.insert(path.into(), node);
        Ok(())
    }

    /// Looks only at what lies below `dir`: paths are ordered by their parts.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.expect_dir(dir)?;
        let below =
            self.nodes.range(dir.to_path_buf()..).map(|(path, _)| path).take_while(|path| path.starts_with(dir));
        let children = below.filter(|path| path.parent() == Some(dir));
        Ok(children.filter_map(|path| path.file_name()).map(Into::into).collect())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let contents = self.file(from)?;
        if let Some(MemoryNode::Dir) = self.nodes.get(to) {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.nodes.remove(from);
        self.nodes.insert(to.into(), MemoryNode::File(contents));
        Ok(())
    }

    fn take_lock(&mut self, path: &Path) -> io::Result<()> {
        match self.insert_new(path, MemoryNode::File(Contents::empty())) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        if self.locked.contains_key(path) {
            return Err(is_locked(path));
        }
        self.locked.insert(path.into(), 0);
        Ok(())
    }

    fn share_lock(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        match self.locked.get_mut(path) {
            Some(0) => return Err(is_locked(path)),
            Some(shares) => *shares += 1,
            None => drop(self.locked.insert(path.into(), 1)),
        }
        Ok(())
    }
}

impl Contents {
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let written = self.bytes.get(offset as usize..).unwrap_or_default();
        let (copied, zeros) = buffer[..count].split_at_mut(count.min(written.len()));
        copied.copy_from_slice(&written[..copied.len()]);
        zeros.fill(0);
        count
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = check_len(offset.saturating_add(bytes.len() as u64))?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (start, end) = (offset as usize, end as usize);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(bytes);
        self.length = self.length.max(end as u64);
        Ok(())
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.length = check_len(length)?;
        // Cut here, so that bytes which were cut off do not come back when the file grows again.
        self.bytes.truncate(length as usize);
        Ok(())
    }
}

fn is_locked(path: &Path) -> io::Error {
    io::Error::new(ErrorKind::WouldBlock, format!("{} is locked by another handle", path.display()))
}

fn check_len(length: u64) -> io::Result<u64> {
    if length <= FILE_BYTES_MAX { Ok(length) } else { Err(ErrorKind::FileTooLarge.into()) }
}
