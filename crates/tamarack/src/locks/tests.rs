//! Random requests, releases and time-outs: what the queue decides must be what a naive model
//! decides, which looks at every key alone and at every pair of transactions. Then deadlocks of any
//! length, and waits of threads and under a clock that stands still.

use std::collections::BTreeMap;
use std::sync::Arc;

use tamarack_env::Event;
use tamarack_testing::{Random, seeds};

use super::queue::{LockOutcome, LockQueue};
use super::ranges::{LockMode, LockedRanges};
use crate::format::key_range::{KeyRange, key_after};
use crate::mistake::{self, Mistake};

/// All keys that a range can begin with. Of two ranges that overlap, one contains where the other
/// begins, so looking at these is looking at all keys.
const KEYS: [&[u8]; 7] = [b"", b"a", b"a\0", b"b", b"ba", b"c", b"d"];

type Request = (u64, KeyRange, LockMode);

fn random_range(random: &mut Random) -> KeyRange {
    let from = *random.pick(&KEYS);
    if random.one_in(2) {
        return KeyRange { from: Some(from.into()), to: Some(key_after(from)) };
    }
    let to = (!random.one_in(3)).then(|| *random.pick(&KEYS));
    let range = KeyRange::new((!random.one_in(4)).then_some(from), to);
    if range.is_empty() { KeyRange::ALL } else { range }
}

fn random_mode(random: &mut Random) -> LockMode {
    *random.pick(&[LockMode::Shared, LockMode::Exclusive])
}

/// The locks of each key, and the requests that wait, in their order.
#[derive(Clone, Debug, Default)]
struct NaiveLocks {
    holders: BTreeMap<&'static [u8], BTreeMap<u64, LockMode>>,
    waiting: Vec<Request>,
}

fn is_conflict(one: LockMode, other: LockMode) -> bool {
    one == LockMode::Exclusive || other == LockMode::Exclusive
}

impl NaiveLocks {
    /// Whose locks a request waits for.
    fn lock_conflicts(&self, (owner, range, mode): &Request) -> Vec<u64> {
        let within = KEYS.iter().filter(|key| range.contains(key));
        let holders = within.flat_map(|key| self.holders.get(key).into_iter().flatten());
        holders
            .filter(|(other, others)| *other != owner && is_conflict(*mode, **others))
            .map(|(other, _)| *other)
            .collect()
    }

    /// Whose requests a request waits behind, if the first `earlier` ones came before it.
    fn queued_behind(&self, (owner, range, mode): &Request, earlier: usize) -> Vec<u64> {
        let overlaps = |other: &KeyRange| KEYS.iter().any(|key| range.contains(key) && other.contains(key));
        let before = self.waiting[..earlier].iter();
        let conflicting = before.filter(|(other, others, their_mode)| {
            other != owner && overlaps(others) && is_conflict(*mode, *their_mode)
        });
        conflicting.map(|(other, ..)| *other).collect()
    }

    /// For each transaction those that it waits for, directly or not: for locks only, or behind
    /// requests as well where it waits for no lock.
    fn waits(&self, for_locks_only: bool) -> Vec<(u64, u64)> {
        let mut pairs: Vec<(u64, u64)> = Vec::new();
        for (at, request) in self.waiting.iter().enumerate() {
            let mut next = self.lock_conflicts(request);
            if next.is_empty() && !for_locks_only {
                next = self.queued_behind(request, at);
            }
            pairs.extend(next.into_iter().map(|next| (request.0, next)));
        }
        loop {
            let longer: Vec<(u64, u64)> = pairs
                .iter()
                .flat_map(|(from, middle)| {
                    pairs.iter().filter(move |(begin, _)| begin == middle).map(|(_, to)| (*from, *to))
                })
                .filter(|pair| !pairs.contains(pair))
                .collect();
            if longer.is_empty() {
                return pairs;
            }
            pairs.extend(longer);
            pairs.sort_unstable();
            pairs.dedup();
        }
    }

    fn is_grantable(&self, request: &Request, earlier: usize) -> bool {
        let waits = self.waits(false);
        let behind = self.queued_behind(request, earlier);
        self.lock_conflicts(request).is_empty() && behind.iter().all(|other| waits.contains(&(*other, request.0)))
    }

    fn grant(&mut self, (owner, range, mode): &Request) {
        for key in KEYS.iter().filter(|key| range.contains(key)) {
            let own = self.holders.entry(key).or_default().entry(*owner).or_insert(*mode);
            *own = (*own).max(*mode);
        }
    }

    /// Grants what can be, and returns to whom.
    fn grant_waiting(&mut self) -> Vec<u64> {
        let mut granted = Vec::new();
        while let Some(at) = (0..self.waiting.len()).find(|at| self.is_grantable(&self.waiting[*at], *at)) {
            let request = self.waiting.remove(at);
            self.grant(&request);
            granted.push(request.0);
        }
        granted
    }

    fn release(&mut self, owner: u64) {
        self.holders.values_mut().for_each(|holders| holders.retain(|other, _| *other != owner));
    }

    /// The youngest transactions of cycles of waits for locks; none if there is no deadlock.
    fn in_deadlock(&self) -> Vec<u64> {
        let waits = self.waits(true);
        waits.iter().filter(|(from, to)| from == to).map(|(owner, _)| *owner).collect()
    }
}

/// Compares the queue with the model after each step of a random history.
fn history(seed: u64, counts: &mut [u32; 5]) {
    let mut random = Random::new(seed);
    let (mut queue, mut model) = (LockQueue::default(), NaiveLocks::default());
    let transactions = 2 + random.below(5);
    let event = Arc::new(Event::new());
    for _ in 0..60 {
        let owner = 1 + random.below(transactions);
        let is_waiting = model.waiting.iter().any(|(other, ..)| *other == owner);
        let mut granted = Vec::new();
        match random.below(8) {
            0 if !is_waiting => {
                queue.release(owner);
                model.release(owner);
                granted = model.grant_waiting();
            }
            1 if is_waiting => {
                let what = queue.give_up(owner);
                assert!(what.contains(&format!("transaction {owner} waits for")), "seed {seed}: {what}");
                model.waiting.retain(|(other, ..)| *other != owner);
                granted = model.grant_waiting();
                counts[0] += 1;
            }
            _ if !is_waiting => {
                let request = (owner, random_range(&mut random), random_mode(&mut random));
                let is_owned = KEYS.iter().filter(|key| request.1.contains(key)).all(|key| {
                    model.holders.get(key).and_then(|holders| holders.get(&owner)).is_some_and(|own| *own >= request.2)
                });
                let is_granted = is_owned || model.is_grantable(&request, model.waiting.len());
                let found = queue.request(owner, &request.1, request.2, &event);
                assert_eq!(found, is_granted, "seed {seed}: {request:?} in {model:?}");
                if is_granted {
                    model.grant(&request);
                    counts[1] += 1;
                } else {
                    model.waiting.push(request);
                    // Deadlocks are gone before others are granted.
                    let cycles = model.in_deadlock();
                    let lost = |owner: &u64| matches!(queue.outcome(*owner), Some(LockOutcome::Deadlock(_)));
                    let victims: Vec<u64> = (1..=transactions).filter(lost).collect();
                    assert!(victims.iter().all(|victim| cycles.contains(victim)), "seed {seed}: {victims:?} {model:?}");
                    assert!(!victims.contains(&owner) || victims.len() == 1, "seed {seed}: {victims:?} {model:?}");
                    for victim in victims {
                        let Some(LockOutcome::Deadlock(what)) = queue.take_outcome(victim) else { unreachable!() };
                        assert!(what.contains(&format!("transaction {victim}, the youngest")), "seed {seed}: {what}");
                        model.waiting.retain(|(other, ..)| *other != victim);
                        model.release(victim);
                        counts[2] += 1;
                    }
                    let left = model.in_deadlock();
                    assert!(left.is_empty(), "seed {seed}: nobody loses a deadlock of {left:?}: {model:?}");
                    granted = model.grant_waiting();
                }
            }
            _ => {}
        }
        for owner in &granted {
            assert_eq!(queue.take_outcome(*owner), Some(LockOutcome::Granted), "seed {seed}: {owner} in {model:?}");
            counts[3] += 1;
        }
        counts[4] += u32::from(model.waiting.len() > 1);
        let waiting: Vec<u64> = model.waiting.iter().map(|(owner, ..)| *owner).collect();
        assert_eq!(queue.waiting(), waiting, "seed {seed}: {model:?}");
        assert!((1..=transactions).all(|owner| !queue.has_outcome(owner)), "seed {seed}: {queue:?}");
        queue.locked.check();
        for key in KEYS {
            let holders: Vec<_> =
                model.holders.get(key).into_iter().flatten().map(|(owner, mode)| (*owner, *mode)).collect();
            assert_eq!(queue.locked.holders(key), holders, "seed {seed}: {key:?} in {queue:?}");
        }
    }
    // Nobody waits for ever: as those end who do not wait, all get their turn.
    while !queue.waiting().is_empty() {
        let running: Vec<u64> = (1..=transactions).filter(|owner| !queue.waiting().contains(owner)).collect();
        let before = queue.waiting().len();
        running.into_iter().for_each(|owner| queue.release(owner));
        assert!(queue.waiting().len() < before, "seed {seed}: {queue:?}");
    }
    (1..=transactions).for_each(|owner| queue.release(owner));
    assert_eq!(queue.bytes(), 0, "seed {seed}: {queue:?}");
}

#[test]
fn random_requests_agree_with_a_naive_model() {
    let mut counts = [0; 5];
    let seeds = seeds(4000);
    let is_long = seeds.clone().count() >= 4000;
    for seed in seeds {
        history(seed, &mut counts);
    }
    println!("given up, granted at once, deadlocks, granted later, several wait: {counts:?}");
    assert!(!is_long || counts.iter().all(|count| *count > 2000), "{counts:?}");
}

/// That the model notices a search for deadlocks that is not complete.
#[test]
fn a_missed_wait_is_noticed() {
    let missed = mistake::with(Mistake::WaitEdgeMissed, || {
        (0..500).find(|seed| std::panic::catch_unwind(|| history(*seed, &mut [0; 5])).is_err())
    });
    assert!(missed.is_some());
}

fn key(number: u64) -> KeyRange {
    let key = number.to_be_bytes();
    KeyRange { from: Some(key[..].into()), to: Some(key_after(&key)) }
}

/// Each of n transactions has locked a key and wants that of the next one: the last request closes
/// the cycle, and the youngest transaction loses, wherever it is in the cycle. Then all others get
/// their locks, one after the other.
#[test]
fn deadlocks_of_any_length_are_detected_at_once() {
    for transactions in [2, 3, 4, 10, 100] {
        for first in [1, 2, transactions] {
            let mut queue = LockQueue::default();
            let event = Arc::new(Event::new());
            let in_order: Vec<u64> = (0..transactions).map(|at| (first - 1 + at) % transactions + 1).collect();
            for owner in &in_order {
                assert!(queue.request(*owner, &key(*owner), LockMode::Exclusive, &event));
            }
            for owner in &in_order {
                assert!(!queue.has_outcome(*owner));
                assert!(!queue.request(*owner, &key(owner % transactions + 1), LockMode::Shared, &event));
            }
            let Some(LockOutcome::Deadlock(what)) = queue.take_outcome(transactions) else {
                panic!("no deadlock of {transactions}: {queue:?}");
            };
            assert!(what.contains(&format!("transaction {transactions}, the youngest, was rolled back")), "{what}");
            assert_eq!(what.matches("waits for a shared lock on the key").count() as u64, transactions, "{what}");
            for owner in (1..transactions).rev() {
                assert_eq!(queue.take_outcome(owner), Some(LockOutcome::Granted), "{owner}: {queue:?}");
                queue.release(owner);
            }
            assert_eq!(queue.bytes(), 0);
        }
    }
}

/// Two transactions that both want to make their shared lock exclusive are a deadlock; one alone
/// passes by those who wait for it.
#[test]
fn upgrades() {
    let (mut queue, event) = (LockQueue::default(), Arc::new(Event::new()));
    let request = |queue: &mut LockQueue, owner, mode| queue.request(owner, &key(0), mode, &event);
    assert!(request(&mut queue, 1, LockMode::Shared) && request(&mut queue, 2, LockMode::Shared));
    assert!(!request(&mut queue, 1, LockMode::Exclusive));
    assert!(!request(&mut queue, 3, LockMode::Shared), "a reader does not pass by a writer that waits");
    assert!(!queue.has_outcome(1));
    assert!(!request(&mut queue, 2, LockMode::Exclusive));
    assert!(matches!(queue.take_outcome(2), Some(LockOutcome::Deadlock(_))));
    assert_eq!(queue.take_outcome(1), Some(LockOutcome::Granted));
    assert!(!queue.has_outcome(3));
    queue.release(1);
    assert_eq!(queue.take_outcome(3), Some(LockOutcome::Granted));
    assert!(!request(&mut queue, 4, LockMode::Exclusive));
    assert!(request(&mut queue, 3, LockMode::Exclusive), "the other one waits for it");
}

/// Requests are granted in the order in which they came.
#[test]
fn a_writer_is_not_starved_by_readers() {
    let (mut queue, event) = (LockQueue::default(), Arc::new(Event::new()));
    assert!(queue.request(1, &key(0), LockMode::Shared, &event));
    assert!(!queue.request(2, &KeyRange::ALL, LockMode::Exclusive, &event));
    for reader in 3..10 {
        assert!(!queue.request(reader, &key(reader), LockMode::Shared, &event));
    }
    queue.release(1);
    assert_eq!(queue.take_outcome(2), Some(LockOutcome::Granted));
    assert_eq!(queue.waiting(), [3, 4, 5, 6, 7, 8, 9]);
    queue.release(2);
    assert!((3..10).all(|reader| queue.take_outcome(reader) == Some(LockOutcome::Granted)));
}

/// Short locks within a long one leave nothing behind.
#[test]
fn segments_are_joined_again() {
    let mut ranges = LockedRanges::default();
    ranges.lock(1, &KeyRange::ALL, LockMode::Shared);
    let bytes = ranges.bytes();
    for number in 0..100 {
        ranges.lock(2, &key(number), LockMode::Shared);
        ranges.check();
    }
    (0..100).for_each(|number| ranges.unlock(2, &key(number)));
    ranges.check();
    assert_eq!(ranges.bytes(), bytes);
    ranges.lock(1, &KeyRange::ALL, LockMode::Exclusive);
    ranges.check();
    assert_eq!(ranges.conflicting(2, &key(7), LockMode::Shared), [1]);
}
