//! Reads through io_uring: a whole batch with one system call, and all of it on the device at once.
//!
//! A ring is two queues in memory that the kernel shares: requests go into one, answers come out of the other, in any order. Here a ring
//! serves one batch at a time and is empty before and after: its requests go in, one call submits them and waits for as many
//! answers. What a batch saves is not only waiting. The kernel hands all of it to the device at once, and in a virtual machine that step costs
//! more processor time than all the rest of a read.
//!
//! Rings live in a small pool of the environment, so threads that read at the same time each have their own. Making one costs some
//! system calls; the pool keeps [`IDLE_RINGS_MAX`].
//!
//! Files and memory are not registered with the ring: measured, that saves a few percent of a read at most, and it would tie the memory to the
//! ring. `bench/device` has the comparison of methods.
//!
//! # What must hold
//!
//! The kernel writes into the memory of a read until it answers. So [`Ring::read`] must not return, nor unwind, before every
//! request that the kernel has taken is answered. When the kernel takes no more requests, it waits for those that it took and leaves
//! the others undone; such a ring is not used again.
//!
//! The only `unsafe` is the push of a request, which promises just that.
//!
//! # How it is tested
//!
//! By the contract suite, which must hold as well when the kernel refuses: on Linux, run it below
//! `strace -f -e inject=io_uring_enter:error=EAGAIN:when=3+3` (or `EINTR`, `ENOMEM`, or `io_uring_setup:error=EPERM`, as containers do). Below, by
//! answers that come late and waits that a signal ends.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::read::Read;
use crate::sync::{Mutex, thread};

/// How many requests one ring takes at once; also the depth that a device sees at most from one thread. Reads stop becoming
/// cheaper long before.
pub(super) const REQUESTS_MAX: usize = 128;

/// How many rings wait for the next batch at most. One takes about 20 KiB.
const IDLE_RINGS_MAX: usize = 4;

/// One request's length at most, in bytes: a multiple of every alignment, and far below what the kernel takes.
const READ_BYTES_MAX: usize = 1 << 30;

/// Rings that wait for a batch.
#[derive(Debug, Default)]
pub(super) struct Rings {
    idle: Mutex<Vec<Ring>>,
}

/// An empty ring.
struct Ring(IoUring);

impl Rings {
    /// A pool with one ring in it; an error where the kernel, or who guards it, does not allow rings.
    pub(super) fn probe() -> io::Result<Self> {
        let mut ring = Ring::new()?;
        ring.check()?;
        Ok(Self { idle: Mutex::new(vec![ring]) })
    }

    /// Carries out up to [`REQUESTS_MAX`] reads. Those that fail keep no outcome.
    pub(super) fn read(&self, reads: &mut [Read<'_>]) {
        // The guard of the lock must not live on while a ring is made.
        let idle = self.idle.lock().pop();
        let Ok(mut ring) = idle.map_or_else(Ring::new, Ok) else { return };
        if ring.read(reads).is_ok() {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE_RINGS_MAX {
                idle.push(ring);
            }
        }
    }
}

impl Ring {
    fn new() -> io::Result<Self> {
        Ok(Self(IoUring::new(REQUESTS_MAX as u32)?))
    }

    /// Whether the kernel knows the one operation that is needed (from Linux 5.6 on) and may be called for it.
    fn check(&mut self) -> io::Result<()> {
        let mut probe = io_uring::Probe::new();
        self.0.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.read(&mut [])
    }

    /// Carries out all reads. An error means that the ring must not be used again; the reads then have outcomes as far as the kernel took them.
    fn read(&mut self, reads: &mut [Read<'_>]) -> io::Result<()> {
        assert!(reads.len() <= REQUESTS_MAX, "{} reads for a ring of {REQUESTS_MAX}", reads.len());
        self.push(reads);
        let mut unanswered = reads.len();
        let mut result = Ok(());
        // Nothing in this loop may panic: the kernel writes into the memory of `reads`.
        loop {
            match self.0.submit_and_wait(unanswered) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => result = Err(error),
            }
            for answer in self.0.completion() {
                unanswered = unanswered.saturating_sub(1);
                if let Some(read) = reads.get_mut(answer.user_data() as usize) {
                    read.outcome = usize::try_from(answer.result()).ok();
                }
            }
            let not_taken = self.0.submission().len();
            if unanswered == 0 || (result.is_err() && unanswered == not_taken) {
                return result;
            }
            if result.is_err() {
                // Waiting in the kernel failed. The answers will come all the same.
                thread::yield_now();
            }
        }
    }

    /// Puts one request for each read into the queue, which is empty. The kernel does not see them yet.
    #[expect(unsafe_code, reason = "the kernel writes to memory that it is given by its address")]
    fn push(&mut self, reads: &mut [Read<'_>]) {
        let mut queue = self.0.submission();
        for (index, read) in reads.iter_mut().enumerate() {
            let length = read.memory.len().min(READ_BYTES_MAX) as u32;
            let request = opcode::Read::new(types::Fd(read.file.as_raw_fd()), read.memory.as_mut_ptr(), length)
                .offset(read.offset)
                .build()
                .user_data(index as u64);
            // SAFETY: the request must stay valid until it is answered. The file and the memory, of at least `length` bytes, are
            // borrowed by `reads`, and `Ring::read`, the only caller, keeps `reads` borrowed, and touches none of the memory,
            // until all that the kernel took is answered. The queue's own memory belongs to the ring.
            let pushed = unsafe { queue.push(&request) };
            assert!(pushed.is_ok(), "an empty queue has no room for request {index}");
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::thread::JoinHandleExt;

    use super::*;
    use crate::sync::atomic::{AtomicUsize, Ordering};

    fn read<'a>(file: BorrowedFd<'a>, offset: u64, memory: &'a mut [u8]) -> Read<'a> {
        Read { file, offset, memory, is_direct: false, outcome: None }
    }

    /// The position that stands for "where the file is", as pipes want it.
    const HERE: u64 = u64::MAX;

    /// Answers that come late and in another order find their reads, and the batch waits for the last of them. One that
    /// fails keeps no outcome. The ring can be used again.
    #[test]
    fn waits_for_every_answer() {
        let Ok(rings) = Rings::probe() else {
            println!("no io_uring here");
            return;
        };
        let directory = rustix::fs::open("/", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        for round in 0..20 {
            let [(first, mut to_first), (second, mut to_second)] = [(); 2].map(|()| io::pipe().unwrap());
            let mut memory = [[0; 5]; 3];
            let [a, b, c] = &mut memory;
            let mut reads =
                [read(first.as_fd(), HERE, a), read(directory.as_fd(), 0, b), read(second.as_fd(), HERE, c)];
            let writer = thread::spawn(move || {
                to_second.write_all(b"abc").unwrap();
                thread::yield_now();
                to_first.write_all(b"defgh").unwrap();
            });
            rings.read(&mut reads);
            assert_eq!(reads.map(|read| read.outcome), [Some(5), None, Some(3)], "round {round}");
            assert_eq!(memory, [*b"defgh", [0; 5], *b"abc\0\0"], "round {round}");
            writer.join().unwrap();
        }
        assert_eq!(rings.idle.lock().len(), 1, "the ring went back");
    }

    /// Threads that read at once get a ring each, of which only some are kept.
    #[test]
    fn keeps_few_rings() {
        let Ok(rings) = Rings::probe() else { return };
        let zeros = rustix::fs::open("/dev/zero", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        thread::scope(|scope| {
            for _ in 0..2 * IDLE_RINGS_MAX {
                scope.spawn(|| {
                    let mut memory = [[0xAA; 100]; REQUESTS_MAX];
                    let mut reads: Vec<_> = memory.iter_mut().map(|memory| read(zeros.as_fd(), 0, memory)).collect();
                    rings.read(&mut reads);
                    assert!(reads.iter().all(|read| read.outcome == Some(100)));
                    assert_eq!(memory, [[0; 100]; REQUESTS_MAX]);
                });
            }
        });
        assert!((1..=IDLE_RINGS_MAX).contains(&rings.idle.lock().len()));
    }

    /// A signal ends the wait in the kernel early, but not the batch: the kernel still has the memory.
    #[test]
    #[expect(unsafe_code, reason = "signals have no safe interface")]
    #[expect(clippy::disallowed_methods, reason = "a test of what takes real time")]
    fn an_interrupted_wait_goes_on() {
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handle(_: libc::c_int) {
            HANDLED.fetch_add(1, Ordering::SeqCst);
        }
        let Ok(rings) = Rings::probe() else { return };
        // SAFETY: zeros are a valid action without flags, so without repeating what was interrupted; the handler only advances a counter,
        // which is allowed at any moment; no other test uses this signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        }
        let (from, mut to) = io::pipe().unwrap();
        let reader = thread::spawn(move || {
            let (mut memory, mut nothing) = ([0; 5], [0; 1]);
            let mut reads = [read(from.as_fd(), HERE, &mut memory), read(from.as_fd(), HERE, &mut nothing[..0])];
            rings.read(&mut reads);
            (reads.map(|read| read.outcome), memory)
        });
        for _ in 0..20 {
            // SAFETY: the thread has not been joined, so its identity is valid.
            unsafe { libc::pthread_kill(reader.as_pthread_t(), libc::SIGUSR1) };
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(HANDLED.load(Ordering::SeqCst) > 1, "more than the one that may have come before the wait");
        to.write_all(b"at it").unwrap();
        assert_eq!(reader.join().unwrap(), ([Some(5), Some(0)], *b"at it"));
    }
}
