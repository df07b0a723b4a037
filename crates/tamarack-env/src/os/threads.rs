//! Reads by a thread pool: for systems without io_uring.
//!
//! Each direct read of a queue becomes a job; the caller hands over finished reads, and waits when
//! there are none. The caller carries out reads through the page cache itself: most of them find
//! their bytes there, which takes less time than waking a thread.
//!
//! A job owns everything it needs, so no thread refers to anything of a caller. That costs an
//! allocation, which is cheap beside waking a thread.
//!
//! The threads are background workers of the environment (`workers`), started with the first queue
//! and ended with the environment.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::buffer::ByteBuffer;
use crate::env::{Event, Progress, ReadQueue, ReadRequest, Work, Worker};
use crate::sync::{Mutex, Rank};
use crate::workers::Workers;

/// Number of reading threads. They wait nearly all of the time, so this is a depth for the device
/// rather than a number of cores. In a trial on a virtual disk and two cores, ten reads took 339,
/// 237, 184 and 156 µs with 2, 4, 8 and 16 of them, and a hundred 3.3, 2.1, 1.4 and 1.1 ms.
const THREADS: usize = 16;

/// Upper bound on the reads of one queue that wait for a thread or are with one.
const JOBS_MAX: usize = 128;

/// The threads and their jobs.
pub(super) struct ReadThreads {
    jobs: Arc<Jobs>,
    workers: Vec<Arc<dyn Worker>>,
}

/// Jobs that wait for a thread.
struct Jobs(Mutex<VecDeque<Job>>);

/// One read.
struct Job {
    request: ReadRequest,
    number: usize,
    queue: Arc<Done>,
}

/// Finished reads of one queue that have not been handed over.
struct Done {
    reads: Mutex<Vec<Brought>>,
    happened: Event,
}

/// The number of a read, and its result.
type Brought = (usize, io::Result<ByteBuffer>);

impl ReadThreads {
    /// Starts up to [`THREADS`] threads, or as many as the system gives; `None` if it gives none.
    pub(super) fn start(workers: &Workers) -> Option<Self> {
        let jobs = Arc::new(Jobs(Mutex::new(Rank::ReadJobs, VecDeque::new())));
        let start = |number| workers.start(&format!("tamarack read {number}"), jobs.clone());
        let started: Vec<_> = (0..THREADS).map_while(|number| start(number).ok()).collect();
        (!started.is_empty()).then(|| Self { jobs: jobs.clone(), workers: started })
    }

    /// [`crate::Env::read_queue`]. `workers` must be those that started the threads.
    pub(super) fn read_queue(&self, workers: &Workers, queue: &mut dyn ReadQueue) {
        let done = Arc::new(Done { reads: Mutex::new(Rank::ReadsDone, Vec::new()), happened: Event::new() });
        let (mut number, mut unfinished) = (0, 0);
        loop {
            while unfinished < JOBS_MAX
                && let Some(request) = queue.next()
            {
                if request.file.direct_alignment().is_none() {
                    request.read_alone(number, queue);
                } else {
                    self.jobs.0.lock().push_back(Job { request, number, queue: done.clone() });
                    self.workers[number % self.workers.len()].wake();
                    unfinished += 1;
                }
                number += 1;
            }
            if unfinished == 0 {
                return;
            }
            workers.wait(&done.happened, None, &mut || !done.reads.lock().is_empty());
            let brought = std::mem::take(&mut *done.reads.lock());
            unfinished -= brought.len();
            for (number, outcome) in brought {
                match outcome {
                    Ok(bytes) => queue.arrived(number, Ok(&bytes)),
                    Err(error) => queue.arrived(number, Err(error)),
                }
            }
        }
    }
}

impl Job {
    fn run(self) {
        let mut memory = ByteBuffer::zeroed(self.request.bytes);
        let outcome = self.request.file.read_exact_at(&mut memory, self.request.offset);
        self.queue.reads.lock().push((self.number, outcome.map(|()| memory)));
        self.queue.happened.notify();
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
