//! How long it takes to divide the levels above the last, for trees of many buffers and for workloads that want different structures.
//!
//! ```text
//! cargo run --release -p tamarack-model --example structure_speed
//! ```

use std::hint::black_box;

use tamarack_model::policy::structure::{self, LevelCost};

fn main() {
    let mixed = |range, update| LevelCost::Mixed { range, update };
    let costs = [
        ("√r", LevelCost::Root),
        ("a third scans, a third updates", mixed(0.33, 0.33 / 4.0)),
        ("98 % scans, 1 % updates", mixed(0.98, 0.01 / 4.0)),
        ("1 % scans, 98 % updates", mixed(0.01, 0.98 / 4.0)),
    ];
    println!("{:<9} {:<6} {:<32} {:>8}  ratios", "buffers", "last", "cost of a level", "ms");
    for buffers in [1_u64 << 14, 1 << 17, 1 << 20] {
        for (share, (name, cost)) in
            [0.5, 0.65, 0.8, 0.95].into_iter().flat_map(|share| costs.map(|cost| (share, cost)))
        {
            let last = (buffers as f64 * share).round();
            let above = buffers - last as u64;
            let (levels, milliseconds) = timed(|| structure::levels_above(black_box(above), last, cost));
            let mut batch = 1.0;
            let all = levels.iter().map(|capacity| *capacity as f64).chain([last]);
            let ratios = all.map(|capacity| {
                let ratio = capacity / batch;
                batch = capacity;
                format!("{ratio:.3}")
            });
            println!(
                "{buffers:<9} {share:<6} {name:<32} {milliseconds:>8.2}  {}",
                ratios.collect::<Vec<_>>().join(" ")
            );
        }
    }
}

/// The fastest of a few.
#[expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]
fn timed<T>(work: impl Fn() -> T) -> (T, f64) {
    let once = || {
        let start = std::time::Instant::now();
        let result = work();
        (result, start.elapsed().as_secs_f64() * 1e3)
    };
    (0..4).map(|_| once()).fold(once(), |best, next| if next.1 < best.1 { next } else { best })
}
