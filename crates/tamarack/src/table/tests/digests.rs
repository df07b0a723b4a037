//! Digests of several tables in intervals: those of the keys, whatever is read together.

use std::path::Path;
use std::sync::Arc;

use tamarack_env::{Env, MemoryEnv};
use tamarack_filter::{Digest, DigestSet};
use tamarack_testing::{read_file, write_file};

use crate::error::Error;
use crate::format::block::Compression;
use crate::format::entry::{Entry, EntryKind, Sequence};
use crate::format::meta::{EditNumber, TableId};
use crate::format::names::FileName;
use crate::stats::Reader;
use crate::table::{DigestsWanted, Table, TableBuilder, TableSettings, TableStorage, read_digests};

const DATABASE: u64 = 0xDA7A_BA5E;

/// A table with the keys of these numbers.
fn table(env: &Arc<dyn Env>, storage: &Arc<TableStorage>, id: u64, keys: u64, digests: bool) -> Arc<Table> {
    let settings = TableSettings {
        database: DATABASE,
        id: TableId(id),
        created_after: EditNumber(0),
        block_bytes: 4096,
        compression: Compression::None,
        filter: None,
        digests,
    };
    let mut builder = TableBuilder::create(&**env, Path::new(""), settings).expect("space on the disk");
    for number in 0..keys {
        let entry = Entry { key: &key(id, number), sequence: Sequence(1), kind: EntryKind::Put, value: b"" };
        builder.add(entry).expect("space on the disk");
    }
    let meta = builder.finish().expect("space on the disk");
    Table::open(storage, Path::new(""), DATABASE, &meta).expect("a whole table")
}

fn key(id: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
}

fn expected(id: u64, keys: u64, first: Digest, last: Digest) -> Vec<Digest> {
    let all = DigestSet::new((0..keys).map(|number| Digest::of(&key(id, number))).collect());
    all.digests().iter().copied().filter(|digest| (first..=last).contains(digest)).collect()
}

/// Of tables of one chunk, of some, and of so many that their list is longer than what is read at
/// first; of a table without digests, and of one whose digests are damaged. The list of chunks is
/// read once, and then each interval of a table takes one read.
#[test]
fn digests_of_many_tables_are_those_of_their_keys() {
    let env: Arc<dyn Env> = MemoryEnv::new(1);
    let storage = TableStorage::buffered(env.clone(), 1 << 20);
    let keys = [100, 5_000, 200_000, 50];
    let mut tables: Vec<Arc<Table>> =
        (1..).zip(keys).map(|(id, keys)| table(&env, &storage, id, keys, id != 4)).collect();
    tables.push(table(&env, &storage, 5, 3_000, true));
    let path = FileName::Table(5).path(Path::new(""));
    let mut bytes = read_file(&*env, &path);
    // The list of chunks stays whole.
    let chunks = tables[4].footer.digests.as_ref().map(|handle| handle.offset + 10 + 8 * 12 + 8).expect("digests");
    bytes[chunks as usize + 5] ^= 1;
    write_file(&*env, &path, &bytes);
    let quarter = |number: u64| Digest::from_stored(number << 62);
    let intervals = [(quarter(0), quarter(1)), (quarter(2), Digest::from_stored(u64::MAX)), (quarter(3), quarter(3))];
    for round in 0..2 {
        let wanted: Vec<DigestsWanted> = intervals
            .iter()
            .flat_map(|(first, last)| {
                tables.iter().map(|table| DigestsWanted { table: table.clone(), first: *first, last: *last })
            })
            .collect();
        let counters = tables[0].file.counters().of(Reader::Upkeep);
        let before = counters.reads.get();
        let mut read = read_digests(&wanted).into_iter();
        let reads = counters.reads.get() - before;
        for (first, last) in intervals {
            for (id, keys) in (1..).zip(keys) {
                let found = read.next().expect("one for each").expect("whole");
                let expected = (id != 4).then(|| expected(id, keys, first, last));
                assert!(found == expected, "table {id}, round {round}: {} digests", found.map_or(0, |all| all.len()));
            }
            let damaged = read.next().expect("one for each");
            match damaged {
                Err(Error::Corruption { path: named, .. }) => assert_eq!(named, path),
                // The damage is in another chunk, and not known yet.
                Ok(Some(found)) => assert!(round == 0 && found == expected(5, 3_000, first, last)),
                other => panic!("{other:?}"),
            }
        }
        assert!(tables[4].digest_damage().is_some(), "round {round}");
        if round == 1 {
            assert_eq!(reads, 9, "three intervals of three tables");
        }
    }
}
