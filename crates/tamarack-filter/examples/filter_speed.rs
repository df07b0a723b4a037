//! How long filters take, by kind, size and whether the key is there, and how long a digest takes.
//!
//! ```text
//! cargo run --release -p tamarack-filter --example filter_speed
//! ```
//!
//! Each number is the median of seven rounds in nanoseconds. *Stream*: lookups that do not depend
//! on each other, of which the processor carries out several at once. *In turn*: each lookup waits
//! for the answer of the one before, as a lookup in a tree does. The time of computing which digest
//! comes next, about a nanosecond in a stream and four in turn, is in both.

#![expect(clippy::disallowed_methods, reason = "it measures this machine's time, which no environment simulates")]

use std::hint::black_box;
use std::time::Instant;

use tamarack_filter::{Digest, Filter, FilterKind, Size};

const ROUNDS: usize = 7;
const LOOKUPS: u64 = 200_000;

fn main() {
    println!("digest of a key, in a stream");
    for length in [8, 16, 24, 64, 256, 1024] {
        let bytes: Vec<u8> = (0..64 + length).map(|at| at as u8).collect();
        let time = nanoseconds(|| {
            (0..LOOKUPS as usize).fold(0, |sum, i| sum ^ Digest::of(&bytes[i % 64..][..length]).stored())
        });
        println!("{length:>6} bytes {time:>8.1}");
    }
    println!(
        "{:<8}{:>5}{:>10}{:>14}{:>14}{:>14}{:>14}",
        "", "bits", "entries", "absent", "in turn", "present", "insert"
    );
    for entries in [50_000, 10_000_000] {
        let set: Vec<Digest> = (0..entries).map(digest).collect();
        for bits in [5.0, 10.0, 16.0] {
            for kind in FilterKind::ALL {
                report(kind, bits, &set);
            }
        }
    }
}

fn report(kind: FilterKind, bits: f64, set: &[Digest]) {
    let started = Instant::now();
    let filter = Filter::build(kind, Size::PerEntry(bits), set).expect("bits");
    let insert = started.elapsed().as_secs_f64() * 1e9 / set.len() as f64;
    let entries = set.len() as u64;
    let absent = nanoseconds(|| (0..LOOKUPS).map(|i| u64::from(filter.may_contain(digest(entries + i)))).sum());
    let in_turn = nanoseconds(|| {
        let one = |last: u64, i| u64::from(filter.may_contain(digest(entries + i + last)));
        (0..LOOKUPS).fold(0, one)
    });
    let present = nanoseconds(|| (0..LOOKUPS).map(|i| u64::from(filter.may_contain(digest(i * 7919 % entries)))).sum());
    println!("{:<8}{bits:>5}{entries:>10}{absent:>14.1}{in_turn:>14.1}{present:>14.1}{insert:>14.1}", kind.name());
}

/// A digest without a key: the time of hashing is measured apart.
fn digest(number: u64) -> Digest {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    Digest::from_stored(mixed ^ (mixed >> 32))
}

/// The median time of a lookup.
fn nanoseconds(round: impl Fn() -> u64) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            black_box(round());
            started.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
