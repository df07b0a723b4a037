//! The clock, random numbers, workers, and waiting for them.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tamarack_env::sync::thread;
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Event, Progress, Work};

use crate::Place;

/// Work that counts its steps, tells of each, and is told what to answer by a function of the
/// count.
struct Counting<F> {
    steps: AtomicU64,
    stepped: Event,
    answer: F,
}

impl<F: Fn(u64) -> Progress + Send + Sync + 'static> Counting<F> {
    fn new(answer: F) -> Arc<Self> {
        Arc::new(Self { steps: AtomicU64::new(0), stepped: Event::new(), answer })
    }

    fn wait_for(&self, place: &Place, steps: u64) {
        assert!(place.env.wait(&self.stepped, None, &mut || self.steps.load(SeqCst) >= steps));
    }
}

impl<F: Fn(u64) -> Progress + Send + Sync> Work for Counting<F> {
    fn step(&self) -> Progress {
        let steps = self.steps.fetch_add(1, SeqCst) + 1;
        self.stepped.notify();
        (self.answer)(steps)
    }
}

pub(crate) fn the_clock_never_goes_back(place: &Place) {
    let mut last = place.env.now();
    for _ in 0..1000 {
        let now = place.env.now();
        assert!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
}

pub(crate) fn random_numbers_differ(place: &Place) {
    let numbers: HashSet<_> = (0..1000).map(|_| place.env.random()).collect();
    assert_eq!(numbers.len(), 1000);
}

/// What is ready already needs no event, even when the deadline has passed.
pub(crate) fn ready_is_asked_first(place: &Place) {
    let event = Event::new();
    assert!(place.env.wait(&event, None, &mut || true));
    assert!(place.env.wait(&event, Some(Duration::ZERO), &mut || true));
    assert!(!place.env.wait(&event, Some(Duration::ZERO), &mut || false));
}

/// Not before its time, and although the event happened once before.
pub(crate) fn a_deadline_ends_a_wait(place: &Place) {
    let event = Event::new();
    event.notify();
    let deadline = place.env.now() + Duration::from_millis(5);
    assert!(!place.env.wait(&event, Some(deadline), &mut || false));
    assert!(place.env.now() >= deadline);
}

/// Not before; and at once if the time has passed.
pub(crate) fn sleeping_ends_with_its_time(place: &Place) {
    let deadline = place.env.now() + Duration::from_millis(5);
    place.env.sleep_until(deadline);
    assert!(place.env.now() >= deadline);
    place.env.sleep_until(deadline);
    place.env.sleep_until(Duration::ZERO);
}

pub(crate) fn the_number_of_cores_is_fixed(place: &Place) {
    let cores = place.env.cores();
    assert!(cores > 0);
    assert_eq!(place.env.cores(), cores);
}

/// `More` needs no waking, `Done` is the end, and the work is released then or when the worker is
/// stopped.
pub(crate) fn a_worker_steps_until_done(place: &Place) {
    let work = Counting::new(|steps| if steps < 100 { Progress::More } else { Progress::Done });
    let worker = place.env.start("done", work.clone()).unwrap();
    work.wait_for(place, 100);
    worker.wake();
    worker.stop();
    assert_eq!(work.steps.load(SeqCst), 100);
    assert_eq!(Arc::strong_count(&work), 1, "the work is still held");
}

/// Whether it comes before, during or after a step.
pub(crate) fn each_wake_up_is_followed_by_a_step(place: &Place) {
    let work = Counting::new(|_| Progress::Idle);
    let worker = place.env.start("woken", work.clone()).unwrap();
    for _ in 0..500 {
        let before = work.steps.load(SeqCst);
        worker.wake();
        work.wait_for(place, before + 1);
    }
    worker.stop();
}

/// Nobody wakes the worker, and it does not step before the time it named.
pub(crate) fn an_idle_time_passes(place: &Place) {
    let (env, next) = (place.env.clone(), Mutex::new(Rank::Test, Duration::ZERO));
    let work = Counting::new(move |_| {
        let mut next = next.lock();
        assert!(env.now() >= *next, "stepped {:?} too early", *next - env.now());
        *next = env.now() + Duration::from_millis(2);
        Progress::IdleUntil(*next)
    });
    let worker = place.env.start("timed", work.clone()).unwrap();
    work.wait_for(place, 4);
    worker.stop();
}

/// An hour of idling ends at once.
pub(crate) fn a_wake_up_ends_an_idle_time(place: &Place) {
    let (env, begin, hour) = (place.env.clone(), place.env.now(), Duration::from_secs(3600));
    let work = Counting::new(move |_| Progress::IdleUntil(env.now() + hour));
    let worker = place.env.start("woken", work.clone()).unwrap();
    work.wait_for(place, 1);
    worker.wake();
    work.wait_for(place, 2);
    worker.stop();
    assert!(place.env.now() < begin + hour, "the time was waited for");
}

/// Waking it is harmless, and so is stopping it again.
pub(crate) fn a_stopped_worker_stays_stopped(place: &Place) {
    let work = Counting::new(|_| Progress::More);
    let worker = place.env.start("stopped", work.clone()).unwrap();
    work.wait_for(place, 3);
    worker.stop();
    let steps = work.steps.load(SeqCst);
    assert_eq!(Arc::strong_count(&work), 1, "the work is still held");
    worker.wake();
    worker.stop();
    assert_eq!(work.steps.load(SeqCst), steps);
}

/// Two workers and the waiting thread, all driven by one event: the second adds up what the first
/// made.
pub(crate) fn workers_hand_over_to_each_other(place: &Place) {
    let (made, changed) = (Arc::new(AtomicU64::new(0)), Arc::new(Event::new()));
    let taken = Arc::new(AtomicU64::new(0));
    let taker = {
        let (made, taken, changed) = (made.clone(), taken.clone(), changed.clone());
        let work = Counting::new(move |_| {
            taken.fetch_add(made.swap(0, SeqCst), SeqCst);
            changed.notify();
            Progress::Idle
        });
        place.env.start("taker", work).unwrap()
    };
    let maker = {
        let (made, taker) = (made.clone(), taker.clone());
        let work = Counting::new(move |steps| {
            made.fetch_add(1, SeqCst);
            taker.wake();
            if steps < 200 { Progress::More } else { Progress::Done }
        });
        place.env.start("maker", work).unwrap()
    };
    assert!(place.env.wait(&changed, None, &mut || taken.load(SeqCst) == 200));
    maker.stop();
    taker.stop();
}

/// Two threads take turns, each waiting for the other through one event.
pub(crate) fn threads_wait_for_each_other(place: &Place) {
    let (turn, event) = (AtomicU64::new(0), Event::new());
    thread::scope(|scope| {
        for parity in 0..2 {
            let (turn, event, env) = (&turn, &event, &place.env);
            scope.spawn(move || {
                for round in 0..500 {
                    assert!(env.wait(event, None, &mut || turn.load(SeqCst) == 2 * round + parity));
                    turn.fetch_add(1, SeqCst);
                    event.notify();
                }
            });
        }
    });
    assert_eq!(turn.load(SeqCst), 1000);
}

/// Each of them returns, and only when the worker has ended.
pub(crate) fn stopping_from_many_threads(place: &Place) {
    let work = Counting::new(|_| Progress::More);
    let worker = place.env.start("stopped", work.clone()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                worker.stop();
                // The worker's own count is gone.
                assert_eq!(Arc::strong_count(&work), 1, "the work is still held");
            });
        }
    });
}

/// With its message, once; after that the worker is an ordinary stopped one.
pub(crate) fn stop_carries_a_panic_on(place: &Place) {
    let work = Counting::new(|_| panic!("meant to happen"));
    let worker = place.env.start("panicking", work.clone()).unwrap();
    work.wait_for(place, 1);
    let panic = catch_unwind(AssertUnwindSafe(|| worker.stop())).expect_err("the panic was swallowed");
    assert_eq!(panic.downcast_ref(), Some(&"meant to happen"));
    worker.wake();
    worker.stop();
    assert_eq!(Arc::strong_count(&work), 1, "the work is still held");
}

/// Who waits for what will never come is told why; who waits for what is there is not disturbed.
pub(crate) fn wait_does_not_outlive_a_panic(place: &Place) {
    let work = Counting::new(|_| panic!("meant to happen"));
    let worker = place.env.start("panicking", work.clone()).unwrap();
    let waiting = catch_unwind(AssertUnwindSafe(|| work.wait_for(place, 2)));
    let message = waiting.expect_err("waited for a second step").downcast::<String>().unwrap();
    assert!(message.contains("panicking"), "does not name the worker: {message}");
    work.wait_for(place, 1);
    drop(worker);
}
