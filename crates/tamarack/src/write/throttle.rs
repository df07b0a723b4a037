//! [`Throttle`]: write throttling. Delays writers to the rate that compaction can sustain.
//!
//! The scheduler sets the rate, in bytes per second, at which no compaction misses its deadline.
//! Writers take turns: each write advances the start of the next one by its bytes divided by the
//! rate.
//!
//! ```text
//!   time ──────────────▶
//!   turns    │ 1 ──│ 2 ─────│ 3 ──│ …          a write of n bytes takes n / rate
//!   writes   1   2 waits    3 waits             delays add up until a sleep is worth its cost
//! ```
//!
//! A sleep is long and rare rather than short and frequent, so that the 99th percentile of
//! latencies is that of a write that is not throttled: of [`WRITES_PER_SLEEP`] writes, one sleeps
//! for the time that all of them take at the rate, but for no longer than [`SLEEP_MAX`]. Rare
//! sleeps also cost less processor time.
//!
//! **Bursts.** Writers that were slower than the rate, or unlimited, may be faster for a while: up
//! to a number of bytes ([`Throttle::set_burst`]) need not wait.
//!
//! Throttling never stops writers (that is a write stall, see [`super::commit`]): a write waits for
//! its own bytes, and for those of others at most `QUEUE_MAX`. Without a rate the cost is one
//! atomic load.

use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Upper bound on a write's delay by earlier writes.
const QUEUE_MAX: Duration = Duration::from_millis(50);

/// Delays are left to the next writers until this many writes of the same size have added to them.
const WRITES_PER_SLEEP: u64 = 130;

/// No shorter: a sleep takes some 50 µs longer than requested, and costs processor time.
const SLEEP_MIN: Duration = Duration::from_micros(300);

/// No longer but for a write's own bytes, at rates so low that sleeps are frequent in any case:
/// with what a sleep takes longer than requested, it stays below two milliseconds.
const SLEEP_MAX: Duration = Duration::from_micros(1800);

/// The rate of writers and their turns. Unlimited at first.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Nanoseconds per MiB; 0 means unlimited.
    mib_ns: AtomicU64,
    /// Start of the next write, in nanoseconds on the environment's clock.
    next_ns: AtomicU64,
    /// Bytes by which writers may be ahead of the rate.
    burst_bytes: AtomicU64,
    /// True from the event that throttling began to the one that it ended.
    is_reported: AtomicBool,
}

impl Throttle {
    /// Sets the rate in raw bytes per second; `None` removes the limit.
    pub fn set_rate(&self, bytes_per_second: Option<f64>) {
        let mib_ns = bytes_per_second.map_or(0.0, |rate| MIB / rate * 1e9);
        // The cast saturates.
        self.mib_ns.store(mib_ns as u64, Ordering::Relaxed);
    }

    /// Sets the raw bytes that need not wait, after writers were slower than the rate for as long
    /// as these take at it.
    pub fn set_burst(&self, bytes: u64) {
        self.burst_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns true, once, if a write was delayed and the limit has been removed since.
    pub fn take_ended(&self) -> bool {
        self.mib_ns.load(Ordering::Relaxed) == 0
            && self.is_reported.load(Ordering::Relaxed)
            && self.is_reported.swap(false, Ordering::Relaxed)
    }

    /// Returns true if a write at `now` would be delayed by earlier ones.
    pub fn is_delaying(&self, now: Duration) -> bool {
        self.mib_ns.load(Ordering::Relaxed) > 0 && u128::from(self.next_ns.load(Ordering::Relaxed)) > now.as_nanos()
    }

    /// Sleeps until `until`, or until the limit is removed: the work that the writer waited for is
    /// done then.
    fn sleep_until(&self, env: &dyn Env, until: Duration) {
        while env.now() < until && self.mib_ns.load(Ordering::Relaxed) > 0 {
            env.sleep_until(until.min(env.now() + CHECK_INTERVAL));
        }
    }

    /// Delays a write of `bytes` raw bytes until its turn, and returns the delay. `begins` is
    /// called before the first delay since throttling last ended, with the rate in raw bytes per
    /// second, which is finite. The caller holds no lock.
    #[inline]
    pub fn admit(&self, env: &dyn Env, bytes: u64, begins: impl FnOnce(f64)) -> Duration {
        match self.mib_ns.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            mib_ns => self.admit_limited(mib_ns, env, bytes, begins),
        }
    }

    /// [`Throttle::admit`] at this rate.
    #[inline(never)]
    fn admit_limited(&self, mib_ns: u64, env: &dyn Env, bytes: u64, begins: impl FnOnce(f64)) -> Duration {
        let now = env.now();
        let now_ns = now.as_nanos() as u64;
        let takes_ns = |bytes: u64| (bytes as f64 / MIB * mib_ns as f64) as u64;
        let earliest_ns = now_ns.saturating_sub(takes_ns(self.burst_bytes.load(Ordering::Relaxed)));
        let latest_ns = now_ns + QUEUE_MAX.as_nanos() as u64;
        let turn = |next_ns: u64| next_ns.clamp(earliest_ns, latest_ns).saturating_add(takes_ns(bytes));
        let next_ns = self.next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next_ns| Some(turn(next_ns)));
        let until = Duration::from_nanos(turn(next_ns.expect("the update always gives a value")));
        let sleep = Duration::from_nanos(takes_ns(bytes).saturating_mul(WRITES_PER_SLEEP));
        if until < now + sleep.clamp(SLEEP_MIN, SLEEP_MAX) {
            return Duration::ZERO;
        }
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            begins(MIB * 1e9 / mib_ns as f64);
        }
        self.sleep_until(env, until);
        env.now().saturating_sub(now)
    }
}

/// Interval at which a delayed writer checks whether the limit was removed.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

const MIB: f64 = (1 << 20) as f64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tamarack_env::{Progress, SimEnv, Work};

    use super::*;

    /// Work that removes the limit.
    struct Unlimit(Arc<Throttle>);

    impl Work for Unlimit {
        fn step(&self) -> Progress {
            self.0.set_rate(None);
            Progress::Done
        }
    }

    /// On the simulator's clock: throughput equals the rate, in steps of a sleep, and no delay
    /// exceeds its bound.
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
            longest < SLEEP_MAX + Duration::from_millis(1),
            "no write waits longer than a sleep and its own bytes: {longest:?}"
        );
        assert_eq!(throttle.admit(&env, 1 << 20, drop), Duration::from_secs(1), "a large write waits for itself");
        throttle.set_rate(None);
        assert_eq!(throttle.admit(&env, 1 << 30, drop), Duration::ZERO);
    }

    /// One write in [`WRITES_PER_SLEEP`] sleeps, and not longer than needed for that.
    #[test]
    fn few_writes_sleep() {
        let env = SimEnv::new(1);
        let throttle = Throttle::default();
        // 5 µs for each write, so that neither bound of a sleep counts.
        throttle.set_rate(Some(1024.0 / 5e-6));
        let sleeps: Vec<Duration> =
            (0..130_000).map(|_| throttle.admit(&env, 1 << 10, drop)).filter(|delay| *delay > Duration::ZERO).collect();
        // Writes take no time on this clock, so the time between sleeps is that of the sleeps.
        assert!((990..=1_010).contains(&sleeps.len()), "{} sleeps", sleeps.len());
        let longest = sleeps.iter().max().expect("some");
        assert!((650..=660).contains(&longest.as_micros()), "{longest:?}");
    }

    /// After a pause, a burst of the given size does not wait, and one beyond it comes at the rate;
    /// while writers are at the rate, nothing is saved up for a burst.
    #[test]
    fn bursts_after_a_pause_do_not_wait() {
        let env = SimEnv::new(1);
        let throttle = Throttle::default();
        throttle.set_rate(Some(MIB));
        throttle.set_burst(2 << 20);
        env.run_until(Duration::from_secs(60));
        let seconds = |writes: u64| {
            let began = env.now();
            for _ in 0..writes {
                throttle.admit(&env, 1 << 10, drop);
            }
            (env.now() - began).as_secs_f64()
        };
        assert_eq!(seconds(2 << 10), 0.0, "the burst");
        assert!((seconds(4 << 10) - 4.0).abs() < 0.01, "at the rate");
        env.run_until(env.now() + Duration::from_secs(1));
        assert!((seconds(3 << 10) - 2.0).abs() < 0.01, "a second's worth was saved up");
    }

    /// The beginning of throttling is reported once until it ends, with the rate; also if the limit
    /// is removed during the delay.
    #[test]
    fn throttling_is_reported_when_it_begins() {
        let (env, throttle) = (SimEnv::new(1), Arc::new(Throttle::default()));
        for _ in 0..2 {
            throttle.set_rate(Some(MIB));
            let (began, mut told) = (env.now(), Vec::new());
            throttle.admit(&env, 1 << 20, |rate| told.push((env.now(), rate)));
            let _worker = env.start("worker", Arc::new(Unlimit(throttle.clone()))).expect("nothing fails");
            throttle.admit(&env, 1 << 30, |rate| told.push((env.now(), rate)));
            assert_eq!(told, [(began, MIB)]);
            assert!(throttle.take_ended() && !throttle.take_ended());
        }
    }

    /// A rate measured on little data can be far too low. A writer waits no longer than the work
    /// that it waits for.
    #[test]
    fn delays_end_with_the_work_that_they_are_for() {
        let (env, throttle) = (SimEnv::new(1), Arc::new(Throttle::default()));
        throttle.set_rate(Some(1.0));
        let _worker = env.start("worker", Arc::new(Unlimit(throttle.clone()))).expect("nothing fails");
        assert_eq!(throttle.admit(&env, 1 << 30, drop), CHECK_INTERVAL, "not for 34 years");
    }

    /// The bytes of other writers delay a write by at most the bound.
    #[test]
    fn delays_by_others_are_bounded() {
        let env = SimEnv::new(1);
        let throttle = Throttle::default();
        throttle.set_rate(Some(1.0));
        // Another writer's turn lasts for days.
        throttle.next_ns.store(u64::MAX / 2, Ordering::Relaxed);
        throttle.set_rate(Some(1e9));
        assert!(throttle.admit(&env, 100, drop) < QUEUE_MAX + SLEEP_MAX);
    }
}
