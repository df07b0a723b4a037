//! Predicted costs of some designs, and the time that a prediction takes.
//!
//! ```text
//! cargo run --release -p tamarack-model --example prediction_speed -- [ENTRIES
//!     [ENTRY_BYTES [BUFFER]]]
//! ```

#![expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]

use std::time::Instant;

use tamarack_model::design::{Design, price};
use tamarack_model::device::Device;
use tamarack_model::prediction::{Length, Lookups, Question, Writes, predict};
use tamarack_model::simulate::Pace;
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, policy};

const POLICIES: [&str; 8] = [
    "leveling:T=2",
    "leveling:T=10",
    "leveling:T=5,first=4",
    "tiering:T=4",
    "tiering:T=10",
    "lazy-leveling:T=5",
    "garnering:T=2,c=0.8",
    "moose:last=0.8,k=1",
];
const FILTERS: [&str; 3] = ["blocked:bits=10,allocation=monkey", "bloom:bits=5,allocation=uniform", "chucky:bits=14.2"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |word| word.parse().expect("a number"));
    let (entries, entry_bytes, buffer) = (number(0, 10_000_000), number(1, 124), number(2, 4 << 20));
    let even = Workload::of_parts(1.0, 1.0, 1.0, 1.0, 0.0).expect("shares");
    println!(
        "{:<22}{:<36}{:>9}{:>22}{:>16}{:>16}{:>16}{:>10}",
        "", "", "flushes", "zero-result: mean, full", "existing", "seek", "update", "ms"
    );
    for words in POLICIES {
        for filter in FILTERS {
            let policy = policy::parse(words).expect("a policy");
            let filter_choice = filter.parse().expect("a filter");
            let design = Design {
                entries,
                entry_bytes,
                buffer: Bytes(buffer),
                policy: &policy,
                filter: filter_choice,
                block_bytes: 4096,
            };
            let full = price(&design, &even, &Device::default()).cost;
            let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
            let begun = Instant::now();
            let mean = predict(
                &design,
                &Question {
                    writes,
                    scans: &[1],
                    digits: 256.0,
                    length: Length::Turnovers(2.0),
                    pace: Pace::Settled,
                    lookups: Lookups::Countless,
                },
            );
            let ms = begun.elapsed().as_secs_f64() * 1e3;
            let pair = |mean: f64, full: f64| format!("{mean:.3} {full:.3}");
            println!(
                "{words:<22}{filter:<36}{:>9}{:>22}{:>16}{:>16}{:>16}{ms:>10.1}",
                mean.flushes,
                pair(mean.zero_result_reads.mean(), full.zero_result_reads),
                pair(mean.existing_reads.mean(), full.existing_reads),
                pair(mean.scan_reads[0].mean(), full.range_seeks),
                pair(mean.write_amplification, full.update_writes),
            );
        }
    }
}
