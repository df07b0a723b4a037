//! [`WriteBehind`]: a worker that writes and syncs table files while their builder continues.
//!
//! ```text
//! builder ── write(piece) ──► │ piece │ piece │ sync │ ──► worker ──► file
//!    ▲                          at most PIECES_MAX          │
//!    └────────────── an empty piece, to be filled ◄─────────┘
//! ```
//!
//! Requests are carried out in order, one at a time. The first failure is kept for the builder, and
//! nothing is written after it: the files are to be discarded.
//!
//! [`UnsyncedTable`], a table whose file is complete but not durable, is synced by this worker or
//! by its owner.
//!
//! For a builder that has a thread of its own and waits for nothing else, such as an ingest. A
//! piece costs a lock and a wake-up, little for half a MiB; it saves the time of the copy into the
//! page cache and of syncs. Compactions do not need it: while one of them waits, another one
//! builds.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{ByteBuffer, Env, Event, File, Progress, Work, Worker};

use crate::error::{Error, Result};
use crate::memory::{Account, Charge, MemoryPart};
use crate::step;

/// The upper bound on pieces that wait or are being written: as many as a fast device writes during
/// one sync.
const PIECES_MAX: usize = 8;

/// A table whose file is complete, but not durable yet.
#[derive(Debug)]
pub struct UnsyncedTable {
    file: Arc<dyn File>,
    path: Arc<PathBuf>,
}

impl UnsyncedTable {
    pub(super) fn new(file: Arc<dyn File>, path: Arc<PathBuf>) -> Self {
        Self { file, path }
    }

    /// Makes the file durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync(step::TABLE_SYNC).map_err(|source| Error::io(step::TABLE_SYNC.0, &self.path, source))
    }
}

/// A worker that writes and syncs files in the order of the requests.
pub struct WriteBehind {
    env: Arc<dyn Env>,
    queue: Arc<WriteQueue>,
    worker: Arc<dyn Worker>,
    _charge: Charge,
}

/// The requests, and their outcome.
#[derive(Debug)]
struct WriteQueue {
    state: Mutex<WriteQueueState>,
    /// Signalled after each request.
    advanced: Event,
}

#[derive(Debug, Default)]
struct WriteQueueState {
    tasks: VecDeque<FileWork>,
    /// True while a request is carried out.
    busy: bool,
    /// Written pieces, to be filled again.
    empty: Vec<ByteBuffer>,
    /// The first failure; nothing is written after it.
    failed: Option<Error>,
}

#[derive(Debug)]
enum FileWork {
    Write { file: Arc<dyn File>, path: Arc<PathBuf>, bytes: ByteBuffer, offset: u64 },
    Sync(UnsyncedTable),
}

impl WriteBehind {
    /// Starts the worker. Its pieces are charged to `account`.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started.
    pub fn start(env: &Arc<dyn Env>, account: &Arc<Account>) -> Result<Arc<Self>> {
        let queue = Arc::new(WriteQueue {
            state: Mutex::new(Rank::WriteBehind, WriteQueueState::default()),
            advanced: Event::new(),
        });
        let worker = env.start("tamarack-writer", queue.clone());
        let worker = worker.map_err(|error| Error::io("start a writer of tables", Path::new("(a thread)"), error))?;
        let charge = account.charge(MemoryPart::Compactions, PIECES_MAX * account.piece_bytes());
        Ok(Arc::new(Self { env: env.clone(), queue, worker, _charge: charge }))
    }

    /// Queues a piece for writing, and blocks while there are too many. `bytes` is an empty piece
    /// afterwards.
    ///
    /// # Errors
    /// The failure of an earlier request.
    pub(super) fn write(
        &self,
        file: &Arc<dyn File>,
        path: &Arc<PathBuf>,
        bytes: &mut ByteBuffer,
        offset: u64,
    ) -> Result<()> {
        self.wait(PIECES_MAX - 1)?;
        let empty = self.queue.state.lock().empty.pop().unwrap_or_default();
        let bytes = std::mem::replace(bytes, empty);
        self.submit(FileWork::Write { file: file.clone(), path: path.clone(), bytes, offset });
        Ok(())
    }

    /// Queues the sync of a table, after all earlier requests.
    pub fn sync(&self, table: UnsyncedTable) {
        self.submit(FileWork::Sync(table));
    }

    fn submit(&self, task: FileWork) {
        let mut state = self.queue.state.lock();
        if state.failed.is_none() {
            state.tasks.push_back(task);
        }
        drop(state);
        self.worker.wake();
    }

    /// Blocks until all requests are carried out.
    ///
    /// # Errors
    /// The first failure: [`Error::Io`] if a write failed, or a sync found no space;
    /// [`Error::Stopped`] if a sync failed in another way.
    pub fn finish(&self) -> Result<()> {
        self.wait(0)
    }

    /// Blocks until at most `left` requests remain.
    fn wait(&self, left: usize) -> Result<()> {
        let queue = &self.queue;
        let done = self.env.wait(&queue.advanced, None, &mut || {
            let state = queue.state.lock();
            state.failed.is_some() || state.tasks.len() + usize::from(state.busy) <= left
        });
        match &queue.state.lock().failed {
            Some(error) => Err(error.clone()),
            None => {
                assert!(done, "without a deadline, waiting ends when something is done");
                Ok(())
            }
        }
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.worker.stop();
    }
}

impl fmt::Debug for WriteBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBehind").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Work for WriteQueue {
    fn step(&self) -> Progress {
        let mut state = self.state.lock();
        let Some(task) = state.tasks.pop_front() else { return Progress::Idle };
        state.busy = true;
        drop(state);
        let (outcome, empty) = task.carry_out();
        let mut state = self.state.lock();
        state.busy = false;
        state.empty.extend(empty);
        if let Err(error) = outcome {
            state.failed = Some(error);
            state.tasks.clear();
        }
        drop(state);
        self.advanced.notify();
        Progress::More
    }
}

impl FileWork {
    /// Carries out a request. Returns the outcome, and an empty piece.
    fn carry_out(self) -> (Result<()>, Option<ByteBuffer>) {
        match self {
            Self::Write { file, path, mut bytes, offset } => {
                let outcome = write_piece(&*file, &path, &bytes, offset);
                bytes.clear();
                (outcome, Some(bytes))
            }
            Self::Sync(table) => (table.sync().map_err(Error::of_sync_of_new_file), None),
        }
    }
}

/// Writes a piece of a table.
pub(super) fn write_piece(file: &dyn File, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
    file.write_all_at(bytes, offset, step::TABLE_WRITE)
        .map_err(|source| Error::io(step::TABLE_WRITE.0, path, source))?;
    // Early, so that the sync at the end, and a sync of the WAL meanwhile, find little left to
    // write.
    file.start_writeback(offset, bytes.len() as u64);
    Ok(())
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use tamarack_env::SimEnv;
    use tamarack_env::sim::{Failure, Fault};

    use super::*;
    use crate::memory::Budget;

    const PIECES: u64 = 40;

    /// Writes numbered pieces of 8 bytes and syncs the file; returns the result of `finish`
    /// and the environment.
    fn write_all(fault: Option<Fault>) -> (Result<()>, SimEnv) {
        let sim = SimEnv::new(1);
        let env: Arc<dyn Env> = Arc::new(sim.clone());
        env.create_dir(Path::new("/db"), step::DATABASE_CREATE).unwrap();
        let path = Arc::new(PathBuf::from("/db/file"));
        let file = env.create(&path, step::TABLE_CREATE).unwrap();
        fault.into_iter().for_each(|fault| sim.inject(fault));
        let writer = WriteBehind::start(&env, &Account::new(Budget::new(1 << 20, 0))).unwrap();
        let outcome = (0..PIECES).try_for_each(|number| {
            let mut piece = ByteBuffer::from(&number.to_be_bytes()[..]);
            writer.write(&file, &path, &mut piece, 8 * number)?;
            assert!(piece.is_empty(), "an empty piece comes back");
            assert!(writer.queue.state.lock().tasks.len() <= PIECES_MAX);
            Ok(())
        });
        writer.sync(UnsyncedTable::new(file, path));
        (outcome.and_then(|()| writer.finish()), sim)
    }

    /// What `finish` has acknowledged is durable, piece by piece.
    #[test]
    fn all_is_written_and_durable() {
        let (outcome, sim) = write_all(None);
        outcome.unwrap();
        let expected: Vec<u8> = (0..PIECES).flat_map(u64::to_be_bytes).collect();
        assert_eq!(sim.durable_content("/db/file").unwrap(), expected);
    }

    /// A failed write is reported, and nothing is written or synced after it.
    #[test]
    fn nothing_follows_a_failure() {
        for (step, failing, ends_writing) in [(step::TABLE_WRITE, 5, false), (step::TABLE_SYNC, 0, true)] {
            let passed = Mutex::new(Rank::Test, 0);
            let fault = Fault::new(Failure::Io).step(step).matching(move |_| {
                *passed.lock() += 1;
                *passed.lock() > failing
            });
            let (outcome, sim) = write_all(Some(fault));
            let error = outcome.expect_err("it failed");
            assert_eq!(matches!(error, Error::Stopped { .. }), ends_writing, "{error}");
            let counts = sim.step_counts();
            let writes = if ends_writing { PIECES } else { failing + 1 };
            assert_eq!(counts[&step::TABLE_WRITE], writes, "{step:?}");
            assert_eq!(counts.get(&step::TABLE_SYNC).copied().unwrap_or_default(), u64::from(ends_writing));
        }
    }
}
