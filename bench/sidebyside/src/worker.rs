//! One store in a [process](crate::process) of its own: what `beside` asks it, and its answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::noise;
use serde::{Deserialize, Serialize};
use tamarack_env::histogram::Histogram;

use crate::check::check;
use crate::load;
use crate::plan::{Database, Plan, Reads};
use crate::process::answer_all;
use crate::rows::{Keys, Maker, Row, Work};
use crate::slice::{Bench, Marks, Sample, Times};
use crate::stores::{self, Kind, Place, Store};

/// A request to a worker. Databases and rows are numbers in the plan, which both sides make from
/// the same arguments.
#[derive(Serialize, Deserialize, Debug)]
pub enum Question {
    /// Load a database in an empty directory.
    Load { database: usize, threads: usize, dir: PathBuf },
    /// Open a copy of a database, and warm its caches.
    Open { database: usize, direct: bool, base: PathBuf, copy: PathBuf },
    /// One slice of a row.
    Slice { row: usize, round: u64 },
    /// Close what is open.
    Close,
    /// Open a copy of a database, and close it after the rows of a sequence of the steady state.
    Sequence { database: usize, sequence: usize, round: u64, base: PathBuf, copy: PathBuf },
}

/// What it answers.
#[derive(Serialize, Deserialize, Debug)]
pub enum Answer {
    Loaded(Loaded),
    Opened {
        tree: String,
    },
    /// And how long it took after the slice until nothing was merged.
    Sliced {
        sample: Sample,
        marks: Vec<Marks>,
        rest_s: f64,
    },
    /// What each row gave.
    Sequenced(Vec<(Sample, Vec<Marks>)>),
    Closed(Closed),
}

/// What loading took.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Loaded {
    /// Entries per second, until all is settled.
    pub ops_per_s: f64,
    /// Seconds until the last put returned, and until all was settled.
    pub put_s: f64,
    pub settled_s: f64,
    pub p99_ns: u64,
    pub written_bytes: u64,
    /// Of the directory, after the store was closed.
    pub allocated_bytes: u64,
    pub peak_memory_bytes: u64,
    pub tree: String,
}

/// What a store had taken when it was closed.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Closed {
    pub tree: String,
    pub allocated_bytes: u64,
    pub peak_memory_bytes: u64,
}

/// Answers until nothing is asked any more. `engine` is a name of a kind of stores.
pub fn serve(engine: &str, plan: &Plan) -> io::Result<()> {
    let kinds = stores::all();
    let kind = kinds.iter().find(|kind| kind.name() == engine).expect("the asking side knows the same engines");
    let (noise, mut open) = (noise(), None::<Open>);
    answer_all(|question: Question| {
        Ok(match question {
            Question::Load { database, threads, dir } => {
                Answer::Loaded(load_all(kind.as_ref(), &plan.databases[database], threads, &dir, &noise)?)
            }
            Question::Open { database, direct, base, copy } => {
                let (database, reads) = (&plan.databases[database], if direct { Reads::Direct } else { Reads::Cached });
                let mut opened = Open::new(kind.as_ref(), database, &database.place(reads, false), &base, copy)?;
                opened.warm(&noise)?;
                let tree = opened.store.tree();
                open = Some(opened);
                Answer::Opened { tree }
            }
            Question::Slice { row, round } => {
                let open = open.as_mut().expect("it is opened before");
                // No slice asks for what another has just asked for.
                let seed = round * plan.rows.len() as u64 + row as u64;
                open.slice(&plan.rows[row], seed, plan.slice, &noise)?
            }
            Question::Close => Answer::Closed(open.take().expect("it is opened before").close()?),
            Question::Sequence { database, sequence, round, base, copy } => {
                let database = &plan.databases[database];
                let place = database.steady_place().expect("its steady state is measured");
                let opened = Open::new(kind.as_ref(), database, &place, &base, copy)?;
                let seed = round * plan.steady.sequences.len() as u64 + sequence as u64;
                let rows: Vec<_> = plan.steady.times(&plan.steady.sequences[sequence]).collect();
                let answer = opened.sequence(&rows, seed, &noise)?;
                opened.close()?;
                answer
            }
        })
    })
}

fn load_all(kind: &dyn Kind, database: &Database, threads: usize, dir: &Path, noise: &[u8]) -> io::Result<Loaded> {
    fs::create_dir_all(dir)?;
    let place = database.place(Reads::Cached, true);
    let store = kind.open(dir, &place);
    let (data, runs, began, io) = (&database.data, database.runs, Instant::now(), machine::io());
    let (mut put_s, mut latencies) = (0.0, Histogram::default());
    for run in 0..runs {
        let numbers = data.entries * run / runs..data.entries * (run + 1) / runs;
        let (seconds, run_latencies) = load::fill(store.as_ref(), data, noise, numbers, threads);
        put_s += seconds;
        latencies.add(&run_latencies);
        store.flush();
    }
    let only_to_be_sure = store.settle();
    let settled_s = (began.elapsed() - only_to_be_sure).as_secs_f64();
    let (tree, peak_memory_bytes) = (store.tree(), machine::peak_memory_bytes());
    let written_bytes = machine::io().written_bytes - io.written_bytes;
    store.assert_tree(&place, runs);
    check(store.as_ref(), kind.name(), data, &data.sorted(), noise);
    drop(store);
    machine::settle();
    let allocated_bytes = machine::allocated_bytes(dir);
    let ops_per_s = data.entries as f64 / settled_s;
    Ok(Loaded {
        ops_per_s,
        put_s,
        settled_s,
        p99_ns: latencies.percentile_ns(990),
        written_bytes,
        allocated_bytes,
        peak_memory_bytes,
        tree,
    })
}

/// A store that is measured.
struct Open {
    store: Box<dyn Store>,
    database: Database,
    reads: Reads,
    /// Its files must be taken out of the page cache.
    evicts: bool,
    maker: Maker,
    dir: PathBuf,
}

impl Open {
    fn new(kind: &dyn Kind, database: &Database, place: &Place, base: &Path, dir: PathBuf) -> io::Result<Self> {
        load::copy(base, &dir)?;
        machine::settle();
        let store = kind.open(&dir, place);
        let reads = if place.direct_io { Reads::Direct } else { Reads::Cached };
        let evicts = place.direct_io && !kind.has_direct_io();
        Ok(Self { store, database: database.clone(), reads, evicts, maker: Maker::new(database.data), dir })
    }

    /// Fills the cache.
    fn warm(&mut self, noise: &[u8]) -> io::Result<()> {
        match self.reads {
            Reads::Cached => self.touch_everything(),
            Reads::Direct => {
                let skewed = Row::new("warming", Keys::Zipfian, &[(100, crate::rows::Operation::Get)]);
                self.slice(&skewed, 0, Duration::from_secs(1), noise)?;
            }
        }
        Ok(())
    }

    /// Looks up keys close enough to each other that every block of every run is needed for one of
    /// them.
    fn touch_everything(&self) {
        let (data, block_bytes) = (&self.database.data, stores::BLOCK_BYTES as u64);
        let a_block_holds = block_bytes / (data.key_bytes() + data.value_bytes) as u64;
        let looks = data.entries * 4 / a_block_holds;
        let mut seen = stores::Seen::default();
        for n in 0..looks {
            let digits = (u128::from(n) << 64) / u128::from(looks);
            let key = format!("{}{digits:016x}", data.prefix);
            self.store.scan(key.as_bytes(), 1, false, &mut seen);
        }
    }

    fn slice(&mut self, row: &Row, seed: u64, time: Duration, noise: &[u8]) -> io::Result<Answer> {
        if self.evicts {
            self.store.evict(&self.dir)?;
        }
        let time = time * row.longer;
        let works = self.maker.slice(row, seed, self.reads.most_operations(time));
        let data = &self.database.data;
        let (sample, ran) = self.bench(noise).run(row, &works, Times { warm: Duration::ZERO, measured: time });
        let done: Vec<usize> = ran.iter().map(|ran| ran.operations).collect();
        for number in self.maker.missing(&works, &done) {
            self.store.put(&data.key(number), data.value(noise, number));
        }
        let began = Instant::now();
        let only_to_be_sure = if row.writes() { self.store.rest() } else { Duration::ZERO };
        let rest_s = (began.elapsed().saturating_sub(only_to_be_sure)).as_secs_f64();
        Ok(Answer::Sliced { sample, marks: ran.into_iter().map(|ran| ran.marks).collect(), rest_s })
    }

    /// Rows right after each other: all of their work is made before the first.
    fn sequence(&self, rows: &[(&Row, Times)], seed: u64, noise: &[u8]) -> io::Result<Answer> {
        if self.evicts {
            self.store.evict(&self.dir)?;
        }
        let make = |((row, times), place): (&(&Row, Times), u64)| {
            let operations = self.reads.most_operations(times.warm + times.measured);
            self.maker.slice(row, seed * rows.len() as u64 + place, operations)
        };
        let works: Vec<_> = rows.iter().zip(0..).map(make).collect();
        let run = |((row, times), works): (&(&Row, Times), &Vec<Work>)| {
            let (sample, ran) = self.bench(noise).run(row, works, *times);
            (sample, ran.into_iter().map(|ran| ran.marks).collect())
        };
        Ok(Answer::Sequenced(rows.iter().zip(&works).map(run).collect()))
    }

    fn bench<'a>(&'a self, noise: &'a [u8]) -> Bench<'a> {
        let (data, direct_io) = (&self.database.data, self.reads == Reads::Direct);
        Bench { store: self.store.as_ref(), data, noise, direct_io }
    }

    fn close(self) -> io::Result<Closed> {
        self.store.flush();
        self.store.settle();
        let (tree, peak_memory_bytes) = (self.store.tree(), machine::peak_memory_bytes());
        drop(self.store);
        machine::settle();
        let allocated_bytes = machine::allocated_bytes(&self.dir);
        fs::remove_dir_all(&self.dir)?;
        Ok(Closed { tree, allocated_bytes, peak_memory_bytes })
    }
}
