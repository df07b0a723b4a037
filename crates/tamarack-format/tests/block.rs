//! Blocks against a slow, obvious twin: one that writes and reads the format as the documentation
//! describes it, entry by entry, and searches by looking at everything.

use std::ops::ControlFlow;

use tamarack_env::{ByteBuffer, Random};
use tamarack_format::block::{Block, BlockBuilder, BlockCursor, Flaw, Versions};
use tamarack_format::entry::{self, EntryKind, OwnedEntry, Sequence};
use tamarack_format::prefixes::common_prefix;

fn varint(out: &mut Vec<u8>, value: u64) {
    if value < 128 {
        out.push(value as u8);
    } else {
        out.push(value as u8 % 128 + 128);
        varint(out, value / 128);
    }
}

/// The payload that `docs/FORMAT.md` describes.
fn twin_payload(entries: &[OwnedEntry], restart_interval: usize) -> Vec<u8> {
    let (mut out, mut restarts) = (Vec::new(), Vec::new());
    for (i, entry) in entries.iter().enumerate() {
        let shared = if i % restart_interval == 0 {
            restarts.push(out.len() as u32);
            0
        } else {
            entry.key.iter().zip(&entries[i - 1].key).take_while(|(a, b)| a == b).count()
        };
        varint(&mut out, shared as u64);
        varint(&mut out, (entry.key.len() - shared) as u64);
        if entry.sequence == Sequence::MAX {
            out.push(entry.kind as u8 + 128);
        } else {
            out.push(entry.kind as u8);
            varint(&mut out, entry.sequence.0);
        }
        if entry.kind != EntryKind::Delete {
            varint(&mut out, entry.value.len() as u64);
        }
        out.extend(&entry.key[shared..]);
        out.extend(&entry.value);
    }
    restarts.iter().for_each(|restart| out.extend(restart.to_le_bytes()));
    out.extend((restarts.len() as u32).to_le_bytes());
    out
}

fn payload(entries: &[OwnedEntry], restart_interval: usize) -> ByteBuffer {
    let mut builder = BlockBuilder::new(restart_interval);
    let mut expected_bytes = 0;
    for entry in entries {
        expected_bytes = builder.plan(&entry.entry()).payload_bytes;
        builder.add(&entry.entry());
    }
    let mut payload = ByteBuffer::new();
    builder.finish_into(&mut payload);
    assert_eq!(payload.len(), expected_bytes, "the length was predicted");
    payload
}

fn random_entries(random: &Random) -> Vec<OwnedEntry> {
    let below = |bound: u64| random.next() % bound;
    let (count, alphabet, key_bytes_max) = (1 + below(60), 1 + below(3), below(12));
    let mut entries: Vec<OwnedEntry> = (0..count)
        .map(|_| {
            let kind = EntryKind::from_number(1 + below(6) as u8).expect("a kind");
            let value_bytes = if kind.has_value() { below(2) * below(300) } else { 0 };
            OwnedEntry {
                key: (0..below(key_bytes_max + 1)).map(|_| [b'a', 0, 0xFF][below(alphabet) as usize]).collect(),
                sequence: [Sequence::MAX, Sequence(below(5)), Sequence(below(1 << 40))][below(3) as usize],
                kind,
                value: vec![b'v'; value_bytes as usize],
            }
        })
        .collect();
    entries.sort_by(|a, b| entry::compare((&a.key, a.sequence), (&b.key, b.sequence)));
    entries.dedup_by(|a, b| (&a.key, a.sequence) == (&b.key, b.sequence));
    entries
}

fn stands_on(cursor: &BlockCursor, block: &Block) -> Option<OwnedEntry> {
    cursor.entry(block).map(OwnedEntry::from)
}

/// Every search for one place agrees with the twin's.
fn check_searches(block: &Block, entries: &[OwnedEntry], key: &[u8], sequence: Sequence) {
    let first = entries.partition_point(|entry| entry::compare(entry.place(), (key, sequence)).is_lt());
    let what = || format!("{key:?} {sequence:?} in {entries:?}");

    let mut cursor = BlockCursor::default();
    cursor.seek(block, key, sequence).expect("sound");
    assert_eq!(stands_on(&cursor, block).as_ref(), entries.get(first), "seek {}", what());
    cursor.seek_before(block, key, sequence).expect("sound");
    assert_eq!(stands_on(&cursor, block).as_ref(), first.checked_sub(1).map(|i| &entries[i]), "seek_before {}", what());

    let mut versions = Vec::new();
    let ended = block.versions(key, sequence, &mut |entry| {
        versions.push(OwnedEntry::from(entry));
        ControlFlow::Continue(())
    });
    let expected: Vec<OwnedEntry> = entries[first..].iter().take_while(|entry| entry.key == key).cloned().collect();
    let at_end = first + expected.len() == entries.len();
    assert_eq!(versions, expected, "versions {}", what());
    assert_eq!(ended, Ok(if at_end { Versions::BlockEnded } else { Versions::Complete }), "versions {}", what());
}

#[test]
fn blocks_agree_with_their_twin() {
    for seed in 0..500 {
        println!("seed {seed}");
        let random = Random::new(seed);
        let entries = random_entries(&random);
        let restart_interval = 1 + (random.next() % 17) as usize;
        let payload = payload(&entries, restart_interval);
        assert_eq!(*payload, twin_payload(&entries, restart_interval));
        let block = Block::decode(payload).expect("sound");
        block.check_restarts().expect("sound");
        // As compactions read it, and as queries keep it.
        let block = if seed % 2 == 0 { block } else { block.indexed() };
        for _ in 0..20 {
            let near = &entries[(random.next() % entries.len() as u64) as usize];
            let mut key = near.key.clone();
            match random.next() % 4 {
                0 => key.push(random.next() as u8),
                1 => key.truncate(random.next() as usize % (key.len() + 1)),
                _ => {}
            }
            let sequence = match random.next() % 4 {
                0 => Sequence::MAX,
                1 => Sequence::ZERO,
                _ => Sequence((near.sequence.0 + random.next() % 3).saturating_sub(1).min(Sequence::MAX.0)),
            };
            check_searches(&block, &entries, &key, sequence);
        }
    }
}

/// Entries whose keys strain waypoints: a common prefix of any length; tails of few different
/// bytes, so that keys are prefixes of each other and differ by zeros only; many versions of one
/// key; few entries and many; large values among them.
fn straining_entries(random: &Random) -> Vec<OwnedEntry> {
    let below = |bound: u64| (random.next() % bound) as usize;
    let common = vec![[b'p', 0, 0xFF][below(3)]; [0, below(4), below(40), 300][below(4)]];
    let (alphabet, tail_bytes_max) = (1 + below(5) as u64, [3, 9, 20][below(3)]);
    let (count, versions_max) = ([5, 40, 400][below(3)], [1, 2, 40][below(3)]);
    let value_bytes_max = [1, 50, 2000][below(3)];
    let mut entries = Vec::new();
    while entries.len() < count {
        let mut key = common.clone();
        key.extend((0..below(tail_bytes_max)).map(|_| [0, b'a', 1, 0xFF, b'b'][below(alphabet)]));
        for _ in 0..1 + below(versions_max) {
            let value = vec![b'v'; below(value_bytes_max)];
            let sequence = Sequence(below(1 << 20) as u64);
            entries.push(OwnedEntry { key: key.clone(), sequence, kind: EntryKind::Put, value });
        }
    }
    entries.sort_by(|a, b| entry::compare((&a.key, a.sequence), (&b.key, b.sequence)));
    entries.dedup_by(|a, b| (&a.key, a.sequence) == (&b.key, b.sequence));
    entries
}

/// Searches of indexed blocks, also of blocks that end amid the versions of a key.
#[test]
fn indexed_blocks_agree_with_their_twin() {
    for seed in 0..if cfg!(miri) { 6 } else { 250 } {
        println!("seed {seed}");
        let random = Random::new(seed);
        let below = |bound: usize| random.next() as usize % bound;
        let entries = straining_entries(&random);
        let (first, second) = entries.split_at(below(entries.len()));
        let interval = [1, 2, 8, 8, 8, 60][below(6)];
        for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
            let block = Block::decode(payload(part, interval)).expect("sound").indexed();
            for _ in 0..30 {
                let near = &entries[below(entries.len())];
                let mut key = near.key.clone();
                match below(6) {
                    0 => key.push([0, 1, 0xFF][below(3)]),
                    1 => key.truncate(below(key.len() + 1)),
                    2 if !key.is_empty() => {
                        let at = below(key.len());
                        key[at] = [0, b'a', b'q', 0xFF][below(4)];
                    }
                    _ => {}
                }
                let sequence = match below(4) {
                    0 => Sequence::ZERO,
                    1 => Sequence((near.sequence.0 + below(3) as u64).saturating_sub(1)),
                    _ => Sequence::MAX,
                };
                check_searches(&block, part, &key, sequence);
            }
        }
    }
}

/// An entry is found by parsing few others, wherever it is and however long the restart interval:
/// what the waypoints are for.
#[test]
fn waypoints_take_a_fixed_part_of_the_block() {
    for (count, restart_interval) in [(1, 8), (4, 8), (33, 8), (70, 8), (128, 8), (70, 100), (600, 8)] {
        let entries: Vec<_> = (0..count)
            .map(|n| OwnedEntry {
                key: format!("key:{n:012}").into_bytes(),
                sequence: Sequence(7),
                kind: EntryKind::Put,
                value: vec![b'v'; 20],
            })
            .collect();
        let decode = || Block::decode(payload(&entries, restart_interval)).expect("sound");
        let before = decode().memory_bytes();
        let indexed = decode().indexed();
        let more = indexed.memory_bytes() - before;
        assert!(more <= if count > 128 { count + 8 } else { 0 }, "{more} bytes for {count} entries");
        // In two steps, the second of which takes no memory.
        let in_steps = decode().indexed_if_large();
        assert_eq!((in_steps.is_indexed(), in_steps.memory_bytes()), (more > 0, before + more), "{count} entries");
        in_steps.index_in_place();
        assert_eq!((in_steps.is_indexed(), in_steps.memory_bytes()), (true, before + more), "{count} entries");
        for entry in &entries {
            check_searches(&indexed, &entries, &entry.key, Sequence::MAX);
            check_searches(&in_steps, &entries, &entry.key, Sequence::MAX);
        }
    }
}

#[test]
fn walks_in_both_directions_agree_with_their_twin() {
    for seed in 0..300 {
        println!("seed {seed}");
        let random = Random::new(seed);
        let entries = random_entries(&random);
        let block = Block::decode(payload(&entries, 1 + (random.next() % 17) as usize)).expect("sound");
        let mut cursor = BlockCursor::default();
        let mut at: Option<usize> = None;
        let mut forward = true;
        for _ in 0..200 {
            forward ^= random.next().is_multiple_of(6);
            let left = at;
            at = match at {
                None if forward => cursor.seek_first(&block).map(|()| Some(0)),
                None => cursor.seek_last(&block).map(|()| Some(entries.len() - 1)),
                Some(i) if forward => cursor.next(&block).map(|()| Some(i + 1).filter(|&i| i < entries.len())),
                Some(i) => cursor.prev(&block).map(|()| i.checked_sub(1)),
            }
            .expect("sound");
            assert_eq!(stands_on(&cursor, &block).as_ref(), at.map(|i| &entries[i]));
            if let Some(at) = at {
                let shared = left.map(|left| common_prefix(&entries[left].key, &entries[at].key));
                assert_eq!(cursor.shared(), shared, "from {left:?} to {at} of {entries:?}");
            }
            if let Some(left) = left.filter(|_| !forward) {
                assert_eq!(cursor.left(&block), entries[left].value);
            }
        }
    }
}

/// Steps from one block to the next tell what the keys have in common as well.
#[test]
fn a_walk_over_blocks_knows_what_keys_have_in_common() {
    for seed in 0..100 {
        let random = Random::new(seed);
        let entries = random_entries(&random);
        let cut = (random.next() % entries.len() as u64) as usize;
        if cut == 0 {
            continue;
        }
        let interval = 1 + (random.next() % 17) as usize;
        let [first, second] =
            [&entries[..cut], &entries[cut..]].map(|part| Block::decode(payload(part, interval)).expect("sound"));
        let shared = common_prefix(&entries[cut - 1].key, &entries[cut].key);
        for come_backward in [false, true] {
            let mut cursor = BlockCursor::default();
            cursor.seek_last(&first).expect("sound");
            if come_backward && cut > 1 {
                cursor.prev(&first).expect("sound");
                cursor.next(&first).expect("sound");
            }
            cursor.next(&first).expect("sound");
            assert!(!cursor.stands());
            cursor.step_into_first(&second).expect("sound");
            assert_eq!(stands_on(&cursor, &second).as_ref(), Some(&entries[cut]), "seed {seed}");
            assert_eq!(cursor.shared(), Some(shared), "seed {seed}");
            cursor.prev(&second).expect("sound");
            assert!(!cursor.stands());
            cursor.step_into_last(&first).expect("sound");
            assert_eq!(stands_on(&cursor, &first).as_ref(), Some(&entries[cut - 1]), "seed {seed}");
            assert_eq!(cursor.shared(), Some(shared), "seed {seed}");
            assert_eq!(cursor.left(&second), entries[cut].value, "seed {seed}");
        }
    }
}

/// Whatever a walk meets in altered payloads, it ends, and searches give something or a flaw.
#[test]
fn altered_payloads_are_read_without_panic() {
    let (mut refused, mut read) = (0, 0);
    for seed in 0..3000 {
        let random = Random::new(seed);
        let mut bytes = payload(&random_entries(&random), 1 + (random.next() % 17) as usize);
        for _ in 0..1 + random.next() % 4 {
            let at = (random.next() % bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        tamarack_format::fuzz::block(&bytes);
        let walk = |block: Block| -> Result<(), Flaw> {
            let mut cursor = BlockCursor::default();
            cursor.seek_first(&block)?;
            while cursor.entry(&block).is_some() {
                cursor.next(&block)?;
            }
            Ok(())
        };
        match Block::decode(bytes).and_then(walk) {
            Ok(()) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100 && read > 100, "{refused} refused, {read} read: the test shows little");
}

#[test]
#[should_panic(expected = "not inside a block")]
fn a_range_of_foreign_bytes_is_our_own_mistake() {
    let entry = OwnedEntry { key: vec![], sequence: Sequence(1), kind: EntryKind::Put, value: b"value".to_vec() };
    let block = Block::decode(payload(&[entry], 1)).expect("sound");
    block.range_of(&[1, 2, 3].map(|byte| byte + block.bytes().len() as u8));
}
