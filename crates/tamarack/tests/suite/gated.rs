//! [`GatedEnv`]: files in memory, with a gate before the reads of tables.
//!
//! While the gate is closed, whoever reads a table waits. So a test can show what goes on
//! meanwhile, and what waits for the reader. Everything else (names, clock, threads) is the
//! environment's below.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::{Condvar, Mutex, Rank};
use tamarack_env::{Access, Env, Event, File, Lock, MemoryEnv, Step, Work, Worker};

/// An environment whose reads of tables can be held up.
#[derive(Debug)]
pub(crate) struct GatedEnv {
    inner: Arc<dyn Env>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// The number of reads that wait at the gate.
    waiting: usize,
}

impl GatedEnv {
    /// Makes an environment whose gate is open.
    pub(crate) fn new() -> Arc<Self> {
        let gate = Gate { state: Mutex::new(Rank::Test, GateState::default()), changed: Condvar::new() };
        Arc::new(Self { inner: MemoryEnv::new(1), gate: Arc::new(gate) })
    }

    /// From now on, reads of tables wait.
    pub(crate) fn close(&self) {
        self.gate.state.lock().is_closed = true;
    }

    /// Lets all reads go on.
    pub(crate) fn open_gate(&self) {
        self.gate.state.lock().is_closed = false;
        self.gate.changed.notify_all();
    }

    /// Blocks until a read waits at the gate.
    pub(crate) fn wait_for_reader(&self) {
        let mut state = self.gate.state.lock();
        while state.waiting == 0 {
            state = self.gate.changed.wait(state);
        }
    }
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.is_closed {
            state = self.changed.wait(state);
        }
        state.waiting -= 1;
    }
}

impl Env for GatedEnv {
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
        let file = self.inner.open(path, access)?;
        if path.extension().is_some_and(|extension| extension == "sst") {
            return Ok(Arc::new(GatedFile { inner: file, gate: self.gate.clone() }));
        }
        Ok(file)
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

/// An open table.
#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.gate.pass();
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
