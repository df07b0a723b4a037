//! A workload that shifts, on one live database: load, lookups of existing keys, of absent ones,
//! short scans, overwrites, and a mix, one after the other. With an automatic policy, beside fixed
//! policies.
//!
//! Each policy runs alone, from an empty database. The *oracle* takes for each phase the time of
//! the fixed policy that was best in it: no fixed policy can be as fast, and neither can one that
//! changes, since changes cost it nothing.
//!
//! `cargo run --release -p designs --bin shift -- --help`

use std::path::Path;
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::{mib, mix, noise};
use common::words::Words;
use serde_json::{Value, json};
use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::Random;

const HELP: &str = "\
usage: shift [--dir DIR] [OPTIONS]

  --dir DIR         where databases are made and removed again           [the system's temporary directory]
  --entries N       entries loaded, of 16 + 100 bytes                                             [1000000]
  --operations N    operations of each phase after the load                                       [1000000]
  --memory-mib N    memory budget of each database                                                     [32]
  --policies LIST   separated by semicolons                                           [auto and five others]
  --json            print JSON instead of a table";

const POLICIES: &str = "auto;leveling:T=5,first=4;leveling:T=10;tiering:T=4;tiering:T=10;lazy-leveling:T=5";

const PHASES: [&str; 6] = ["load", "existing", "absent", "scans", "updates", "mix"];

/// Keys of numbers from here on are never put.
const ABSENT: u64 = 1 << 40;

/// Entries of a scan.
const SCANNED: usize = 10;

struct Plan {
    entries: u64,
    operations: u64,
    memory_bytes: u64,
}

/// What a policy took.
struct Run {
    policy: String,
    /// Seconds of each phase.
    seconds: [f64; PHASES.len()],
    /// The longest put of each phase.
    longest_puts: [Duration; PHASES.len()],
    /// Changes of the design, in words.
    changes: Vec<String>,
}

impl Run {
    /// The longest put and its phase.
    fn longest_put(&self) -> (Duration, &'static str) {
        let puts = self.longest_puts.into_iter().zip(PHASES);
        puts.max().expect("there are phases")
    }

    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let plan = Plan {
        entries: words.positive("entries", 1_000_000),
        operations: words.positive("operations", 1_000_000),
        memory_bytes: words.positive("memory-mib", 32) << 20,
    };
    let policies = words.text("policies").unwrap_or(POLICIES).to_owned();
    let dir = words.scratch();
    let mut runs = Vec::new();
    for policy in policies.split(';').map(str::trim) {
        let path = dir.path().join("shift");
        let run = run(&path, policy, &plan)?;
        std::fs::remove_dir_all(&path).expect("the database was made there");
        eprintln!("{policy}: {:.1} s", run.total());
        runs.push(run);
    }
    if words.flag("json") {
        println!("{}", as_json(&runs))
    } else {
        print(&runs, &plan)
    }
    Ok(())
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key
}

/// A database in use, and the next operation.
struct Client {
    db: Db,
    noise: Vec<u8>,
    random: Random,
    entries: u64,
    longest_put: Duration,
}

impl Client {
    fn put(&mut self, number: u64) -> Result<()> {
        let at = self.random.below(self.noise.len() as u64 - 100) as usize;
        let began = Instant::now();
        self.db.put(key(number), &self.noise[at..at + 100])?;
        self.longest_put = self.longest_put.max(began.elapsed());
        Ok(())
    }

    fn any(&self) -> u64 {
        self.random.below(self.entries)
    }

    /// One operation of a phase after the load.
    fn operation(&mut self, phase: &str) -> Result<()> {
        match phase {
            "existing" => assert!(self.db.get(key(self.any()))?.is_some(), "a key that was put is not there"),
            "absent" => assert!(self.db.get(key(ABSENT + self.any()))?.is_none(), "a key that was never put is there"),
            "scans" => {
                let mut scan = self.db.scan(key(self.any())..).limit(SCANNED);
                while scan.next_lent()?.is_some() {}
            }
            "updates" => self.put(self.any())?,
            _ => {
                let phases = ["existing", "absent", "scans", "updates"];
                self.operation(phases[self.random.below(4) as usize])?;
            }
        }
        Ok(())
    }
}

fn run(path: &Path, policy: &str, plan: &Plan) -> Result<Run> {
    // Past the page cache: all policies have the same memory.
    let advanced = AdvancedOptions::new().policy(policy).direct_io(true);
    let options = Options::new().memory_bytes(plan.memory_bytes).compression(Compression::None).advanced(advanced);
    let db = options.open(path)?;
    let (noise, random) = (noise(), Random::new(1));
    let mut client = Client { db, noise, random, entries: plan.entries, longest_put: Duration::ZERO };
    let (mut seconds, mut longest_puts) = ([0.0; PHASES.len()], [Duration::ZERO; PHASES.len()]);
    for ((seconds, longest_put), phase) in seconds.iter_mut().zip(&mut longest_puts).zip(PHASES) {
        client.longest_put = Duration::ZERO;
        let began = Instant::now();
        if phase == "load" {
            (0..plan.entries).try_for_each(|number| client.put(number))?;
        } else {
            (0..plan.operations).try_for_each(|_| client.operation(phase))?;
        }
        *seconds = began.elapsed().as_secs_f64();
        *longest_put = client.longest_put;
    }
    let changes = client.db.design_history();
    client.db.close()?;
    Ok(Run { policy: policy.to_owned(), seconds, longest_puts, changes })
}

/// The time of the best fixed policy in each phase.
fn oracle(runs: &[Run]) -> [f64; PHASES.len()] {
    let fixed = || runs.iter().filter(|run| !run.policy.starts_with("auto"));
    std::array::from_fn(|phase| fixed().map(|run| run.seconds[phase]).fold(f64::INFINITY, f64::min))
}

fn print(runs: &[Run], plan: &Plan) {
    let data = mib(plan.entries * 124);
    println!("{}, commit {}", machine::description(), machine::commit());
    println!(
        "{} entries of 16 + 100 bytes ({data:.0} MiB), {} MiB of memory, {} operations in each further phase; seconds\n",
        plan.entries,
        plan.memory_bytes >> 20,
        plan.operations
    );
    println!(
        "{:22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>18}",
        "policy", PHASES[0], PHASES[1], PHASES[2], PHASES[3], PHASES[4], PHASES[5], "all", "longest put"
    );
    let row = |name: &str, seconds: &[f64; PHASES.len()], longest: &str| {
        let cells: String = seconds.iter().map(|seconds| format!(" {seconds:8.1}")).collect();
        println!("{name:22}{cells} {:9.1} {longest:>18}", seconds.iter().sum::<f64>());
    };
    for run in runs {
        let (longest, phase) = run.longest_put();
        row(&run.policy, &run.seconds, &format!("{:.1} ms, {phase}", 1e3 * longest.as_secs_f64()));
    }
    let oracle = oracle(runs);
    row("oracle", &oracle, "");
    for run in runs.iter().filter(|run| run.policy.starts_with("auto")) {
        println!("\n{}: {:.2} of the oracle; changes:", run.policy, run.total() / oracle.iter().sum::<f64>());
        run.changes.iter().for_each(|change| println!("  {change}"));
    }
}

fn as_json(runs: &[Run]) -> Value {
    let of = |run: &Run| {
        json!({
            "policy": run.policy,
            "phases": PHASES,
            "seconds": run.seconds,
            "longest_put_seconds": run.longest_puts.map(|longest| longest.as_secs_f64()),
            "changes": run.changes,
        })
    };
    json!({ "runs": runs.iter().map(of).collect::<Vec<_>>(), "oracle_seconds": oracle(runs) })
}
