//! The fuzz targets, one function for each decoder of bytes from storage.
//!
//! Any input must be decoded without a panic and without memory that its length does not justify.
//! The ways to read what a decoder accepts must agree.
//!
//! The programs in `fuzz/` call these functions and nothing else, and so does the test that replays
//! the stored corpora (`fuzz/corpus/`). To add a target: a function here, its line in [`TARGETS`],
//! and a program of a few lines in `fuzz/fuzz_targets/`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Env, MemoryEnv};

use tamarack_format::fuzz::block;

use crate::entry::{Query, Sequence};
use crate::error::Result;
use crate::format::checksum::FileKind;
use crate::format::checksum_repair::repair_checksums;
use crate::format::coding::Reader;
use crate::format::current::encode_current;
use crate::format::edit::Edit;
use crate::format::entry::OwnedEntry;
use crate::format::meta::{EditNumber, TableId};
use crate::format::names::FileName;
use crate::format::record::{self, FileHeader, RecordBuffer};
use crate::journal::{Position, Tail};
use crate::merge::Source;
use crate::operator::MergeOperator;
use crate::operator::ready::SetUnion;
use crate::stats::LookupTally;
use crate::step;
use crate::table::{ReadPolicy, Table, TableStorage};
use crate::tree::manifest::Manifest;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::{self, RecoverySettings};

/// A set, as the merge operator [`SetUnion`] reads it: what is one has one encoding, and its union
/// with itself is the same.
pub fn set(input: &[u8]) {
    let mut union = Vec::new();
    let merged = SetUnion.merge(b"key", Some(input), &[input], &mut union);
    match SetUnion::decode(input) {
        Some(elements) => {
            assert_eq!(SetUnion::encode(&elements), input, "one set has one encoding");
            assert!(merged.is_ok() && union == input);
        }
        None => assert!(merged.is_err()),
    }
}

/// The function of a target.
pub type Target = fn(&[u8]);

/// All targets by name; the name is also that of the program and of the directory of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("block", block), ("journal", journal), ("set", set), ("table", table)];

/// The database and table that inputs of [`table`] belong to.
pub const TABLE_PLACE: (u64, TableId) = (0xDA7A_BA5E, TableId(7));

/// The database and the number of the files that inputs of [`journal`] are or become.
pub const JOURNAL_PLACE: (u64, u64) = (0xDA7A_BA5E, 1);

/// What an input of [`journal`] is, by its first byte modulo [`KINDS`](journal_input::KINDS).
pub mod journal_input {
    /// A segment of the WAL.
    pub const SEGMENT: u8 = 0;
    /// A manifest.
    pub const MANIFEST: u8 = 1;
    /// The edits of a manifest after its base: for each two bytes with its length, and its bytes.
    pub const EDITS: u8 = 2;
    /// The number of these.
    pub const KINDS: u8 = 3;
}

/// A segment of the WAL, a manifest, or a manifest's edits, as the first byte says. Checksums are
/// made to fit first, so that inputs get past them. What was recovered can be recovered, and says
/// the same.
pub fn journal(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    let (database, number) = JOURNAL_PLACE;
    let mut file = bytes.to_vec();
    match *kind % journal_input::KINDS {
        journal_input::SEGMENT => {
            record::repair_checksums(&mut file, FileKind::Wal, database, number);
            recover_segment_twice(&file);
        }
        journal_input::MANIFEST => {
            record::repair_checksums(&mut file, FileKind::Manifest, database, number);
            let _ = recover_manifest_twice(&file);
        }
        _ => edits(bytes),
    }
}

/// The second of two recoveries finds what the first left.
fn recover_segment_twice(bytes: &[u8]) {
    let env = MemoryEnv::new(0);
    let file = env.create(&FileName::Wal(JOURNAL_PLACE.1).path(Path::new("")), step::WAL_CREATE).expect("a new name");
    file.write_all_at(bytes, 0, step::WAL_APPEND).expect("memory");
    if let Ok(first) = recover_segment(env.clone()) {
        let second = recover_segment(env).expect("what was recovered can be recovered");
        assert_eq!(first, second);
    }
}

/// The entries that a recovery of the WAL gives, and where it ends.
fn recover_segment(env: Arc<dyn Env>) -> Result<(Vec<OwnedEntry>, u64)> {
    let settings = RecoverySettings {
        env,
        dir: PathBuf::new(),
        database: JOURNAL_PLACE.0,
        flushed_through: Sequence(0),
        last_edit: EditNumber(u64::MAX),
        durable: Position(0),
        tail: Tail::MayBeTorn,
    };
    let mut entries = Vec::new();
    let recovered = wal::recover(&settings, &mut |_, entry| {
        entries.push(OwnedEntry::from(entry));
        Ok(())
    })?;
    Ok((entries, recovered.end.0))
}

/// A table file. Its checksums are corrected first, so that inputs get past them.
pub fn table(input: &[u8]) {
    let mut bytes = input.to_vec();
    repair_checksums(&mut bytes, TABLE_PLACE.0, TABLE_PLACE.1);
    let Ok(table) = open_table(&bytes) else { return };
    let forward = table.entries(ReadPolicy::Cached, true);
    let backward = table.entries(ReadPolicy::Cached, false);
    for (key, sequence) in [(&b""[..], Sequence::MAX), (b"key", Sequence(1)), (b"\xFF\xFF", Sequence::ZERO)] {
        let _ = table.get(Query::new(key, sequence), &LookupTally::default(), &mut |_, _| ControlFlow::Continue(()));
        let mut cursor = table.cursor(ReadPolicy::Sequential);
        let _ = cursor.seek(key, sequence).and_then(|()| cursor.seek_before(key, sequence));
    }
    if table.verify(&mut |_| {}).is_ok() {
        let (entries, mut backward) = (forward.expect("verified"), backward.expect("verified"));
        backward.reverse();
        assert_eq!(entries, backward);
        entries.iter().for_each(|entry| check_get(&table, entry));
    }
}

/// The edits are put into records, and recovered: they lead to the version that applying them leads
/// to.
fn edits(input: &[u8]) {
    let (database, number) = JOURNAL_PLACE;
    let (base, created_after) = (Position(0), EditNumber(1));
    let header = FileHeader { kind: FileKind::Manifest, database, number, base, first: 1, created_after };
    let mut version = Version::new(database, no_tables());
    let mut bytes = header.encode().to_vec();
    let mut edits = 0;
    let mut add = |edit: &[u8]| {
        let end = bytes.len() as u64;
        let mut record = RecordBuffer::with_payload(edit);
        edits += u64::from(!edit.is_empty());
        let (items, first) = if edit.is_empty() { (0, edits + 1) } else { (1, edits) };
        bytes.extend(record.finish(header.place(), end, items, first, base).expect("it is short"));
    };
    add(&version.state_edit().encode());
    let mut fits = true;
    let mut rest = Reader::new(input);
    while let Some(length) = rest.take(2) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(rest.rest().len());
        let bytes = rest.take(length).expect("no more than there is");
        add(bytes);
        let Ok(edit) = Edit::decode(bytes) else {
            fits &= bytes.is_empty();
            continue;
        };
        let encoded = edit.encode();
        // Optional additions of newer versions are skipped, and so not written again.
        assert!(encoded == bytes || encoded.len() < bytes.len(), "one value has one encoding: {edit:?}");
        assert_eq!(Edit::decode(&encoded).as_ref(), Ok(&edit));
        fits &= edit.unserved().is_none();
        match version.apply(&edit).map(|applied| applied.version) {
            Ok(after) if fits => {
                assert_eq!(after.check(), Ok(()), "after {edit:?}");
                version = after;
            }
            _ => fits = false,
        }
    }
    let state = version.state_edit();
    let again = Version::from_base(&state, no_tables()).expect("a version describes itself");
    assert_eq!((again.check(), again.state_edit()), (Ok(()), state.clone()));
    match recover_manifest_twice(&bytes) {
        Ok(found) => assert!(!fits || found.version().state_edit() == state),
        Err(error) => assert!(!fits, "{error}"),
    }
}

fn no_tables() -> Arc<TableFiles> {
    TableFiles::new(TableStorage::buffered(MemoryEnv::new(0), 1), Path::new(""))
}

/// The second of two recoveries finds what the first left.
fn recover_manifest_twice(bytes: &[u8]) -> Result<Manifest> {
    let env = MemoryEnv::new(0);
    let dir = Path::new("/db");
    env.create_dir(dir, step::DATABASE_CREATE).expect("an empty environment");
    let (number, current) = (JOURNAL_PLACE.1, encode_current(JOURNAL_PLACE.1));
    for (name, content) in [(FileName::Manifest(number), bytes), (FileName::Current, current.as_bytes())] {
        let file = env.create(&name.path(dir), step::MANIFEST_CREATE).expect("an empty environment");
        file.write_all_at(content, 0, step::MANIFEST_WRITE_BASE).expect("memory takes all");
    }
    let recover = |tail| {
        let found = Manifest::recover(&env, dir, tail, no_tables());
        found.map(|found| found.expect("CURRENT names it").manifest)
    };
    let first = recover(Tail::MayBeTorn)?;
    let second = recover(Tail::Strict).expect("what was recovered can be recovered");
    assert_eq!(first.version().state_edit(), second.version().state_edit());
    Ok(first)
}

fn open_table(bytes: &[u8]) -> Result<Arc<Table>> {
    let env = MemoryEnv::new(0);
    let (database, id) = TABLE_PLACE;
    let path = FileName::Table(id.0).path(Path::new(""));
    let file = env.create(&path, step::TABLE_CREATE).expect("an empty environment");
    file.write_all_at(bytes, 0, step::TABLE_WRITE).expect("memory takes all");
    let meta = Table::read_meta(&*env, &path, database)?;
    Table::open(&TableStorage::buffered(env, 1 << 20), Path::new(""), database, &meta)
}

fn check_get(table: &Table, expected: &OwnedEntry) {
    let mut found = None;
    let query = Query::new(&expected.key, expected.sequence);
    let answer = table.get(query, &LookupTally::default(), &mut |entry, _| {
        found = Some(OwnedEntry::from(entry));
        ControlFlow::Break(())
    });
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(found.as_ref(), Some(expected));
}
