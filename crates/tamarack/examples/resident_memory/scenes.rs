//! The scenes of `resident_memory`: loads that are hostile to a memory budget. Each is run in a
//! process of its own, by [`run`]; `tests/memory` runs some of them as well.
//!
//! A scene opens a database with a budget and loads it for some seconds. What the load itself needs
//! counts like the rest, so it is kept small: all threads put slices of one array, and drop what
//! they got at once.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Batch, Db, Options, Result, Scan};
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::thread;
use tamarack_env::{Env, OsEnv, Random, TempDir};

const MIB: u64 = 1 << 20;

/// One load, and the budget that it is to keep.
pub(crate) struct Scene {
    /// Its name.
    pub(crate) name: &'static str,
    /// The budget of memory, in MiB.
    pub(crate) budget_mib: u64,
    /// Threads that use the database.
    pub(crate) threads: u64,
    /// Changes advanced options.
    change: fn(AdvancedOptions) -> AdvancedOptions,
    /// What each thread does, until the time is over.
    load: fn(&Load, u64) -> Result<()>,
}

/// All scenes.
pub(crate) const SCENES: &[Scene] = &[
    scene("huge values put", 32, 8, huge_puts),
    scene("huge values mixed", 32, 8, huge_mix),
    Scene { change: |advanced| advanced.direct_io(true), ..scene("huge values direct I/O", 32, 8, huge_mix) },
    Scene { change: |advanced| advanced.policy("tiering:T=4"), ..scene("huge values tiering", 32, 8, huge_mix) },
    scene("huge values compressible", 32, 8, compressible),
    scene("larger values", 256, 8, huge_mix),
    scene("huge batches", 32, 8, batches),
    scene("values of all sizes", 32, 8, all_sizes),
    scene("values of all sizes 256", 256, 8, all_sizes),
    scene("open iterators", 64, 8, iterators::<100_000>),
    tiering("open iterators tiering", 64, 8, iterators::<100_000>),
    scene("open iterators one thread", 64, 1, iterators::<100_000>),
    tiering("fewer open iterators", 16, 8, iterators::<10_000>),
    scene("idle iterators", 32, 4, idle_iterators),
    scene("deletes only", 32, 8, deletes),
    scene("tiny entries", 32, 8, tiny_entries),
    scene("64 threads", 32, 64, ordinary),
    scene("64 threads huge values", 32, 64, huge_puts),
    scene("64 threads all sizes", 32, 64, all_sizes),
];

const fn scene(name: &'static str, budget_mib: u64, threads: u64, load: fn(&Load, u64) -> Result<()>) -> Scene {
    Scene { name, budget_mib, threads, change: |advanced| advanced, load }
}

/// A scene with up to ten runs in a level.
const fn tiering(name: &'static str, budget_mib: u64, threads: u64, load: fn(&Load, u64) -> Result<()>) -> Scene {
    Scene { change: |advanced| advanced.policy("tiering:T=10"), ..scene(name, budget_mib, threads, load) }
}

impl Scene {
    /// The budget in bytes.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_mib * MIB
    }

    /// The upper bound on resident memory, in bytes.
    pub(crate) fn bound_bytes(&self) -> u64 {
        self.budget_bytes() / 10 * 11 + 64 * MIB
    }
}

/// A scene in progress.
struct Load {
    db: Db,
    /// The largest value or batch that the budget allows, in bytes.
    largest_bytes: u64,
    /// Incompressible bytes, which values are slices of.
    noise: Vec<u8>,
    threads: u64,
    /// The time that the scene began, and how long it may take.
    env: Arc<dyn Env>,
    end: Duration,
    /// Operations carried out.
    operations: AtomicU64,
}

/// Runs a scene for `seconds` in this process, prints the account of memory and what was done, and
/// waits for the end of its input, so that a parent can look at the process before it ends.
pub(crate) fn run(name: &str, seconds: f64) -> Result<()> {
    let scene = SCENES.iter().find(|scene| scene.name == name).unwrap_or_else(|| panic!("no scene is called {name}"));
    let dir = TempDir::new().expect("a place for temporary files");
    scene.play(dir.path(), seconds, |account, account_max, operations| {
        println!("\n{DONE} {account} {account_max} {operations}");
        std::io::stdin().read_to_end(&mut Vec::new()).expect("the parent closes it");
    })
}

/// The word before the numbers that [`run`] prints: the account at the end, the maximum of the
/// account, both in bytes, and the number of operations.
pub(crate) const DONE: &str = "played:";

impl Scene {
    /// Calls `played` with the account at the end, its maximum, and the number of operations, while
    /// the database is still open.
    fn play(&self, dir: &Path, seconds: f64, played: impl Fn(u64, u64, u64)) -> Result<()> {
        let options = Options::new().memory_bytes(self.budget_bytes()).threads(2);
        let db = options.advanced((self.change)(AdvancedOptions::new())).open(dir)?;
        let largest_bytes = self.budget_bytes() / 8;
        let noise = noise(largest_bytes as usize);
        let env = OsEnv::new();
        let end = env.now() + Duration::from_secs_f64(seconds);
        let load = Load { db, largest_bytes, noise, threads: self.threads, env, end, operations: AtomicU64::new(0) };
        let (over, account_max) = (AtomicBool::new(false), AtomicU64::new(0));
        let account = || load.db.stats().memory.total_bytes;
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    account_max.fetch_max(account(), Ordering::Relaxed);
                    load.env.sleep_until(load.env.now() + Duration::from_millis(10));
                }
            });
            let started: Vec<_> = (0..self.threads)
                .map(|number| (number, &load))
                .map(|(number, load)| scope.spawn(move || (self.load)(load, number)))
                .collect();
            let outcomes: Vec<_> = started.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            over.store(true, Ordering::Relaxed);
            outcomes.into_iter().collect::<Result<()>>()
        })?;
        played(account(), account_max.load(Ordering::Relaxed), load.operations.load(Ordering::Relaxed));
        load.db.clone().close()
    }
}

impl Load {
    /// Counts an operation; returns false when the time is over.
    fn goes_on(&self) -> bool {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.env.now() < self.end
    }

    /// `bytes` incompressible bytes.
    fn value(&self, random: &Random, bytes: u64) -> &[u8] {
        let start = random.below(self.noise.len() as u64 - bytes + 1) as usize;
        &self.noise[start..][..bytes as usize]
    }
}

/// Values of the largest size; few keys, so that most are overwritten.
fn huge_puts(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    while load.goes_on() {
        load.db.put(key(random.below(40)), load.value(&random, load.largest_bytes))?;
    }
    Ok(())
}

/// All operations on values of the largest size.
fn huge_mix(load: &Load, thread: u64) -> Result<()> {
    mix(load, thread, 40, |_| load.largest_bytes)
}

/// All operations on values from one byte to the largest size, small ones more often.
fn all_sizes(load: &Load, thread: u64) -> Result<()> {
    let bits_max = load.largest_bytes.ilog2() as u64;
    mix(load, thread, 2000, |random| 1 << random.below(bits_max + 1))
}

fn mix(load: &Load, thread: u64, keys: u64, bytes: impl Fn(&Random) -> u64) -> Result<()> {
    let random = Random::new(thread);
    while load.goes_on() {
        let key = key(random.below(keys));
        match random.below(20) {
            0..9 => load.db.put(key, load.value(&random, bytes(&random)))?,
            9..15 => drop(load.db.get(key)?),
            15..17 => load.db.delete(key)?,
            17 => drop(load.db.multi_get(&[key, self::key(random.below(keys))])?),
            18 => {
                load.db.scan(key..).next_lent()?;
            }
            _ => {
                let mut scan = load.db.scan(..key);
                for _ in 0..3 {
                    scan.next_back_lent()?;
                }
            }
        }
    }
    Ok(())
}

/// Values of the largest size that nearly vanish when they are compressed.
fn compressible(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    // One array of all threads would have to be somewhere else: a quarter of the largest size.
    let value = vec![7; (load.largest_bytes / 4) as usize];
    while load.goes_on() {
        load.db.put(key(random.below(160)), &value)?;
        load.db.get(key(random.below(160)))?;
    }
    Ok(())
}

/// Batches of half the largest size, of a thousand entries each.
fn batches(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    let mut batch = Batch::new();
    while load.goes_on() {
        batch.clear();
        for _ in 0..1000 {
            batch.put(key(random.below(100_000)), load.value(&random, load.largest_bytes / 2200));
        }
        load.db.write(&batch)?;
    }
    Ok(())
}

/// Iterators over several runs, all of them at an entry; then all go on.
fn iterators<const ITERATORS: u64>(load: &Load, thread: u64) -> Result<()> {
    // Six memtables of them, of some 125 bytes each.
    let (random, entries) = (Random::new(thread), load.largest_bytes / 21);
    for number in (0..entries).filter(|number| number % load.threads == thread) {
        load.db.put(key(number), load.value(&random, 100))?;
    }
    let mut open: Vec<Scan> = Vec::with_capacity((ITERATORS / load.threads) as usize);
    for _ in 0..ITERATORS / load.threads {
        let mut scan = load.db.scan(key(random.below(entries))..);
        assert!(scan.next().transpose()?.is_some(), "every range has a key");
        open.push(scan);
        load.goes_on();
    }
    for scan in &mut open {
        scan.next().transpose()?;
        load.goes_on();
    }
    // A writer beside them: memtables and tables that only iterators pin.
    for _ in 0..entries / 2 / load.threads {
        load.db.put(key(random.below(entries)), load.value(&random, 100))?;
        load.goes_on();
    }
    Ok(())
}

/// Iterators that lend one entry each and never go on, while a writer fills one memtable after the
/// other: each iterator could pin another one.
fn idle_iterators(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    let mut open: Vec<Scan> = Vec::new();
    while load.goes_on() {
        for _ in 0..100 {
            load.db.put(key(random.below(2000)), load.value(&random, 4000))?;
        }
        let mut scan = load.db.scan(..);
        assert!(scan.next_lent()?.is_some(), "an entry was put");
        open.push(scan);
    }
    Ok(())
}

/// Nothing but tombstones.
fn deletes(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    while load.goes_on() {
        load.db.delete(key(random.next()))?;
    }
    Ok(())
}

/// Keys of up to four bytes, no values.
fn tiny_entries(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    while load.goes_on() {
        load.db.put(&key(random.next())[..1 + random.below(4) as usize], [])?;
    }
    Ok(())
}

/// Ordinary entries, put, got and scanned.
fn ordinary(load: &Load, thread: u64) -> Result<()> {
    let random = Random::new(thread);
    while load.goes_on() {
        let key = key(random.below(1_000_000));
        match random.below(10) {
            0..5 => load.db.put(key, load.value(&random, 100 + random.below(200)))?,
            5..9 => drop(load.db.get(key)?),
            _ => {
                for entry in load.db.scan(key..).take(20) {
                    entry?;
                }
            }
        }
    }
    Ok(())
}

/// Keys in random order.
fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// Incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let random = Random::new(7);
    let mut noise = vec![0; bytes];
    for part in noise.chunks_exact_mut(8) {
        part.copy_from_slice(&random.next().to_be_bytes());
    }
    noise
}
