//! Cost of lookups and scans that miss the block cache, in a tree of about ten runs with direct
//! I/O, beside bare reads of the same files.
//!
//! `cargo run --release -p reads [DIRECTORY [MIB [NAME [ROUNDS]]]]` loads MIB (512) of entries of 1
//! KiB in random order below the directory (`.`), measures all operations, or those whose names
//! contain NAME, in ROUNDS (5) rounds that take turns, prints a table, and removes the files.
//! Values are random bytes and nothing is compressed. The cache holds the index blocks and about a
//! hundredth of the data.
//!
//! Latency is that of one operation. Processor time is that of the process: all threads, kernel
//! included; compactions are paused.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use common::machine::process_cpu_us;
use common::reads::DiscardedReads;
use tamarack::{AdvancedOptions, Compression, Db, Options, ReaderStats};
use tamarack_env::{Access, AlignedBuffer, File, OsEnv, Random, ReadRequest, TempDir};

const BLOCK_BYTES: u64 = 4096;
const VALUE_BYTES: usize = 1000;
const RUNS: u64 = 10;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// One line of the table.
struct Row {
    name: &'static str,
    /// How often in a round.
    count: usize,
    operation: Box<dyn Fn(&Random) -> Outcome>,
    latencies_us: Vec<f64>,
    cpu_us: f64,
    read: ReaderStats,
}

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".into());
    let mib: u64 = arguments.next().map_or(512, |text| text.parse().expect("a number"));
    let scratch = TempDir::below(Path::new(&directory))?;
    let dir = scratch.path().join("db");
    let keys = (mib << 20) / 1024;

    let advanced = AdvancedOptions::new()
        .policy("tiering:T=100")
        .memtable_bytes((mib << 20) / RUNS)
        .block_bytes(BLOCK_BYTES as usize);
    let advanced = advanced.cache_bytes((mib << 20) / 64).direct_io(true);
    let options = Options::new().memory_bytes(512 << 20).compression(Compression::None).advanced(advanced);
    load(&options.open(&dir)?, keys)?;
    let db = options.open(&dir)?;
    let _pause = db.pause_compactions();
    let runs: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
    let files = tables(&dir)?;
    let only = arguments.next().unwrap_or_default();
    let rounds = arguments.next().map_or(5, |text| text.parse().expect("a number"));
    let mut rows = rows(&db, files, keys);
    rows.retain(|row| row.name.contains(&only));
    let random = Random::new(2);
    for round in 0..=rounds {
        // The first round warms up: tables are opened, and index blocks come into the cache.
        rows.iter_mut().try_for_each(|row| row.measure(&db, &random, round > 0))?;
    }
    println!("{runs} runs, {mib} MiB in entries of 1 KiB, uniform keys");
    println!("| operation | p10, µs | p50, µs | p90, µs | processor time, µs | reads | batches | KiB read |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    rows.iter_mut().for_each(Row::print);
    Ok(())
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key             ";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Every key once, in an order that scatters neighbours over all runs.
fn load(db: &Db, keys: u64) -> Outcome {
    let random = Random::new(1);
    let mut value = [0; VALUE_BYTES];
    let mut order: Vec<u64> = (0..keys).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    for number in order {
        value.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
        db.put(key(number), value)?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    db.rebuild_filters()?;
    db.clone().close()?;
    Ok(())
}

/// The tables' files, and how many whole blocks each has.
fn tables(dir: &Path) -> io::Result<Vec<(Arc<dyn File>, u64)>> {
    let env = OsEnv::new();
    let mut files = Vec::new();
    for name in env.list(dir)?.into_iter().filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "sst"))
    {
        let file = env.open(&dir.join(name), Access::ReadDirect)?;
        let blocks = file.len()? / BLOCK_BYTES;
        files.push((file, blocks));
    }
    println!("direct reads: alignment {:?} bytes", files.first().and_then(|(file, _)| file.direct_alignment()));
    files.retain(|(_, blocks)| *blocks > 0);
    Ok(files)
}

fn rows(db: &Db, files: Vec<(Arc<dyn File>, u64)>, keys: u64) -> Vec<Row> {
    let env = OsEnv::new();
    let batch = |count: usize| {
        let (env, files) = (env.clone(), files.clone());
        move |random: &Random| {
            let draw = || {
                let (file, blocks) = &files[random.below(files.len() as u64) as usize];
                ReadRequest {
                    file: file.clone(),
                    offset: random.below(*blocks) * BLOCK_BYTES,
                    bytes: BLOCK_BYTES as usize,
                }
            };
            let mut reads = DiscardedReads::new((0..count).map(|_| draw()));
            env.read_queue(&mut reads);
            Ok(reads.outcome?)
        }
    };
    let (ten, hundred) = (batch(10), batch(100));
    let bare = move |random: &Random| {
        let (file, blocks) = &files[random.below(files.len() as u64) as usize];
        let mut memory = AlignedBuffer::zeroed(BLOCK_BYTES as usize);
        Ok(file.read_exact_at(&mut memory, random.below(*blocks) * BLOCK_BYTES)?)
    };
    let draw = move |random: &Random, count: usize| (0..count).map(|_| key(random.below(keys))).collect::<Vec<_>>();
    let with = |operation: fn(&Db, &[[u8; 16]]) -> Outcome, count: usize| {
        let db = db.clone();
        move |random: &Random| operation(&db, &draw(random, count))
    };
    vec![
        Row::new("bare read of 4 KiB, aligned", 1000, bare),
        Row::new("10 of these at once", 300, ten),
        Row::new("100 of these at once", 20, hundred),
        Row::new("get", 1000, with(|db, keys| found(db.get(keys[0])?.is_some()), 1)),
        Row::new("seek, one entry", 300, with(|db, keys| found(db.scan(&keys[0][..]..).next().is_some()), 1)),
        Row::new(
            "seek backward, one entry",
            300,
            with(|db, keys| found(db.scan(..=&keys[0][..]).next_back().is_some()), 1),
        ),
        Row::new("scan of 100 entries", 100, with(|db, keys| found(db.scan(&keys[0][..]..).take(100).count() > 0), 1)),
        Row::new("100 gets", 20, with(|db, keys| keys.iter().try_for_each(|key| found(db.get(key)?.is_some())), 100)),
        Row::new("multi_get of 100", 20, with(|db, keys| found(db.multi_get(keys)?.iter().all(Option::is_some)), 100)),
    ]
}

fn found(is_there: bool) -> Outcome {
    if is_there { Ok(()) } else { Err("a key that was stored is not found".into()) }
}

impl Row {
    fn new(name: &'static str, count: usize, operation: impl Fn(&Random) -> Outcome + 'static) -> Self {
        let (latencies_us, cpu_us, read) = (Vec::new(), 0.0, ReaderStats::default());
        Self { name, count, operation: Box::new(operation), latencies_us, cpu_us, read }
    }

    /// One round.
    fn measure(&mut self, db: &Db, random: &Random, counts: bool) -> Outcome {
        let (cpu, before) = (process_cpu_us(), db.stats().reads);
        let mut latencies_us = Vec::with_capacity(self.count);
        for _ in 0..self.count {
            let began = Instant::now();
            (self.operation)(random)?;
            latencies_us.push(began.elapsed().as_secs_f64() * 1e6);
        }
        if counts {
            self.cpu_us += process_cpu_us() - cpu;
            self.latencies_us.append(&mut latencies_us);
            self.read += db.stats().reads.since(&before).total();
        }
        Ok(())
    }

    fn print(&mut self) {
        self.latencies_us.sort_by(f64::total_cmp);
        let quantile = |share: f64| self.latencies_us[((self.latencies_us.len() - 1) as f64 * share) as usize];
        let each = |number: f64| number / self.latencies_us.len() as f64;
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.1} | {:.2} | {:.2} | {:.1} |",
            self.name,
            quantile(0.1),
            quantile(0.5),
            quantile(0.9),
            each(self.cpu_us),
            each(self.read.reads as f64),
            each(self.read.batches as f64),
            each(self.read.bytes as f64 / 1024.0)
        );
    }
}
