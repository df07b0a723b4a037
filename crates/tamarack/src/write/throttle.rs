//! [`Throttle`]: writers go as fast as merges can follow, and no faster.
//!
//! The scheduler says how many bytes per second may come so that no merge is late. Writers take
//! turns by it: each write moves the moment at which the next one may begin by what its bytes take.
//!
//! ```text
//!   time ──────────────▶
//!   turns    │ 1 ──│ 2 ─────│ 3 ──│ …          a write of n bytes takes n / rate
//!   writes   1   2 waits    3 waits             small waits are saved up: nobody sleeps for less than 200 µs
//! ```
//!
//! Nobody is stopped by it: a write waits for what it brings itself, and for others at most
//! `QUEUE_MAX`. Without a rate the cost is one load.

use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A write waits for earlier ones at most that long.
const QUEUE_MAX: Duration = Duration::from_millis(50);

/// A shorter wait is left to the next writer: sleeping takes some 50 µs longer than asked for, and
/// some processor time each time.
const GRAIN: Duration = Duration::from_micros(200);

/// Turns in which writers may write. At first nobody is held back.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Nanoseconds that a MiB takes; 0 is no time.
    mib_ns: AtomicU64,
    /// When the next write may begin, in nanoseconds of the environment's clock.
    next_ns: AtomicU64,
    /// Somebody was told that writers are held back, and not yet that they are free.
    is_told: AtomicBool,
}

impl Throttle {
    /// Lets that many bytes per second through from now on; without a rate, all.
    pub fn set_rate(&self, bytes_per_second: Option<f64>) {
        let mib_ns = bytes_per_second.map_or(0.0, |rate| MIB / rate * 1e9);
        // From a float to an integer saturates.
        self.mib_ns.store(mib_ns as u64, Ordering::Relaxed);
    }

    /// True if a writer was held back and there is no rate any more; once.
    pub fn frees_writers(&self) -> bool {
        self.mib_ns.load(Ordering::Relaxed) == 0
            && self.is_told.load(Ordering::Relaxed)
            && self.is_told.swap(false, Ordering::Relaxed)
    }

    /// Whether a write that came now would have to wait for earlier ones.
    pub fn holds_back(&self, now: Duration) -> bool {
        self.mib_ns.load(Ordering::Relaxed) > 0 && u128::from(self.next_ns.load(Ordering::Relaxed)) > now.as_nanos()
    }

    /// Ends early when all are let through: what a writer waited for is done then.
    fn sleep_until(&self, env: &dyn Env, until: Duration) {
        while env.now() < until && self.mib_ns.load(Ordering::Relaxed) > 0 {
            env.sleep_until(until.min(env.now() + LOOK));
        }
    }

    /// Waits for the turn of a write of so many raw bytes; returns for how long. `begins` is called
    /// before the wait with the rate, in raw bytes per second and finite, if this write is the
    /// first that is delayed since writers were free. The caller has no lock.
    pub fn admit(&self, env: &dyn Env, bytes: u64, begins: impl FnOnce(f64)) -> Duration {
        let mib_ns = self.mib_ns.load(Ordering::Relaxed);
        if mib_ns == 0 {
            return Duration::ZERO;
        }
        let now = env.now();
        let now_ns = now.as_nanos() as u64;
        let takes_ns = (bytes as f64 / MIB * mib_ns as f64) as u64;
        let turn = |next_ns: u64| next_ns.clamp(now_ns, now_ns + QUEUE_MAX.as_nanos() as u64).saturating_add(takes_ns);
        let next_ns = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next_ns| Some(turn(next_ns)));
        let until = Duration::from_nanos(turn(next_ns.expect("the update always gives a value")));
        if until < now + GRAIN {
            return Duration::ZERO;
        }
        if !self.is_told.swap(true, Ordering::Relaxed) {
            begins(MIB * 1e9 / mib_ns as f64);
        }
        self.sleep_until(env, until);
        env.now().saturating_sub(now)
    }
}

/// So often a writer that waits looks whether it still has to.
const LOOK: Duration = Duration::from_millis(5);

const MIB: f64 = (1 << 20) as f64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tamarack_env::{Progress, SimEnv, Work};

    use super::*;

    /// On the simulator's clock: writes come at the rate, in steps of the grain, and nobody waits
    /// longer than promised.
    #[test]
    fn writes_come_at_the_rate() {
        let env = SimEnv::new(1);
        let throttle = Throttle::default();
        assert_eq!(throttle.admit(&env, 1 << 30, drop), Duration::ZERO, "no rate is set");
        throttle.set_rate(Some(MIB));
        let began = env.now();
        let longest = (0..10_000).map(|_| throttle.admit(&env, 1 << 10, drop)).max().expect("some");
        let seconds = (env.now() - began).as_secs_f64();
        assert!((seconds - 10_000.0 / 1024.0).abs() < 0.01, "{seconds}");
        assert!(
            longest < GRAIN + Duration::from_millis(1),
            "nobody waits for more than a grain besides what it brings: {longest:?}"
        );
        assert_eq!(throttle.admit(&env, 1 << 20, drop), Duration::from_secs(1), "a large write waits for itself");
        throttle.set_rate(None);
        assert_eq!(throttle.admit(&env, 1 << 30, drop), Duration::ZERO);
    }

    /// Whoever listens is told when a delay begins and how fast writers may go, once until they are
    /// free; also if the rate is gone when the delay ends.
    #[test]
    fn a_delay_is_told_when_it_begins() {
        struct Done(Arc<Throttle>);
        impl Work for Done {
            fn step(&self) -> Progress {
                self.0.set_rate(None);
                Progress::Done
            }
        }
        let (env, throttle) = (SimEnv::new(1), Arc::new(Throttle::default()));
        for _ in 0..2 {
            throttle.set_rate(Some(MIB));
            let (began, mut told) = (env.now(), Vec::new());
            throttle.admit(&env, 1 << 20, |rate| told.push((env.now(), rate)));
            let _worker = env.start("worker", Arc::new(Done(throttle.clone()))).expect("nothing fails");
            throttle.admit(&env, 1 << 30, |rate| told.push((env.now(), rate)));
            assert_eq!(told, [(began, MIB)]);
            assert!(throttle.frees_writers() && !throttle.frees_writers());
        }
    }

    /// A rate that was measured on little can be far too low. Writers that wait by it do so no
    /// longer than the work that they wait for.
    #[test]
    fn nobody_waits_for_work_that_is_done() {
        struct Done(Arc<Throttle>);
        impl Work for Done {
            fn step(&self) -> Progress {
                self.0.set_rate(None);
                Progress::Done
            }
        }
        let (env, throttle) = (SimEnv::new(1), Arc::new(Throttle::default()));
        throttle.set_rate(Some(1.0));
        let _worker = env.start("worker", Arc::new(Done(throttle.clone()))).expect("nothing fails");
        assert_eq!(throttle.admit(&env, 1 << 30, drop), LOOK, "not for 34 years");
    }

    /// Others' bytes delay nobody by more than the bound, however many they are.
    #[test]
    fn a_queue_has_an_end() {
        let env = SimEnv::new(1);
        let throttle = Throttle::default();
        throttle.set_rate(Some(1.0));
        // Somebody else's turn lasts for days.
        throttle.next_ns.store(u64::MAX / 2, Ordering::Relaxed);
        throttle.set_rate(Some(1e9));
        assert!(throttle.admit(&env, 100, drop) < QUEUE_MAX + GRAIN);
    }
}
