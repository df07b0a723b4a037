//! [`DeviceReads`]: an environment in memory whose reads take what they take on the device.
//!
//! ```text
//! read of a table ─┬─► as many bytes of the calibration's file, anywhere: the time
//!                  └─► the table in memory: the bytes
//! ```
//!
//! A read in a loop that does nothing else is faster than one between other work: what the
//! operating system needs for it is in the processor's caches then. So a database that reads from
//! here says more about reads in use, and leaves no file behind if the process ends.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::random::{STEP, mixed};
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::{Access, Env, Event, File, Lock, ReadQueue, ReadRequest, Space, Step, Work, Worker};
use tamarack_model::device::RANDOM_READ_BYTES;

/// The file of a calibration, from which reads of any length are made.
#[derive(Debug)]
struct TimedFile {
    file: Arc<dyn File>,
    /// Its length.
    bytes: u64,
    is_read: AtomicBool,
    reads: AtomicU64,
}

impl TimedFile {
    /// Where the next read of so many bytes begins: in the middle of a page, as most blocks do.
    /// `None` if the device is not read, or the file is too short.
    fn next(&self, bytes: usize) -> Option<u64> {
        if !self.is_read.load(Ordering::Relaxed) {
            return None;
        }
        let page = RANDOM_READ_BYTES as u64;
        let pages = self.bytes.checked_sub(bytes as u64 + page)? / page;
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        Some(mixed(number.wrapping_mul(STEP)) % pages.max(1) * page + page / 2)
    }
}

/// The environment.
#[derive(Debug)]
pub(super) struct DeviceReads {
    env: Arc<dyn Env>,
    memory: Arc<dyn Env>,
    device: Arc<TimedFile>,
}

impl DeviceReads {
    /// Files in `memory`, reads as of `file`, which is `bytes` long, in `env`. The device is not
    /// read yet.
    pub(super) fn new(env: Arc<dyn Env>, memory: Arc<dyn Env>, file: Arc<dyn File>, bytes: u64) -> Arc<Self> {
        let (is_read, reads) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { env, memory, device: Arc::new(TimedFile { file, bytes, is_read, reads }) })
    }

    /// Whether reads take what they take on the device, or in memory.
    pub(super) fn read_device(&self, is_read: bool) {
        self.device.is_read.store(is_read, Ordering::Relaxed);
    }

    fn opened(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FileInMemory { file, device: self.device.clone() })
    }
}

/// A file whose bytes are in memory.
#[derive(Debug)]
struct FileInMemory {
    file: Arc<dyn File>,
    device: Arc<TimedFile>,
}

impl File for FileInMemory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(at) = self.device.next(buffer.len()) {
            self.device.file.read_exact_at(buffer, at)?;
        }
        self.file.read_at(buffer, offset)
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

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn direct_alignment(&self) -> Option<usize> {
        self.file.direct_alignment()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn start_writeback(&self, offset: u64, length: u64) {
        self.file.start_writeback(offset, length);
    }
}

impl Env for DeviceReads {
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.memory.create_dir(dir, step)
    }

    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.memory.sync_dir(dir, step)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.memory.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path, step: Step) -> io::Result<()> {
        self.memory.rename(from, to, step)
    }

    fn hard_link(&self, from: &Path, to: &Path, step: Step) -> io::Result<()> {
        self.memory.hard_link(from, to, step)
    }

    fn remove(&self, path: &Path, step: Step) -> io::Result<()> {
        self.memory.remove(path, step)
    }

    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>> {
        self.memory.create(path, step).map(|file| self.opened(file))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.memory.open(path, access).map(|file| self.opened(file))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.memory.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.memory.lock_shared(path)
    }

    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        self.memory.space(dir)
    }

    fn read_queue(&self, queue: &mut dyn ReadQueue) {
        if !self.device.is_read.load(Ordering::Relaxed) {
            return self.memory.read_queue(queue);
        }
        self.env.read_queue(&mut QueueOnDevice { queue, device: &self.device, requests: Vec::new() });
    }

    fn now(&self) -> Duration {
        self.memory.now()
    }

    fn unix_time(&self) -> Duration {
        self.memory.unix_time()
    }

    fn random(&self) -> u64 {
        self.memory.random()
    }

    fn cores(&self) -> usize {
        self.memory.cores()
    }

    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        self.memory.start(name, work)
    }

    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        self.memory.wait(event, deadline, ready)
    }
}

/// Requests that the device carries out, and that get the bytes of their own files.
struct QueueOnDevice<'a> {
    queue: &'a mut dyn ReadQueue,
    device: &'a TimedFile,
    requests: Vec<ReadRequest>,
}

impl ReadQueue for QueueOnDevice<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        let request = self.queue.next()?;
        let file = self.device.file.clone();
        let offset = self.device.next(request.bytes).unwrap_or(0);
        let bytes = request.bytes;
        self.requests.push(request);
        Some(ReadRequest { file, offset, bytes })
    }

    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
        let ReadRequest { file, offset, bytes: length } = self.requests[number].clone();
        let read = bytes.and_then(|_| {
            let mut own = vec![0; length];
            // Of its own file the bytes in memory alone.
            let is_read = self.device.is_read.swap(false, Ordering::Relaxed);
            let read = file.read_exact_at(&mut own, offset);
            self.device.is_read.store(is_read, Ordering::Relaxed);
            read.map(|()| own)
        });
        self.queue.arrived(number, read.as_deref().map_err(|error| io::Error::new(error.kind(), error.to_string())));
    }
}
