//! Storage in memory each of whose reads takes as long as on a slower device.
//!
//! It waits by computing until the thread has used a given processor time, so that other programs
//! lengthen neither the waiting nor what the same clock measures.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::machine::thread_cpu_ns;
use tamarack_env::{Access, Env, Event, File, Lock, MemoryEnv, Step, Work, Worker};

/// The storage.
#[derive(Debug)]
pub struct Waiting {
    inner: Arc<dyn Env>,
    device: Arc<Device>,
}

#[derive(Debug, Default)]
struct Device {
    wait_ns: AtomicU64,
}

impl Waiting {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { inner: MemoryEnv::new(1), device: Arc::default() })
    }

    /// From now on each read takes so long, besides what it takes in memory.
    pub fn set_wait_ns(&self, wait_ns: u64) {
        self.device.wait_ns.store(wait_ns, Ordering::Relaxed);
    }
}

impl Env for Waiting {
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.inner.create_dir(dir, step)
    }
    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
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
        self.inner.remove(path, step)
    }
    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>> {
        self.inner.create(path, step)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, access)?;
        if access == Access::ReadWrite {
            return Ok(inner);
        }
        Ok(Arc::new(Read { inner, device: self.device.clone() }))
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

/// A file that is read.
#[derive(Debug)]
struct Read {
    inner: Arc<dyn File>,
    device: Arc<Device>,
}

impl File for Read {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let wait_ns = self.device.wait_ns.load(Ordering::Relaxed);
        if wait_ns > 0 {
            let until = thread_cpu_ns() + wait_ns;
            while thread_cpu_ns() < until {
                std::hint::spin_loop();
            }
        }
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize> {
        self.inner.write_at(bytes, offset, step)
    }
    fn sync(&self, step: Step) -> io::Result<()> {
        self.inner.sync(step)
    }
    fn set_len(&self, length: u64, step: Step) -> io::Result<()> {
        self.inner.set_len(length, step)
    }
    fn allocate(&self, length: u64, step: Step) -> io::Result<()> {
        self.inner.allocate(length, step)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn start_writeback(&self, offset: u64, length: u64) {
        self.inner.start_writeback(offset, length);
    }
}
