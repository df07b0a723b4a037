//! Random transactions and writes: what the window says of each must be what a list of all writes
//! says.

use std::collections::BTreeSet;

use super::*;
use crate::entry::EntryKind;
use crate::write::Batch;

/// What a transaction of the model has read.
#[derive(Clone, Debug, Default)]
struct ModelReads(BTreeSet<u8>);

impl ReadSet for ModelReads {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.0.contains(&key[0])
    }

    fn overlaps(&self, range: &KeyRange) -> bool {
        self.0.iter().any(|key| range.contains(&[*key]))
    }

    fn describe(&self, key: &[u8]) -> String {
        format!("{key:?}")
    }
}

/// An active transaction, and what is expected of it.
struct ModelTransaction {
    begun: BeginTicket,
    reads: ModelReads,
    is_outdated: bool,
    checked: CheckedNotes,
}

fn put(key: &[u8]) -> Write<'_> {
    Write::One { kind: EntryKind::Put, key, value: b"" }
}

fn window(bytes_max: usize) -> CommitWindow {
    CommitWindow::new(bytes_max, Charge::default())
}

/// Groups form, are published, and fail; transactions begin, read, are compared in turns, and end;
/// runs are ingested. A transaction has a conflict if, and only if, a key that it has read was
/// written by a group after its ticket, or a run was ingested. In every other history the window is
/// bounded: a transaction may be too old then, but none is when it begins.
#[test]
fn random_histories_agree_with_a_list_of_all_writes() {
    let (mut conflicts, mut passes, mut ingested, mut too_old) = (0, 0, 0, 0);
    for seed in 0..4000 {
        let mut random = tamarack_testing::Random::new(seed);
        let bytes_max = *random.pick(&[usize::MAX, random_bound(seed)]);
        let mut window = window(bytes_max);
        // The ticket of the forming group, and the members that it has.
        let (mut forming, mut members, mut published) = (1, 0, 0);
        // All writes ever, with their tickets.
        let mut writes: Vec<(u64, u8)> = Vec::new();
        let mut active: Vec<ModelTransaction> = Vec::new();
        let keys = 2 + random.below(30);
        for _ in 0..200 {
            match random.below(12) {
                0..=3 => {
                    let key = random.below(keys) as u8;
                    writes.push((forming, key));
                    if window.is_active() {
                        drop(window.note(forming, &put(&[key])));
                    }
                    members += 1;
                }
                4 => {
                    let mut batch = Batch::new();
                    for _ in 0..1 + random.below(4) {
                        let key = random.below(keys) as u8;
                        batch.put([key], "").delete([key]);
                        writes.push((forming, key));
                    }
                    if random.one_in(3) {
                        let from = random.below(keys) as u8;
                        let to = (!random.one_in(4)).then(|| from + 1 + random.below(4) as u8);
                        match to {
                            Some(to) => batch.delete_range([from]..[to]),
                            None => batch.delete_range([from]..),
                        };
                        writes.extend((from..to.unwrap_or(keys as u8)).map(|key| (forming, key)));
                    }
                    if window.is_active() {
                        drop(window.note(forming, &Write::Many(&batch)));
                    }
                    members += 1;
                }
                // A leader takes the group.
                5 if members > 0 => (forming, members) = (forming + 1, 0),
                6 => published += random.below(forming - published),
                // Of the groups that are not published, none or some were written before the run.
                7 if random.one_in(8) => {
                    let before = published + random.below(forming - published);
                    window.note_run(before);
                    for transaction in active.iter_mut().filter(|transaction| transaction.begun.ticket <= before) {
                        transaction.is_outdated = true;
                    }
                    published = before;
                }
                8 => {
                    let joined = forming - u64::from(members == 0);
                    let begun = window.begin(published, joined);
                    assert!(begun.ticket >= published && begun.ticket <= forming, "seed {seed}");
                    let checked = window.check(&begun, &ModelReads::default(), &mut CheckedNotes::default(), 1000);
                    assert!(checked.is_ok(), "seed {seed}: {checked:?} of one that has just begun");
                    // It waits until then. Others may join the group meanwhile, if it still forms.
                    if begun.ticket == forming {
                        for _ in 0..random.below(3) {
                            let key = random.below(keys) as u8;
                            writes.push((forming, key));
                            drop(window.note(forming, &put(&[key])));
                        }
                        (forming, members) = (forming + 1, 0);
                    }
                    published = published.max(begun.ticket);
                    active.push(ModelTransaction {
                        begun,
                        reads: ModelReads::default(),
                        is_outdated: false,
                        checked: CheckedNotes::default(),
                    });
                }
                9 if !active.is_empty() => {
                    let at = random.below(active.len() as u64) as usize;
                    active[at].reads.0.insert(random.below(keys) as u8);
                    // What was compared before counts no longer.
                    active[at].checked = CheckedNotes::default();
                }
                10 if !active.is_empty() => {
                    let at = random.below(active.len() as u64) as usize;
                    let turn = 1 + random.below(5) as usize;
                    let ModelTransaction { begun, reads, checked, .. } = &mut active[at];
                    let _ = window.check(begun, reads, checked, turn);
                }
                11 if !active.is_empty() => {
                    let ended = active.swap_remove(random.below(active.len() as u64) as usize);
                    let ModelTransaction { begun, reads, is_outdated, mut checked } = ended;
                    let expected = writes.iter().any(|(ticket, key)| *ticket > begun.ticket && reads.0.contains(key));
                    let found = loop {
                        match window.check(&begun, &reads, &mut checked, 1 + random.below(9) as usize) {
                            Ok(false) => {}
                            found => break found,
                        }
                    };
                    match found {
                        Ok(_) => assert!(!expected && !is_outdated, "seed {seed}: {reads:?}"),
                        Err(WindowConflict::Ingested) => assert!(is_outdated, "seed {seed}"),
                        Err(WindowConflict::Written { key, ticket }) => {
                            assert!(expected && ticket > begun.ticket && reads.contains(&key), "seed {seed}");
                        }
                        Err(WindowConflict::Deleted { range, ticket }) => {
                            assert!(expected && ticket > begun.ticket && reads.overlaps(&range), "seed {seed}");
                        }
                        Err(WindowConflict::Forgotten { .. }) => {
                            assert!(bytes_max < usize::MAX && begun.ticket < forming, "seed {seed}");
                            too_old += 1;
                        }
                    }
                    conflicts += u32::from(expected);
                    ingested += u32::from(is_outdated);
                    passes += u32::from(!expected && !is_outdated);
                    drop(window.end(&begun));
                }
                _ => {}
            }
            let begun: BTreeSet<u64> = active.iter().map(|transaction| transaction.begun.ticket).collect();
            assert_eq!(window.begun.len(), begun.len(), "seed {seed}: tickets where none is active");
            assert_eq!(window.is_active(), !active.is_empty(), "seed {seed}");
            assert!(window.bytes() <= bytes_max && window.charge.bytes() == window.bytes() as u64, "seed {seed}");
            if active.is_empty() {
                assert!(window.notes.is_empty() && window.key_bytes == 0, "seed {seed}: notes that nobody needs");
            }
        }
    }
    let counts = [conflicts, passes, ingested, too_old];
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}

/// An active transaction, what it has read, and what was published when it read each key.
type Advancing = (BeginTicket, ModelReads, Vec<(u8, u64)>);

/// Transactions that are compared before each read, and then go on from what is published. One has
/// a conflict if, and only if, a key that it has read was written by a group that was not published
/// when it read it.
#[test]
fn transactions_that_advance_agree_with_a_list_of_all_writes() {
    let mut counts = [0; 4];
    for seed in 0..4000 {
        let mut random = tamarack_testing::Random::new(seed);
        let bytes_max = *random.pick(&[usize::MAX, 20 * NOTE_BYTES]);
        let mut window = window(bytes_max);
        let (mut forming, mut published) = (1, 0);
        let mut writes: Vec<(u64, u8)> = Vec::new();
        let mut active: Vec<Advancing> = Vec::new();
        let keys = 2 + random.below(30);
        for _ in 0..200 {
            match random.below(10) {
                0..=3 => {
                    let key = random.below(keys) as u8;
                    writes.push((forming, key));
                    if window.is_active() {
                        drop(window.note(forming, &put(&[key])));
                    }
                }
                4 => forming += 1,
                5 => published += random.below(forming - published),
                6 => {
                    let begun = window.begin(published, forming);
                    if begun.ticket == forming {
                        forming += 1;
                    }
                    published = published.max(begun.ticket);
                    active.push((begun, ModelReads::default(), Vec::new()));
                }
                action if !active.is_empty() => {
                    let at = random.below(active.len() as u64) as usize;
                    let (begun, reads, read_at) = &mut active[at];
                    let overtaken =
                        writes.iter().any(|(ticket, key)| read_at.iter().any(|(read, at)| read == key && ticket > at));
                    let mut checked = CheckedNotes::default();
                    let found = loop {
                        match window.check(begun, reads, &mut checked, 1 + random.below(9) as usize) {
                            Ok(false) => {}
                            found => break found,
                        }
                    };
                    match &found {
                        Ok(_) => assert!(!overtaken, "seed {seed}: {read_at:?}"),
                        Err(WindowConflict::Forgotten { .. }) => {
                            assert!(bytes_max < usize::MAX, "seed {seed}");
                            counts[0] += 1;
                        }
                        Err(conflict) => {
                            assert!(overtaken, "seed {seed}: {conflict:?} {read_at:?}");
                            counts[1] += 1;
                        }
                    }
                    if found.is_ok() && action < 9 {
                        window.advance(begun, published);
                        assert_eq!(begun.ticket, published);
                        let key = random.below(keys) as u8;
                        reads.0.insert(key);
                        read_at.push((key, published));
                        counts[2] += 1;
                    } else {
                        let (begun, ..) = active.swap_remove(at);
                        drop(window.end(&begun));
                        counts[3] += u32::from(found.is_ok());
                    }
                }
                _ => {}
            }
            let begun: BTreeSet<u64> = active.iter().map(|(begun, ..)| begun.ticket).collect();
            assert!(window.begun.iter().map(|(ticket, _)| *ticket).eq(begun), "seed {seed}: {:?}", window.begun);
            assert!(window.bytes() <= bytes_max && window.charge.bytes() == window.bytes() as u64, "seed {seed}");
        }
    }
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}

/// A bound on the window that single batches exceed, or some writes.
fn random_bound(seed: u64) -> usize {
    (1 + seed as usize % 9) * NOTE_BYTES
}

/// While one transaction lasts, thousands that begin and end beside it leave nothing.
#[test]
fn short_transactions_beside_a_long_one_leave_nothing() {
    let mut window = window(1 << 10);
    let long = window.begin(0, 0);
    for ticket in 1..5000 {
        drop(window.note(ticket, &put(b"key")));
        let short = window.begin(ticket, ticket);
        assert_ne!(short.number, long.number);
        drop(window.end(&short));
        assert_eq!(window.begun.len(), 1, "at {ticket}");
    }
    drop(window.end(&long));
    assert!(!window.is_active());
}

/// What a transaction leaves at its end is not charged any more, also while another one is active.
#[test]
fn the_charge_falls_as_notes_are_removed() {
    let mut window = window(usize::MAX);
    let first = window.begin(0, 0);
    for ticket in 1..=50 {
        drop(window.note(ticket, &put(b"key")));
    }
    let second = window.begin(50, 50);
    assert_eq!(window.charge.bytes() as usize, 50 * (NOTE_BYTES + 3));
    drop(window.end(&first));
    assert_eq!((window.notes.len(), window.charge.bytes()), (0, 0));
    drop(window.end(&second));
}

/// A transaction that begins while a group is in progress whose notes were forgotten begins at that
/// group, and is not too old.
#[test]
fn no_transaction_is_born_too_old() {
    let mut window = window(10 * NOTE_BYTES);
    let long = window.begin(3, 3);
    let mut batch = Batch::new();
    for key in 0..100_u32 {
        batch.put(key.to_be_bytes(), "");
    }
    drop(window.note(5, &Write::Many(&batch)));
    let born = window.begin(4, 5);
    assert_eq!(born.ticket, 5);
    let reads = ModelReads(BTreeSet::from([0]));
    let check = |begun| window.check(begun, &reads, &mut CheckedNotes::default(), 1);
    assert_eq!(
        (check(&born), check(&long)),
        (Ok(true), Err(WindowConflict::Forgotten { bytes_max: window.bytes_max }))
    );
}

/// A write whose notes exceed the bound is not noted, and takes no memory.
#[test]
fn a_write_that_exceeds_the_bound_is_not_noted() {
    let mut window = window(100 * (NOTE_BYTES + 4));
    let _begun = window.begin(0, 0);
    let batch = |keys: u32| {
        let mut batch = Batch::new();
        for key in 0..keys {
            batch.put(key.to_be_bytes(), "");
        }
        batch
    };
    let all = batch(100);
    assert!(window.note(1, &Write::Many(&all)).0.is_empty(), "the bound to the byte");
    assert_eq!((window.notes.len(), window.forgotten), (100, 0));
    assert_eq!(window.note(2, &Write::Many(&batch(80))).0.len(), 80, "many are dropped later");
    assert_eq!((window.notes.len(), window.forgotten), (100, 1));
    assert_eq!(window.note(3, &Write::Many(&batch(101))).0.len(), 100);
    assert_eq!((window.notes.capacity(), window.forgotten, window.bytes()), (0, 3, 0));
}

/// A transaction that begins at a group behind a run sees the run, also if it was active before.
#[test]
fn a_run_makes_those_too_old_that_cannot_see_it() {
    let mut window = window(usize::MAX);
    let before = window.begin(3, 3);
    drop(window.end(&before));
    let behind = window.begin(3, 4);
    window.note_run(3);
    let reads = ModelReads(BTreeSet::from([0]));
    let check = |begun| window.check(begun, &reads, &mut CheckedNotes::default(), 1);
    assert_eq!((check(&before), check(&behind)), (Err(WindowConflict::Ingested), Ok(true)));
}

/// Notes that no transaction needs are removed as others come.
#[test]
fn old_notes_are_removed() {
    let mut window = window(usize::MAX);
    let mut before = window.begin(0, 0);
    for ticket in 1..10_000 {
        drop(window.note(ticket, &put(b"key")));
        let begun = window.begin(ticket, ticket);
        drop(window.end(&before));
        before = begun;
        assert!(window.notes.len() <= 1, "{} notes at {ticket}", window.notes.len());
    }
    // A transaction that lasts keeps those after it, and they go soon after it.
    for ticket in 10_000..20_000 {
        drop(window.note(ticket, &put(b"key")));
    }
    assert_eq!(window.notes.len(), 10_000);
    let begun = window.begin(19_999, 19_999);
    drop(window.end(&before));
    for ticket in 20_000..20_200 {
        drop(window.note(ticket, &put(b"key")));
    }
    assert_eq!(window.notes.len(), 200);
    drop(window.end(&begun));
    assert_eq!(window.bytes(), 0);
}

/// Over its bound the window forgets the oldest notes: a transaction that began before them is too
/// old, one that began after them is not.
#[test]
fn the_window_is_bounded() {
    let mut window = window(64 << 10);
    let nothing = ModelReads::default();
    let old = window.begin(0, 0);
    for ticket in 1..5000 {
        drop(window.note(ticket, &put(b"some key")));
        assert!(window.bytes() <= 64 << 10);
        assert_eq!(window.charge.bytes(), window.bytes() as u64);
    }
    let young = window.begin(4999, 4999);
    drop(window.note(5000, &put(b"some key")));
    let check = |begun| window.check(begun, &nothing, &mut CheckedNotes::default(), usize::MAX);
    assert_eq!(check(&old), Err(WindowConflict::Forgotten { bytes_max: 64 << 10 }));
    assert_eq!(check(&young), Ok(true));
    // One write can exceed it alone.
    let mut batch = Batch::new();
    for key in 0..10_000_u32 {
        batch.put(key.to_be_bytes(), "");
    }
    drop(window.note(5001, &Write::Many(&batch)));
    let check = |begun| window.check(begun, &nothing, &mut CheckedNotes::default(), usize::MAX);
    assert_eq!(check(&young), Err(WindowConflict::Forgotten { bytes_max: 64 << 10 }));
    assert!(window.bytes() <= 64 << 10);
}
