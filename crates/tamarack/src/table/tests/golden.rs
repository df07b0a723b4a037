//! Stored bytes of tables: this version writes the bytes of the fixed format, and reads those
//! stored then.
//!
//! A difference here is a change of the format: it needs a new version number, a decoder for the
//! old one, a directory `tests/golden/vN` (the old ones stay), and a section in
//! `docs/FORMAT.md`. Then `TAMARACK_REWRITE=1 cargo test -p tamarack --lib table::tests::golden`
//! stores the new bytes.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tamarack_env::MemoryEnv;
use tamarack_testing::{read_file, write_file};

use crate::entry::Query;
use crate::format::block::Compression;
use crate::format::entry::{Entry, EntryKind, Sequence};
use crate::format::meta::{EditNumber, TableId};
use crate::format::names::FileName;
use crate::merge::Source;
use crate::stats::LookupTally;
use crate::table::{FilterKind, FilterSettings, ReadPolicy, Table, TableBuilder, TableSettings, TableStorage};

const DATABASE: u64 = 0x0123_4567_89AB_CDEF;

/// The entries of the worked example in `docs/FORMAT.md`: every kind, versions of one key in two
/// blocks, an empty key.
const ENTRIES: &[(&[u8], u64, EntryKind, &[u8])] = &[
    (b"", 300, EntryKind::Put, b""),
    (b"anise", 12, EntryKind::Put, b"star-shaped"),
    (b"anise", 7, EntryKind::Delete, b""),
    (b"anise", 5, EntryKind::Put, b"an umbellifer; fennel is its kin"),
    (b"basil", 8, EntryKind::Merge, b"+1"),
    (b"basin", 9, EntryKind::RangeDelete, b"basis"),
    (b"bay", 10, EntryKind::ValuePointer, b"\x00\x01"),
    (b"caraway", 11, EntryKind::ExpiringPut, b"\x00\x68\xe5\xcf\x8b\x01\x00\x00soon"),
    (b"dill", 1, EntryKind::Put, &[b'd'; 100]),
];

fn entries() -> impl Iterator<Item = Entry<'static>> {
    ENTRIES.iter().map(|&(key, sequence, kind, value)| Entry { key, sequence: Sequence(sequence), kind, value })
}

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2").join(name)
}

fn build(compression: Compression, filter: Option<FilterSettings>, digests: bool) -> Vec<u8> {
    let env = MemoryEnv::new(0);
    let settings = TableSettings {
        database: DATABASE,
        id: TableId(31),
        created_after: EditNumber(17),
        block_bytes: 80,
        compression,
        filter,
        digests,
    };
    let mut builder = TableBuilder::create(&*env, Path::new(""), settings).expect("space on the disk");
    entries().for_each(|entry| builder.add(entry).expect("space on the disk"));
    builder.finish().expect("space on the disk");
    read_file(&*env, &FileName::Table(31).path(Path::new("")))
}

/// The stored bytes; with `TAMARACK_REWRITE`, they are written first.
fn golden(name: &str, compression: Compression, filter: Option<FilterSettings>, digests: bool) -> Vec<u8> {
    tamarack_testing::stored(&stored(name), build(compression, filter, digests))
}

fn assert_reads_back(bytes: &[u8], filter_kind: u8, digests: bool) {
    let env = MemoryEnv::new(0);
    let path = FileName::Table(31).path(Path::new(""));
    write_file(&*env, &path, bytes);
    let meta = Table::read_meta(&*env, &path, DATABASE).expect("a table");
    assert_eq!((meta.entries, meta.tombstones, meta.created_after), (9, 1, EditNumber(17)));
    assert_eq!((meta.filter_kind, meta.filter_bits), (filter_kind, [0, 512, 512, 1024][usize::from(filter_kind)]));
    let special = meta.special.as_deref().expect("merge operands and others");
    let counts = [special.merge_operands, special.range_deletes, special.value_pointers, special.expiring_puts];
    assert_eq!((counts, special.expiry_min, special.expiry_max), ([1; 4], 1_700_000_000_000, 1_700_000_000_000));
    assert_eq!((&special.deleted_from[..], &special.deleted_to[..]), (&b"basin"[..], &b"basis"[..]));
    // Seven keys in one chunk: a header of 10 bytes, 12 of the list, 8 of its checksum; 7 + 2^3
    // bits, seven times 48 - 3 bits; 9 of the block.
    assert_eq!(meta.digest_bytes, if digests { 10 + 12 + 8 + 2 + 40 + 9 } else { 0 });
    let storage = TableStorage::buffered(env, 0);
    let table = Table::open(&storage, Path::new(""), DATABASE, &meta).expect("a table");
    table.verify(&mut |_| {}).expect("a whole table");
    let mut cursor = table.cursor(ReadPolicy::Cached);
    cursor.seek_first().expect("a whole table");
    for expected in entries() {
        assert_eq!(cursor.entry(), Some(expected));
        cursor.next().expect("a whole table");
    }
    assert_eq!(cursor.entry(), None);
    let mut sequences = Vec::new();
    let query = Query::new(b"anise", Sequence(7));
    let answer = table.get(query, &LookupTally::default(), &mut |entry, _| {
        sequences.push(entry.sequence.0);
        ControlFlow::Continue(())
    });
    assert!(answer.is_ok() && sequences == [7, 5], "{answer:?} {sequences:?}");
}

fn assert_written_as_ever(name: &str, filter: Option<FilterSettings>, filter_kind: u8, digests: bool) {
    let bytes = golden(name, Compression::None, filter, digests);
    assert!(
        build(Compression::None, filter, digests) == bytes,
        "the table format has changed; see the top of this test for what that needs, and for how to store the new bytes"
    );
    assert_reads_back(&bytes, filter_kind, digests);
}

/// Without a filter.
#[test]
fn a_table_is_written_as_ever_and_the_stored_one_is_read() {
    assert_written_as_ever("0000000031.sst", None, 0, false);
}

/// With a filter of either kind. Its bits depend on the digest's function and seed, which are
/// thereby fixed as well.
#[test]
fn a_table_with_a_filter_is_written_as_ever_and_the_stored_one_is_read() {
    for (name, kind, number) in [("bloom.sst", FilterKind::Bloom, 1), ("blocked.sst", FilterKind::Blocked, 2)] {
        assert_written_as_ever(name, Some(FilterSettings { kind, bits_per_entry: 10.0 }), number, false);
    }
}

/// With digests, and with a filter or without.
#[test]
fn a_table_with_digests_is_written_as_ever_and_the_stored_one_is_read() {
    let filter = FilterSettings { kind: FilterKind::Blocked, bits_per_entry: 10.0 };
    assert_written_as_ever("digests.sst", Some(filter), 2, true);
    assert_written_as_ever("digests_alone.sst", None, 0, true);
}

/// With an elastic filter, of two units here.
#[test]
fn a_table_with_units_is_written_as_ever_and_the_stored_one_is_read() {
    let filter = FilterSettings { kind: FilterKind::Elastic, bits_per_entry: 128.0 };
    assert_written_as_ever("elastic.sst", Some(filter), 3, true);
}

/// Another version of the compressor may write other bytes; the stored ones must be readable all
/// the same.
#[test]
#[cfg(feature = "lz4")]
fn a_stored_table_with_lz4_is_read() {
    assert_reads_back(&golden("lz4.sst", Compression::Lz4, None, false), 0, false);
}
