//! The environment's contract: files, directories, clock, randomness and background workers.
//!
//! # Durability
//!
//! * Bytes written with [`File::write_at`] survive a crash of the process at once, and a crash of
//!   the machine only after a [`File::sync`] that began after the write returned `Ok`. Until then
//!   the crash may keep any subset of the written sectors (512 B), in any order: old bytes, new
//!   bytes, or a mixture at sector borders.
//! * A file's length is durable after `sync`, like its bytes. Bytes below the length that were
//!   never written read as zero.
//! * A name (created, renamed, removed) survives a crash only after [`Env::sync_dir`] of its
//!   directory. Until then the crash may keep any subset of the changes to that directory; one
//!   [`Env::rename`] is all or nothing.
//! * Space can run out in any call that creates a file or writes, and, on file systems that
//!   allocate pages when they write them out ([delayed
//!   allocation](crate::SimEnv::delay_allocation)), in a sync, which then fails like any other.
//!   Reserved space ([`File::allocate`], [`File::reserve`]) can be written and synced on a full
//!   disk.
//! * After a failed sync it is unknown what reached the device, even if a later sync succeeds:
//!   callers must not build on a file whose sync failed.
//!
//! # Steps
//!
//! Every call that changes storage carries a [`Step`], the caller's name for its purpose ("WAL:
//! sync a commit group"). Errors, traces, and the simulator's switches that omit, delay, fail or
//! count a step use that name.

use std::ffi::OsString;
use std::fmt::{self, Debug};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::ByteBuffer;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, Rank};

/// Name of one place that changes storage, such as `"wal: append"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step(pub &'static str);

/// Access mode of an existing file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads through the operating system's page cache, which may read more than is asked for: for
    /// files that are read from one end to the other.
    Read,
    /// Reads through the page cache at random places: the operating system reads what is asked for,
    /// and what [`File::will_read`] announces.
    ReadRandom,
    /// Reads and writes through the page cache.
    ReadWrite,
    /// Reads that bypass the page cache (direct I/O) where that is supported, and `ReadRandom`
    /// elsewhere; see [`File::direct_alignment`]. The implementation handles alignment. A file must
    /// be fully synced before its first direct read.
    ReadDirect,
}

/// Space of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Free space for this process; others may take it first.
    pub free_bytes: u64,
    /// Total space.
    pub total_bytes: u64,
}

/// Storage, clock, randomness and background work. All methods may be called from any thread.
pub trait Env: Send + Sync + Debug {
    /// Creates one directory. `AlreadyExists` if the name is taken. The name is durable after
    /// [`Env::sync_dir`] of the parent.
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()>;

    /// Makes all earlier changes to names in `dir` durable.
    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()>;

    /// The names in `dir`, sorted. `NotFound` if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Renames a file, replacing `to` atomically if it exists. Both must be in the same directory.
    fn rename(&self, from: &Path, to: &Path, step: Step) -> io::Result<()>;

    /// Creates a hard link: a second name `to` for a file, in a directory of the same file system.
    /// Both names are equivalent, and the file exists until the last name is removed. The new name
    /// is durable after [`Env::sync_dir`] of its directory. `AlreadyExists` if it is taken.
    ///
    /// Where a link is not possible but a copy is, the error is `CrossesDevices` (another file
    /// system), `Unsupported` (no hard links, or no permission), or `TooManyLinks`; see
    /// [`is_unlinkable`].
    fn hard_link(&self, from: &Path, to: &Path, step: Step) -> io::Result<()>;

    /// Removes a name of a file. The file stays readable through open handles and other names.
    fn remove(&self, path: &Path, step: Step) -> io::Result<()>;

    /// Creates an empty file for reading and writing. `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file, which must be a regular one; never waits for another process.
    /// `NotFound` if there is none; an error for which [`is_not_regular`] holds if the name is that
    /// of something else.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Takes the exclusive lock at `path`, and creates the lock file if needed. `WouldBlock` if
    /// another holder, in any process, has it. The lock ends when the value is dropped or the
    /// process dies; it does not survive a crash.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// Takes a shared lock at `path`: any number of holders in any process, but none beside a
    /// holder of [`Env::lock`] (`WouldBlock`). Creates nothing (`NotFound` if there is no such
    /// file) and needs read permission only.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// The space of the file system of `dir`; `None` if it is unlimited or unknown.
    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        let _ = dir;
        Ok(None)
    }

    /// Carries out the reads of a queue, many at the same time: takes requests from `queue` while
    /// it has some, and delivers each result as soon as it is there, in any order. Returns when the
    /// queue is empty and all results are delivered. Where the machine reads in parallel, this
    /// takes about as long as the slowest read, and overlaps with the work of the queue.
    fn read_queue(&self, queue: &mut dyn ReadQueue) {
        read_one_by_one(queue);
    }

    /// The number of files that this process may have open at a time; `None` if there is no limit,
    /// or none is known.
    fn open_files_max(&self) -> Option<u64> {
        None
    }

    /// Monotonic time since a fixed moment. A time that another thread or a worker read may lie
    /// ahead: use saturating subtraction.
    fn now(&self) -> Duration;

    /// Time since 1970-01-01 00:00 UTC.
    fn unix_time(&self) -> Duration;

    /// 64 random bits; not for cryptography.
    fn random(&self) -> u64;

    /// Number of threads that can run in parallel, at least 1, constant; a bound for useful
    /// workers.
    fn cores(&self) -> usize;

    /// Returns true if memory may be backed by huge pages, so that asking for them may help
    /// ([`crate::collapse_pages`]). Environments of tests have none: which memory their blocks get
    /// would decide what workers do.
    fn has_huge_pages(&self) -> bool {
        false
    }

    /// Starts a background worker that calls [`Work::step`] repeatedly.
    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>>;

    /// Waits until `ready` returns true (result true) or until `deadline` on the clock of
    /// [`Env::now`] has passed (result false). `ready` is called first, and again after every
    /// notification of `event`; code that makes it true must notify `event` afterwards. The caller
    /// must not hold a lock that a background step may need: the simulator runs those steps here.
    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool;

    /// Sleeps until `deadline` on the clock of [`Env::now`]; returns at once if it has passed. Like
    /// [`Env::wait`], it must not be called with a lock held.
    fn sleep_until(&self, deadline: Duration) {
        self.wait(&Event::new(), Some(deadline), &mut || false);
    }
}

/// True for errors of [`Env::hard_link`] that mean that a link is not possible but a copy is.
pub fn is_unlinkable(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | Unsupported | TooManyLinks)
}

/// The cause of an error: a name stands for something that is neither a regular file nor a
/// directory, such as a FIFO. Its kind is `InvalidInput`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotRegular(
    /// What it is, such as `"a FIFO"`.
    pub &'static str,
);

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a regular file, but {}", self.0)
    }
}

impl std::error::Error for NotRegular {}

impl From<NotRegular> for io::Error {
    fn from(found: NotRegular) -> Self {
        Self::new(io::ErrorKind::InvalidInput, found)
    }
}

/// True for errors of calls that need a regular file, where the name is that of a directory or of
/// something else ([`NotRegular`]).
pub fn is_not_regular(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::IsADirectory || error.get_ref().is_some_and(|cause| cause.is::<NotRegular>())
}

/// True for errors that mean that this process, or the system, may open no more files: the call did
/// nothing, and can succeed when others are closed.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(rustix::io::Errno::from_io_error(error), Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Source of requests for [`Env::read_queue`] and receiver of their results.
pub trait ReadQueue {
    /// The next request; `None` if there is none for now. Called again after a result has been
    /// delivered.
    fn next(&mut self) -> Option<ReadRequest>;

    /// Receives the result of request `number`, counted from 0 in the order of [`ReadQueue::next`]:
    /// all of its bytes, or the error of [`File::read_exact_at`]. The bytes are borrowed from the
    /// environment for the call.
    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>);
}

/// Carries out the reads of a queue one after the other.
pub(crate) fn read_one_by_one(queue: &mut dyn ReadQueue) {
    let mut number = 0;
    while let Some(request) = queue.next() {
        request.read_alone(number, queue);
        number += 1;
    }
}

/// One read of a [`ReadQueue`].
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The file to read from.
    pub file: Arc<dyn File>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: usize,
}

impl ReadRequest {
    /// Carries out this request alone, for implementations of [`Env`].
    pub fn read_alone(&self, number: usize, queue: &mut dyn ReadQueue) {
        let mut memory = ByteBuffer::zeroed(self.bytes);
        let outcome = self.file.read_exact_at(&mut memory, self.offset);
        queue.arrived(number, outcome.map(|()| &memory[..]));
    }
}

/// Carries out requests together ([`Env::read_queue`]); returns the bytes or the error of each.
pub fn read_together(env: &dyn Env, requests: Vec<ReadRequest>) -> Vec<io::Result<Vec<u8>>> {
    struct Together {
        requests: std::vec::IntoIter<ReadRequest>,
        outcomes: Vec<Option<io::Result<Vec<u8>>>>,
    }
    impl ReadQueue for Together {
        fn next(&mut self) -> Option<ReadRequest> {
            self.requests.next()
        }
        fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
            let earlier = self.outcomes[number].replace(bytes.map(<[u8]>::to_vec));
            assert!(earlier.is_none(), "read {number} has arrived twice");
        }
    }
    let outcomes = requests.iter().map(|_| None).collect();
    let mut together = Together { requests: requests.into_iter(), outcomes };
    env.read_queue(&mut together);
    let arrived = |outcome: Option<_>| outcome.expect("every read arrives before the queue is over");
    together.outcomes.into_iter().map(arrived).collect()
}

/// An open file without a position; all methods may be called from any thread.
pub trait File: Send + Sync + Debug {
    /// Reads at `offset`; may return fewer bytes than asked for, and 0 only at the end of the file
    /// (or for an empty buffer).
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`, extending the file if needed; may write fewer bytes than asked for.
    /// After an error, any part of `bytes` may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize>;

    /// Makes all earlier writes to the file and its length durable.
    fn sync(&self, step: Step) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros. Durable after [`File::sync`].
    fn set_len(&self, length: u64, step: Step) -> io::Result<()>;

    /// Reserves space and extends the file with zeros to at least `length`. Where reserving is not
    /// supported, only the length changes. Later writes below `length` should not fail because of a
    /// full disk. The caller must not write beyond the file's end at the same time.
    fn allocate(&self, length: u64, step: Step) -> io::Result<()>;

    /// Reserves space for the bytes below `length` without changing the file's length: later writes
    /// there, and syncs after them, should not fail because of a full disk. Does nothing where it
    /// is not supported. [`File::set_len`] may release space past the new length.
    fn reserve(&self, length: u64, step: Step) -> io::Result<()> {
        let _ = (length, step);
        Ok(())
    }

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// True if the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Alignment in bytes of offset, length and address with which direct reads need no copy, as in
    /// an [`crate::AlignedBuffer`]. `None` if reads go through the page cache.
    fn direct_alignment(&self) -> Option<usize> {
        None
    }

    /// The file descriptor, if there is one, for environments with other ways to read.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Hint to start write-back of dirty pages of the range without waiting, so that a later sync
    /// has less to do.
    fn start_writeback(&self, offset: u64, length: u64);

    /// Hint that the range is read soon, so that the page cache can begin to. Without effect on
    /// direct reads.
    fn will_read(&self, _offset: u64, _length: u64) {}

    /// Reads until `buffer` is full. `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buffer = &mut buffer[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads the whole file, as long as it is now.
    fn read_all(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.len()?).map_err(|_| io::ErrorKind::OutOfMemory)?];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Writes all of `bytes`.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64, step: Step) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset, step) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A lock that is released on drop.
pub trait Lock: Send + Sync + Debug {}

/// Background work in small steps.
pub trait Work: Send + Sync {
    /// Does a few milliseconds of work and returns whether there is more. Must not wait for other
    /// background work except by returning `Idle`, or for a step in progress of work that itself
    /// waits for nothing but the device.
    fn step(&self) -> Progress;
}

/// Result of a [`Work::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// More work is ready.
    More,
    /// Nothing to do until [`Worker::wake`].
    Idle,
    /// Nothing to do until [`Worker::wake`] or that time (on the clock of [`Env::now`]).
    IdleUntil(Duration),
    /// Never call again.
    Done,
}

/// A handle on a background worker.
pub trait Worker: Send + Sync {
    /// Makes an idle worker call its work again. Cheap when it is not idle.
    fn wake(&self);

    /// Stops the worker and waits until its current step, if any, has returned. Its `Work` is not
    /// called afterwards and is dropped. May be called repeatedly and from several threads: each
    /// call returns when the worker has ended. Must not be called from the work itself. Every
    /// worker must be stopped.
    ///
    /// # Panics
    /// With the work's own panic, if a step panicked, for the first caller.
    fn stop(&self);
}

/// A condition to wait for with [`Env::wait`]: a counter that [`Event::notify`] advances.
///
/// A notification costs one atomic addition while nobody waits. No waiter is missed because of the
/// order of two operations on each side, which all threads see in the same order (`SeqCst`):
///
/// ```text
/// notify:     advance `count`,    then look at `waiting`
/// wait_past:  advance `waiting`,  then look at `count`
/// ```
///
/// At least one of two such threads sees the operation of the other: the waiter sees the new count
/// and does not block, or the notifier sees the waiter and wakes it.
#[derive(Debug)]
pub struct Event {
    count: AtomicU64,
    /// How many threads are inside [`Event::wait_past`].
    waiting: AtomicUsize,
    /// Held by a waiter from its look at `count` until it sleeps, so that no notification falls
    /// between the two.
    falling_asleep: Mutex<()>,
    happened: Condvar,
}

impl Default for Event {
    fn default() -> Self {
        Self::new()
    }
}

impl Event {
    /// An event that has not happened yet.
    pub fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            falling_asleep: Mutex::new(Rank::EventWaiters, ()),
            happened: Condvar::new(),
        }
    }

    /// Wakes all waiters. Earlier effects of this thread are visible to threads that see the new
    /// count.
    pub fn notify(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _guard = self.falling_asleep.lock();
            self.happened.notify_all();
        }
    }

    /// How often it has happened.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// For implementations of [`Env`]: blocks until the count differs from `seen`, and continues;
    /// or until `timeout` is over, and breaks. May continue for no reason, so the caller looks
    /// at the count and at its clock, and comes again.
    pub fn wait_past(&self, seen: u64, timeout: Option<Duration>) -> ControlFlow<()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let timed_out = self.sleep_unless_past(seen, timeout);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if timed_out { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// One sleep on the condition variable; true if it lasted as long as `timeout`.
    fn sleep_unless_past(&self, seen: u64, timeout: Option<Duration>) -> bool {
        let guard = self.falling_asleep.lock();
        if self.count() != seen {
            return false;
        }
        match timeout {
            None => {
                drop(self.happened.wait(guard));
                false
            }
            Some(timeout) => self.happened.wait_timeout(guard, timeout).1,
        }
    }
}
