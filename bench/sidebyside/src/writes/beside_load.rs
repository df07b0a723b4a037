//! One thread that gets stored entries beside one that puts new ones.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::control::wait_until;
use common::machine::thread_cpu_ns;

use crate::data::{Data, Random};
use crate::drive::{Done, Driven};
use crate::stores::{Seen, Store};

/// Puts the entries of `new`, `puts_per_s` of them per second or one right after the other. Until
/// the last put has returned, another thread gets entries below `new`, uniformly drawn and one
/// right after the other. Returns what the thread that puts did, and the one that gets.
pub fn gets_beside_puts(
    store: &dyn Store,
    data: &Data,
    noise: &[u8],
    new: Range<u64>,
    puts_per_s: Option<f64>,
    seed: u64,
    done: &Done,
) -> (Driven, Driven) {
    let (over, stored) = (AtomicBool::new(false), new.start);
    thread::scope(|scope| {
        let gets = scope.spawn(|| gets(store, data, stored, Random::new(seed), &over));
        let puts = puts(store, data, noise, new, puts_per_s, done);
        over.store(true, Ordering::Relaxed);
        (puts, gets.join().expect("a failure to get ends the measurement"))
    })
}

/// At a rate, puts that are due within a millisecond come together, and the latency of each counts
/// from its call.
fn puts(store: &dyn Store, data: &Data, noise: &[u8], new: Range<u64>, puts_per_s: Option<f64>, done: &Done) -> Driven {
    let (mut driven, first) = (Driven::default(), new.start);
    let (cpu_ns, began) = (thread_cpu_ns(), Instant::now());
    let mut now = began;
    for n in new {
        if let Some(rate) = puts_per_s {
            now = wait_until(began + Duration::from_secs_f64((n - first) as f64 / rate), now);
        }
        store.put(&data.key(n), data.value(noise, n));
        let after = Instant::now();
        driven.puts.note(after - now);
        done.set(driven.puts.samples());
        now = after;
    }
    (driven.seconds, driven.cpu_ns) = ((now - began).as_secs_f64(), thread_cpu_ns() - cpu_ns);
    driven
}

fn gets(store: &dyn Store, data: &Data, stored: u64, mut random: Random, over: &AtomicBool) -> Driven {
    let (mut driven, mut seen, mut key) = (Driven::default(), Seen::default(), Vec::new());
    let (cpu_ns, began) = (thread_cpu_ns(), Instant::now());
    let mut now = began;
    while !over.load(Ordering::Relaxed) {
        key.clear();
        data.push_key(random.below(stored), &mut key);
        store.get(&key, &mut seen);
        let after = Instant::now();
        driven.gets.note(after - now);
        now = after;
    }
    assert_eq!(seen.entries, driven.gets.samples(), "every entry that is looked up is stored");
    (driven.seconds, driven.cpu_ns) = ((now - began).as_secs_f64(), thread_cpu_ns() - cpu_ns);
    driven
}
