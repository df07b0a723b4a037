//! Partitions against a multiset.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Code, Shares, partition_of};
use tamarack_testing::Random;

use super::{EntryChange, Partition, Place, unplaced_max};

fn partition(slots: usize, buckets: usize) -> Partition {
    let code = Code::new(slots, &[1, 4, 4], &[Shares::new(vec![25.0, 5.0, 1.0])]).expect("it fits");
    Partition::new(Arc::new(code), buckets)
}

fn place(partition: &Partition, key: u64) -> Place {
    place_of(partition, Digest::of(&key.to_le_bytes()))
}

fn place_of(partition: &Partition, digest: Digest) -> Place {
    partition.place(digest, partition_of(digest, 1).1)
}

/// A LID with about the shares of the tree.
fn any_lid(random: &mut Random) -> u16 {
    match random.below(31) {
        0 => 5 + random.below(4) as u16,
        1..6 => 1 + random.below(4) as u16,
        _ => 0,
    }
}

/// Random changes, against a multiset of pairs of key and LID. Keys with many entries, more than
/// two buckets hold, are among them, and tables that are fuller than they should be.
#[test]
fn a_partition_is_a_multiset() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let (slots, buckets) = (2 + random.below(5) as usize, 1 + random.below(60) as usize);
        let partition = partition(slots, buckets);
        let mut model: BTreeMap<(u64, u16), u64> = BTreeMap::new();
        let full = (slots * buckets) as u64 * 11 / 10;
        for step in 0..1_500 {
            let key = if random.one_in(8) { random.below(3) } else { random.below(4 * full + 4) };
            let lid = any_lid(&mut random);
            let all: u64 = model.values().sum();
            let inserts = if all < full { 3 } else { 1 };
            let stored = model.keys().nth(random.below(model.len().max(1) as u64) as usize).copied();
            let take = |model: &mut BTreeMap<(u64, u16), u64>, entry: (u64, u16)| {
                let count = model.get_mut(&entry).expect("it is stored");
                *count -= 1;
                if *count == 0 {
                    model.remove(&entry);
                }
            };
            match stored {
                Some(entry) if random.below(6) >= inserts => {
                    take(&mut model, entry);
                    if random.one_in(2) {
                        partition.change([(place(&partition, entry.0), EntryChange::Relabel(entry.1, lid))]);
                        *model.entry((entry.0, lid)).or_default() += 1;
                    } else {
                        partition.change([(place(&partition, entry.0), EntryChange::Remove(entry.1))]);
                    }
                }
                _ => {
                    partition.change([(place(&partition, key), EntryChange::Insert(lid))]);
                    *model.entry((key, lid)).or_default() += 1;
                }
            }
            if random.one_in(40) {
                partition.empty_stash(|digest| place_of(&partition, digest));
            }
            assert_eq!(partition.entries(), model.values().sum::<u64>());
            if step % 50 == 0 {
                for (&(key, lid), &count) in &model {
                    let found =
                        partition.candidates(place(&partition, key)).iter().filter(|&other| other == lid).count();
                    assert!(
                        found as u64 >= count,
                        "seed {seed}, step {step}: key {key} has LID {lid} {count} times, not {found}"
                    );
                }
            }
        }
        // All can be taken out again, and nothing is left.
        for ((key, lid), count) in model {
            (0..count).for_each(|_| partition.change([(place(&partition, key), EntryChange::Remove(lid))]));
        }
        assert_eq!((partition.entries(), partition.stashed()), (0, 0), "seed {seed}");
        assert!((0..100).all(|key| partition.candidates(place(&partition, key)).iter().next().is_none()));
    }
}

/// A partition takes as many entries as it should before the stash is used.
#[test]
fn partitions_fill_up() {
    for (slots, load) in [(4, 0.95), (5, 0.96), (6, 0.97)] {
        let partition = partition(slots, 2_000);
        let mut random = Random::new(slots as u64);
        for key in 0..(2_000.0 * slots as f64 * load) as u64 {
            partition.change([(place(&partition, key), EntryChange::Insert(any_lid(&mut random)))]);
        }
        assert_eq!(partition.stashed(), 0, "{slots} slots");
    }
}

/// Keys with several entries, all in the same two buckets, leave fewer slots usable: a partition
/// says so while few of them are in its stash, and one with half as many buckets more has room.
#[test]
fn partitions_of_keys_in_several_runs_are_overfull_earlier() {
    let (slots, buckets) = (4, 2_000);
    let partition = partition(slots, buckets);
    let mut random = Random::new(7);
    let mut entries = Vec::new();
    while !partition.is_overfull() {
        let (key, count) = (random.next(), 1 + random.below(4));
        for lid in (0..count).map(|n| [0, 1, 5, 2][n as usize]) {
            entries.push((key, lid));
            partition.change([(place(&partition, key), EntryChange::Insert(lid))]);
        }
    }
    let load = entries.len() as f64 / (slots * buckets) as f64;
    assert!((0.6..0.9).contains(&load), "overfull with {load} of the slots in use");
    let most = unplaced_max(entries.len() as u64);
    assert!(partition.stashed() as u64 <= most + 4, "{} of {}", partition.stashed(), entries.len());
    let filled = |buckets: usize| {
        let code = Code::new(slots, &[1, 4, 4], &[Shares::new(vec![25.0, 5.0, 1.0])]).expect("it fits");
        Partition::filled(Arc::new(code), buckets, most, |partition, insert| {
            entries.iter().for_each(|(key, lid)| insert(place(partition, *key), *lid));
        })
    };
    assert!(filled(buckets * 9 / 10).is_none(), "more than {most} have no place in fewer buckets");
    let larger = filled(buckets * 3 / 2).expect("three halves as many buckets have room");
    assert_eq!((larger.entries(), larger.is_overfull()), (entries.len() as u64, false));
    assert!(larger.stashed() as u64 <= most, "{} of {}", larger.stashed(), entries.len());
    let has_all = entries.iter().all(|(key, lid)| larger.candidates(place(&larger, *key)).iter().any(|of| of == *lid));
    assert!(has_all, "each entry is found");
}

/// Keys are found while another thread changes everything around them.
#[test]
fn lookups_beside_changes() {
    let partition = partition(4, 200);
    let stays: Vec<u64> = (0..300).collect();
    for key in &stays {
        partition.change([(place(&partition, *key), EntryChange::Insert(0))]);
    }
    let changes = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(5);
            for round in 0..30 {
                let others: Vec<(u64, u16)> =
                    (0..480).map(|n| (1_000 + round * 1_000 + n, any_lid(&mut random))).collect();
                for (key, lid) in &others {
                    partition.change([(place(&partition, *key), EntryChange::Insert(*lid))]);
                }
                for (key, lid) in others {
                    partition.change([(place(&partition, key), EntryChange::Remove(lid))]);
                }
                partition.empty_stash(|digest| place_of(&partition, digest));
            }
            changes.store(false, Ordering::Relaxed);
        });
        while changes.load(Ordering::Relaxed) {
            for key in &stays {
                assert!(partition.candidates(place(&partition, *key)).iter().any(|lid| lid == 0), "key {key}");
            }
        }
    });
}
