//! Correctness of answers: a sample of every kind of read, compared with the stored entries byte
//! for byte.

use crate::data::{Data, Random};
use crate::stores::{Seen, Store};

const SAMPLES: u64 = 300;

/// Compares a sample of answers; `sorted` are the entries' numbers in the order of keys. A wrong
/// one ends the measurement.
pub fn check(store: &dyn Store, name: &str, data: &Data, sorted: &[u32], noise: &[u8]) {
    let mut random = Random::new(data.entries);
    for _ in 0..SAMPLES {
        let number = random.below(data.entries);
        let found = answer(|seen| store.get(&data.key(number), seen));
        assert_eq!(found, [(Vec::new(), data.value(noise, number).to_vec())], "{name} gets entry {number}");

        let absent = data.entries + number;
        assert_eq!(answer(|seen| store.get(&data.key(absent), seen)), [], "{name} has no entry {absent}");

        let (place, limit) = (random.below(data.entries) as usize, 1 + random.below(120) as usize);
        let entry = |n: &u32| (data.key((*n).into()), data.value(noise, (*n).into()).to_vec());
        let from = data.key(sorted[place].into());
        let up: Vec<_> = sorted[place..].iter().take(limit).map(entry).collect();
        assert!(answer(|seen| store.scan(&from, limit, false, seen)) == up, "{name} scans {limit} from place {place}");
        let down: Vec<_> = sorted[..=place].iter().rev().take(limit).map(entry).collect();
        assert!(answer(|seen| store.scan(&from, limit, true, seen)) == down, "{name} scans {limit} down from {place}");
    }
}

fn answer(ask: impl FnOnce(&mut Seen)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Seen { kept: Some(Vec::new()), ..Seen::default() };
    ask(&mut seen);
    seen.kept.expect("it was to be kept")
}
