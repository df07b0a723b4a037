//! [`Plan`]: how the time of a calibration is shared.

use std::time::Duration;

use tamarack_env::Env;

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
