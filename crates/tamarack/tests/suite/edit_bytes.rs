//! The stored bytes of every kind of change, of a whole small manifest, and of `CURRENT`: what one
//! version wrote, all later ones read.
//!
//! The files in `golden/` are read, never made by the code under test, except by
//! `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite edit_bytes`, after which the difference
//! is for a reviewer: a change here is a change of the format.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use tamarack_format::block::Compression;
use tamarack_format::checksum::FileKind;
use tamarack_format::current::{decode_current, encode_current};
use tamarack_format::edit::{Change, CompactionId, Edit, EditError, KeyRange, RunId, ShapeBlob, SliceSpec};
use tamarack_format::entry::Sequence;
use tamarack_format::meta::{EditNumber, TableId, TableMeta, TreeId};
use tamarack_format::properties::{IngestPart, Properties, Special};
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, Position, RecordBuffer, record_at};

/// One change of each kind, in the order of their tags, with different values in all fields; then
/// those with fields that a kind of change has got since.
fn changes() -> Vec<(&'static str, Change)> {
    let tree = TreeId::DEFAULT;
    let slices = vec![
        SliceSpec { table: TableId(300), range: KeyRange::ALL },
        SliceSpec { table: TableId(31), range: KeyRange::new(Some(b"m"), Some(b"")) },
    ];
    let meta = TableMeta {
        id: TableId(31),
        file_bytes: 70_000,
        root_checksum: 0x0123_4567_89AB_CDEF,
        digest_bytes: 3300,
        created_after: EditNumber(6),
        properties: Properties {
            entries: 1000,
            tombstones: 3,
            raw_bytes: 90_000,
            smallest_key: b"apple".to_vec(),
            largest_key: b"pear".to_vec(),
            smallest_sequence: Sequence(5),
            largest_sequence: Sequence::MAX,
            sequence_base: Sequence(4),
            ingest: Some(IngestPart { first_table: 30, is_last: true }),
            filter_kind: 1,
            filter_bits: 10_000,
            compression: Compression::Zstd { level: -3 },
            range_deletes_applied: Sequence::ZERO,
            special: Some(Box::new(Special {
                merge_operands: 1,
                range_deletes: 2,
                value_pointers: 3,
                expiring_puts: 4,
                deleted_from: b"banana".to_vec(),
                deleted_to: b"cherry".to_vec(),
                expiry_min: 1_700_000_000_000,
                expiry_max: 1_800_000_000_000,
            })),
        },
    };
    let mut applied = meta.clone();
    applied.properties.range_deletes_applied = Sequence(4711);
    vec![
        ("database", Change::Database { id: 0xFEDC_BA98_7654_3210 }),
        ("ids used", Change::IdsUsed { tables: 301, runs: 5, compactions: 2 }),
        ("tree created", Change::TreeCreated { tree: TreeId(u32::MAX) }),
        ("table added", Change::TableAdded { tree, meta: Arc::new(meta) }),
        ("run added", Change::RunAdded { tree, run: RunId(4), level: 2, index: 1 }),
        ("slices added", Change::SlicesAdded { tree, run: RunId(4), slices: slices.clone() }),
        ("run cut", Change::RunCut { tree, run: RunId(3), range: KeyRange::new(Some(b"fig"), None) }),
        ("run removed", Change::RunRemoved { tree, run: RunId(3) }),
        (
            "compaction begun",
            Change::CompactionBegun {
                tree,
                compaction: CompactionId(1),
                inputs: vec![RunId(3), RunId(2)],
                output: RunId(4),
            },
        ),
        (
            "compaction advanced",
            Change::CompactionAdvanced {
                tree,
                compaction: CompactionId(1),
                range: KeyRange::new(Some(b"fig"), Some(b"plum")),
                outputs: slices[..1].to_vec(),
            },
        ),
        ("compaction ended", Change::CompactionEnded { tree, compaction: CompactionId(1) }),
        ("relabelled", Change::Relabelled { tree, levels: vec![vec![RunId(4)], vec![], vec![RunId(2), RunId(1)]] }),
        ("shape set", Change::ShapeSet { tree, shape: ShapeBlob { kind: 1, bytes: [1, 2, 3][..].into() } }),
        ("flushed through", Change::FlushedThrough { tree, sequence: Sequence(812) }),
        ("WAL end", Change::WalEnd { position: 1 << 40 }),
        ("WAL reopened", Change::WalReopened),
        ("WAL durable", Change::WalDurable { position: 4096 }),
        ("ages mixed", Change::AgesMixed { tree: TreeId::DEFAULT }),
        ("tree named", Change::TreeNamed { tree: TreeId(1), name: "prices".into() }),
        ("tree dropped", Change::TreeDropped { tree: TreeId(1) }),
        ("merge operator set", Change::MergeOperatorSet { tree, name: "add".into() }),
        (
            "ranges deleted",
            Change::RangesDeleted {
                tree,
                ranges: vec![
                    (KeyRange::new(Some(b"fig"), Some(b"plum")), Sequence(300)),
                    (KeyRange::new(Some(b""), None), Sequence(301)),
                ],
            },
        ),
        ("range deletes ended", Change::RangeDeletesEnded { tree, sequences: vec![Sequence(300), Sequence(7)] }),
        ("table added after range deletes", Change::TableAdded { tree, meta: Arc::new(applied) }),
    ]
}

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2").join(name)
}

/// The stored text; first replaced by `now` if that is asked for.
fn stored(name: &str, now: &str) -> String {
    String::from_utf8(tamarack_testing::stored(&golden(name), now)).expect("text")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn bytes_of(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two hexadecimal digits")).collect()
}

/// Shows that each kind of change is still written and read as the stored bytes, and that none is
/// missing.
#[test]
fn every_kind_of_change_has_its_bytes() {
    let mut now = String::from("# The bytes of one change of each kind; the first is its tag.\n");
    for (name, change) in changes() {
        let edit = Edit { number: EditNumber(0), changes: vec![change] };
        writeln!(now, "{name}: {}", hex(&edit.encode()[1..])).expect("memory");
    }
    let text = stored("edit.txt", &now);
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), changes().len(), "the file and the list have different changes");
    for (line, (name, change)) in lines.into_iter().zip(changes()) {
        let (stored_name, stored_hex) = line.split_once(": ").expect("a name and bytes");
        assert_eq!(stored_name, name);
        let bytes = [vec![0], bytes_of(stored_hex)].concat();
        let edit = Edit { number: EditNumber(0), changes: vec![change] };
        assert_eq!(edit.encode(), bytes, "{name} is written differently");
        assert_eq!(Edit::decode(&bytes), Ok(edit), "{name} is read differently");
        for cut in 2..bytes.len() {
            assert!(matches!(Edit::decode(&bytes[..cut]), Err(EditError::Malformed(_))), "{name}, cut at {cut}");
        }
    }
    let tag = |change| Edit { number: EditNumber(0), changes: vec![change] }.encode()[1];
    let tags: Vec<u8> = changes().into_iter().map(|(_, change)| tag(change)).take(Change::TAG_LAST.into()).collect();
    assert_eq!(tags, (1..=Change::TAG_LAST).collect::<Vec<_>>(), "one for each tag");
    for unknown in [0, Change::TAG_LAST + 1, 127] {
        assert_eq!(Edit::decode(&[0, unknown, 0]), Err(EditError::UnknownChange(unknown)));
    }
    for optional in [128, 255] {
        let edit = Edit { number: EditNumber(0), changes: vec![] };
        assert_eq!(Edit::decode(&[0, optional, 1, 77]), Ok(edit), "a change that readers may pass over");
    }
    let drop = |field: u8| Edit::decode(&[0, 20, 4, 9, field, 1, 5]);
    let dropped = Edit { number: EditNumber(0), changes: vec![Change::TreeDropped { tree: TreeId(9) }] };
    assert_eq!(drop(3), Ok(dropped), "a field that readers may pass over");
    assert_eq!(drop(4), Err(EditError::UnknownField(4)));
}

/// Shows that a manifest's header, records and mark, and `CURRENT`, are still written and read as
/// the stored bytes.
#[test]
fn a_manifest_has_its_bytes() {
    let (database, base, created_after) = (0xFEDC_BA98_7654_3210, Position(0), EditNumber(1));
    let header = FileHeader { kind: FileKind::Manifest, database, number: 7, base, first: 1, created_after };
    let base = Edit {
        number: EditNumber(1),
        changes: vec![
            Change::Database { id: header.database },
            Change::IdsUsed { tables: 1, runs: 1, compactions: 1 },
            Change::TreeCreated { tree: TreeId::DEFAULT },
        ],
    };
    let edit = Edit { number: EditNumber(2), changes: vec![Change::WalDurable { position: 4096 }] };
    let place = header.place();
    let mut file = header.encode().to_vec();
    let mut parts = vec![("header", hex(&file))];
    for (name, payload, items, first) in
        [("base", base.encode(), 1, 1), ("edit", edit.encode(), 1, 2), ("mark", Vec::new(), 0, 3)]
    {
        let end = file.len() as u64;
        let mut record = RecordBuffer::with_payload(&payload);
        let durable = Position(if name == "base" { 0 } else { end });
        let record = record.finish(place, end, items, first, durable).expect("it is short");
        parts.push((name, hex(record)));
        file.extend(record);
    }
    parts.push(("current", encode_current(header.number).trim_end().to_owned()));
    let now: String = parts.iter().map(|(name, bytes)| format!("{name}: {bytes}\n")).collect();
    let text = stored("manifest.txt", &now);
    assert_eq!(text, now, "a manifest is written differently");

    let part = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("there is no {name}"))
    };
    let bytes = ["header", "base", "edit", "mark"].map(|name| bytes_of(part(name))).concat();
    assert_eq!(FileHeader::decode(&bytes, FileKind::Manifest, 7), Ok(header));
    let record = |offset| record_at(&bytes, offset, place).expect("a whole record");
    let (first, payload) = record(FILE_HEADER_BYTES);
    assert_eq!((Edit::decode(payload), first.next()), (Ok(base), 2));
    let first_end = FILE_HEADER_BYTES + first.stride();
    let (second, payload) = record(first_end);
    assert_eq!((Edit::decode(payload), second.durable, second.next()), (Ok(edit), Position(first_end), 3));
    let second_end = first_end + second.stride();
    let (mark, _) = record(second_end);
    assert_eq!((mark.is_mark(), mark.durable, mark.next()), (true, Position(second_end), 3));
    assert_eq!(second_end + mark.stride(), bytes.len() as u64);
    assert_eq!(decode_current(format!("{}\n", part("current")).as_bytes()), Some(7));
}
