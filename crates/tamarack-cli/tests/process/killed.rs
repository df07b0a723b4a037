//! Imports that are killed with SIGKILL while they run have stored every line that their acks file
//! names, and beyond these only more of the lines that follow: what is there is the beginning of
//! the input.
//!
//! ```text
//!   database   ──import──✗ ──import──────✗ ──import─✗ ──import──────────► end
//!                        │                │          │
//!                      copy             copy       copy
//!                        │                │          │
//!                   export, verify   export, verify …
//! ```
//!
//! There are a few databases with many imports each. `export` and `verify` work on copies, so that
//! the next import is what recovers the database, and may be killed during recovery.
//!
//!
//! * The moment is random, from the start of the process to about the time that a whole import
//!   takes.
//! * Buffers are small, so that flushes are under way at almost any moment.
//! * Keys come again, within one import and in later ones. Each value names its import and line,
//!   and so tells how far that import came: the last line that was stored is never overwritten. The
//!   whole content is then compared with that of the lines up to there.
//!
//! 10 kills at each durability level by default; `TAMARACK_KILLS=200` for the full measure, and `--
//! --nocapture killed` to see how far the imports came. `TAMARACK_SEED` picks other moments, but a
//! run is never repeated to the instruction: the operating system decides when a signal arrives.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tamarack_env::OsEnv;
use tamarack_testing::{Random, TestDir, number, read_dir, seed, write_dir};

use crate::program::{json_of, output_of, run, tamarack, text};

#[test]
fn killed_buffered_imports() {
    kill_imports("buffered", 400);
}

#[test]
fn killed_synced_imports() {
    kill_imports("sync", 100);
}

#[test]
fn killed_interval_imports() {
    kill_imports("interval:5", 400);
}

/// So many imports go into one database before the next one begins.
const IMPORTS_PER_DATABASE: u64 = 8;

/// Kills imports at one level of durability until enough were killed while they ran. Each has
/// `batches` batches.
fn kill_imports(durability: &'static str, batches: u64) {
    let kills = number("TAMARACK_KILLS").unwrap_or(10);
    let name = format!("killed_{}", durability.split(':').next().expect("a split has a first part"));
    let mut site = Site {
        dir: TestDir::new(&name),
        durability,
        batches,
        random: Random::new(seed(4711)),
        import_time: Duration::from_millis(50),
        figures: Figures { lines_min: u64::MAX, ..Figures::default() },
    };
    for database in 0..kills {
        site.live(database, kills);
        if site.figures.kills >= kills {
            println!("{durability}: {:?}", site.figures);
            return;
        }
    }
    panic!("{durability}: too few imports were still running when they were killed: {:?}", site.figures);
}

/// What the kills met; lines are those of the import that was killed.
#[derive(Debug, Default)]
struct Figures {
    kills: u64,
    /// Kills that the process met before it had acknowledged anything: at its start, or while it
    /// recovered.
    before_first_ack: u64,
    /// Stored lines beyond the acknowledged ones: the most of all kills.
    unacknowledged_max: u64,
    lines_min: u64,
    lines_max: u64,
    /// Openings that found a torn end of the WAL or the manifest.
    torn: u64,
    /// Openings that removed tables of flushes that never ended.
    unfinished_flushes: u64,
    /// Entries that openings replayed from the WAL, over all kills.
    entries_replayed: u64,
    /// Imports that had ended before they were killed.
    ended: u64,
}

/// Where imports run, and how.
struct Site {
    dir: TestDir,
    durability: &'static str,
    batches: u64,
    random: Random,
    /// How long an import takes that is not killed, as of the last one of them.
    import_time: Duration,
    figures: Figures,
}

/// One import: what it reads.
struct Input {
    lines: Vec<String>,
    batch: u64,
    what: String,
}

impl Site {
    /// One database from its first import to its last.
    fn live(&mut self, database: u64, kills: u64) {
        let db = self.dir.path().join("db");
        let mut content = BTreeMap::new();
        for import in 0..IMPORTS_PER_DATABASE {
            let input = self.input(database, import);
            // The first one of all is not killed, and tells how long one takes.
            let kill_after = (database + import > 0).then(|| self.moment());
            let killed = self.import(&db, &input, kill_after);
            self.figures.kills += u64::from(killed);
            self.figures.ended += u64::from(!killed);
            self.check(&db, &input, import, killed, &mut content);
            if self.figures.kills >= kills {
                break;
            }
        }
        // What all of them left is a sound database, for the last time, in place; if none came so
        // far as to store a line, there may be none.
        if !content.is_empty() {
            assert!(exported(&db) == shown(&content), "database {database}: reading it in place gives another content");
        }
        if db.exists() {
            fs::remove_dir_all(&db).expect("nobody holds it");
        }
    }

    /// When to kill. A third of the moments lie near the start, where the process recovers what the
    /// one before it left.
    fn moment(&mut self) -> Duration {
        let last = if self.random.below(3) == 0 { 200 } else { 1000 };
        self.import_time * self.random.below(last) as u32 / 1000
    }

    fn input(&mut self, database: u64, import: u64) -> Input {
        let batch = 1 + self.random.below(80);
        let lines = self.batches * batch;
        let line = |number: u64| {
            let key = self.random.below(20_000);
            format!("key {key:05}\t{import}/{number} {}\n", "v".repeat(self.random.below(60) as usize))
        };
        let lines: Vec<String> = (1..=lines).map(line).collect();
        let what = format!("{}, database {database}, import {import}, batches of {batch}", self.durability);
        fs::write(self.dir.path().join("in.tsv"), lines.concat()).expect("the directory is writable");
        Input { lines, batch, what }
    }

    /// Runs an import, and kills it after some time, if one is given. True if it was still running
    /// then.
    fn import(&mut self, db: &Path, input: &Input, kill_after: Option<Duration>) -> bool {
        let (file, acks) = (self.dir.path().join("in.tsv"), self.dir.path().join("acks"));
        fs::write(&acks, "").expect("the directory is writable");
        let batch = input.batch.to_string();
        let began = Instant::now();
        let mut import = tamarack(&["import", text(db), text(&file), "--acks", text(&acks)])
            .args(["--batch", &batch, "--durability", self.durability, "--buffer", "64KiB"])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        if let Some(delay) = kill_after {
            std::thread::sleep(delay.saturating_sub(began.elapsed()));
            import.kill().expect("it can be killed, even if it has ended");
        }
        let status = import.wait().expect("it ends");
        let killed = status.code().is_none();
        assert!(killed || status.success(), "{}: {status}", input.what);
        if kill_after.is_none() {
            self.import_time = began.elapsed();
        }
        killed
    }

    /// Looks at a copy of what an import left, and adds what it stored to `content`.
    fn check(&mut self, db: &Path, input: &Input, import: u64, killed: bool, content: &mut BTreeMap<String, String>) {
        let acked = self.acknowledged(input);
        if !db.exists() {
            assert!(content.is_empty() && acked == 0, "{}: the database is gone", input.what);
            return;
        }
        let copy = self.dir.path().join("copy");
        write_dir(&*OsEnv::new(), &copy, &read_dir(&*OsEnv::new(), db));
        let looked = run(&["stats", text(&copy), "--json"]);
        // Killed before the database was made: until the manifest says what shape its tree has,
        // there is none, and opening begins anew.
        if looked.err.contains("there is no database here") {
            assert!(content.is_empty() && acked == 0, "{}: the database is gone", input.what);
            fs::remove_dir_all(&copy).expect("nobody holds it");
            return;
        }
        assert_eq!(looked.status, Some(0), "{}: {}", input.what, looked.err);
        let stats: serde_json::Value = serde_json::from_str(&looked.out).expect("one JSON object");
        let stored = exported(&copy);
        assert_eq!(json_of(&["verify", text(&copy)])["ok"], true, "{}", input.what);
        fs::remove_dir_all(&copy).expect("nobody holds it");

        let reached = reached(&stored, import);
        assert!(reached >= acked, "{}: {acked} lines were acknowledged, {reached} are there", input.what);
        let all = input.lines.len() as u64;
        assert!(killed || reached == all, "{}: it ended well, but stored {reached} lines of {all}", input.what);
        assert!(reached.is_multiple_of(input.batch), "{}: {reached} lines are there, part of a batch", input.what);
        let records = input.lines[..reached as usize].iter().map(|line| line.split_once('\t').expect("a record"));
        content.extend(records.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(stored == shown(content), "{}: what is there is not the first {reached} lines", input.what);
        if killed {
            self.count(&stats["recovery"], acked, reached);
        }
    }

    fn count(&mut self, recovery: &serde_json::Value, acked: u64, reached: u64) {
        let figures = &mut self.figures;
        let length = |name: &str| recovery[name].as_array().expect("a list").len();
        figures.before_first_ack += u64::from(acked == 0);
        figures.unacknowledged_max = figures.unacknowledged_max.max(reached - acked);
        figures.lines_min = figures.lines_min.min(reached);
        figures.lines_max = figures.lines_max.max(reached);
        figures.torn += u64::from(length("dropped") > 0);
        figures.unfinished_flushes += u64::from(length("orphans_removed") > 0);
        figures.entries_replayed += recovery["entries_replayed"].as_u64().expect("a number");
    }

    /// The last line that was acknowledged. Acknowledgements are the ends of batches, one after the
    /// other.
    fn acknowledged(&self, input: &Input) -> u64 {
        let acks = fs::read_to_string(self.dir.path().join("acks")).expect("the file is there");
        assert!(acks.is_empty() || acks.ends_with('\n'), "{}: an acknowledgement is cut short", input.what);
        let mut last = 0;
        for line in acks.lines() {
            assert_eq!(line.parse(), Ok(last + input.batch), "{}: after {last}", input.what);
            last += input.batch;
        }
        last
    }
}

/// The last line of import number `import` that is there; 0 if there is none.
fn reached(stored: &str, import: u64) -> u64 {
    let begin = format!("{import}/");
    let numbers = stored.lines().filter_map(|line| {
        let value = line.split_once('\t')?.1.strip_prefix(&begin)?;
        value.split(' ').next()?.parse::<u64>().ok()
    });
    numbers.max().unwrap_or(0)
}

/// All records, as `export` prints them.
fn exported(db: &Path) -> String {
    output_of(&["export", text(db)])
}

/// `content` as `export` prints it; values end with a line feed already.
fn shown(content: &BTreeMap<String, String>) -> String {
    content.iter().map(|(key, value)| format!("{key}\t{value}")).collect()
}
