//! Tests: the table is a map, whatever is inserted and removed, and takes the memory that it says;
//! what is removed is freed; an entry that stays is found while others come and go.

use std::collections::HashMap;

use tamarack_env::sync::atomic::AtomicBool;
use tamarack_testing::{Random, seeds};

use super::*;
use crate::entry::{Entry, EntryKind, Sequence};

fn entry(name: u64, value: u64) -> CachedEntry {
    let entry = Entry { key: b"key", sequence: Sequence(1), kind: EntryKind::Put, value: &value.to_le_bytes() };
    CachedEntry::new(name, &entry, Sequence(1))
}

/// Names of which many have the same home, or the same tag.
fn name(random: &mut Random, names: u64) -> u64 {
    let name = random.below(names);
    match name % 3 {
        0 => name,
        1 => name.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        _ => name << 40,
    }
}

#[test]
fn the_table_is_a_map() {
    for seed in seeds(30) {
        let mut random = Random::new(seed);
        let names = [3, 100, 5000][random.below(3) as usize];
        let (table, mut writer) = (EntryTable::new(), TableWriter::default());
        let mut model: HashMap<u64, (u64, u8)> = HashMap::new();
        for step in 0..20_000 {
            let name = name(&mut random, names);
            // Grows at first, and shrinks at the end.
            match random.below(if step < 10_000 { 4 } else { 12 }) {
                0 => {
                    let found = table.get(name);
                    let value =
                        |found: &FoundEntry| u64::from_le_bytes(*found.read().value().first_chunk().expect("8"));
                    let is = model.get_mut(&name).map(|(value, uses)| {
                        *uses = (*uses + 1).min(3);
                        *value
                    });
                    assert_eq!(found.as_ref().map(value), is, "seed {seed}, step {step}");
                }
                1 | 2 => {
                    let uses = model.get(&name).map_or(0, |&(_, uses)| uses);
                    let before = model.insert(name, (step, uses));
                    let replaced = table.insert(&mut writer, entry(name, step));
                    assert_eq!(replaced.is_some(), before.is_some());
                }
                3 if model.contains_key(&name) => {
                    let uses = table.uses(name, |uses| uses / 2);
                    let is = &mut model.get_mut(&name).expect("it has it").1;
                    assert_eq!(uses, *is, "seed {seed}, step {step}");
                    *is /= 2;
                }
                _ => {
                    let removed = table.remove(&mut writer, name);
                    assert_eq!(removed.is_some(), model.remove(&name).is_some(), "seed {seed}, step {step}");
                }
            }
            assert_eq!(writer.entries, model.len() as u64);
        }
        assert!(model.keys().all(|&name| table.has(name)));
        let mut named = table.names_of(|entry| entry.name() % 2 == 0);
        named.sort_unstable();
        let mut even: Vec<u64> = model.keys().copied().filter(|name| name % 2 == 0).collect();
        even.sort_unstable();
        assert_eq!(named, even, "seed {seed}");
        assert!(model.keys().all(|&name| table.remove(&mut writer, name).is_some()));
        assert_eq!((writer.entries, writer.empty.len() as u32), (0, writer.further), "all buckets were given back");
    }
}

/// Entries that are removed or replaced are freed at once where nobody reads, also while the table
/// grows.
#[test]
fn what_is_removed_is_freed() {
    let (table, mut writer) = (EntryTable::new(), TableWriter::default());
    let mut random = Random::new(1);
    let mut there: Vec<CachedEntry> = Vec::new();
    for step in 0..20_000 {
        let added = entry(random.next(), 0);
        assert!(table.insert(&mut writer, added.clone()).is_none());
        there.push(added);
        let at = random.below(there.len() as u64) as usize;
        if step % 4 < 2 {
            let before = if step % 4 == 0 {
                assert!(table.remove(&mut writer, there[at].read().name()).is_some());
                there.swap_remove(at)
            } else {
                let other = entry(there[at].read().name(), 1);
                assert!(table.insert(&mut writer, other.clone()).is_some());
                std::mem::replace(&mut there[at], other)
            };
            assert_eq!(before.references(), 1, "ours");
        }
    }
    let count = table.count.load(Ordering::Relaxed);
    assert!(count > 4000 && there.iter().all(|entry| entry.references() == 2), "{count} homes");
    drop(table);
    assert!(there.iter().all(|entry| entry.references() == 1));
}

/// The table takes about what the module's documentation says for each entry, with names as
/// they are.
#[test]
fn the_table_is_small() {
    let (table, mut writer) = (EntryTable::new(), TableWriter::default());
    let mut random = Random::new(7);
    for entries in 1..=200_000_u64 {
        table.insert(&mut writer, entry(random.next(), 0));
        if entries.is_power_of_two() && entries > 8192 || entries % 50_000 == 0 {
            let each = (table.memory_bytes() + writer.memory_bytes()) as f64 / entries as f64;
            assert!((20.0..30.0).contains(&each), "{each} bytes for each of {entries} entries");
        }
    }
}

/// While one thread changes the table, others find all that stays, and nothing that was replaced
/// before what they have found.
#[test]
fn what_stays_is_always_found() {
    /// Ends the others also where the writer panics.
    struct Ending<'a>(&'a AtomicBool);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let rounds = if cfg!(miri) { 60 } else { 30_000 };
    let (table, mut writer) = (EntryTable::new(), TableWriter::default());
    // A third share a home for long, so that buckets for further entries come and go there.
    let name = |number: u64| {
        let name = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if number.is_multiple_of(3) { name << 12 } else { name }
    };
    let staying: Vec<u64> = (1..20).map(name).collect();
    assert!(staying.iter().all(|&name| table.insert(&mut writer, entry(name, 0)).is_none()));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = vec![0; staying.len()];
                while !is_done.load(Ordering::Relaxed) {
                    for (&name, last) in staying.iter().zip(&mut last) {
                        let found = table.get(name).expect("it stays");
                        let value = u64::from_le_bytes(*found.read().value().first_chunk().expect("8"));
                        assert!(found.read().name() == name && value >= *last, "{value} after {last}");
                        *last = value;
                    }
                    let named = table.names_of(|entry| staying.contains(&entry.name()));
                    assert!(staying.iter().all(|name| named.contains(name)), "{named:?} of {staying:?}");
                }
            });
        }
        let _ending = Ending(&is_done);
        let mut random = Random::new(99);
        let mut others = Vec::new();
        for round in 0..rounds {
            let other = name(100 + round);
            table.insert(&mut writer, entry(other, 0));
            table.insert(&mut writer, entry(staying[round as usize % staying.len()], round));
            others.push(other);
            if round % 2 == 0 {
                let gone = others.swap_remove(random.below(others.len() as u64) as usize);
                assert!(table.remove(&mut writer, gone).is_some());
            }
        }
    });
}
