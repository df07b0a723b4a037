//! What huge pages save random reads of small pieces on the heap, and what they cost.
//!
//! ```sh
//! cargo build --release -p tamarack-env --example huge_pages
//! target/release/examples/huge_pages 150000
//! target/release/examples/huge_pages 150000 thread
//! GLIBC_TUNABLES=glibc.malloc.hugetlb=1 target/release/examples/huge_pages 150000
//! ```
//!
//! Allocates so many pieces of about 4.2 KB, with small ones between them as the engine has, on the
//! main thread or on another one, which has another heap. Reads some lines of random ones,
//! collapses the regions that are mostly pieces, and reads again.

#![expect(clippy::disallowed_methods, reason = "a program that measures what the machine does")]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use tamarack_env::{HUGE_PAGE_BYTES, Random, collapse_pages};

const PIECE_BYTES: usize = 4200;
const READS: usize = 50_000;
const ROUNDS: usize = 21;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let pieces = arguments.next().map_or(1000, |text| text.parse().expect("how many pieces"));
    match arguments.next().as_deref() {
        Some("thread") => std::thread::spawn(move || measure(pieces)).join().expect("no panic"),
        _ => measure(pieces),
    }
}

fn measure(pieces: usize) {
    let random = Random::new(1);
    let below = |bound: usize| random.next() as usize % bound;
    let mut small: Vec<Vec<u8>> = Vec::new();
    let mut pieces: Vec<Vec<u8>> = (0..pieces)
        .map(|n| {
            small.push(vec![1; 208]);
            if n % 64 == 0 {
                small.push(vec![1; 1 + below(9000)]);
            }
            vec![n as u8; PIECE_BYTES - below(200)]
        })
        .collect();
    // As in a cache where others have taken the place of some.
    for _ in 0..pieces.len() / 2 {
        let at = below(pieces.len());
        pieces[at] = vec![7; PIECE_BYTES - below(200)];
    }
    println!("before: {}", read(&random, &pieces));

    let mut filled: HashMap<usize, usize> = HashMap::new();
    for piece in &pieces {
        *filled.entry(piece.as_ptr().addr() / HUGE_PAGE_BYTES).or_default() += piece.len();
    }
    let regions = filled.len();
    let mut full: Vec<_> = filled.into_iter().filter(|(_, bytes)| *bytes >= HUGE_PAGE_BYTES / 8 * 7).collect();
    full.sort_unstable();
    // One after the other, then neighbours together.
    let half = full.len() / 2;
    for (full, together) in [(&full[..half], 1), (&full[half..], 16)] {
        let (mut calls, mut done) = (0, 0);
        let (started, on_cpu_before) = (Instant::now(), on_cpu_us());
        for chunk in full.chunk_by(|a, b| a.0 + 1 == b.0).flat_map(|neighbours| neighbours.chunks(together)) {
            let start = chunk[0].0 * HUGE_PAGE_BYTES;
            done += chunk.len() * usize::from(collapse_pages(start..start + chunk.len() * HUGE_PAGE_BYTES));
            calls += 1;
        }
        println!(
            "collapsed {done} of {} full ones of {regions} regions by {calls} calls: {} us each region, {} us of them on the \
             processor",
            full.len(),
            started.elapsed().as_micros() as usize / full.len().max(1),
            (on_cpu_us() - on_cpu_before) / full.len().max(1),
        );
    }
    println!("after: {}", read(&random, &pieces));
}

/// The time that this thread has spent on a processor, in microseconds.
fn on_cpu_us() -> usize {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<usize>().ok()).unwrap_or(0) / 1000
}

/// The time of a read, and resident memory.
fn read(random: &Random, pieces: &[Vec<u8>]) -> String {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let places: Vec<usize> = (0..READS).map(|_| random.next() as usize % pieces.len()).collect();
            let started = Instant::now();
            // Each read waits for the one before, like those of a search.
            let mut last = 0;
            for place in places {
                for at in [0, 1500, 3000] {
                    last = usize::from(pieces[place][at + last % 2]);
                }
            }
            black_box(last);
            started.elapsed().as_nanos() as f64 / READS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let mib = |name: &str| {
        let kib = rollup.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok());
        kib.unwrap_or(0_usize) / 1024
    };
    let (best, median) = (times[0], times[times.len() / 2]);
    let (resident, huge) = (mib("Rss:"), mib("AnonHugePages:"));
    format!("{median:.0} ns a read ({best:.0} at best), {resident} MiB resident, {huge} of them huge")
}
