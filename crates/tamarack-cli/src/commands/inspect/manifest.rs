//! A manifest: its edits, and the version that they lead to.
//!
//! Where something stands that is no whole record, the next one is looked for by its marker. The
//! edits behind a lost one are shown, but no version can be made of them: the last one is then that
//! before the damage.

use tamarack::internals::TableFiles;
use tamarack::internals::TableStorage;
use tamarack::internals::{TreeVersion, Version};
use tamarack_format::claims::{self, Claim};
use tamarack_format::edit::{Change, Edit};
use tamarack_format::manifest::{HEADER_BYTES, Header, HeaderError, Record, decode_record};

use super::changes;
use super::input::Input;
use super::report::{Cell, Fault, Report};
use crate::outcome::Failure;
use crate::show::table::grouped;

/// Shows the manifest in `input`, whose number its name says, if it does.
pub(super) fn inspect(input: &Input, named: Option<u64>, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    let bytes = input.read_all()?;
    report.facts(vec![Cell::words("kind", "manifest"), Cell::size("file_bytes", input.bytes)])?;
    let Some(claim) = claims::of_manifest(&bytes) else {
        report.damaged(0, format!("a manifest begins with a header of {HEADER_BYTES} bytes; there is no room for it"));
        return Ok(());
    };
    let header = header(input, &bytes, claim, named, report)?;
    let records = Records::find(&bytes, header);
    records.tell_gaps(report);
    let edits = records.edits(report);
    let version = version(input, header, &records, &edits, report);
    let durable = records.durable();
    report.facts(vec![
        Cell::number("manifest", header.number),
        Cell::bits("database", header.database),
        Cell::count("edit_count", edits.len() as u64),
        Cell::count("marks", records.found.iter().filter(|(_, record)| record.is_mark()).count() as u64),
        Cell::number("durable_up_to", durable),
    ])?;
    let rows = edits.iter().flat_map(|edit| rows(edit, report.wanted.entries)).collect();
    report.list("edits", rows)?;
    if let Some(version) = version {
        show_version(&version, report)?;
    }
    Ok(())
}

/// The header; if it is damaged, what it says all the same.
fn header(
    input: &Input,
    bytes: &[u8],
    claim: Claim,
    named: Option<u64>,
    report: &mut Report<'_, '_>,
) -> Result<Header, Failure> {
    let number = named.unwrap_or(claim.number);
    match (Header::decode(bytes, number), Header::decode(bytes, claim.number)) {
        (Ok(header), _) => Ok(header),
        (Err(HeaderError::OtherVersion(version)), _) | (_, Err(HeaderError::OtherVersion(version))) => {
            Err(input.other_version(version))
        }
        (_, Ok(header)) => {
            report
                .damaged(0, format!("by its name this is manifest {number}, by its header manifest {}", claim.number));
            Ok(header)
        }
        (Err(HeaderError::Damaged(what)), _) => {
            report.damaged(0, what);
            Ok(Header { number, database: claim.database })
        }
    }
}

/// The whole records of a manifest, and what lies between.
struct Records<'b> {
    found: Vec<(u64, Record<'b>)>,
    /// From where to where nothing is whole.
    gaps: Vec<(u64, u64)>,
}

/// An edit, with the place of its record.
struct Found {
    offset: u64,
    end: u64,
    edit: Edit,
}

impl<'b> Records<'b> {
    fn find(bytes: &'b [u8], header: Header) -> Self {
        let (place, length) = (header.place(), bytes.len() as u64);
        let (mut found, mut gaps) = (Vec::new(), Vec::new());
        let (mut offset, mut end) = (HEADER_BYTES, HEADER_BYTES);
        while offset < length {
            let Some(record) = decode_record(place, bytes, offset) else {
                offset += 1;
                continue;
            };
            if offset > end {
                gaps.push((end, offset));
            }
            found.push((offset, record));
            (offset, end) = (record.end, record.end);
        }
        if end < length || found.is_empty() {
            gaps.push((end, length));
        }
        Self { found, gaps }
    }

    /// Up to where the file was durable, as far as it says.
    fn durable(&self) -> u64 {
        self.found.iter().map(|(_, record)| record.durable).max().unwrap_or(0)
    }

    fn tell_gaps(&self, report: &mut Report<'_, '_>) {
        let durable = self.durable();
        for &(from, to) in &self.gaps {
            let what = format!("{} bytes up to byte {to} are not whole edits", grouped(to.saturating_sub(from)));
            if from == HEADER_BYTES {
                report.damaged(from, format!("{what}; the base, which describes the tree, is lost"));
            } else if from < durable {
                report.damaged(from, format!("{what}, though the file was durable up to byte {durable}"));
            } else {
                report.problem(from, Fault::Torn, format!("{what}; nothing says that they were durable"));
            }
        }
    }

    fn edits(&self, report: &mut Report<'_, '_>) -> Vec<Found> {
        let mut edits = Vec::new();
        for (offset, record) in self.found.iter().filter(|(_, record)| !record.is_mark()) {
            match Edit::decode(record.edit) {
                Ok(edit) => edits.push(Found { offset: *offset, end: record.end, edit }),
                Err(error) => report.problem(*offset, Fault::Unreadable, format!("the edit cannot be read: {error}")),
            }
        }
        edits
    }
}

/// The version that the edits lead to, up to the first one that is lost or does not fit; `None` if
/// the base is lost.
fn version(
    input: &Input,
    header: Header,
    records: &Records<'_>,
    edits: &[Found],
    report: &mut Report<'_, '_>,
) -> Option<Version> {
    // The tables are only named, never opened.
    let files = TableFiles::new(TableStorage::buffered(input.env.clone(), 0), &input.path);
    let (base, later) = edits.split_first().filter(|(base, _)| base.offset == HEADER_BYTES)?;
    let mut version = match Version::from_base(&base.edit, files) {
        Ok(version) => version,
        Err(broken) => {
            report.damaged(base.offset, format!("the base does not describe a tree: {broken}"));
            return None;
        }
    };
    if version.database() != header.database {
        report.damaged(base.offset, "header and base name different databases");
    }
    let lost_from = records.gaps.first().map_or(u64::MAX, |&(from, _)| from);
    for found in later.iter().take_while(|found| found.offset < lost_from) {
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
        Cell::number("next_compaction", next.merge),
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
            Cell::number("merges", tree.compactions().len() as u64),
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
            let merge = version.compaction_of(run.id()).map(|merge| merge.id.0);
            let ends = run.slices().iter().next().zip(run.slices().iter().next_back());
            let (first, last) = ends.map_or((&[][..], &[][..]), |(first, last)| (first.first_key(), last.end_bound()));
            rows.push(vec![
                Cell::number("tree", tree),
                Cell::number("level", level),
                Cell::number("run", run.id().0),
                Cell::number("slices", run.slices().len() as u64),
                Cell::number("raw_bytes", run.raw_bytes()),
                Cell::new("merge", merge.map_or_else(String::new, |merge| merge.to_string()), merge),
                Cell::bytes("first_key", first),
                Cell::bytes("end", last),
            ]);
        }
    }
    rows
}
