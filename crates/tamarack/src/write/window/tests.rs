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
    fn contains(&self, key: &[u8]) -> bool {
        self.0.contains(&key[0])
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
/// written by a group after its ticket, or a run was ingested.
#[test]
fn random_histories_agree_with_a_list_of_all_writes() {
    let (mut conflicts, mut passes, mut ingested) = (0, 0, 0);
    for seed in 0..2000 {
        let mut random = tamarack_testing::Random::new(seed);
        let mut window = window(usize::MAX);
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
                        window.note(forming, &put(&[key]));
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
                    if window.is_active() {
                        window.note(forming, &Write::Many(&batch));
                    }
                    members += 1;
                }
                // A leader takes the group.
                5 if members > 0 => (forming, members) = (forming + 1, 0),
                6 => published += random.below(forming - published),
                7 if random.one_in(8) => {
                    window.note_run();
                    active.iter_mut().for_each(|transaction| transaction.is_outdated = true);
                }
                8 => {
                    let joined = forming - u64::from(members == 0);
                    let begun = window.begin(published, joined);
                    assert!(begun.ticket >= published && begun.ticket <= forming, "seed {seed}");
                    // It waits until then.
                    published = published.max(begun.ticket.min(forming - 1));
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
                        Err(other) => panic!("seed {seed}: {other:?}"),
                    }
                    conflicts += u32::from(expected);
                    ingested += u32::from(is_outdated);
                    passes += u32::from(!expected && !is_outdated);
                    drop(window.end(&begun));
                }
                _ => {}
            }
            assert_eq!(window.is_active(), !active.is_empty(), "seed {seed}");
            if active.is_empty() {
                assert!(window.notes.is_empty() && window.key_bytes == 0, "seed {seed}: notes that nobody needs");
            }
        }
    }
    assert!(conflicts > 1000 && passes > 1000 && ingested > 1000, "{conflicts} {passes} {ingested}");
}

/// Notes that no transaction needs are removed as others come.
#[test]
fn old_notes_are_removed() {
    let mut window = window(usize::MAX);
    let mut before = window.begin(0, 0);
    for ticket in 1..10_000 {
        window.note(ticket, &put(b"key"));
        let begun = window.begin(ticket, ticket);
        drop(window.end(&before));
        before = begun;
        assert!(window.notes.len() <= 1, "{} notes at {ticket}", window.notes.len());
    }
    // A transaction that lasts keeps those after it, and they go soon after it.
    for ticket in 10_000..20_000 {
        window.note(ticket, &put(b"key"));
    }
    assert_eq!(window.notes.len(), 10_000);
    let begun = window.begin(19_999, 19_999);
    drop(window.end(&before));
    for ticket in 20_000..20_200 {
        window.note(ticket, &put(b"key"));
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
        window.note(ticket, &put(b"some key"));
        assert!(window.bytes() <= 64 << 10);
        assert_eq!(window.charge.bytes(), window.bytes() as u64);
    }
    let young = window.begin(4999, 4999);
    window.note(5000, &put(b"some key"));
    let check = |begun| window.check(begun, &nothing, &mut CheckedNotes::default(), usize::MAX);
    assert_eq!(check(&old), Err(WindowConflict::Forgotten { bytes_max: 64 << 10 }));
    assert_eq!(check(&young), Ok(true));
    // One write can exceed it alone.
    let mut batch = Batch::new();
    for key in 0..10_000_u32 {
        batch.put(key.to_be_bytes(), "");
    }
    window.note(5001, &Write::Many(&batch));
    let check = |begun| window.check(begun, &nothing, &mut CheckedNotes::default(), usize::MAX);
    assert_eq!(check(&young), Err(WindowConflict::Forgotten { bytes_max: 64 << 10 }));
    assert!(window.bytes() <= 64 << 10);
}
