//! A store as it changes while a row runs, sampled every quarter of a second, at first more often:
//! what was put, what compactions owe, and what files take.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::machine;
use serde::{Deserialize, Serialize};

use crate::drive::Done;
use crate::stores::Store;

/// The state at one moment.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Point {
    /// Seconds since the row began.
    pub at_s: f64,
    /// Bytes of entries put so far.
    pub put_bytes: u64,
    /// Puts per second since the point before.
    pub puts_per_s: f64,
    /// See [`crate::stores::Gauges`].
    pub debt_bytes: Option<u64>,
    pub runs: Option<u64>,
    /// What the files take.
    pub space_bytes: u64,
}

/// Samples until `over`. Looks at it more often than that, so that a row is not made longer.
pub fn sample(store: &dyn Store, dir: &Path, done: &[Done], entry_bytes: u64, over: &AtomicBool) -> Vec<Point> {
    let (began, mut points, mut puts_before) = (Instant::now(), Vec::<Point>::new(), 0);
    let mut space = Space::new(dir);
    loop {
        let ends = over.load(Ordering::Relaxed);
        let at_s = began.elapsed().as_secs_f64();
        let seconds = at_s - points.last().map_or(0.0, |point| point.at_s);
        if ends || points.is_empty() || seconds >= every_s(at_s) {
            let (puts, gauges) = (Done::sum(done), store.gauges());
            points.push(Point {
                at_s,
                put_bytes: puts * entry_bytes,
                puts_per_s: if seconds > 0.0 { (puts - puts_before) as f64 / seconds } else { 0.0 },
                debt_bytes: gauges.debt_bytes,
                runs: gauges.runs,
                space_bytes: space.bytes(ends),
            });
            puts_before = puts;
        }
        if ends {
            return points;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Seconds between samples. A burst is over in less than a second.
fn every_s(at_s: f64) -> f64 {
    if at_s < 4.0 { 0.05 } else { 0.25 }
}

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looking at thousands of files takes milliseconds of processor time; at most a hundredth of the
/// time is spent so.
const SHARE: u32 = 100;

/// What files take, looked up not too often.
struct Space<'a> {
    dir: &'a Path,
    bytes: u64,
    next: Instant,
}

impl<'a> Space<'a> {
    fn new(dir: &'a Path) -> Self {
        Self { dir, bytes: 0, next: Instant::now() }
    }

    fn bytes(&mut self, now: bool) -> u64 {
        if now || Instant::now() >= self.next {
            let cpu_ns = machine::thread_cpu_ns();
            self.bytes = machine::allocated_bytes(self.dir);
            self.next = Instant::now() + Duration::from_nanos(machine::thread_cpu_ns() - cpu_ns) * SHARE;
        }
        self.bytes
    }
}
