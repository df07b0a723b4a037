//! [`apply`]: carries out a plan, in the order that the page of [`super`] gives.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tamarack_env::Env;
use tamarack_model::Shape;
use tamarack_model::filter::FilterChoice;
use tamarack_model::policy::Auto;

use super::arrange::Unit;
use super::examine::Examination;
use super::names::Names;
use super::plan::{MADE_BY_REPAIR, Part, Plan, TREE, holds};
use crate::compaction;
use crate::entry::{Entry, EntryKind, Sequence, compare};
use crate::error::{Error, Result};
use crate::format::edit::{Change, Edit, KeyRange, RunId, ShapeBlob, SliceSpec};
use crate::format::meta::{TableId, TableMeta};
use crate::format::names::FileName;
use crate::format::record::{FILE_HEADER_BYTES, FileHeader, RECORD_ALIGNMENT};
use crate::format::shape::{self, TreeDesign};
use crate::journal::{Position, Segment};
use crate::merge::Source;
use crate::options::Resolved;
use crate::redesign::begun;
use crate::step;
use crate::table::{FilterSettings, ReadPolicy, Table, TableBuilder, TableCursor, TableSettings, TableStorage};
use crate::tree::broken::Broken;
use crate::tree::design;
use crate::tree::manifest::Manifest;
use crate::tree::table_file::TableFiles;
use crate::tree::version::{TreeVersion, Version};
use crate::wal;

/// A table ends when its file has this many bytes, unless the options set another size.
const TABLE_BYTES: u64 = 64 << 20;

/// Carries out a plan.
pub(super) fn apply(options: &Resolved, dir: &Path, examination: &Examination, plan: &Plan) -> Result<()> {
    let names = Names::of(&*options.env, dir, examination)?;
    let storage = TableStorage::buffered(options.env.clone(), 0);
    let mut maker = Maker { options, dir, examination, plan, names, storage };
    let runs = maker.tables()?;
    let wal_durable = maker.wal()?;
    let (version, manifest) = maker.manifest(&runs, wal_durable)?;
    maker.switch(&version, manifest)
}

/// A new run: its level, and its slices with their tables.
type Made = (u32, Vec<(Arc<TableMeta>, KeyRange)>);

struct Maker<'a> {
    options: &'a Resolved,
    dir: &'a Path,
    examination: &'a Examination,
    plan: &'a Plan,
    names: Names,
    storage: Arc<TableStorage>,
}

impl Maker<'_> {
    fn env(&self) -> &dyn Env {
        &*self.options.env
    }

    /// Writes the tables of all runs. They and their names are durable afterwards.
    fn tables(&mut self) -> Result<Vec<Made>> {
        let mut runs = Vec::new();
        for (level, units) in &self.plan.runs {
            let mut slices = Vec::new();
            for unit in units {
                slices.extend(self.unit(unit)?);
            }
            runs.push((*level, slices));
        }
        self.sync_dir(step::TABLE_SYNC_DIRECTORY)?;
        Ok(runs)
    }

    /// The slices of a unit, in order.
    fn unit(&mut self, unit: &Unit<Part>) -> Result<Vec<(Arc<TableMeta>, KeyRange)>> {
        if let [part] = &unit.parts[..] {
            return self.part(part);
        }
        let mut sources = Vec::new();
        let mut made = Vec::new();
        for part in &unit.parts {
            let slices = self.part(part)?;
            if !matches!(part, Part::Table { .. }) {
                made.extend(slices.iter().map(|(meta, _)| meta.id));
            }
            sources.extend(slices);
        }
        let merged = self.merge(&sources)?;
        for table in made {
            let path = FileName::Table(table.0).path(self.dir);
            let removed = self.env().remove(&path, step::TABLE_REMOVE);
            removed.map_err(|error| Error::io(step::TABLE_REMOVE.0, &path, error))?;
        }
        Ok(merged)
    }

    /// The slices of a part.
    fn part(&mut self, part: &Part) -> Result<Vec<(Arc<TableMeta>, KeyRange)>> {
        match part {
            Part::Table { meta, range } => Ok(vec![(meta.clone(), range.clone())]),
            Part::Damaged { id, meta, range } => {
                let salvage = self.examination.salvage(self.env(), self.dir, id.0, meta.as_deref())?;
                let mut writer = Writer::new(self);
                salvage.visit(&mut |entry| if holds(range, entry.key) { writer.add(entry) } else { Ok(()) })?;
                writer.finish()
            }
            Part::Wal(chunk) => {
                let wal = self.examination.wal.as_ref().expect("a chunk is one of a WAL");
                let entries = chunk.entries(wal, &mut Vec::new())?;
                let mut writer = Writer::new(self);
                for ((key, Reverse(sequence)), (kind, value)) in &entries.sorted {
                    writer.add(Entry { key, sequence: Sequence(*sequence), kind: *kind, value })?;
                }
                writer.finish()
            }
        }
    }

    /// Combines slices of tables. Entries that they share are written once. A flush or compaction
    /// that merges operands into a value gives it the sequence of the youngest operand, so an
    /// operand and a put or delete can share one as well: then the operand, and the older ones, are
    /// in the value, which is written. What a compaction filter has dropped or changed has the
    /// sequence of what it was: either is written.
    fn merge(&mut self, sources: &[(Arc<TableMeta>, KeyRange)]) -> Result<Vec<(Arc<TableMeta>, KeyRange)>> {
        let mut cursors: Vec<(TableCursor, &KeyRange)> = Vec::new();
        for (meta, range) in sources {
            let table = Table::open(&self.storage, self.dir, self.plan.database, meta)?;
            let mut cursor = table.cursor(ReadPolicy::Sequential);
            match &range.from {
                Some(from) => cursor.seek(from, Sequence::MAX)?,
                None => cursor.seek_first()?,
            }
            cursors.push((cursor, range));
        }
        let mut writer = Writer::new(self);
        let mut last: Option<(Vec<u8>, Sequence)> = None;
        loop {
            let present = cursors.iter().enumerate().filter_map(|(at, (cursor, range))| {
                let entry = cursor.entry().filter(|entry| holds(range, entry.key))?;
                Some((at, entry))
            });
            let is_operand = |entry: &Entry<'_>| entry.kind == EntryKind::Merge;
            let next = present.min_by(|(_, a), (_, b)| {
                let by_place = compare((a.key, a.sequence), (b.key, b.sequence));
                by_place.then_with(|| is_operand(a).cmp(&is_operand(b)))
            });
            let Some((at, entry)) = next else { break };
            let is_new = last.as_ref().is_none_or(|(key, sequence)| (&**key, *sequence) != (entry.key, entry.sequence));
            if is_new {
                writer.add(entry)?;
                let mut key = last.take().map(|(key, _)| key).unwrap_or_default();
                key.clear();
                key.extend_from_slice(entry.key);
                last = Some((key, entry.sequence));
            }
            cursors[at].0.next()?;
        }
        writer.finish()
    }

    /// Begins a new WAL, unless it stays. Returns the position up to which it is durable then.
    fn wal(&mut self) -> Result<u64> {
        if self.plan.keeps_wal {
            let version = self.examination.version();
            return Ok(version.map_or(0, |version| version.wal_durable()));
        }
        let end = self.examination.wal.as_ref().map_or(0, |wal| wal.end.0);
        let header = FileHeader {
            kind: wal::PROFILE.kind,
            database: self.plan.database,
            number: self.names.next_wal(),
            base: Position(end.next_multiple_of(RECORD_ALIGNMENT)),
            first: self.plan.flushed_through.next().0,
            // As with tables: opening must not take a leftover of an interrupted repair for a sign
            // of lost edits.
            created_after: MADE_BY_REPAIR,
        };
        Segment::create(&wal::PROFILE, self.env(), self.dir, header, 0)?.begin(None)?;
        self.sync_dir(step::WAL_SYNC_DIRECTORY)?;
        self.names.keep(FileName::Wal(header.number));
        Ok(header.base.0 + FILE_HEADER_BYTES)
    }

    /// Writes the manifest that describes all of this; returns the version and the manifest's
    /// number.
    fn manifest(&mut self, runs: &[Made], wal_durable: u64) -> Result<(Version, u64)> {
        let known = self.examination.version();
        let next_run = known.map_or(1, |version| version.next_ids().run);
        let compactions = known.map_or(1, |version| version.next_ids().compaction);
        let ids = Change::IdsUsed { tables: self.names.next_table, runs: next_run + runs.len() as u64, compactions };
        let mut changes = vec![Change::Database { id: self.plan.database }, ids];
        changes.extend((wal_durable > 0).then_some(Change::WalDurable { position: wal_durable }));
        if let Some(position) = known.and_then(Version::wal_end).filter(|_| self.plan.keeps_wal) {
            changes.push(Change::WalEnd { position });
        }
        changes.push(Change::TreeCreated { tree: TREE });
        changes.extend(self.plan.ages_mixed.then_some(Change::AgesMixed { tree: TREE }));
        let operator = known.and_then(|version| version.tree(TREE)?.merge_operator());
        changes.extend(operator.map(|name| Change::MergeOperatorSet { tree: TREE, name: name.clone() }));
        if !self.plan.range_deletes.is_empty() {
            let ranges = self.plan.range_deletes.iter().map(|delete| (delete.range.clone(), delete.sequence));
            changes.push(Change::RangesDeleted { tree: TREE, ranges: ranges.collect() });
        }
        let mut named = BTreeSet::new();
        for (meta, _) in runs.iter().flat_map(|(_, slices)| slices) {
            if named.insert(meta.id) {
                changes.push(Change::TableAdded { tree: TREE, meta: meta.clone() });
            }
        }
        for (at, (level, slices)) in runs.iter().enumerate() {
            let index = runs[..at].iter().filter(|(other, _)| other == level).count() as u32;
            let run = RunId(next_run + at as u64);
            let slices = slices.iter().map(|(meta, range)| SliceSpec { table: meta.id, range: range.clone() });
            changes.push(Change::RunAdded { tree: TREE, run, level: *level, index });
            changes.push(Change::SlicesAdded { tree: TREE, run, slices: slices.collect() });
        }
        if self.plan.flushed_through > Sequence::ZERO {
            changes.push(Change::FlushedThrough { tree: TREE, sequence: self.plan.flushed_through });
        }
        let files = TableFiles::new(self.storage.clone(), self.dir);
        let made = |changes: &[Change]| {
            let edit = Edit { number: self.plan.edit, changes: changes.to_vec() };
            let version = Version::from_base(&edit, files.clone());
            version.and_then(|version| version.check().map(|()| version)).unwrap_or_else(|Broken(why)| {
                panic!("what is left was put together wrongly: {why}: {:?}", edit.changes)
            })
        };
        let version = made(&changes);
        let tree = version.tree(TREE).expect("it was created just now");
        if !self.plan.ages_mixed && !runs_are_apart(tree) {
            // Not before, so that the tables were compared.
            changes.push(Change::AgesMixed { tree: TREE });
        }
        let (blob, shape) = self.shape(tree)?;
        changes.extend(compaction::reshaped(tree, blob, &shape));
        let version = made(&changes);
        let number = self.names.next_manifest();
        Manifest::write_base(self.env(), self.dir, number, &version)?;
        self.names.keep(FileName::Manifest(number));
        Ok((version, number))
    }

    /// The tree's shape as it was; if that is lost, one of the options' policy.
    fn shape(&self, tree: &TreeVersion) -> Result<(ShapeBlob, Shape)> {
        if let Some(blob) = &self.plan.shape {
            match TreeDesign::decode(blob) {
                Ok(design) => return Ok((blob.clone(), design.shape)),
                Err(error @ shape::ShapeError::Newer(_)) => return Err(Error::shape(self.dir, error)),
                Err(shape::ShapeError::Malformed(_)) => {}
            }
        }
        let policy = Arc::new(begun(self.options.policy.as_deref().unwrap_or(&Auto::new().into()), None));
        let Resolved { memtable_bytes, memtable_bytes_max, filter, space_bound, .. } = *self.options;
        let shape = design::shape_of(&policy, tree.occupancy().bytes(), memtable_bytes, memtable_bytes_max)?;
        let (block_bytes, decisions) = (None, Vec::new());
        let blob = TreeDesign { policy, filter, space_bound, block_bytes, decisions, shape: shape.clone() }.encode();
        Ok((blob, shape))
    }

    /// Sets aside the files that no longer belong to the database, and names the new manifest.
    fn switch(&mut self, version: &Version, manifest: u64) -> Result<()> {
        for table in version.tables() {
            self.names.keep(FileName::Table(table.id().0));
        }
        if self.plan.keeps_wal {
            self.names.keep_wal();
        }
        let mut aside = self.names.to_set_aside(self.dir);
        // While there is no `CURRENT`, the database cannot be opened.
        aside.sort_by_key(|(from, _)| !from.ends_with("CURRENT"));
        for (from, to) in aside {
            let moved = self.env().rename(&from, &to, step::REPAIR_SET_ASIDE);
            moved.map_err(|error| Error::io(step::REPAIR_SET_ASIDE.0, &from, error))?;
            if from.ends_with("CURRENT") {
                self.sync_dir(step::REPAIR_SYNC_DIRECTORY)?;
            }
        }
        self.sync_dir(step::REPAIR_SYNC_DIRECTORY)?;
        Manifest::make_current(self.env(), self.dir, manifest)
    }

    fn sync_dir(&self, step: tamarack_env::Step) -> Result<()> {
        self.env().sync_dir(self.dir, step).map_err(|error| Error::io(step.0, self.dir, error))
    }
}

/// Writes entries into tables.
struct Writer<'a, 'b> {
    maker: &'a mut Maker<'b>,
    open: Option<TableBuilder>,
    last_key: Vec<u8>,
    made: Vec<(Arc<TableMeta>, KeyRange)>,
}

impl<'a, 'b> Writer<'a, 'b> {
    fn new(maker: &'a mut Maker<'b>) -> Self {
        Self { maker, open: None, last_key: Vec::new(), made: Vec::new() }
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let table_bytes = self.maker.options.table_bytes.unwrap_or(TABLE_BYTES);
        let is_full = self.open.as_ref().is_some_and(|table| table.file_bytes() >= table_bytes);
        if is_full && entry.key != self.last_key {
            self.end_table()?;
        }
        if self.open.is_none() {
            let Resolved { block_bytes, compression, filter, .. } = *self.maker.options;
            // As many bits as all runs have on average; compactions allocate them anew.
            let filter = match filter {
                FilterChoice::Each { kind, bits_per_entry, .. } => Some(FilterSettings::stored(kind, bits_per_entry)),
                FilterChoice::None | FilterChoice::Tree { .. } => None,
            };
            let settings = TableSettings {
                database: self.maker.plan.database,
                id: TableId(self.maker.names.next_table),
                created_after: MADE_BY_REPAIR,
                block_bytes,
                compression,
                filter,
                digests: self.maker.options.keeps_digests(),
            };
            self.maker.names.next_table += 1;
            self.open = Some(TableBuilder::create(self.maker.env(), self.maker.dir, settings)?);
        }
        self.open.as_mut().expect("opened above").add(entry)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        Ok(())
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(table) = self.open.take() {
            self.made.push((Arc::new(table.finish()?), KeyRange::ALL));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<(Arc<TableMeta>, KeyRange)>> {
        self.end_table()?;
        Ok(self.made)
    }
}

/// Returns true if all entries of each run are younger than those of the next one. They are not
/// beside the output of a compaction that was in progress, whose inputs have older entries of other
/// keys: then later compactions make tables whose sequences say nothing about their age.
fn runs_are_apart(tree: &TreeVersion) -> bool {
    let sequences: Vec<_> = tree.runs().filter_map(|run| run.sequences()).collect();
    sequences.windows(2).all(|pair| pair[0].0 > pair[1].1)
}
