//! `tamarack inspect`: prints and checks one file of a database.
//!
//! ```text
//! name, or else content ──► kind of file ──► table, WAL, manifest ──► Report: facts, problems
//! ```
//!
//! The command neither opens nor locks the database and changes nothing. Each kind of file has a
//! module, which continues after damage where it finds the next intact piece: blocks of a table by
//! their index, records of WAL segments and manifests by their markers.

mod changes;
mod input;
mod journal;
mod manifest;
mod range;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod wal;

use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};
use tamarack_format::calibration::{CALIBRATION_BYTES_MAX, decode_calibration};
use tamarack_format::checksum::FileKind;
use tamarack_format::claims;
use tamarack_format::current::decode_current;
use tamarack_format::names::FileName;
use tamarack_model::device::{DEVICE_FIGURES, Device};

use self::input::Input;
use self::range::Wanted;
use self::report::{Cell, Report};
use crate::outcome::{Failure, Outcome};
use crate::show::Output;
use crate::subcommand::Subcommand;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "inspect",
    summary: "Print and check one file: an SSTable, a WAL segment, or a manifest",
    help: "\
Prints the content of one file: an SSTable, a WAL segment, a manifest, CURRENT, or
CALIBRATION. The command neither opens nor locks the database and changes nothing. Files
of an open database can be inspected; a WAL segment or a manifest may then end in the
middle of a write.

Of an SSTable it prints footer, properties, filter, index and blocks; of a WAL segment
its records (each one commit group) and where and why it ends; of a manifest its edits
and the tree after them. The whole file is read and checked, whatever part is printed.
--entries also prints the entries of SSTables and WAL segments, with the escapes of
`tamarack export --help`.

Every fault is listed with its offset, and the exit status is then 1: \"damaged\" means
that the bytes are not those that were written, \"torn\" that the file has a tail as a
crash leaves it, beyond what was durable. Checksums depend on the number of the file:
keep the name of a copy, or give it a name that is not one of a database file.",
    examples: "\
tamarack inspect names.db/CURRENT
tamarack inspect names.db/0000000001.manifest
tamarack inspect names.db/0000000001.wal --limit 10 --json
tamarack inspect names.db/0000000002.sst --entries --prefix U+1F33",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let file = Arg::new("file").value_name("FILE").help("File of a database").required(true);
    let mut arguments = vec![file.value_parser(value_parser!(PathBuf))];
    arguments.extend(range::arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let wanted = Wanted::given(matches)?;
    let input = Input::open(matches.get_one::<PathBuf>("file").expect("it is required"))?;
    let file = recognise(&input)?;
    let mut report = Report::new(output, &wanted, input.name());
    match file {
        Recognised::Table(number) => table::inspect(&input, number, &mut report)?,
        Recognised::Wal(number) => wal::inspect(&input, number, &mut report)?,
        Recognised::Manifest(number) => manifest::inspect(&input, number, &mut report)?,
        Recognised::Current => current(&input, &mut report)?,
        Recognised::Calibration => calibration(&input, &mut report)?,
        Recognised::Lock => lock(&input, &mut report)?,
    }
    report.finish()
}

/// A kind of file, with its number if its name says one.
enum Recognised {
    Table(Option<u64>),
    Wal(Option<u64>),
    Manifest(Option<u64>),
    Current,
    Calibration,
    Lock,
}

/// What the file is, by its name, or by its content if it has been given another one.
fn recognise(input: &Input) -> Result<Recognised, Failure> {
    match FileName::parse(&input.name()) {
        Some(FileName::Table(number)) => return Ok(Recognised::Table(Some(number))),
        Some(FileName::Wal(number)) => return Ok(Recognised::Wal(Some(number))),
        Some(FileName::Manifest(number)) => return Ok(Recognised::Manifest(Some(number))),
        Some(FileName::Current | FileName::CurrentNew) => return Ok(Recognised::Current),
        Some(FileName::Calibration | FileName::CalibrationNew) => return Ok(Recognised::Calibration),
        Some(FileName::Lock) => return Ok(Recognised::Lock),
        None => {}
    }
    const ENDS_BYTES: u64 = 256;
    let ends_bytes = input.bytes.min(ENDS_BYTES);
    let (head, tail) = (input.read(0, ends_bytes)?, input.read(input.bytes - ends_bytes, ends_bytes)?);
    let is_marked = |claim: Option<claims::Claim>| claim.is_some_and(|claim| claim.is_marked);
    if is_marked(claims::of_table(&tail)) {
        Ok(Recognised::Table(None))
    } else if is_marked(claims::of_journal(&head, FileKind::Wal)) {
        Ok(Recognised::Wal(None))
    } else if is_marked(claims::of_journal(&head, FileKind::Manifest)) {
        Ok(Recognised::Manifest(None))
    } else if decode_current(&head).is_some() {
        Ok(Recognised::Current)
    } else {
        Err(Failure::Usage(format!(
            "{}: neither name nor content is that of a database file; name a .sst, .wal or .manifest file, or CURRENT",
            input.path.display()
        )))
    }
}

/// `CURRENT`, or the next one.
fn current(input: &Input, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.facts(vec![Cell::words("kind", "current"), Cell::size("file_bytes", input.bytes)])?;
    match decode_current(&input.read_all()?) {
        Some(number) => {
            let manifest = FileName::Manifest(number).name();
            report.facts(vec![Cell::words("manifest", manifest)])
        }
        None => {
            report.damaged(0, "it does not name a manifest, or its checksum is wrong");
            Ok(())
        }
    }
}

/// `CALIBRATION`, or the next one: the figures of a device.
fn calibration(input: &Input, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.facts(vec![Cell::words("kind", "calibration"), Cell::size("file_bytes", input.bytes)])?;
    let text = if input.bytes <= CALIBRATION_BYTES_MAX { input.read_all()? } else { Vec::new() };
    let Some(text) = decode_calibration(&text) else {
        report.damaged(0, "it has no figures of a device, or its checksum is wrong");
        return Ok(());
    };
    match text.parse::<Device>() {
        Ok(device) => DEVICE_FIGURES.iter().try_for_each(|figure| {
            let value = format!("{} {}", figure.show(&device), figure.unit.name());
            report.facts(vec![Cell::words(figure.name, value)])
        }),
        Err(error) => {
            report.damaged(0, error.to_string());
            Ok(())
        }
    }
}

/// `LOCK`, whose content nobody reads.
fn lock(input: &Input, report: &mut Report<'_, '_>) -> Result<(), Failure> {
    report.facts(vec![
        Cell::words("kind", "lock"),
        Cell::size("file_bytes", input.bytes),
        Cell::words("use", "held while the database is open; its content means nothing"),
    ])
}
