//! What a get of an uncached entry takes beyond its read of the device: raw reads of 4 KiB from the
//! tables of a database, and gets that read one block each, in turns.
//!
//! ```sh
//! cargo run --release -p tamarack --example device_time -- DIRECTORY 2000000 21
//! ```
//!
//! The arguments are the directory of the database, the number of entries of 16 + 100 bytes, and
//! the number of rounds. A database that is already in the directory is used as it is, and stays.
//! All entries are in one run; index and filters are in memory, and the block cache has less than
//! half a percent of the data. All reads use direct I/O, where the file system has it: raw reads
//! have aligned offsets and memory. Blocks are not aligned, so a read of one returns up to two
//! sectors more; a raw read of that kind, of as many bytes at any offset, is shown as well.
//!
//! Prints the medians of each round, what a get takes above each kind of raw read, and the medians
//! of all rounds; the first column of differences compares with the device. Without arguments, it
//! makes a small database in a temporary directory.

#![expect(clippy::disallowed_methods, reason = "a program that measures what the machine does")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tamarack::{AdvancedOptions, Compression, Db, Options};
use tamarack_env::{Access, AlignedBuffer, File, OsEnv, Random, TempDir};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a raw read, and of a block.
const BLOCK_BYTES: usize = 4096;
/// Reads of each kind in one round, which take turns: half a second of a network disk.
const READS: usize = 1500;
/// Bytes of an entry.
const ENTRY_BYTES: u64 = 116;
/// Bytes of entries for each byte of the cache: hardly any get finds its block or its entry there.
const BYTES_PER_CACHE_BYTE: u64 = 256;
/// More than the index of 10 GiB of data.
const INDEX_BYTES: u64 = 64 << 20;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next();
    let (default_entries, default_rounds) = if dir.is_some() { (2_000_000, 21) } else { (20_000, 3) };
    let entries: u64 = arguments.next().map_or(default_entries, |text| text.parse().expect("how many entries"));
    let rounds: usize = arguments.next().map_or(default_rounds, |text| text.parse().expect("how many rounds"));
    let scratch = TempDir::new()?;
    let dir = dir.map_or(scratch.path().join("device_time"), Into::into);

    let db = database(&dir, entries)?;
    let runs: usize = db.stats().levels.iter().map(|level| level.runs.len()).sum();
    let tables = Tables::of(&dir)?;
    let get = |random: &Random| {
        assert!(black_box(db.get(key(random.below(entries)))?).is_some(), "every key is stored");
        Ok(())
    };
    let random = Random::new(2);
    // Also loads what the tables need for their first gets.
    let before = db.stats().reads.gets;
    (0..READS).try_for_each(|_| get(&random))?;
    let after = db.stats().reads.gets;
    let (reads, blocks) = ((after.reads - before.reads) as usize, after.blocks - before.blocks);
    let bytes = (after.bytes - before.bytes) as usize / reads;
    println!("{entries} entries, {runs} run: {READS} gets carried out {reads} reads of {bytes} bytes, {blocks} blocks");
    match tables.alignment() {
        Some(alignment) => println!("direct reads, aligned to {alignment} bytes"),
        None => println!("NO DIRECT READS in this directory: all reads come from the page cache"),
    }

    println!("medians in µs\nround | raw 4 KiB | raw unaligned |   get | above 4 KiB | above unaligned");
    let (mut block, mut unaligned_block) = (AlignedBuffer::zeroed(BLOCK_BYTES), vec![0; bytes]);
    let mut rows = [const { Vec::new() }; 5];
    for round in 1..=rounds {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..READS {
            times[0].push(us(|| tables.read(&mut block, BLOCK_BYTES as u64, &random))?);
            times[1].push(us(|| tables.read(&mut unaligned_block, 1, &random))?);
            times[2].push(us(|| get(&random))?);
        }
        let [aligned, unaligned, get] = times.map(median);
        let row = [aligned, unaligned, get, get - aligned, get - unaligned];
        print(&round.to_string(), row);
        rows.iter_mut().zip(row).for_each(|(values, value)| values.push(value));
    }
    print("all", rows.map(median));
    Ok(())
}

fn print(round: &str, [aligned, unaligned, get, above, above_unaligned]: [f64; 5]) {
    println!("{round:>5} | {aligned:9.1} | {unaligned:13.1} | {get:5.1} | {above:11.1} | {above_unaligned:15.1}");
}

/// The database in `dir`, in one run; it is loaded if there is none.
fn database(dir: &Path, entries: u64) -> Outcome<Db> {
    let advanced = AdvancedOptions::new()
        .policy("leveling:T=10")
        .block_bytes(BLOCK_BYTES)
        .cache_bytes(entries * ENTRY_BYTES / BYTES_PER_CACHE_BYTE)
        .index_bytes(INDEX_BYTES)
        .direct_io(true);
    let options = Options::new().memory_bytes(256 << 20).compression(Compression::None).advanced(advanced);
    let db = options.open(dir)?;
    // The last of them is the last to be stored.
    if db.get(key(entries - 1))?.is_none() {
        for number in 0..entries {
            db.put(key(number), [b'v'; 100])?;
        }
    }
    db.compact()?;
    db.wait_for_compactions()?;
    Ok(db)
}

/// 16 bytes, in the order of numbers.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:            ";
    key[4..12].copy_from_slice(&number.to_be_bytes());
    key
}

/// The files of all tables, opened as the engine opens them.
struct Tables(Vec<(Arc<dyn File>, u64)>);

impl Tables {
    fn of(dir: &Path) -> Outcome<Self> {
        let (env, mut files) = (OsEnv::new(), Vec::new());
        let names = env.list(dir)?;
        for name in names.iter().map(Path::new).filter(|name| name.extension().is_some_and(|kind| kind == "sst")) {
            let file = env.open(&dir.join(name), Access::ReadDirect)?;
            let bytes = file.len()?;
            files.push((file, bytes));
        }
        files.retain(|(_, bytes)| *bytes >= 4 * BLOCK_BYTES as u64);
        Ok(Self(files))
    }

    fn alignment(&self) -> Option<usize> {
        self.0.first()?.0.direct_alignment()
    }

    /// A random place of all files where there are so many bytes, at a multiple of `step`.
    fn place(&self, bytes: usize, step: u64, random: &Random) -> (&dyn File, u64) {
        let mut at = random.below(self.0.iter().map(|(_, length)| length).sum());
        for (file, length) in &self.0 {
            if at < *length {
                return (&**file, at.min(length - bytes as u64) / step * step);
            }
            at -= length;
        }
        unreachable!("it is below the sum of all lengths")
    }

    /// Reads as many bytes as `memory` has, at a random multiple of `step`.
    fn read(&self, memory: &mut [u8], step: u64, random: &Random) -> Outcome<()> {
        let (file, offset) = self.place(memory.len(), step, random);
        file.read_exact_at(memory, offset)?;
        black_box(&memory);
        Ok(())
    }
}

/// The time that `read` takes.
fn us(read: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let began = Instant::now();
    read()?;
    Ok(began.elapsed().as_secs_f64() * 1e6)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
