//! [`WatchedEnv`]: files in memory that remember what was synced, and fail when they are told to.
//!
//! ```text
//!   write_at ──► written ──sync──► durable      a sync makes earlier writes durable
//! ```
//!
//! Everything else (names, clock, threads) is the environment's below.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Access, Env, Event, File, Lock, MemoryEnv, Step, Work, Worker};

/// An environment for one exploration.
#[derive(Debug)]
pub(crate) struct WatchedEnv {
    inner: Arc<dyn Env>,
    watch: Arc<Watch>,
}

/// What the files share.
#[derive(Debug)]
struct Watch {
    files: Mutex<BTreeMap<PathBuf, Bytes>>,
    /// A step, and at which of its calls from now it fails, once.
    failure: Mutex<Option<(Step, u32)>>,
}

/// What a file holds, and what of it a crash of the machine would leave for certain.
#[derive(Debug, Default)]
struct Bytes {
    written: Vec<u8>,
    durable: Vec<u8>,
}

impl WatchedEnv {
    pub(crate) fn new() -> Arc<Self> {
        let (files, failure) = (Mutex::new(Rank::Test, BTreeMap::new()), Mutex::new(Rank::Test, None));
        Arc::new(Self { inner: MemoryEnv::new(1), watch: Arc::new(Watch { files, failure }) })
    }

    /// The call number `call` (from 1) of `step` from now on fails, once.
    pub(crate) fn fail(&self, step: Step, call: u32) {
        *self.watch.failure.lock() = Some((step, call));
    }

    /// True if a file whose name ends so holds `text` for certain.
    pub(crate) fn is_durable(&self, extension: &str, text: &str) -> bool {
        self.watch.files.lock().iter().any(|(path, bytes)| {
            path.extension().is_some_and(|found| found == extension)
                && bytes.durable.windows(text.len()).any(|window| window == text.as_bytes())
        })
    }

    /// The files whose names end so and that hold what was not synced.
    pub(crate) fn unsynced(&self, extension: &str) -> Vec<PathBuf> {
        let files = self.watch.files.lock();
        let unsynced = files.iter().filter(|(path, bytes)| {
            path.extension().is_some_and(|found| found == extension) && bytes.written != bytes.durable
        });
        unsynced.map(|(path, _)| path.clone()).collect()
    }

    fn watched(&self, path: &Path, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(WatchedFile { inner: file, path: path.to_owned(), watch: self.watch.clone() })
    }
}

impl Watch {
    /// Whether this call is the one that fails.
    fn check(&self, step: Step) -> io::Result<()> {
        let mut failure = self.failure.lock();
        match &mut *failure {
            Some((failing, call)) if *failing == step => {
                *call -= 1;
                if *call == 0 {
                    *failure = None;
                    return Err(io::Error::other("as ordered"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Env for WatchedEnv {
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.inner.create_dir(dir, step)
    }

    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.watch.check(step)?;
        self.inner.sync_dir(dir, step)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.inner.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path, step: Step) -> io::Result<()> {
        self.inner.rename(from, to, step)
    }

    fn hard_link(&self, from: &Path, to: &Path, step: Step) -> io::Result<()> {
        self.inner.hard_link(from, to, step)
    }

    fn remove(&self, path: &Path, step: Step) -> io::Result<()> {
        self.inner.remove(path, step)?;
        self.watch.files.lock().remove(path);
        Ok(())
    }

    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>> {
        self.watch.check(step)?;
        let file = self.inner.create(path, step)?;
        self.watch.files.lock().insert(path.to_owned(), Bytes::default());
        Ok(self.watched(path, file))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.watched(path, self.inner.open(path, access)?))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.inner.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.inner.lock_shared(path)
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn unix_time(&self) -> Duration {
        self.inner.unix_time()
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }

    fn cores(&self) -> usize {
        self.inner.cores()
    }

    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        self.inner.start(name, work)
    }

    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        self.inner.wait(event, deadline, ready)
    }
}

/// An open file.
#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    path: PathBuf,
    watch: Arc<Watch>,
}

impl WatchedFile {
    /// Nothing is noted of a file without a name.
    fn note(&self, change: impl FnOnce(&mut Bytes)) {
        if let Some(bytes) = self.watch.files.lock().get_mut(&self.path) {
            change(bytes);
        }
    }
}

impl File for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize> {
        if let Err(error) = self.watch.check(step) {
            // Half of it was written all the same.
            self.inner.write_at(&bytes[..bytes.len() / 2], offset, step)?;
            return Err(error);
        }
        let count = self.inner.write_at(bytes, offset, step)?;
        self.note(|file| {
            let (start, end) = (offset as usize, offset as usize + count);
            file.written.resize(file.written.len().max(end), 0);
            file.written[start..end].copy_from_slice(&bytes[..count]);
        });
        Ok(count)
    }

    fn sync(&self, step: Step) -> io::Result<()> {
        let mut before = None;
        self.note(|file| before = Some(file.written.clone()));
        self.watch.check(step)?;
        self.inner.sync(step)?;
        self.note(|file| file.durable = before.unwrap_or_default());
        Ok(())
    }

    fn set_len(&self, length: u64, step: Step) -> io::Result<()> {
        self.watch.check(step)?;
        self.inner.set_len(length, step)?;
        self.note(|file| file.written.truncate(length as usize));
        Ok(())
    }

    fn allocate(&self, length: u64, step: Step) -> io::Result<()> {
        self.inner.allocate(length, step)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn start_writeback(&self, _offset: u64, _length: u64) {}
}
