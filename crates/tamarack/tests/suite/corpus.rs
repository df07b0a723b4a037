//! Replays the stored inputs of all fuzz targets, so that a defect that a fuzzer found stays
//! repaired.
//!
//! `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite corpus` writes the seed inputs anew;
//! those that a fuzzer added stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::fuzz::{TABLE_PLACE, TARGETS, WAL_PLACE};
use tamarack::internals::{FilterKind, FilterSettings, TableBuilder, TableSettings};
use tamarack_env::{Access, Env, MemoryEnv, OsEnv, Step};
use tamarack_format::block::{BlockBuilder, Compression};
use tamarack_format::entry::{Entry, EntryKind, Sequence};
use tamarack_format::meta::{EditNumber, TreeId};
use tamarack_format::names::FileName;
use tamarack_format::record::{Group, Position, SegmentHeader, segment_place};

const STEP: Step = Step("test: write a file");

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn read(env: &dyn Env, path: &Path) -> Vec<u8> {
    let file = env.open(path, Access::Read).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("the file's bytes");
    bytes
}

/// Every target has inputs, and none of them makes it panic.
#[test]
fn kept_inputs_do_no_harm() {
    let env = OsEnv::new();
    write_seeds(&env);
    for (name, target) in TARGETS {
        let directory = corpus(name);
        let names = env.list(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        assert!(!names.is_empty(), "{}: the target has no inputs", directory.display());
        for input in names {
            let path = directory.join(input);
            println!("{}", path.display());
            target(&read(&*env, &path));
        }
    }
}

fn write_seeds(env: &Arc<dyn Env>) {
    if std::env::var_os("TAMARACK_REWRITE").is_none() {
        return;
    }
    let seeds = block_seeds().into_iter().chain(wal_seeds()).chain(manifest_seeds()).chain(table_seeds());
    for (target, name, bytes) in seeds {
        let path = corpus(target).join(name);
        let _ = env.remove(&path, STEP);
        let file = env.create(&path, STEP).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        file.write_all_at(&bytes, 0, STEP).expect("space on the disk");
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
        let mut payload = Vec::new();
        builder.finish_into(&mut payload);
        ("block", format!("seed-restart-{restart_interval}"), payload)
    };
    vec![seed(1), seed(4), seed(16)]
}

fn wal_seeds() -> Vec<Seed> {
    let (database, number) = WAL_PLACE;
    let header = SegmentHeader { number, base: Position(0), first_sequence: Sequence(1), created_after: EditNumber(3) };
    let mut bytes = header.encode(database).to_vec();
    let mut next = Sequence(1);
    for part in entries().chunks(5) {
        let mut group = Group::new();
        for (key, _, kind, value) in part {
            group.push_entry(TreeId::DEFAULT, *kind, key, value);
        }
        let (offset, durable) = (bytes.len() as u64, Position(bytes.len() as u64 / 2));
        bytes.extend_from_slice(
            group.seal(segment_place(database, number), offset, next, durable).expect("it is small"),
        );
        next = Sequence(next.0 + part.len() as u64);
    }
    let torn = bytes[..bytes.len() - 9].to_vec();
    vec![("log", "seed-whole".to_owned(), bytes), ("log", "seed-torn".to_owned(), torn)]
}

/// One input per stored edit, numbered so that it comes first, and one with all edits that can
/// follow one another.
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
    let all = changes.iter().enumerate().flat_map(|(n, (_, change))| edit(n as u8 + 2, change)).collect();
    let mut seeds = vec![("manifest", "seed-all".to_owned(), all)];
    seeds.extend(changes.iter().map(|(name, change)| ("manifest", format!("seed-{name}"), edit(2, change))));
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
            let bytes = read(&*env, &FileName::Table(id.0).path(Path::new("")));
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
