//! A WAL segment: its header, its records, where it ends and why.

use tamarack::internals::{JournalRecord as Record, WAL_PROFILE as PROFILE};
use tamarack_format::entry::Sequence;
use tamarack_format::group::{Entries, Malformed};
use tamarack_format::record::FILE_HEADER_BYTES;

use super::input::Input;
use super::journal::Journal;
use super::report::{Cell, Fault, Report};
use crate::outcome::Failure;
use crate::show::table::grouped;

/// Shows the WAL segment in `input`, with the number in its name, if it has one.
pub(super) fn inspect(input: &Input, named: Option<u64>, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    let bytes = input.read_all()?;
    report.facts(vec![Cell::words("kind", "wal"), Cell::size("file_bytes", input.bytes)])?;
    if bytes.iter().all(|&byte| byte == 0) {
        return report.facts(vec![Cell::words("state", "nothing was written yet: the segment was being made")]);
    }
    let Some(segment) = Journal::of(input, &bytes, &PROFILE, named, report)? else { return Ok(()) };
    let header = segment.header;
    report.facts(vec![Cell::number("segment", header.number), Cell::bits("database", header.database)])?;
    if segment.has_header {
        report.facts(vec![
            Cell::count("base_position", header.base.0),
            Cell::number("first_sequence", header.first),
            Cell::number("created_after_edit", header.created_after.0),
        ])?;
    }
    segment.tell_gaps(report);
    segment.tell_unknown(report);
    let entries = check_records(&segment, report);
    let mut facts = vec![
        Cell::count("record_count", segment.scan.all().count() as u64),
        Cell::count("entries", entries),
        Cell::count("durable_position", segment.scan.durable.0),
    ];
    facts.extend(ending(&segment, &bytes, report));
    report.facts(facts)?;
    report.list("records", segment.scan.all().map(row).collect())?;
    if report.wanted.entries {
        show_entries(&segment, report)?;
    }
    Ok(())
}

/// The entries of a record.
fn entries<'b>(segment: &Journal<'b>, record: &Record) -> Entries<'b> {
    Entries::new(segment.payload(record).unwrap_or_default(), Sequence(record.head.first))
}

/// Checks what the whole records hold; gives how many entries.
fn check_records(segment: &Journal<'_>, report: &mut Report<'_, '_>) -> u64 {
    let (mut all, mut end) = (0, FILE_HEADER_BYTES);
    let mut expected = Some(segment.header.first).filter(|_| segment.has_header);
    for record in segment.scan.all() {
        let (offset, head) = (record.offset, record.head);
        // Behind a gap, nobody knows how many are missing.
        expected = expected.filter(|_| offset == end);
        if let Some(expected) = expected.filter(|&expected| expected != head.first) {
            let what = format!("the record begins with sequence {}, where {expected} would follow", head.first);
            report.damaged(offset, what);
        }
        (expected, end) = (Some(head.next()), record.end());
        if !head.is_known() {
            continue;
        }
        let (mut count, mut is_malformed) = (0, false);
        for entry in entries(segment, record) {
            is_malformed |= entry.is_err();
            match entry {
                Ok(_) => count += 1,
                Err(Malformed::Cut) => {
                    report.damaged(offset, "the record's checksum is right, but it does not hold entries")
                }
                Err(Malformed::UnknownKind(kind)) => {
                    report.problem(
                        offset,
                        Fault::Unreadable,
                        format!("the record has an entry of kind {kind}, which a newer version wrote"),
                    );
                }
            }
        }
        if !is_malformed && count != u64::from(head.items) {
            report.damaged(offset, format!("the record holds {count} entries, but says {}", head.items));
        }
        all += count;
    }
    all
}

/// Where the segment ends, and why.
fn ending(segment: &Journal<'_>, bytes: &[u8], report: &Report<'_, '_>) -> Vec<Cell> {
    let end = segment.scan.end;
    let reserved = (bytes.len() as u64).saturating_sub(end);
    let why = match (segment.scan.is_dirty(), reserved) {
        (false, 0) => "clean: with the file".to_owned(),
        (false, _) => format!("clean: {} bytes of zeros are reserved", grouped(reserved)),
        (true, _) => {
            let behind = segment.scan.strays.len() as u64;
            let word = if report.is_damaged_at(end) { "damaged" } else { "torn" };
            format!("{word}: {} bytes follow, with {} whole records", grouped(reserved), grouped(behind))
        }
    };
    vec![Cell::number("ends_at", end), Cell::words("end", why)]
}

fn row(record: &Record) -> Vec<Cell> {
    let Record { offset, head } = record;
    vec![
        Cell::number("offset", *offset),
        Cell::number("bytes", head.stride()),
        Cell::number("body_bytes", u64::from(head.payload_bytes)),
        Cell::number("entries", u64::from(head.items)),
        Cell::number("first_sequence", head.first),
        Cell::number("last_sequence", head.next() - 1),
        Cell::number("durable_position", head.durable.0),
    ]
}

/// Shows the entries that are wanted.
fn show_entries(segment: &Journal<'_>, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.begin_entries()?;
    let wanted = report.wanted;
    let all = segment.scan.all().flat_map(|record| {
        // Those that are malformed have been told.
        entries(segment, record).flatten().map(move |(_, entry)| (record.offset, entry))
    });
    for (offset, entry) in all.filter(|(_, entry)| wanted.key(entry.key)).take(wanted.rows_max) {
        report.entry("record", offset, &entry)?;
    }
    Ok(())
}
