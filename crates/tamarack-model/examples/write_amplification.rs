//! Predicted write amplification of each policy: the simulated planner beside the closed form, and
//! with concurrent compactions.
//!
//! ```text
//! cargo run --release -p tamarack-model --example write_amplification [BUFFERS]
//! ```

use tamarack_model::cost::update;
use tamarack_model::policy;
use tamarack_model::simulate::{Pace, Report, simulate};
use tamarack_model::{Bytes, Shape};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let buffers: usize = std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse())?;
    let buffer = Bytes(1 << 20);
    let flushes = vec![buffer; buffers];
    println!(
        "{buffers} buffers. Concurrent: compactions 1.1, 1.5 and 3 times as fast as needed, beside ones that end between flushes."
    );
    println!(
        "{:<24}{:>8}{:>9}{:>8}{:>8}{:>8}{:>8}{:>10}{:>8}",
        "policy", "formula", "settled", "at 1.1", "at 1.5", "at 3", "runs", "at 1.1", "immutable"
    );
    for words in [
        "leveling:T=2",
        "leveling:T=4",
        "leveling:T=10",
        "tiering:T=4",
        "tiering:T=10",
        "lazy-leveling:T=5",
        "lazy-leveling:T=10",
        "dostoevsky:T=5,K=2,Z=1",
        "dostoevsky:T=10,K=3,Z=1",
        "garnering:T=2,c=0.8",
        "moose:last=0.8,k=1",
    ] {
        let policy = policy::parse(words)?;
        let settled = simulate(&policy, buffer, &flushes, Pace::Settled);
        let at = |factor: f64| {
            let speed = factor * settled.write_amplification();
            simulate(&policy, buffer, &flushes, Pace::Concurrent { speed })
        };
        let more = |report: &Report| 100.0 * (report.written_total().ratio(settled.written_total()) - 1.0);
        let (slow, medium, fast) = (at(1.1), at(1.5), at(3.0));
        println!(
            "{words:<24}{:>8.2}{:>9.2}{:>+7.1}%{:>+7.1}%{:>+7.1}%{:>8}{:>10}{:>8}",
            formula(&policy.shape(Bytes(buffer.0 * buffers as u64), buffer)),
            settled.write_amplification(),
            more(&slow),
            more(&medium),
            more(&fast),
            settled.runs_total.most,
            slow.runs_total.most,
            slow.immutable_memtables.most,
        );
    }
    Ok(())
}

/// Writes of an entry that has passed through all levels but the last.
fn formula(shape: &Shape) -> f64 {
    update::writes_per_entry_total(shape)
}
