//! Times of calls, medians of rounds, and [`Plan`]: how the time of a calibration is shared.

use std::time::Duration;

use tamarack_env::Env;

/// The shortest time: that of a clock that stands still, as the simulator's may.
const TICK: Duration = Duration::from_nanos(1);

/// The result of `work` and the seconds that it took, above 0.
pub(super) fn timed<T>(env: &dyn Env, work: impl FnOnce() -> T) -> (T, f64) {
    let began = env.now();
    let done = work();
    let took = env.now().saturating_sub(began);
    (done, took.max(TICK).as_secs_f64())
}

/// The middle one of some numbers, the larger one of two.
///
/// # Panics
/// If there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The shares of a calibration in its time, in thousandths, and what is done of them.
pub(super) struct Plan<'a> {
    env: &'a dyn Env,
    time: Duration,
    done: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

/// The whole.
const THOUSANDTHS: u64 = 1000;

impl<'a> Plan<'a> {
    /// A plan for so much time.
    pub(super) fn new(env: &'a dyn Env, time: Duration, progress: &'a mut dyn FnMut(u64, u64)) -> Self {
        progress(0, THOUSANDTHS);
        Self { env, time, done: 0, progress }
    }

    /// The moment at which a part that begins now has had its share.
    pub(super) fn end_of(&self, thousandths: f64) -> Duration {
        self.env.now() + self.time.mul_f64(thousandths / THOUSANDTHS as f64)
    }

    /// Reports that a part with this share is done.
    pub(super) fn advance(&mut self, thousandths: u64) {
        self.done = (self.done + thousandths).min(THOUSANDTHS);
        (self.progress)(self.done, THOUSANDTHS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Medians of odd and even numbers of rounds.
    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 4.0);
    }

    /// A clock that stands still shows a nanosecond.
    #[test]
    fn times_are_above_zero() {
        let env = tamarack_env::SimEnv::new(1);
        assert_eq!(timed(&env, || 5), (5, 1e-9));
        assert_eq!(timed(&env, || env.advance(Duration::from_secs(2))), ((), 2.0));
    }
}
