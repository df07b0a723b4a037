//! One slice: operations of one row on one store, until the time or the list is over.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::machine::{self, thread_cpu_ns};
use serde::{Deserialize, Serialize};
use tamarack_env::histogram::Histogram;

use crate::data::{Data, Random};
use crate::rows::{Keys, Operation, Row, Work};
use crate::stores::{Seen, Store};

/// What one slice gave; costs are those of one operation.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Sample {
    pub ops_per_s: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    /// Processor time of the threads of the row.
    pub cpu_ns: f64,
    /// Blocks read, if the store can tell, and bytes that the process read from the device.
    pub blocks: Option<f64>,
    pub device_bytes: f64,
    pub operations: usize,
}

/// What one thread has found after every so many operations: the sums of [`Seen`].
pub type Marks = Vec<u64>;

const MARK: usize = 256;

/// A store, and what is needed to use it.
pub struct Bench<'a> {
    pub store: &'a dyn Store,
    pub data: &'a Data,
    pub noise: &'a [u8],
    /// Whether blocks come from the device.
    pub direct_io: bool,
}

impl Bench<'_> {
    /// Does `works`, a thread for each, for so long at most.
    pub fn run(&self, row: &Row, works: &[Work], time: Duration) -> (Sample, Vec<Ran>) {
        let (start_line, over) = (Barrier::new(works.len()), AtomicBool::new(false));
        let (io, blocks) = (machine::io(), self.store.block_reads());
        let ran: Vec<Ran> = thread::scope(|scope| {
            if row.beside_puts_per_s > 0 {
                scope.spawn(|| self.write_beside(row.beside_puts_per_s, &over));
            }
            let threads: Vec<_> = works
                .iter()
                .map(|work| {
                    let start_line = &start_line;
                    scope.spawn(move || {
                        start_line.wait();
                        self.work_through(row, work, time)
                    })
                })
                .collect();
            let ran = threads.into_iter().map(|thread| thread.join().expect("a thread's failure ends the measurement"));
            let ran = ran.collect();
            over.store(true, Ordering::Relaxed);
            ran
        });
        let device_bytes = machine::io().read_bytes - io.read_bytes;
        let of_all = self.store.block_reads().zip(blocks).map(|(after, before)| after - before);
        let blocks = if self.store.counts_by_thread() { ran.iter().map(|ran| ran.blocks).sum() } else { of_all };
        (sum_up(&ran, blocks, device_bytes), ran)
    }

    fn work_through(&self, row: &Row, work: &Work, time: Duration) -> Ran {
        let Self { store, data, noise, .. } = *self;
        let (mut seen, mut latencies, mut marks) = (Seen::default(), Histogram::default(), Marks::new());
        // The clock takes as long as a tenth of a fast get.
        let timed_of = if row.scans() || (self.direct_io && row.keys != Keys::Absent) { 1 } else { 8 };
        let (blocks_before, cpu_before, began) = (store.block_reads(), thread_cpu_ns(), Instant::now());
        let mut operations = 0;
        for (operation, key, number) in work.iter() {
            let before = (operations % timed_of == 0).then(Instant::now);
            match operation {
                Operation::Get => store.get(key, &mut seen),
                Operation::Scan { limit, reverse } => store.scan(key, limit.into(), reverse, &mut seen),
                Operation::ScanUpTo(_) => unreachable!("limits are drawn when work is made"),
                Operation::Put | Operation::Insert => store.put(key, data.value(noise, number)),
                Operation::ReadModifyWrite => {
                    store.get(key, &mut seen);
                    store.put(key, data.value(noise, number));
                }
            }
            operations += 1;
            if operations % MARK == 0 {
                marks.push(seen.sum);
            }
            if let Some(before) = before {
                let now = Instant::now();
                latencies.note(now - before);
                if now - began >= time {
                    break;
                }
            }
        }
        let (ended, cpu_ns) = (Instant::now(), thread_cpu_ns() - cpu_before);
        let blocks = store.block_reads().zip(blocks_before).map(|(after, before)| after - before);
        Ran { operations, marks, began, ended, cpu_ns, blocks, latencies }
    }

    /// Overwrites entries with their present values, at a fixed rate; those due within a
    /// millisecond come together.
    fn write_beside(&self, puts_per_s: u64, over: &AtomicBool) {
        let (mut random, began, mut put) = (Random::new(7), Instant::now(), 0);
        while !over.load(Ordering::Relaxed) {
            let due = (began.elapsed().as_secs_f64() * puts_per_s as f64) as u64;
            for _ in put..due {
                let number = random.below(self.data.entries);
                self.store.put(&self.data.key(number), self.data.value(self.noise, number));
            }
            put = due;
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What one thread did.
pub struct Ran {
    /// How many of its operations.
    pub operations: usize,
    pub marks: Marks,
    began: Instant,
    ended: Instant,
    cpu_ns: u64,
    blocks: Option<u64>,
    latencies: Histogram,
}

fn sum_up(ran: &[Ran], blocks: Option<u64>, device_bytes: u64) -> Sample {
    let began = ran.iter().map(|ran| ran.began).min().expect("there is a thread");
    let ended = ran.iter().map(|ran| ran.ended).max().expect("there is a thread");
    let operations: usize = ran.iter().map(|ran| ran.operations).sum();
    let mut latencies = Histogram::default();
    ran.iter().for_each(|ran| latencies.add(&ran.latencies));
    let each = |count: u64| count as f64 / operations as f64;
    Sample {
        ops_per_s: operations as f64 / (ended - began).as_secs_f64(),
        p50_ns: latencies.percentile_ns(500),
        p99_ns: latencies.percentile_ns(990),
        cpu_ns: each(ran.iter().map(|ran| ran.cpu_ns).sum()),
        blocks: blocks.map(each),
        device_bytes: each(device_bytes),
        operations,
    }
}
