//! What single steps take, each measured by itself.

use std::hint::black_box;

use common::machine::thread_cpu_ns;
use common::numbers::{median, mix, noise};
use tamarack_filter::{Digest, Filter, FilterKind, Size};

use crate::hash::{Hash, murmur_hash_64a};

const ROUNDS: usize = 15;
const HASHES: u64 = 4000;

/// Hashing keys of that length, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct HashTimes {
    /// One key after the other, filter by filter: the processor begins with the next before the
    /// last is done.
    pub stream: f64,
    /// Each waits for the one before.
    pub in_turn: f64,
}

/// Measures a hash.
pub fn hash_times(hash: Hash, key_bytes: usize) -> HashTimes {
    let key = &noise()[..key_bytes];
    match hash {
        Hash::Digest => both(key, |key| Digest::of(key).stored()),
        Hash::Murmur64A => both(key, |key| murmur_hash_64a(key, 7)),
    }
}

fn both(key: &[u8], hash: impl Fn(&[u8]) -> u64) -> HashTimes {
    let stream = per_step(HASHES, || {
        for _ in 0..HASHES {
            black_box(hash(black_box(key)));
        }
    });
    let none = black_box(0);
    let in_turn = per_step(HASHES, || {
        let mut last = 0;
        for _ in 0..HASHES {
            last = hash(&black_box(key)[(last & none) as usize..]);
        }
        black_box(last);
    });
    HashTimes { stream, in_turn }
}

/// Filters of these sizes (entries, bits), whose digests are those of keys that nobody asks for.
pub fn filters(kind: FilterKind, sizes: &[(u64, u64)]) -> Vec<Filter> {
    let digests = |entries| (0..entries).map(|number| Digest::from_stored(mix(mix(number)))).collect::<Vec<_>>();
    sizes.iter().filter_map(|&(entries, bits)| Filter::build(kind, Size::Total(bits), &digests(entries))).collect()
}

/// Asking such filters one after the other, as a lookup does, without a tree around them.
#[derive(Clone, Copy, Debug)]
pub struct FilterTimes {
    /// `T_P`: asking one, with a digest that is there.
    pub probe: f64,
    /// `T_H`: how much longer it takes if the key is hashed for it first.
    pub hash: f64,
}

/// Measures that for keys of so many bytes, which the filters do not have.
pub fn filter_times(hash: Hash, key_bytes: usize, filters: &[Filter]) -> FilterTimes {
    const LOOKUPS: u64 = 500;
    let asked = LOOKUPS * filters.len() as u64;
    let none = black_box(0);
    // Not inlined, so that both loops are alike.
    #[inline(never)]
    fn ask(filters: &[Filter], mut digest: impl FnMut() -> Digest) -> u64 {
        filters.iter().map(|filter| u64::from(filter.may_contain(digest()))).sum()
    }
    let all = |by_each: bool| {
        for_each_key(key_bytes, LOOKUPS, |key, digest| {
            black_box(match (by_each, hash) {
                (false, _) => ask(filters, || black_box(digest)),
                (true, Hash::Digest) => ask(filters, || Digest::of(black_box(key))),
                (true, Hash::Murmur64A) => {
                    ask(filters, || Digest::from_stored(digest.stored() ^ (murmur_hash_64a(black_box(key), 7) & none)))
                }
            });
        });
    };
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..8 * ROUNDS {
        let edge = taken(|| for_each_key(key_bytes, LOOKUPS, |_, digest| _ = black_box(digest)));
        let (once, by_each) = (taken(|| all(false)), taken(|| all(true)));
        times[0].push((once - edge) / asked as f64);
        times[1].push((by_each - once) / asked as f64);
    }
    let [probe, hash] = times.map(|times| median(times.into_iter()));
    FilterTimes { probe, hash }
}

/// Keys that nothing has, and their digests.
fn for_each_key(key_bytes: usize, keys: u64, mut visit: impl FnMut(&[u8], Digest)) {
    let mut key = vec![7; key_bytes];
    for number in 0..keys {
        key[..8].copy_from_slice(&mix(1 << 50 | number).to_be_bytes());
        visit(&key, Digest::of(&key));
    }
}

/// Processor time of it, in nanoseconds.
fn taken(work: impl Fn()) -> f64 {
    let began = thread_cpu_ns();
    work();
    (thread_cpu_ns() - began) as f64
}

fn per_step(steps: u64, round: impl Fn()) -> f64 {
    median((0..ROUNDS).map(|_| taken(&round) / steps as f64))
}
