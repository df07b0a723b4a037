//! What the code of a filter over the whole tree takes: time to make it, memory, and the time of
//! comparing a bucket with a fingerprint, for trees of one run to hundreds.
//!
//! ```text
//! cargo run --release -p tamarack-filter --example chucky_speed
//! ```
//!
//! `groups` are the frequent ones, `KiB` the memory of all tables, `ns` medians of seven rounds
//! over 4,096 random buckets in cached memory: *miss*, no slot matches; *match*, the LIDs are
//! decoded, too. `FPR` is the rate of false positives of a full filter for a tree in one of its
//! states, on average; `rare` the greatest share of rare buckets among them.

#![expect(clippy::disallowed_methods, reason = "it measures this machine's time, which no environment simulates")]

use std::hint::black_box;
use std::time::Instant;

use tamarack_filter::Digest;
use tamarack_filter::chucky::{Bucket, Code, Encoded, Shares};
use tamarack_model::filter::chucky::{Classes, load};
use tamarack_model::policy;
use tamarack_model::units::Bytes;

const ROUNDS: usize = 7;
const BUCKETS: usize = 4096;

fn main() {
    println!(
        "{:<24}{:>5}{:>6}{:>9}{:>8}{:>9}{:>8}{:>9}{:>10}{:>9}",
        "policy", "runs", "slots", "make ms", "groups", "KiB", "miss ns", "match ns", "FPR", "rare"
    );
    let buffer = Bytes(1 << 20);
    for (words, memtables) in [
        ("leveling:T=10", 50_000),
        ("leveling:T=2", 1_000),
        ("leveling:T=5,first=4", 10_000),
        ("lazy-leveling:T=5", 10_000),
        ("tiering:T=4", 4_000),
        ("tiering:T=10", 5_000),
        ("garnering:T=5,c=0.8", 10_000),
        ("moose:last=0.8,k=1", 10_000),
        ("qlsm-bush:T=2,X=2", 20_000),
    ] {
        let policy = policy::parse(words).expect("a policy");
        let shape = policy.shape(Bytes(buffer.0 * memtables), buffer);
        for slots in 4..=7 {
            let started = Instant::now();
            let classes = Classes::of(&shape);
            let states: Vec<Shares> = classes.states(&shape).into_iter().map(Shares::new).collect();
            let code = match Code::new(slots, classes.lids(), &states) {
                Ok(code) => code,
                Err(error) => {
                    println!("{words:<24}{:>5}{slots:>6}  {error}", shape.visible_runs_total());
                    continue;
                }
            };
            let make = started.elapsed().as_secs_f64() * 1e3;
            let rare = states.iter().map(|state| code.rare_share(state)).fold(0.0, f64::max);
            let rates = states.iter().map(|state| code.false_positives(state, load(slots)));
            let rate = rates.sum::<f64>() / states.len() as f64;
            let buckets = filled(&code, &classes, &states);
            let key = |number: usize| code.fingerprint(Digest::from_stored(digest(number as u64 + 99)));
            let miss = nanoseconds(|| {
                let matching = |at: usize| !code.matches(buckets[at], key(at)).is_none_or(|found| found.is_empty());
                (0..BUCKETS).filter(|&at| matching(at)).count() as u64
            });
            let hit = nanoseconds(|| {
                let lids = |at: usize| -> u64 {
                    let found = code.matches(buckets[at], code.fingerprint(Digest::from_stored(digest(at as u64))));
                    found.map_or(0, |found| code.lids(buckets[at], found).map(u64::from).sum())
                };
                (0..BUCKETS).map(lids).sum()
            });
            println!(
                "{words:<24}{:>5}{slots:>6}{make:>9.2}{:>8}{:>9.1}{miss:>8.1}{hit:>9.1}{rate:>10.5}{rare:>9.1e}",
                shape.visible_runs_total(),
                code.groups(),
                code.memory_bytes() as f64 / 1024.0,
            );
        }
    }
}

/// Buckets full of entries as they are in a tree; the one of number i has the key of number i.
fn filled(code: &Code, classes: &Classes, states: &[Shares]) -> Vec<u64> {
    let bucket = |number: usize| {
        let state = &states[number % states.len()];
        let mut bucket = Bucket::empty(code.slots());
        for slot in 0..code.slots() {
            let random = digest((number + (slot << 32)) as u64);
            let mut at = (random >> 11) as f64 / (1_u64 << 53) as f64;
            let class = state.of_entries().iter().position(|share| {
                at -= share;
                at < 0.0
            });
            let class = class.unwrap_or(0);
            let lid = code.lids_of_class(class).start + (random % u64::from(classes.lids()[class])) as u16;
            assert!(bucket.insert(code.slot(lid, code.fingerprint(Digest::from_stored(random)))));
        }
        match code.encode(&bucket) {
            Encoded::Frequent(bits) | Encoded::Rare(bits, _) => bits,
        }
    };
    (0..BUCKETS).map(bucket).collect()
}

/// The time of one of the buckets' calls: the median of the rounds.
fn nanoseconds(run: impl Fn() -> u64) -> f64 {
    let round = || {
        let started = Instant::now();
        for _ in 0..50 {
            black_box(run());
        }
        started.elapsed().as_secs_f64() * 1e9 / 50.0 / BUCKETS as f64
    };
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// A digest without a key: the time of hashing is not measured.
fn digest(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 29
}
