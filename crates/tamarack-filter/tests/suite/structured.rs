//! The false positive rates of the blocked filter and of the elastic one, whose units are blocked,
//! follow their exact curves within 5 %, whatever the keys look like.
//!
//! The keys that are there, and those that are asked for, follow each other as closely as a pattern
//! allows. Everything comes from fixed numbers, so a rate that is right once stays right. There
//! are enough trials for 6,400 false positives: 5 % are four standard deviations.

use tamarack_filter::{Digest, Filter, FilterKind, Size};
use tamarack_testing::Random;

/// Keys in each filter: enough for the effect of uneven cache lines on the rate to be within a
/// percent or so of their mean: at many bits, few crowded lines have most of the false positives.
const ENTRIES: u64 = 600_000;

/// False positives to wait for.
const FALSE_POSITIVES: f64 = 6400.0;

/// Lookups at least.
const QUERIES_MIN: u64 = 200_000;

/// How far a rate may be from the curve.
const TOLERANCE: f64 = 0.05;

/// What keys look like, by a number.
type Pattern = fn(u64) -> Digest;

/// Nothing in common.
fn uniform(number: u64) -> Digest {
    Digest::of(&Random::new(number).next().to_be_bytes())
}

/// 1, 2, 3 … as sorted numbers of 8 bytes.
fn sequential(number: u64) -> Digest {
    Digest::of(&number.to_be_bytes())
}

/// Only the bytes in the middle of 40 differ.
fn common_prefix(number: u64) -> Digest {
    let mut key = *b"/a/long/prefix/                /a/suffix";
    let digits = number.to_be_bytes();
    key[18..26].copy_from_slice(&digits);
    Digest::of(&key)
}

/// Only two nibbles of each byte, as decimal digits, differ.
fn decimal(number: u64) -> Digest {
    let mut key = *b"user:0000000000";
    let mut rest = number;
    for digit in key[5..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    Digest::of(&key)
}

/// Only the high bits of a number differ.
fn high_bits(number: u64) -> Digest {
    Digest::of(&(number << 36).to_le_bytes())
}

fn check(kind: FilterKind, name: &str, pattern: Pattern, bits: impl Iterator<Item = u32>) {
    let set: Vec<Digest> = (0..ENTRIES).map(pattern).collect();
    for bits in bits {
        let filter = Filter::build(kind, Size::PerEntry(f64::from(bits)), &set).expect("bits");
        let predicted = filter.fpr();
        let queries = ((FALSE_POSITIVES / predicted) as u64).max(QUERIES_MIN);
        let absent = (ENTRIES..ENTRIES + queries).map(pattern);
        let wrong = absent.filter(|digest| filter.may_contain(*digest)).count();
        let measured = wrong as f64 / queries as f64;
        let difference = measured / predicted - 1.0;
        println!(
            "{kind:?}, {name}, {bits} bits: {measured:.6} measured, {predicted:.6} predicted, {:+.1} %",
            difference * 100.0
        );
        assert!(difference.abs() < TOLERANCE, "{name}, {filter:?}: {measured} instead of {predicted}");
    }
}

/// Keys that have nothing in common, at each size.
#[test]
fn uniform_keys() {
    check(FilterKind::Blocked, "uniform", uniform, 1..=20);
}

/// Integers in order, at each size.
#[test]
fn sequential_keys() {
    check(FilterKind::Blocked, "sequential", sequential, 1..=20);
}

/// Keys of several patterns, at a few sizes.
#[test]
fn structured_keys() {
    let patterns: [(&str, Pattern); 3] =
        [("common prefix", common_prefix), ("decimal", decimal), ("high bits", high_bits)];
    for (name, pattern) in patterns {
        check(FilterKind::Blocked, name, pattern, [1, 5, 10, 15].into_iter());
    }
}

/// The same for the elastic filter: its units go on erring independently.
#[test]
fn units() {
    let patterns: [(&str, Pattern); 5] = [
        ("uniform", uniform),
        ("sequential", sequential),
        ("common prefix", common_prefix),
        ("decimal", decimal),
        ("high bits", high_bits),
    ];
    for (name, pattern) in patterns {
        check(FilterKind::Elastic, name, pattern, [3, 10, 14].into_iter());
    }
}
