//! What stands where in the files of a database before they are damaged: which bytes hold which
//! entries, and which of these belong to the state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::internals::ManifestSurvey;
use tamarack::internals::TableFiles;
use tamarack::internals::{Findings, RecoverySettings, Tail};
use tamarack::internals::{MANIFEST_PROFILE, RecordScan, WAL_PROFILE};
use tamarack::internals::{Salvage, TableStorage};
use tamarack_env::Env;
use tamarack_format::entry::{Entry, EntryKind, Sequence};
use tamarack_format::meta::TreeId;
use tamarack_format::names::FileName;
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, Position, RECORD_HEAD_BYTES};

use super::scene::{DIR, Scene};

/// The value of each key; `None` for those that have none.
pub(crate) type Answers = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// See the module's documentation.
pub(crate) struct Truth {
    pub(crate) answers: Answers,
    /// The sequence of each key's youngest version in the state.
    pub(crate) sequences: BTreeMap<Vec<u8>, u64>,
    /// The files that the state consists of, with their bytes.
    pub(crate) needed: BTreeMap<PathBuf, Vec<u8>>,
    /// True if a compaction was going on.
    pub(crate) is_compacting: bool,
    blocks: Vec<Piece>,
    /// Records, old to young.
    records: Vec<Piece>,
    /// Where the records of each segment that is needed end.
    wal_ends: BTreeMap<PathBuf, usize>,
    /// The tables of ingests.
    pub(crate) ingested: BTreeSet<PathBuf>,
    /// Up to where the manifest says that the WAL is durable.
    wal_durable: u64,
}

/// What nothing says to belong to the state any more, because the edits that did look torn.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    /// Tables that nothing names.
    pub(crate) tables: BTreeSet<PathBuf>,
    /// Where the WAL ends now, if what stands there is not whole: the segment, and the offset.
    pub(crate) wal_end: Option<(PathBuf, u64)>,
}

/// Bytes of a file, and the entries in them that belong to the state.
struct Piece {
    path: PathBuf,
    start: usize,
    bytes: Vec<u8>,
    entries: Vec<(Vec<u8>, u64)>,
}

impl Piece {
    fn is_whole(&self, files: &BTreeMap<PathBuf, Vec<u8>>) -> bool {
        files.get(&self.path).and_then(|file| file.get(self.start..)).is_some_and(|file| file.starts_with(&self.bytes))
    }
}

impl Truth {
    pub(crate) fn of(scene: &Scene) -> Self {
        let dir = Path::new(DIR);
        let env = scene.env.process_image();
        let shared: Arc<dyn Env> = Arc::new(env.clone());
        let files = TableFiles::new(TableStorage::buffered(shared.clone(), 0), dir);
        let survey = ManifestSurvey::of(&env, dir, &files).expect("nothing fails").expect("there is a database");
        assert!(survey.is_complete && survey.problems.is_empty(), "{survey:?}");
        let version = survey.version.expect("it is complete");
        let tree = version.tree(TreeId::DEFAULT).expect("there is one tree");
        let content = |path: &Path| env.content(path).expect("it is there");

        let mut needed = BTreeSet::from([FileName::Current.path(dir), survey.path.expect("it is complete")]);
        let (mut blocks, mut ingested) = (Vec::new(), BTreeSet::new());
        for slice in tree.runs().flat_map(|run| run.slices().iter()) {
            let (id, path) = (slice.table().id(), FileName::Table(slice.table().id().0).path(dir));
            let meta = slice.table().meta();
            let salvage = Salvage::read(&env, &path, version.database(), id, Some(meta)).expect("nothing fails");
            assert!(salvage.problems().is_empty() && salvage.lost().is_empty(), "{salvage:?}");
            assert_eq!(salvage.counted().entries, meta.entries);
            for handle in salvage.blocks() {
                let mut entries = Vec::new();
                let add = &mut |entry: Entry<'_>| {
                    if slice.contains(entry.key) {
                        entries.push((entry.key.to_vec(), entry.sequence.0));
                    }
                    Ok(())
                };
                salvage.visit_block(handle, add).expect("it is whole");
                let start = handle.offset as usize;
                let bytes = content(&path)[start..handle.end() as usize].to_vec();
                blocks.push(Piece { path: path.clone(), start, bytes, entries });
            }
            if meta.ingest.is_some() {
                ingested.insert(path.clone());
            }
            needed.insert(path);
        }

        let flushed = tree.flushed_through();
        let settings = RecoverySettings {
            env: shared,
            dir: dir.to_owned(),
            database: version.database(),
            flushed_through: flushed,
            last_edit: version.edit_number(),
            durable: Position(version.wal_durable().max(version.wal_end().unwrap_or(0))),
            tail: Tail::MayBeTorn,
        };
        let wal = Findings::of(settings, false).expect("nothing fails");
        assert!(wal.is_sound, "{:?}", wal.problems);
        let (mut records, mut wal_ends) = (Vec::new(), BTreeMap::new());
        'segments: for (index, segment) in wal.segments.iter().enumerate() {
            let mut end = FILE_HEADER_BYTES as usize;
            for record in &segment.records {
                let is_torn = |torn: &tamarack::Dropped| torn.path == segment.path && record.offset >= torn.offset;
                if wal.torn.iter().any(is_torn) {
                    wal_ends.insert(segment.path.clone(), end);
                    break 'segments;
                }
                let mut entries = Vec::new();
                let add = &mut |_: TreeId, entry: Entry<'_>| {
                    assert!(matches!(entry.kind, EntryKind::Put | EntryKind::Delete));
                    if entry.sequence > flushed {
                        entries.push((entry.key.to_vec(), entry.sequence.0));
                    }
                    Ok(())
                };
                wal.visit(index, &[*record], add).expect("it is whole");
                let start = record.offset as usize;
                end = start + RECORD_HEAD_BYTES + record.head.payload_bytes as usize;
                records.push(Piece {
                    path: segment.path.clone(),
                    start,
                    bytes: content(&segment.path)[start..end].to_vec(),
                    entries,
                });
            }
            wal_ends.insert(segment.path.clone(), end);
            if wal.torn.iter().any(|torn| torn.path == segment.path) {
                break;
            }
        }
        needed.extend(wal_ends.keys().cloned());

        let mut sequences: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (key, sequence) in blocks.iter().chain(&records).flat_map(|piece: &Piece| &piece.entries) {
            let youngest = sequences.entry(key.clone()).or_default();
            *youngest = (*youngest).max(*sequence);
        }
        let answers = scene.answers(&env).expect("nothing is damaged");
        for (key, value) in &answers {
            let found = sequences.get(key).and_then(|sequence| {
                let version = scene.versions[key].iter().find(|(written, _)| written == sequence);
                version.expect("what is there was written").1.clone()
            });
            assert_eq!(found, *value, "the pieces say something else about {:?} than the database", key.escape_ascii());
        }
        let needed = needed.into_iter().map(|path| (path.clone(), scene.env.content(&path).expect("it is there")));
        assert!(flushed <= Sequence::MAX);
        Self {
            answers,
            sequences,
            needed: needed.collect(),
            is_compacting: !tree.compactions().is_empty(),
            blocks,
            records,
            wal_ends,
            ingested,
            wal_durable: version.wal_durable().max(version.wal_end().unwrap_or(0)),
        }
    }

    /// The sequence of each key's youngest version in blocks and records that are as they were. Of
    /// a WAL that is kept as one, records count up to the first that is not, or to a segment before
    /// it that is not. What is `forgotten` does not count.
    pub(crate) fn whole(
        &self,
        files: &BTreeMap<PathBuf, Vec<u8>>,
        keeps_wal: bool,
        forgotten: &Forgotten,
    ) -> BTreeMap<Vec<u8>, u64> {
        let mut youngest: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let is_as_it_was = |path: &PathBuf| files.get(path) == Some(&self.needed[path]);
        let follows = |record: &Piece| {
            record.is_whole(files) && self.wal_ends.keys().take_while(|path| **path < record.path).all(is_as_it_was)
        };
        let records = self.records.iter().take_while(|record| !keeps_wal || follows(record));
        let is_known = |record: &&Piece| {
            let ends_after = |(path, offset): &(PathBuf, u64)| (&record.path, record.start as u64) < (path, *offset);
            forgotten.wal_end.as_ref().is_none_or(ends_after)
        };
        let records = records.filter(is_known);
        let blocks = self.blocks.iter().filter(|block| !forgotten.tables.contains(&block.path));
        for piece in blocks.chain(records).filter(|piece| piece.is_whole(files)) {
            for (key, sequence) in &piece.entries {
                let sequence_of_key = youngest.entry(key.clone()).or_default();
                *sequence_of_key = (*sequence_of_key).max(*sequence);
            }
        }
        youngest
    }

    /// True if bytes of a segment that mean something are not what they were.
    pub(crate) fn wal_means(&self, path: &Path, now: Option<&Vec<u8>>) -> bool {
        let end = self.wal_ends[path];
        let is_header_whole = now.is_some_and(|now| now.get(..64) == self.needed[path].get(..64));
        let mut records = self.records.iter().filter(|record| record.path == path && !record.entries.is_empty());
        let file = BTreeMap::from([(path.to_owned(), now.cloned().unwrap_or_default())]);
        end > 64 && (!is_header_whole || records.any(|record| !record.is_whole(&file)))
    }

    /// True if the key's youngest version stood where nothing tells that it did: in a file that is
    /// gone and that nobody names any more; or in a WAL, of which nobody knows how far it was
    /// durable.
    pub(crate) fn leaves_no_trace(
        &self,
        files: &BTreeMap<PathBuf, Vec<u8>>,
        key: &[u8],
        keeps_wal: bool,
        rebuilt: bool,
        forgotten: &Forgotten,
    ) -> bool {
        let Some(sequence) = self.sequences.get(key) else { return false };
        let holds = |piece: &&Piece| piece.entries.iter().any(|(other, of)| (&**other, of) == (key, sequence));
        let in_wal = self.records.iter().any(|piece| holds(&piece));
        let in_lost_file = self.blocks.iter().filter(holds).any(|piece| !files.contains_key(&piece.path));
        let in_forgotten = self.blocks.iter().filter(holds).any(|piece| forgotten.tables.contains(&piece.path));
        in_wal && (keeps_wal || rebuilt) || in_lost_file && rebuilt || in_forgotten
    }

    /// True if all that is left of a journal's file is its beginning up to the end of a record; of
    /// a WAL segment, perhaps with zeros behind it, and not below what the manifest says to be
    /// durable. Nothing at all may be left of a segment.
    pub(crate) fn is_cut_between_records(&self, path: &Path, now: Option<&Vec<u8>>) -> bool {
        let is_wal = path.extension().is_some_and(|extension| extension == "wal");
        let profile = if is_wal { &WAL_PROFILE } else { &MANIFEST_PROFILE };
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name of ours");
        let header = FileHeader::decode(&self.needed[path], profile.kind, stem.parse().expect("a number"));
        let header = header.expect("nothing was damaged");
        let now = now.map_or(&[][..], Vec::as_slice);
        let used = now.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let left = if is_wal { &now[..used] } else { now };
        if !self.needed[path].starts_with(left) {
            return false;
        }
        let scan = RecordScan::of(&self.needed[path], header.place(), profile.growth);
        let ends = scan.records.iter().map(|record| {
            let payload_end = record.offset + RECORD_HEAD_BYTES as u64 + u64::from(record.head.payload_bytes);
            (payload_end, record.end())
        });
        let begin = [(0, 0), (FILE_HEADER_BYTES, FILE_HEADER_BYTES)].into_iter().filter(|(end, _)| is_wal || *end > 0);
        let mut ends = begin.chain(ends).filter(|(from, to)| (*from..=*to).contains(&(left.len() as u64)));
        ends.any(|(_, end)| !is_wal || header.base.0 + end >= self.wal_durable)
    }
}
