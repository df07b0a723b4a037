//! Events and workers under the schedule explorer: no order of steps loses a wake-up, waits for
//! ever, or calls the work after it was stopped. Each test states what shall hold in every order;
//! the explorer reports a thread that nobody wakes as a deadlock, with the order that led there.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use tamarack_env::sync::thread;
use tamarack_env::{Env, Event, MemoryEnv, Progress, Work};

/// Runs `test` in many orders: random ones, and those with few switches, where rare bugs hide.
fn explore(test: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(test, 2000);
    shuttle::check_pct(test, 2000, 3);
}

/// Whoever makes a condition true and then notifies is seen by all that wait for it, with and
/// without others waiting.
#[test]
fn a_notification_reaches_every_waiter() {
    explore(|| {
        let env = MemoryEnv::new(1);
        let (event, value) = (Arc::new(Event::new()), Arc::new(AtomicU64::new(0)));
        let waiters = [1, 2, 2].map(|wanted| {
            let (env, event, value) = (env.clone(), event.clone(), value.clone());
            thread::spawn(move || assert!(env.wait(&event, None, &mut || value.load(SeqCst) >= wanted)))
        });
        for _ in 0..2 {
            value.fetch_add(1, SeqCst);
            event.notify();
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// A wait with a deadline ends although nobody notifies, and then the clock has reached the
/// deadline; a notification may still come first.
#[test]
fn a_deadline_ends_a_wait() {
    explore(|| {
        let env = MemoryEnv::new(1);
        let (event, happened) = (Arc::new(Event::new()), Arc::new(AtomicBool::new(false)));
        let waiters = [true, false].map(|by_notification| {
            let (env, event, happened) = (env.clone(), event.clone(), happened.clone());
            thread::spawn(move || {
                let deadline = env.now() + Duration::from_secs(3600);
                let ready = env.wait(&event, Some(deadline), &mut || by_notification && happened.load(SeqCst));
                assert!(if ready { happened.load(SeqCst) } else { env.now() >= deadline });
            })
        });
        happened.store(true, SeqCst);
        event.notify();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// Takes what was put into `pending`.
#[derive(Default)]
struct Consumer {
    pending: AtomicU64,
    consumed: AtomicU64,
    changed: Event,
    stopped: AtomicBool,
    /// If given, the consumer looks again after a minute on this clock rather than only when woken.
    clock: Option<Arc<dyn Env>>,
}

impl Work for Consumer {
    fn step(&self) -> Progress {
        assert!(!self.stopped.load(SeqCst), "called after it was stopped");
        let taken = self.pending.swap(0, SeqCst);
        if taken > 0 {
            self.consumed.fetch_add(taken, SeqCst);
            self.changed.notify();
        }
        match &self.clock {
            None => Progress::Idle,
            Some(env) => Progress::IdleUntil(env.now() + Duration::from_secs(60)),
        }
    }
}

/// Everything put before a wake-up is consumed, wherever in its loop the worker is at that time.
#[test]
fn a_wake_up_is_never_lost() {
    explore(|| {
        let env = MemoryEnv::new(1);
        let work = Arc::new(Consumer::default());
        let worker = env.start("consumer", work.clone()).unwrap();
        let producers = [1, 1].map(|amount| {
            let (work, worker) = (work.clone(), worker.clone());
            thread::spawn(move || {
                work.pending.fetch_add(amount, SeqCst);
                worker.wake();
            })
        });
        assert!(env.wait(&work.changed, None, &mut || work.consumed.load(SeqCst) == 2));
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        worker.stop();
    });
}

/// An idle time passes without anyone waking the worker.
#[test]
fn an_idle_time_ends() {
    explore(|| {
        let env = MemoryEnv::new(1);
        let work = Arc::new(Consumer { clock: Some(env.clone()), ..Consumer::default() });
        let worker = env.start("consumer", work.clone()).unwrap();
        work.pending.store(1, SeqCst);
        // Nobody wakes the worker, which may have looked before there was anything.
        assert!(env.wait(&work.changed, None, &mut || work.consumed.load(SeqCst) == 1));
        worker.stop();
    });
}

/// Two that stop the same worker both return, and only after its last step; the work is released by
/// then.
#[test]
fn stopping_waits_for_the_end() {
    explore(|| {
        let env = MemoryEnv::new(1);
        let work = Arc::new(Consumer::default());
        let worker = env.start("consumer", work.clone()).unwrap();
        let stoppers = [(); 2].map(|()| {
            let (work, worker) = (work.clone(), worker.clone());
            thread::spawn(move || {
                worker.stop();
                work.stopped.store(true, SeqCst);
            })
        });
        worker.wake();
        stoppers.into_iter().for_each(|stopper| stopper.join().unwrap());
        assert_eq!(Arc::strong_count(&work), 1, "the work is still held");
    });
}
