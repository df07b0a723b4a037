//! The measurements of `beside`: databases are loaded, opened in all stores at once, and read and
//! written in turns.
//!
//! ```text
//! each database:  each number of threads: each engine: load ─► (the first is kept)
//!                 cached, then direct:  open a copy in every engine, each in a process ─► warm
//!                   reading rows, then writing ones: each round: each row: each engine: one slice
//!                 steady, if asked for: each round: each sequence of rows: each engine,
//!                   alone: open a copy ─► the rows, one right after the other
//! ```
//!
//! A slice is a list of operations, the same for every engine, that each works through as far as it
//! comes in a given time. Answers are compared among engines as far as the slower one came.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use common::machine;
use common::words::{List, Words};
use serde::{Deserialize, Serialize};

use crate::circumstances::Circumstances;
use crate::plan::{Database, Plan, Reads, STEADY};
use crate::process::Worker;
use crate::rows::Row;
use crate::slice::{Marks, Sample};
use crate::stores::{self, EngineFacts, Kind};
use crate::worker::{Answer, Closed, Loaded, Question};

/// Where and how to measure.
pub struct Settings {
    pub dir: PathBuf,
    /// Whether loaded databases stay there, for the next time.
    pub keep: bool,
    pub engines: List,
    /// Parts of the names `DATABASE-READS/ROW/THREADS`.
    pub only: List,
    pub command: String,
}

/// All that was measured, as it is kept in JSON.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Results {
    #[serde(flatten)]
    pub circumstances: Circumstances,
    pub slice_ms: u64,
    /// Warm-up of a sequence of the steady state, and time of its rows; 0 in figures that were kept
    /// before it was measured.
    #[serde(default)]
    pub steady_warm_s: u64,
    #[serde(default)]
    pub steady_s: u64,
    pub databases: Vec<DatabaseFacts>,
    pub engines: Vec<EngineFacts>,
    pub loads: Vec<LoadResult>,
    pub opened: Vec<OpenResult>,
    pub slices: Vec<SliceResult>,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct DatabaseFacts {
    pub name: String,
    pub title: String,
    pub entries: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    /// Keys and values.
    pub bytes: u64,
    pub buffer_bytes: u64,
    /// Of the large and of the small cache.
    pub cache_bytes: [u64; 2],
    #[serde(default)]
    pub steady_cache_bytes: Option<u64>,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct LoadResult {
    pub database: String,
    pub engine: String,
    pub threads: usize,
    pub loaded: Loaded,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct OpenResult {
    pub database: String,
    pub reads: String,
    pub engine: String,
    pub tree: String,
    pub closed: Option<Closed>,
}

#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct SliceResult {
    pub database: String,
    pub reads: String,
    pub row: String,
    pub threads: usize,
    pub engine: String,
    pub round: usize,
    pub sample: Sample,
}

/// Measures everything. `save` is called with what there is, again and again.
pub fn measure(plan: &Plan, settings: &Settings, save: &dyn Fn(&Results) -> io::Result<()>) -> io::Result<Results> {
    let mut kinds = stores::all();
    kinds.retain(|kind| settings.engines.wants(kind.name()));
    let began = Instant::now();
    if !settings.keep {
        remove_if_there(&settings.dir.join("beside"))?;
    }
    fs::create_dir_all(settings.dir.join("beside"))?;
    let mut run =
        Run { plan, settings, kinds, dir: settings.dir.join("beside"), results: Results::new(plan, settings) };
    for number in 0..plan.databases.len() {
        let name = plan.databases[number].name;
        let sequences = run.sequences(number);
        if sequences.is_empty() && Reads::ALL.iter().all(|reads| run.rows(name, *reads).next().is_none()) {
            continue;
        }
        run.load(number)?;
        let save = |results: &mut Results| {
            results.circumstances.minutes = began.elapsed().as_secs_f64() / 60.0;
            save(results)
        };
        for reads in Reads::ALL {
            run.ask_all(number, reads)?;
            save(&mut run.results)?;
        }
        for (round, sequence) in (0..plan.rounds).flat_map(|round| sequences.iter().map(move |one| (round, *one))) {
            run.results.circumstances.busy.push(machine::load());
            run.sequence(number, sequence, round)?;
            save(&mut run.results)?;
        }
        if !settings.keep {
            // The next database needs the space.
            fs::remove_dir_all(&run.dir)?;
            fs::create_dir_all(&run.dir)?;
        }
    }
    if !settings.keep {
        fs::remove_dir_all(&run.dir)?;
    }
    Ok(run.results)
}

struct Run<'a> {
    plan: &'a Plan,
    settings: &'a Settings,
    kinds: Vec<Box<dyn Kind>>,
    dir: PathBuf,
    results: Results,
}

/// A store that takes part.
struct Participant {
    name: &'static str,
    /// None once it has failed.
    worker: Option<Worker>,
    /// Where this is in [`Results::opened`].
    opened: usize,
}

impl Run<'_> {
    /// The rows that are wanted, with their numbers.
    fn rows(&self, database: &str, reads: Reads) -> impl Iterator<Item = (usize, &Row)> {
        let name = move |row: &Row| format!("{database}-{}/{}/{}", reads.name(), row.name, row.threads);
        self.plan.rows.iter().enumerate().filter(move |(_, row)| self.settings.only.wants_part_of(&name(row)))
    }

    /// The numbers of the sequences of the steady state that are asked for.
    fn sequences(&self, database: usize) -> Vec<usize> {
        let (database, only) = (&self.plan.databases[database], &self.settings.only);
        let is_asked_for =
            |row: &Row| only.asks_for(STEADY, &format!("{}-{STEADY}/{}/{}", database.name, row.name, row.threads));
        let sequences = self.plan.steady.sequences.iter().enumerate();
        let sequences = sequences.filter(|(_, rows)| rows.iter().any(is_asked_for)).map(|(number, _)| number);
        sequences.filter(|_| database.steady_cache_bytes.is_some()).collect()
    }

    fn kinds_for(&self, database: &Database) -> Vec<&dyn Kind> {
        let kinds = self.kinds.iter().map(AsRef::as_ref);
        kinds.filter(|kind| kind.takes(database.shape)).collect()
    }

    fn base(&self, kind: &dyn Kind, database: &Database) -> PathBuf {
        self.dir.join(format!("{}-{}-{}", kind.files(), database.name, database.data.entries))
    }

    fn load(&mut self, number: usize) -> io::Result<()> {
        let database = &self.plan.databases[number];
        let mut threads: Vec<usize> = self.plan.rows.iter().map(|row| row.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        // Variants of an engine share what is loaded. A database that exists already is only used:
        // its load was not measured.
        let kinds = self.kinds_for(database).into_iter().filter(|kind| kind.files() == kind.name());
        let bases = kinds.map(|kind| (kind.name(), self.base(kind, database)));
        let bases: Vec<_> = bases.filter(|(_, base)| !complete(base).exists()).collect();
        let mut loads = Vec::new();
        for threads in threads {
            for (engine, base) in &bases {
                let again = complete(base).exists();
                let dir = if again { base.with_extension("again") } else { base.clone() };
                remove_if_there(&dir)?;
                eprintln!("{}: {engine} loads by {threads}", database.name);
                let answer = ask_once(engine, &Question::Load { database: number, threads, dir: dir.clone() });
                match (again, &answer) {
                    (false, Ok(_)) => fs::write(complete(base), "")?,
                    _ => remove_if_there(&dir)?,
                }
                loads.push((*engine, threads, answer));
            }
        }
        for (engine, threads, answer) in loads {
            let (database, engine) = (database.name.to_owned(), engine.to_owned());
            match answer {
                Ok(Answer::Loaded(loaded)) => {
                    eprintln!("{database}: {engine}: {:.0} entries/s by {threads}; {}", loaded.ops_per_s, loaded.tree);
                    self.results.loads.push(LoadResult { database, engine, threads, loaded });
                }
                answer => self.trouble(format!("{database}: {engine} does not load by {threads}: {answer:?}")),
            }
        }
        Ok(())
    }

    fn ask_all(&mut self, number: usize, reads: Reads) -> io::Result<()> {
        let database = &self.plan.databases[number];
        let rows: Vec<(usize, Row)> = self.rows(database.name, reads).map(|(n, row)| (n, *row)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let mut all = Vec::new();
        let bases: Vec<_> =
            self.kinds_for(database).iter().map(|kind| (kind.name(), self.base(*kind, database))).collect();
        for (engine, base) in bases {
            all.extend(self.open(number, reads, engine, base));
        }
        for writing in [false, true] {
            self.results.circumstances.busy.push(machine::load());
            for round in 0..self.plan.rounds {
                for (number, row) in rows.iter().filter(|(_, row)| row.writes() == writing) {
                    self.turn(database.name, reads, *number, row, round, &mut all);
                }
                eprintln!("{}-{}: round {} of {}", database.name, reads.name(), round + 1, self.plan.rounds);
            }
        }
        for participant in &mut all {
            match participant.worker.as_mut().map(|worker| worker.ask(&Question::Close)) {
                Some(Ok(Answer::Closed(closed))) => self.results.opened[participant.opened].closed = Some(closed),
                Some(answer) => self.trouble(format!("{} does not close: {answer:?}", participant.name)),
                None => (),
            }
        }
        Ok(())
    }

    fn open(&mut self, number: usize, reads: Reads, engine: &'static str, base: PathBuf) -> Option<Participant> {
        let database = self.plan.databases[number].name;
        let copy = self.dir.join(format!("open-{}", engine.replace(' ', "-")));
        let opened = remove_if_there(&copy).and_then(|()| Worker::start(engine)).and_then(|mut worker| {
            let answer =
                worker.ask(&Question::Open { database: number, direct: reads == Reads::Direct, base, copy })?;
            Ok((worker, answer))
        });
        match opened {
            Ok((worker, Answer::Opened { tree })) => {
                eprintln!("{database}-{}: {engine}, process {}: {tree}", reads.name(), worker.process());
                let (database, reads, name) = (database.to_owned(), reads.name().to_owned(), engine.to_owned());
                self.results.opened.push(OpenResult { database, reads, engine: name, tree, closed: None });
                Some(Participant { name: engine, worker: Some(worker), opened: self.results.opened.len() - 1 })
            }
            Ok((_, answer)) => unreachable!("{answer:?} answers no question to open"),
            Err(error) => {
                self.trouble(format!("{database}-{}: {engine} does not open: {error}", reads.name()));
                None
            }
        }
    }

    /// One slice of a row on every engine.
    fn turn(&mut self, database: &str, reads: Reads, number: usize, row: &Row, round: usize, all: &mut [Participant]) {
        let mut answers = HashMap::new();
        for turn in 0..all.len() {
            let place = (round + turn) % all.len();
            let Participant { name, worker, .. } = &mut all[place];
            let Some(asked) = worker else { continue };
            match asked.ask(&Question::Slice { row: number, round: 1 + round as u64 }) {
                Ok(Answer::Sliced { sample, marks, rest_s }) => {
                    answers.insert(*name, marks);
                    let result = |row_name: &str, sample| SliceResult {
                        database: database.to_owned(),
                        reads: reads.name().to_owned(),
                        row: row_name.to_owned(),
                        threads: row.threads,
                        engine: (*name).to_owned(),
                        round,
                        sample,
                    };
                    self.results.slices.push(result(row.name, sample));
                    if let Some(name) = row.settled_name {
                        let operations = sample.operations as f64;
                        let ops_per_s = operations / (operations / sample.ops_per_s + rest_s);
                        self.results.slices.push(result(name, Sample { ops_per_s, ..sample }));
                    }
                }
                answer => {
                    let what = format!(
                        "{database}-{}: {name} fails at {}: {answer:?}; its later rows are missing",
                        reads.name(),
                        row.name
                    );
                    *worker = None;
                    self.trouble(what);
                }
            }
        }
        self.compare(database, reads.name(), row, &answers);
    }

    /// A sequence of the steady state on every engine, each in a process of its own while no other
    /// runs.
    fn sequence(&mut self, number: usize, sequence: usize, round: usize) -> io::Result<()> {
        let (database, rows) = (&self.plan.databases[number], &self.plan.steady.sequences[sequence]);
        let bases: Vec<_> =
            self.kinds_for(database).iter().map(|kind| (kind.name(), self.base(*kind, database))).collect();
        let mut answers = vec![HashMap::new(); rows.len()];
        for turn in 0..bases.len() {
            let (engine, base) = bases[(round + turn) % bases.len()].clone();
            let copy = self.dir.join(format!("steady-{}", engine.replace(' ', "-")));
            remove_if_there(&copy)?;
            let question =
                Question::Sequence { database: number, sequence, round: 1 + round as u64, base, copy: copy.clone() };
            match ask_once(engine, &question) {
                Ok(Answer::Sequenced(given)) => {
                    for ((row, answers), (sample, marks)) in rows.iter().zip(&mut answers).zip(given) {
                        eprintln!(
                            "{}-{STEADY}: {}: {engine}: {:.0} operations/s",
                            database.name, row.name, sample.ops_per_s
                        );
                        answers.insert(engine, marks);
                        self.results.slices.push(SliceResult {
                            database: database.name.to_owned(),
                            reads: STEADY.to_owned(),
                            row: row.name.to_owned(),
                            threads: row.threads,
                            engine: engine.to_owned(),
                            round,
                            sample,
                        });
                    }
                }
                answer => {
                    remove_if_there(&copy)?;
                    self.trouble(format!("{}-{STEADY}: {engine} fails at {}: {answer:?}", database.name, rows[0].name));
                }
            }
        }
        rows.iter().zip(&answers).for_each(|(row, answers)| self.compare(database.name, STEADY, row, answers));
        eprintln!("{}-{STEADY}: {}: round {} of {}", database.name, rows[0].name, round + 1, self.plan.rounds);
        Ok(())
    }

    fn compare(&mut self, database: &str, reads: &str, row: &Row, answers: &HashMap<&str, Vec<Marks>>) {
        if let Some((one, other)) = differing(answers).filter(|_| row.is_comparable()) {
            self.trouble(format!("{database}-{reads}/{}: ANSWERS DIFFER between {one} and {other}", row.name));
        }
    }

    fn trouble(&mut self, what: String) {
        eprintln!("beside: {what}");
        self.results.circumstances.troubles.push(what);
    }
}

fn ask_once(engine: &str, question: &Question) -> io::Result<Answer> {
    Worker::start(engine)?.ask(question)
}

/// The file that says that all of it was loaded.
fn complete(base: &Path) -> PathBuf {
    base.with_extension("complete")
}

pub(crate) fn remove_if_there(dir: &Path) -> io::Result<()> {
    if dir.exists() { fs::remove_dir_all(dir) } else { Ok(()) }
}

/// Two engines that found different things, as far as both came.
fn differing<'a>(answers: &HashMap<&'a str, Vec<Marks>>) -> Option<(&'a str, &'a str)> {
    let (first, threads) = answers.iter().next()?;
    let differs = |(one, other): (&Marks, &Marks)| one.iter().zip(other).any(|(one, other)| one != other);
    let different = answers.iter().find(|(_, others)| threads.iter().zip(*others).any(differs));
    different.map(|(other, _)| (*first, *other))
}

impl Results {
    fn new(plan: &Plan, settings: &Settings) -> Self {
        let facts = |database: &Database| DatabaseFacts {
            name: database.name.to_owned(),
            title: database.title.to_owned(),
            entries: database.data.entries,
            key_bytes: database.data.key_bytes(),
            value_bytes: database.data.value_bytes,
            bytes: database.data.bytes(),
            buffer_bytes: database.buffer_bytes,
            cache_bytes: Reads::ALL.map(|reads| database.place(reads, false).cache_bytes),
            steady_cache_bytes: database.steady_cache_bytes,
        };
        Self {
            circumstances: Circumstances::now(&settings.dir, &settings.command, plan.rounds),
            slice_ms: plan.slice.as_millis() as u64,
            steady_warm_s: plan.steady.warm.as_secs(),
            steady_s: plan.steady.measured.as_secs(),
            databases: plan.databases.iter().map(facts).collect(),
            engines: stores::all()
                .iter()
                .map(AsRef::as_ref)
                .filter(|kind| settings.engines.wants(kind.name()))
                .map(EngineFacts::new)
                .collect(),
            loads: Vec::new(),
            opened: Vec::new(),
            slices: Vec::new(),
        }
    }
}

/// The settings that the words ask for.
pub fn settings(words: &Words) -> Settings {
    Settings {
        dir: words.dir(),
        keep: words.flag("keep"),
        engines: words.list("engines"),
        only: words.list("only"),
        command: words.command("beside"),
    }
}
