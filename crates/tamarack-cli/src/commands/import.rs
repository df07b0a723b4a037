//! `tamarack import`: stores records from a file or from standard input.
//!
//! ```text
//! lines ── Format::decode ──► batch (--batch lines, or 1/16 of the memory) ── Db::write ──► acks
//! ```
//!
//! With `--sorted`, all lines are ingested as one run of SSTables at the end of the input.
//!
//! A batch is atomic. After it is written, the number of its last line is appended to the acks
//! file with one call, so that every line that this file names is stored, whenever the process
//! may end.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tamarack::{Batch, Db, Stats};

use crate::files::{Acks, Lines};
use crate::outcome::{Failure, Outcome};
use crate::records::{self, Format};
use crate::show::{Output, json, progress::Progress, table};
use crate::subcommand::Subcommand;
use crate::{database, size};

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "import",
    summary: "Store records from a file or from standard input",
    help: "\
Creates the database if it does not exist. A record whose key exists replaces the
old value, so that an import can be repeated. Lines are written in atomic batches.
With --acks FILE the number of a batch's last line is appended to FILE after each
batch: every line up to that number is stored with the durability that was asked
for. A line that is not a record ends the import with an error that names the
line; the lines before it are stored.

If the disk is full, the import ends with status 3 and says which lines are stored:
free some space and run it again.

--sorted needs keys in ascending byte order, each key once. The lines bypass the
WAL and the memtable and become SSTables directly, with a write amplification of 1
in an empty database. They become visible and durable together, after the last
line; if a key is out of order, nothing is stored.

Empty lines are skipped. Lines end with LF or CR LF.

--policy changes the compaction policy. The tree takes its new shape as data
arrives. Compactions that are in progress after the last line resume whenever the
database is open; `tamarack compact DB --settle` waits for them.

See `tamarack export --help` for the formats and for escapes, and `tamarack compact
--help` for policies.",
    examples: "\
tamarack import names.db examples/data/unicode-names.tsv
tamarack import names.db - --format jsonl < names.jsonl
tamarack import names.db big.tsv --sorted  # made with: LC_ALL=C sort -u
tamarack import names.db big.tsv --durability sync --acks big.acks
tamarack import names.db big.tsv --policy lazy-leveling:T=5 --threads 2",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let mut arguments = vec![
        database::path_argument(),
        Arg::new("file")
            .value_name("FILE")
            .help("Input file; - is standard input")
            .default_value("-")
            .value_parser(value_parser!(PathBuf)),
        records::format_argument(),
        Arg::new("acks")
            .long("acks")
            .value_name("FILE")
            .help("Append the number of the last stored line to FILE after each batch")
            .value_parser(value_parser!(PathBuf)),
        Arg::new("sorted")
            .long("sorted")
            .help("Ingest lines whose keys ascend, all or none, past the WAL")
            .action(ArgAction::SetTrue)
            .conflicts_with_all(["acks", "batch", "durability"]),
        Arg::new("batch")
            .long("batch")
            .value_name("LINES")
            .help("Lines per batch; fewer if they are large")
            .default_value("1000")
            .value_parser(value_parser!(u64).range(1..)),
    ];
    arguments.extend(database::write_arguments());
    arguments.extend(database::compaction_arguments());
    arguments.extend(database::advanced_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let path: &PathBuf = matches.get_one("file").expect("it has a default");
    if path.as_os_str() == "-" && io::stdin().is_terminal() {
        output.note("reading records from the terminal, one per line, until Ctrl-D");
    }
    let lines = Lines::open(path, database::write_bytes_max(matches))?;
    let acks = matches.get_one::<PathBuf>("acks").map(|path| Acks::append_to(path)).transpose()?;
    let import = Import {
        db: database::open_or_create_tuned(matches, output)?,
        progress: Progress::bytes("importing", lines.total_bytes()),
        lines,
        acks,
        format: records::format(matches),
        batch: Batch::new(),
        batch_lines_max: *matches.get_one("batch").expect("it has a default"),
        // The engine refuses batches over an eighth of its memory; half of that leaves space for a
        // further record.
        batch_bytes_max: database::write_bytes_max(matches) / 2,
        stored_lines: 0,
    };
    let (lines, bytes, seconds, stats) = if matches.get_flag("sorted") { import.ingest()? } else { import.run()? };
    let text = format!("imported {} records from {} in {seconds:.2} s", table::grouped(lines), size::show_bytes(bytes));
    let members = json::object([
        ("records", lines.into()),
        ("bytes", bytes.into()),
        ("seconds", seconds.into()),
        ("write_amplification", stats.write_amplification().into()),
        ("delay_seconds", (stats.write_delay_seconds + stats.write_stall_seconds).into()),
        ("debt_bytes", stats.debt_bytes.into()),
    ]);
    output.result(Some(&text), members)?;
    Ok(Outcome::Done)
}

/// A failure after the last line.
fn stored(error: tamarack::Error) -> Failure {
    match Failure::from(error) {
        Failure::Storage(what) => Failure::Storage(format!("{what}; all lines are stored")),
        other => other,
    }
}

/// Lines between two updates of the progress bar.
const SHOWN_LINES: u64 = 1000;

/// An import under way.
struct Import {
    db: Db,
    lines: Lines,
    acks: Option<Acks>,
    format: Format,
    /// Lines that are read and not stored yet: those after `stored_lines`.
    batch: Batch,
    batch_lines_max: u64,
    batch_bytes_max: u64,
    stored_lines: u64,
    progress: Progress,
}

impl Import {
    /// Stores all lines; returns their number, their bytes, the seconds, and statistics.
    fn run(mut self) -> Result<(u64, u64, f64, Stats), Failure> {
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
        // Every later command would replay unflushed memtables from the WAL.
        if self.db.stats().memtables.len() > 1 {
            self.db.flush().map_err(stored)?;
        }
        self.end()
    }

    /// Closes the database.
    fn end(self) -> Result<(u64, u64, f64, Stats), Failure> {
        let seconds = self.progress.elapsed().as_secs_f64();
        let stats = self.db.stats();
        self.db.close().map_err(stored)?;
        Ok((self.lines.number(), self.lines.read_bytes(), seconds, stats))
    }

    /// Ingests all lines, whose keys ascend; returns the same as [`Import::run`].
    fn ingest(mut self) -> Result<(u64, u64, f64, Stats), Failure> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut ingest = self.db.ingest()?;
        while let Some(line) = self.lines.next_line()? {
            let decoded = self.format.decode(line, &mut key, &mut value);
            decoded.map_err(|what| self.lines.wrong(&format!("{what}; nothing is stored")))?;
            ingest.put(&key, &value).map_err(|error| match Failure::from(error) {
                Failure::Usage(what) => self.lines.wrong(&format!("{what}; nothing is stored")),
                other => other,
            })?;
            if ingest.entries().is_multiple_of(SHOWN_LINES) {
                self.progress.set(self.lines.read_bytes());
            }
        }
        ingest.finish()?;
        self.progress.set(self.lines.read_bytes());
        self.end()
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

    /// Lines are stored in batches and acknowledged after each; a later line with the same key
    /// wins.
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

    /// Sorted lines are stored together, or none if one is out of order, which is named.
    #[test]
    fn sorted_lines_are_ingested() {
        let dir = TestDir::new("sorted_lines_are_ingested");
        let lines: String = (0..5000).map(|i| format!("key {i:05}\tvalue {i}\n")).collect();
        let (db, input) = (dir.join("db"), dir.file("in.tsv", &lines));
        let report: serde_json::Value =
            serde_json::from_str(&run_ok(&["import", &db, &input, "--sorted", "--json"])).expect("it is JSON");
        assert_eq!((&report["records"], &report["write_amplification"]), (&5000.into(), &1.0.into()), "{report}");
        assert_eq!(run_ok(&["export", &db]), lines);
        let wrong = dir.file("wrong.tsv", "a\t1\nc\t2\nb\t3\n");
        let ran = run(&["import", &db, &wrong, "--sorted"]);
        assert_eq!(ran.status, 2);
        for expected in ["wrong.tsv:3: ", "\"b\" does not come after the one before, \"c\"", "nothing is stored"] {
            assert!(ran.err.contains(expected), "{}", ran.err);
        }
        assert_eq!(run_ok(&["export", &db]), lines);
        assert_eq!(run(&["import", &db, &input, "--sorted", "--batch", "7"]).status, 2);
    }

    /// Tables of this size are smaller by 4 to 5 bytes per key without digests.
    #[test]
    fn digests_are_left_out() {
        let dir = TestDir::new("digests_are_left_out");
        let lines: String = (0..20_000).map(|i| format!("key {i:05}\tvalue {i}\n")).collect();
        let input = dir.file("in.tsv", &lines);
        let stored = |name: &str, more: &[&str]| {
            let db = dir.join(name);
            run_ok(&[&["import", &db, &input, "--sorted"], more].concat());
            let stats: serde_json::Value =
                serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON");
            stats["live_bytes"].as_u64().expect("a number")
        };
        let less = stored("with", &[]) - stored("without", &["--no-digests"]);
        assert!((4 * 20_000..5 * 20_000).contains(&less), "{less}");
    }

    /// An invalid line ends the import with its number; the lines before it are stored and
    /// acknowledged.
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

    /// Small memory means small batches, not refusal; a record that is too large is refused by its
    /// lines.
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

    /// A policy gives the tree its shape, also from a file; an invalid one is refused with advice,
    /// and no database is created.
    #[test]
    fn policies_shape_the_tree() {
        let dir = TestDir::new("policies_shape_the_tree");
        let lines: String = (0..20_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        let input = dir.file("in.tsv", lines);
        let custom = dir.file("my.shape", "# small\nbuffer 64KiB\nlevel 256KiB in 4 runs\nlevel 8MiB in 2 runs\n");
        for (policy, name, slots) in [
            ("tiering:T=4", "tiering:T=4", 4),
            (&format!("custom:{custom}"), "custom:buffer 64KiB; level 256KiB in 4 runs; level 8MiB in 2 runs", 4),
            ("leveling:T=5", "leveling:T=5", 1),
        ] {
            // The same database, from one policy to the next.
            run_ok(&["import", &dir.join("db"), &input, "--policy", policy, "--buffer", "64KiB", "--threads", "2"]);
            let stats: serde_json::Value =
                serde_json::from_str(&run_ok(&["stats", &dir.join("db"), "--json"])).expect("it is JSON");
            assert_eq!(stats["policy"], name);
            assert_eq!(stats["levels"][0]["run_slots"], slots, "{stats}");
            assert_eq!(stats["memtable_capacity_bytes"], 64 << 10, "it stays without an option");
            assert_eq!(run_ok(&["export", &dir.join("db")]).lines().count(), 20_000, "{policy}");
        }
        for (policy, status, explanation) in [
            ("levelling:T=10", 2, "policies are leveling:T=10"),
            ("tiering:T=1", 2, "from 2 to"),
            ("custom:buffer 4MiB; level 5MiB in 1 run", 2, "at least one and a half"),
            (&format!("custom:{input}"), 2, "more than 1.0 MiB"),
            (&format!("custom:{}", dir.file("wrong.shape", "no shape")), 2, "line 1: "),
            ("custom:none.shape", 2, "none.shape: "),
            // A file that the system cannot read from its beginning.
            #[cfg(target_os = "linux")]
            ("custom:/proc/self/mem", 3, "/proc/self/mem: "),
        ] {
            let ran = run(&["import", &dir.join("none"), &input, "--policy", policy]);
            assert_eq!(ran.status, status, "{policy}: {}", ran.err);
            assert!(ran.err.contains(explanation), "{policy}: {}", ran.err);
            assert!(!std::path::Path::new(&dir.join("none")).exists());
        }
    }

    /// Missing input is a storage error that names it, and no database is created.
    #[test]
    fn missing_input() {
        let dir = TestDir::new("missing_input");
        let ran = run(&["import", &dir.join("db"), &dir.join("none.tsv")]);
        assert_eq!(ran.status, 3);
        assert!(ran.err.contains("none.tsv"), "{}", ran.err);
        assert!(!std::path::Path::new(&dir.join("db")).exists());
    }
}
