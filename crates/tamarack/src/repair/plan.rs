//! [`plan`]: the content of a repaired database, before anything is written.
//!
//! The content of a run is [`Unit`]s of [`Part`]s: slices of whole tables, readable parts of
//! damaged ones, records of the WAL. A unit of one slice of a whole table stays as it is; all
//! others become new tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tamarack_env::Env;

use super::arrange::{Unit, arrange};
use super::examine::{Examination, Found};
use super::names::Names;
use super::report::{Lost, RepairReport, Replaced};
use super::salvage::LostKeys;
use super::wal::{self, RecordChunk};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::edit::{KeyRange, ShapeBlob, SliceSpec};
use crate::format::meta::{EditNumber, TableId, TableMeta, TreeId};
use crate::format::names::FileName;
use crate::format::table::Properties;
use crate::range_tombstones::RangeTombstone;
use crate::table::{Table, TableStorage};
use crate::tree::version::TreeVersion;

/// The tree.
pub(super) const TREE: TreeId = TreeId::DEFAULT;

/// The edit after which tables of repairs were made: none.
pub(super) const MADE_BY_REPAIR: EditNumber = EditNumber(0);

/// A source of entries.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// A whole table.
    Table { meta: Arc<TableMeta>, range: KeyRange },
    /// A damaged table; with the manifest's metadata, if it has any.
    Damaged { id: TableId, meta: Option<Arc<TableMeta>>, range: KeyRange },
    /// Records of the WAL.
    Wal(RecordChunk),
}

/// A run with its level.
type Planned = (u32, Vec<Unit<Part>>);

/// The plan of a repair.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) database: u64,
    /// Young to old, each with its level.
    pub(super) runs: Vec<Planned>,
    pub(super) shape: Option<ShapeBlob>,
    /// True if ages were mixed before the repair; `apply` adds the runs that it makes.
    pub(super) ages_mixed: bool,
    pub(super) flushed_through: Sequence,
    /// The range deletes that tables may need, in the order of sequences.
    pub(super) range_deletes: Vec<RangeTombstone>,
    /// The number of the edit that describes it.
    pub(super) edit: EditNumber,
    /// True if the WAL stays as it is.
    pub(super) keeps_wal: bool,
    pub(super) report: RepairReport,
}

/// Makes the plan.
pub(super) fn plan(env: &Arc<dyn Env>, dir: &Path, examination: &Examination) -> Result<Plan> {
    let Some(database) = examination.database else {
        let what = "no file says which database it belongs to, and without that no checksum can be checked; restore the database from a copy";
        return Err(Error::corruption(dir, 0, what));
    };
    let storage = TableStorage::buffered(env.clone(), 0);
    let (range_deletes, report) = (Vec::new(), RepairReport::default());
    let mut planner = Planner { env, dir, examination, database, storage, range_deletes, report };
    planner.report.problems.clone_from(&examination.report.problems);
    planner.plan()
}

struct Planner<'a> {
    env: &'a Arc<dyn Env>,
    dir: &'a Path,
    examination: &'a Examination,
    database: u64,
    storage: Arc<TableStorage>,
    /// Range deletes in the WAL.
    range_deletes: Vec<RangeTombstone>,
    report: RepairReport,
}

impl Planner<'_> {
    fn plan(mut self) -> Result<Plan> {
        let tree = self.examination.version().and_then(|version| version.tree(TREE)).cloned();
        let known = tree.clone().filter(|_| !self.examination.lost_edits);
        let kept = match &known {
            Some(tree) => self.keep(tree)?,
            None => None,
        };
        let rebuilt = kept.is_none();
        let (mut runs, all) = match kept {
            Some(runs) => (runs, Vec::new()),
            None => (Vec::new(), self.rebuild(tree.as_deref())?),
        };
        self.report.rebuilt = rebuilt;
        self.report.may_return = rebuilt;
        let is_sound = self.examination.wal.as_ref().is_some_and(|wal| wal.is_sound);
        let keeps_wal = !rebuilt && is_sound;
        let mut flushed_through = self.examination.flushed_through();
        if !keeps_wal {
            let in_tables = all.iter().map(|unit: &Unit<Part>| unit.largest).max().unwrap_or_default();
            let (youngest, last) = self.wal(rebuilt, in_tables)?;
            flushed_through = flushed_through.max(last);
            if rebuilt {
                let all: Vec<_> = all.into_iter().chain(youngest).collect();
                let unordered = self.unordered(&all);
                self.report.lost.extend(unordered);
                runs = levels(arrange(all));
            } else {
                runs.splice(0..0, youngest.into_iter().rev().map(|unit| (1, vec![unit])));
            }
        }
        let largest = runs.iter().flat_map(|(_, units)| units).map(|unit| unit.largest).max();
        flushed_through = flushed_through.max(largest.unwrap_or_default()).max(range_deletes_applied(&runs));
        self.count_kept(&runs);
        // They hide what is older, wherever that is, and whether the edit that ended them is lost.
        let mut range_deletes = tree.as_ref().map_or(Vec::new(), |tree| tree.range_deletes().list().to_vec());
        range_deletes.extend(std::mem::take(&mut self.range_deletes));
        range_deletes.sort_by_key(|delete| delete.sequence);
        range_deletes.dedup_by_key(|delete| delete.sequence);
        range_deletes.retain(|delete| delete.sequence <= flushed_through);
        let mut plan = Plan {
            database: self.database,
            runs,
            shape: tree.as_ref().and_then(|tree| tree.shape().cloned()),
            ages_mixed: !rebuilt && tree.as_ref().is_some_and(|tree| tree.are_ages_mixed()),
            flushed_through,
            range_deletes,
            edit: EditNumber(self.last_edit().0 + 1),
            keeps_wal,
            report: self.report,
        };
        let mut names = Names::of(&**self.env, self.dir, self.examination)?;
        for unit in plan.runs.iter().flat_map(|(_, units)| units) {
            if let [Part::Table { meta, .. }] = &unit.parts[..] {
                names.keep(FileName::Table(meta.id.0));
            }
        }
        if plan.keeps_wal {
            names.keep_wal();
        }
        for (path, aside) in names.to_set_aside(self.dir) {
            match plan.report.replaced.iter_mut().find(|replaced| replaced.path == path) {
                Some(replaced) => replaced.aside = Some(aside),
                None => plan.report.replaced.push(Replaced { path, aside: Some(aside), entries: 0 }),
            }
        }
        plan.report.replaced.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(plan)
    }

    /// The version's runs without lost entries; `None` if a table that the version does not name
    /// may have some of these.
    fn keep(&mut self, tree: &TreeVersion) -> Result<Option<Vec<Planned>>> {
        let before = self.report.clone();
        let (mut runs, mut lost) = (Vec::new(), Vec::new());
        let mut slices: BTreeMap<u64, Vec<SliceSpec>> = BTreeMap::new();
        for slice in tree.runs().flat_map(|run| run.slices().iter()) {
            slices.entry(slice.table().id().0).or_default().push(slice.spec());
        }
        let mut salvaged: BTreeMap<u64, Vec<Option<Unit<Part>>>> = BTreeMap::new();
        for (number, specs) in &slices {
            let units = self.units(*number, specs, &mut lost)?;
            salvaged.insert(*number, units);
        }
        for (level, runs_of_level) in tree.levels().iter().enumerate() {
            for run in runs_of_level.runs() {
                let units = run.slices().iter().filter_map(|slice| {
                    let (number, spec) = (slice.table().id().0, slice.spec());
                    let at = slices[&number].iter().position(|other| *other == spec)?;
                    salvaged.get_mut(&number)?[at].take()
                });
                let units: Vec<_> = units.collect();
                if !units.is_empty() {
                    runs.push((level as u32 + 1, units));
                }
            }
        }
        if self.unnamed_may_have(tree, &lost) {
            self.report = before;
            return Ok(None);
        }
        self.report.lost.extend(lost);
        Ok(Some(runs))
    }

    /// True if an unnamed table may have some of the lost entries: it may be the output of a
    /// compaction, or of a flush, that the manifest knew.
    fn unnamed_may_have(&self, tree: &TreeVersion, lost: &[Lost]) -> bool {
        let named: BTreeSet<u64> = tree.tables().map(|table| table.id().0).collect();
        let is_sound = self.examination.wal.as_ref().is_some_and(|wal| wal.is_sound);
        let flushed = self.examination.flushed_through();
        self.examination.tables.iter().filter(|(number, _)| !named.contains(number)).any(|(_, found)| {
            let meta = match found {
                Found::Unnamed(meta) | Found::Whole(meta) | Found::Damaged(Some(meta)) => meta,
                Found::Damaged(None) => return true,
                Found::Unfinished | Found::Missing(_) => return false,
            };
            let may_have = |lost: &Lost| {
                lost.from.as_ref().is_none_or(|from| *from <= meta.largest_key)
                    && lost.to.as_ref().is_none_or(|to| meta.smallest_key <= *to)
            };
            meta.created_after != MADE_BY_REPAIR
                && (!is_sound && meta.largest_sequence > flushed || lost.iter().any(may_have))
        })
    }

    /// All existing tables, as units in no order yet.
    fn rebuild(&mut self, tree: Option<&TreeVersion>) -> Result<Vec<Unit<Part>>> {
        let mut slices: BTreeMap<u64, Vec<SliceSpec>> = BTreeMap::new();
        for slice in tree.into_iter().flat_map(TreeVersion::runs).flat_map(|run| run.slices().iter()) {
            slices.entry(slice.table().id().0).or_default().push(slice.spec());
        }
        let (mut all, mut lost) = (Vec::new(), Vec::new());
        for (number, found) in &self.examination.tables {
            let whole = || vec![SliceSpec { table: TableId(*number), range: KeyRange::ALL }];
            let named = slices.get(number).cloned();
            let is_left_by_repair = match found {
                Found::Whole(meta) | Found::Unnamed(meta) => meta.created_after == MADE_BY_REPAIR,
                Found::Damaged(_) | Found::Missing(_) | Found::Unfinished => false,
            };
            if tree.is_some() && named.is_none() && is_left_by_repair {
                continue;
            }
            let units = self.units(*number, &named.unwrap_or_else(whole), &mut lost)?;
            all.extend(units.into_iter().flatten());
        }
        self.report.lost.extend(lost);
        Ok(all)
    }

    /// The ingested tables that nothing dates, with the keys that other sources have too, and with
    /// the sequence numbers of which nobody knows whether they are older.
    fn unordered(&self, units: &[Unit<Part>]) -> Vec<Lost> {
        let guessed = |unit: &Unit<Part>| match &unit.parts[..] {
            [Part::Table { meta, .. }] => Some(meta.id).zip(self.examination.guessed.get(&meta.id.0)),
            [Part::Damaged { id, .. }] => Some(*id).zip(self.examination.guessed.get(&id.0)),
            _ => None,
        };
        let lost = units.iter().filter_map(|unit| {
            let (table, placed) = guessed(unit)?;
            let is_unordered = |other: &&Unit<Part>| other.largest > placed.after && other.shares_keys(unit);
            let others = || units.iter().filter(|other| !std::ptr::eq(*other, unit)).filter(is_unordered);
            let last = others().map(|other| other.largest).max()?.max(unit.largest);
            Some(Lost {
                path: FileName::Table(table.0).path(self.dir),
                from: others().map(|other| &other.first).min().max(Some(&unit.first)).cloned(),
                to: others().map(|other| &other.end).max().min(Some(&unit.end)).cloned(),
                sequences: Some((placed.after.next().0, last.0)),
                entries: None,
            })
        });
        lost.collect()
    }

    /// The readable parts of these slices of a table, one unit for each, and their losses.
    fn units(&mut self, number: u64, specs: &[SliceSpec], lost: &mut Vec<Lost>) -> Result<Vec<Option<Unit<Part>>>> {
        let path = FileName::Table(number).path(self.dir);
        let found = self.examination.tables.get(&number).unwrap_or(&Found::Unfinished);
        let (meta, is_there) = match found {
            Found::Whole(meta) => return Ok(specs.iter().map(|spec| Some(whole_unit(meta, &spec.range))).collect()),
            Found::Unnamed(meta) if self.is_whole(meta) => {
                return Ok(specs.iter().map(|spec| Some(whole_unit(meta, &spec.range))).collect());
            }
            Found::Unnamed(meta) => (Some(meta), true),
            Found::Damaged(meta) => (meta.as_ref(), true),
            Found::Missing(meta) => (Some(meta), false),
            Found::Unfinished => return Ok(specs.iter().map(|_| None).collect()),
        };
        if !is_there {
            let meta = meta.expect("what is missing is known by the manifest");
            let all = LostKeys { from: Some(meta.smallest_key.clone()), to: Some(meta.largest_key.clone()) };
            lost.extend(specs.iter().filter_map(|spec| loss(&path, &all, &spec.range, Some(meta), 0, specs.len())));
            self.report.replaced.push(Replaced { path, aside: None, entries: 0 });
            return Ok(specs.iter().map(|_| None).collect());
        }
        let salvage = self.examination.salvage(&**self.env, self.dir, number, meta)?;
        let mut counted: Vec<Properties> = vec![Properties::default(); specs.len()];
        salvage.visit(&mut |entry| {
            for (_, counted) in specs.iter().zip(&mut counted).filter(|(spec, _)| holds(&spec.range, entry.key)) {
                counted.count(&entry);
                if counted.largest_key != entry.key {
                    counted.largest_key = entry.key.to_vec();
                }
            }
            Ok(())
        })?;
        let kept = salvage.counted().entries;
        for spec in specs {
            let of_slice = salvage.lost().iter();
            lost.extend(of_slice.filter_map(|keys| loss(&path, keys, &spec.range, meta, kept, salvage.lost().len())));
        }
        self.report.replaced.push(Replaced { path, aside: None, entries: counted.iter().map(|c| c.entries).sum() });
        let meta = meta.cloned().map(Arc::new);
        let units = specs.iter().zip(counted).map(|(spec, counted)| {
            (counted.entries > 0).then(|| Unit {
                parts: vec![Part::Damaged { id: TableId(number), meta: meta.clone(), range: spec.range.clone() }],
                first: counted.smallest_key,
                end: counted.largest_key,
                end_included: true,
                smallest: counted.smallest_sequence,
                largest: counted.largest_sequence,
            })
        });
        Ok(units.collect())
    }

    fn is_whole(&self, meta: &TableMeta) -> bool {
        let opened = Table::open(&self.storage, self.dir, self.database, meta);
        opened.and_then(|table| table.verify(&mut |_| {})).is_ok()
    }

    /// The readable part of the WAL, old to young, and the last sequence number in it. If the
    /// tables' content is not known, sequence numbers up to `in_tables` are not missed.
    fn wal(&mut self, rebuilt: bool, in_tables: Sequence) -> Result<(Vec<Unit<Part>>, Sequence)> {
        let Some(wal) = &self.examination.wal else { return Ok((Vec::new(), Sequence::ZERO)) };
        let after = self.examination.flushed_through();
        let left = wal::left(wal, after, rebuilt);
        let mut saved: BTreeMap<&Path, u64> = wal.segments.iter().map(|segment| (&*segment.path, 0)).collect();
        let mut units = Vec::new();
        for chunk in left.chunks {
            let mut problems = Vec::new();
            let wal::ChunkEntries { sorted: entries, range_deletes } = chunk.entries(wal, &mut problems)?;
            self.report.problems.extend(problems);
            self.range_deletes.extend(range_deletes);
            for (path, count) in chunk.counts(wal) {
                *saved.entry(path).or_default() += count;
            }
            let sequences = || entries.keys().map(|(_, sequence)| sequence.0);
            let (Some(smallest), Some(largest)) = (sequences().min(), sequences().max()) else { continue };
            let keys = || entries.keys().map(|(key, _)| key.clone());
            let (first, end) = (keys().next().unwrap_or_default(), keys().next_back().unwrap_or_default());
            let (smallest, largest) = (Sequence(smallest), Sequence(largest));
            units.push(Unit { parts: vec![Part::Wal(chunk)], first, end, end_included: true, smallest, largest });
        }
        let damaged = self.damaged_wal();
        for (first, last) in left.missing.iter().filter(|(_, last)| *last > in_tables.0) {
            let path = damaged.first().cloned().unwrap_or_else(|| FileName::Wal(1).path(self.dir));
            let sequences = Some((*first, *last));
            self.report.lost.push(Lost { path, from: None, to: None, sequences, entries: Some(last - first + 1) });
        }
        // The records behind the last whole one cannot be counted.
        if !wal.is_sound {
            let tail =
                damaged.into_iter().map(|path| Lost { path, from: None, to: None, sequences: None, entries: None });
            self.report.lost.extend(tail);
        }
        let replaced =
            saved.into_iter().map(|(path, entries)| Replaced { path: path.to_owned(), aside: None, entries });
        self.report.replaced.extend(replaced);
        Ok((units, left.last))
    }

    /// The WAL's files that are damaged.
    fn damaged_wal(&self) -> Vec<std::path::PathBuf> {
        let paths = self.examination.report.problems.iter().filter_map(|error| match error {
            Error::Corruption { path, .. } => Some(path.clone()),
            _ => None,
        });
        let is_wal = |path: &std::path::PathBuf| path.extension().is_some_and(|ending| ending == "wal");
        paths.filter(is_wal).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The last edit that any file knows of.
    fn last_edit(&self) -> EditNumber {
        let tables = self.examination.tables.values().filter_map(|found| match found {
            Found::Whole(meta) | Found::Unnamed(meta) | Found::Missing(meta) | Found::Damaged(Some(meta)) => {
                Some(meta.created_after)
            }
            Found::Damaged(None) | Found::Unfinished => None,
        });
        let wal = self.examination.wal.iter().flat_map(|wal| &wal.segments);
        let wal = wal.filter_map(|segment| Some(segment.header?.created_after));
        tables.chain(wal).max().unwrap_or_default().max(self.examination.last_edit())
    }

    /// Counts the tables that stay, and those that become part of others.
    fn count_kept(&mut self, runs: &[Planned]) {
        let (mut kept, mut merged) = (BTreeMap::new(), BTreeMap::new());
        for unit in runs.iter().flat_map(|(_, units)| units) {
            let place = if unit.parts.len() == 1 { &mut kept } else { &mut merged };
            place.extend(unit.parts.iter().filter_map(|part| match part {
                Part::Table { meta, .. } => Some((meta.id, meta.entries)),
                Part::Damaged { .. } | Part::Wal(_) => None,
            }));
        }
        merged.retain(|table, _| !kept.contains_key(table));
        self.report.tables_kept = kept.len() as u64;
        self.report.entries_kept = kept.values().sum();
        self.report.replaced.extend(merged.into_iter().map(|(table, entries)| Replaced {
            path: FileName::Table(table.0).path(self.dir),
            aside: None,
            entries,
        }));
    }
}

/// The greatest sequence up to which some table says that range deletes hide none of its entries.
/// Later ones must have a greater sequence.
fn range_deletes_applied(runs: &[Planned]) -> Sequence {
    let parts = runs.iter().flat_map(|(_, units)| units).flat_map(|unit| &unit.parts);
    let applied = parts.map(|part| match part {
        Part::Table { meta, .. } => meta.range_deletes_applied,
        // They are written anew, and say nothing.
        Part::Damaged { .. } | Part::Wal(_) => Sequence::ZERO,
    });
    applied.max().unwrap_or_default()
}

/// A slice of a whole table.
fn whole_unit(meta: &TableMeta, range: &KeyRange) -> Unit<Part> {
    let first = range.from.as_deref().filter(|from| **from > *meta.smallest_key).unwrap_or(&meta.smallest_key).to_vec();
    let cut = range.to.as_deref().filter(|to| **to <= *meta.largest_key);
    Unit {
        first,
        end: cut.unwrap_or(&meta.largest_key).to_vec(),
        end_included: cut.is_none(),
        smallest: meta.smallest_sequence,
        largest: meta.largest_sequence,
        parts: vec![Part::Table { meta: Arc::new(meta.clone()), range: range.clone() }],
    }
}

/// True if a key is in the range.
pub(super) fn holds(range: &KeyRange, key: &[u8]) -> bool {
    range.from.as_deref().is_none_or(|from| from <= key) && range.to.as_deref().is_none_or(|to| key < to)
}

/// The part of `keys` within the slice, if any. `kept` entries of the table are readable, and it is
/// damaged in so many places.
fn loss(
    path: &Path,
    keys: &LostKeys,
    slice: &KeyRange,
    meta: Option<&TableMeta>,
    kept: u64,
    places: usize,
) -> Option<Lost> {
    let (slice_from, slice_to) = (slice.from.as_deref().map(<[u8]>::to_vec), slice.to.as_deref().map(<[u8]>::to_vec));
    let is_outside = keys.to.as_ref().zip(slice_from.as_ref()).is_some_and(|(to, from)| to < from)
        || keys.from.as_ref().zip(slice_to.as_ref()).is_some_and(|(from, to)| to <= from);
    if is_outside {
        return None;
    }
    Some(Lost {
        path: path.to_owned(),
        from: keys.from.clone().max(slice_from),
        to: keys.to.iter().chain(&slice_to).min().cloned(),
        sequences: meta.map(|meta| (meta.smallest_sequence.0, meta.largest_sequence.0)),
        // Which of the lost entries belong to which place is not known.
        entries: meta.filter(|_| places == 1 && *slice == KeyRange::ALL).map(|meta| meta.entries.saturating_sub(kept)),
    })
}

/// Runs, old to young, as runs young to old with a level each: the model's relabelling, which comes
/// next, moves the runs of one level together.
fn levels(runs: Vec<Vec<Unit<Part>>>) -> Vec<Planned> {
    let count = runs.len() as u32;
    let youngest_first = runs.into_iter().rev().zip(1_u32..);
    youngest_first
        .map(|(units, place)| ((place + LEVELS_MAX).saturating_sub(count.max(LEVELS_MAX)).max(1), units))
        .collect()
}

/// Upper bound on the levels of a tree.
const LEVELS_MAX: u32 = 64;
