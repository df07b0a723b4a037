//! A small database at rest that has everything: two segments of the WAL with several records each,
//! tables in several runs, a manifest of several edits. And what a careful reader of its files
//! knows about them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::internals::Manifest;
use tamarack::internals::TableFiles;
use tamarack::internals::TableStorage;
use tamarack::internals::Tail;
use tamarack::{AdvancedOptions, Batch, Db, Durability, Options};
use tamarack_env::sim::Crash;
use tamarack_env::{Env, SimEnv};
use tamarack_format::checksum::FileKind;
use tamarack_format::meta::TreeId;
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, RECORD_HEAD_BYTES, record_at};

use crate::history::{History, KeyWrite};

/// Where the database lives.
pub(crate) const DIR: &str = "/db";

/// The bytes of a segment's header.
pub(crate) const HEADER_BYTES: u64 = FILE_HEADER_BYTES;

/// Memtables for a handful of writes, tables of a few blocks, and each flush a run of its own.
pub(crate) fn options(env: &SimEnv) -> Options {
    let advanced = AdvancedOptions::new()
        .memtable_bytes(240)
        .immutable_memtables_max(4)
        .block_bytes(128)
        .table_bytes(250)
        .cache_bytes(16 << 10);
    Options::new().advanced(advanced.policy("tiering:T=100").env(Arc::new(env.clone())))
}

/// A database at rest.
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    env: SimEnv,
    /// All files and their lengths.
    pub(crate) files: Vec<(PathBuf, u64)>,
    pub(crate) history: History,
    /// The sequence of each commit's last change.
    last_sequences: Vec<u64>,
    /// The records of the WAL, old to young.
    pub(crate) records: Vec<Record>,
    /// Commits that are in tables.
    pub(crate) flushed: usize,
    /// Up to which position the manifest says the WAL to be durable.
    pub(crate) durable: u64,
}

/// A record of the WAL.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Where in the file it begins and ends, without padding.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the WAL it ends, with padding.
    pub(crate) position: u64,
    /// Up to which position it says the WAL to be durable.
    pub(crate) durable: u64,
    /// The number of commits up to and with it.
    pub(crate) commits: usize,
}

impl Scene {
    /// The process was killed: the WAL has an end that was never synced.
    pub(crate) fn killed() -> Self {
        let written = Written::new();
        Self::of("killed", &written)
    }

    /// The database was closed.
    pub(crate) fn closed() -> Self {
        let mut written = Written::new();
        written.db.take().expect("it is open").close().expect("nothing fails");
        Self::of("closed", &written)
    }

    /// A new machine with the database on it.
    pub(crate) fn machine(&self) -> SimEnv {
        self.env.image(Crash::KeepAll)
    }

    /// The youngest segment of the WAL.
    pub(crate) fn last_segment(&self) -> &Path {
        &self.records.last().expect("there are several").path
    }

    /// How many bytes of the file are not just zeros at its end.
    pub(crate) fn used_bytes(&self, path: &Path) -> u64 {
        let content = self.env.content(path).expect("it is one of ours");
        content.iter().rposition(|byte| *byte != 0).map_or(1, |last| last as u64 + 1)
    }

    fn of(name: &'static str, written: &Written) -> Self {
        let env = written.env.image(Crash::KeepAll);
        let shared: Arc<dyn Env> = Arc::new(env.image(Crash::KeepAll));
        let tables = TableFiles::new(TableStorage::buffered(shared.clone(), 0), DIR.as_ref());
        let found = Manifest::recover(&shared, DIR.as_ref(), Tail::Strict, tables).expect("it is whole");
        let version = found.expect("it is there").manifest.version();
        let flushed_through = version.tree(TreeId::DEFAULT).expect("there is one tree").flushed_through().0;
        let files = env.files();
        let durable = version.wal_durable().max(version.wal_end().unwrap_or(0));
        let (history, last_sequences) = (written.history.clone(), written.last_sequences.clone());
        let mut scene = Self { name, files, history, last_sequences, records: Vec::new(), flushed: 0, durable, env };
        scene.flushed = scene.commits_through(flushed_through);
        scene.records = scene.read_records();
        let segments =
            scene.files.iter().filter(|(path, _)| path.extension().is_some_and(|kind| kind == "wal")).count();
        assert!(segments >= 2 && scene.records.len() >= 6, "{segments} segments, {:?}", scene.records);
        assert!(version.tables().count() >= 4, "{version:?}");
        scene
    }

    /// The number of commits up to and with the one that has this sequence.
    fn commits_through(&self, sequence: u64) -> usize {
        self.last_sequences.iter().take_while(|last| **last <= sequence).count()
    }

    fn read_records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for (path, _) in &self.files {
            let Some(number) = path.to_str().and_then(|path| path.strip_prefix("/db/")?.strip_suffix(".wal")) else {
                continue;
            };
            let number = number.parse().expect("a segment's number");
            let bytes = self.env.content(path).expect("a segment");
            let header = FileHeader::decode(&bytes, FileKind::Wal, number).expect("a segment's header");
            let mut start = HEADER_BYTES;
            while let Some((head, body)) = record_at(&bytes, start, header.place()) {
                records.push(Record {
                    path: path.clone(),
                    start,
                    end: start + (RECORD_HEAD_BYTES + body.len()) as u64,
                    position: header.base.0 + start + head.stride(),
                    durable: head.durable.0,
                    commits: self.commits_through(head.next() - 1),
                });
                start += head.stride();
            }
        }
        records
    }
}

/// A database, and what was written to it.
struct Written {
    env: SimEnv,
    db: Option<Db>,
    history: History,
    last_sequences: Vec<u64>,
}

impl Written {
    fn new() -> Self {
        let env = SimEnv::new(7);
        let db = options(&env).open(DIR).expect("nothing fails");
        let mut written = Self { env, db: Some(db.clone()), history: History::default(), last_sequences: Vec::new() };
        (0..10).for_each(|number| written.write(&db, number, Durability::Buffered));
        db.flush().expect("nothing fails");
        (10..22).for_each(|number| written.write(&db, number, Durability::Buffered));
        db.flush().expect("nothing fails");
        (22..34).for_each(|number| written.write(&db, number, Durability::Buffered));
        db.flush().expect("nothing fails");
        // No background work from here on: two segments stay.
        for number in 34..48 {
            let durability = if number == 36 || number == 44 { Durability::Sync } else { Durability::Buffered };
            written.write(&db, number, durability);
        }
        written
    }

    fn write(&mut self, db: &Db, number: u64, durability: Durability) {
        let key = |number: u64| format!("key {:02}", number % 11).into_bytes();
        let put = |number: u64| (key(number * 5), Some(format!("value {number:03}").into_bytes()));
        let changes: Vec<KeyWrite> = match number % 3 {
            0 => vec![put(number), (key(number), None), put(number + 2)],
            _ => vec![put(number)],
        };
        let mut batch = Batch::new();
        for (key, value) in &changes {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        db.write_with(&batch, durability).expect("nothing fails");
        self.history.acknowledge(changes);
        self.last_sequences.push(db.stats().visible_sequence);
    }
}
