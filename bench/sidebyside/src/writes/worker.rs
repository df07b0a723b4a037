//! One store in a process of its own: what `writes` asks it, and its answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::machine;
use common::numbers::{half_noise, noise};
use serde::{Deserialize, Serialize};

use super::beside_load::gets_beside_puts;
use super::plan::{Plan, READS, Speed, Work};
use super::sample::{Latencies, Reads, Sample};
use super::series;
use crate::beside::remove_if_there;
use crate::check::check;
use crate::data::{Data, Random};
use crate::drive::{Access, Done, Driven, drive};
use crate::load;
use crate::process::answer_all;
use crate::stores::{Compression, Kind, Seen, Store};

/// A request to a worker. Databases and rows are numbers in the plan, which both sides make from
/// the same arguments.
#[derive(Serialize, Deserialize, Debug)]
pub enum Question {
    /// One row. A load makes the database in `dir` anew; other rows load it if there is none.
    Row { database: usize, row: usize, round: u64, dir: PathBuf },
    /// Compare a sample of all answers with what was put, byte for byte, and close.
    Check,
}

/// What it answers.
#[derive(Serialize, Deserialize, Debug)]
pub enum Answer {
    Sampled(Box<Sample>),
    Checked,
}

/// Answers until nothing is asked any more. `engine` is a name of a kind of stores.
pub fn serve(engine: &str, plan: &Plan) -> io::Result<()> {
    let kinds = plan.kinds();
    let kind = kinds.iter().find(|kind| kind.name() == engine).expect("the asking side knows the same engines");
    let noise = if plan.compression == Compression::None { noise() } else { half_noise() };
    // Of gets beside a load at full speed: the round, and puts per second.
    let (mut open, mut full_speed) = (None::<Open>, None::<(u64, f64)>);
    answer_all(|question| {
        Ok(match question {
            Question::Row { database, row, round, dir } => {
                let (data, work) = (plan.databases[database], plan.rows[row].work);
                let empty = || Open::empty(plan, kind.as_ref(), data, &dir);
                if open.is_none() && !work.begins_empty() {
                    open.insert(empty()?).write(&noise, Work::Load { threads: 1 }, 0)?;
                }
                let seed = round * plan.rows.len() as u64 + row as u64;
                // A row at half speed that is asked for alone has to find out what half is.
                let is_half = work == Work::GetsBesideLoad { speed: Speed::Half };
                if is_half && full_speed.is_none_or(|(of, _)| of != round) {
                    drop(open.take());
                    let sample = open.insert(empty()?).gets_beside_load(&noise, None, seed)?;
                    full_speed = Some((round, sample.client_ops_per_s()));
                }
                if work.begins_empty() {
                    drop(open.take());
                    open = Some(empty()?);
                }
                let open = open.as_mut().expect("it was just opened");
                machine::settle();
                Answer::Sampled(Box::new(match work {
                    Work::FirstGets => open.first_gets(&noise, seed)?,
                    Work::AbsentGets => open.absent_gets(seed)?,
                    Work::GetsBesideLoad { speed: Speed::Full } => {
                        let sample = open.gets_beside_load(&noise, None, seed)?;
                        full_speed = Some((round, sample.client_ops_per_s()));
                        sample
                    }
                    Work::GetsBesideLoad { speed: Speed::Half } => {
                        open.gets_beside_load(&noise, full_speed.map(|(_, rate)| rate / 2.0), seed)?
                    }
                    Work::Load { .. } | Work::Overwrite { .. } | Work::Updates => open.write(&noise, work, seed)?,
                }))
            }
            Question::Check => {
                let Open { store, data, .. } = open.take().expect("a row came before");
                check(store.expect("it is open").as_ref(), kind.name(), &data, &data.sorted(), &noise);
                Answer::Checked
            }
        })
    })
}

/// A store that is measured.
struct Open<'a> {
    plan: &'a Plan,
    kind: &'a dyn Kind,
    data: Data,
    dir: PathBuf,
    /// None only while it is opened again.
    store: Option<Box<dyn Store>>,
}

impl<'a> Open<'a> {
    fn empty(plan: &'a Plan, kind: &'a dyn Kind, data: Data, dir: &Path) -> io::Result<Self> {
        remove_if_there(dir)?;
        fs::create_dir_all(dir)?;
        let store = Some(kind.open(dir, &plan.place(data)));
        Ok(Self { plan, kind, data, dir: dir.to_owned(), store })
    }

    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("it is open")
    }

    /// Works through a row that writes, and waits until all is settled.
    fn write(&mut self, noise: &[u8], work: Work, seed: u64) -> io::Result<Sample> {
        let (store, data) = (self.store(), self.data);
        let operations = self.plan.operations(&data, work);
        let share = |thread| share(&data, work, operations, seed, thread);
        let drive = |done: &[Done]| (drive(store, &data, noise, share, done), ());
        self.settled(work.threads(), operations, drive).map(|(sample, ())| sample)
    }

    /// Loads half of the entries and the other half, which alone is measured, at a rate if one is
    /// given, with gets beside it.
    fn gets_beside_load(&mut self, noise: &[u8], puts_per_s: Option<f64>, seed: u64) -> io::Result<Sample> {
        let (store, data) = (self.store(), self.data);
        let half = data.entries / 2;
        load::fill(store, &data, noise, 0..half, 1);
        store.flush();
        store.settle();
        machine::settle();
        let operations = data.entries - half;
        let (mut sample, gets) = self.settled(1, operations, |done| {
            gets_beside_puts(store, &data, noise, half..data.entries, puts_per_s, seed, &done[0])
        })?;
        sample.gets = Latencies::of(&gets.gets);
        sample.gets_beside_per_s = Some(gets.gets.samples() as f64 / gets.seconds);
        sample.background_cpu_s = (sample.background_cpu_s - gets.cpu_ns as f64 / 1e9).max(0.0);
        Ok(sample)
    }

    /// Takes a sample of what `drive` does by `threads` that put, and until all is settled. Also
    /// returns what else `drive` returns.
    fn settled<T>(
        &self,
        threads: usize,
        operations: u64,
        drive: impl FnOnce(&[Done]) -> (Driven, T),
    ) -> io::Result<(Sample, T)> {
        if !self.kind.has_direct_io() && self.plan.direct_io {
            // Its reads would begin in the page cache, which others pass by.
            self.store().evict(&self.dir)?;
        }
        let (store, data, dir) = (self.store(), self.data, &self.dir);
        let (entry_bytes, done, over) = (data.bytes() / data.entries, Done::of(threads), AtomicBool::new(false));
        let before = Taken::now(store);
        let began = Instant::now();
        let ((driven, more), settled_s, series) = thread::scope(|scope| {
            let sampler = scope.spawn(|| series::sample(store, dir, &done, entry_bytes, &over));
            let driven = drive(&done);
            store.flush();
            let only_to_be_sure = store.settle();
            let settled_s = (began.elapsed() - only_to_be_sure).as_secs_f64();
            over.store(true, Ordering::Relaxed);
            (driven, settled_s, sampler.join().expect("a failure to sample ends the measurement"))
        });
        let mut sample = self.sample(&before, operations, &driven);
        sample.settled_s = settled_s;
        sample.put_bytes = driven.puts.samples() * entry_bytes;
        // What is too coarse to tell anything is not told.
        sample.table_bytes = sample.table_bytes.filter(|_| 10 * store.table_bytes_rounding() <= sample.put_bytes);
        sample.series = series;
        Ok((sample, more))
    }

    /// The first gets after opening.
    fn first_gets(&mut self, noise: &[u8], seed: u64) -> io::Result<Sample> {
        self.store = None;
        machine::settle();
        machine::evict(&self.dir)?;
        let began = Instant::now();
        self.store = Some(self.kind.open(&self.dir, &self.plan.place(self.data)));
        let open_ms = began.elapsed().as_secs_f64() * 1e3;
        let (store, data, mut random) = (self.store(), self.data, Random::new(seed));
        let (before, cost) = (Taken::now(store), cost_of_counting(store));
        let (mut driven, mut each_ns, mut each_reads) = (Driven::default(), Vec::new(), Vec::new());
        let began = Instant::now();
        for _ in 0..self.plan.operations(&data, Work::FirstGets) {
            let number = random.below(data.entries);
            let (key, mut seen, mut expected) = (data.key(number), Seen::default(), Seen::default());
            let (reads, began) = (store.file_reads(), Instant::now());
            store.get(&key, &mut seen);
            let latency = began.elapsed();
            let reads = store.file_reads().zip(reads).map(|(after, before)| (after - before).saturating_sub(cost));
            expected.value(data.value(noise, number));
            assert_eq!(seen, expected, "{} gets entry {number} after opening", self.kind.name());
            driven.gets.note(latency);
            each_ns.push(latency.as_nanos() as u64);
            each_reads.extend(reads);
        }
        driven.seconds = began.elapsed().as_secs_f64();
        let mut sample = self.sample(&before, each_ns.len() as u64, &driven);
        let reads = store.file_reads().map(|_| each_reads.iter().sum());
        sample.reads = Some(Reads { blocks: before.blocks_since(store), reads, open_ms, each_ns, each_reads });
        Ok(sample)
    }

    fn absent_gets(&mut self, seed: u64) -> io::Result<Sample> {
        let (store, data, mut random) = (self.store(), self.data, Random::new(seed));
        let operations = self.plan.operations(&data, Work::AbsentGets);
        let keys = (0..operations).map(|_| data.key(data.entries + random.below(data.entries))).collect::<Vec<_>>();
        let (before, cost) = (Taken::now(store), cost_of_counting(store));
        let reads = store.file_reads();
        let (mut driven, mut seen) = (Driven::default(), Seen::default());
        let (cpu_ns, began) = (machine::thread_cpu_ns(), Instant::now());
        let mut last = began;
        for key in &keys {
            store.get(key, &mut seen);
            let now = Instant::now();
            driven.gets.note(now - last);
            last = now;
        }
        driven.seconds = (last - began).as_secs_f64();
        driven.cpu_ns = machine::thread_cpu_ns() - cpu_ns;
        assert_eq!(seen.entries, 0, "{} finds what was not put", self.kind.name());
        let reads = store.file_reads().zip(reads).map(|(after, before)| (after - before).saturating_sub(cost));
        let blocks = before.blocks_since(store);
        let mut sample = self.sample(&before, operations, &driven);
        let (each_ns, each_reads) = (Vec::new(), Vec::new());
        sample.reads = Some(Reads { blocks, reads, open_ms: 0.0, each_ns, each_reads });
        Ok(sample)
    }

    /// What was taken since `before`. The row adds what only it knows.
    fn sample(&self, before: &Taken, operations: u64, driven: &Driven) -> Sample {
        let (store, io) = (self.store(), machine::io());
        let client_cpu_s = driven.cpu_ns as f64 / 1e9;
        let table_bytes = store.table_bytes_written().zip(before.table_bytes);
        Sample {
            operations,
            put_bytes: 0,
            client_s: driven.seconds,
            settled_s: driven.seconds,
            puts: Latencies::of(&driven.puts),
            gets: Latencies::of(&driven.gets),
            gets_beside_per_s: None,
            client_cpu_s,
            background_cpu_s: ((machine::process_cpu_us() - before.cpu_us) / 1e6 - client_cpu_s).max(0.0),
            table_bytes: table_bytes.map(|(after, before)| after.saturating_sub(before)),
            written_bytes: io.written_bytes - before.io.written_bytes,
            device_bytes: io.read_bytes - before.io.read_bytes,
            reads: None,
            space_bytes: machine::allocated_bytes(&self.dir),
            peak_memory_bytes: machine::peak_memory_bytes(),
            tree: store.tree(),
            series: Vec::new(),
        }
    }
}

/// What the process and the store had taken at a moment.
struct Taken {
    io: machine::Io,
    cpu_us: f64,
    table_bytes: Option<u64>,
    blocks: Option<u64>,
}

impl Taken {
    fn now(store: &dyn Store) -> Self {
        let (table_bytes, blocks) = (store.table_bytes_written(), store.block_counts());
        Self { io: machine::io(), cpu_us: machine::process_cpu_us(), table_bytes, blocks }
    }

    fn blocks_since(&self, store: &dyn Store) -> Option<u64> {
        store.block_counts().zip(self.blocks).map(|(after, before)| after - before)
    }
}

/// Reads that asking for the number of reads takes by itself.
fn cost_of_counting(store: &dyn Store) -> u64 {
    thread::sleep(Duration::from_millis(10));
    let before = store.file_reads();
    store.file_reads().zip(before).map_or(0, |(after, before)| after - before)
}

/// The work of one thread.
fn share(
    data: &Data,
    work: Work,
    operations: u64,
    seed: u64,
    thread: usize,
) -> Box<dyn Iterator<Item = (Access, u64)>> {
    let (entries, threads) = (data.entries, work.threads());
    let own = (0..operations).skip(thread).step_by(threads);
    let mut random = Random::new(seed * 64 + thread as u64);
    match work {
        Work::Load { .. } => Box::new(own.map(|n| (Access::Put, n))),
        Work::Updates => Box::new(own.map(move |_| {
            let access = if random.below(100) < READS { Access::Get } else { Access::Put };
            (access, random.below(entries))
        })),
        _ => Box::new(own.map(move |_| (Access::Put, random.below(entries)))),
    }
}
