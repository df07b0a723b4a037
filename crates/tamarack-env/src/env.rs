//! The contract between an engine and the machine: what a file, a directory, a clock and a worker
//! promise.
//!
//! # What "durable" means here
//!
//! * Bytes written with [`File::write_at`] survive the end of the process at once, and a crash of
//!   the machine only after a [`File::sync`] that began after the write returned `Ok`. Until then
//!   the crash may keep any subset of the written sectors (512 B), in any order: old bytes, new
//!   bytes, or a mixture at sector borders.
//! * A file's length is durable after `sync`, like its bytes. Bytes never written that lie below
//!   the length read as zero.
//! * A name (created, renamed, removed) survives a crash only after [`Env::sync_dir`] of its
//!   directory. Until then the crash may keep any subset of the changes to that directory; one
//!   [`Env::rename`] is all or nothing.
//! * Space can run out in any call that makes a file or writes, and where a file system gives pages
//!   their place only when it writes them out ([delayed
//!   allocation](crate::SimEnv::delay_allocation)), in a sync: then that sync has failed like any
//!   other. What was reserved ([`File::allocate`], [`File::reserve`]) can be written and synced on
//!   a full disk.
//! * A sync that failed says nothing about what reached the device, neither then nor after a later
//!   sync that succeeds: callers must not build on a file whose sync failed.
//!
//! # Steps
//!
//! Every call that changes storage carries a [`Step`], the caller's name for what it is doing
//! ("log: sync a commit group"). Errors, traces, and the simulator's switches that omit, delay,
//! fail or count a step all use that one name.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

/// The caller's name for one place that changes storage, such as `"log: append"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step(pub &'static str);

/// How an existing file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads through the operating system's page cache.
    Read,
    /// Reads and writes through the page cache.
    ReadWrite,
    /// Reads that bypass the page cache where the device can do that; the implementation takes care
    /// of alignment. A file must have been synced in full before its first direct read. Where
    /// it is not supported, this is `Read`, and [`File::direct_alignment`] says so.
    ReadDirect,
}

/// The space of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// What we may still take; others may take it first.
    pub free_bytes: u64,
    /// All there is.
    pub total_bytes: u64,
}

/// Storage, clock, randomness and background work. All methods may be called from any thread.
pub trait Env: Send + Sync + Debug {
    /// Creates one directory. `AlreadyExists` if the name is taken. The name is durable after
    /// [`Env::sync_dir`] of the parent.
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()>;

    /// Makes all changes to names in `dir` that returned before this call durable.
    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()>;

    /// The names in `dir`, sorted. `NotFound` if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>>;

    /// Renames a file, replacing `to` atomically if it exists. Both must be in the same directory.
    fn rename(&self, from: &Path, to: &Path, step: Step) -> io::Result<()>;

    /// Gives a file another name, `to`, in another directory of the same file system. Both names
    /// are then the file's in the same way: what is written under one is read under the other,
    /// a sync under either is one of the file, and it is there until the last of them is removed.
    /// The new name is durable after [`Env::sync_dir`] of its directory. `AlreadyExists` if it
    /// is taken.
    ///
    /// Where a file cannot have that name, though a copy of it could, the answer is one of
    /// `CrossesDevices` (it is in another file system), `Unsupported` (the file system has no
    /// such names, or does not give them to us), and `TooManyLinks`. [`is_unlinkable`] tells.
    fn hard_link(&self, from: &Path, to: &Path, step: Step) -> io::Result<()>;

    /// Removes the name of a file. Files that are open, or have another name, stay readable through
    /// that.
    fn remove(&self, path: &Path, step: Step) -> io::Result<()>;

    /// Creates an empty file for reading and writing. `AlreadyExists` if the name is taken.
    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>>;

    /// Opens an existing file. `NotFound` if there is none.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>>;

    /// Takes the lock file at `path`, creating it if needed. `WouldBlock` if another holder, in
    /// this process or another, has it. The lock ends when the value is dropped or the process
    /// dies, and is not part of what a crash can keep.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// Takes a share of the lock file at `path`: any number of holders, in this process and others,
    /// have one at the same time, but none beside a holder of [`Env::lock`]. `WouldBlock` if
    /// there is one. Changes nothing: `NotFound` if there is no such file, and the right to read it
    /// is enough.
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// The space of the file system that `dir` is on; `None` if there is no limit, or none that
    /// could be asked for.
    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        let _ = dir;
        Ok(None)
    }

    /// Carries out reads that come one after the other, many of them at a time: takes requests from
    /// `queue` as long as it has some, and hands over what each brought as soon as it is there,
    /// in any order. Returns when the queue has no more and all has been handed over. Takes about
    /// as long as the slowest read rather than as all together, where the machine can do that, and
    /// what the queue does meanwhile takes no time.
    fn read_queue(&self, queue: &mut dyn ReadQueue) {
        let mut number = 0;
        while let Some(request) = queue.next() {
            request.read_alone(number, queue);
            number += 1;
        }
    }

    /// Time since some fixed moment; never goes back. A time that another thread or a worker took
    /// may lie ahead, so the difference to it is to be taken saturating.
    fn now(&self) -> Duration;

    /// Time since 1970-01-01 00:00 UTC.
    fn unix_time(&self) -> Duration;

    /// 64 random bits; not for cryptography.
    fn random(&self) -> u64;

    /// How many threads can run at the same time, at least 1, the same at every call: how many
    /// workers are worth starting.
    fn cores(&self) -> usize;

    /// Starts a background worker that calls [`Work::step`] again and again.
    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>>;

    /// Waits until `ready` answers true, and returns true; or until `deadline` (on the clock of
    /// [`Env::now`]) has passed, and returns false. `ready` is asked first, then again after
    /// every notification of `event`. Whoever makes `ready` true must notify `event`
    /// afterwards. The caller must hold no lock that a background step may need: the simulator runs
    /// those steps here.
    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool;

    /// Lets time pass until `deadline`, on the clock of [`Env::now`]; returns at once if that has
    /// passed. A [`Env::wait`] for nothing, so the caller must hold no lock here either.
    fn sleep_until(&self, deadline: Duration) {
        self.wait(&Event::new(), Some(deadline), &mut || false);
    }
}

/// True for the errors of [`Env::hard_link`] that say that the file cannot have such a name, though
/// a copy of it could.
pub fn is_unlinkable(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | Unsupported | TooManyLinks)
}

/// Where [`Env::read_queue`] gets its reads, and where it leaves what they brought.
pub trait ReadQueue {
    /// The next read; `None` if there is none for now. After that it is asked again when something
    /// has arrived.
    fn next(&mut self) -> Option<ReadRequest>;

    /// What came of the read with that number, counted from 0 in the order in which
    /// [`ReadQueue::next`] gave them: all of its bytes, or the error that
    /// [`File::read_exact_at`] would have given. The bytes are the environment's own again when
    /// this returns.
    fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>);
}

/// One read of a [`ReadQueue`].
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The file to read from.
    pub file: Arc<dyn File>,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How many bytes.
    pub bytes: usize,
}

impl ReadRequest {
    /// Carries out this one by itself, for implementations of [`Env`].
    pub fn read_alone(&self, number: usize, queue: &mut dyn ReadQueue) {
        let mut memory = vec![0; self.bytes];
        let outcome = self.file.read_exact_at(&mut memory, self.offset);
        queue.arrived(number, outcome.map(|()| &memory[..]));
    }
}

/// What came of reads that are all known beforehand, carried out together ([`Env::read_queue`]):
/// the bytes of each, or its error.
pub fn read_together(env: &dyn Env, requests: Vec<ReadRequest>) -> Vec<io::Result<Vec<u8>>> {
    struct Known {
        requests: std::vec::IntoIter<ReadRequest>,
        outcomes: Vec<Option<io::Result<Vec<u8>>>>,
    }
    impl ReadQueue for Known {
        fn next(&mut self) -> Option<ReadRequest> {
            self.requests.next()
        }
        fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
            let earlier = self.outcomes[number].replace(bytes.map(<[u8]>::to_vec));
            assert!(earlier.is_none(), "read {number} has arrived twice");
        }
    }
    let outcomes = requests.iter().map(|_| None).collect();
    let mut known = Known { requests: requests.into_iter(), outcomes };
    env.read_queue(&mut known);
    let arrived = |outcome: Option<_>| outcome.expect("every read arrives before the queue is over");
    known.outcomes.into_iter().map(arrived).collect()
}

/// An open file. It has no position of its own; all methods may be called from any thread.
pub trait File: Send + Sync + Debug {
    /// Reads at `offset`; may return fewer bytes than asked for, and 0 only at the end of the file
    /// (or for an empty buffer).
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`, extending the file if needed; may write fewer bytes than asked for.
    /// After an error, any part of `bytes` may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64, step: Step) -> io::Result<usize>;

    /// Makes everything written to the file so far durable, and its length.
    fn sync(&self, step: Step) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros. Durable after [`File::sync`].
    fn set_len(&self, length: u64, step: Step) -> io::Result<()>;

    /// Reserves space and extends the file with zeros to at least `length`. Where reserving is not
    /// supported, only the length changes. Later writes below `length` should not fail for want
    /// of space. The caller must not write beyond the file's end meanwhile.
    fn allocate(&self, length: u64, step: Step) -> io::Result<()>;

    /// Reserves space for the bytes below `length` without changing the file's length: later writes
    /// there should not fail for want of space, nor should the syncs after them. Where that is
    /// not supported, nothing happens. [`File::set_len`] may give back what lies past the new
    /// length.
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

    /// If reads bypass the page cache, the alignment in bytes that spares them a copy: of offset,
    /// length and address, as an [`crate::AlignedBuffer`] has it. `None` if they go through the
    /// page cache.
    fn direct_alignment(&self) -> Option<usize> {
        None
    }

    /// The operating system's name of the file, if it has one, for environments that read through
    /// it in other ways than [`File::read_at`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A hint to start writing out dirty pages of the range without waiting, so that a later sync
    /// has less to do. Promises nothing.
    fn start_writeback(&self, offset: u64, length: u64);

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

/// A held lock; dropping it releases it.
pub trait Lock: Send + Sync + Debug {}

/// Something that is done in the background, a little at a time.
pub trait Work: Send + Sync {
    /// Does a few milliseconds of work and says whether there is more. Must not wait for other
    /// background work except by returning `Idle`.
    fn step(&self) -> Progress;
}

/// What a [`Work::step`] left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do now.
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

    /// Ends the worker and waits until its current step, if any, has returned. Its `Work` is not
    /// called afterwards, and is released. May be called again, and by several threads at once:
    /// each returns when the worker has ended. Must not be called from the work itself. Whoever
    /// starts a worker must stop it.
    ///
    /// # Panics
    /// With the work's own panic, if a step panicked, for the first caller.
    fn stop(&self);
}

/// Something that happened, to be waited for with [`Env::wait`]: a counter that [`Event::notify`]
/// advances.
///
/// Notifying costs one atomic addition while nobody waits. That nobody is missed rests on the order
/// of two steps on each side, which all threads see in the same order (`SeqCst`):
///
/// ```text
/// notify:     advance `count`,    then look at `waiting`
/// wait_past:  advance `waiting`,  then look at `count`
/// ```
///
/// Of two such threads at least one sees what the other did: either the waiter sees the new count
/// and does not block, or the notifier sees the waiter and wakes it.
#[derive(Debug, Default)]
pub struct Event {
    count: AtomicU64,
    /// How many threads are inside [`Event::wait_past`].
    waiting: AtomicUsize,
    /// Held by a waiter from its look at `count` until it sleeps, so that no notification falls
    /// between the two.
    falling_asleep: Mutex<()>,
    happened: Condvar,
}

impl Event {
    /// An event that has not happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells all that wait to ask again. What this thread did before is visible to whoever sees the
    /// new count.
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
