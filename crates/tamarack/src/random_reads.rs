//! [`SteadyReads`]: random reads of which always as many are in flight, to time a device; times of
//! calls, and medians of rounds.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use tamarack_env::{Env, ReadQueue, ReadRequest};

/// The shortest time: that of a clock that stands still, as the simulator's may.
const TICK: Duration = Duration::from_nanos(1);

/// The result of `work` and the seconds that it took, above 0.
pub(crate) fn timed<T>(env: &dyn Env, work: impl FnOnce() -> T) -> (T, f64) {
    let began = env.now();
    let done = work();
    let took = env.now().saturating_sub(began);
    (done, took.max(TICK).as_secs_f64())
}

/// The middle one of some numbers, the larger one of two.
///
/// # Panics
/// If there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A read queue that always has as many reads in flight, until it ends.
pub(crate) struct SteadyReads<'a> {
    depth: u32,
    /// The read of each number, counted from 0, until there is none.
    request: &'a dyn Fn(u64) -> Option<ReadRequest>,
    begun: u64,
    in_flight: u32,
    failure: Option<io::Error>,
}

impl<'a> SteadyReads<'a> {
    /// The reads that `request` gives, from number 0 on until there is none, `depth` at any time.
    pub(crate) fn new(depth: u32, request: &'a dyn Fn(u64) -> Option<ReadRequest>) -> Self {
        Self { depth, request, begun: 0, in_flight: 0, failure: None }
    }

    /// How many reads there were.
    ///
    /// # Errors
    /// That of the first read that failed; no other was begun then.
    pub(crate) fn ended(self) -> io::Result<u64> {
        self.failure.map_or(Ok(self.begun), Err)
    }
}

impl ReadQueue for SteadyReads<'_> {
    fn next(&mut self) -> Option<ReadRequest> {
        if self.in_flight == self.depth || self.failure.is_some() {
            return None;
        }
        let request = (self.request)(self.begun)?;
        self.begun += 1;
        self.in_flight += 1;
        Some(request)
    }

    fn arrived(&mut self, _number: usize, bytes: io::Result<&[u8]>) {
        self.in_flight -= 1;
        if let Err(error) = bytes.map(black_box) {
            self.failure.get_or_insert(error);
        }
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
