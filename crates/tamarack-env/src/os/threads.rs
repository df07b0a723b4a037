//! Reads by a number of threads at once: for systems where io_uring is not to be had.
//!
//! Each direct read of a batch becomes a job; the caller waits until all of its jobs are done. Reads through the page cache stay with
//! the caller: most of them find their bytes there, which takes less time than to wake a thread.
//!
//! A job owns all that it needs, its memory and a descriptor of its own, so no thread ever holds on to anything of a caller's. That costs a
//! copy and two system calls, which is little beside waking a thread.
//!
//! The threads are background workers of the environment (`workers`), started with the first batch and ended with the environment.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::read::Read;
use crate::aligned::AlignedBuffer;
use crate::env::{Event, Progress, Work, Worker};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::workers::Workers;

/// How many threads read. They wait nearly all of the time, so this is a depth for the device rather than a number of cores. In a trial on a
/// virtual disk and two cores, ten reads took 339, 237, 184 and 156 µs with 2, 4, 8 and 16 of them, and a hundred 3.3, 2.1, 1.4 and 1.1 ms.
const THREADS: usize = 16;

/// The threads, and what they have to do.
pub(super) struct ReadThreads {
    jobs: Arc<Jobs>,
    workers: Vec<Arc<dyn Worker>>,
}

/// What waits for a thread.
#[derive(Default)]
struct Jobs(Mutex<VecDeque<Job>>);

/// One read.
struct Job {
    file: OwnedFd,
    offset: u64,
    memory: AlignedBuffer,
    /// Its place in the batch.
    index: usize,
    batch: Arc<Batch>,
}

/// What came of a batch so far.
struct Batch {
    /// Which read, the memory it used, and how many bytes it brought there, if it did not fail.
    done: Mutex<Vec<(usize, AlignedBuffer, Option<usize>)>>,
    unfinished: AtomicUsize,
    finished: Event,
}

impl ReadThreads {
    /// As many threads as the system gives, up to [`THREADS`]; `None` if it gives none.
    pub(super) fn start(workers: &Workers) -> Option<Self> {
        let jobs: Arc<Jobs> = Arc::default();
        let start = |number| workers.start(&format!("tamarack read {number}"), jobs.clone());
        let started: Vec<_> = (0..THREADS).map_while(|number| start(number).ok()).collect();
        (!started.is_empty()).then(|| Self { jobs: jobs.clone(), workers: started })
    }

    /// Carries out the direct ones among `reads`. Those that fail keep no outcome. `workers` must be those that started the threads.
    pub(super) fn read(&self, workers: &Workers, reads: &mut [Read<'_>]) {
        let batch = Arc::new(Batch {
            done: Mutex::new(Vec::with_capacity(reads.len())),
            unfinished: AtomicUsize::new(0),
            finished: Event::new(),
        });
        let jobs: Vec<_> = reads.iter().enumerate().filter_map(|(index, read)| Job::new(index, read, &batch)).collect();
        let count = jobs.len();
        batch.unfinished.store(count, Ordering::SeqCst);
        self.jobs.0.lock().extend(jobs);
        self.workers.iter().take(count).for_each(|worker| worker.wake());
        workers.wait(&batch.finished, None, &mut || batch.unfinished.load(Ordering::SeqCst) == 0);
        for (index, memory, outcome) in batch.done.lock().drain(..) {
            let (read, count) = (&mut reads[index], outcome.unwrap_or(0));
            read.memory[..count].copy_from_slice(&memory[..count]);
            read.outcome = outcome;
        }
    }
}

impl Job {
    /// The job for a direct read; `None` for any other, and where there is no descriptor left.
    fn new(index: usize, read: &Read<'_>, batch: &Arc<Batch>) -> Option<Self> {
        let file = read.is_direct.then(|| read.file.try_clone_to_owned())?.ok()?;
        let memory = AlignedBuffer::zeroed(read.memory.len());
        Some(Self { file, offset: read.offset, memory, index, batch: batch.clone() })
    }

    fn run(mut self) {
        let outcome = rustix::io::pread(&self.file, &mut *self.memory, self.offset).ok();
        self.batch.done.lock().push((self.index, self.memory, outcome));
        if self.batch.unfinished.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.batch.finished.notify();
        }
    }
}

impl Work for Jobs {
    fn step(&self) -> Progress {
        // Its own statement: the lock must be free while the job runs.
        let job = self.0.lock().pop_front();
        match job {
            Some(job) => {
                job.run();
                Progress::More
            }
            None => Progress::Idle,
        }
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.workers.iter().for_each(|worker| worker.stop());
    }
}

impl fmt::Debug for ReadThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadThreads").field("threads", &self.workers.len()).finish_non_exhaustive()
    }
}
