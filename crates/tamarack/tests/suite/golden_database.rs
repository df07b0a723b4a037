//! Whole databases of format version 2, which every later program opens: stored bytes, not bytes
//! that the code under test has just written.
//!
//! `golden/v2/database` holds runs whose tables have each kind of filter or none, with and without
//! digests, compressed and not; versions of keys that snapshots needed, tombstones, an ingested
//! run, slices of tables that are cut, a compaction that was interrupted after its first handover,
//! a keyspace name, merge operands; a WAL with single writes and batches; and a manifest with every
//! kind of change that programs without range deletes know. No program makes it any more.
//!
//! `golden/v2/range_deletes` holds what [`make`] left: all that, range deletes in the WAL and in
//! the manifest, and tables that they were applied to. `database.txt` and `range_deletes.txt` list
//! the entries that each must answer with.
//!
//! What the engine learns to write besides gets a database of its own, beside these. Until then,
//!
//! ```text
//! TAMARACK_REWRITE=golden_database cargo test -p tamarack --test suite golden_database::make
//! ```
//!
//! makes the last one anew, which is for a database that no commit has yet. Nothing else writes
//! them, not even `TAMARACK_REWRITE=1`: a change of what the engine happens to write (where a run
//! is cut, when it is compacted) does not replace what an older program did write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::internals::{Manifest, TableFiles, TableStorage, Tail};
use tamarack::operators::Append;
use tamarack::{AdvancedOptions, Batch, Compression, Db, Options, Result};
use tamarack_env::sim::Crash;
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, MemoryEnv, OsEnv, SimEnv, Step};
use tamarack_format::checksum::FileKind;
use tamarack_format::current::decode_current;
use tamarack_format::edit::{Change, Edit};
use tamarack_format::entry::{EntryKind, Sequence};
use tamarack_format::group::Entries;
use tamarack_format::meta::{EditNumber, TableMeta, TreeId};
use tamarack_format::names::FileName;
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, RecordHead, record_at};
use tamarack_testing::{read_dir, read_file, write_file};

use crate::model::{Model, all, all_of};

const STEP: Step = Step("test: write a file");
const DIR: &str = "/db";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2").join(name)
}

/// A database that is stored, and what it has.
struct Golden {
    /// The name of its directory.
    name: &'static str,
    /// The manifest has each kind of change up to this tag.
    last_change: u8,
    /// The kinds of entries in its WAL.
    kinds: &'static [EntryKind],
    has_range_deletes: bool,
}

/// As programs left it that knew no range deletes.
const FIRST: Golden = Golden {
    name: "database",
    last_change: 21,
    kinds: &[EntryKind::Put, EntryKind::Delete, EntryKind::Merge],
    has_range_deletes: false,
};

/// As [`make`] leaves it. What follows range deletes is not served by this version: see
/// `format_versions`.
const LATEST: Golden = Golden {
    name: "range_deletes",
    last_change: Change::TAG_LAST,
    kinds: &[EntryKind::Put, EntryKind::Delete, EntryKind::Merge, EntryKind::RangeDelete],
    has_range_deletes: true,
};

impl Golden {
    /// The stored files, by name.
    fn files(&self) -> BTreeMap<FileName, Vec<u8>> {
        named(read_dir(&*OsEnv::new(), &golden(self.name)))
    }

    /// The entries that are stored beside the database.
    fn entries(&self) -> Model {
        let file = read_file(&*OsEnv::new(), &golden(&format!("{}.txt", self.name)));
        let text = String::from_utf8(file).expect("text");
        let entries = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("`{line}` is no entry"));
            (key.as_bytes().to_vec(), value.as_bytes().to_vec())
        });
        entries.collect()
    }
}

fn named(files: BTreeMap<String, Vec<u8>>) -> BTreeMap<FileName, Vec<u8>> {
    files.into_iter().map(|(name, bytes)| (FileName::parse(&name).expect("a name of ours"), bytes)).collect()
}

/// A database of those files.
fn copy(files: &BTreeMap<FileName, Vec<u8>>) -> Arc<dyn Env> {
    let env = MemoryEnv::new(0);
    env.create_dir(Path::new(DIR), STEP).expect("an empty environment");
    files.iter().for_each(|(name, bytes)| write_file(&*env, &name.path(Path::new(DIR)), bytes));
    env
}

fn check(db: &Db, model: &Model) -> Result<()> {
    let report = db.verify(&mut |_, _| {})?;
    assert!(report.is_ok(), "{:?}", report.problems);
    assert_eq!(&all(db), model);
    assert_eq!(&all_of(db.scan(..).rev()), model);
    for number in 0..KEYS + 10 {
        let key = key(number);
        assert_eq!(db.get(&key)?.as_deref(), model.get(key.as_bytes()).map(|value| &**value), "{key}");
    }
    Ok(())
}

/// The database that an older program left is read, by who changes nothing too; and it is written,
/// compacted, and opened again.
#[test]
fn a_database_of_version_2_opens_for_ever() -> Result<()> {
    opens_for_ever(&FIRST)
}

#[test]
fn a_database_with_range_deletes_opens_for_ever() -> Result<()> {
    opens_for_ever(&LATEST)
}

fn opens_for_ever(golden: &Golden) -> Result<()> {
    let (files, mut model) = (golden.files(), golden.entries());
    assert!(model.len() > 100, "{} entries", model.len());
    let env = copy(&files);
    let options = || Options::new().advanced(AdvancedOptions::new().env(env.clone()));
    let report = options().verify(DIR, &mut |_, _| {})?;
    assert!(report.is_ok() && report.wal_entries > 0 && report.tables > 4, "{report:?}");
    check(&options().open_read_only(DIR)?, &model)?;
    for (name, bytes) in &files {
        assert_eq!(&read_file(&*env, &name.path(Path::new(DIR))), bytes, "{}: reading changed it", name.name());
    }
    let db = options().open(DIR)?;
    check(&db, &model)?;
    for number in (0..KEYS).step_by(7) {
        db.put(key(number), "written by a later program")?;
        model.insert(key(number).into(), b"written by a later program".to_vec());
        db.delete(key(number + 1))?;
        model.remove(key(number + 1).as_bytes());
    }
    // Across tables and entries that older programs wrote.
    for keys in [20..60, 95..105, 215..350] {
        delete_range(&db, &mut model, keys)?;
    }
    check(&db, &model)?;
    db.flush()?;
    db.wait_for_compactions()?;
    check(&db, &model)?;
    db.close()?;
    let db = options().open(DIR)?;
    check(&db, &model)?;
    db.compact()?;
    check(&db, &model)?;
    drop(db);
    check(&options().open(DIR)?, &model)
}

/// The records of a journal's file, with their payloads.
fn records(bytes: &[u8], kind: FileKind, number: u64) -> Vec<(RecordHead, &[u8])> {
    let place = FileHeader::decode(bytes, kind, number).expect("a whole header").place();
    let (mut records, mut at) = (Vec::new(), FILE_HEADER_BYTES);
    while let Some((head, payload)) = record_at(bytes, at, place) {
        records.push((head, payload));
        at += head.stride();
    }
    records
}

/// What is asked for in [`every_kind_is_stored`].
#[derive(Default)]
struct Kinds {
    changes: BTreeSet<u8>,
    /// Compactions that have begun, handed over, and not ended.
    unfinished: BTreeSet<u64>,
    handed_over: BTreeSet<u64>,
    tables: Vec<Arc<TableMeta>>,
    entries: BTreeSet<u8>,
    batches: usize,
    marks: usize,
}

impl Kinds {
    fn of(files: &BTreeMap<FileName, Vec<u8>>) -> Self {
        let mut kinds = Self::default();
        let current = decode_current(&files[&FileName::Current]).expect("CURRENT");
        for (name, bytes) in files {
            match *name {
                FileName::Manifest(number) if number == current => {
                    kinds.note_manifest(&records(bytes, FileKind::Manifest, number));
                }
                FileName::Wal(number) => kinds.note_wal(&records(bytes, FileKind::Wal, number)),
                _ => {}
            }
        }
        kinds.tables.retain(|meta| files.contains_key(&FileName::Table(meta.id.0)));
        kinds
    }

    fn note_manifest(&mut self, records: &[(RecordHead, &[u8])]) {
        for (head, payload) in records {
            if head.is_mark() {
                self.marks += 1;
                continue;
            }
            for change in Edit::decode(payload).expect("an edit").changes {
                match &change {
                    Change::TableAdded { meta, .. } => self.tables.push(meta.clone()),
                    Change::CompactionBegun { compaction, .. } => drop(self.unfinished.insert(compaction.0)),
                    Change::CompactionAdvanced { compaction, .. } => drop(self.handed_over.insert(compaction.0)),
                    Change::CompactionEnded { compaction, .. } => drop(self.unfinished.remove(&compaction.0)),
                    _ => {}
                }
                self.changes.insert(Edit { number: EditNumber(0), changes: vec![change] }.encode()[1]);
            }
        }
    }

    fn note_wal(&mut self, records: &[(RecordHead, &[u8])]) {
        for (head, payload) in records {
            self.batches += usize::from(head.items > 1);
            let entries = Entries::new(payload, Sequence(head.first));
            self.entries.extend(entries.map(|entry| entry.expect("an entry").1.kind as u8));
        }
    }

    fn is_compaction_in_progress(&self) -> bool {
        self.unfinished.intersection(&self.handed_over).next().is_some()
    }

    fn tables_with(&self, is_such: impl Fn(&TableMeta) -> bool) -> usize {
        self.tables.iter().filter(|meta| is_such(meta)).count()
    }
}

/// Nothing that this version can write is missing from the stored database. What later programs
/// write besides needs a place in it, or a database of its own.
#[test]
fn every_kind_is_stored() {
    for golden in [FIRST, LATEST] {
        check_kinds(&golden, &golden.files());
    }
}

fn check_kinds(golden: &Golden, files: &BTreeMap<FileName, Vec<u8>>) {
    let bytes: usize = files.values().map(Vec::len).sum();
    assert!(bytes < 100_000, "{bytes} bytes");
    let kinds = Kinds::of(files);
    assert_eq!(kinds.changes, (1..=golden.last_change).collect(), "the manifest has each kind of change");
    assert!(kinds.marks > 3, "{} marks", kinds.marks);
    assert!(kinds.is_compaction_in_progress(), "no compaction is in progress");
    for filter in 0..=3 {
        assert!(kinds.tables_with(|meta| meta.properties.filter_kind == filter) > 0, "no table has filter {filter}");
    }
    for digests in [false, true] {
        assert!(kinds.tables_with(|meta| (meta.digest_bytes > 0) == digests) > 0, "digests: {digests}");
    }
    for compression in [Compression::None, Compression::Lz4] {
        let such = kinds.tables_with(|meta| meta.properties.compression == compression);
        assert!(such > 0, "no table is compressed as {compression:?}");
    }
    assert!(kinds.tables_with(|meta| meta.properties.tombstones > 0) > 0, "no table has tombstones");
    let ingested = kinds.tables_with(|meta| meta.sequence_base > Sequence::ZERO);
    assert!(ingested > 0, "no table has a sequence base");
    assert!(kinds.tables_with(|meta| meta.merge_operands() > 0) > 0, "no table has merge operands");
    let applied = kinds.tables_with(|meta| meta.range_deletes_applied > Sequence::ZERO);
    assert_eq!(applied > 0, golden.has_range_deletes, "{applied} tables say that range deletes were applied to them");
    assert_eq!(kinds.entries, golden.kinds.iter().map(|kind| *kind as u8).collect());
    assert!(kinds.batches > 0, "the WAL has a batch");
}

/// Keys that [`make`] writes have smaller numbers.
const KEYS: u32 = 400;

fn key(number: u32) -> String {
    format!("key {number:04}")
}

fn delete_range(db: &Db, model: &mut Model, keys: std::ops::Range<u32>) -> Result<()> {
    let range = key(keys.start)..key(keys.end);
    db.delete_range(range.clone())?;
    model.retain(|key, _| !(range.start.as_bytes()..range.end.as_bytes()).contains(&&key[..]));
    Ok(())
}

/// A database as it is made, beside what it must answer with.
struct Making {
    env: SimEnv,
    model: Model,
}

impl Making {
    fn open(&self, compression: Compression, advanced: AdvancedOptions) -> Result<Db> {
        self.options(compression, advanced).open(DIR)
    }

    fn options(&self, compression: Compression, advanced: AdvancedOptions) -> Options {
        let advanced = advanced.env(Arc::new(self.env.clone()));
        let advanced = advanced.memtable_bytes(2000).block_bytes(256).table_bytes(1500).manifest_bytes(1 << 20);
        Options::new().threads(1).compression(compression).space_amplification_max(3.0).advanced(advanced)
    }

    /// Appends to every `by`-th key from the first on.
    fn merge(&mut self, db: &Db, keys: std::ops::Range<u32>, by: usize) -> Result<()> {
        for number in keys.step_by(by) {
            db.merge(key(number), " and more")?;
            self.model.entry(key(number).into()).or_default().extend_from_slice(b" and more");
        }
        Ok(())
    }

    /// Puts every `by`-th key from the first on.
    fn put(&mut self, db: &Db, keys: std::ops::Range<u32>, by: usize, value: &str) -> Result<()> {
        for number in keys.step_by(by) {
            let value = format!("{value} {number} {}", "of some length ".repeat(number as usize % 3));
            db.put(key(number), value.trim_end())?;
            self.model.insert(key(number).into(), value.trim_end().into());
        }
        Ok(())
    }

    fn delete(&mut self, db: &Db, keys: std::ops::Range<u32>, by: usize) -> Result<()> {
        for number in keys.step_by(by) {
            db.delete(key(number))?;
            self.model.remove(key(number).as_bytes());
        }
        Ok(())
    }
}

/// The files of a database that are kept.
fn files_of(env: &SimEnv) -> BTreeMap<FileName, Vec<u8>> {
    let mut files = named(read_dir(env, Path::new(DIR)));
    files.remove(&FileName::Lock);
    files
}

/// Makes the database that is stored.
fn make() -> Result<Making> {
    let mut making = Making { env: SimEnv::new(1), model: Model::new() };
    // A large run with elastic filters, of tables that share no key, with older versions that a
    // snapshot needs.
    let advanced = || AdvancedOptions::new().policy("tiering:T=8");
    // It comes to a lower level.
    let elastic = AdvancedOptions::new().policy("leveling:T=2").filter("elastic:bits=12");
    let db = making.open(Compression::Lz4, elastic)?;
    for round in 1..=3 {
        making.put(&db, 0..200, 1, &format!("round {round}"))?;
        db.flush()?;
    }
    db.wait_for_compactions()?;
    let snapshot = db.snapshot();
    making.put(&db, 0..200, 20, "newer")?;
    making.delete(&db, 5..200, 50)?;
    db.compact()?;
    drop(snapshot);
    db.close()?;
    // Smaller ones with the other filters, none, and without digests.
    for (filter, digests, keys) in
        [("blocked:bits=10", true, 150..180), ("none", false, 170..200), ("bloom:bits=8", true, 190..220)]
    {
        let db = making.open(Compression::None, advanced().filter(filter).filter_digests(digests))?;
        let pause = db.pause_compactions();
        making.put(&db, keys.clone(), 1, filter)?;
        making.delete(&db, keys, 6)?;
        db.flush()?;
        drop(pause);
        db.close()?;
    }
    // A run that was ingested, with writes before and after it.
    let options = making.options(Compression::Lz4, advanced().filter("elastic:bits=12"));
    let db = options.merge_operator(Arc::new(Append)).open(DIR)?;
    let mut ingest = db.ingest()?;
    for number in (210..KEYS).step_by(3) {
        ingest.put(key(number), format!("ingested {number}"))?;
        making.model.insert(key(number).into(), format!("ingested {number}").into());
    }
    ingest.finish()?;
    making.put(&db, 220..240, 2, "after the ingested run")?;
    // Of values in the same memtable, and in the run.
    making.merge(&db, 222..240, 4)?;
    making.merge(&db, 300..330, 3)?;
    db.flush()?;
    // A range delete that the manifest has until a snapshot is dropped.
    let snapshot = db.snapshot();
    delete_range(&db, &mut making.model, 131..140)?;
    making.put(&db, 134..140, 2, "after the range delete")?;
    db.flush()?;
    drop(snapshot);
    db.wait_for_compactions()?;
    // A part of the keys is compacted, which cuts tables.
    db.compact_range(key(100)..key(130))?;
    // A compaction into another level is interrupted after a handover.
    let images = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let taken = images.clone();
    making.env.set_hook(move |moment| {
        if moment.call.step == Some(tamarack::step::MANIFEST_APPEND) {
            taken.lock().push(moment.image(Crash::KeepAll));
        }
    });
    db.set_policy("leveling:T=3")?;
    db.reshape()?;
    drop(db);
    let is_interrupted = |image: &SimEnv| Kinds::of(&files_of(image)).is_compaction_in_progress();
    making.env = images.lock().drain(..).find(is_interrupted).expect("a compaction has several handovers");
    // Keyspaces that this version does not offer, but keeps.
    let shared: Arc<dyn Env> = Arc::new(making.env.clone());
    let files = TableFiles::new(TableStorage::buffered(shared.clone(), 0), Path::new(DIR));
    let manifest = Manifest::recover(&shared, Path::new(DIR), Tail::Strict, files)?.expect("it is there").manifest;
    let (named, dropped) = (TreeId(1), TreeId(2));
    let name = "prices".into();
    manifest.commit(vec![Change::TreeCreated { tree: named }, Change::TreeNamed { tree: named, name }])?;
    manifest.commit(vec![Change::TreeCreated { tree: dropped }, Change::TreeDropped { tree: dropped }])?;
    drop(manifest);
    // What is in the WAL only.
    let db = making.open(Compression::Lz4, AdvancedOptions::new())?;
    making.put(&db, 0..400, 40, "in the WAL")?;
    making.delete(&db, 1..400, 80)?;
    making.merge(&db, 303..400, 30)?;
    delete_range(&db, &mut making.model, 141..145)?;
    let mut batch = Batch::new();
    for number in [3, 103, 203] {
        batch.put(key(number), "in a batch");
        making.model.insert(key(number).into(), b"in a batch".to_vec());
    }
    batch.delete(key(104));
    making.model.remove(key(104).as_bytes());
    db.write(&batch)?;
    db.close()?;
    Ok(making)
}

/// A database with every kind of everything can still be made, which changes what is stored only if
/// `TAMARACK_REWRITE` names it.
#[test]
fn make_the_database() -> Result<()> {
    let making = make()?;
    let files = files_of(&making.env);
    check_kinds(&LATEST, &files);
    let env = copy(&files);
    let db = Options::new().advanced(AdvancedOptions::new().env(env)).open_read_only(DIR)?;
    check(&db, &making.model)?;
    if std::env::var_os("TAMARACK_REWRITE").is_none_or(|which| which != "golden_database") {
        return Ok(());
    }
    let (os, dir) = (OsEnv::new(), golden(LATEST.name));
    for name in LATEST.files().keys() {
        os.remove(&name.path(&dir), STEP).expect("it was read");
    }
    files.iter().for_each(|(name, bytes)| write_file(&*os, &name.path(&dir), bytes));
    let mut text = format!("# The entries of the database in `{}`, key = value.\n", LATEST.name);
    for (key, value) in &making.model {
        writeln!(text, "{} = {}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)).expect("memory");
    }
    write_file(&*os, &golden(&format!("{}.txt", LATEST.name)), text.as_bytes());
    Ok(())
}
