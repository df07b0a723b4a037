//! The engine's memory accounting against a counting allocator, in everything that takes memory:
//! loading, huge values, tiny entries, only deletes, filters, hundreds of iterators, values that
//! outlive their blocks, compactions; and live memory never exceeds the budget by more than the
//! slack that `Options::memory_bytes` states.
//!
//! Databases are real files, so that all allocations are the engine's and the test's own. Each
//! scenario has a database of its own, and they run one after the other, since the allocator counts
//! for all threads. The two are compared when nothing is being freed or allocated: a comparison is
//! repeated until it succeeds, and fails if it does not within some seconds. `-- --nocapture` shows
//! each of them.
//!
//! `resident` measures resident memory instead, from the outside.
//!
//! `TAMARACK_MIB` sets the budget of all scenarios (8), `TAMARACK_THREADS` that of background
//! threads (2).

#![cfg(not(feature = "shuttle"))]
#![expect(unsafe_code, reason = "an allocator that counts cannot be written without")]

mod allocator;
#[cfg(target_os = "linux")]
mod resident;

use std::sync::OnceLock;

use allocator::{live_bytes, live_bytes_by_size, take_peak_bytes};
use tamarack::{AdvancedOptions, Db, Error, MemoryStats, Options, Result, Scan, Value};
use tamarack_env::Random;
use tamarack_env::os::{OsEnv, TempDir};
use tamarack_env::sync::{Mutex, MutexGuard, Rank, thread};
use tamarack_model::allocate::Curve;
use tamarack_model::filter::{FilterKind, predict};

const MIB: u64 = 1 << 20;

/// The memory that is not charged: the fixed parts of an open database, some 36 KiB, and histograms
/// of latencies, 5 KiB for each kind that has occurred.
const UNCHARGED_BYTES: u64 = 64 << 10;

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

fn threads() -> u64 {
    number_from("TAMARACK_THREADS", 2)
}

/// Held by the test that runs: the allocator counts for all threads, and a process that is measured
/// should not wait for others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: OnceLock<Mutex<()>> = OnceLock::new();
    ALONE.get_or_init(|| Mutex::new(Rank::Test, ())).lock()
}

#[test]
fn the_account_is_right_and_the_budget_is_kept() -> Result<()> {
    let _alone = alone();
    let budget_bytes = number_from("TAMARACK_MIB", 8) * MIB;
    let scenarios = [
        ordinary_entries,
        cached_entries,
        huge_values,
        tiny_entries,
        deletes,
        iterators,
        pinned_values,
        compactions,
        large_filters,
        filters_beyond_the_budget,
        filter_of_the_tree,
        replay,
    ];
    take_what_the_process_keeps()?;
    scenarios.into_iter().try_for_each(|scenario| scenario(budget_bytes))
}

/// Reads some blocks together, and has curves of filters computed, as the first search for a design
/// in a process does: the environment's memory for the one, and tables of the models, are allocated
/// once in a process, and belong to no database.
fn take_what_the_process_keeps() -> Result<()> {
    for kind in [FilterKind::Bloom, FilterKind::Blocked, FilterKind::Elastic] {
        assert!(predict(kind, 10.0).fpr < 0.02);
        if kind != FilterKind::Elastic {
            assert!(Curve::new(kind).rate(10.0) < 0.02);
        }
    }
    let dir = TempDir::new().expect("there is a place for temporary files");
    let db = Options::new()
        .advanced(AdvancedOptions::new().policy("tiering:T=10").memtable_bytes(50_000))
        .open(dir.path())?;
    for run in 0..5_u64 {
        (0..1000).try_for_each(|number| db.put(key(5 * number + run), [0; 100]))?;
        db.flush()?;
    }
    assert_eq!(db.scan(key(7)..).next().transpose()?.map(|(_, value)| value.len()), Some(100));
    db.close()
}

/// A memtable that fills, flushes and compactions beside it, a cache that fills, and all at once.
fn ordinary_entries(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("ordinary", budget_bytes, |advanced| advanced)?;
    let entries = 2 * budget_bytes / 250;
    scene.fill(0..entries / 16, 200)?;
    let memory = scene.compare("some in a buffer");
    assert!(memory.memtables_bytes > memory.total_bytes / 2, "{memory:?}");
    scene.fill(0..entries, 200)?;
    scene.settle()?;
    scene.compare("at rest");
    scene.read(0..entries / 8)?;
    scene.compare("some cached");
    scene.read(0..entries)?;
    let memory = scene.compare("all cached");
    assert!(memory.cache_bytes > 2 * budget_bytes / 5, "the cache takes what is left: {memory:?}");
    scene.fill(0..entries, 200)?;
    scene.compare("written again");
    scene.close(0)
}

/// Single entries that come into the cache and leave it, at many moments: whatever its table is in
/// the middle of, it is charged, and what has left is freed.
fn cached_entries(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("entries", budget_bytes, |advanced| advanced)?;
    let noise = noise(300);
    // About one in each block is hot, so that entries are worth more than blocks.
    let hot = budget_bytes / 500;
    for number in 0..20 * hot {
        scene.db().put(number.to_be_bytes(), &noise[number as usize % 64..][..200])?;
    }
    scene.settle()?;
    let random = Random::new(5);
    let mut most = 0;
    for _ in 0..60 {
        for _ in 0..hot / 10 {
            assert!(scene.db().get((20 * random.below(hot)).to_be_bytes())?.is_some());
        }
        scene.compare_silently("reading");
        most = most.max(scene.db().stats().cache_entry_bytes);
    }
    scene.compare("read");
    assert!(most > budget_bytes / 4, "at most {most} bytes of cached entries");
    scene.close(0)
}

/// Values of the largest size: each fills a memtable, and a block.
fn huge_values(budget_bytes: u64) -> Result<()> {
    let largest_bytes = budget_bytes / 8 - 8;
    let mut scene = Scene::open("huge", budget_bytes, |advanced| advanced)?;
    let value = noise(largest_bytes as usize);
    scene.own_bytes = value.len() as u64;
    for number in 0..60 {
        scene.db().put(key(number % 13), &value)?;
    }
    let too_large = scene.db().put(key(0), [&value[..], &[0; 9]].concat());
    let Err(Error::InvalidArgument(why)) = too_large else { panic!("{too_large:?}") };
    assert!(why.contains(&(budget_bytes / 8).to_string()), "the error names the limit: {why}");
    scene.compare("written");
    scene.settle()?;
    scene.compare("at rest");
    let pinned: Vec<Option<Value>> = (0..3).map(|number| scene.db().get(key(number))).collect::<Result<_>>()?;
    let memory = scene.compare("some pinned");
    assert!(memory.pinned_bytes + memory.cache_bytes >= 3 * largest_bytes, "{memory:?}");
    drop(pinned);
    scene.read(0..13)?;
    scene.compare("read");
    let mut scan = scene.db().scan(..);
    drop(scan.next());
    scene.compare("being scanned");
    drop(scan);
    // A backward scan keeps the value that it has left, and that is in another table than the next.
    let mut scan = scene.db().scan(..);
    for _ in 0..3 {
        drop(scan.next_back());
        scene.compare("being scanned backward");
    }
    drop(scan);
    scene.close(SLACK_OF_HUGE_VALUES * threads() * largest_bytes)
}

/// Keys of three bytes and nothing else: their memory is mostly links.
fn tiny_entries(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("tiny", budget_bytes, |advanced| advanced)?;
    for number in 0..budget_bytes / 50 {
        scene.db().put(&key(number)[..3], [])?;
    }
    let memory = scene.compare("written");
    assert!(memory.memtables_bytes < 3 * budget_bytes / 4, "{memory:?}");
    scene.settle()?;
    scene.compare("at rest");
    scene.close(0)
}

fn deletes(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("deletes", budget_bytes, |advanced| advanced)?;
    for number in 0..budget_bytes / 80 {
        scene.db().delete(key(number))?;
    }
    scene.compare("deleted");
    scene.settle()?;
    scene.compare("at rest");
    scene.close(0)
}

/// Hundreds of iterators over several runs, each with its cursors; all are advanced.
fn iterators(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("iterators", budget_bytes, |advanced| advanced.policy("tiering:T=4"))?;
    scene.fill(0..budget_bytes / 250, 200)?;
    scene.settle()?;
    let mut open: Vec<Scan> = Vec::new();
    for number in 0..budget_bytes / 50_000 {
        let mut scan = scene.db().scan(key(number * 77)..);
        assert!(scan.next().transpose()?.is_some());
        open.push(scan);
    }
    let memory = scene.compare("open");
    assert!(memory.iterators_bytes > open.len() as u64 * 500, "{memory:?}");
    for scan in &mut open {
        assert!(scan.take(40).all(|entry| entry.is_ok()));
    }
    scene.compare("further on");
    drop(open);
    let memory = scene.compare("closed");
    assert_eq!(memory.pinned_bytes, 0);
    assert!(memory.iterators_bytes <= budget_bytes / 256, "more cursors are kept than may be: {memory:?}");
    scene.close(0)
}

/// Pinned values, while the cache replaces their blocks.
fn pinned_values(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("pinned", budget_bytes, |advanced| advanced)?;
    let entries = 2 * budget_bytes / 1000;
    scene.fill(0..entries, 1000)?;
    scene.settle()?;
    let number = budget_bytes / 12_000;
    let pinned: Vec<Option<Value>> = (0..number).map(|number| scene.db().get(key(number))).collect::<Result<_>>()?;
    scene.compare("pinned");
    // Their tables are removed, so that these blocks are not read any more.
    for number in 0..entries / 50 {
        scene.db().put(key(50 * number), [])?;
    }
    scene.db().compact()?;
    for number in 0..entries {
        (0..8).try_for_each(|_| scene.read(number..number + 1))?;
    }
    let memory = scene.compare("others read since");
    assert!(memory.pinned_bytes > 1000 * number, "{memory:?}");
    drop(pinned);
    assert_eq!(scene.compare("let go").pinned_bytes, 0);
    scene.read(0..entries)?;
    let after = scene.compare("all read again");
    assert!(after.cache_bytes > memory.cache_bytes, "the cache takes back what is not pinned: {after:?}");
    scene.close(0)
}

/// The read-ahead and output of a compaction that a rate limit delays.
fn compactions(budget_bytes: u64) -> Result<()> {
    let limit = 2 * MIB;
    let change = |advanced: AdvancedOptions| advanced.policy("tiering:T=10").compaction_bytes_per_second(limit);
    let mut scene = Scene::open("compactions", budget_bytes, change)?;
    scene.fill(0..budget_bytes / 150, 100)?;
    scene.db().flush()?;
    let db = scene.db().clone();
    let compacting = thread::spawn(move || db.compact());
    let mut moments = 0;
    while scene.db().stats().memory.compactions_bytes == 0 {
        moments += 1;
        assert!(moments < 2000, "no compaction has started: {:?}", scene.db().stats());
        scene.sleep_ms(5);
    }
    let memory = scene.compare("merging");
    assert!(memory.compactions_bytes > 0, "{memory:?}");
    scene.close(0)?;
    // It was interrupted.
    assert!(compacting.join().expect("it does not panic").is_err());
    Ok(())
}

/// Filters of a fifth of the budget, in tables that are all read.
fn large_filters(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("filters", budget_bytes, |advanced| advanced.filter("blocked:bits=40"))?;
    scene.fill(0..budget_bytes / 30, 0)?;
    scene.settle()?;
    scene.read(0..1000)?;
    let memory = scene.compare("read");
    assert!(memory.filters_bytes > budget_bytes / 8 && memory.over_bytes == 0, "{memory:?}");
    scene.close(0)
}

/// Filters that are larger than the budget: that is reported, nothing fails, and the cache shrinks
/// to its minimum.
fn filters_beyond_the_budget(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("beyond", budget_bytes / 8, |advanced| advanced.filter("blocked:bits=60"))?;
    let entries = budget_bytes / 48;
    scene.fill(0..entries, 0)?;
    scene.settle()?;
    scene.read(0..2000)?;
    let memory = scene.compare("read");
    assert!(memory.filters_bytes > memory.budget_bytes && memory.over_bytes > 0, "{memory:?}");
    assert!(memory.cache_capacity_bytes == memory.budget_bytes / 32, "{memory:?}");
    scene.close(entries * 60 / 8 * 2)
}

/// One filter over a tree that grows a thousandfold, is overwritten with some keys far more often
/// than others, and shrinks again. While it grows, the filter has at most the bits that were chosen
/// for the entries of the tree's runs, and an eighth for further ones; when entries go, at most
/// twice as many.
fn filter_of_the_tree(budget_bytes: u64) -> Result<()> {
    let change = |advanced: AdvancedOptions| advanced.policy("tiering:T=10").filter("chucky:bits=14.2");
    let mut scene = Scene::open("one filter", budget_bytes, change)?;
    let all = budget_bytes / 40;
    let compare = |phase: &str, most: f64, scene: &mut Scene| -> Result<()> {
        scene.settle()?;
        scene.db().rebuild_filters()?;
        let levels = scene.db().stats().levels;
        let entries: u64 = levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
        let most = most * entries as f64 * 14.2 / 8.0 + 64.0 * 1024.0;
        // Partitions become smaller one after another, once the tree is at rest.
        let mut moments = 0;
        while scene.db().stats().memory.filters_bytes as f64 > most && moments < 1000 {
            scene.sleep_ms(5);
            moments += 1;
        }
        let memory = scene.compare(phase);
        assert!(memory.filters_bytes as f64 <= most, "{phase}: {entries} entries, at most {most}: {memory:?}");
        Ok(())
    };
    let mut there = 0;
    for parts in [1000, 100, 10, 1] {
        scene.fill(there..all / parts, 0)?;
        there = all / parts;
        compare(&format!("1 in {parts}"), 1.12, &mut scene)?;
    }
    let random = Random::new(3);
    for _ in 0..all {
        // Small numbers far more often.
        let bound = random.below(all) + 1;
        scene.db().put(key(random.below(bound)), [])?;
    }
    compare("overwritten", 2.0, &mut scene)?;
    for number in all / 100..all {
        scene.db().delete(key(number))?;
    }
    scene.db().compact()?;
    compare("deleted", 2.0, &mut scene)?;
    // Lists of keys were full many times before a table was.
    let problems = scene.db().verify(&mut |_, _| {})?.problems;
    assert!(problems.is_empty(), "{problems:?}");
    scene.close(0)
}

/// Entries recovered from the WAL are in memtables again.
fn replay(budget_bytes: u64) -> Result<()> {
    let mut scene = Scene::open("replay", budget_bytes, |advanced| advanced)?;
    scene.fill(0..budget_bytes / 2000, 100)?;
    let before = scene.compare("written").memtables_bytes;
    scene.reopen()?;
    let after = scene.compare("read back").memtables_bytes;
    assert_eq!(before, after);
    scene.close(0)
}

/// Prints a line, if somebody sees it: else it would take memory until the test ends.
fn show(line: std::fmt::Arguments<'_>) {
    if std::env::args().any(|argument| argument == "--nocapture") {
        println!("{line}");
    }
}

/// A database, and its live memory.
struct Scene {
    name: &'static str,
    db: Option<Db>,
    dir: TempDir,
    options: Options,
    budget_bytes: u64,
    /// Live bytes before it was opened.
    before_bytes: u64,
    /// Bytes that the test itself has allocated since.
    own_bytes: u64,
    /// The maximum of the engine's live bytes.
    peak_bytes: u64,
}

/// Slack beyond the budget; see `Options::memory_bytes`.
fn slack_bytes(budget_bytes: u64) -> u64 {
    budget_bytes / 8 + MIB
}

/// The number of the largest values that a background thread may have in hand beyond the budget's
/// reservation.
const SLACK_OF_HUGE_VALUES: u64 = 4;

impl Scene {
    fn open(
        name: &'static str,
        budget_bytes: u64,
        change: impl Fn(AdvancedOptions) -> AdvancedOptions,
    ) -> Result<Self> {
        let dir = TempDir::new().expect("there is a place for temporary files");
        let options = Options::new()
            .memory_bytes(budget_bytes)
            .threads(threads() as usize)
            .advanced(change(AdvancedOptions::new()));
        let before_bytes = live_bytes();
        take_peak_bytes();
        let db = Some(options.open(dir.path())?);
        let mut this = Self { name, dir, db, options, budget_bytes, before_bytes, own_bytes: 0, peak_bytes: 0 };
        this.compare("empty");
        Ok(this)
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    /// Puts incompressible values.
    fn fill(&self, numbers: std::ops::Range<u64>, value_bytes: usize) -> Result<()> {
        let noise = noise(value_bytes + 64);
        for number in numbers {
            self.db().put(key(number), &noise[number as usize % 64..][..value_bytes])?;
        }
        Ok(())
    }

    fn read(&self, numbers: std::ops::Range<u64>) -> Result<()> {
        for number in numbers {
            assert!(self.db().get(key(number))?.is_some(), "{number}");
        }
        Ok(())
    }

    /// Waits until no flush or compaction is running.
    fn settle(&self) -> Result<()> {
        self.db().flush()?;
        self.db().wait_for_compactions()
    }

    fn sleep_ms(&self, ms: u64) {
        let env = OsEnv::new();
        env.sleep_until(env.now() + std::time::Duration::from_millis(ms));
    }

    /// Compares account and allocator at a quiet moment, and shows both.
    fn compare(&mut self, phase: &str) -> MemoryStats {
        let (memory, live) = self.compare_silently(phase);
        let off = memory.total_bytes as f64 - live as f64;
        show(format_args!(
            "{:<10}{phase:<18}{live:>11} live {:>11} charged {:>6.2} %  {:?}",
            self.name,
            memory.total_bytes,
            100.0 * off / live as f64,
            memory.parts().into_iter().filter(|part| part.1 > 0).collect::<Vec<_>>()
        ));
        memory
    }

    /// Compares them and returns the account and the live bytes: not while the navigator searches,
    /// however long that takes beside other programs.
    fn compare_silently(&mut self, phase: &str) -> (MemoryStats, u64) {
        self.note_peak();
        let mut moments = 0;
        loop {
            // Statistics have histograms, which are to be gone before the allocator is asked.
            let (memory, is_searching) = {
                let stats = self.db().stats();
                (stats.memory, stats.searching_design)
            };
            if is_searching {
                self.sleep_ms(5);
                continue;
            }
            let live = live_bytes() - self.before_bytes - self.own_bytes;
            let off = memory.total_bytes as i64 - live as i64;
            if off.unsigned_abs() <= 3 * live / 100 + UNCHARGED_BYTES {
                return (memory, live);
            }
            moments += 1;
            assert!(
                moments < 1000,
                "{} {phase}: {live} bytes live, the account says {memory:?}; all by size: {:?}",
                self.name,
                live_bytes_by_size()
            );
            self.sleep_ms(5);
        }
    }

    fn note_peak(&mut self) {
        let peak = take_peak_bytes().saturating_sub(self.before_bytes + self.own_bytes);
        self.peak_bytes = self.peak_bytes.max(peak);
    }

    /// Reopens the database without having closed it properly.
    fn reopen(&mut self) -> Result<()> {
        self.db = None;
        self.db = Some(self.options.open(self.dir.path())?);
        Ok(())
    }

    /// Asserts that the budget was exceeded at most by the slack, `more_bytes` and the test's own
    /// memory; and that after closing nothing is left.
    fn close(mut self, more_bytes: u64) -> Result<()> {
        self.note_peak();
        let share = self.peak_bytes as f64 / self.budget_bytes as f64;
        show(format_args!("{:<10}at most           {:>11} live: {share:.2} of the budget", self.name, self.peak_bytes));
        let most_bytes = self.budget_bytes + slack_bytes(self.budget_bytes) + more_bytes;
        assert!(self.peak_bytes <= most_bytes, "{}: {} bytes lived, of {most_bytes}", self.name, self.peak_bytes);
        self.db.take().expect("open").close()?;
        // A thread's counters in a closed database are freed with the next database it reads from.
        let left_bytes = || live_bytes().saturating_sub(self.before_bytes + self.own_bytes);
        let mut moments = 0;
        while left_bytes() > 4096 {
            moments += 1;
            assert!(moments < 1000, "{}: {} bytes are left of a database that is closed", self.name, left_bytes());
            self.sleep_ms(5);
        }
        Ok(())
    }
}

/// Keys in random order.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Incompressible bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let random = Random::new(7);
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        noise.extend_from_slice(&random.next().to_be_bytes());
    }
    noise.truncate(bytes);
    noise
}
