//! The memtable beside `crossbeam-skiplist`: nanoseconds per insert and per get of 16-byte keys
//! with 100-byte values.
//!
//! `cargo run --release -p buffer [ROUNDS [STRUCTURE [WORKLOAD]]]` prints a table of medians and
//! minima over the rounds. With a structure (`tamarack` or `crossbeam`) and a workload (`random 1`,
//! ...) only that combination runs, for use under a profiler.
//!
//! A key is a number of eight big-endian bytes, and its complement. Sequential threads share one
//! ascending order, as the writers of one WAL do: thread t of n inserts t, t + n, t + 2n, and so
//! on. crossbeam's map holds (key, reversed sequence number) and the value as boxed slices, which
//! it must allocate; the memtable copies into its arena.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::thread;
use std::time::Instant;

use crossbeam_skiplist::SkipMap;
use tamarack::internals::Memtable;
use tamarack::internals::Query;
use tamarack_format::entry::{Entry, EntryKind, Sequence};

const ENTRIES: u64 = 500_000;
const VALUE: [u8; 100] = [7; 100];

/// What both structures can do.
trait Structure: Sync {
    fn new() -> Self;
    fn insert(&self, key: &[u8], sequence: u64);
    fn get(&self, key: &[u8]) -> bool;
}

impl Structure for Memtable {
    fn new() -> Self {
        Memtable::new()
    }

    fn insert(&self, key: &[u8], sequence: u64) {
        Memtable::insert(self, Entry { key, sequence: Sequence(sequence), kind: EntryKind::Put, value: &VALUE });
    }

    fn get(&self, key: &[u8]) -> bool {
        let query = Query::new(key, Sequence::MAX);
        Memtable::get(self, query, &mut |entry| {
            assert_eq!(entry.value.len(), VALUE.len());
            ControlFlow::Break(())
        })
        .is_break()
    }
}

impl Structure for SkipMap<(Box<[u8]>, Reverse<u64>), Box<[u8]>> {
    fn new() -> Self {
        SkipMap::new()
    }

    fn insert(&self, key: &[u8], sequence: u64) {
        SkipMap::insert(self, (key.into(), Reverse(sequence)), VALUE.into());
    }

    fn get(&self, key: &[u8]) -> bool {
        let place = (key.into(), Reverse(u64::MAX));
        self.lower_bound(std::ops::Bound::Included(&place)).is_some_and(|entry| *entry.key().0 == *key)
    }
}

#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    random: bool,
    threads: u64,
}

const WORKLOADS: [Workload; 4] = [
    Workload { name: "random 1", random: true, threads: 1 },
    Workload { name: "random 2", random: true, threads: 2 },
    Workload { name: "sequential 1", random: false, threads: 1 },
    Workload { name: "sequential 2", random: false, threads: 2 },
];

impl Workload {
    fn key(self, number: u64) -> [u8; 16] {
        // Multiplication by an odd number permutes; the rotation moves the well-mixed high bits of
        // the product down.
        let number = if self.random { number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) } else { number };
        let number = if self.random { number.wrapping_mul(0xd6e8_feb8_6659_fd93) } else { number };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key[8..].copy_from_slice(&(!number).to_be_bytes());
        key
    }

    /// Wall time per insert and per get, in nanoseconds.
    fn run<M: Structure>(self) -> (f64, f64) {
        let table = M::new();
        let insert = self.timed(|number| table.insert(&self.key(number), number + 1));
        let get = self.timed(|number| assert!(table.get(&self.key(number * 7919 % ENTRIES))));
        (insert, get)
    }

    fn timed(self, each: impl Fn(u64) + Sync) -> f64 {
        let begin = Instant::now();
        thread::scope(|scope| {
            for thread in 0..self.threads {
                let each = &each;
                scope.spawn(move || (thread..ENTRIES).step_by(self.threads as usize).for_each(each));
            }
        });
        begin.elapsed().as_nanos() as f64 / ENTRIES as f64
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(5, |text| text.parse().expect("the number of rounds"));
    let (structure, workload) = (args.next(), args.next());
    println!(
        "{:<14}{:<12}{:>12}{:>12}{:>12}{:>12}",
        "workload", "structure", "insert ns", "(least)", "get ns", "(least)"
    );
    for each in WORKLOADS.iter().filter(|each| workload.as_ref().is_none_or(|name| name == each.name)) {
        for (name, run) in [
            ("tamarack", Workload::run::<Memtable> as fn(Workload) -> (f64, f64)),
            ("crossbeam", Workload::run::<SkipMap<(Box<[u8]>, Reverse<u64>), Box<[u8]>>>),
        ] {
            if structure.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let (inserts, gets): (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| run(*each)).unzip();
            let ((insert, insert_least), (get, get_least)) = (median_and_least(inserts), median_and_least(gets));
            println!("{:<14}{name:<12}{insert:>12.0}{insert_least:>12.0}{get:>12.0}{get_least:>12.0}", each.name);
        }
    }
}

fn median_and_least(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_unstable_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}
