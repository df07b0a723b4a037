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
    /// Gets among the operations; 0 in figures that were kept before gets were counted.
    #[serde(default)]
    pub gets: usize,
}

/// What one thread has found after every so many operations: the sums of [`Seen`].
pub type Marks = Vec<u64>;

const MARK: usize = 256;

/// How long a slice takes at most.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Before anything is measured.
    pub warm: Duration,
    pub measured: Duration,
}

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
    pub fn run(&self, row: &Row, works: &[Work], times: Times) -> (Sample, Vec<Ran>) {
        let (start_line, over) = (Barrier::new(works.len()), AtomicBool::new(false));
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
                        self.work_through(row, work, times)
                    })
                })
                .collect();
            let ran = threads.into_iter().map(|thread| thread.join().expect("a thread's failure ends the measurement"));
            let ran = ran.collect();
            over.store(true, Ordering::Relaxed);
            ran
        });
        (sum_up(&ran, self.store.counts_by_thread()), ran)
    }

    /// The warm-up ends with its time, or with its share of the operations if the store is so fast.
    fn work_through(&self, row: &Row, work: &Work, Times { warm, measured }: Times) -> Ran {
        let (mut operations, mut so_far) = (work.iter(), Progress::default());
        if !warm.is_zero() {
            let share = warm.as_secs_f64() / (warm + measured).as_secs_f64();
            let warming = (work.numbers.len() as f64 * share) as usize;
            self.work_for(row, operations.by_ref().take(warming), warm, &mut so_far);
        }
        let measured = self.work_for(row, operations, measured, &mut so_far);
        Ran { operations: so_far.operations, marks: so_far.marks, measured }
    }

    /// Does operations for so long at most.
    fn work_for<'a>(
        &self,
        row: &Row,
        work: impl Iterator<Item = (Operation, &'a [u8], u64)>,
        time: Duration,
        so_far: &mut Progress,
    ) -> Measured {
        let Self { store, data, noise, .. } = *self;
        let (first, mut gets, mut latencies) = (so_far.operations, 0, Histogram::default());
        // The clock takes as long as a tenth of a fast get.
        let timed_of = if row.scans() || (self.direct_io && row.keys != Keys::Absent) { 1 } else { 8 };
        let (reads_before, cpu_before, began) = (ReadSoFar::of(store), thread_cpu_ns(), Instant::now());
        for (operation, key, number) in work {
            let before = so_far.operations.is_multiple_of(timed_of).then(Instant::now);
            let seen = &mut so_far.seen;
            match operation {
                Operation::Get => store.get(key, seen),
                Operation::Scan { limit, reverse } => store.scan(key, limit.into(), reverse, seen),
                Operation::ScanUpTo(_) => unreachable!("limits are drawn when work is made"),
                Operation::Put | Operation::Insert => store.put(key, data.value(noise, number)),
                Operation::ReadModifyWrite => {
                    store.get(key, seen);
                    store.put(key, data.value(noise, number));
                }
            }
            gets += usize::from(matches!(operation, Operation::Get | Operation::ReadModifyWrite));
            so_far.operations += 1;
            if so_far.operations.is_multiple_of(MARK) {
                so_far.marks.push(so_far.seen.sum);
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
        let operations = so_far.operations - first;
        Measured { operations, gets, began, ended, cpu_ns, reads_before, reads_after: ReadSoFar::of(store), latencies }
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
    /// How many of its operations, warm-up included.
    pub operations: usize,
    pub marks: Marks,
    measured: Measured,
}

/// How far one thread has come.
#[derive(Default)]
struct Progress {
    operations: usize,
    seen: Seen,
    marks: Marks,
}

/// What was measured of one thread.
struct Measured {
    operations: usize,
    gets: usize,
    began: Instant,
    ended: Instant,
    cpu_ns: u64,
    reads_before: ReadSoFar,
    reads_after: ReadSoFar,
    latencies: Histogram,
}

/// Blocks that the store has read, of the calling thread or of all, and bytes of the process.
struct ReadSoFar {
    blocks: Option<u64>,
    device_bytes: u64,
}

impl ReadSoFar {
    fn of(store: &dyn Store) -> Self {
        Self { blocks: store.block_reads(), device_bytes: machine::io().read_bytes }
    }
}

fn sum_up(ran: &[Ran], counts_by_thread: bool) -> Sample {
    let all = || ran.iter().map(|ran| &ran.measured);
    let began = all().map(|one| one.began).min().expect("there is a thread");
    let ended = all().map(|one| one.ended).max().expect("there is a thread");
    let operations: usize = all().map(|one| one.operations).sum();
    let mut latencies = Histogram::default();
    all().for_each(|one| latencies.add(&one.latencies));
    let before = || all().map(|one| &one.reads_before);
    let after = || all().map(|one| &one.reads_after);
    let device_bytes = after().map(|read| read.device_bytes).max().zip(before().map(|read| read.device_bytes).min());
    let blocks = if counts_by_thread {
        after().zip(before()).map(|(after, before)| Some(after.blocks? - before.blocks?)).sum()
    } else {
        let of_all = after().filter_map(|read| read.blocks).max().zip(before().filter_map(|read| read.blocks).min());
        of_all.map(|(after, before)| after - before)
    };
    let each = |count: u64| count as f64 / operations as f64;
    Sample {
        ops_per_s: operations as f64 / (ended - began).as_secs_f64(),
        p50_ns: latencies.percentile_ns(500),
        p99_ns: latencies.percentile_ns(990),
        cpu_ns: each(all().map(|one| one.cpu_ns).sum()),
        blocks: blocks.map(each),
        device_bytes: each(device_bytes.map_or(0, |(after, before)| after - before)),
        operations,
        gets: all().map(|one| one.gets).sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::RwLock;

    use super::*;
    use crate::rows::Maker;

    /// Entries in memory. Each get takes a millisecond, and reads a block.
    #[derive(Default)]
    struct SlowMap {
        entries: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
        gets: std::sync::atomic::AtomicU64,
    }

    impl Store for SlowMap {
        fn put(&self, key: &[u8], value: &[u8]) {
            self.entries.write().unwrap().insert(key.to_vec(), value.to_vec());
        }

        fn flush(&self) {}

        fn settle(&self) -> Duration {
            Duration::ZERO
        }

        fn get(&self, key: &[u8], seen: &mut Seen) {
            thread::sleep(Duration::from_millis(1));
            self.gets.fetch_add(1, Ordering::Relaxed);
            if let Some(value) = self.entries.read().unwrap().get(key) {
                seen.value(value);
            }
        }

        fn scan(&self, _: &[u8], _: usize, _: bool, _: &mut Seen) {}

        fn tree(&self) -> String {
            String::new()
        }

        fn block_reads(&self) -> Option<u64> {
            Some(self.gets.load(Ordering::Relaxed))
        }
    }

    /// Operations of the warm-up count for answers, and for nothing that is measured.
    #[test]
    fn a_warm_up_is_not_measured() {
        let data = Data { name: "test", prefix: "", value_bytes: 10, entries: 100, sequential: false };
        let (store, noise) = (SlowMap::default(), common::numbers::noise());
        (0..data.entries).for_each(|n| store.put(&data.key(n), data.value(&noise, n)));
        let bench = Bench { store: &store, data: &data, noise: &noise, direct_io: true };
        let row = Row { threads: 2, ..Row::new("test", Keys::Zipfian, &[(50, Operation::Get), (50, Operation::Put)]) };
        let works = Maker::new(data).slice(&row, 1, 4 * MARK);

        // Each thread has two marks' operations, and a quarter of the time, so of them, is warm-up.
        let hour = Duration::from_secs(3600);
        let (sample, ran) = bench.run(&row, &works, Times { warm: hour, measured: 3 * hour });
        assert_eq!(ran.iter().map(|ran| (ran.operations, ran.marks.len())).collect::<Vec<_>>(), [(2 * MARK, 2); 2]);
        assert_eq!(sample.operations, 3 * MARK);
        let gets = |operations: &[Operation]| operations.iter().filter(|one| **one == Operation::Get).count();
        assert_eq!(sample.gets, works.iter().map(|work| gets(&work.operations[MARK / 2..])).sum::<usize>());
        // A thread may read while the other still warms up.
        let blocks = sample.blocks.unwrap() * sample.operations as f64;
        assert!(blocks >= sample.gets as f64 - 0.5, "{blocks} {sample:?}");

        let (cold, _) = bench.run(&row, &works, Times { warm: Duration::ZERO, measured: hour });
        assert_eq!(cold.operations, 4 * MARK);
        assert!((cold.blocks.unwrap() * cold.operations as f64 - cold.gets as f64).abs() < 0.5, "{cold:?}");
    }
}
