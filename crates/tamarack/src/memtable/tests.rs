//! The memtable against a `BTreeMap`, under several threads, and under all schedules of a small
//! case. Miri interprets the same tests at smaller sizes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tamarack_testing::Random;

use super::*;
use crate::entry::Sequence;
use crate::merge::Source;

/// `size`, or what Miri can interpret in a second or so instead.
const fn size(size: u64, interpreted: u64) -> u64 {
    if cfg!(miri) { interpreted } else { size }
}

/// The entries by key and sequence, in entry order.
type Model = BTreeMap<Version, Content>;
type Version = (Vec<u8>, Reverse<Sequence>);
type Content = (EntryKind, Vec<u8>);

/// Keys that exercise the comparison: empty, short, of few letters with zeros among them, with long
/// common prefixes, and random.
fn key(random: &mut Random) -> Vec<u8> {
    let len = random.below(20);
    match random.below(5) {
        0 => (0..len % 4).map(|_| random.below(2) as u8).collect(),
        1 => (0..len).map(|_| *random.pick(&[0, 0, 1, 255])).collect(),
        2 => [&b"a prefix of more than eight"[..], &random.bytes(len % 3)].concat(),
        3 => [vec![random.below(2) as u8; 300], random.bytes(1)].concat(),
        _ => random.bytes(len),
    }
}

fn owned(entry: Entry<'_>) -> (Version, Content) {
    ((entry.key.to_vec(), Reverse(entry.sequence)), (entry.kind, entry.value.to_vec()))
}

fn put<'a>(key: &'a [u8], sequence: u64, value: &'a [u8]) -> Entry<'a> {
    Entry { key, sequence: Sequence(sequence), kind: EntryKind::Put, value }
}

fn stands(cursor: &MemtableCursor) -> Option<(Version, Content)> {
    cursor.entry().map(owned)
}

/// All versions up to `sequence`, as `get` shows them.
fn versions(memtable: &Memtable, key: &[u8], sequence: Sequence) -> Vec<(Sequence, EntryKind, Vec<u8>)> {
    let mut found = Vec::new();
    let flow = memtable.get(Query::new(key, sequence), &mut |entry| {
        assert_eq!(entry.key, key);
        found.push((entry.sequence, entry.kind, entry.value.to_vec()));
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    found
}

fn insert_random(random: &mut Random, memtable: &Memtable, model: &mut Model, sequence: u64) {
    let kind = if random.below(4) == 0 { EntryKind::Delete } else { EntryKind::Put };
    let len = if random.below(50) == 0 { random.below(20_000) } else { random.below(30) };
    let value = if kind.has_value() { random.bytes(len) } else { Vec::new() };
    // A third of the keys ascend, so that the finger has something to do.
    let key = match random.below(3) {
        0 => [&b"seq"[..], &sequence.to_be_bytes()].concat(),
        _ => key(random),
    };
    memtable.insert(Entry { key: &key, sequence: Sequence(sequence), kind, value: &value });
    model.insert((key, Reverse(Sequence(sequence))), (kind, value));
}

/// A key of the model or any, with any sequence.
fn random_place(random: &mut Random, model: &Model, sequence: u64) -> (Vec<u8>, Sequence) {
    let known = model.keys().nth(random.below(model.len() as u64) as usize);
    let key = match (known, random.below(2)) {
        (Some(known), 0) => known.0.clone(),
        _ => key(random),
    };
    let sequence = if random.below(3) == 0 { Sequence::MAX } else { Sequence(random.below(sequence + 2)) };
    (key, sequence)
}

/// One random history: inserts between reads of every kind, all compared with the model.
fn history(seed: u64) {
    let mut random = Random::new(seed);
    let memtable = Arc::new(Memtable::new());
    let mut model = Model::new();
    assert!(memtable.is_empty());
    let mut cursor = memtable.cursor();
    for sequence in 1..size(400, 40) {
        insert_random(&mut random, &memtable, &mut model, sequence);
        if random.below(4) != 0 {
            continue;
        }
        let (key, until) = random_place(&mut random, &model, sequence);
        let expected: Vec<_> = model
            .range((key.clone(), Reverse(until))..=(key.clone(), Reverse(Sequence::ZERO)))
            .map(|((_, sequence), (kind, value))| (sequence.0, *kind, value.clone()))
            .collect();
        assert_eq!(versions(&memtable, &key, until), expected, "seed {seed}: get {key:?} at {until:?}");
        walk(&mut random, &mut cursor, &model, (key, until), seed);
    }
    assert_eq!(memtable.entries(), model.len() as u64);
    assert_eq!(memtable.tombstones(), model.values().filter(|(kind, _)| *kind == EntryKind::Delete).count() as u64);
    let raw_bytes = model.iter().map(|(key, value)| key.0.len() + value.1.len() + 8).sum::<usize>();
    assert_eq!(memtable.raw_bytes(), raw_bytes as u64);
}

/// Seeks in one of the four ways, then takes some steps to and fro.
fn walk(
    random: &mut Random,
    cursor: &mut MemtableCursor,
    model: &Model,
    (key, sequence): (Vec<u8>, Sequence),
    seed: u64,
) {
    let place = (key.clone(), Reverse(sequence));
    let before = model.range(..place).count();
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut expected = match random.below(4) {
        0 => cursor.seek_first().map(|()| 0),
        1 => cursor.seek_last().map(|()| all.len() - 1),
        2 => cursor.seek(&key, sequence).map(|()| before),
        _ => cursor.seek_before(&key, sequence).map(|()| before.wrapping_sub(1)),
    }
    .expect("a memtable's cursor does not fail");
    for step in 0..10 {
        assert_eq!(stands(cursor), all.get(expected).cloned(), "seed {seed}, step {step} from {key:?} {sequence:?}");
        if cursor.entry().is_none() {
            break;
        }
        let (moved, to) = match random.below(5) {
            0 | 1 => (cursor.next(), expected + 1),
            2 | 3 => (cursor.prev(), expected.wrapping_sub(1)),
            _ => {
                let floor = Sequence(random.below(all.len() as u64 + 2));
                let end = all[random.below(all.len() as u64) as usize].0.0.clone();
                let end = (random.below(4) != 0).then_some(&end[..]);
                let moved = cursor.pass(end, floor);
                (moved, passed(cursor, &all, expected, (end, floor)))
            }
        };
        moved.expect("a memtable's cursor does not fail");
        expected = to;
    }
}

/// The place to which a cursor has passed from `before`: it may pass what is below the floor.
fn passed(
    cursor: &MemtableCursor,
    all: &[(Version, Content)],
    before: usize,
    (end, floor): (Option<&[u8]>, Sequence),
) -> usize {
    let may_pass = |(key, sequence): &Version| sequence.0 < floor && end.is_none_or(|end| key[..] < *end);
    let furthest = before + 1 + all[before + 1..].iter().take_while(|(version, _)| may_pass(version)).count();
    let here =
        stands(cursor).map_or(all.len(), |here| all.iter().position(|other| *other == here).expect("it is there"));
    assert!(here > before && here <= furthest, "from {before} to {here}, past {furthest}");
    // It passes more than one entry, but not any number of them.
    assert!(here == furthest || here > before + 10, "from {before} only to {here} of {furthest}");
    here
}

#[cfg(not(feature = "shuttle"))]
mod threads_and_models {
    use super::*;
    use crate::entry::compare;

    /// Shows that all reads agree with the model, in random histories.
    /// A lookup notes the entry that it found, and only that; neither its value nor others change.
    #[test]
    fn lookups_are_noted() {
        let memtable = Arc::new(Memtable::new());
        for (key, sequence) in [("elm", 1), ("oak", 2), ("oak", 3), ("yew", 4)] {
            let value = format!("{key} {sequence}");
            let (key, value) = (key.as_bytes(), value.as_bytes());
            memtable.insert(Entry { key, sequence: Sequence(sequence), kind: EntryKind::Put, value });
        }
        for (key, sequence) in [("oak", 2), ("yew", 9), ("ash", 9), ("elm", 0)] {
            let _ = memtable.get(Query::new(key.as_bytes(), Sequence(sequence)), &mut |_| ControlFlow::Break(()));
        }
        let mut cursor = memtable.cursor();
        cursor.seek_first().expect("memtables do not fail");
        let mut noted = Vec::new();
        while let Some(entry) = cursor.entry() {
            assert_eq!(entry.value, format!("{} {}", entry.key.escape_ascii(), entry.sequence.0).as_bytes());
            noted.push((entry.sequence.0, cursor.was_looked_up()));
            cursor.next().expect("memtables do not fail");
        }
        assert_eq!(noted, [(1, false), (3, false), (2, true), (4, true)]);
    }

    #[test]
    fn agrees_with_a_model() {
        (0..size(60, 2)).for_each(history);
    }

    /// Shows that the whole order is right after many inserts that ascend, descend, and come from
    /// two interleaved sequences.
    #[test]
    fn orders_sequences() {
        const ENTRIES: u64 = size(5000, 100);
        let orders: [fn(u64) -> u64; 4] = [|n| n, |n| ENTRIES - n, |n| n / 2 + n % 2 * 10_000, |n| n * 2003 % 5003];
        for order in orders {
            let memtable = Arc::new(Memtable::new());
            (0..ENTRIES).for_each(|n| memtable.insert(put(&order(n).to_be_bytes(), n + 1, b"v")));
            let mut expected: Vec<u64> = (0..ENTRIES).map(order).collect();
            expected.sort_unstable();
            let mut cursor = memtable.cursor();
            cursor.seek_first().unwrap();
            for key in expected {
                assert_eq!(cursor.entry().expect("an entry for each insert").key, key.to_be_bytes());
                cursor.next().unwrap();
            }
            assert!(cursor.entry().is_none());
        }
    }

    /// An entry of every largest size is kept as it is.
    #[test]
    fn keeps_the_largest_keys_and_sequences() {
        let memtable = Memtable::new();
        let (key, value) = (vec![255; 1 << 16], vec![7; 5 << 20]);
        memtable.insert(put(&key, Sequence::MAX.0, &value));
        assert_eq!(versions(&memtable, &key, Sequence::MAX), [(Sequence::MAX, EntryKind::Put, value)]);
    }

    #[test]
    #[should_panic(expected = "a key of 65537 bytes")]
    fn refuses_longer_keys() {
        Memtable::new().insert(put(&[0; 65_537], 1, b""));
    }

    #[test]
    #[should_panic(expected = "inserted twice")]
    fn refuses_the_same_version_twice() {
        let memtable = Memtable::new();
        memtable.insert(put(b"key", 1, b"one"));
        memtable.insert(put(b"key", 1, b"two"));
    }

    /// Shows that `get` stops when told to, and that a pinned value outlives the memtable's owners.
    #[test]
    fn pinned_values_outlive_the_memtable() {
        let memtable = Arc::new(Memtable::new());
        memtable.insert(put(b"key", 1, b"old"));
        memtable.insert(put(b"key", 2, b"young"));
        memtable.insert(put(b"key", 3, b""));
        let mut values = Vec::new();
        for sequence in [1, 2, 3] {
            let flow = memtable.get(Query::new(b"key", Sequence(sequence)), &mut |entry| {
                values.push(memtable.pin(entry.value));
                ControlFlow::Break(())
            });
            assert!(flow.is_break());
        }
        drop(memtable);
        assert_eq!(values.iter().map(|value| &**value).collect::<Vec<_>>(), [&b"old"[..], b"young", b""]);
    }

    #[test]
    #[should_panic(expected = "cannot be pinned")]
    fn pins_only_its_own_values() {
        let (one, other) = (Memtable::new(), Arc::new(Memtable::new()));
        one.insert(put(b"key", 1, b"value"));
        let _ = one.get(Query::new(b"key", Sequence::MAX), &mut |entry| {
            other.pin(entry.value);
            ControlFlow::Break(())
        });
    }

    /// Four threads insert, in order or scattered, while two iterate in both directions: every
    /// iteration is in order, every thread finds its own inserts, and at the end all entries are
    /// there.
    #[test]
    fn many_threads_insert_and_read() {
        const EACH: u64 = size(4000, 15);
        let memtable = Arc::new(Memtable::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let memtable = &memtable;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let sequence = number * 4 + thread + 1;
                        // Few different prefixes for half of the threads, so that keys collide and
                        // versions pile up.
                        let key = if thread < 2 { sequence } else { (sequence * 7919 % 1009) << 40 }.to_be_bytes();
                        memtable.insert(put(&key, sequence, &sequence.to_be_bytes()));
                        let found = versions(memtable, &key, Sequence(sequence));
                        assert_eq!(found[0], (Sequence(sequence), EntryKind::Put, sequence.to_be_bytes().to_vec()));
                    }
                });
            }
            for backward in [false, true] {
                let memtable = &memtable;
                scope.spawn(move || while count_in_order(memtable, backward) < 4 * EACH {});
            }
        });
        assert_eq!(memtable.entries(), 4 * EACH);
        assert_eq!(count_in_order(&memtable, false), 4 * EACH);
        assert_eq!(count_in_order(&memtable, true), 4 * EACH);
    }

    /// Walks over everything and asserts its order.
    fn count_in_order(memtable: &Arc<Memtable>, backward: bool) -> u64 {
        let mut cursor = memtable.cursor();
        let mut last: Option<(Vec<u8>, Sequence)> = None;
        let mut count = 0;
        if backward { cursor.seek_last() } else { cursor.seek_first() }.unwrap();
        while let Some(entry) = cursor.entry() {
            assert_eq!(entry.value, entry.sequence.0.to_be_bytes());
            let here = (entry.key.to_vec(), entry.sequence);
            if let Some(last) = &last {
                let order = compare((&last.0, last.1), (&here.0, here.1));
                assert!(if backward { order.is_gt() } else { order.is_lt() }, "{last:?} before {here:?}");
            }
            last = Some(here);
            count += 1;
            if backward { cursor.prev() } else { cursor.next() }.unwrap();
        }
        count
    }
}

#[cfg(feature = "shuttle")]
mod schedules {
    use tamarack_env::sync::thread;

    use super::*;

    /// Two threads insert neighbours, sharing prefixes or not, while a third reads: what a reader
    /// has seen stays, in order; an insert that returned is found; at the end everything is
    /// there.
    fn small_case() {
        let memtable = Arc::new(Memtable::new());
        let writers: Vec<_> = (0..2_u64)
            .map(|thread| {
                let memtable = memtable.clone();
                thread::spawn(move || {
                    for number in 0..3 {
                        let sequence = number * 2 + thread + 1;
                        let key = [b"12345678a", b"12345678b", b"1234567zc"][number as usize];
                        memtable.insert(put(key, sequence, b"v"));
                        assert_eq!(versions(&memtable, key, Sequence(sequence))[0].0, Sequence(sequence));
                    }
                })
            })
            .collect();
        let seen = walk_in_order(&memtable);
        let seen_later = walk_in_order(&memtable);
        assert!(seen.iter().all(|place| seen_later.contains(place)), "{seen:?} then {seen_later:?}");
        for writer in writers {
            writer.join().unwrap();
        }
        let places: Vec<_> = walk_in_order(&memtable).into_iter().map(|(_, sequence)| sequence.0).collect();
        assert_eq!(places, [2, 1, 4, 3, 6, 5].map(Sequence));
        for &(key, sequence) in &[(&b"12345678a"[..], 2), (b"12345678b", 4), (b"1234567zc", 6)] {
            assert_eq!(versions(&memtable, key, Sequence::MAX).len(), 2);
            assert_eq!(versions(&memtable, key, Sequence(sequence - 1)).len(), 1);
        }
    }

    fn walk_in_order(memtable: &Arc<Memtable>) -> Vec<Version> {
        let mut cursor = memtable.cursor();
        let mut places = Vec::new();
        cursor.seek_first().unwrap();
        while let Some((place, _)) = stands(&cursor) {
            places.push(place);
            cursor.next().unwrap();
        }
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
        places
    }

    #[test]
    fn concurrent_inserts_under_random_schedules() {
        shuttle::check_random(small_case, 2000);
    }

    #[test]
    fn concurrent_inserts_under_few_preemptions() {
        shuttle::check_pct(small_case, 2000, 3);
    }

    #[test]
    fn agrees_with_a_model() {
        shuttle::check_random(|| history(1), 1);
    }
}
