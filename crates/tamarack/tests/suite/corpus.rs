//! Replays the stored inputs of all fuzz targets, so that a defect that a fuzzer found stays
//! repaired.
//!
//! `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite corpus` writes the seed inputs anew;
//! those that a fuzzer added stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::fuzz::{JOURNAL_PLACE, TABLE_PLACE, TARGETS, journal_input};
use tamarack::internals::{TableBuilder, TableSettings};
use tamarack::operators::SetUnion;
use tamarack_env::{ByteBuffer, Env, MemoryEnv, OsEnv};
use tamarack_format::block::{BlockBuilder, Compression};
use tamarack_format::checksum::FileKind;
use tamarack_format::entry::{Entry, EntryKind, Sequence};
use tamarack_format::group::Group;
use tamarack_format::meta::{EditNumber, TreeId};
use tamarack_format::names::FileName;
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, Position, RecordBuffer, record_at};
use tamarack_model::FilterKind;
use tamarack_model::filter::FilterSettings;
use tamarack_testing::{read_dir, read_file, write_file};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Every target has inputs, and none of them makes it panic.
#[test]
fn kept_inputs_do_no_harm() {
    let env = OsEnv::new();
    write_seeds(&env);
    for (name, target) in TARGETS {
        let directory = corpus(name);
        let inputs = read_dir(&*env, &directory);
        assert!(!inputs.is_empty(), "{}: the target has no inputs", directory.display());
        for (input, bytes) in inputs {
            println!("{}", directory.join(input).display());
            target(&bytes);
        }
    }
}

/// A set, the empty set, and one that is cut.
fn set_seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let set = SetUnion::encode(["", "elm", "oak"]);
    let cut = set[..set.len() - 1].to_vec();
    let seed = |name: &str, bytes| ("set", format!("seed-{name}"), bytes);
    vec![seed("whole", set), seed("empty", Vec::new()), seed("cut", cut)]
}

fn write_seeds(env: &Arc<dyn Env>) {
    if !tamarack_testing::rewrites() {
        return;
    }
    let seeds =
        block_seeds().into_iter().chain(wal_seeds()).chain(manifest_seeds()).chain(table_seeds()).chain(set_seeds());
    for (target, name, bytes) in seeds {
        write_file(&**env, &corpus(target).join(name), &bytes);
    }
}

/// A few entries of every kind; keys that share much and little; versions of one key.
fn entries() -> Vec<(Vec<u8>, Sequence, EntryKind, Vec<u8>)> {
    let mut entries = vec![(vec![], Sequence(9), EntryKind::Put, b"of the empty key".to_vec())];
    for i in 0..20u64 {
        let kind = EntryKind::from_number((i % 6) as u8 + 1).expect("a kind");
        let value = if kind.has_value() { vec![b'v'; i as usize * 3] } else { vec![] };
        entries.push((format!("key{:02}", i / 3).into_bytes(), Sequence(1 << (50 - 2 * i)), kind, value));
    }
    entries.push((b"z".to_vec(), Sequence::MAX, EntryKind::Delete, vec![]));
    entries
}

type Seed = (&'static str, String, Vec<u8>);

fn block_seeds() -> Vec<Seed> {
    let seed = |restart_interval: usize| {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, sequence, kind, value) in &entries() {
            builder.add(&Entry { key, sequence: *sequence, kind: *kind, value });
        }
        let mut payload = ByteBuffer::new();
        builder.finish_into(&mut payload);
        ("block", format!("seed-restart-{restart_interval}"), payload.to_vec())
    };
    vec![seed(1), seed(4), seed(16)]
}

/// The bytes of a journal's file so far.
struct JournalFile {
    header: FileHeader,
    bytes: Vec<u8>,
}

impl JournalFile {
    fn new(kind: FileKind) -> Self {
        let (database, number) = JOURNAL_PLACE;
        let (base, created_after) = (Position(0), EditNumber(3));
        let header = FileHeader { kind, database, number, base, first: 1, created_after };
        Self { header, bytes: header.encode().to_vec() }
    }

    /// Adds a record that says that the first half of what is there is durable.
    fn add(&mut self, record: &mut RecordBuffer, items: u32, first: u64) {
        let (offset, durable) = (self.bytes.len() as u64, Position(self.bytes.len() as u64 / 2));
        let record = record.finish(self.header.place(), offset, items, first, durable);
        self.bytes.extend_from_slice(record.expect("it is small"));
    }

    /// As it is, and torn.
    fn seeds(&self, kind: u8, name: &str) -> [Seed; 2] {
        let seed = |end: usize, how: &str| {
            let input = [&[kind], &self.bytes[..end]].concat();
            ("journal", format!("seed-{name}-{how}"), input)
        };
        [seed(self.bytes.len(), "whole"), seed(self.bytes.len() - 9, "torn")]
    }
}

fn wal_seeds() -> Vec<Seed> {
    let mut segment = JournalFile::new(FileKind::Wal);
    let mut next = 1;
    for part in entries().chunks(5) {
        let mut group = Group::new();
        for (key, _, kind, value) in part {
            group.push_entry(TreeId::DEFAULT, *kind, key, value);
        }
        segment.add(group.record(), part.len() as u32, next);
        next += part.len() as u64;
    }
    segment.seeds(journal_input::SEGMENT, "segment").to_vec()
}

/// One input per stored edit, numbered so that it comes first, one with all that can follow one
/// another, and a manifest as a file.
fn manifest_seeds() -> Vec<Seed> {
    let changes: Vec<(String, Vec<u8>)> = include_str!("../golden/v2/edit.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, hex)| (name.replace(' ', "-"), bytes_of(hex)))
        .collect();
    let edit = |number: u8, change: &[u8]| {
        let length = (change.len() + 1) as u16;
        [&length.to_le_bytes()[..], &[number], change].concat()
    };
    let input = |edits: Vec<u8>| [vec![journal_input::EDITS], edits].concat();
    let all = changes.iter().enumerate().flat_map(|(n, (_, change))| edit(n as u8 + 2, change)).collect();
    let mut seeds = vec![("journal", "seed-all-edits".to_owned(), input(all))];
    seeds.extend(changes.iter().map(|(name, change)| ("journal", format!("seed-edit-{name}"), input(edit(2, change)))));
    let mut manifest = JournalFile::new(FileKind::Manifest);
    let golden: Vec<(&str, &str)> =
        include_str!("../golden/v2/manifest.txt").lines().filter_map(|line| line.split_once(": ")).collect();
    let file: Vec<u8> = ["header", "base", "edit", "mark"]
        .iter()
        .flat_map(|part| bytes_of(golden.iter().find(|(name, _)| name == part).expect("it is stored").1))
        .collect();
    let header = FileHeader::decode(&file, FileKind::Manifest, 7).expect("it is whole");
    let mut offset = FILE_HEADER_BYTES;
    while let Some((head, payload)) = record_at(&file, offset, header.place()) {
        manifest.add(&mut RecordBuffer::with_payload(payload), head.items, head.first);
        offset += head.stride();
    }
    seeds.extend(manifest.seeds(journal_input::MANIFEST, "manifest"));
    seeds
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits")).collect()
}

fn table_seeds() -> Vec<Seed> {
    let seed =
        |name: &str, block_bytes: usize, compression: Compression, filter: Option<FilterSettings>, digests: bool| {
            let env = MemoryEnv::new(0);
            let (database, id) = TABLE_PLACE;
            let created_after = EditNumber(3);
            let settings = TableSettings { database, id, created_after, block_bytes, compression, filter, digests };
            let mut builder = TableBuilder::create(&*env, Path::new(""), settings).expect("space on the disk");
            for (key, sequence, kind, value) in &entries() {
                builder.add(Entry { key, sequence: *sequence, kind: *kind, value }).expect("space on the disk");
            }
            builder.finish().expect("space on the disk");
            let bytes = read_file(&*env, &FileName::Table(id.0).path(Path::new("")));
            ("table", name.to_owned(), bytes)
        };
    let mut seeds = vec![
        seed("seed-64-None", 64, Compression::None, None, false),
        seed("seed-4096-None", 4096, Compression::None, None, false),
    ];
    for kind in FilterKind::OF_ONE_PIECE {
        let filter = FilterSettings { kind, bits_per_entry: 10.0 };
        seeds.push(seed(&format!("seed-{}", kind.name()), 256, Compression::None, Some(filter), false));
    }
    let filter = FilterSettings { kind: FilterKind::Blocked, bits_per_entry: 10.0 };
    let units = FilterSettings { kind: FilterKind::Elastic, bits_per_entry: 128.0 };
    seeds.push(seed("seed-elastic", 256, Compression::None, Some(units), false));
    seeds.push(seed("seed-digests", 256, Compression::None, Some(filter), true));
    if Compression::Lz4.is_available() {
        seeds.push(seed("seed-256-Lz4", 256, Compression::Lz4, None, false));
    }
    seeds
}
