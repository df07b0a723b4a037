//! The purpose of each manifest edit, read from storage, so that images can be counted by the step
//! of a flush, compaction or change of shape in which the machine stopped.
//!
//! ```text
//!   table: write ── table: sync ── table: sync directory ── manifest: append ── manifest: sync …
//!   └─────────── for the edit that will name the table ─────────────┴── decoded at the next call
//! ```
//!
//! Before an edit is appended, its contents are unknown here. So the images at these calls wait
//! until the edit can be read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tamarack::step;
use tamarack_env::Step;
use tamarack_env::sim::{Call, Moment};
use tamarack_format::checksum::FileKind;
use tamarack_format::edit::{Change, Edit};
use tamarack_format::meta::TableId;
use tamarack_format::names::FileName;
use tamarack_format::record::{FileHeader, record_at};

/// Images by the purpose of an edit, and by the step towards it.
pub(crate) type ByEdit = BTreeMap<(Purpose, &'static str), u64>;

/// The purpose of an edit. One edit may have several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    FlushIntoNewRun,
    FlushIntoActiveRun,
    RangeDeleteFlushed,
    RangeDeleteEnds,
    CompactionBegins,
    /// A handover that copied.
    CompactionAdvancesByTables,
    /// A handover that moved slices.
    CompactionAdvancesByMoves,
    CompactionEnds,
    RangeIsMerged,
    RunIsIngested,
    Relabelled,
    ShapeSet,
}

/// What must have been seen often: what is done, the steps towards it, and before each of them how
/// many different images, both halves together.
///
/// A range is compacted, and a run ingested, when everything before it has been flushed, so at most
/// of its calls there is little that a crash could tear.
pub(crate) const HANDOVERS: &[(Purpose, &[Step], u64)] = {
    use Purpose::*;
    const EDIT: &[Step] = &[step::MANIFEST_APPEND, step::MANIFEST_SYNC];
    const TABLES: &[Step] = &[
        step::TABLE_CREATE,
        step::TABLE_WRITE,
        step::TABLE_SYNC,
        step::TABLE_SYNC_DIRECTORY,
        step::MANIFEST_APPEND,
        step::MANIFEST_SYNC,
    ];
    &[
        (FlushIntoActiveRun, TABLES, 500),
        (RangeDeleteFlushed, EDIT, 500),
        (RangeDeleteEnds, EDIT, 500),
        (CompactionBegins, EDIT, 500),
        (CompactionAdvancesByTables, TABLES, 500),
        (CompactionAdvancesByMoves, EDIT, 500),
        (CompactionEnds, EDIT, 500),
        (RangeIsMerged, TABLES, 100),
        (RunIsIngested, TABLES, 100),
        (Relabelled, EDIT, 500),
        (ShapeSet, EDIT, 500),
    ]
};

/// Follows the calls of one machine.
#[derive(Default)]
pub(crate) struct Follower {
    /// The append that has just been made, and the images before it.
    appended: Option<(Arc<Path>, u64, u64)>,
    /// Images on the way to tables that no edit has named yet.
    tables: BTreeMap<(u64, Step), u64>,
    /// The table that was synced last, if no edit has named it yet: a sync of the directory is for
    /// its name.
    synced: Option<u64>,
    /// Images before the last sync of the directory that came after tables' edits, and so is for
    /// one that is to come.
    directory: u64,
    /// What the last edit does.
    last: Vec<Purpose>,
}

impl Follower {
    /// Counts the images before a call, `images` of them new.
    pub(crate) fn follow(&mut self, moment: &Moment<'_>, images: u64, sum: &mut ByEdit) {
        if let Some(edit) = self
            .appended
            .take()
            .and_then(|(path, offset, before)| sum_up(moment, &path, offset).map(|edit| (edit, before)))
        {
            self.attribute(&edit.0, edit.1, sum);
        }
        let Call { step: Some(step), path, offset, .. } = moment.call else { return };
        match *step {
            step::MANIFEST_APPEND => self.appended = Some((path.clone(), *offset, images)),
            step::MANIFEST_SYNC => self.add(step::MANIFEST_SYNC, images, sum),
            step::TABLE_SYNC_DIRECTORY => match self.synced {
                Some(table) => *self.tables.entry((table, *step)).or_default() += images,
                None => self.directory = images,
            },
            step::TABLE_CREATE | step::TABLE_WRITE | step::TABLE_SYNC => {
                if let Some(FileName::Table(number)) = name_of(path) {
                    *self.tables.entry((number, *step)).or_default() += images;
                    if *step == step::TABLE_SYNC {
                        self.synced = Some(number);
                    }
                }
            }
            _ => {}
        }
    }

    /// Now it is known what the last images were on the way to.
    fn attribute(&mut self, edit: &Edit, images: u64, sum: &mut ByEdit) {
        self.last = purposes(edit);
        let tables = edit.changes.iter().filter_map(|change| match change {
            Change::TableAdded { meta, .. } => Some(meta.id),
            _ => None,
        });
        for TableId(number) in tables {
            for step in [step::TABLE_CREATE, step::TABLE_WRITE, step::TABLE_SYNC, step::TABLE_SYNC_DIRECTORY] {
                let images = self.tables.remove(&(number, step)).unwrap_or_default();
                self.add(step, images, sum);
            }
            self.synced = self.synced.filter(|synced| *synced != number);
        }
        let directory = std::mem::take(&mut self.directory);
        self.add(step::TABLE_SYNC_DIRECTORY, directory, sum);
        self.add(step::MANIFEST_APPEND, images, sum);
    }

    fn add(&self, step: Step, images: u64, sum: &mut ByEdit) {
        for purpose in &self.last {
            *sum.entry((*purpose, step.0)).or_default() += images;
        }
    }
}

/// Reads the edit that was appended; `None` if that failed, or if the test left it out.
fn sum_up(moment: &Moment<'_>, path: &Path, offset: u64) -> Option<Edit> {
    let Some(FileName::Manifest(number)) = name_of(path) else { return None };
    let content = moment.process_image().content(path).ok()?;
    let place = FileHeader::decode(&content, FileKind::Manifest, number).ok()?.place();
    Edit::decode(record_at(&content, offset, place)?.1).ok()
}

fn purposes(edit: &Edit) -> Vec<Purpose> {
    let has = |is: fn(&Change) -> bool| edit.changes.iter().any(is);
    let adds_tables = has(|change| matches!(change, Change::TableAdded { .. }));
    let ingests = has(|change| matches!(change, Change::TableAdded { meta, .. } if meta.ingest.is_some()));
    let removes_runs = has(|change| matches!(change, Change::RunRemoved { .. }));
    let flushes = has(|change| matches!(change, Change::FlushedThrough { .. }));
    let advances = has(|change| matches!(change, Change::CompactionAdvanced { .. }));
    let moves = has(|change| matches!(change, Change::CompactionAdvanced { outputs, .. } if !outputs.is_empty()));
    [
        (ingests, Purpose::RunIsIngested),
        (flushes && !removes_runs && !ingests, Purpose::FlushIntoNewRun),
        (flushes && removes_runs, Purpose::FlushIntoActiveRun),
        (has(|change| matches!(change, Change::RangesDeleted { .. })), Purpose::RangeDeleteFlushed),
        (has(|change| matches!(change, Change::RangeDeletesEnded { .. })), Purpose::RangeDeleteEnds),
        (has(|change| matches!(change, Change::CompactionBegun { .. })), Purpose::CompactionBegins),
        (advances && adds_tables, Purpose::CompactionAdvancesByTables),
        (moves && !adds_tables, Purpose::CompactionAdvancesByMoves),
        (has(|change| matches!(change, Change::CompactionEnded { .. })), Purpose::CompactionEnds),
        (adds_tables && !flushes && has(|change| matches!(change, Change::RunCut { .. })), Purpose::RangeIsMerged),
        (has(|change| matches!(change, Change::Relabelled { .. })), Purpose::Relabelled),
        (has(|change| matches!(change, Change::ShapeSet { .. })), Purpose::ShapeSet),
    ]
    .into_iter()
    .filter_map(|(does, purpose)| does.then_some(purpose))
    .collect()
}

fn name_of(path: &Path) -> Option<FileName> {
    FileName::parse(path.file_name()?.to_str()?)
}
