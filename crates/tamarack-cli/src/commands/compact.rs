//! `tamarack compact`: compacts the tree, a range of keys, or what is due; changes the policy.

use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches};
use tamarack::{Db, RunStats, Stats};
use tamarack_env::os::OsEnv;
use tamarack_env::{Env, Work, Worker};

use super::scan;
use crate::database;
use crate::outcome::{Failure, Outcome};
use crate::show::progress::Progress;
use crate::show::table::plural;
use crate::show::{Output, json};
use crate::size::show_bytes;
use crate::subcommand::Subcommand;

pub(super) const SUBCOMMAND: Subcommand = Subcommand {
    name: "compact",
    summary: "Compact the tree, a range of keys, or only what is due; change the policy",
    help: "\
Compacts all runs into one. Overwritten and deleted entries are dropped, their space
is released, and lookups search a single run. --from, --to and --prefix (escapes as in
`tamarack export --help`) restrict the compaction to a range of keys. --settle only
waits for the compactions that the policy requires, which run by themselves while a
database is open. The command prints the size of the SSTables before and after. It may
be interrupted: nothing is lost, and compactions resume when the database is next
opened.

--policy first changes the policy of the database. With --settle the change moves no
data: levels take their new shape as data arrives, once writes pause while a database
is open, or with `tamarack reshape --at-once`, which also estimates the cost
beforehand. A policy determines the capacity of each level and its number of runs. More
runs make writes cheaper, and reads and space more expensive:
  leveling:T=10           one run per level, size ratio T; with ,first=4 up to four in
                          the first level, compacted into one at rest
                          (leveling:T=5,first=4 is the default)
  tiering:T=4             up to T runs per level, size ratio T
  lazy-leveling:T=5       up to T runs per level, one in the last level
  dostoevsky:T=5,K=4,Z=1  up to K runs per level, up to Z in the last level
  garnering:T=2,c=0.8     one run per level; size ratio T for the last level, T/c for
                          the level above, T/c^2 for the next one, and so on (Autumn)
  moose:last=0.8,k=1      the last level has 0.8 of the capacity; size ratios and runs
                          of the others minimise the cost of reads and writes
  smoose:last=0.8,k=0.5,range=0.33,update=0.0825
                          moose for a workload: the size ratios that are best where
                          range is the share of scans, and update that of updates
                          over entries to a block; k is sqrt(update/range) if it is
                          left out
  qlsm-bush:T=2,X=2       size ratios and runs T, T^X, T^(X^2) ... from the last level
                          up; one run in the last level
                          (these four have these defaults)
  custom:FILE             a shape from FILE: a line `buffer 64MiB` (the memtable size),
                          then one line per level, small to large, such as
                          `level 640MiB in 1 run`; # begins a comment",
    examples: "\
tamarack compact names.db
tamarack compact names.db --prefix U+1F
tamarack compact names.db --policy tiering:T=4 --settle
tamarack compact names.db --threads 2 --json",
    arguments,
    run,
};

fn arguments() -> Vec<Arg> {
    let mut arguments = vec![database::path_argument()];
    arguments.extend(scan::range_arguments());
    arguments.push(
        Arg::new("settle")
            .long("settle")
            .help("Wait for the compactions that the policy requires, and no more")
            .action(ArgAction::SetTrue)
            .conflicts_with_all(["from", "to", "prefix"]),
    );
    arguments.extend(database::compaction_arguments());
    arguments
}

fn run(matches: &ArgMatches, output: &mut Output<'_>) -> Result<Outcome, Failure> {
    let range = scan::given_range(matches)?;
    let is_part = ["from", "to", "prefix"].iter().any(|name| matches.contains_id(name));
    let db = database::open_to_compact(matches, output)?;
    db.flush()?;
    let before = db.stats();
    let watch = Watch::start(&db, total(&before).1.raw_bytes);
    match range {
        _ if matches.get_flag("settle") => db.wait_for_compactions(),
        Some(range) if is_part => db.compact_range(range.bounds()),
        None => Ok(()),
        Some(_) => db.compact(),
    }?;
    drop(watch);
    let after = db.stats();
    db.close()?;
    let (before, after) = (total(&before), total(&after));
    let text = format!(
        "{} in {} before, {} in {} after",
        show_bytes(before.1.file_bytes),
        plural(before.0, "run"),
        show_bytes(after.1.file_bytes),
        plural(after.0, "run")
    );
    let members = json::object([
        ("runs_before", before.0.into()),
        ("file_bytes_before", before.1.file_bytes.into()),
        ("runs_after", after.0.into()),
        ("file_bytes_after", after.1.file_bytes.into()),
    ]);
    output.result(Some(&text), members)?;
    Ok(Outcome::Done)
}

/// The number of runs, and their totals.
fn total(stats: &Stats) -> (u64, RunStats) {
    let runs = || stats.levels.iter().flat_map(|level| &level.runs);
    (runs().count() as u64, RunStats::total(runs()))
}

/// Shows the progress of compactions, a few times a second, until it is dropped.
pub(super) struct Watch {
    worker: Option<Arc<dyn Worker>>,
}

/// How often it looks.
const LOOK: Duration = Duration::from_millis(200);

impl Watch {
    pub(super) fn start(db: &Db, bytes: u64) -> Self {
        let env = OsEnv::new();
        let look = Look { db: db.clone(), env: env.clone(), bar: Progress::bytes("compacting", Some(bytes)) };
        // Without a thread nothing is shown; the compaction runs all the same.
        Self { worker: env.start("progress", Arc::new(look)).ok() }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(worker) = &self.worker {
            worker.stop();
        }
    }
}

struct Look {
    db: Db,
    env: Arc<dyn Env>,
    bar: Progress,
}

impl Work for Look {
    fn step(&self) -> tamarack_env::Progress {
        let stats = self.db.stats();
        let done: u64 = stats.jobs.iter().map(|job| job.done_bytes).sum();
        if done + stats.debt_bytes > 0 {
            self.bar.set_total(done + stats.debt_bytes);
            self.bar.set(done);
        }
        tamarack_env::Progress::IdleUntil(self.env.now() + LOOK)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestDir, run, run_ok};

    /// Importing the same keys twice and compacting leaves each once, in one run.
    #[test]
    fn overwritten_entries_go() {
        let dir = TestDir::new("overwritten_entries_go");
        let db = dir.join("db");
        let lines: String = (0..10_000).map(|i| format!("key {i}\t{}\n", "v".repeat(100))).collect();
        let file = dir.file("in.tsv", lines);
        // So many runs have room in the first level that none is merged before.
        run_ok(&["import", &db, &file, "--memory", "1MiB", "--policy", "tiering:T=1000"]);
        run_ok(&["import", &db, &file, "--memory", "1MiB"]);
        let shown: serde_json::Value = serde_json::from_str(&run_ok(&["compact", &db, "--json"])).expect("it is JSON");
        assert!(shown["runs_before"].as_u64() > Some(1), "{shown}");
        assert_eq!(shown["runs_after"], 1, "{shown}");
        let bytes = |member: &str| shown[member].as_u64().expect("a number");
        assert!(bytes("file_bytes_after") <= bytes("file_bytes_before"), "{shown}");
        let stats: serde_json::Value = serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON");
        let runs = stats["levels"]
            .as_array()
            .expect("levels")
            .iter()
            .flat_map(|level| level["runs"].as_array().expect("runs"));
        assert_eq!(runs.map(|run| run["entries"].as_u64().expect("a number")).sum::<u64>(), 10_000, "{stats}");
    }

    /// A range is compacted alone, a policy is changed and settled without a full compaction, and
    /// wrong arguments are refused.
    #[test]
    fn ranges_and_policies() {
        let dir = TestDir::new("ranges_and_policies");
        let db = dir.join("db");
        let lines: String = (0..10_000).map(|i| format!("key {i:05}\t{}\n", "v".repeat(100))).collect();
        let file = dir.file("in.tsv", lines);
        for _ in 0..2 {
            run_ok(&["import", &db, &file, "--buffer", "100KiB", "--policy", "tiering:T=100"]);
        }
        let stats =
            || -> serde_json::Value { serde_json::from_str(&run_ok(&["stats", &db, "--json"])).expect("it is JSON") };
        let entries = |stats: &serde_json::Value| -> u64 {
            let levels = stats["levels"].as_array().expect("levels");
            levels.iter().map(|level| level["entries"].as_u64().expect("a number")).sum()
        };
        run_ok(&["compact", &db, "--from", "key 02", "--to", "key 04"]);
        let after = entries(&stats());
        // About the 2000 old versions of that range are gone, of 20,000; the shares of tables that
        // it cuts are estimates.
        assert!((12_000..19_000).contains(&after), "{after} entries");
        run_ok(&["compact", &db, "--policy", "leveling:T=4", "--settle", "--threads", "1"]);
        assert_eq!(stats()["policy"], "leveling:T=4");
        assert_eq!(stats()["jobs"].as_array().map(Vec::len), Some(0));
        assert_eq!(run_ok(&["export", &db]).lines().count(), 10_000);
        run_ok(&["compact", &db]);
        assert_eq!(entries(&stats()), 10_000);

        let refused = |words: &[&str]| {
            let ran = run(&[&["compact", &db], words].concat());
            assert_eq!(ran.status, 2, "{words:?}");
            ran.err
        };
        assert!(refused(&["--policy", "leveling"]).contains("parameters T"));
        assert!(refused(&["--settle", "--prefix", "k"]).contains("--settle"));
        assert!(refused(&["--threads", "0"]).contains("1..="));
    }
}
