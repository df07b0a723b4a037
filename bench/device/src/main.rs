//! Cost of random reads of 4 KiB on a device: single and in batches, through the page cache and
//! past it, one by one, by threads and by io_uring.
//!
//! `cargo run --release -p device [DIRECTORY [FILE_MIB [READS]]]` writes a file of FILE_MIB (2048)
//! below the directory (`.`), measures READS (3000) reads in each way, in rounds that take turns,
//! prints a table and removes the file. The content is pseudorandom, so no device can compress it.
//! "Through the page cache" is cold: pages are dropped before each round.
//!
//! Latency is that of one call, which reads a whole batch. Processor time is that of the process:
//! all threads, kernel included. What a virtual machine's host does for a read shows only as far as
//! it stops the guest.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use common::machine::process_cpu_us;
use common::reads::DiscardedReads;
use tamarack_env::{Access, AlignedBuffer, Batching, Env, File, OsEnv, Random, ReadRequest, Step, TempDir};

use registered::Registered;

mod registered;

const BLOCK_BYTES: usize = 4096;
const BATCH_MAX: usize = 100;
const ROUNDS: usize = 5;
const STEP: Step = Step("measure");

/// Reads a block at each of these offsets.
type Read = dyn FnMut(&[u64]) -> io::Result<()>;

/// One line of the table.
struct Row {
    name: String,
    batch: usize,
    /// Drops the file's pages first.
    is_cold: bool,
    read: Box<Read>,
    /// Of single calls, in microseconds.
    latencies_us: Vec<f64>,
    cpu_us: f64,
    seconds: f64,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".into());
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (mib, reads) = (number(2048), number(3000));

    let scratch = TempDir::below(Path::new(&directory))?;
    let path = scratch.path().join("data");
    write(&path, mib)?;
    let blocks = mib << 20 >> 12;
    let mut rows = rows(&path)?;
    let random = Random::new(1);
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.measure(&path, &random, blocks, (reads as usize / ROUNDS / row.batch).max(4))?;
        }
    }
    println!("best way of batching here: {:?}; random reads of 4 KiB from {mib} MiB", Batching::best());
    println!("| way | reads at once | p50, µs | p99, µs | processor time per read, µs | reads/s |");
    println!("|---|---:|---:|---:|---:|---:|");
    rows.iter_mut().for_each(Row::print);
    Ok(())
}

/// Fills a file with random bytes and syncs it.
fn write(path: &Path, mib: u64) -> io::Result<()> {
    let (file, random) = (OsEnv::new().create(path, STEP)?, Random::new(0));
    let mut piece = vec![0; 1 << 20];
    for number in 0..mib {
        piece.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
        file.write_all_at(&piece, number << 20, STEP)?;
    }
    file.sync(STEP)
}

fn rows(path: &Path) -> io::Result<Vec<Row>> {
    let open = |access| OsEnv::new().open(path, access);
    let direct = open(Access::ReadDirect)?;
    match direct.direct_alignment() {
        Some(alignment) => println!("direct reads: alignment {alignment} bytes"),
        None => println!("direct reads do not work here: all rows go through the page cache"),
    }
    let mut rows = vec![
        single("read_at, through the page cache", true, open(Access::Read)?, 0),
        single("read_at, direct, aligned", false, direct.clone(), 0),
        single("read_at, direct, not aligned", false, direct.clone(), 1),
    ];
    for is_registered in [false, true] {
        let name = if is_registered { "io_uring, file and memory registered" } else { "io_uring, nothing registered" };
        for batch in [1, 10, BATCH_MAX] {
            let Ok(mut ring) = Registered::new(direct.clone(), is_registered) else { continue };
            rows.push(Row::new(name, batch, false, move |offsets| ring.read(offsets)));
        }
    }
    for batch in [10, BATCH_MAX] {
        for batching in [Batching::OneByOne, Batching::Threads, Batching::Rings] {
            for (name, access, shift) in [
                ("through the page cache", Access::Read, 0),
                ("direct, aligned", Access::ReadDirect, 0),
                ("direct, not aligned", Access::ReadDirect, 1),
            ] {
                if batching == Batching::Threads && access == Access::Read {
                    continue; // Done one by one.
                }
                let env = OsEnv::with_batching(batching);
                let file = env.open(path, access)?;
                rows.push(batched(&format!("{batching:?}, {name}"), batch, access == Access::Read, env, file, shift));
            }
        }
    }
    Ok(rows)
}

/// One read at a time, `shift` bytes beside the block's border, both in the file and in memory.
fn single(name: &str, is_cold: bool, file: Arc<dyn File>, shift: usize) -> Row {
    let mut memory = AlignedBuffer::zeroed(BLOCK_BYTES + shift);
    Row::new(name, 1, is_cold, move |offsets| {
        offsets.iter().try_for_each(|offset| file.read_exact_at(&mut memory[shift..], offset + shift as u64))
    })
}

/// Whole batches through the environment.
fn batched(name: &str, batch: usize, is_cold: bool, env: Arc<dyn Env>, file: Arc<dyn File>, shift: usize) -> Row {
    Row::new(name, batch, is_cold, move |offsets| {
        let request = |offset| ReadRequest { file: file.clone(), offset: offset + shift as u64, bytes: BLOCK_BYTES };
        let mut reads = DiscardedReads::new(offsets.iter().map(|&offset| request(offset)));
        env.read_queue(&mut reads);
        reads.outcome
    })
}

impl Row {
    fn new(name: &str, batch: usize, is_cold: bool, read: impl FnMut(&[u64]) -> io::Result<()> + 'static) -> Self {
        let (latencies_us, cpu_us, seconds) = (Vec::new(), 0.0, 0.0);
        Self { name: name.into(), batch, is_cold, read: Box::new(read), latencies_us, cpu_us, seconds }
    }

    /// One round.
    fn measure(&mut self, path: &Path, random: &Random, blocks: u64, calls: usize) -> io::Result<()> {
        if self.is_cold {
            rustix::fs::fadvise(std::fs::File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        // The last block of the file is left out, since reads may be shifted.
        let draw = || (0..self.batch).map(|_| random.below(blocks - 1) * BLOCK_BYTES as u64).collect::<Vec<_>>();
        (self.read)(&draw())?; // Makes threads and buffers.
        let (cpu, start) = (process_cpu_us(), Instant::now());
        for _ in 0..calls {
            let offsets = draw();
            let called = Instant::now();
            (self.read)(&offsets)?;
            self.latencies_us.push(called.elapsed().as_secs_f64() * 1e6);
        }
        self.seconds += start.elapsed().as_secs_f64();
        self.cpu_us += process_cpu_us() - cpu;
        Ok(())
    }

    fn print(&mut self) {
        self.latencies_us.sort_by(f64::total_cmp);
        let quantile = |share: f64| self.latencies_us[((self.latencies_us.len() - 1) as f64 * share) as usize];
        let reads = (self.latencies_us.len() * self.batch) as f64;
        println!(
            "| {} | {} | {:.0} | {:.0} | {:.1} | {:.0} |",
            self.name,
            self.batch,
            quantile(0.5),
            quantile(0.99),
            self.cpu_us / reads,
            reads / self.seconds
        );
    }
}
