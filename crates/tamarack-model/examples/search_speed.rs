//! How long the union search takes, for databases of a gigabyte to a terabyte and several mixes of
//! operations: with blocks of the given size, and with blocks of up to 32 KiB to choose from, as
//! the controller searches.
//!
//! ```text
//! cargo run --release -p tamarack-model --example search_speed
//! ```

use std::hint::black_box;

use tamarack_model::Bytes;
use tamarack_model::device::Device;
use tamarack_model::navigator::union::{Bounds, Limits, PricedDesign, Request, find};
use tamarack_model::workload::Workload;

/// Entries, bytes of each, and memory.
const DATA: [(u64, u64, u64); 4] = [
    (8_000_000, 124, 64 << 20),
    (1_000_000, 1024, 64 << 20),
    (1_000_000_000, 1024, 16 << 30),
    (1_000_000_000, 124, 8 << 30),
];

/// Zero-result lookups, lookups of existing keys, scans and updates.
const MIXES: [(&str, [f64; 4]); 4] = [
    ("all alike", [1.0, 1.0, 1.0, 1.0]),
    ("90 % reads", [4.5, 4.5, 0.0, 1.0]),
    ("scans", [0.0, 0.0, 9.0, 1.0]),
    ("updates", [0.0, 1.0, 0.0, 9.0]),
];

fn main() {
    println!(
        "{:>13} {:>6} {:>9}  {:<10} {:>10} {:>7} {:>9} {:>8}  design",
        "entries", "bytes", "memory", "mix", "blocks", "min ms", "median ms", "compared"
    );
    for (entries, entry_bytes, memory) in DATA {
        for (name, [zero_result, existing, ranges, updates]) in MIXES {
            for block_bytes_max in [0, 32 << 10] {
                let request = Request {
                    entries,
                    entry_bytes,
                    block_bytes: 4096,
                    memory: Bytes(memory),
                    workload: Workload::of_parts(zero_result, existing, ranges, updates, 9.0).expect("shares"),
                    inserts: 0.0,
                    theta: 0.0,
                    device: Device::default(),
                    bounds: Bounds::default(),
                    limits: Limits { block_bytes_max, ..Limits::default() },
                };
                let (answer, [least, median]) = timed(|| find(black_box(&request)));
                let (compared, design) = match answer {
                    Ok(answer) => (answer.compared, words(&answer.best)),
                    Err(impossible) => (0, format!("{impossible:?}")),
                };
                let (memory, blocks) =
                    (Bytes(memory).to_string(), if block_bytes_max == 0 { "given" } else { "chosen" });
                println!(
                    "{entries:>13} {entry_bytes:>6} {memory:>9}  {name:<10} {blocks:>10} {least:>7.1} {median:>9.1} {compared:>8}  {design}"
                );
            }
        }
    }
}

fn words(best: &PricedDesign) -> String {
    let PricedDesign { policy, filter_specification, buffer, block_bytes, seconds_per_op, .. } = best;
    let (micros, blocks) = (seconds_per_op * 1e6, Bytes(*block_bytes));
    format!("{micros:.2} us: {policy}, {filter_specification}, memtables of {buffer}, blocks of {blocks}")
}

/// The fastest and the median of three.
#[expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]
fn timed<T>(work: impl Fn() -> T) -> (T, [f64; 2]) {
    let mut times = [0.0; 3];
    let mut result = work();
    for time in &mut times {
        let start = std::time::Instant::now();
        result = work();
        *time = start.elapsed().as_secs_f64() * 1e3;
    }
    times.sort_by(f64::total_cmp);
    (result, [times[0], times[1]])
}
