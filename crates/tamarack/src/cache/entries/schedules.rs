//! Lookups in the table of cached entries while it grows, in many orders of steps: an entry that
//! stays is found, and that is noticed where it is not.

use std::sync::Arc;

use tamarack_env::sync::thread;

use super::*;
use crate::entry::{Entry, EntryKind, Sequence};
use crate::mistake::{self, Mistake};

fn entry(name: u64) -> CachedEntry {
    let entry = Entry { key: b"key", sequence: Sequence(1), kind: EntryKind::Put, value: b"" };
    CachedEntry::new(name, &entry, Sequence(1))
}

/// An entry that stays is listed and looked up while the entries of its home are divided, and
/// others come and go there.
fn looked_up_while_the_table_grows() {
    // All have home 0 until the table is divided, and home 1 then.
    let names = [1, 3, 5];
    let (table, mut writer) = (EntryTable::new(), TableWriter::default());
    assert!(names.iter().all(|&name| table.insert(&mut writer, entry(name)).is_none()));
    let table = Arc::new(table);
    let changing = {
        let table = table.clone();
        thread::spawn(move || {
            table.insert(&mut writer, entry(7));
            assert!(table.remove(&mut writer, 3).is_some());
            table.insert(&mut writer, entry(9));
        })
    };
    let named = table.names_of(|_| true);
    for name in [1, 5] {
        assert!(named.contains(&name), "entry {name} is not among {named:?}");
        assert!(table.has(name), "entry {name} is not found");
    }
    changing.join().expect("it does not panic");
}

#[test]
fn what_stays_is_found_in_all_orders() {
    shuttle::check_pct(looked_up_while_the_table_grows, 2000, 3);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the explorer's threads are within one of the machine's")]
fn what_is_not_found_is_noticed() {
    for mistake in [Mistake::CacheGrowthUnnoticed, Mistake::CachedEntryTakenFirst] {
        let explored =
            move || mistake::with(mistake, || shuttle::check_pct(looked_up_while_the_table_grows, 20_000, 3));
        // A thread for each: a failure can leave its thread as one that panics.
        assert!(std::thread::spawn(explored).join().is_err(), "{mistake:?} is not noticed");
    }
}
