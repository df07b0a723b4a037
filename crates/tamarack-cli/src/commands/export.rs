//! `tamarack export`: prints all records in the order of their keys.

use clap::{Arg, ArgMatches};

use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::records::{self, Format};
use crate::show::Output;
use crate::show::progress::Progress;
use crate::subcommand::Subcommand;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "export",
    summary: "Print all records in key order",
    help: records::HELP,
    examples: "\
tamarack export names.db > names.tsv
tamarack export names.db --format csv > names.csv
tamarack export old.db | tamarack import new.db -",
    arguments,
    run,
};

/// Records are written in pieces of about this size.
const PIECE_BYTES: usize = 16 << 10;

fn arguments() -> Vec<Arg> {
    vec![database::path_argument(), records::format_argument(), database::direct_argument()]
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let db = database::open_to_read(matches, output)?;
    let all = db.scan(..);
    print(all, format(matches, output), output)?;
    db.close()?;
    Ok(Outcome::Done)
}

/// The format that records are to be printed in: `--json` means one object per line.
pub(super) fn format(matches: &ArgMatches, output: &Output<'_>) -> Format {
    if output.is_json() { Format::JsonLines } else { records::format(matches) }
}

/// Prints `entries` and returns how many there were.
pub(super) fn print<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    entries: impl Iterator<Item = tamarack::Result<(K, V)>>,
    format: Format,
    output: &mut Output<'_>,
) -> Result<u64, Failure> {
    let progress = Progress::records("reading");
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let mut printed = 0;
    for entry in entries {
        let (key, value) = entry?;
        format.encode(key.as_ref(), value.as_ref(), &mut piece);
        printed += 1;
        if piece.len() >= PIECE_BYTES {
            output.bytes(&piece)?;
            piece.clear();
            progress.set(printed);
        }
    }
    output.bytes(&piece)?;
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tamarack::Options;
    use tamarack::operators::Append;

    use crate::testing::{Random, TestDir, run_ok, special_bytes};

    /// What a ready-made merge operator makes of its operands is exported, and read, as a value.
    #[test]
    fn operands_are_exported_as_values() {
        let dir = TestDir::new("operands_are_exported_as_values");
        let path = dir.join("db");
        let db = Options::new().merge_operator(Arc::new(Append)).open(&path).expect("a new database");
        db.put("oak", "acorn").and_then(|()| db.flush()).expect("space on the disk");
        db.merge("oak", " and leaf").and_then(|()| db.merge("elm", "leaf")).expect("space on the disk");
        db.close().expect("space on the disk");
        assert_eq!(run_ok(&["export", &path]), "elm\tleaf\noak\tacorn and leaf\n");
        assert_eq!(run_ok(&["get", &path, "oak"]), "acorn and leaf\n");
    }

    /// Exporting and importing in every format gives the same database.
    #[test]
    fn every_format_carries_everything() {
        let dir = TestDir::new("every_format_carries_everything");
        let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
        let mut input = Vec::new();
        for _ in 0..500 {
            crate::records::Format::Tsv.encode(
                &special_bytes(&mut random, 6),
                &special_bytes(&mut random, 20),
                &mut input,
            );
        }
        let first = dir.join("first");
        run_ok(&["import", &first, &dir.file("in.tsv", input)]);
        let expected = run_ok(&["export", &first]);
        for format in ["tsv", "csv", "jsonl"] {
            let file = dir.file(format, run_ok(&["export", &first, "--format", format]));
            let again = dir.join(&format!("db-{format}"));
            run_ok(&["import", &again, &file, "--format", format]);
            assert_eq!(run_ok(&["export", &again]), expected, "{format}");
        }
    }
}
