//! Several reads at once, in the best way that the machine has.
//!
//! ```text
//! requests ──► parts: what fits one ring and one buffer ──► reads ──┬── Rings:    one system call        ┐
//!                                                                   ├── Threads:  a pool of them, if direct├──► outcomes ──► results
//!                                                                   └── OneByOne: neither                ┘
//! ```
//!
//! The first batch finds out whether io_uring works here; containers often forbid it. A read that a method did not do, that failed, or that
//! stopped early is done again as a single one, whose result counts: so every error, interruption and oddity of a method ends in the one
//! way that is well understood, and an error is still reported only if the plain read fails too.

use std::sync::{Arc, OnceLock};

use super::bounce::{BUFFER_BYTES_MAX, Bounces};
use super::read::{Read, Span};
#[cfg(target_os = "linux")]
use super::ring::Rings;
use super::threads::ReadThreads;
use crate::env::ReadRequest;
use crate::workers::Workers;

/// How many reads are carried out together at most; the depth of a ring.
const PART_READS_MAX: usize = 128;

/// A way to carry out a batch of reads ([`crate::Env::read_batch`]) on the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batching {
    /// One after the other.
    OneByOne,
    /// By a pool of threads, if the files bypass the page cache; else one after the other.
    Threads,
    /// Through io_uring; where that is not to be had, one after the other.
    Rings,
}

impl Batching {
    /// The best that works here: `Rings`, or else `Threads`. Asks the kernel each time.
    pub fn best() -> Self {
        #[cfg(target_os = "linux")]
        if Rings::probe().is_ok() {
            return Self::Rings;
        }
        Self::Threads
    }
}

/// Carries out batches for one environment.
#[derive(Debug)]
pub(super) struct Batches {
    /// `None` for the best.
    wanted: Option<Batching>,
    /// Made for the first batch.
    method: OnceLock<Method>,
    bounces: Arc<Bounces>,
}

#[derive(Debug)]
enum Method {
    OneByOne,
    Threads(ReadThreads),
    #[cfg(target_os = "linux")]
    Rings(Rings),
}

impl Batches {
    /// In the way that is wanted, or the best one.
    pub(super) fn new(wanted: Option<Batching>, bounces: Arc<Bounces>) -> Self {
        Self { wanted, method: OnceLock::new(), bounces }
    }

    /// [`crate::Env::read_batch`].
    pub(super) fn read(&self, workers: &Workers, requests: &mut [ReadRequest<'_>]) {
        // One read gains nothing; and a file that is not the operating system's own, only it can read.
        if requests.len() < 2 || requests.iter().any(|request| request.file.descriptor().is_none()) {
            return requests.iter_mut().for_each(ReadRequest::read_alone);
        }
        let method = self.method.get_or_init(|| Method::choose(self.wanted, workers));
        if let Method::OneByOne = method {
            return requests.iter_mut().for_each(ReadRequest::read_alone);
        }
        let mut rest = requests;
        while !rest.is_empty() {
            let (part, later) = rest.split_at_mut(part_length(rest));
            self.read_part(method, workers, part);
            rest = later;
        }
    }

    /// Carries out what one ring and one buffer can take.
    fn read_part(&self, method: &Method, workers: &Workers, part: &mut [ReadRequest<'_>]) {
        let mut bounce = self.bounces.take(part.iter().map(bounced_bytes).sum());
        let mut reads = reads(part, &mut bounce);
        match method {
            Method::OneByOne => {}
            Method::Threads(threads) => threads.read(workers, &mut reads),
            #[cfg(target_os = "linux")]
            Method::Rings(rings) => rings.read(&mut reads),
        }
        let outcomes: Vec<_> = reads.into_iter().map(|read| read.outcome).collect();
        let mut brought = &bounce[..];
        for (request, outcome) in part.iter_mut().zip(outcomes) {
            let bytes;
            (bytes, brought) = brought.split_at(bounced_bytes(request));
            settle(request, outcome, bytes);
        }
    }
}

impl Method {
    fn choose(wanted: Option<Batching>, workers: &Workers) -> Self {
        let threads = || ReadThreads::start(workers).map_or(Self::OneByOne, Self::Threads);
        match wanted {
            Some(Batching::OneByOne) => Self::OneByOne,
            Some(Batching::Threads) => threads(),
            Some(Batching::Rings) => Self::rings().unwrap_or(Self::OneByOne),
            None => Self::rings().unwrap_or_else(threads),
        }
    }

    #[cfg(target_os = "linux")]
    fn rings() -> Option<Self> {
        Rings::probe().ok().map(Self::Rings)
    }

    #[cfg(not(target_os = "linux"))]
    fn rings() -> Option<Self> {
        None
    }
}

/// How many of the requests fit together: at least one.
fn part_length(requests: &[ReadRequest<'_>]) -> usize {
    let mut bytes = 0;
    let fitting = requests.iter().take(PART_READS_MAX).take_while(|request| {
        bytes += bounced_bytes(request);
        bytes <= BUFFER_BYTES_MAX
    });
    fitting.count().max(1)
}

/// The aligned read that a request needs, if it is direct and not aligned itself.
fn span(request: &ReadRequest<'_>) -> Option<Span> {
    Span::around(request.file.direct_alignment()?, request.offset, request.buffer)
}

/// How much of the shared buffer a request takes.
fn bounced_bytes(request: &ReadRequest<'_>) -> usize {
    span(request).map_or(0, |span| span.length)
}

/// What the kernel is asked for: each read into its own part of `bounce`, or straight into the request's memory.
fn reads<'a>(part: &'a mut [ReadRequest<'_>], mut bounce: &'a mut [u8]) -> Vec<Read<'a>> {
    let mut reads = Vec::with_capacity(part.len());
    for request in part {
        let span = span(request);
        let Some(file) = request.file.descriptor() else { unreachable!("looked at before") };
        let is_direct = request.file.direct_alignment().is_some();
        let (offset, memory) = match span {
            None => (request.offset, &mut *request.buffer),
            Some(span) => {
                let memory;
                (memory, bounce) = bounce.split_at_mut(span.length);
                (span.start, memory)
            }
        };
        reads.push(Read { file, offset, memory, is_direct, outcome: None });
    }
    reads
}

/// Fills in a request's result. `bytes` is its part of the shared buffer, if it needed one.
fn settle(request: &mut ReadRequest<'_>, outcome: Option<usize>, bytes: &[u8]) {
    match (outcome, span(request)) {
        (Some(count), None) => request.result = Ok(count),
        (Some(count), Some(span)) if span.is_decided_by(count) => {
            request.result = Ok(span.copy_wanted(&bytes[..count], request.buffer));
        }
        _ => request.read_alone(),
    }
}
