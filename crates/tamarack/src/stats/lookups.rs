//! Counters of lookups, cheap enough to be always on.
//!
//! Each thread has its own counters for each database that it reads, a [`LookupTally`] on a cache
//! line that no other thread writes. A lookup takes its thread's tally ([`LookupCounters::mine`])
//! and counts with ordinary additions, without locked instructions. Reading the sums visits all
//! threads.
//!
//! The counters of a thread that has ended are added to a common rest by the next new thread or
//! reader of the sums.
//!
//! Beside its tally each thread keeps its [`Sampler`], which picks the lookups to sample; see
//! [`super::samples`].
//!
//! The schedule explorer runs all its threads on one thread of the machine, so they share one
//! tally. It cannot interrupt an addition.
//!
//! Cost: about 15 instructions for a lookup in the memtable, and one or two per filter. Tests:
//! here; `tests/suite/filters.rs` and `tests/suite/reads.rs` compare the counters with known
//! operations.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tamarack_env::histogram::Histogram;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Worker};

use super::Counter;
use super::idle::IdleAlarm;
use super::latency::{Latencies, LatencyKind};
use super::number::Number;
use super::samples::{Lately, Sampler, sampled_lately};
use super::statistics::statistics;

statistics! {
    sums;
    /// Counters of one or more lookups.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LookupCounts {
        /// Lookups; each key of [`crate::Db::multi_get`] is one.
        lookups: u64, "lookups", counter;

        /// Lookups of keys that no memtable and no table has. (That of a deleted key, which finds
        /// its tombstone, or a range tombstone that covers it, is none of these.)
        zero_result: u64, "lookups", counter;

        /// Filter probes.
        filter_probes: u64, "probes", counter;

        /// Negative probes: the table was skipped.
        filter_negatives: u64, "probes", counter;

        /// False positives: positive probes of tables without the key.
        filter_false_positives: u64, "probes", counter;

        /// Data blocks read, since they were not in the block cache: the read amplification,
        /// summed over lookups, that the models predict.
        /// [`crate::ReadStats::gets`] and [`crate::ReadStats::multi_gets`] count them too, with
        /// index blocks.
        data_blocks_read: u64, "data blocks", counter;

        /// Block cache hits: data blocks that were searched there.
        data_blocks_cached: u64, "data blocks", counter;

        /// Entry cache hits, for which neither filters nor blocks were needed: an entry, or the
        /// fact that no table has the key.
        cached_entries: u64, "hits", counter;

        /// Those of the entry cache hits that say that no table has the key.
        cached_absences: u64, "hits", counter;
    }
}

statistics! {
    sums;
    /// Counters of scans.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ScanCounts {
        /// Scans that were iterated at least once, and have ended.
        scans: u64, "scans", counter;

        /// Entries that they returned.
        entries: u64, "entries", counter;
    }
}

/// Counters of a thread's lookups. One thread writes them, all may read them.
#[derive(Debug, Default)]
pub struct LookupTally {
    lookups: Number,
    filter_negatives: Number,
    filter_positive: Number,
    filter_false_positives: Number,
    data_blocks_read: Number,
    data_blocks_cached: Number,
    cached_entries: Number,
}

impl LookupTally {
    /// Counts lookups that begin.
    #[inline]
    pub fn begin(&self, lookups: u64) {
        self.lookups.add(lookups);
    }

    /// Counts a negative probe.
    #[inline]
    pub fn filter_negative(&self) {
        self.filter_negatives.add(1);
    }

    /// Counts a positive probe, whose table is searched.
    #[inline]
    pub fn filter_positive(&self) {
        self.filter_positive.add(1);
    }

    /// Counts a false positive.
    #[inline]
    pub fn filter_false_positive(&self) {
        self.filter_false_positives.add(1);
    }

    /// Counts a data block read.
    #[inline]
    pub fn data_block_read(&self) {
        self.data_blocks_read.add(1);
    }

    /// Counts a data block that was cached.
    #[inline]
    pub fn data_block_cached(&self) {
        self.data_blocks_cached.add(1);
    }

    /// Returns the data blocks read so far.
    #[inline]
    pub fn data_blocks_read(&self) -> u64 {
        self.data_blocks_read.get()
    }

    /// Counts an entry cache hit.
    #[inline]
    pub fn cached_entry(&self) {
        self.cached_entries.add(1);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> LookupCounts {
        LookupCounts {
            lookups: self.lookups.get(),
            zero_result: 0,
            filter_probes: self.filter_negatives.get() + self.filter_positive.get(),
            filter_negatives: self.filter_negatives.get(),
            filter_false_positives: self.filter_false_positives.get(),
            data_blocks_read: self.data_blocks_read.get(),
            data_blocks_cached: self.data_blocks_cached.get(),
            cached_entries: self.cached_entries.get(),
            cached_absences: 0,
        }
    }

    /// Adds counts of another tally.
    fn add(&self, counts: &LookupCounts) {
        self.lookups.add(counts.lookups);
        self.filter_negatives.add(counts.filter_negatives);
        self.filter_positive.add(counts.filter_probes - counts.filter_negatives);
        self.filter_false_positives.add(counts.filter_false_positives);
        self.data_blocks_read.add(counts.data_blocks_read);
        self.data_blocks_cached.add(counts.data_blocks_cached);
        self.cached_entries.add(counts.cached_entries);
    }
}

/// Counters of one thread, on their own cache lines; only that thread writes them. What each lookup
/// touches is on the first one.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct OfThread {
    /// Its counters.
    pub tally: LookupTally,
    /// Picks its lookups to sample.
    pub sampler: Sampler,
    /// What not every lookup counts.
    further: FurtherTally,
    /// The thread's number, from 1.
    number: u64,
}

/// Counters of a thread that are on another cache line.
#[derive(Debug, Default)]
struct FurtherTally {
    zero_result: Number,
    cached_absences: Number,
    scans: Number,
    scan_entries: Number,
}

impl OfThread {
    /// Counts lookups of keys that are not there.
    #[inline]
    pub fn zero_result(&self, lookups: u64) {
        self.further.zero_result.add(lookups);
    }

    /// Counts lookups of keys of which the entry cache says that no table has them.
    #[inline]
    pub fn cached_absence(&self, lookups: u64) {
        self.further.cached_absences.add(lookups);
    }

    fn counts(&self) -> LookupCounts {
        let FurtherTally { zero_result, cached_absences, .. } = &self.further;
        let (zero_result, cached_absences) = (zero_result.get(), cached_absences.get());
        LookupCounts { zero_result, cached_absences, ..self.tally.counts() }
    }

    fn scans(&self) -> ScanCounts {
        ScanCounts { scans: self.further.scans.get(), entries: self.further.scan_entries.get() }
    }
}

const _: () = assert!(std::mem::offset_of!(OfThread, sampler) + Sampler::BYTES_OF_EACH_LOOKUP == 64);

/// Sampled lookups that have to have read blocks before their latency says what a read takes.
const READ_SAMPLES_MIN: u64 = 50;

/// The number of parts of what threads share without meeting: see [`LookupCounters::thread_slot`].
pub const THREAD_SLOTS: usize = 16;

/// Counters of all lookups of a database. Clones share them.
#[derive(Clone, Debug)]
pub struct LookupCounters(Arc<Shared>);

struct Shared {
    /// The clock.
    env: Arc<dyn Env>,
    collected: Mutex<Collected>,
    sampled: Counter,
    past_memtables: Lately<1>,
    /// Number of samples at which the watcher is woken.
    wake_at: AtomicU64,
    watcher: OnceLock<Arc<dyn Worker>>,
    latencies: Latencies,
    idle: IdleAlarm,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("collected", &self.collected)
            .field("sampled", &self.sampled)
            .finish_non_exhaustive()
    }
}

/// Counters of all threads.
#[derive(Debug, Default)]
struct Collected {
    threads: Vec<Arc<OfThread>>,
    /// Counts of threads that have ended.
    rest: LookupCounts,
    /// The same of scans.
    rest_of_scans: ScanCounts,
    /// Number of threads so far.
    joined: u64,
}

/// Counters of the current thread. The `Arc` shares them with readers of the sums; within the
/// thread an `Rc` around it is cloned without a locked instruction.
#[derive(Debug)]
pub struct Mine(Arc<OfThread>);

impl Deref for Mine {
    type Target = OfThread;

    #[inline]
    fn deref(&self) -> &OfThread {
        &self.0
    }
}

/// A database that this thread has read.
struct Joined {
    /// Keeps the address from being reused.
    of: Weak<Shared>,
    /// Address of the shared counters.
    address: usize,
    numbers: Rc<Mine>,
}

thread_local! {
    /// Databases that this thread has read; rarely more than one.
    static JOINED: RefCell<Vec<Joined>> = const { RefCell::new(Vec::new()) };
}

impl LookupCounters {
    /// Makes the counters of a database with the clock of `env`.
    pub fn new(env: Arc<dyn Env>) -> Self {
        let (collected, sampled) = (Mutex::new(Rank::LookupCounters, Collected::default()), Counter::default());
        let (past_memtables, latencies) = (Lately::default(), Latencies::default());
        let (wake_at, watcher) = (AtomicU64::new(u64::MAX), OnceLock::new());
        let idle = IdleAlarm::default();
        Self(Arc::new(Shared { env, collected, sampled, past_memtables, wake_at, watcher, latencies, idle }))
    }

    /// Sets the worker that [`Self::wake_at`] wakes.
    ///
    /// # Panics
    /// If it is set already.
    pub fn set_watcher(&self, watcher: Arc<dyn Worker>) {
        assert!(self.0.watcher.set(watcher).is_ok(), "the watcher of lookups is set already");
    }

    /// Wakes the watcher once, when this many lookups have been sampled.
    pub fn wake_at(&self, sampled: u64) {
        self.0.wake_at.store(sampled, Ordering::Relaxed);
    }

    /// Returns the counters of this thread.
    #[inline]
    pub fn mine(&self) -> Rc<Mine> {
        let find = |joined: &RefCell<Vec<Joined>>| {
            let joined = joined.borrow();
            joined.iter().find(|joined| joined.address == self.address()).map(|joined| joined.numbers.clone())
        };
        match JOINED.try_with(find) {
            Ok(Some(numbers)) => numbers,
            _ => self.join(),
        }
    }

    /// Returns the index of this thread in what has [`THREAD_SLOTS`] parts, so that threads rarely
    /// use the same one.
    #[inline]
    pub fn thread_slot(&self) -> usize {
        self.mine().number as usize % THREAD_SLOTS
    }

    #[inline]
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Adds counts that a lookup kept by itself.
    pub fn add(&self, counts: &LookupCounts) {
        let mine = self.mine();
        mine.tally.add(counts);
        mine.zero_result(counts.zero_result);
        mine.cached_absence(counts.cached_absences);
    }

    /// Counts a scan that has ended, with the entries that it returned.
    pub fn scan_ended(&self, entries: u64) {
        let further = &self.mine().further;
        further.scans.add(1);
        further.scan_entries.add(entries);
    }

    /// Returns the scans of all threads, as of about now.
    pub fn scans(&self) -> ScanCounts {
        let mut collected = self.0.collected.lock();
        collected.gather();
        let mut sums = collected.rest_of_scans;
        collected.threads.iter().for_each(|numbers| sums += numbers.scans());
        sums
    }

    /// Returns the sums over all threads, as of about now.
    pub fn sums(&self) -> LookupCounts {
        let mut collected = self.0.collected.lock();
        collected.gather();
        let mut sums = collected.rest;
        collected.threads.iter().for_each(|numbers| sums += numbers.counts());
        sums
    }

    /// Returns the time. Only sampled lookups read the clock.
    pub fn now(&self) -> Duration {
        self.0.env.now()
    }

    /// Adds the latency of a sampled lookup or seek, and rings the [alarm](Self::idle_alarm).
    pub fn note_latency(&self, kind: LatencyKind, began: Duration) {
        self.0.latencies.note(kind, self.now().saturating_sub(began));
        self.0.idle.ring();
    }

    /// Returns what block reads add to a sampled lookup of an existing key, in seconds: the
    /// difference of two medians, at least 1 µs. `None` if too few lookups have read blocks.
    pub fn block_read_seconds(&self) -> Option<f64> {
        let [read, cached] =
            [LatencyKind::FoundByReads, LatencyKind::FoundInMemory].map(|kind| self.0.latencies.of(kind));
        let median = |latencies: &Histogram| latencies.percentile_ns(500);
        let is_known = read.samples() >= READ_SAMPLES_MIN;
        is_known.then(|| median(&read).saturating_sub(median(&cached)).max(1000) as f64 / 1e9)
    }

    /// Returns the alarm that sampled lookups, seeks and full memtables ring.
    pub fn idle_alarm(&self) -> &IdleAlarm {
        &self.0.idle
    }

    /// Returns the latencies of all timed operations.
    pub fn latencies(&self) -> &Latencies {
        &self.0.latencies
    }

    /// Counts a sampled lookup.
    pub fn note_sampled(&self) {
        self.0.sampled.add(1);
        if self.sampled() >= self.0.wake_at.load(Ordering::Relaxed)
            && self.0.wake_at.swap(u64::MAX, Ordering::Relaxed) < u64::MAX
            && let Some(watcher) = self.0.watcher.get()
        {
            watcher.wake();
        }
    }

    /// Counts a sampled lookup that the memtables did not decide.
    pub fn note_past_memtables(&self) {
        self.0.past_memtables.add(self.sampled(), [1]);
    }

    /// Returns the recent samples, and those among them that the memtables did not decide.
    pub fn lately(&self) -> (u64, u64) {
        let sampled = self.sampled();
        (sampled_lately(sampled, 0), self.0.past_memtables.get(sampled)[0])
    }

    /// Returns the number of samples so far.
    pub fn sampled(&self) -> u64 {
        self.0.sampled.get()
    }

    /// Adds counters for this thread.
    #[cold]
    #[inline(never)]
    fn join(&self) -> Rc<Mine> {
        let mut collected = self.0.collected.lock();
        collected.gather();
        collected.joined += 1;
        // What a thread samples depends on when it came, so it is the same whenever a history is
        // repeated.
        let number = collected.joined;
        let (tally, further) = (LookupTally::default(), FurtherTally::default());
        let numbers = OfThread { tally, sampler: Sampler::new(number), further, number };
        let numbers = Arc::new(numbers);
        collected.threads.push(numbers.clone());
        drop(collected);
        let (address, numbers) = (self.address(), Rc::new(Mine(numbers)));
        // A thread that is ending, and looks something up in the destructor of what it kept, gets
        // new ones each time.
        let _ = JOINED.try_with(|joined| {
            let mut joined = joined.borrow_mut();
            // Databases that were closed since.
            joined.retain(|joined| joined.of.strong_count() > 0);
            joined.push(Joined { address, of: Arc::downgrade(&self.0), numbers: numbers.clone() });
        });
        numbers
    }
}

impl Collected {
    /// Adds the numbers of threads that are gone to the rest.
    fn gather(&mut self) {
        let Self { threads, rest, rest_of_scans, .. } = self;
        threads.retain_mut(|numbers| match Arc::get_mut(numbers) {
            Some(numbers) => {
                *rest += numbers.counts();
                *rest_of_scans += numbers.scans();
                false
            }
            None => true,
        });
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use tamarack_env::MemoryEnv;

    use super::*;

    fn counters() -> LookupCounters {
        LookupCounters::new(MemoryEnv::new(1))
    }

    fn counts(first: u64) -> LookupCounts {
        LookupCounts {
            lookups: first,
            zero_result: first + 7,
            filter_probes: 2 * first + 5,
            filter_negatives: first + 3,
            filter_false_positives: first + 1,
            data_blocks_read: first + 4,
            data_blocks_cached: first + 6,
            cached_entries: first + 2,
            cached_absences: first + 9,
        }
    }

    /// Nothing that any thread counted is lost or told to another database, whether the thread is
    /// still there or not.
    #[test]
    fn sums_are_over_all_threads_of_one_database() {
        let (one, other) = (counters(), counters());
        one.add(&counts(5));
        for _ in 0..3 {
            tamarack_env::sync::thread::scope(|scope| {
                let count = || (0..100).for_each(|_| [&one, &other].into_iter().for_each(|some| some.add(&counts(1))));
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
                // Not left to the scope, which does not wait until a thread has let go of what is
                // its own.
                threads.into_iter().for_each(|thread| thread.join().expect("it only counts"));
            });
        }
        let mut expected = counts(5);
        (0..1200).for_each(|_| expected += counts(1));
        assert_eq!(one.sums(), expected);
        one.add(&counts(7));
        expected += counts(7);
        assert_eq!((one.sums(), one.sums()), (expected, expected));
        assert_eq!(other.sums().lookups, 1200);
        let threads = |of: &LookupCounters| of.0.collected.lock().threads.len();
        assert_eq!((threads(&one), threads(&other)), (1, 0), "what is gone was gathered");
    }

    /// A database that takes the place of one that was closed begins at 0, and the closed one's
    /// numbers are let go.
    #[test]
    fn a_closed_database_is_forgotten() {
        for round in 0..10 {
            let counters = counters();
            assert_eq!(counters.sums(), LookupCounts::default());
            counters.add(&counts(round));
            assert_eq!(counters.sums(), counts(round));
        }
        JOINED.with_borrow(|joined| assert_eq!(joined.len(), 1));
    }
}
