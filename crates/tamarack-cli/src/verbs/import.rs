//! `tamarack import`: stores records from a file or from standard input.
//!
//! ```text
//! lines ── Format::decode ──► batch (so many lines, or a sixteenth of the memory budget) ── Db::write ──► acks
//! ```
//!
//! A batch is stored as a whole. Only then the number of its last line is appended to the acks file, in one write; so
//! whatever that file names is stored, at any moment the process may end.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, value_parser};
use tamarack::{Batch, Db};

use crate::files::{Acks, Lines};
use crate::outcome::{Failure, Outcome};
use crate::records::{self, Format};
use crate::show::{Output, json, progress::Progress, table};
use crate::verb::Verb;
use crate::{database, size};

pub(super) const VERB: Verb = Verb {
    name: "import",
    summary: "Store records from a file or from standard input",
    help: "\
Makes the database if it is not there. Records whose keys are there already
replace the old values, so that an import can be repeated. Lines are stored in
batches, each as a whole or not at all; --acks FILE appends, after each batch,
the number of its last line to FILE: every line up to there is stored and
survives what the durability level promises. A line that is no record ends the
import with its number; the lines before it are stored.

An empty line is not a record. A line may end with a line feed or with a
carriage return and a line feed.

Run `tamarack export --help` for the formats and the text form.",
    examples: "\
tamarack import names.db examples/data/unicode-names.tsv
tamarack import names.db - --format jsonl < names.jsonl
tamarack import names.db big.tsv --durability sync --acks big.acks",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let mut arguments = vec![
        database::path_argument(),
        Arg::new("file")
            .value_name("FILE")
            .help("The file to read; - is standard input")
            .default_value("-")
            .value_parser(value_parser!(PathBuf)),
        records::format_argument(),
        Arg::new("acks")
            .long("acks")
            .value_name("FILE")
            .help("Append the number of the last stored line to FILE after each batch")
            .value_parser(value_parser!(PathBuf)),
        Arg::new("batch")
            .long("batch")
            .value_name("LINES")
            .help("Store this many lines at once; fewer if they are large")
            .default_value("1000")
            .value_parser(value_parser!(u64).range(1..)),
    ];
    arguments.extend(database::write_arguments());
    arguments.extend(database::tuning_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let path: &PathBuf = matches.get_one("file").expect("it has a default");
    let lines = Lines::open(path)?;
    let acks = matches.get_one::<PathBuf>("acks").map(|path| Acks::append_to(path)).transpose()?;
    let import = Import {
        db: database::open_or_create_tuned(matches, output)?,
        progress: Progress::bytes("importing", lines.total_bytes()),
        lines,
        acks,
        format: records::format(matches),
        batch: Batch::new(),
        batch_lines_max: *matches.get_one("batch").expect("it has a default"),
        // The engine refuses a batch over an eighth of its memory; half of that leaves room for one record more.
        batch_bytes_max: database::memory_bytes(matches) / 16,
        stored_lines: 0,
    };
    let (lines, bytes, seconds) = import.run()?;
    let text = format!("imported {} records from {} in {seconds:.2} s", table::grouped(lines), size::show_bytes(bytes));
    let members = json::object([("records", lines.into()), ("bytes", bytes.into()), ("seconds", seconds.into())]);
    output.result(Some(&text), members)?;
    Ok(Outcome::Done)
}

/// An import under way.
struct Import {
    db: Db,
    lines: Lines,
    acks: Option<Acks>,
    format: Format,
    /// What was read and is not stored yet: the lines after `stored_lines`.
    batch: Batch,
    batch_lines_max: u64,
    batch_bytes_max: u64,
    stored_lines: u64,
    progress: Progress,
}

impl Import {
    /// Stores all lines; returns their number, their bytes, and the seconds it took.
    fn run(mut self) -> Result<(u64, u64, f64), Failure> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while let Some(line) = self.lines.next_line()? {
            let decoded = self.format.decode(line, &mut key, &mut value);
            let number = self.lines.number();
            if let Err(what) = decoded {
                self.store(number - 1)?;
                return Err(self.lines.wrong(&format!("{what}; the lines before it are stored")));
            }
            let bytes = (key.len() + value.len()) as u64;
            if !self.batch.is_empty() && self.batch.raw_bytes() + bytes > self.batch_bytes_max {
                self.store(number - 1)?;
            }
            self.batch.put(&key, &value);
            if number - self.stored_lines >= self.batch_lines_max {
                self.store(number)?;
            }
        }
        self.store(self.lines.number())?;
        // What waits for its flush would be read back from the log by every command that follows.
        if self.db.stats().buffers.len() > 1 {
            self.db.flush()?;
        }
        let seconds = self.progress.elapsed().as_secs_f64();
        self.db.close()?;
        Ok((self.lines.number(), self.lines.read_bytes(), seconds))
    }

    /// Stores the batch, which ends with line `last`, and acknowledges it.
    fn store(&mut self, last: u64) -> Result<(), Failure> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let begin = self.stored_lines + 1;
        self.db.write(&self.batch).map_err(|error| match Failure::from(error) {
            Failure::Usage(what) => Failure::Usage(format!("lines {begin} to {last}: {what}")),
            Failure::Storage(what) => Failure::Storage(format!("{what}; the lines before line {begin} are stored")),
            Failure::OutputClosed => Failure::OutputClosed,
        })?;
        self.batch.clear();
        self.stored_lines = last;
        self.progress.set(self.lines.read_bytes());
        self.acks.as_mut().map_or(Ok(()), |acks| acks.note(last))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run, run_ok};

    /// Lines are stored in batches and acknowledged after each; a later line with the same key wins.
    #[test]
    fn stores_and_acknowledges() {
        let dir = TestDir::new("stores_and_acknowledges");
        let input = dir.file("in.tsv", "b\t1\na\t2\nb\t3\n\\xff\tx\\ty\nc\t\n");
        let (db, acks) = (dir.join("db"), dir.join("acks"));
        let report = run_ok(&["import", &db, &input, "--batch", "2", "--acks", &acks, "--json"]);
        assert!(report.contains(r#""records":5"#), "{report}");
        assert_eq!(dir.read("acks"), "2\n4\n5\n");
        assert_eq!(run_ok(&["export", &db]), "a\t2\nb\t3\nc\t\n\\xff\tx\\ty\n");
    }

    /// A wrong line ends the import with its place; what stands before it is stored and acknowledged.
    #[test]
    fn a_wrong_line_is_named() {
        let dir = TestDir::new("a_wrong_line_is_named");
        let input = dir.file("in.csv", "a,1\nb,2\nc\nd,4\n");
        let (db, acks) = (dir.join("db"), dir.join("acks"));
        let ran = run(&["import", &db, &input, "--format", "csv", "--acks", &acks]);
        assert_eq!(ran.status, 2);
        assert!(ran.err.contains("in.csv:3: there is no comma"), "{}", ran.err);
        assert_eq!(dir.read("acks"), "2\n");
        assert_eq!(run_ok(&["export", &db, "--format", "csv"]), "a,1\nb,2\n");
    }

    /// Small memory means small batches, not refusal; a record that is too large is refused by its lines.
    #[test]
    fn batches_fit_the_memory() {
        let dir = TestDir::new("batches_fit_the_memory");
        let record = |key: u32, bytes: usize| format!("{key}\t{}\n", "v".repeat(bytes));
        let many: String = (0..400).map(|key| record(key, 10_000)).collect();
        let db = dir.join("db");
        run_ok(&["import", &db, &dir.file("many.tsv", many), "--memory", "1MiB", "--batch", "1000"]);
        let ran = run(&["import", &db, &dir.file("large.tsv", record(1, 200_000)), "--memory", "1MiB"]);
        assert_eq!(ran.status, 2, "{}", ran.err);
        assert!(ran.err.contains("lines 1 to 1: "), "{}", ran.err);
        assert_eq!(run_ok(&["export", &db]).lines().count(), 400);
    }

    /// Input that is not there is a storage error that names it, and no database is made for it.
    #[test]
    fn missing_input() {
        let dir = TestDir::new("missing_input");
        let ran = run(&["import", &dir.join("db"), &dir.join("none.tsv")]);
        assert_eq!(ran.status, 3);
        assert!(ran.err.contains("none.tsv"), "{}", ran.err);
        assert!(!std::path::Path::new(&dir.join("db")).exists());
    }
}
