//! Two clocks: on the wall, and of the processor for this thread, which other programs on the machine disturb less.

use std::time::Instant;

/// What something took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub wall_s: f64,
    /// Time of this thread on a processor, in the kernel too.
    pub cpu_s: f64,
}

/// Runs `work` and says what it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let (began, cpu_before) = (Instant::now(), cpu_s());
    let outcome = work();
    (outcome, Taken { wall_s: began.elapsed().as_secs_f64(), cpu_s: cpu_s() - cpu_before })
}

fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    let ns: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("nanoseconds come first");
    ns / 1e9
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
