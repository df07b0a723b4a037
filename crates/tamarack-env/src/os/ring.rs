//! Reads through io_uring: many in one system call, and all of them on the device at once.
//!
//! A ring is two queues in memory shared with the kernel: requests go into one, answers come out of
//! the other, in any order. It saves more than waiting: the kernel passes requests that are
//! submitted together to the device at once, and in a virtual machine that step costs more
//! processor time than all the rest of a read. So a ring is not entered for each request, nor for
//! each answer:
//!
//! ```text
//! caller   ask ──┬─ ask ────────┬─ ask ─────┬─ wait for half ─┬─ take over ─┬─ wait for half …
//! kernel         └► first few ──┴► more … ──┴──── answers ────┴─────────────┴────────────────────
//! ```
//!
//! While the caller prepares requests, the device works on the earlier ones, and while the caller
//! takes over answers, it works on the rest.
//!
//! Rings are kept in a small pool of the environment, so concurrent threads each have their own.
//! Making one costs some system calls; the pool keeps [`IDLE_RINGS_MAX`]. A ring is empty before
//! and after each queue of reads.
//!
//! Files and memory are not registered with the ring: in measurements, that saves a few percent of
//! a read at most, and it would tie the memory to the ring. `bench/device` compares the methods.
//!
//! # Invariants
//!
//! The kernel writes into the memory of a read until it answers. That memory and the open file
//! belong to the [`Flight`], which releases neither before the answer, and which does not end, even
//! if the caller panics, before every request that the kernel has taken is answered. When the
//! kernel takes no more requests, these are read one by one, and the ring is not used again.
//!
//! The only `unsafe` is the push of a request, which requires exactly this.
//!
//! # Tests
//!
//! The contract suite, which must also pass when the kernel refuses: on Linux, run it under `strace
//! -f -e inject=io_uring_enter:error=EAGAIN:when=3+3` (or `EINTR`, `ENOMEM`, or
//! `io_uring_setup:error=EPERM`, as containers do). Below: answers that come late, fail or are
//! short, waits that a signal ends, and a caller that panics.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::bounce::{Bounce, Bounces};
use super::read::Span;
use crate::env::{ReadQueue, ReadRequest};
use crate::sync::{Mutex, Rank, thread};

/// Upper bound on the requests in one ring, and so on the depth that a device sees from one thread.
/// Reads stop becoming cheaper long before.
const REQUESTS_MAX: usize = 128;

/// Upper bound on the memory of the reads in one ring, in bytes, except for a single read.
const FLIGHT_BYTES_MAX: usize = 1 << 20;

/// Number of new requests after which the ring is entered. Entering costs as much processor time as
/// some ten requests, so it is not done for each; but the sooner the device begins, the sooner it
/// ends.
const SUBMIT_REQUESTS: usize = 24;

/// Upper bound on the answers awaited before they are handed over. Waking up costs about as much as
/// handing over two or three.
const WAIT_ANSWERS_MAX: usize = 16;

/// Upper bound on idle rings. One takes about 20 KiB.
const IDLE_RINGS_MAX: usize = 4;

/// Upper bound on the length of a request, in bytes: a multiple of every alignment, and far below
/// the kernel's limit.
const READ_BYTES_MAX: usize = 1 << 30;

/// Idle rings.
#[derive(Debug)]
pub(super) struct Rings {
    idle: Mutex<Vec<Ring>>,
}

/// An empty ring.
struct Ring(IoUring);

/// A ring in use for one queue.
struct Flight<'a> {
    ring: &'a mut IoUring,
    bounces: &'a Bounces,
    /// Reads that have not been handed over, by their number in the kernel's requests.
    slots: Vec<Option<Slot<'a>>>,
    vacant: Vec<usize>,
    /// Requests that the kernel has not taken yet, in order.
    pushed: VecDeque<usize>,
    /// Number of requests that the kernel has taken and not answered.
    unanswered: usize,
    /// Reads to be handed over.
    arrived: Vec<usize>,
    /// Total length of the reads in all slots, in bytes.
    bytes: usize,
    /// No more requests may be submitted.
    is_broken: bool,
}

/// A read and its memory.
struct Slot<'a> {
    number: usize,
    request: ReadRequest,
    span: Span,
    memory: Bounce<'a>,
    /// Number of bytes read; `None` until it is answered, and if it failed.
    outcome: Option<usize>,
}

impl Rings {
    /// Returns a pool with one ring in it; an error where the kernel or a sandbox does not allow
    /// rings.
    pub(super) fn probe() -> io::Result<Self> {
        let ring = Ring::new()?;
        ring.check()?;
        Ok(Self { idle: Mutex::new(Rank::Rings, vec![ring]) })
    }

    /// [`crate::Env::read_queue`]. Fails if no ring is available; the queue was not touched then.
    pub(super) fn read_queue(&self, bounces: &Bounces, queue: &mut dyn ReadQueue) -> io::Result<()> {
        // The lock's guard must not live on while a ring is made.
        let idle = self.idle.lock().pop();
        let mut ring = idle.map_or_else(Ring::new, Ok)?;
        if Flight::new(&mut ring.0, bounces).serve(queue) {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE_RINGS_MAX {
                idle.push(ring);
            }
        }
        Ok(())
    }
}

impl Ring {
    fn new() -> io::Result<Self> {
        Ok(Self(IoUring::new(REQUESTS_MAX as u32)?))
    }

    /// Fails if the kernel lacks the one operation needed (Linux 5.6 has it) or does not allow it.
    fn check(&self) -> io::Result<()> {
        let mut probe = io_uring::Probe::new();
        self.0.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.0.submit_and_wait(0).map(|_| ())
    }
}

impl<'a> Flight<'a> {
    fn new(ring: &'a mut IoUring, bounces: &'a Bounces) -> Self {
        let (slots, vacant, pushed, arrived) = Default::default();
        Self { ring, bounces, slots, vacant, pushed, unanswered: 0, arrived, bytes: 0, is_broken: false }
    }

    /// Carries out all reads of the queue; true if the ring can be used again.
    fn serve(mut self, queue: &mut dyn ReadQueue) -> bool {
        let mut number = 0;
        loop {
            while self.takes_more()
                && let Some(request) = queue.next()
            {
                self.take_up(number, request);
                number += 1;
                if self.pushed.len() >= SUBMIT_REQUESTS {
                    self.enter(0);
                }
            }
            let in_flight = self.unanswered + self.pushed.len();
            if in_flight == 0 && self.arrived.is_empty() {
                return !self.is_broken;
            }
            if !self.pushed.is_empty() || self.arrived.is_empty() {
                let is_waiting = self.arrived.is_empty();
                self.enter(if is_waiting { in_flight.div_ceil(2).min(WAIT_ANSWERS_MAX) } else { 0 });
            }
            self.hand_over(queue);
        }
    }

    fn takes_more(&self) -> bool {
        let count = self.slots.len() - self.vacant.len();
        count == 0 || (count < REQUESTS_MAX && self.bytes < FLIGHT_BYTES_MAX)
    }

    /// Gives a read to the ring, or, where that is impossible, to those that are repeated singly.
    fn take_up(&mut self, number: usize, request: ReadRequest) {
        let span = Span::covering(request.file.direct_alignment().unwrap_or(1), request.offset, request.bytes);
        self.bytes += span.length;
        let is_for_the_ring = !self.is_broken && request.file.descriptor().is_some();
        let slot = Slot { number, request, span, memory: self.bounces.take(span.length), outcome: None };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(slot);
        if is_for_the_ring {
            self.push(index);
        } else {
            self.arrived.push(index);
        }
    }

    /// Puts the request of a slot into the ring. The kernel does not see it yet.
    #[expect(unsafe_code, reason = "the kernel writes to memory that it is given by its address")]
    fn push(&mut self, index: usize) {
        let slot = self.slots[index].as_mut().expect("the slot was just filled");
        let file = slot.request.file.descriptor().expect("looked at before");
        let memory = &mut slot.memory[..slot.span.length.min(READ_BYTES_MAX)];
        let request = opcode::Read::new(types::Fd(file.as_raw_fd()), memory.as_mut_ptr(), memory.len() as u32)
            .offset(slot.span.start)
            .build()
            .user_data(index as u64);
        // SAFETY: the request must stay valid until it is answered. The slot owns the memory, of at
        // least that length, and keeps the file open. It stays in `slots`, untouched, until `enter`
        // has seen its answer or finds that the kernel will not take it; moving a slot does not
        // move the memory. `drop` waits for everything that the kernel took. The ring's own memory
        // belongs to the ring, which outlives the flight.
        let pushed = unsafe { self.ring.submission().push(&request) };
        assert!(pushed.is_ok(), "a queue with {} requests has no room for one more", self.pushed.len());
        self.pushed.push_back(index);
    }

    /// Submits new requests, waits for so many answers, and records all that have arrived. Never
    /// panics.
    fn enter(&mut self, answers: usize) {
        if self.is_broken {
            // Answers to taken requests come all the same.
            thread::yield_now();
        } else if let Err(error) = self.ring.submit_and_wait(answers) {
            self.is_broken = error.kind() != io::ErrorKind::Interrupted;
        }
        let not_taken = self.ring.submission().len();
        while self.pushed.len() > not_taken {
            self.pushed.pop_front();
            self.unanswered += 1;
        }
        for answer in self.ring.completion() {
            let index = answer.user_data() as usize;
            if let Some(Some(slot)) = self.slots.get_mut(index) {
                slot.outcome = usize::try_from(answer.result()).ok();
                self.arrived.push(index);
                self.unanswered = self.unanswered.saturating_sub(1);
            }
        }
        if self.is_broken {
            // Requests that the kernel has not taken are not submitted again.
            self.arrived.extend(self.pushed.drain(..));
        }
    }

    /// Hands over all arrived reads.
    fn hand_over(&mut self, queue: &mut dyn ReadQueue) {
        for index in std::mem::take(&mut self.arrived) {
            let slot = self.slots[index].take().expect("what arrives was taken up and not handed over");
            self.vacant.push(index);
            self.bytes -= slot.span.length;
            slot.hand_over(queue);
        }
    }
}

impl Slot<'_> {
    fn hand_over(mut self, queue: &mut dyn ReadQueue) {
        let ReadRequest { ref file, offset, bytes } = self.request;
        let brought = &self.memory[..self.outcome.unwrap_or(0)];
        if let Some(wanted) = self.span.wanted(brought, bytes) {
            return queue.arrived(self.number, Ok(wanted));
        }
        let memory = &mut self.memory[..bytes];
        let outcome = file.read_exact_at(memory, offset);
        queue.arrived(self.number, outcome.map(|()| &*memory));
    }
}

impl Drop for Flight<'_> {
    /// Waits until the kernel has finished with the memory.
    fn drop(&mut self) {
        if self.unanswered + self.pushed.len() > 0 {
            // Only a panic of the queue leads here. Nothing new is submitted, and the ring is not
            // used again.
            self.is_broken = true;
            while self.unanswered > 0 {
                self.enter(0);
            }
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
    #![expect(clippy::disallowed_types, reason = "tests of what the others use instead")]

    use std::fs::File as OpenFile;
    use std::io::{PipeReader, Write};
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::Arc;

    use super::*;
    use crate::env::{File, Step};
    use crate::os::TempDir;
    use crate::os::buffered::BufferedFile;
    use crate::random::Random;
    use crate::sync::atomic::{AtomicUsize, Ordering};

    /// The position that means "the file's current position", as pipes need it.
    const HERE: u64 = u64::MAX;

    /// A queue of given reads, with their results.
    #[derive(Default)]
    struct GivenReads {
        requests: VecDeque<ReadRequest>,
        outcomes: Vec<(usize, Option<Vec<u8>>)>,
        /// Panics when so many have arrived.
        panics_at: Option<usize>,
    }

    impl GivenReads {
        fn new(requests: impl IntoIterator<Item = ReadRequest>) -> Self {
            Self { requests: requests.into_iter().collect(), ..Self::default() }
        }

        /// By the numbers of the reads.
        fn outcomes(mut self) -> Vec<Option<Vec<u8>>> {
            self.outcomes.sort();
            assert!(self.outcomes.iter().map(|&(number, _)| number).eq(0..self.outcomes.len()));
            self.outcomes.into_iter().map(|(_, bytes)| bytes).collect()
        }
    }

    impl ReadQueue for GivenReads {
        fn next(&mut self) -> Option<ReadRequest> {
            self.requests.pop_front()
        }

        fn arrived(&mut self, number: usize, bytes: io::Result<&[u8]>) {
            assert_ne!(Some(self.outcomes.len()), self.panics_at, "as planned");
            self.outcomes.push((number, bytes.ok().map(<[u8]>::to_vec)));
        }
    }

    fn from(file: impl Into<OwnedFd>, offset: u64, bytes: usize) -> ReadRequest {
        let file: Arc<dyn File> = Arc::new(BufferedFile::new(OpenFile::from(file.into())));
        ReadRequest { file, offset, bytes }
    }

    fn from_pipe(pipe: PipeReader, bytes: usize) -> ReadRequest {
        from(pipe, HERE, bytes)
    }

    /// Answers that come late and in another order find their reads, and the queue waits for the
    /// last of them. A failed read is repeated singly, and fails. The ring can be used again.
    #[test]
    fn waits_for_every_answer() {
        let Ok(rings) = Rings::probe() else {
            println!("no io_uring here");
            return;
        };
        for round in 0..20 {
            let directory = OpenFile::open("/").unwrap();
            let [(first, mut to_first), (second, mut to_second)] = [(); 2].map(|()| io::pipe().unwrap());
            let mut queue = GivenReads::new([from_pipe(first, 5), from(directory, 0, 5), from_pipe(second, 3)]);
            let writer = thread::spawn(move || {
                to_second.write_all(b"abc").unwrap();
                thread::yield_now();
                to_first.write_all(b"defgh").unwrap();
            });
            rings.read_queue(&Bounces::default(), &mut queue).unwrap();
            assert_eq!(queue.outcomes(), [Some(b"defgh".to_vec()), None, Some(b"abc".to_vec())], "round {round}");
            writer.join().unwrap();
        }
        assert_eq!(rings.idle.lock().len(), 1, "the ring went back");
    }

    /// A file in which the ring finds other bytes than a plain read does.
    #[derive(Debug)]
    struct TwoFaces {
        for_the_ring: Option<OpenFile>,
        /// `None` fails.
        plain: Option<Vec<u8>>,
    }

    impl File for TwoFaces {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let bytes = self.plain.as_ref().ok_or(io::ErrorKind::Other)?;
            let bytes = &bytes[offset as usize..];
            // Short, as any read may be.
            let count = bytes.len().min(buffer.len()).min(3);
            buffer[..count].copy_from_slice(&bytes[..count]);
            Ok(count)
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            self.for_the_ring.as_ref().map(|file| file.as_fd())
        }
        fn write_at(&self, _: &[u8], _: u64, _: Step) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn sync(&self, _: Step) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn set_len(&self, _: u64, _: Step) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn allocate(&self, _: u64, _: Step) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn len(&self) -> io::Result<u64> {
            Err(io::ErrorKind::Unsupported.into())
        }
        fn start_writeback(&self, _: u64, _: u64) {}
    }

    /// Whatever a ring does with a read (whole, short, failed or not taken at all) affects that
    /// read alone, and the plain read that follows decides.
    #[test]
    fn what_a_ring_does_not_do_is_done_alone() {
        let Ok(rings) = Rings::probe() else { return };
        let scratch = TempDir::new().unwrap();
        let path = scratch.path().join("file");
        let ring_bytes: Vec<u8> = (0..100).collect();
        let file = BufferedFile::new(OpenFile::create_new(&path).unwrap());
        file.write_all_at(&ring_bytes, 0, Step("test: write")).unwrap();
        let plain_bytes: Vec<u8> = (100..220).collect();
        let random = Random::new(1);
        let (mut requests, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let (offset, bytes) = (random.below(90) as usize, 1 + random.below(20) as usize);
            let plain = (random.below(4) > 0).then(|| plain_bytes.clone());
            let alone = plain.as_ref().map(|plain| plain[offset..][..bytes].to_vec());
            let (for_the_ring, outcome) = match random.below(4) {
                0 => (Some(OpenFile::open("/").unwrap()), alone),
                1 => (None, alone),
                _ if offset + bytes > ring_bytes.len() => (Some(OpenFile::open(&path).unwrap()), alone),
                _ => (Some(OpenFile::open(&path).unwrap()), Some(ring_bytes[offset..][..bytes].to_vec())),
            };
            let file = Arc::new(TwoFaces { for_the_ring, plain });
            requests.push(ReadRequest { file, offset: offset as u64, bytes });
            expected.push(outcome);
        }
        let mut queue = GivenReads::new(requests);
        rings.read_queue(&Bounces::default(), &mut queue).unwrap();
        assert_eq!(queue.outcomes(), expected);
    }

    /// Concurrent threads get a ring each, of which only some are kept.
    #[test]
    fn keeps_few_rings() {
        let Ok(rings) = Rings::probe() else { return };
        thread::scope(|scope| {
            for _ in 0..2 * IDLE_RINGS_MAX {
                scope.spawn(|| {
                    let zeros = || from(OpenFile::open("/dev/zero").unwrap(), 0, 100);
                    let mut queue = GivenReads::new((0..2 * REQUESTS_MAX).map(|_| zeros()));
                    rings.read_queue(&Bounces::default(), &mut queue).unwrap();
                    assert_eq!(queue.outcomes(), vec![Some(vec![0; 100]); 2 * REQUESTS_MAX]);
                });
            }
        });
        assert!((1..=IDLE_RINGS_MAX).contains(&rings.idle.lock().len()));
    }

    /// A queue that panics with reads in flight waits until these are answered, since the kernel
    /// uses their memory; and its ring is given up.
    #[test]
    fn a_panic_waits_for_the_answers() {
        let Ok(rings) = Rings::probe() else { return };
        let pools = Bounces::default();
        let (late, mut to_late) = io::pipe().unwrap();
        let zeros = from(OpenFile::open("/dev/zero").unwrap(), 0, 100);
        let mut queue = GivenReads::new([zeros, from_pipe(late, 5)]);
        queue.panics_at = Some(0);
        let is_answered = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..1000 {
                    thread::yield_now();
                }
                is_answered.store(1, Ordering::SeqCst);
                to_late.write_all(b"abcde").unwrap();
            });
            let flight = std::panic::AssertUnwindSafe(|| rings.read_queue(&pools, &mut queue));
            assert!(std::panic::catch_unwind(flight).is_err());
            assert_eq!(is_answered.load(Ordering::SeqCst), 1, "the kernel still has memory that is in use again");
        });
        assert_eq!(rings.idle.lock().len(), 0, "the ring did not go back");
    }

    /// A signal ends the wait in the kernel early, but not the queue: the kernel still uses the
    /// memory.
    #[test]
    #[expect(unsafe_code, reason = "signals have no safe interface")]
    #[expect(clippy::disallowed_methods, reason = "a test of what takes real time")]
    fn an_interrupted_wait_goes_on() {
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handle(_: libc::c_int) {
            HANDLED.fetch_add(1, Ordering::SeqCst);
        }
        let Ok(rings) = Rings::probe() else { return };
        // SAFETY: zeros are a valid action without flags, so without repeating what was
        // interrupted; the handler only advances a counter, which is allowed at any moment; no
        // other test uses this signal.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        }
        let (from, mut to) = io::pipe().unwrap();
        let reader = thread::spawn(move || {
            let mut queue = GivenReads::new([from_pipe(from, 5)]);
            rings.read_queue(&Bounces::default(), &mut queue).unwrap();
            queue.outcomes()
        });
        for _ in 0..20 {
            // SAFETY: the thread has not been joined, so its identity is valid.
            unsafe { libc::pthread_kill(reader.as_pthread_t(), libc::SIGUSR1) };
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(HANDLED.load(Ordering::SeqCst) > 1, "more than the one that may have come before the wait");
        to.write_all(b"at it").unwrap();
        assert_eq!(reader.join().unwrap(), [Some(b"at it".to_vec())]);
    }
}
