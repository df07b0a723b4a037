//! Damaged tables: whatever happens to a file, a read returns what was written, or an error that
//! names the file. And `verify` detects every altered byte.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Env, MemoryEnv};
use tamarack_testing::{STEP, read_file, write_file};

use crate::entry::Query;
use crate::error::{Error, Result};
use crate::format::VERSION;
use crate::format::block::Compression;
use crate::format::entry::{Entry, EntryKind, OwnedEntry, Sequence};
use crate::format::meta::{EditNumber, TableId, TableMeta};
use crate::format::names::FileName;
use crate::format::table::{FOOTER_BYTES, place};
use crate::stats::LookupTally;
use crate::table::{FilterKind, FilterSettings, ReadPolicy, Table, TableBuilder, TableSettings, TableStorage};

const DATABASE: u64 = 0xDA7A_BA5E;

/// No filter, and one of each kind: a line each, since there are few keys, or one for each of two
/// units; digests or none.
const FILTERS: [(Option<FilterSettings>, bool); 5] = [
    (None, false),
    (Some(FilterSettings { kind: FilterKind::Blocked, bits_per_entry: 10.0 }), true),
    (Some(FilterSettings { kind: FilterKind::Bloom, bits_per_entry: 10.0 }), false),
    (None, true),
    (Some(FilterSettings { kind: FilterKind::Elastic, bits_per_entry: 200.0 }), true),
];

/// A table in an environment of its own, and its entries.
struct Fixture {
    env: Arc<dyn Env>,
    meta: TableMeta,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Fixture {
    /// With a filter and digests, as most tables have them.
    fn new(id: u64, compression: Compression, value_byte: u8) -> Self {
        Self::with_filter(id, compression, value_byte, FILTERS[1])
    }

    /// Two lower index blocks, several data blocks, versions of one key that span blocks.
    fn with_filter(
        id: u64,
        compression: Compression,
        value_byte: u8,
        (filter, digests): (Option<FilterSettings>, bool),
    ) -> Self {
        let env = MemoryEnv::new(1);
        let settings = TableSettings {
            database: DATABASE,
            id: TableId(id),
            created_after: EditNumber(3),
            block_bytes: 80,
            compression,
            filter,
            digests,
        };
        let mut builder = TableBuilder::create(&*env, Path::new(""), settings).expect("space on the disk");
        for (key, sequence) in [("", 9), ("ant", 5), ("bee", 8), ("bee", 7), ("bee", 6), ("bee", 3), ("cow", 1)] {
            let kind = if sequence == 7 { EntryKind::Delete } else { EntryKind::Put };
            let value = if sequence == 7 { vec![] } else { vec![value_byte; 40] };
            let entry = Entry { key: key.as_bytes(), sequence: Sequence(sequence), kind, value: &value };
            builder.add(entry).expect("space on the disk");
        }
        let meta = builder.finish().expect("space on the disk");
        let path = FileName::Table(id).path(Path::new(""));
        let bytes = read_file(&*env, &path);
        Self { env, meta, path, bytes }
    }

    fn write(&self, bytes: &[u8]) {
        write_file(&*self.env, &self.path, bytes);
    }

    fn open(&self) -> Result<Arc<Table>> {
        Table::open(&TableStorage::buffered(self.env.clone(), 1 << 20), Path::new(""), DATABASE, &self.meta)
    }
}

/// All ways to read a table; one result each.
fn read_all_ways(table: &Result<Arc<Table>>) -> Vec<Result<Vec<OwnedEntry>>> {
    let table = match table {
        Ok(table) => table,
        Err(error) => return vec![Err(error.clone())],
    };
    let mut results = Vec::new();
    for read in [ReadPolicy::Cached, ReadPolicy::Sequential] {
        for forward in [true, false] {
            results.push(table.entries(read, forward));
        }
    }
    for key in ["", "ant", "bee", "bird", "cow", "zebra"] {
        let mut found = Vec::new();
        let answer = table.get(Query::new(key.as_bytes(), Sequence(8)), &LookupTally::default(), &mut |entry, _| {
            found.push(OwnedEntry::from(entry));
            ControlFlow::Continue(())
        });
        results.push(answer.map(|_| found));
    }
    results
}

/// Asserts that the file's state is harmless: every read returns what it did when the file was
/// whole, or an error that names the file.
fn assert_harmless(fixture: &Fixture, whole: &[Result<Vec<OwnedEntry>>], what: &str) {
    let table = fixture.open();
    for (now, before) in read_all_ways(&table).iter().zip(whole) {
        match now {
            Ok(entries) => assert_eq!(entries, before.as_ref().expect("whole"), "{what}"),
            Err(error) => assert_names_file(error, fixture, what),
        }
    }
    let verified = table.and_then(|table| table.verify(&mut |_| {}));
    match verified {
        Ok(()) => panic!("{what}: verify noticed nothing"),
        Err(error) => assert_names_file(&error, fixture, what),
    }
}

fn assert_names_file(error: &Error, fixture: &Fixture, what: &str) {
    assert!(matches!(error, Error::Corruption { .. }), "{what}: {error:?}");
    let name = fixture.path.display().to_string();
    assert!(error.to_string().starts_with(&name), "{what}: {error}");
}

fn compressions() -> impl Iterator<Item = Compression> {
    [Compression::None, Compression::Lz4].into_iter().filter(|compression| compression.is_available())
}

#[test]
fn every_flipped_bit_is_noticed_or_without_effect() {
    for (compression, filter) in compressions().flat_map(|compression| FILTERS.map(|filter| (compression, filter))) {
        let fixture = Fixture::with_filter(7, compression, b'v', filter);
        let whole = read_all_ways(&fixture.open());
        assert!(whole.iter().all(Result::is_ok));
        let mut bytes = fixture.bytes.clone();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                fixture.write(&bytes);
                assert_harmless(&fixture, &whole, &format!("{compression:?}, {filter:?}, byte {at}, bit {bit}"));
                bytes[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn every_truncation_and_extension_is_noticed() {
    let fixture = Fixture::new(7, Compression::None, b'v');
    let whole = read_all_ways(&fixture.open());
    for length in 0..fixture.bytes.len() {
        fixture.write(&fixture.bytes[..length]);
        assert_harmless(&fixture, &whole, &format!("{length} bytes"));
        let meta = Table::read_meta(&*fixture.env, &fixture.path, DATABASE);
        assert_names_file(&meta.expect_err("no footer at the end"), &fixture, "read_meta");
    }
    for extra in [1, 168, 4096] {
        let mut bytes = fixture.bytes.clone();
        bytes.resize(bytes.len() + extra, 0);
        fixture.write(&bytes);
        assert_harmless(&fixture, &whole, &format!("{extra} more bytes"));
    }
}

/// A file that is cut while it is open: reads run into its end.
#[test]
fn a_file_that_shrinks_while_open_is_damage() {
    // A filter would answer for an absent key without the blocks, and correctly.
    let fixture = Fixture::with_filter(7, Compression::None, b'v', FILTERS[0]);
    let table = fixture.open();
    fixture.write(&fixture.bytes[..20]);
    for result in read_all_ways(&table) {
        assert_names_file(&result.expect_err("the blocks are gone"), &fixture, "cut");
    }
}

#[test]
fn a_missing_table_is_damage() {
    let fixture = Fixture::new(7, Compression::None, b'v');
    fixture.env.remove(&fixture.path, STEP).expect("it exists");
    assert_names_file(&fixture.open().expect_err("it is gone"), &fixture, "removed");
}

/// A block that an earlier write left at the same offset of the same file is whole, but not the one
/// of the index.
#[test]
fn every_stale_piece_is_noticed() {
    let (old, new) = (Fixture::new(7, Compression::None, b'o'), Fixture::new(7, Compression::None, b'n'));
    let whole = read_all_ways(&new.open());
    assert_eq!(old.bytes.len(), new.bytes.len());
    for length in [16, 40, 80, 200] {
        for start in (0..new.bytes.len()).step_by(8) {
            let end = (start + length).min(new.bytes.len());
            let mut bytes = new.bytes.clone();
            bytes[start..end].copy_from_slice(&old.bytes[start..end]);
            if bytes != new.bytes {
                new.write(&bytes);
                assert_harmless(&new, &whole, &format!("stale from {start} to {end}"));
            }
        }
    }
    new.write(&old.bytes);
    assert_harmless(&new, &whole, "the whole file is stale");
}

#[test]
fn a_table_under_another_name_or_in_another_database_is_refused() {
    let (a, b) = (Fixture::new(7, Compression::None, b'v'), Fixture::new(8, Compression::None, b'v'));
    let whole = read_all_ways(&a.open());
    a.write(&b.bytes);
    assert_harmless(&a, &whole, "swapped");
    let storage = TableStorage::buffered(b.env.clone(), 0);
    assert!(Table::open(&storage, Path::new(""), DATABASE + 1, &b.meta).is_err());
    assert!(Table::read_meta(&*b.env, &b.path, DATABASE + 1).is_err());
}

/// Another format version is refused by name, not reported as damage, even if its footer has
/// another length.
#[test]
fn another_version_is_refused_as_such() {
    let fixture = Fixture::new(7, Compression::None, b'v');
    for (version, extra) in [(VERSION + 1, 0), (VERSION + 1, 8), (1, -8), (4, -8)] {
        let (blocks, footer) = fixture.bytes.split_at(fixture.bytes.len() - FOOTER_BYTES);
        let footer_bytes = FOOTER_BYTES.checked_add_signed(extra).expect("a length");
        let mut other = blocks.to_vec();
        other.resize(fixture.bytes.len() + 8, 0xEE);
        other.truncate(blocks.len() + footer_bytes - 24);
        other[blocks.len()..blocks.len() + 144].copy_from_slice(&footer[..144]);
        other.extend_from_slice(&version.to_le_bytes());
        other.extend_from_slice(&(footer_bytes as u32).to_le_bytes());
        other.extend_from_slice(&footer[160..168]);
        let checksum = place(DATABASE, TableId(7)).checksum(blocks.len() as u64, &other[blocks.len()..]);
        other.extend_from_slice(&checksum.to_le_bytes());
        fixture.write(&other);
        let error = Table::read_meta(&*fixture.env, &fixture.path, DATABASE).expect_err("another version");
        match &error {
            Error::Unsupported { what, .. } => assert!(version > VERSION && what.contains("newer"), "{error:?}"),
            Error::OldFormat { version: 1, .. } => assert!(version < VERSION || extra < 0, "{error:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A builder that is dropped early leaves a file that is no table.
#[test]
fn an_unfinished_table_is_left_to_be_removed() {
    let env = MemoryEnv::new(1);
    let settings = TableSettings {
        database: DATABASE,
        id: TableId(1),
        created_after: EditNumber(0),
        block_bytes: 64,
        compression: Compression::None,
        filter: FILTERS[1].0,
        digests: true,
    };
    let mut builder = TableBuilder::create(&*env, Path::new(""), settings).expect("space on the disk");
    let entry = Entry { key: b"k", sequence: Sequence(1), kind: EntryKind::Put, value: &[0; 1 << 20] };
    builder.add(entry).expect("space on the disk");
    drop(builder);
    let path = FileName::Table(1).path(Path::new(""));
    assert!(Table::read_meta(&*env, &path, DATABASE).is_err());
    assert!(TableBuilder::create(&*env, Path::new(""), settings).is_err(), "the name is taken until it is removed");
}
