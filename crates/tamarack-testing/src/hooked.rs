//! [`Hooked`]: an environment that shows some of its calls to a [`Hook`] before they are carried
//! out.
//!
//! A hook waits, fails the call, counts it, or notes what became of it. So a test that needs a gate
//! before reads, a slow device, or files that remember what was synced says only that. All other
//! calls (names, locks, clock, threads) go to the environment below as they are.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::{Access, Env, Event, File, Lock, Space, Step, Work, Worker};

/// What is done around calls.
pub trait Hook: Send + Sync + Debug {
    /// Answers `call` of the file or directory at `path`. `carry_out` carries it out in the
    /// environment below, and returns the number of bytes read or written, or 0.
    ///
    /// # Errors
    /// What the caller shall get. Of a write that was not carried out, half is written all the
    /// same: after an error, any part may be.
    fn around(&self, path: &Path, call: HookedCall<'_>, carry_out: CarryOut<'_>) -> io::Result<usize>;
}

/// Carries a call out in the environment below.
pub type CarryOut<'a> = &'a mut dyn FnMut() -> io::Result<usize>;

/// A call that a hook sees. With its step, where it has one.
#[derive(Clone, Copy, Debug)]
pub enum HookedCall<'a> {
    /// A new file.
    Create(Step),
    /// A file is removed.
    Remove(Step),
    /// A directory is synced.
    SyncDir(Step),
    /// A file is read.
    Read,
    /// Bytes are written at an offset.
    Write(Step, &'a [u8], u64),
    /// A file is synced.
    Sync(Step),
    /// A file gets a length.
    SetLen(Step, u64),
}

impl HookedCall<'_> {
    /// The step, unless it is a read.
    pub fn step(&self) -> Option<Step> {
        match *self {
            Self::Read => None,
            Self::Create(step)
            | Self::Remove(step)
            | Self::SyncDir(step)
            | Self::Write(step, ..)
            | Self::Sync(step)
            | Self::SetLen(step, _) => Some(step),
        }
    }
}

/// An environment with a hook.
#[derive(Debug)]
pub struct Hooked<H> {
    inner: Arc<dyn Env>,
    hook: Arc<H>,
}

impl<H: Hook + 'static> Hooked<H> {
    /// Puts `hook` before the calls of `inner`.
    pub fn new(inner: Arc<dyn Env>, hook: H) -> Arc<Self> {
        Arc::new(Self { inner, hook: Arc::new(hook) })
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    fn file(&self, path: &Path, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(HookedFile { inner, path: path.to_owned(), hook: self.hook.clone() })
    }
}

/// A call without bytes, as [`Hook::around`] takes it.
fn uncounted(mut call: impl FnMut() -> io::Result<()>) -> impl FnMut() -> io::Result<usize> {
    move || call().map(|()| 0)
}

impl<H: Hook + 'static> Env for Hooked<H> {
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.inner.create_dir(dir, step)
    }

    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        let mut sync = uncounted(|| self.inner.sync_dir(dir, step));
        self.hook.around(dir, HookedCall::SyncDir(step), &mut sync).map(drop)
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
        let mut remove = uncounted(|| self.inner.remove(path, step));
        self.hook.around(path, HookedCall::Remove(step), &mut remove).map(drop)
    }

    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>> {
        let mut created = None;
        let mut create = uncounted(|| self.inner.create(path, step).map(|file| created = Some(file)));
        self.hook.around(path, HookedCall::Create(step), &mut create)?;
        drop(create);
        Ok(self.file(path, created.expect("a hook without an error has carried the call out")))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        Ok(self.file(path, self.inner.open(path, access)?))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.inner.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.inner.lock_shared(path)
    }

    // Without an answer, a database would keep no reserve of space.
    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        self.inner.space(dir)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
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

    fn has_huge_pages(&self) -> bool {
        self.inner.has_huge_pages()
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
struct HookedFile<H> {
    inner: Arc<dyn File>,
    path: PathBuf,
    hook: Arc<H>,
}

impl<H: Hook> File for HookedFile<H> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hook.around(&self.path, HookedCall::Read, &mut || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize> {
        let mut is_carried_out = false;
        let written = self.hook.around(&self.path, HookedCall::Write(step, bytes, offset), &mut || {
            is_carried_out = true;
            self.inner.write_at(bytes, offset, step)
        });
        if written.is_err() && !is_carried_out {
            self.inner.write_at(&bytes[..bytes.len() / 2], offset, step)?;
        }
        written
    }

    fn sync(&self, step: Step) -> io::Result<()> {
        let mut sync = uncounted(|| self.inner.sync(step));
        self.hook.around(&self.path, HookedCall::Sync(step), &mut sync).map(drop)
    }

    fn set_len(&self, length: u64, step: Step) -> io::Result<()> {
        let mut set_len = uncounted(|| self.inner.set_len(length, step));
        self.hook.around(&self.path, HookedCall::SetLen(step, length), &mut set_len).map(drop)
    }

    fn allocate(&self, length: u64, step: Step) -> io::Result<()> {
        self.inner.allocate(length, step)
    }

    fn reserve(&self, length: u64, step: Step) -> io::Result<()> {
        self.inner.reserve(length, step)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn start_writeback(&self, offset: u64, length: u64) {
        self.inner.start_writeback(offset, length);
    }

    fn will_read(&self, offset: u64, length: u64) {
        self.inner.will_read(offset, length);
    }
}
