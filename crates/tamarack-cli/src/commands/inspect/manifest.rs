//! A manifest: its edits, and the version that they lead to.
//!
//! The edits behind a lost one are shown, but no version can be made of them: the last one is then
//! that before the damage.

use tamarack::internals::{MANIFEST_PROFILE as PROFILE, TableFiles, TableStorage, TreeVersion, Version};
use tamarack_format::edit::{Change, Edit};
use tamarack_format::record::FILE_HEADER_BYTES;

use super::changes;
use super::input::Input;
use super::journal::Journal;
use super::report::{Cell, Fault, Report};
use crate::outcome::Failure;
use crate::show::table::grouped;

/// Shows the manifest in `input`, whose number its name says, if it does.
pub(super) fn inspect(input: &Input, named: Option<u64>, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    let bytes = input.read_all()?;
    report.facts(vec![Cell::words("kind", "manifest"), Cell::size("file_bytes", input.bytes)])?;
    let Some(manifest) = Journal::of(input, &bytes, &PROFILE, named, report)? else { return Ok(()) };
    manifest.tell_gaps(report);
    manifest.tell_unknown(report);
    if manifest.scan.records.first().is_none_or(|record| record.head.is_mark()) {
        report.damaged(FILE_HEADER_BYTES, "the base, which describes the tree, is lost");
    }
    let edits = edits(&manifest, report);
    let version = version(input, &manifest, &edits, report);
    report.facts(vec![
        Cell::number("manifest", manifest.header.number),
        Cell::bits("database", manifest.header.database),
        Cell::count("edit_count", edits.len() as u64),
        Cell::count("marks", manifest.scan.all().filter(|record| record.head.is_mark()).count() as u64),
        Cell::number("durable_up_to", manifest.scan.durable.0),
    ])?;
    let rows = edits.iter().flat_map(|edit| rows(edit, report.wanted.entries)).collect();
    report.list("edits", rows)?;
    if let Some(version) = version {
        show_version(&version, report)?;
    }
    Ok(())
}

/// An edit, with the place of its record.
struct Found {
    offset: u64,
    end: u64,
    edit: Edit,
}

/// The edits that can be read, wherever they are.
fn edits(manifest: &Journal<'_>, report: &mut Report<'_, '_>) -> Vec<Found> {
    let mut edits = Vec::new();
    for record in manifest.scan.all().filter(|record| !record.head.is_mark()) {
        let Some(payload) = manifest.payload(record) else { continue };
        match Edit::decode(payload) {
            Ok(edit) => {
                if (record.head.first, record.head.items) != (edit.number.0, 1) {
                    let what =
                        format!("the record of edit {} says that it holds edit {}", edit.number.0, record.head.first);
                    report.damaged(record.offset, what);
                }
                edits.push(Found { offset: record.offset, end: record.end(), edit });
            }
            Err(error) => report.problem(record.offset, Fault::Unreadable, format!("the edit cannot be read: {error}")),
        }
    }
    edits
}

/// The version that the edits lead to, up to the first one that is lost or does not fit; `None` if
/// the base is lost.
fn version(input: &Input, manifest: &Journal<'_>, edits: &[Found], report: &mut Report<'_, '_>) -> Option<Version> {
    // The tables are only named, never opened.
    let files = TableFiles::new(TableStorage::buffered(input.env.clone(), 0), &input.path);
    let (base, later) = edits.split_first().filter(|(base, _)| base.offset == FILE_HEADER_BYTES)?;
    let mut version = match Version::from_base(&base.edit, files) {
        Ok(version) => version,
        Err(broken) => {
            report.damaged(base.offset, format!("the base does not describe a tree: {broken}"));
            return None;
        }
    };
    if version.database() != manifest.header.database {
        report.damaged(base.offset, "header and base name different databases");
    }
    for found in later.iter().take_while(|found| found.offset < manifest.scan.end) {
        match version.apply(&found.edit) {
            Ok(applied) => version = applied.version,
            Err(broken) => {
                report.damaged(found.offset, format!("the edit does not fit the tree before it: {broken}"));
                break;
            }
        }
    }
    if let Err(broken) = version.check() {
        report.damaged(base.offset, format!("the tree contradicts itself: {broken}"));
    }
    Some(version)
}

/// An edit on one line, or with one for each change.
fn rows(found: &Found, is_long: bool) -> Vec<Vec<Cell>> {
    let Found { offset, end, edit } = found;
    let row = |changes: String| {
        vec![
            Cell::number("offset", *offset),
            Cell::number("bytes", end - offset),
            Cell::number("edit", edit.number.0),
            Cell::words("changes", changes),
        ]
    };
    if is_long {
        edit.changes.iter().map(|change: &Change| row(changes::words(change))).collect()
    } else {
        vec![row(changes::on_one_line(&edit.changes))]
    }
}

/// The tree after the last edit that counts.
fn show_version(version: &Version, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    let next = version.next_ids();
    let wal_end = match version.wal_end() {
        Some(position) => Cell::new("wal_end", format!("{} (closed cleanly)", grouped(position)), position),
        None => Cell::new("wal_end", "unknown (open, or not closed cleanly)", serde_json::Value::Null),
    };
    report.text("\nversion")?;
    report.facts(vec![
        Cell::number("version_after_edit", version.edit_number().0),
        Cell::number("next_table", next.table),
        Cell::number("next_run", next.run),
        Cell::number("next_compaction", next.compaction),
        Cell::count("wal_durable", version.wal_durable()),
        wal_end,
        Cell::count("tables", version.tables().count() as u64),
    ])?;
    let trees = version.trees().map(|(id, tree)| {
        let shape = tree.shape().map_or_else(|| "none".to_owned(), changes::shape_words);
        vec![
            Cell::number("tree", u64::from(id.0)),
            Cell::number("flushed_through", tree.flushed_through().0),
            Cell::number("levels", tree.levels().len() as u64),
            Cell::number("compactions", tree.compactions().len() as u64),
            Cell::words("shape", shape),
        ]
    });
    report.list("trees", trees.collect())?;
    let runs = version.trees().flat_map(|(id, tree)| run_rows(u64::from(id.0), tree));
    report.list("runs", runs.collect())
}

/// The runs of a tree, young to old.
fn run_rows(tree: u64, version: &TreeVersion) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for (level, of_level) in (1..).zip(version.levels()) {
        for run in of_level.runs() {
            let compaction = version.compaction_of(run.id()).map(|compaction| compaction.id.0);
            let ends = run.slices().iter().next().zip(run.slices().iter().next_back());
            let (first, last) = ends.map_or((&[][..], &[][..]), |(first, last)| (first.first_key(), last.end_bound()));
            rows.push(vec![
                Cell::number("tree", tree),
                Cell::number("level", level),
                Cell::number("run", run.id().0),
                Cell::number("slices", run.slices().len() as u64),
                Cell::number("raw_bytes", run.raw_bytes()),
                Cell::new(
                    "compaction",
                    compaction.map_or_else(String::new, |compaction| compaction.to_string()),
                    compaction,
                ),
                Cell::bytes("first_key", first),
                Cell::bytes("end", last),
            ]);
        }
    }
    rows
}
