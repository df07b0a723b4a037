//! How long it takes to divide the levels above the last, for trees of many buffers, all shares of
//! the last level, and workloads that want different structures.
//!
//! ```text
//! cargo run --release -p tamarack-model --example structure_speed
//! ```

use std::hint::black_box;

use tamarack_model::policy::structure::{self, LevelCost};

const SHARES: [f64; 10] = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95];

fn main() {
    let mixed = |range, update| LevelCost::Mixed { range, update };
    let costs = [
        ("√r", LevelCost::Root),
        ("a third scans, a third updates", mixed(0.33, 0.33 / 4.0)),
        ("98 % scans, 1 % updates", mixed(0.98, 0.01 / 4.0)),
        ("1 % scans, 98 % updates", mixed(0.01, 0.98 / 4.0)),
    ];
    println!("{:<9} {:<5} {:<31} {:>7} {:>9}  ratios", "buffers", "last", "cost of a level", "min ms", "median ms");
    for buffers in [1_u64 << 14, 1 << 17, 1 << 20] {
        for (share, (name, cost)) in SHARES.into_iter().flat_map(|share| costs.map(|cost| (share, cost))) {
            let last = (buffers as f64 * share).round();
            let above = buffers - last as u64;
            let (levels, [least, median]) = timed(|| structure::levels_above(black_box(above), last, cost));
            let mut batch = 1.0;
            let all = levels.iter().map(|capacity| *capacity as f64).chain([last]);
            let ratios = all.map(|capacity| {
                let ratio = capacity / batch;
                batch = capacity;
                format!("{ratio:.3}")
            });
            let ratios = ratios.collect::<Vec<_>>().join(" ");
            println!("{buffers:<9} {share:<5} {name:<31} {least:>7.2} {median:>9.2}  {ratios}");
        }
    }
}

/// The fastest and the median of eleven.
#[expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]
fn timed<T>(work: impl Fn() -> T) -> (T, [f64; 2]) {
    let mut times: Vec<f64> = (0..10)
        .map(|_| {
            let start = std::time::Instant::now();
            black_box(work());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let start = std::time::Instant::now();
    let result = work();
    times.push(start.elapsed().as_secs_f64() * 1e3);
    times.sort_by(f64::total_cmp);
    (result, [times[0], times[5]])
}
