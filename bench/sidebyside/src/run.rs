//! One run: a workload on a fresh database, timed.

use std::fs;
use std::io;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::engines::{Engine, Store};
use crate::latency::Latencies;
use crate::settings::Settings;
use crate::workload::{self, Workload};

/// What one run gave.
#[derive(Clone)]
pub struct Sample {
    pub ops_per_s: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
}

/// Runs `workload` on a database of `engine` that is made for it and removed afterwards.
pub fn run(engine: &dyn Engine, workload: &Workload, settings: &Settings) -> io::Result<Sample> {
    let dir = settings.dir.join(format!("sidebyside-{}-{}", std::process::id(), engine.name()));
    fs::create_dir_all(&dir)?;
    settle();
    let store = engine.open(&dir, workload, settings.buffer_bytes);
    let sample = fill(store.as_ref(), workload);
    spot_check(store.as_ref(), workload);
    drop(store);
    fs::remove_dir_all(&dir)?;
    Ok(sample)
}

/// Lets the machine finish writing what the previous run left, so that this one does not pay for it.
pub fn settle() {
    if let Err(error) = Command::new("sync").status() {
        eprintln!("sidebyside: cannot run `sync` between runs ({error}); they may disturb each other");
    }
}

fn fill(store: &dyn Store, workload: &Workload) -> Sample {
    let noise = workload::noise();
    let start_line = Barrier::new(workload.threads as usize + 1);
    let (seconds, latencies) = thread::scope(|scope| {
        let writers: Vec<_> = (0..workload.threads)
            .map(|thread| {
                scope.spawn({
                    let (noise, start_line) = (&noise, &start_line);
                    move || {
                        start_line.wait();
                        fill_share(store, workload, thread, noise)
                    }
                })
            })
            .collect();
        start_line.wait();
        let began = Instant::now();
        let mut all = Latencies::new();
        for writer in writers {
            all.merge(&writer.join().expect("a writer's failure ends the measurement"));
        }
        if workload.settled {
            store.settle();
        }
        (began.elapsed().as_secs_f64(), all)
    });
    Sample {
        ops_per_s: workload.entries as f64 / seconds,
        p50_ns: latencies.quantile_ns(0.5),
        p99_ns: latencies.quantile_ns(0.99),
    }
}

/// One thread's puts. The clock is read once per put: the end of one is the begin of the next.
fn fill_share(store: &dyn Store, workload: &Workload, thread: u64, noise: &[u8]) -> Latencies {
    let mut latencies = Latencies::new();
    let mut before = Instant::now();
    for n in (thread..workload.entries).step_by(workload.threads as usize) {
        store.put(&workload.key(n), workload::value(noise, n));
        let after = Instant::now();
        latencies.add((after - before).as_nanos() as u64);
        before = after;
    }
    latencies
}

/// What was put is there: a store that loses writes must not win.
fn spot_check(store: &dyn Store, workload: &Workload) {
    let noise = workload::noise();
    for n in (0..workload.entries).step_by((workload.entries / 100).max(1) as usize) {
        let found = store.get(&workload.key(n));
        assert_eq!(found.as_deref(), Some(workload::value(&noise, n)), "put {n} of {workload} is not there");
    }
}
