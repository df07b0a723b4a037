//! Simulation and closed forms agree: writes per entry and visible runs, for a grid of T, K, Z and L.
//!
//! Each tree gets one level more than it needs, so large that nothing ever leaves it, and then exactly the flushes that fill its own last level once. Each of
//! its levels then has been filled and emptied a whole number of times, and what was written to it can be compared to the last byte.

use tamarack_model::cost::update;
use tamarack_model::policy::Custom;
use tamarack_model::simulate::{Pace, Report, simulate};
use tamarack_model::{Bytes, Level, Shape};

/// The levels, and a sink below them.
fn with_sink(buffer: u64, mut levels: Vec<Level>) -> Shape {
    levels.push(Level { capacity: Bytes(1 << 40), runs: 1 });
    Shape::new(Bytes(buffer), levels).expect("a shape")
}

fn run(shape: &Shape, flushes: u64) -> Report {
    simulate(&Custom::new(shape.clone()), shape.buffer(), &vec![shape.buffer(); flushes as usize], Pace::Settled)
}

fn check(shape: &Shape) {
    let last = shape.last() - 1;
    let passed: u64 = (1..=last).map(|level| shape.batches(level)).product();
    let report = run(shape, passed);
    for level in 1..=last {
        let predicted = update::writes_per_entry(shape, level) * report.flushed.as_f64();
        let written = report.written.get(level - 1).map_or(0.0, |bytes| bytes.as_f64());
        assert!(
            (predicted - written).abs() < 1e-6 * predicted + 1e-6,
            "level {level}: predicted {predicted}, written {written} in\n{shape}"
        );
        let most = report.runs[level - 1].most;
        assert_eq!(most, shape.visible_runs(level) as f64, "runs of level {level} in\n{shape}");
    }
    assert_eq!(report.written[last], report.flushed, "everything has come down, once:\n{shape}");
}

/// For every T from 2 to 10, all K and Z (with T slots for T-1 visible runs), and one to three levels: exact.
#[test]
fn dostoevsky_is_exact() {
    for ratio in 2..=10_u64 {
        let slots = |visible: u64| u32::try_from(if visible == ratio - 1 { ratio } else { visible }).expect("small");
        for (inner, last) in (1..ratio).flat_map(|inner| (1..ratio).map(move |last| (inner, last))) {
            for levels in 1..=3_u32 {
                let level = |number: u32| Level {
                    capacity: Bytes(ratio.pow(number)),
                    runs: slots(if number == levels { last } else { inner }),
                };
                check(&with_sink(1, (1..=levels).map(level).collect()));
            }
        }
    }
}
