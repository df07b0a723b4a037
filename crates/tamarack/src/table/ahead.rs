//! [`ReadAhead`]: a worker that reads the next piece of a compaction's input while the compaction
//! copies the entries of the present one.
//!
//! ```text
//! compaction    read 1 │ copy 1       │ copy 2       │ copy 3 …
//! worker               │ read 2 │     │ read 3 │     │ read 4 …
//! ```
//!
//! For files that are read past the page cache; through it, the operating system reads ahead by
//! itself. There is one worker for all compactions of a database, and few pieces wait for it. A
//! piece that it has not begun when a compaction needs it is read by the compaction. So a
//! compaction waits for one read in progress at most, never for the worker's other pieces, and
//! needs no worker at all: this is the one wait of a step for other background work, and safe, as
//! the worker waits for the device alone.
//! ([Decision 0012](../../../../docs/decisions/0012-reading-ahead.md).)
//!
//! A failed read is not reported: the compaction repeats it, and reports that.
//!
//! On the simulator a piece counts as read when the worker's step has been carried out, whatever
//! time the device takes for it: its times do not show what reading ahead saves.
//!
//! Tests: here, with failures and, under the schedule explorer, in all orders; `suite reads` for
//! what is read.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{AlignedBuffer, Env, Event, Progress, ReadRequest, Work, Worker};

use crate::stats::{ReadCounters, Reader};

/// Upper bound on the pieces that wait for the worker. More would be read by compactions before the
/// worker came to them.
const WAITING_MAX: usize = 8;

/// The worker and its pieces.
pub(super) struct ReadAhead {
    env: Arc<dyn Env>,
    queue: Arc<WaitingPieces>,
    worker: Arc<dyn Worker>,
    waiting_max: usize,
}

/// Pieces that wait for the worker; some of them may not be needed any more.
struct WaitingPieces(Mutex<VecDeque<Weak<PieceAhead>>>);

/// A piece of a file that is read ahead. Dropped before the worker has begun it, it is not read.
#[derive(Debug)]
pub(super) struct PieceAhead {
    state: Mutex<PieceState>,
    /// Signalled when the worker has read it.
    is_read: Event,
}

#[derive(Debug)]
enum PieceState {
    Waiting(PieceRead),
    Reading,
    Read(AlignedBuffer, io::Result<()>),
}

/// The read of a piece: the first `request.bytes` of the memory are filled.
#[derive(Debug)]
pub(super) struct PieceRead {
    pub(super) request: ReadRequest,
    pub(super) memory: AlignedBuffer,
    pub(super) counters: Arc<ReadCounters>,
    pub(super) reader: Reader,
}

impl PieceRead {
    fn carry_out(self) -> (AlignedBuffer, io::Result<()>) {
        let Self { request, mut memory, counters, reader } = self;
        counters.of(reader).count_read(request.bytes);
        let outcome = request.file.read_exact_at(&mut memory[..request.bytes], request.offset);
        (memory, outcome)
    }
}

impl ReadAhead {
    /// Starts the worker. It must be stopped before this is dropped. At most `files_max` files are
    /// kept open for it.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(env: &Arc<dyn Env>, files_max: usize) -> io::Result<Self> {
        let queue = Arc::new(WaitingPieces(Mutex::new(Rank::ReadAhead, VecDeque::new())));
        let worker = env.start("tamarack-reader", queue.clone())?;
        Ok(Self { env: env.clone(), queue, worker, waiting_max: WAITING_MAX.min(files_max) })
    }

    /// The worker, to be stopped by its owner. Pieces are read without it then.
    pub(super) fn worker(&self) -> &Arc<dyn Worker> {
        &self.worker
    }

    /// Returns true if so many pieces wait that no more should be submitted.
    pub(super) fn is_busy(&self) -> bool {
        let mut waiting = self.queue.0.lock();
        waiting.retain(|piece| piece.strong_count() > 0);
        waiting.len() >= self.waiting_max
    }

    /// Lets the worker read a piece.
    pub(super) fn submit(&self, read: PieceRead) -> Arc<PieceAhead> {
        let state = Mutex::new(Rank::PieceAhead, PieceState::Waiting(read));
        let piece = Arc::new(PieceAhead { state, is_read: Event::new() });
        self.queue.0.lock().push_back(Arc::downgrade(&piece));
        self.worker.wake();
        piece
    }

    /// Returns the memory of a piece and the outcome of its read, which this carries out if the
    /// worker has not begun it. `None` if the environment has ended meanwhile.
    pub(super) fn take(&self, piece: Arc<PieceAhead>) -> Option<(AlignedBuffer, io::Result<()>)> {
        loop {
            let state = std::mem::replace(&mut *piece.state.lock(), PieceState::Reading);
            match state {
                PieceState::Waiting(read) => return Some(read.carry_out()),
                PieceState::Read(memory, outcome) => return Some((memory, outcome)),
                PieceState::Reading => {
                    let is_read = &mut || !matches!(*piece.state.lock(), PieceState::Reading);
                    if !self.env.wait(&piece.is_read, None, is_read) {
                        return None;
                    }
                }
            }
        }
    }
}

impl Work for WaitingPieces {
    fn step(&self) -> Progress {
        let Some(piece) = self.0.lock().pop_front() else { return Progress::Idle };
        let Some(piece) = piece.upgrade() else { return Progress::More };
        let state = std::mem::replace(&mut *piece.state.lock(), PieceState::Reading);
        match state {
            PieceState::Waiting(read) => {
                read.counters.of(read.reader).ahead.add(1);
                let (memory, outcome) = read.carry_out();
                *piece.state.lock() = PieceState::Read(memory, outcome);
                piece.is_read.notify();
            }
            // A compaction reads it now.
            taken => *piece.state.lock() = taken,
        }
        Progress::More
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").finish_non_exhaustive()
    }
}

#[cfg(feature = "shuttle")]
#[cfg(test)]
mod orders {
    use std::path::Path;

    use tamarack_env::{Access, MemoryEnv, Step};

    use super::*;

    const STEP: Step = Step("test: any");

    /// A piece is submitted and taken, another one dropped, and a third taken beside the end of the
    /// worker: in any order nobody waits for ever, and the bytes are those of the file.
    fn a_few_pieces() {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let path = Path::new("/file");
        let file = env.create(path, STEP).expect("a new file");
        file.write_all_at(b"abcdef", 0, STEP).expect("written");
        let file = env.open(path, Access::Read).expect("opened");
        let counters: Arc<ReadCounters> = Arc::default();
        let piece = |offset| PieceRead {
            request: ReadRequest { file: file.clone(), offset, bytes: 2 },
            memory: AlignedBuffer::zeroed(2),
            counters: counters.clone(),
            reader: Reader::Compaction,
        };
        let ahead = ReadAhead::start(&env, WAITING_MAX).expect("a thread");
        let [first, dropped, last] = [0, 2, 4].map(|offset| ahead.submit(piece(offset)));
        let taken = |piece| {
            let (memory, outcome) = ahead.take(piece).expect("the environment lasts");
            outcome.expect("nothing fails");
            memory[..2].to_vec()
        };
        assert_eq!(taken(first), b"ab");
        drop(dropped);
        let worker = ahead.worker().clone();
        let stops = tamarack_env::sync::thread::spawn(move || worker.stop());
        assert_eq!(taken(last), b"ef");
        stops.join().expect("it stops");
        let counted = &counters.of(Reader::Compaction);
        assert!((2..=3).contains(&counted.reads.get()) && counted.ahead.get() <= counted.reads.get());
    }

    #[test]
    fn no_order_of_steps_blocks_a_piece() {
        shuttle::check_random(a_few_pieces, 2_000);
        shuttle::check_pct(a_few_pieces, 2_000, 3);
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use std::path::Path;

    use tamarack_env::{Access, MemoryEnv, SimEnv, Step};

    use super::*;

    const STEP: Step = Step("test: any");
    const BYTES: usize = 1 << 16;

    fn file(env: &Arc<dyn Env>) -> ReadRequest {
        let path = Path::new("/file");
        let content: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
        let file = env.create(path, STEP).expect("a new file");
        file.write_all_at(&content, 0, STEP).expect("written");
        file.sync(STEP).expect("synced");
        ReadRequest { file: env.open(path, Access::Read).expect("opened"), offset: 0, bytes: BYTES }
    }

    fn read_of(request: &ReadRequest, offset: usize, bytes: usize, counters: &Arc<ReadCounters>) -> PieceRead {
        PieceRead {
            request: ReadRequest { file: request.file.clone(), offset: offset as u64, bytes },
            memory: AlignedBuffer::zeroed(bytes),
            counters: counters.clone(),
            reader: Reader::Compaction,
        }
    }

    /// Whether the worker has begun a piece, has read it, or was too late: the bytes are those of
    /// the file, each piece is read once, and one that is dropped is read once at most.
    #[test]
    fn pieces_are_read_once() {
        let env: Arc<dyn Env> = MemoryEnv::new(1);
        let request = file(&env);
        let counters: Arc<ReadCounters> = Arc::default();
        let ahead = ReadAhead::start(&env, WAITING_MAX).expect("a thread");
        let mut dropped = 0;
        for round in 0..2_000 {
            let (offset, bytes) = (round * 13 % 50_000, 1 + round * 7 % 9_000);
            let piece = ahead.submit(read_of(&request, offset, bytes, &counters));
            if round % 3 == 0 {
                tamarack_env::sync::thread::yield_now();
            }
            if round % 10 == 9 {
                dropped += 1;
                continue;
            }
            let (memory, outcome) = ahead.take(piece).expect("the environment lasts");
            outcome.expect("nothing fails");
            assert!(memory.iter().enumerate().all(|(at, byte)| *byte == ((offset + at) / 7) as u8), "round {round}");
        }
        ahead.worker().stop();
        let reads = counters.of(Reader::Compaction).reads.get();
        assert!((2_000 - dropped..=2_000).contains(&reads), "{reads} reads");
        // Without a worker, who takes a piece reads it.
        let piece = ahead.submit(read_of(&request, 0, 100, &counters));
        let (memory, outcome) = ahead.take(piece).expect("the environment lasts");
        assert!(outcome.is_ok() && memory[99] == 14);
    }

    /// A failed read gives the memory back with its error.
    #[test]
    fn a_failed_read_is_told() {
        let sim = SimEnv::new(1);
        let env: Arc<dyn Env> = Arc::new(sim.clone());
        let request = file(&env);
        let ahead = ReadAhead::start(&env, WAITING_MAX).expect("a worker");
        let counters: Arc<ReadCounters> = Arc::default();
        for waits in [false, true] {
            let piece = ahead.submit(read_of(&request, BYTES - 10, 100, &counters));
            if waits {
                sim.advance(std::time::Duration::from_secs(1));
            }
            let (memory, outcome) = ahead.take(piece).expect("the environment lasts");
            assert_eq!((memory.len(), outcome.expect_err("too short").kind()), (100, io::ErrorKind::UnexpectedEof));
        }
        ahead.worker().stop();
    }
}
