//! Tables that are opened with what their builder has left in memory: nothing of that is read, and
//! they answer like tables that were opened from their files.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::{Env, MemoryEnv};
use tamarack_testing::STEP;

use crate::cache::BlockCache;
use crate::entry::Query;
use crate::format::block::Compression;
use crate::format::entry::{Entry, EntryKind, Sequence};
use crate::format::meta::{EditNumber, TableId, TableMeta};
use crate::memory::{Account, Budget, MemoryPart};
use crate::stats::LookupTally;
use crate::table::{
    FilterKind, FilterSettings, FilterTarget, Loaded, Table, TableAccess, TableBuilder, TableSettings, TableStorage,
    WrittenTable,
};

const DATABASE: u64 = 0xDA7A_BA5E;
const ENTRIES: u32 = 5_000;

/// A storage whose resident index blocks may take so much, and what it charges.
fn storage(index_bytes: u64) -> Arc<TableStorage> {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    env.create_dir(Path::new("db"), STEP).expect("a new directory");
    let access = TableAccess { direct: false, open_files_max: 10 };
    TableStorage::new(env, Arc::new(BlockCache::new(0)), Account::new(Budget::unlimited()), index_bytes, access)
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Builds a table of [`ENTRIES`] entries with a filter of that kind.
fn build(storage: &Arc<TableStorage>, kind: FilterKind, digests: bool) -> (TableMeta, WrittenTable) {
    let settings = TableSettings {
        database: DATABASE,
        id: TableId(7),
        created_after: EditNumber(3),
        block_bytes: 200,
        compression: Compression::None,
        filter: Some(FilterSettings { kind, bits_per_entry: 10.0 }),
        digests,
    };
    let builder = TableBuilder::create(storage.env(), Path::new("db"), settings).expect("a new file");
    let mut builder = builder.on(storage.account()).leaving(storage);
    for number in 0..ENTRIES {
        let (key, sequence) = (key(2 * number), Sequence(1));
        builder.add(Entry { key: &key, sequence, kind: EntryKind::Put, value: &[7; 20] }).expect("space on the disk");
    }
    let (meta, file, written) = builder.finish_unsynced().expect("space on the disk");
    file.sync().expect("space on the disk");
    (meta, written.expect("it was to leave something"))
}

fn open(storage: &Arc<TableStorage>, meta: &TableMeta, written: Option<WrittenTable>) -> Arc<Table> {
    let target = FilterTarget::Stored;
    Table::open_with(storage, Path::new("db"), DATABASE, meta, target, written).expect("a whole table")
}

/// How many keys are found of those that exist, and of those between them.
fn look_up(table: &Table) -> (usize, usize) {
    let tally = LookupTally::default();
    let finds = |number: &u32| {
        let query = &key(*number);
        let found = table.get(Query::new(query, Sequence::MAX), &tally, &mut |_, _| ControlFlow::Break(()));
        found.expect("a whole table").is_break()
    };
    let all = 0..2 * ENTRIES;
    (all.clone().step_by(2).filter(finds).count(), all.skip(1).step_by(2).filter(finds).count())
}

/// Reads and blocks of them that the storage has counted, index blocks apart.
fn counted(storage: &TableStorage) -> (u64, u64) {
    let total = storage.counters().get().total();
    (total.reads, total.index_blocks)
}

/// Opening reads nothing, and lookups read data blocks only; the filter is that of the file.
#[test]
fn nothing_of_it_is_read() {
    for (kind, digests) in [(FilterKind::Blocked, true), (FilterKind::Bloom, false), (FilterKind::Elastic, true)] {
        let storage = storage(1 << 20);
        let (meta, written) = build(&storage, kind, digests);
        let table = open(&storage, &meta, Some(written));
        assert_eq!(counted(&storage), (0, 0), "{kind:?}");
        assert_eq!(look_up(&table), (ENTRIES as usize, 0), "{kind:?}");
        assert_eq!(counted(&storage).1, 0, "{kind:?}");
        let filter = table.filter_in_use();
        drop(table);
        let table = open(&storage, &meta, None);
        assert_eq!((table.filter_in_use(), counted(&storage).0 > 0), (filter, true), "{kind:?}");
        assert_eq!(look_up(&table), (ENTRIES as usize, 0), "{kind:?}");
        assert!(counted(&storage).1 > 10, "{kind:?}: now index blocks are read");
    }
}

/// Lower blocks stay within the budget for resident ones, of which an eighth is left to lookups,
/// before and after the table is opened, and whether or not it ever is.
#[test]
fn budgets_are_kept() {
    let all = storage(1 << 20);
    let (_, written) = build(&all, FilterKind::Blocked, true);
    let all_bytes = all.index_budget().used_bytes();
    assert!(all_bytes > 20_000, "{all_bytes} of lower blocks");
    assert!(all.account().bytes(MemoryPart::Indexes) > 0 && all.account().bytes(MemoryPart::Blocks) == all_bytes);
    drop(written);
    let bytes = [MemoryPart::Indexes, MemoryPart::Blocks].map(|part| all.account().bytes(part));
    assert_eq!((bytes, all.index_budget().used_bytes()), ([0; 2], 0), "what is not opened is given back");

    for index_bytes in [0, all_bytes, all_bytes * 8 / 7 + 8, 2 * all_bytes] {
        let storage = storage(index_bytes);
        let (meta, written) = build(&storage, FilterKind::Blocked, true);
        let used = storage.index_budget().used_bytes();
        assert_eq!(used, if index_bytes > all_bytes { all_bytes } else { 0 }, "{index_bytes}");
        let table = open(&storage, &meta, Some(written));
        let used = storage.index_budget().used_bytes();
        assert!(used <= index_bytes - index_bytes / 8, "{used} of {index_bytes}");
        assert_eq!(used > 0, index_bytes > all_bytes, "{used} of {index_bytes}");
        drop(table);
        assert_eq!(storage.index_budget().used_bytes(), 0);
    }
}

/// Loading takes what opening has not brought, until seven eighths of the budget are used.
#[test]
fn the_rest_is_loaded() {
    for index_bytes in [0, 30_000, 1 << 20] {
        let storage = storage(index_bytes);
        let (meta, _) = build(&storage, FilterKind::Blocked, true);
        let table = open(&storage, &meta, None);
        let opened = counted(&storage);
        while table.load_lower().expect("a whole table") == Loaded::Some {}
        let (used, loaded) = (storage.index_budget().used_bytes(), counted(&storage));
        assert!(used <= index_bytes - index_bytes / 8, "{used} of {index_bytes}");
        if index_bytes < 1 << 20 {
            assert!(used + 2_000 > index_bytes - index_bytes / 8 || index_bytes == 0, "{used} of {index_bytes}");
        } else {
            assert_eq!(loaded.0, opened.0 + 1, "all of them in one read");
            assert_eq!(look_up(&table), (ENTRIES as usize, 0));
            assert_eq!(counted(&storage).1, loaded.1, "lookups read none");
        }
    }
}

/// What is damaged in memory is not used.
#[test]
fn damage_in_memory_is_noticed() {
    let storage = storage(1 << 20);
    let (meta, written) = build(&storage, FilterKind::Blocked, true);
    let table = open(&storage, &meta, Some(written.with_flipped_bit()));
    assert_eq!(look_up(&table), (ENTRIES as usize, 0));
    assert!(counted(&storage).1 > 0, "from the file");
}
