//! Puts and gets by several threads at once, each of them timed.
//!
//! The clock is read once per operation: the end of one is the begin of the next. Latencies go into
//! histograms, one for puts and one for gets per thread, so memory does not grow with the work.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use common::machine::thread_cpu_ns;
use tamarack_env::histogram::Histogram;

use crate::data::Data;
use crate::stores::{Seen, Store};

/// What is done with an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Put,
    Get,
}

/// Puts that one thread has done, for whoever samples them meanwhile. Each has a cache line of its
/// own, so that threads do not slow each other down by counting.
#[derive(Default, Debug)]
#[repr(align(128))]
pub struct Done(AtomicU64);

impl Done {
    /// One for each thread.
    pub fn of(threads: usize) -> Vec<Self> {
        (0..threads).map(|_| Self::default()).collect()
    }

    /// Says how many puts the thread has done so far.
    pub fn set(&self, puts: u64) {
        self.0.store(puts, Ordering::Relaxed);
    }

    /// Puts of all threads.
    pub fn sum(all: &[Self]) -> u64 {
        all.iter().map(|done| done.0.load(Ordering::Relaxed)).sum()
    }
}

/// What all threads did.
#[derive(Default, Debug)]
pub struct Driven {
    /// From the first operation to the end of the last.
    pub seconds: f64,
    pub puts: Histogram,
    pub gets: Histogram,
    /// Processor time of the threads.
    pub cpu_ns: u64,
}

/// Works through `work(0)`, `work(1)`, …, a thread for each element of `done`. A put stores the
/// value that the entry always has. A get must find it.
pub fn drive<Work: Iterator<Item = (Access, u64)>>(
    store: &dyn Store,
    data: &Data,
    noise: &[u8],
    work: impl Fn(usize) -> Work + Sync,
    done: &[Done],
) -> Driven {
    let start_line = Barrier::new(done.len() + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = done
            .iter()
            .enumerate()
            .map(|(thread, done)| {
                let (start_line, work) = (&start_line, &work);
                scope.spawn(move || {
                    start_line.wait();
                    drive_one(store, data, noise, work(thread), done)
                })
            })
            .collect();
        start_line.wait();
        let (began, mut all) = (Instant::now(), Driven::default());
        for thread in threads {
            let one = thread.join().expect("a thread's failure ends the measurement");
            all.puts.add(&one.puts);
            all.gets.add(&one.gets);
            all.cpu_ns += one.cpu_ns;
        }
        Driven { seconds: began.elapsed().as_secs_f64(), ..all }
    })
}

fn drive_one(
    store: &dyn Store,
    data: &Data,
    noise: &[u8],
    work: impl Iterator<Item = (Access, u64)>,
    done: &Done,
) -> Driven {
    let (mut driven, mut key, mut seen, mut gets) = (Driven::default(), Vec::new(), Seen::default(), 0);
    let (cpu_ns, mut before) = (thread_cpu_ns(), Instant::now());
    for (access, n) in work {
        key.clear();
        data.push_key(n, &mut key);
        let latencies = match access {
            Access::Put => {
                store.put(&key, data.value(noise, n));
                done.set(driven.puts.samples() + 1);
                &mut driven.puts
            }
            Access::Get => {
                store.get(&key, &mut seen);
                gets += 1;
                &mut driven.gets
            }
        };
        let after = Instant::now();
        latencies.note(after - before);
        before = after;
    }
    assert_eq!(seen.entries, gets, "every entry that is looked up is stored");
    driven.cpu_ns = thread_cpu_ns() - cpu_ns;
    driven
}
