//! Tables against a sorted list: for all entries, block sizes and compressions, gets and iteration
//! in both directions agree with the list. Failures print the seed of a random case.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::{Env, MemoryEnv};
use tamarack_testing::{Random, STEP};

use crate::cache::Holder;
use crate::entry::Query;
use crate::format::block::Compression;
use crate::format::entry::{self, Entry, EntryKind, OwnedEntry, Sequence};
use crate::format::meta::{EditNumber, TableId, TableMeta};
use crate::format::names::FileName;
use crate::format::prefixes::common_prefix;
use crate::merge::Source;
use crate::stats::LookupTally;
use crate::table::{FilterKind, FilterSettings, ReadPolicy, Table, TableBuilder, TableSettings, TableStorage};

const DATABASE: u64 = 0xDA7A_BA5E;

/// The shape of random entries.
struct Style {
    count: u64,
    alphabet: &'static [u8],
    key_bytes_max: u64,
    value_bytes_max: u64,
    sequence_max: u64,
}

fn random_key(random: &mut Random, style: &Style) -> Vec<u8> {
    if style.key_bytes_max >= 60_000 && random.one_in(20) {
        return vec![*random.pick(style.alphabet); 60_000 + random.below(5537) as usize];
    }
    (0..random.below(style.key_bytes_max.min(20) + 1)).map(|_| *random.pick(style.alphabet)).collect()
}

fn random_entries(random: &mut Random, style: &Style) -> Vec<OwnedEntry> {
    const KINDS: &[EntryKind] = &[
        EntryKind::Put,
        EntryKind::Put,
        EntryKind::Delete,
        EntryKind::Merge,
        EntryKind::RangeDelete,
        EntryKind::ValuePointer,
        EntryKind::ExpiringPut,
    ];
    let mut entries: Vec<OwnedEntry> = Vec::new();
    for _ in 0..style.count {
        let key = match entries.last() {
            Some(last) if random.one_in(3) => last.key.clone(),
            _ => random_key(random, style),
        };
        let kind = *random.pick(KINDS);
        let value_bytes = if kind.has_value() { random.below(style.value_bytes_max + 1) } else { 0 };
        let filler = random.next() as u8;
        let noisy = random.one_in(2);
        let value = (0..value_bytes).map(|_| if noisy { random.next() as u8 } else { filler }).collect();
        let sequence = if random.one_in(50) { Sequence::MAX } else { Sequence(random.below(style.sequence_max + 1)) };
        entries.push(OwnedEntry { key, sequence, kind, value });
    }
    entries.sort_by(|a, b| entry::compare((&a.key, a.sequence), (&b.key, b.sequence)));
    entries.dedup_by(|a, b| (&a.key, a.sequence) == (&b.key, b.sequence));
    entries
}

fn settings(block_bytes: usize, compression: Compression) -> TableSettings {
    // Large blocks go with a filter, which must not change a result, and small ones without.
    let filter = (block_bytes > 100).then_some(FilterSettings { kind: FilterKind::Blocked, bits_per_entry: 8.0 });
    TableSettings {
        database: DATABASE,
        id: TableId(7),
        created_after: EditNumber(3),
        block_bytes,
        compression,
        filter,
        digests: filter.is_some(),
    }
}

fn memory() -> Arc<dyn Env> {
    let env = MemoryEnv::new(1);
    env.create_dir(Path::new("db"), STEP).expect("a new directory");
    env
}

/// Builds a table whose file has the sequences of the entries without `base`, as an ingest does.
fn build(env: &dyn Env, settings: TableSettings, entries: &[OwnedEntry], base: Sequence) -> TableMeta {
    let mut builder = TableBuilder::create(env, Path::new("db"), settings).expect("a new file");
    if base > Sequence::ZERO {
        builder = builder.ingested(settings.id);
    }
    for entry in entries {
        let sequence = entry.sequence.without_base(base);
        builder.add(Entry { sequence, ..entry.entry() }).expect("space on the disk");
    }
    if base > Sequence::ZERO {
        // Finished in two steps, as the last table of an ingest.
        builder.write_body().expect("space on the disk").sync().expect("space on the disk");
        builder.end_ingest(base);
    }
    builder.finish().expect("space on the disk")
}

fn open(env: &Arc<dyn Env>, meta: &TableMeta, cache_bytes: u64) -> Arc<Table> {
    let storage = TableStorage::buffered(env.clone(), cache_bytes);
    Table::open(&storage, Path::new("db"), DATABASE, meta).expect("a whole table")
}

/// The table's answer to a query: all versions that a visitor sees before it has `limit`.
fn versions(table: &Table, query: Query<'_>, limit: usize) -> Vec<OwnedEntry> {
    let mut found = Vec::new();
    let answer = table.get(query, &LookupTally::default(), &mut |entry, holder| {
        match holder {
            Holder::Block(block) => assert_eq!(&block.bytes()[block.range_of(entry.value)], entry.value),
            Holder::Entry(cached) => assert_eq!(cached.read().value(), entry.value),
        }
        found.push(OwnedEntry::from(entry));
        if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(answer.expect("a whole table").is_break(), found.len() == limit);
    found
}

/// Compares a cursor's position with one in the list (`None`: no position).
fn assert_stands(cursor: &impl Source, entries: &[OwnedEntry], at: Option<usize>, what: &str) {
    assert_eq!(cursor.entry(), at.map(|at| entries[at].entry()), "{what}");
}

/// The places to seek: all entries, their neighbours, and some that do not exist.
fn random_place(random: &mut Random, style: &Style, entries: &[OwnedEntry]) -> (Vec<u8>, Sequence) {
    let near = &entries[random.below(entries.len() as u64) as usize];
    let key = if random.one_in(3) { random_key(random, style) } else { near.key.clone() };
    let around = near.sequence.0.saturating_sub(1) + random.below(3);
    (key, *random.pick(&[Sequence::MAX, Sequence::ZERO, near.sequence, Sequence(around).min(Sequence::MAX)]))
}

fn check_gets(random: &mut Random, style: &Style, table: &Table, entries: &[OwnedEntry], times: u64) {
    for _ in 0..times {
        let (key, sequence) = random_place(random, style, entries);
        let limit = 1 + random.below(5) as usize;
        let expected: Vec<OwnedEntry> =
            entries.iter().filter(|e| e.key == key && e.sequence <= sequence).take(limit).cloned().collect();
        assert_eq!(versions(table, Query::new(&key, sequence), limit), expected, "get {key:?} at {sequence:?}");
    }
}

fn check_walks(
    random: &mut Random,
    style: &Style,
    table: &Arc<Table>,
    entries: &[OwnedEntry],
    read: ReadPolicy,
    steps: u64,
) {
    let mut cursor = table.cursor(read);
    assert_stands(&cursor, entries, None, "new");
    let mut at: Option<usize> = None;
    let mut forward = true;
    for _ in 0..steps {
        forward ^= random.one_in(8);
        let left = at;
        let what = match (at, random.below(40)) {
            (None, _) | (_, 0) => {
                let (key, sequence) = random_place(random, style, entries);
                let before =
                    entries.partition_point(|e| entry::compare((&e.key, e.sequence), (&key, sequence)).is_lt());
                match random.below(4) {
                    0 => {
                        cursor.seek_first().expect("whole");
                        at = Some(0);
                        "seek_first".to_owned()
                    }
                    1 => {
                        cursor.seek_last().expect("whole");
                        at = Some(entries.len() - 1);
                        "seek_last".to_owned()
                    }
                    2 => {
                        cursor.seek(&key, sequence).expect("whole");
                        at = Some(before).filter(|&at| at < entries.len());
                        format!("seek {key:?} {sequence:?}")
                    }
                    _ => {
                        cursor.seek_before(&key, sequence).expect("whole");
                        at = before.checked_sub(1);
                        format!("seek_before {key:?} {sequence:?}")
                    }
                }
            }
            (Some(i), _) if forward => {
                cursor.next().expect("whole");
                at = Some(i + 1).filter(|&at| at < entries.len());
                "next".to_owned()
            }
            (Some(i), _) => {
                cursor.prev().expect("whole");
                at = i.checked_sub(1);
                assert_eq!(cursor.left(), entries[i].value);
                "prev".to_owned()
            }
        };
        assert_stands(&cursor, entries, at, &what);
        if let (Some(left), Some(at)) = (left, at) {
            let leaps = what.starts_with("seek");
            let shared = (!leaps).then(|| common_prefix(&entries[left].key, &entries[at].key));
            assert_eq!(cursor.shared(), shared, "{what} from {left} to {at}");
        }
    }
}

fn check_everything(random: &mut Random, style: &Style, settings: TableSettings, steps: u64) {
    let mut entries = random_entries(random, style);
    let env = memory();
    let mut base = Sequence::ZERO;
    let of_ingest = |entry: &OwnedEntry| (1..Sequence::MAX.0 / 2).contains(&entry.sequence.0);
    if random.one_in(2) && entries.iter().any(of_ingest) {
        // Somewhere among the sequences that are looked up.
        base = Sequence(1 + random.below(style.sequence_max.min(Sequence::MAX.0 / 2) + 1));
        entries.retain(of_ingest);
        entries.iter_mut().for_each(|entry| entry.sequence = entry.sequence.with_base(base));
    }
    let meta = build(&*env, settings, &entries, base);
    assert_eq!(meta.sequence_base, base);
    assert_eq!(Some(meta.smallest_sequence), entries.iter().map(|entry| entry.sequence).min());
    assert_eq!(meta.entries, entries.len() as u64);
    assert_eq!(meta.raw_bytes, entries.iter().map(|e| e.entry().raw_bytes()).sum::<u64>());
    let path = FileName::Table(7).path(Path::new("db"));
    assert_eq!(Table::read_meta(&*env, &path, DATABASE).expect("whole"), meta);
    let table = open(&env, &meta, *random.pick(&[0, 20_000, 10 << 20]));
    let mut verified_bytes = 0;
    table.verify(&mut |bytes| verified_bytes += bytes).expect("whole");
    assert_eq!(verified_bytes, meta.file_bytes);
    check_gets(random, style, &table, &entries, steps / 4);
    check_walks(random, style, &table, &entries, ReadPolicy::Cached, steps);
    check_walks(random, style, &table, &entries, ReadPolicy::Sequential, steps);
}

fn compressions() -> Vec<Compression> {
    let all = [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }];
    all.into_iter().filter(|compression| compression.is_available()).collect()
}

#[test]
fn tables_answer_like_a_sorted_list() {
    for seed in 0..400 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let style = Style {
            count: 1 + *random.pick(&[0, 1, 10, 100, 1000]),
            alphabet: random.pick::<&[u8]>(&[b"ab", b"\0\xFF", b"abcdefghijklmnopqrstuvwxyz"]),
            key_bytes_max: *random.pick(&[0, 1, 3, 20]),
            value_bytes_max: *random.pick(&[0, 10, 200]),
            sequence_max: *random.pick(&[3, 1000, Sequence::MAX.0]),
        };
        let block_bytes = *random.pick(&[64, 100, 512, 4096, 65536]);
        let compression = *random.pick(&compressions());
        check_everything(&mut random, &style, settings(block_bytes, compression), 600);
    }
}

#[test]
fn long_keys_and_large_values_come_back() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let value_bytes_max = *random.pick(&[100, 3 << 20]);
        let style = Style { count: 30, alphabet: b"ab", key_bytes_max: 65_536, value_bytes_max, sequence_max: 1000 };
        let block_bytes = *random.pick(&[64, 4096]);
        let compression = *random.pick(&compressions());
        check_everything(&mut random, &style, settings(block_bytes, compression), 60);
    }
}

/// Blocks of any size are filled before they end; an entry that is larger than a block ends it at
/// once.
#[test]
fn blocks_are_full() {
    for (block_bytes, value_bytes) in [(4096, 500), (128 << 10, 900), (300 << 10, 1000), (300 << 10, 90 << 10)] {
        let env = memory();
        let settings = settings(block_bytes, Compression::None);
        let mut builder = TableBuilder::create(&*env, Path::new("db"), settings).expect("a new file");
        let mut ended = 0;
        for number in 0..3000_u64.min(100 * block_bytes as u64 / value_bytes as u64) {
            let (key, value) = (format!("{number:06}"), vec![7; value_bytes]);
            let entry = OwnedEntry::put(key, 1, value);
            builder.add(entry.entry()).expect("space on the disk");
            let bytes = builder.file_bytes() - ended;
            let full = block_bytes - value_bytes - 200..=block_bytes;
            assert!(
                bytes == 0 || full.contains(&(bytes as usize)),
                "entry {number}: a block of {bytes} of {block_bytes} bytes"
            );
            ended += bytes;
        }
        assert!(ended > 0);
        builder.add(OwnedEntry::put("a", 1, vec![7; 2 * block_bytes]).entry()).expect("space on the disk");
        let is_large = 2 * block_bytes >= 256 << 10;
        assert_eq!(builder.file_bytes() > ended + 2 * block_bytes as u64, is_large, "blocks of {block_bytes}");
    }
}
