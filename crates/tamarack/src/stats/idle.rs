//! [`IdleAlarm`]: wakes a worker that sleeps long because nothing happens, when something does.
//!
//! Who rings it does so at rare events only, such as a sampled lookup or a full memtable, so that
//! the other operations pay nothing. An alarm that is not set costs one relaxed load.
//!
//! Tests: here, and `tests/suite/controller.rs`.

use std::sync::{Arc, OnceLock};

use tamarack_env::Worker;
use tamarack_env::sync::atomic::{AtomicBool, Ordering};

/// See the module's documentation.
#[derive(Default)]
pub struct IdleAlarm {
    /// True until it rings.
    is_set: AtomicBool,
    worker: OnceLock<Arc<dyn Worker>>,
}

impl IdleAlarm {
    /// Sets the worker that the alarm wakes.
    ///
    /// # Panics
    /// If it is set already.
    pub fn set_worker(&self, worker: Arc<dyn Worker>) {
        assert!(self.worker.set(worker).is_ok(), "an idle alarm wakes one worker");
    }

    /// Sets the alarm, so that it rings once, or turns it off.
    pub fn set(&self, is_set: bool) {
        self.is_set.store(is_set, Ordering::Relaxed);
    }

    /// Returns true if the alarm is set and has not rung.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Wakes the worker if the alarm is set. Something has happened.
    #[inline]
    pub fn ring(&self) {
        if self.is_set() {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if self.is_set.swap(false, Ordering::Relaxed)
            && let Some(worker) = self.worker.get()
        {
            worker.wake();
        }
    }
}

impl std::fmt::Debug for IdleAlarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleAlarm").field("is_set", &self.is_set).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tamarack_env::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Worker for Woken {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn stop(&self) {}
    }

    #[test]
    fn rings_once_if_it_is_set() {
        let (alarm, woken) = (IdleAlarm::default(), Arc::new(Woken::default()));
        alarm.set(true);
        alarm.ring();
        assert!(!alarm.is_set(), "it rings before there is a worker, too");
        alarm.set_worker(woken.clone());
        alarm.ring();
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        for times in 1..3 {
            alarm.set(true);
            alarm.ring();
            alarm.ring();
            assert_eq!(woken.0.load(Ordering::Relaxed), times);
        }
        alarm.set(true);
        alarm.set(false);
        alarm.ring();
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    }
}
