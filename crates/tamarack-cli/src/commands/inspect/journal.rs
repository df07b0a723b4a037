//! What a WAL segment and a manifest have in common: both are files of a journal, a header and then
//! records.
//!
//! Where something stands that is not a whole record, the next one is looked for by its marker, as
//! recovery does; what lies between is told. Whether that is damage or a torn end is a matter of
//! marks: each record says up to where the journal was durable when it was written. Other files may
//! know of more; they are not looked at.

use tamarack::internals::{JournalRecord as Record, Profile, RecordScan};
use tamarack_format::claims::{self, Claim};
use tamarack_format::record::{FILE_HEADER_BYTES, FileHeader, HeaderFlaw, Position, record_at};

use super::input::Input;
use super::report::{Fault, Report};
use crate::outcome::Failure;
use crate::show::table::grouped;

/// The header and the records of a journal's file.
pub(super) struct Journal<'b> {
    bytes: &'b [u8],
    /// What the file says about itself; what it claims, if its header is damaged.
    pub(super) header: FileHeader,
    /// True if the header is whole.
    pub(super) has_header: bool,
    /// The file's records.
    pub(super) scan: RecordScan,
}

impl<'b> Journal<'b> {
    /// Looks at `bytes`, the file of that profile whose number is in its name, if it is. Tells what
    /// is wrong with its header; `None` if there is no room for one.
    pub(super) fn of(
        input: &Input,
        bytes: &'b [u8],
        profile: &'static Profile,
        named: Option<u64>,
        report: &mut Report<'_, '_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(claim) = claims::of_journal(bytes, profile.kind) else {
            let noun = profile.noun;
            report.damaged(
                0,
                format!("a {noun} begins with a header of {FILE_HEADER_BYTES} bytes; there is no room for it"),
            );
            return Ok(None);
        };
        let header = header(input, bytes, claim, profile, named, report)?;
        let has_header = header.is_some();
        let Claim { database, number, .. } = claim;
        let (kind, number) = (profile.kind, named.unwrap_or(number));
        let claimed =
            || FileHeader { kind, database, number, base: Position(0), first: 1, created_after: Default::default() };
        let header = header.unwrap_or_else(claimed);
        let scan = RecordScan::of(bytes, header.place(), profile.growth);
        Ok(Some(Self { bytes, header, has_header, scan }))
    }

    /// Tells what lies between records, and behind the last, where nothing is a whole one.
    pub(super) fn tell_gaps(&self, report: &mut Report<'_, '_>) {
        let durable = self.scan.durable.0;
        for (from, to) in self.scan.gaps() {
            let what = format!("{} bytes up to byte {to} are not whole records", grouped(to - from));
            if !self.has_header {
                report.damaged(from, what);
            } else if self.header.base.0.saturating_add(from) < durable {
                report.damaged(from, format!("{what}, though the file was durable up to position {durable}"));
            } else {
                report.problem(from, Fault::Torn, format!("{what}; nothing in this file says that they were durable"));
            }
        }
    }

    /// The payload of one of its records; none if it has a kind that is not known.
    pub(super) fn payload(&self, record: &Record) -> Option<&'b [u8]> {
        let found = record_at(self.bytes, record.offset, self.header.place());
        found.filter(|(head, _)| head.is_known()).map(|(_, payload)| payload)
    }

    /// Tells which records this program cannot read.
    pub(super) fn tell_unknown(&self, report: &mut Report<'_, '_>) {
        for record in self.scan.all().filter(|record| !record.head.is_known()) {
            let kind = record.head.kind.number;
            let what = format!("a record of kind {kind}, which a newer version wrote");
            report.problem(record.offset, Fault::Unreadable, what);
        }
    }
}

fn header(
    input: &Input,
    bytes: &[u8],
    claim: Claim,
    profile: &Profile,
    named: Option<u64>,
    report: &mut Report<'_, '_>,
) -> Result<Option<FileHeader>, Failure> {
    let (noun, number) = (profile.noun, named.unwrap_or(claim.number));
    let decode = |number| FileHeader::decode(bytes, profile.kind, number);
    match (decode(number), decode(claim.number)) {
        (Ok(header), _) => Ok(Some(header)),
        (Err(HeaderFlaw::OtherVersion(version)), _) | (_, Err(HeaderFlaw::OtherVersion(version))) => {
            Err(input.other_version(version))
        }
        (_, Ok(header)) => {
            report.damaged(0, format!("by its name this is {noun} {number}, by its header {noun} {}", claim.number));
            Ok(Some(header))
        }
        (Err(HeaderFlaw::Damaged), _) => {
            report.damaged(0, format!("the header is damaged, or it is of another {noun}"));
            Ok(None)
        }
    }
}
