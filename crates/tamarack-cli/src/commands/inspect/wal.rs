//! A log segment: its header, its records, where it ends and why.
//!
//! Records follow each other from the header on. Where something else stands, the next record is
//! looked for by its marker, as recovery does; what lies between is told. Whether that is damage or
//! a torn end is a matter of marks: each record says up to where the log was durable when it was
//! written. Other segments and the manifest may know of more; they are not looked at.

use tamarack_format::claims::{self, Claim};
use tamarack_format::entry::Sequence;
use tamarack_format::record::{
    Entries, HeaderFlaw, Malformed, Position, RECORD_ALIGNMENT, RecordHead, SEGMENT_HEADER_BYTES, SegmentHeader,
    record_at, segment_place,
};

use super::input::Input;
use super::report::{Cell, Fault, Report};
use crate::outcome::Failure;
use crate::show::table::grouped;

/// Shows the log segment in `input`, whose number its name says, if it does.
pub(super) fn inspect(input: &Input, named: Option<u64>, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    let bytes = input.read_all()?;
    report.facts(vec![Cell::words("kind", "log"), Cell::size("file_bytes", input.bytes)])?;
    if bytes.iter().all(|&byte| byte == 0) {
        return report.facts(vec![Cell::words("state", "nothing was written yet: the segment was being made")]);
    }
    let Some(claim) = claims::of_wal(&bytes) else {
        report.damaged(
            0,
            format!("a log segment begins with a header of {SEGMENT_HEADER_BYTES} bytes; there is no room for it"),
        );
        return Ok(());
    };
    let header = header(input, &bytes, claim, named, report)?;
    let number = header.map_or(named.unwrap_or(claim.number), |header| header.number);
    let wal = Records::find(&bytes, claim.database, number);
    report.facts(vec![Cell::number("segment", number), Cell::bits("database", claim.database)])?;
    if let Some(header) = header {
        report.facts(vec![
            Cell::count("base_position", header.base.0),
            Cell::number("first_sequence", header.first_sequence.0),
            Cell::number("created_after_edit", header.created_after.0),
        ])?;
    }
    tell_gaps(&wal, header, report);
    let entries = check_records(&wal, header, &bytes, report);
    let mut facts = vec![
        Cell::count("record_count", wal.records.len() as u64),
        Cell::count("entries", entries),
        Cell::count("durable_position", wal.durable().0),
    ];
    facts.extend(ending(&wal, &bytes, report));
    report.facts(facts)?;
    report.list("records", wal.records.iter().map(row).collect())?;
    if report.wanted.entries {
        show_entries(&wal, &bytes, report)?;
    }
    Ok(())
}

fn header(
    input: &Input,
    bytes: &[u8],
    claim: Claim,
    named: Option<u64>,
    report: &mut Report<'_, '_>,
) -> Result<Option<SegmentHeader>, Failure> {
    let decode = |number| SegmentHeader::decode(bytes, claim.database, number);
    let number = named.unwrap_or(claim.number);
    match (decode(number), decode(claim.number)) {
        (Ok(header), _) => Ok(Some(header)),
        (Err(HeaderFlaw::OtherVersion(version)), _) | (_, Err(HeaderFlaw::OtherVersion(version))) => {
            Err(input.other_version(version))
        }
        (_, Ok(header)) => {
            report.damaged(0, format!("by its name this is segment {number}, by its header segment {}", claim.number));
            Ok(Some(header))
        }
        (Err(HeaderFlaw::Damaged), _) => {
            report.damaged(0, "the header is damaged, or it is of another segment");
            Ok(None)
        }
    }
}

/// The whole records of a segment, and what lies between.
struct Records {
    records: Vec<(u64, RecordHead)>,
    /// From where to where nothing is whole.
    gaps: Vec<(u64, u64)>,
    /// Where the last record ends.
    end: u64,
    database: u64,
    number: u64,
}

impl Records {
    fn find(bytes: &[u8], database: u64, number: u64) -> Self {
        let place = segment_place(database, number);
        // What follows is reserved space.
        let written = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1);
        let mut found = Self { records: Vec::new(), gaps: Vec::new(), end: SEGMENT_HEADER_BYTES, database, number };
        let mut offset = SEGMENT_HEADER_BYTES;
        while offset < written {
            match record_at(bytes, offset, place) {
                Some((head, _)) => {
                    if offset > found.end {
                        found.gaps.push((found.end, offset));
                    }
                    found.records.push((offset, head));
                    offset += head.stride();
                    found.end = offset;
                }
                None => offset += RECORD_ALIGNMENT,
            }
        }
        if written > found.end {
            found.gaps.push((found.end, written));
        }
        found
    }

    /// The highest mark.
    fn durable(&self) -> Position {
        self.records.iter().map(|(_, head)| head.durable).max().unwrap_or_default()
    }

    fn entries<'b>(&self, bytes: &'b [u8], offset: u64, head: &RecordHead) -> Entries<'b> {
        let found = record_at(bytes, offset, segment_place(self.database, self.number));
        Entries::new(found.map_or(&[][..], |(_, body)| body), head.first)
    }
}

/// Tells what lies between records, and behind the last.
fn tell_gaps(wal: &Records, header: Option<SegmentHeader>, report: &mut Report<'_, '_>) {
    let durable = wal.durable();
    for &(from, to) in &wal.gaps {
        let what = format!("{} bytes up to byte {to} are not whole records", grouped(to - from));
        match header {
            Some(header) if header.base.0.saturating_add(from) < durable.0 => {
                let promised = format!("{what}, though the log was durable up to position {}", durable.0);
                report.damaged(from, promised);
            }
            Some(_) => {
                report.problem(from, Fault::Torn, format!("{what}; nothing in this file says that they were durable"))
            }
            None => report.damaged(from, what),
        }
    }
}

/// Checks what the whole records hold; gives how many entries.
fn check_records(wal: &Records, header: Option<SegmentHeader>, bytes: &[u8], report: &mut Report<'_, '_>) -> u64 {
    let (mut all, mut end) = (0, SEGMENT_HEADER_BYTES);
    let mut expected = header.map(|header| header.first_sequence);
    for (offset, head) in &wal.records {
        // Behind a gap, nobody knows how many are missing.
        expected = expected.filter(|_| *offset == end);
        if let Some(expected) = expected.filter(|&expected| expected != head.first) {
            let what = format!("the record begins with sequence {}, where {} would follow", head.first.0, expected.0);
            report.damaged(*offset, what);
        }
        (expected, end) = (Some(Sequence(head.last().0 + 1)), offset + head.stride());
        let (mut entries, mut is_malformed) = (0, false);
        for entry in wal.entries(bytes, *offset, head) {
            is_malformed |= entry.is_err();
            match entry {
                Ok(_) => entries += 1,
                Err(Malformed::Cut) => {
                    report.damaged(*offset, "the record's checksum is right, but it does not hold entries")
                }
                Err(Malformed::UnknownKind(kind)) => {
                    report.problem(
                        *offset,
                        Fault::Unreadable,
                        format!("the record has an entry of kind {kind}, which a newer version wrote"),
                    );
                }
            }
        }
        if !is_malformed && entries != u64::from(head.entries) {
            report.damaged(*offset, format!("the record holds {entries} entries, but says {}", head.entries));
        }
        all += entries;
    }
    all
}

/// Where the segment ends, and why.
fn ending(wal: &Records, bytes: &[u8], report: &Report<'_, '_>) -> Vec<Cell> {
    let end = wal.gaps.first().map_or(wal.end, |&(from, _)| from);
    let reserved = (bytes.len() as u64).saturating_sub(end);
    let why = match (wal.gaps.is_empty(), reserved) {
        (true, 0) => "clean: with the file".to_owned(),
        (true, _) => format!("clean: {} bytes of zeros are reserved", grouped(reserved)),
        (false, _) => {
            let behind = wal.records.iter().filter(|(offset, _)| *offset > end).count() as u64;
            let word = if report.is_damaged_at(end) { "damaged" } else { "torn" };
            format!("{word}: {} bytes follow, with {} whole records", grouped(reserved), grouped(behind))
        }
    };
    vec![Cell::number("ends_at", end), Cell::words("end", why)]
}

fn row((offset, head): &(u64, RecordHead)) -> Vec<Cell> {
    vec![
        Cell::number("offset", *offset),
        Cell::number("bytes", head.stride()),
        Cell::number("body_bytes", u64::from(head.body_bytes)),
        Cell::number("entries", u64::from(head.entries)),
        Cell::number("first_sequence", head.first.0),
        Cell::number("last_sequence", head.last().0),
        Cell::number("durable_position", head.durable.0),
    ]
}

/// Shows the entries that are wanted.
fn show_entries(wal: &Records, bytes: &[u8], report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.begin_entries()?;
    let wanted = report.wanted;
    let all = wal.records.iter().flat_map(|(offset, head)| {
        // Those that are malformed have been told.
        wal.entries(bytes, *offset, head).flatten().map(move |(_, entry)| (*offset, entry))
    });
    for (offset, entry) in all.filter(|(_, entry)| wanted.key(entry.key)).take(wanted.rows_max) {
        report.entry("record", offset, &entry)?;
    }
    Ok(())
}
