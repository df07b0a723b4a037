//! How long it takes to say how many bits of filter each run gets: `cargo run --release -p
//! tamarack-model --example allocate_speed`.
//!
//! Medians over budgets from 0.1 to 16 bits per entry. What the worst of them takes stands beside:
//! where the memory ends among runs that may go without a filter, some allocations more are tried.

#![expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]

use std::time::{Duration, Instant};

use tamarack_model::FilterKind;
use tamarack_model::allocate::{Curve, Load, ideal, used};

fn main() {
    println!("{:<10} {:>6} {:>12} {:>12}", "curve", "runs", "median", "longest");
    for runs in [10, 50, 500] {
        let loads: Vec<Load> = (0..runs).map(|at| Load::new(1000 + at * at * 37)).collect();
        let entries: f64 = used(&loads, &vec![1.0; loads.len()]);
        let budgets: Vec<f64> = (1..=160).map(|tenths| entries * f64::from(tenths) / 10.0).collect();
        show("ideal", runs, &budgets, |bits| ideal(&loads, bits));
        for kind in FilterKind::OF_ONE_PIECE {
            let curve = Curve::new(kind);
            show(kind.name(), runs, &budgets, |bits| curve.allocate(&loads, bits));
        }
    }
    for kind in FilterKind::OF_ONE_PIECE {
        let began = Instant::now();
        std::hint::black_box(Curve::new(kind));
        println!("making the curve of {}: {:.1?}", kind.name(), began.elapsed());
    }
}

fn show(curve: &str, runs: u64, budgets: &[f64], allocate: impl Fn(f64) -> Vec<f64>) {
    let mut times: Vec<Duration> = budgets
        .iter()
        .map(|bits| {
            let began = Instant::now();
            std::hint::black_box(allocate(*bits));
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{curve:<10} {runs:>6} {:>12.1?} {:>12.1?}", times[times.len() / 2], times[times.len() - 1]);
}
