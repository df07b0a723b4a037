//! The measurements of `defaults`: engines as they are when nothing is set but their memory.
//!
//! ```text
//! each round: each engine, alone, in a process whose memory is bounded:
//!     load ─► settle ─► each workload: warm-up, measured time     (one live database)
//! ```
//!
//! The bound holds for the page cache as well ([`confine`](crate::confine)): an engine that reads
//! through it does not get more memory than one that has caches of its own. The order is such that
//! absent keys are looked up before new ones are put.

pub mod report;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::noise;
use common::words::{List, Words};
use serde::{Deserialize, Serialize};
use tamarack_env::histogram::Histogram;

use crate::beside::remove_if_there;
use crate::circumstances::Circumstances;
use crate::confine::Confined;
use crate::data::Data;
use crate::load;
use crate::process::{Worker, answer_all};
use crate::rows::{Keys, Maker, Operation, Row};
use crate::stores::{self, EngineFacts, Kind, Seen, Store};

/// How much, and of what.
pub struct Plan {
    dir: PathBuf,
    data: Data,
    memory_bytes: u64,
    /// What a process may take beyond a quarter more than its engine is given.
    besides_bytes: u64,
    warm: Duration,
    measured: Duration,
    rounds: usize,
    engines: List,
    command: String,
}

impl Plan {
    pub fn new(words: &Words) -> Self {
        let quick = words.flag("quick");
        let value_bytes = words.positive("value-bytes", 1000) as usize;
        let entries = words.positive("entries", if quick { 100_000 } else { 1_000_000 });
        Self {
            dir: words.dir(),
            data: Data { name: "defaults", prefix: "account:", value_bytes, entries, sequential: false },
            memory_bytes: words.positive("memory-mib", 256) << 20,
            besides_bytes: words.number("besides-mib", 64) << 20,
            warm: Duration::from_secs(words.number("warm-s", if quick { 1 } else { 10 })),
            measured: Duration::from_secs(words.positive("seconds", if quick { 2 } else { 15 })),
            rounds: words.positive("rounds", 1) as usize,
            engines: words.list("engines"),
            command: words.command("defaults"),
        }
    }

    fn confined_bytes(&self) -> u64 {
        self.memory_bytes / 4 * 5 + self.besides_bytes
    }
}

/// The workloads, in their order.
fn rows() -> [Row; 8] {
    use Operation::{Get, Insert, Put, ReadModifyWrite, ScanUpTo};
    [
        Row::new("zero-result lookups", Keys::Absent, &[(100, Get)]),
        Row::new("half zero-result, half existing", Keys::HalfAbsent, &[(100, Get)]),
        Row::new("YCSB C", Keys::Zipfian, &[(100, Get)]),
        Row::new("YCSB B", Keys::Zipfian, &[(95, Get), (5, Put)]),
        Row::new("YCSB A", Keys::Zipfian, &[(50, Get), (50, Put)]),
        Row::new("YCSB F", Keys::Zipfian, &[(50, Get), (50, ReadModifyWrite)]),
        Row::new("YCSB D", Keys::Latest, &[(95, Get), (5, Insert)]),
        Row::new("YCSB E", Keys::Zipfian, &[(95, ScanUpTo(100)), (5, Insert)]),
    ]
}

/// All that was measured, as it is kept in JSON.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Results {
    #[serde(flatten)]
    pub circumstances: Circumstances,
    pub entries: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub memory_bytes: u64,
    pub confined_bytes: u64,
    pub warm_s: u64,
    pub measured_s: u64,
    pub engines: Vec<EngineFacts>,
    pub measured: Vec<Measured>,
}

/// What one engine did in one round.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Measured {
    pub engine: String,
    pub round: usize,
    pub phases: Vec<Phase>,
    /// The tree at the end.
    pub tree: String,
    pub peak_memory_bytes: u64,
    pub allocated_bytes: u64,
}

/// One workload, or the load.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Phase {
    pub name: String,
    pub ops_per_s: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub longest_ns: u64,
}

/// A request to a worker: everything, in an empty directory.
#[derive(Serialize, Deserialize, Debug)]
pub struct Question {
    dir: PathBuf,
    round: u64,
}

/// Answers until nothing is asked any more. `engine` is a name of a kind of stores.
pub fn serve(engine: &str, plan: &Plan) -> io::Result<()> {
    let kinds = stores::with_defaults();
    let kind = kinds.iter().find(|kind| kind.name() == engine).expect("the asking side knows the same engines");
    answer_all(|Question { dir, round }| live(kind.as_ref(), plan, &dir, round))
}

/// Measures everything. `save` is called with what there is after each engine.
pub fn measure(plan: &Plan, save: &dyn Fn(&Results) -> io::Result<()>) -> io::Result<Results> {
    let mut kinds = stores::with_defaults();
    kinds.retain(|kind| plan.engines.wants(kind.name()));
    let (began, mut results) = (Instant::now(), Results::new(plan, &kinds));
    for round in 0..plan.rounds {
        for turn in 0..kinds.len() {
            let engine = kinds[(round + turn) % kinds.len()].name();
            results.circumstances.busy.push(machine::load());
            match one(engine, plan, round) {
                Ok(measured) => results.measured.push(measured),
                Err(error) => {
                    eprintln!("{engine}: {error}");
                    results.circumstances.troubles.push(format!("{engine} in round {}: {error}", round + 1));
                }
            }
            results.circumstances.minutes = began.elapsed().as_secs_f64() / 60.0;
            save(&results)?;
        }
    }
    Ok(results)
}

/// One engine, in a directory of its own, of which nothing is left.
fn one(engine: &str, plan: &Plan, round: usize) -> io::Result<Measured> {
    let dir = plan.dir.join(format!("defaults-{}", std::process::id()));
    remove_if_there(&dir)?;
    fs::create_dir_all(&dir)?;
    let answer = in_process(engine, plan, Question { dir: dir.clone(), round: 1 + round as u64 });
    remove_if_there(&dir)?;
    machine::settle();
    Ok(Measured { engine: engine.to_owned(), round, ..answer? })
}

/// The answer of a process of its own, with so much memory.
fn in_process(engine: &str, plan: &Plan, question: Question) -> io::Result<Measured> {
    let mut worker = Worker::start(engine)?;
    let confined = Confined::new(worker.process(), plan.confined_bytes())?;
    let answer = worker.ask(&question);
    // Its process ends first.
    drop(worker);
    drop(confined);
    answer
}

/// The life of a database.
fn live(kind: &dyn Kind, plan: &Plan, dir: &Path, round: u64) -> io::Result<Measured> {
    let (noise, data) = (noise(), &plan.data);
    let store = kind.open_with_defaults(dir, plan.memory_bytes);
    let began = Instant::now();
    let (put_s, latencies) = load::fill(store.as_ref(), data, &noise, 0..data.entries, 1);
    store.flush();
    let only_to_be_sure = store.settle_as_due();
    let settled_s = (began.elapsed() - only_to_be_sure).as_secs_f64();
    let of = |name: &str, operations: f64, seconds: f64, latencies: &Histogram| Phase {
        name: name.to_owned(),
        ops_per_s: operations / seconds,
        p50_ns: latencies.percentile_ns(500),
        p99_ns: latencies.percentile_ns(990),
        longest_ns: latencies.percentile_ns(1000),
    };
    let entries = data.entries as f64;
    let mut phases =
        vec![of("load", entries, put_s, &latencies), of("load, until settled", entries, settled_s, &latencies)];
    phases.iter().for_each(|phase| tell(kind.name(), phase));
    let mut maker = Maker::new(*data);
    for (row, number) in rows().iter().zip(0..) {
        let times = [plan.warm, plan.measured];
        let (operations, seconds, latencies, inserted) =
            run(store.as_ref(), &maker, data, &noise, row, round * 64 + number, times);
        maker.inserted(inserted);
        phases.push(of(row.name, operations as f64, seconds, &latencies));
        tell(kind.name(), phases.last().expect("it was just added"));
    }
    let (tree, peak_memory_bytes) = (store.tree(), machine::peak_memory_bytes());
    drop(store);
    machine::settle();
    let allocated_bytes = machine::allocated_bytes(dir);
    Ok(Measured { engine: String::new(), round: 0, phases, tree, peak_memory_bytes, allocated_bytes })
}

/// Does a row by one thread for the time of the warm-up, and then for the measured time. Returns
/// the operations and seconds of the latter, their latencies, and how many entries were inserted in
/// all.
///
/// # Panics
/// If a lookup does not find what is stored, or finds what is not.
fn run(
    store: &dyn Store,
    maker: &Maker,
    data: &Data,
    noise: &[u8],
    row: &Row,
    seed: u64,
    times: [Duration; 2],
) -> (u64, f64, Histogram, u64) {
    let (mut draws, mut key, mut seen) = (maker.draws(row, seed, 0), Vec::new(), Seen::default());
    let (mut operations, mut seconds, mut latencies) = (0, 0.0, Histogram::default());
    let is_absent = |number: u64| matches!(row.keys, Keys::Absent | Keys::HalfAbsent) && number >= data.entries;
    for time in times {
        (operations, latencies) = (0, Histogram::default());
        let (began, mut before) = (Instant::now(), Instant::now());
        while before - began < time {
            let (operation, number) = draws.next().expect("it has no end");
            key.clear();
            data.push_key(number, &mut key);
            let found = seen.entries;
            let mut get = || {
                store.get(&key, &mut seen);
                assert_eq!(seen.entries - found, u64::from(!is_absent(number)), "entry {number} of {}", row.name);
            };
            match operation {
                Operation::Get => get(),
                Operation::Scan { limit, reverse } => store.scan(&key, limit.into(), reverse, &mut seen),
                Operation::ScanUpTo(_) => unreachable!("limits are drawn"),
                Operation::Put | Operation::Insert => store.put(&key, data.value(noise, number)),
                Operation::ReadModifyWrite => {
                    get();
                    store.put(&key, data.value(noise, number));
                }
            }
            let now = Instant::now();
            latencies.note(now - before);
            before = now;
            operations += 1;
        }
        seconds = (before - began).as_secs_f64();
    }
    (operations, seconds, latencies, draws.inserted())
}

fn tell(engine: &str, phase: &Phase) {
    eprintln!("{engine}: {}: {:.1} thousand operations/s", phase.name, phase.ops_per_s / 1e3);
}

impl Results {
    fn new(plan: &Plan, kinds: &[Box<dyn Kind>]) -> Self {
        Self {
            circumstances: Circumstances::now(&plan.dir, &plan.command, plan.rounds),
            entries: plan.data.entries,
            key_bytes: plan.data.key_bytes(),
            value_bytes: plan.data.value_bytes,
            memory_bytes: plan.memory_bytes,
            confined_bytes: plan.confined_bytes(),
            warm_s: plan.warm.as_secs(),
            measured_s: plan.measured.as_secs(),
            engines: kinds.iter().map(|kind| EngineFacts::new(kind.as_ref())).collect(),
            measured: Vec::new(),
        }
    }
}
