//! Two clocks: wall time, and this program's processor time, which other programs on the machine
//! disturb less.

use std::time::Instant;

/// What something took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub wall_s: f64,
    /// Processor time of all threads of this process, kernel included. Work of kernel threads, such
    /// as writing back pages, is not in it.
    pub cpu_s: f64,
}

/// Runs `work` and says what it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Taken) {
    let (began, cpu_before) = (Instant::now(), cpu_s());
    let outcome = work();
    (outcome, Taken { wall_s: began.elapsed().as_secs_f64(), cpu_s: cpu_s() - cpu_before })
}

fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux counts the time of processes");
    // Fields 14 and 15 are ticks of 10 ms, in user code and in the kernel; field 2 is a name in
    // parentheses, which may contain spaces.
    let fields: Vec<&str> = text.rsplit(')').next().expect("there is one").split_whitespace().collect();
    let ticks = |field: usize| fields[field - 3].parse::<f64>().expect("a number of ticks");
    (ticks(14) + ticks(15)) / 100.0
}
