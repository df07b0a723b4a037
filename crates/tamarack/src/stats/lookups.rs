//! What lookups did, counted so cheaply that it is always on.
//!
//! A lookup counts into a [`LookupCounts`] of its own, which is handed down with it, and adds that once, at its end, to the database's
//! [`LookupCounters`]. There each thread has numbers of its own, on a cache line that no other thread writes to: adding
//! is an ordinary load and store for each number, without a locked instruction. Whoever reads the sums goes over all threads.
//!
//! A thread that ends leaves its numbers behind; they are added to the rest when somebody comes by, a new thread or a reader of the sums.
//!
//! The schedule explorer runs its threads on one thread of the machine, where "my own numbers" mean nothing, so with it all lookups add under a
//! lock.

#[cfg(not(feature = "shuttle"))]
use std::cell::RefCell;
use std::ops::AddAssign;
use std::sync::Arc;
#[cfg(not(feature = "shuttle"))]
use std::sync::Weak;

use tamarack_env::sync::Mutex;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};

/// What one lookup did, or many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Lookups that ended, well or with an error.
    pub lookups: u64,
    /// Filters of tables that were asked.
    pub filter_probes: u64,
    /// Filters that said no: so many tables were not searched.
    pub filter_negatives: u64,
    /// Filters that said perhaps, of tables that turned out not to have the key.
    pub filter_false_positives: u64,
    /// Data blocks that were not in the cache and had to be read.
    pub data_blocks_read: u64,
    /// Answers that the cache had by itself, so that no block was asked for: an entry, or that a table does not have the key although its filter says perhaps.
    pub cached_entries: u64,
}

/// How many numbers these are.
const NUMBERS: usize = 6;

impl LookupCounts {
    fn numbers(&self) -> [u64; NUMBERS] {
        let Self { lookups, filter_probes, filter_negatives, filter_false_positives, data_blocks_read, cached_entries } =
            *self;
        [lookups, filter_probes, filter_negatives, filter_false_positives, data_blocks_read, cached_entries]
    }

    fn of_numbers(numbers: [u64; NUMBERS]) -> Self {
        let [lookups, filter_probes, filter_negatives, filter_false_positives, data_blocks_read, cached_entries] =
            numbers;
        Self { lookups, filter_probes, filter_negatives, filter_false_positives, data_blocks_read, cached_entries }
    }
}

impl AddAssign for LookupCounts {
    fn add_assign(&mut self, other: Self) {
        let (mine, others) = (self.numbers(), other.numbers());
        *self = Self::of_numbers(std::array::from_fn(|i| mine[i] + others[i]));
    }
}

/// What all lookups of a database did.
#[derive(Debug, Default)]
pub struct LookupCounters(Arc<Mutex<Collected>>);

/// The numbers of all threads.
#[derive(Debug, Default)]
struct Collected {
    threads: Vec<Arc<OfThread>>,
    /// Of threads that are gone, and of lookups that could not reach their thread's numbers.
    rest: LookupCounts,
}

/// The numbers of one thread, the only one that writes them.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OfThread([AtomicU64; NUMBERS]);

/// A thread's numbers in one database.
#[cfg(not(feature = "shuttle"))]
struct Mine {
    /// The database they belong to; keeps its address from being given to another.
    of: Weak<Mutex<Collected>>,
    numbers: Arc<OfThread>,
}

#[cfg(not(feature = "shuttle"))]
thread_local! {
    /// The databases that this thread looked something up in; hardly ever more than one.
    static MINE: RefCell<Vec<Mine>> = const { RefCell::new(Vec::new()) };
}

impl LookupCounters {
    /// Adds what one lookup did.
    #[cfg(not(feature = "shuttle"))]
    pub fn add(&self, counts: &LookupCounts) {
        let added = MINE.try_with(|mine| {
            let mut mine = mine.borrow_mut();
            let here = mine.iter().position(|mine| std::ptr::eq(mine.of.as_ptr(), Arc::as_ptr(&self.0)));
            let at = here.unwrap_or_else(|| self.join(&mut mine));
            mine[at].numbers.add(counts);
        });
        // A lookup while the thread ends, from the destructor of something that it kept.
        if added.is_err() {
            self.0.lock().rest += *counts;
        }
    }

    /// Adds what one lookup did.
    #[cfg(feature = "shuttle")]
    pub fn add(&self, counts: &LookupCounts) {
        self.0.lock().rest += *counts;
    }

    /// The sums so far, of about now.
    pub fn sums(&self) -> LookupCounts {
        let mut collected = self.0.lock();
        collected.gather();
        let mut sums = collected.rest;
        collected.threads.iter().for_each(|numbers| sums += numbers.sums());
        sums
    }

    /// Gives this thread numbers of its own; returns their place in `mine`.
    #[cfg(not(feature = "shuttle"))]
    fn join(&self, mine: &mut Vec<Mine>) -> usize {
        let numbers = Arc::<OfThread>::default();
        let mut collected = self.0.lock();
        collected.gather();
        collected.threads.push(numbers.clone());
        // Databases that were closed since.
        mine.retain(|mine| mine.of.strong_count() > 0);
        mine.push(Mine { of: Arc::downgrade(&self.0), numbers });
        mine.len() - 1
    }
}

impl Collected {
    /// Adds the numbers of threads that are gone to the rest.
    fn gather(&mut self) {
        let Self { threads, rest } = self;
        threads.retain_mut(|numbers| match Arc::get_mut(numbers) {
            Some(numbers) => {
                *rest += numbers.sums();
                false
            }
            None => true,
        });
    }
}

impl OfThread {
    /// Not one atomic step: nobody else writes here.
    #[cfg(not(feature = "shuttle"))]
    fn add(&self, counts: &LookupCounts) {
        for (number, amount) in self.0.iter().zip(counts.numbers()) {
            number.store(number.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
        }
    }

    fn sums(&self) -> LookupCounts {
        LookupCounts::of_numbers(std::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn counts(first: u64) -> LookupCounts {
        LookupCounts::of_numbers(std::array::from_fn(|i| first + i as u64))
    }

    /// Nothing that any thread counted is lost or told to another database, whether the thread is still there or not.
    #[test]
    fn sums_are_over_all_threads_of_one_database() {
        let (one, other) = (LookupCounters::default(), LookupCounters::default());
        one.add(&counts(5));
        for _ in 0..3 {
            tamarack_env::sync::thread::scope(|scope| {
                let count = || (0..100).for_each(|_| [&one, &other].into_iter().for_each(|some| some.add(&counts(1))));
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
                // Not left to the scope, which does not wait until a thread has let go of what is its own.
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
        assert!(one.0.lock().threads.len() == 1 && other.0.lock().threads.is_empty(), "what is gone was gathered");
    }

    /// A database that takes the place of one that was closed begins at 0, and the closed one's numbers are let go.
    #[test]
    fn a_closed_database_is_forgotten() {
        for round in 0..10 {
            let counters = LookupCounters::default();
            assert_eq!(counters.sums(), LookupCounts::default());
            counters.add(&counts(round));
            assert_eq!(counters.sums(), counts(round));
        }
        MINE.with_borrow(|mine| assert_eq!(mine.len(), 1));
    }
}
