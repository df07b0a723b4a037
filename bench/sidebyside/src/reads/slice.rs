//! One slice: a fixed number of operations of one row on one store, timed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::data::{Data, Random};
use super::rows::{Operation, Row, Work};
use super::stores::{Seen, Store};
use crate::latency::Latencies;
use crate::machine;

/// What one slice gave.
#[derive(Clone, Debug)]
pub struct Sample {
    pub ops_per_s: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    /// Processor time of the threads that read, for each operation.
    pub cpu_ns: f64,
    /// Blocks read for each operation, if the store can tell.
    pub blocks: Option<f64>,
    /// Bytes that the process read from the device, for each operation.
    pub device_bytes: f64,
    pub seen: Seen,
}

/// So many operations of a slice are timed, spread over all of them: the clock takes as long as a tenth of a fast get.
const TIMED: usize = 10_000;

/// Does `works`, a thread for each.
pub fn run(store: &dyn Store, row: &Row, works: &[Work], data: &Data, noise: &[u8]) -> Sample {
    let (start_line, ended) = (Barrier::new(works.len()), AtomicBool::new(false));
    let io = machine::io();
    let ran: Vec<Ran> = thread::scope(|scope| {
        if row.beside_puts_per_s > 0 {
            scope.spawn(|| write_beside(store, row.beside_puts_per_s, &ended, data, noise));
        }
        let readers: Vec<_> = works
            .iter()
            .map(|work| {
                let start_line = &start_line;
                scope.spawn(move || {
                    start_line.wait();
                    read(store, work, data, noise)
                })
            })
            .collect();
        let ran = readers.into_iter().map(|reader| reader.join().expect("a reader's failure ends the measurement"));
        let ran = ran.collect();
        ended.store(true, Ordering::Relaxed);
        ran
    });
    let device_bytes = machine::io().bytes - io.bytes;
    sum_up(&ran, works.iter().map(|work| work.numbers.len()).sum(), device_bytes)
}

/// What one thread did.
struct Ran {
    began: Instant,
    ended: Instant,
    cpu_ns: u64,
    blocks: Option<u64>,
    latencies: Latencies,
    seen: Seen,
}

fn read(store: &dyn Store, work: &Work, data: &Data, noise: &[u8]) -> Ran {
    let (mut seen, mut latencies) = (Seen::default(), Latencies::new());
    let timed_of = (work.numbers.len() / TIMED).max(1);
    let blocks_before = store.block_reads();
    let (cpu_before, began) = (cpu_ns(), Instant::now());
    for (n, (key, number)) in work.iter().enumerate() {
        let before = (n % timed_of == 0).then(Instant::now);
        match work.operation {
            Operation::Get => store.get(key, &mut seen),
            Operation::Scan { limit, reverse } => store.scan(key, limit, reverse, &mut seen),
            Operation::Mixed { .. } if work.puts[n] => store.put(key, data.value(noise, number)),
            Operation::Mixed { .. } => store.get(key, &mut seen),
        }
        if let Some(before) = before {
            latencies.add(before.elapsed().as_nanos() as u64);
        }
    }
    let (ended, cpu_ns) = (Instant::now(), cpu_ns() - cpu_before);
    let blocks = store.block_reads().zip(blocks_before).map(|(after, before)| after - before);
    Ran { began, ended, cpu_ns, blocks, latencies, seen }
}

/// Overwrites entries with the values that they have, at a fixed rate; those that are due within a millisecond come together.
fn write_beside(store: &dyn Store, puts_per_s: u64, ended: &AtomicBool, data: &Data, noise: &[u8]) {
    let (mut random, began, mut put) = (Random::new(7), Instant::now(), 0);
    while !ended.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * puts_per_s as f64) as u64;
        for _ in put..due {
            let number = random.below(data.entries);
            store.put(&data.key(number), data.value(noise, number));
        }
        put = due;
        thread::sleep(Duration::from_millis(1));
    }
}

fn sum_up(ran: &[Ran], operations: usize, device_bytes: u64) -> Sample {
    let began = ran.iter().map(|ran| ran.began).min().expect("there is a thread");
    let ended = ran.iter().map(|ran| ran.ended).max().expect("there is a thread");
    let (mut latencies, mut seen) = (Latencies::new(), Seen::default());
    for ran in ran {
        latencies.merge(&ran.latencies);
        seen.entries += ran.seen.entries;
        seen.sum += ran.seen.sum;
    }
    let each = |count: u64| count as f64 / operations as f64;
    // A store counts for all threads or for one; all rows that read storage have one.
    let blocks = ran.iter().map(|ran| ran.blocks).sum::<Option<u64>>();
    Sample {
        ops_per_s: operations as f64 / (ended - began).as_secs_f64(),
        p50_ns: latencies.quantile_ns(0.5),
        p99_ns: latencies.quantile_ns(0.99),
        cpu_ns: each(ran.iter().map(|ran| ran.cpu_ns).sum()),
        blocks: blocks.map(each),
        device_bytes: each(device_bytes),
        seen,
    }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
