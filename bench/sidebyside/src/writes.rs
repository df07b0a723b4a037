//! The measurements of `writes`: loads, overwrites and updates at full speed, what they cost, and
//! what is found right after them.
//!
//! ```text
//! each round: each database: each row: each engine: [plan::Row] ──► [sample::Sample]
//! ```
//!
//! Each engine works in a [process](crate::process) of its own. It works alone: before a row every
//! engine has settled, and dirty pages are written back. With `--apart`, one engine does all rows
//! of a database, and its files are removed before the next begins, which takes less space.

pub mod beside_load;
pub mod plan;
pub mod plot;
#[cfg(feature = "png")]
mod png;
pub mod report;
pub mod sample;
pub mod series;
pub mod worker;

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use common::machine;
use serde::{Deserialize, Serialize};

use crate::beside::remove_if_there;
use crate::circumstances::Circumstances;
use crate::process::Worker;
use crate::stores::{EngineFacts, Kind};
use plan::Plan;
use sample::Sample;
use worker::{Answer, Question};

/// All that was measured, as it is kept in JSON.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Results {
    #[serde(flatten)]
    pub circumstances: Circumstances,
    pub memtable_bytes: u64,
    pub cache_bytes: u64,
    #[serde(default = "ten")]
    pub filter_bits: u64,
    /// The size ratio of the peers, if not their default.
    #[serde(default)]
    pub ratio: Option<u64>,
    pub compression: String,
    pub direct_io: bool,
    pub databases: Vec<DatabaseFacts>,
    pub engines: Vec<EngineFacts>,
    pub measured: Vec<Measured>,
}

/// The bits per entry of older figures, which do not tell them.
fn ten() -> u64 {
    10
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct DatabaseFacts {
    pub name: String,
    pub entries: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Keys and values.
    pub bytes: u64,
}

/// One row of one database, on one engine, in one round.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Measured {
    pub database: String,
    pub row: String,
    pub engine: String,
    pub round: usize,
    pub sample: Sample,
}

/// Measures everything. `save` is called with what there is after each round of a database.
pub fn measure(plan: &Plan, save: &dyn Fn(&Results) -> io::Result<()>) -> io::Result<Results> {
    let kinds = plan.kinds();
    if kinds.is_empty() {
        return Err(io::Error::other("--engines names none that is compiled in"));
    }
    let began = Instant::now();
    let mut run = Run { plan, results: Results::new(plan, &kinds) };
    for round in 0..plan.rounds {
        for (database, data) in plan.databases.iter().enumerate() {
            let rows: Vec<usize> = (0..plan.rows.len()).filter(|row| plan.wants(data, &plan.rows[*row])).collect();
            if rows.is_empty() {
                continue;
            }
            run.results.circumstances.busy.push(machine::load());
            let mut names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            // Another one begins in each round.
            names.rotate_left(round % kinds.len());
            let groups: Vec<&[&str]> = if plan.apart { names.chunks(1).collect() } else { vec![&names] };
            for group in groups {
                run.group(database, &rows, round, group)?;
            }
            run.results.circumstances.minutes = began.elapsed().as_secs_f64() / 60.0;
            save(&run.results)?;
        }
    }
    Ok(run.results)
}

struct Run<'a> {
    plan: &'a Plan,
    results: Results,
}

/// A store that takes part. Its files are removed with it.
struct Participant {
    engine: String,
    /// None once it has failed.
    worker: Option<Worker>,
    dir: PathBuf,
}

impl Run<'_> {
    /// All rows of a database, on the engines in turns.
    fn group(&mut self, database: usize, rows: &[usize], round: usize, engines: &[&str]) -> io::Result<()> {
        let name = self.plan.databases[database].name;
        let mut all = Vec::new();
        for engine in engines {
            let file_name =
                format!("writes-{}-{}", std::process::id(), engine.replace(|c: char| !c.is_alphanumeric(), "-"));
            let dir = self.plan.dir.join(file_name);
            remove_if_there(&dir)?;
            all.push(Participant { engine: (*engine).to_owned(), worker: Some(Worker::start(engine)?), dir });
        }
        for (turn, row) in rows.iter().enumerate() {
            let count = all.len();
            for place in 0..count {
                self.ask(database, *row, round, &mut all[(turn + place) % count]);
            }
        }
        for Participant { engine, worker, dir } in all {
            if let Some(mut worker) = worker
                && let Err(error) = worker.ask::<Answer>(&Question::Check)
            {
                self.trouble(format!("{name}: {engine} does not have what was put: {error}"));
            }
            remove_if_there(&dir)?;
        }
        machine::settle();
        Ok(())
    }

    fn ask(&mut self, database: usize, row: usize, round: usize, participant: &mut Participant) {
        let Some(worker) = &mut participant.worker else { return };
        let (name, row_name) = (self.plan.databases[database].name, &self.plan.rows[row].name);
        let engine = &participant.engine;
        match worker.ask(&Question::Row { database, row, round: round as u64, dir: participant.dir.clone() }) {
            Ok(Answer::Sampled(sample)) => {
                eprintln!("round {}/{}: {name}/{row_name}: {engine}: {sample}", round + 1, self.plan.rounds);
                let (database, row, engine) = (name.to_owned(), row_name.clone(), engine.clone());
                self.results.measured.push(Measured { database, row, engine, round, sample: *sample });
            }
            answer => {
                let error = answer.map_or_else(|error| error.to_string(), |answer| format!("{answer:?}"));
                let what =
                    format!("{name}/{row_name}: {engine} fails: {error}; its later rows are missing in this round");
                participant.worker = None;
                self.trouble(what);
            }
        }
    }

    fn trouble(&mut self, what: String) {
        eprintln!("writes: {what}");
        self.results.circumstances.troubles.push(what);
    }
}

impl Results {
    fn new(plan: &Plan, kinds: &[Box<dyn Kind>]) -> Self {
        let facts = |data: &crate::data::Data| DatabaseFacts {
            name: data.name.to_owned(),
            entries: data.entries,
            key_bytes: data.key_bytes(),
            value_bytes: data.value_bytes,
            bytes: data.bytes(),
        };
        let engine = |kind: &dyn Kind| EngineFacts { setup: kind.default_setup().to_owned(), ..EngineFacts::new(kind) };
        Self {
            circumstances: Circumstances::now(&plan.dir, &plan.command, plan.rounds),
            memtable_bytes: plan.memtable_bytes,
            cache_bytes: plan.cache_bytes,
            filter_bits: plan.filter_bits,
            ratio: plan.ratio,
            compression: plan.compression_name().to_owned(),
            direct_io: plan.direct_io,
            databases: plan.databases.iter().map(facts).collect(),
            engines: kinds.iter().map(AsRef::as_ref).map(engine).collect(),
            measured: Vec::new(),
        }
    }
}
