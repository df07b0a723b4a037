//! The operating system's files, clock, randomness and threads.
//!
//! In: paths and calls of the [`Env`] contract. Out: one or two system calls each. The only
//! state is the workers, the clock, the random number generator, the number of cores, descriptors
//! of directories, and what reads reuse (memory, rings, threads): the operating system knows all
//! that is on storage.
//!
//! Assumptions (Linux; other Unix systems may meet them):
//!
//! * `fdatasync` of a file makes its bytes durable and the length needed to read them; `fsync` of a
//!   directory its names. After either has failed, the operating system may have dropped the pages,
//!   so the failure is passed on, never retried.
//! * `rename` within a directory is atomic, also when the machine stops in the middle.
//! * A lock by `flock` belongs to the open file, so a second lock in the same process fails as one
//!   in another process does. A network file system that imitates it with locks by process breaks
//!   this; a database does not belong there.
//!
//! ```text
//! open ─ regular ─┬── buffered   through the page cache
//!                 └── direct     past it, where requested and possible; aligned memory: bounce
//! queue ──────────┬── ring       io_uring
//!                 └── threads    where there is none
//! ```
//!
//! Tested by the contract suite, on a scratch directory, with each way of batching, buffered and
//! direct.

use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::env::{Access, Env, Event, File, Lock, ReadQueue, Space, Step, Work, Worker};
use crate::random::Random;
use crate::workers::Workers;

pub use batch::Batching;
pub use huge_pages::{HUGE_PAGE_BYTES, prefer_huge_page};
pub use scratch::TempDir;

use batch::Batches;
use bounce::Bounces;
use buffered::BufferedFile;
#[cfg(target_os = "linux")]
use direct::DirectFiles;
use directories::Directories;
use lock::LockFile;

mod batch;
mod bounce;
mod buffered;
#[cfg(target_os = "linux")]
mod direct;
mod directories;
mod huge_pages;
mod lock;
mod read;
mod regular;
#[cfg(target_os = "linux")]
mod ring;
mod scratch;
mod threads;

/// The environment that a database normally runs on.
///
/// ```
/// use tamarack_env::{Env, OsEnv, Step, TempDir};
///
/// let (env, scratch) = (OsEnv::new(), TempDir::new()?);
/// let file = env.create(&scratch.path().join("hello"), Step("example: create"))?;
/// file.write_all_at(b"hello", 0, Step("example: write"))?;
/// file.sync(Step("example: sync the file"))?;
/// env.sync_dir(scratch.path(), Step("example: sync the directory"))?;
/// assert_eq!(env.list(scratch.path())?, ["hello"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OsEnv {
    batches: Batches,
    #[cfg(target_os = "linux")]
    direct: DirectFiles,
    directories: Directories,
    workers: Workers,
    random: Random,
    cores: usize,
}

impl OsEnv {
    /// Returns an environment whose clock starts now.
    #[expect(clippy::new_ret_no_self, reason = "an environment is only ever used as a shared `dyn Env`")]
    pub fn new() -> Arc<dyn Env> {
        Self::with(None)
    }

    /// Returns an environment that carries out read queues by this method rather than the best one:
    /// for measurements and tests.
    pub fn with_batching(batching: Batching) -> Arc<dyn Env> {
        Self::with(Some(batching))
    }

    fn with(batching: Option<Batching>) -> Arc<dyn Env> {
        let bounces: Arc<Bounces> = Arc::default();
        Arc::new(Self {
            batches: Batches::new(batching, bounces.clone()),
            #[cfg(target_os = "linux")]
            direct: DirectFiles::new(bounces),
            directories: Directories::new(),
            workers: Workers::new(),
            random: Random::from_entropy(),
            // Asked once: on Linux the call reads several files (quotas of control groups), and its
            // answer may change. Without an answer, one core is certain.
            cores: std::thread::available_parallelism().map_or(1, NonZero::get),
        })
    }
}

#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "this is what the others use instead")]
impl Env for OsEnv {
    fn create_dir(&self, dir: &Path, _step: Step) -> io::Result<()> {
        std::fs::create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path, _step: Step) -> io::Result<()> {
        self.directories.sync(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let names = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path, _step: Step) -> io::Result<()> {
        assert_eq!(from.parent(), to.parent(), "renames {from:?} to {to:?}, in another directory");
        std::fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path, _step: Step) -> io::Result<()> {
        assert_ne!(from.parent(), to.parent(), "links {from:?} as {to:?}, in the same directory");
        match rustix::fs::link(from, to) {
            // Linux's error on file systems without links (FAT), and where linking to others' files
            // is not allowed.
            Err(rustix::io::Errno::PERM) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{} cannot be given another name here", from.display()),
            )),
            linked => Ok(linked?),
        }
    }

    fn remove(&self, path: &Path, _step: Step) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        let found = rustix::fs::statvfs(dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        // Excludes the share that is reserved for the administrator.
        Ok(Some(Space { free_bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) }))
    }

    fn create(&self, path: &Path, _step: Step) -> io::Result<Arc<dyn File>> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(BufferedFile::new(file)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        #[cfg(target_os = "linux")]
        if access == Access::ReadDirect
            && let Some(file) = self.direct.open(path)?
        {
            return Ok(Arc::new(file));
        }
        let write = match access {
            Access::Read | Access::ReadRandom | Access::ReadDirect => false,
            Access::ReadWrite => true,
        };
        let file = regular::open(path, std::fs::OpenOptions::new().read(true).write(write), OFlags::empty())?;
        let file = BufferedFile::new(file);
        #[cfg(target_os = "linux")]
        if matches!(access, Access::ReadRandom | Access::ReadDirect) {
            file.advise_random();
        }
        Ok(Arc::new(file))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        Ok(Box::new(LockFile::take(path)?))
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        Ok(Box::new(LockFile::share(path)?))
    }

    fn read_queue(&self, queue: &mut dyn ReadQueue) {
        self.batches.read_queue(&self.workers, queue);
    }

    fn open_files_max(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
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
        self.cores
    }

    fn has_huge_pages(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        self.workers.start(name, work)
    }

    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        self.workers.wait(event, deadline, ready)
    }
}
