//! What Monkey's navigation chooses: designs for mixes of lookups and updates over the data of the
//! paper's evaluation, what would change the choice, the default designs of other stores, and how
//! long the search takes.
//!
//! ```text
//! cargo run --release -p tamarack-model --example monkey_design
//! ```

use std::hint::black_box;

use tamarack_model::Bytes;
use tamarack_model::cost::monkey::Merging;
use tamarack_model::navigator::monkey::{
    CostBounds, MonkeyChoice, MonkeyCost, MonkeyDesign, MonkeySetting, best_of, defaults, holistic, holistic_within,
    what_if,
};
use tamarack_model::workload::Workload;

fn main() {
    let before = evaluation(0.5);
    println!(
        "1 GiB in entries of 1 KiB, blocks of 4 KiB, memory of 1 MiB and 5 bits for each entry (Monkey, section 5)"
    );
    println!("Z, W and θ in block reads; lookups find nothing; operations/s with 290 µs for a block read\n");

    heading("lookups");
    for percent in (10..=90).step_by(20) {
        let setting = evaluation(f64::from(percent) / 100.0);
        line(&format!("{percent} %"), &setting, &holistic(&setting));
    }
    line("50 %, whole T", &before, &best_of(&before, &(2..=64).map(f64::from).collect::<Vec<_>>()));
    let bounds = CostBounds { lookup: Some(0.1), update: None };
    match holistic_within(&before, &bounds) {
        Ok(choice) => line("50 %, Z ≤ 0.1", &before, &choice),
        Err(error) => println!("{error}"),
    }
    let bounds = CostBounds { lookup: Some(0.01), update: Some(0.5) };
    if let Err(error) = holistic_within(&before, &bounds) {
        println!("Z ≤ 0.01 and W ≤ 0.5: {error}");
    }

    let design = holistic(&before).design;
    println!("\nWhat if, with the design for 50 % lookups:");
    heading("changed to");
    let changes = [
        ("nothing", before),
        ("5 % lookups", evaluation(0.05)),
        ("95 % lookups", evaluation(0.95)),
        ("100 times the entries", MonkeySetting { entries: before.entries * 100, ..before }),
        ("4 times the memory", MonkeySetting { memory: Bytes(before.memory.0 * 4), ..before }),
        ("a quarter of the memory", MonkeySetting { memory: Bytes(before.memory.0 / 4), ..before }),
        ("writes cost 10 reads", MonkeySetting { write_cost: 10.0, ..before }),
    ];
    for (name, changed) in changes {
        let answer = what_if(&design, &changed);
        line(name, &changed, &answer.kept);
        line(&format!("  {:.1} % saved by", 100.0 * answer.saved()), &changed, &answer.best);
    }

    let entries = 1_000_000_000;
    println!(
        "\nDefault designs with 10^9 entries of 128 bytes, 50 % lookups (Table 4), and the best with their memory:"
    );
    heading("store");
    for default in defaults::ALL {
        let setting = MonkeySetting { entries, entry_bytes: 128, memory: default.memory(entries), ..before };
        let design = default.design(entries);
        line(default.store, &setting, &MonkeyChoice { design, cost: setting.price_uniform(&design) });
        line("  Monkey's filters", &setting, &MonkeyChoice { design, cost: setting.price(&design) });
        line("  Monkey's design", &setting, &holistic(&setting));
    }

    let large = MonkeySetting { entries, memory: Bytes(2 << 30), ..before };
    println!("\nTime of a search, 10^9 entries of 1 KiB, 2 GiB of memory:");
    println!("  free            {}", timed(|| holistic(&large)));
    let bounds = CostBounds { lookup: Some(0.05), update: Some(2.0) };
    println!("  with bounds     {}", timed(|| holistic_within(&large, &bounds)));
    let bounds = CostBounds { lookup: Some(1e-9), update: Some(0.1) };
    println!("  unmet bounds    {}", timed(|| holistic_within(&large, &bounds)));
    let whole: Vec<f64> = (2..=1000).map(f64::from).collect();
    println!("  T = 2 to 1000   {}", timed(|| best_of(&large, &whole)));
}

/// The paper's evaluation: this share of zero-result lookups, the others updates.
fn evaluation(lookups: f64) -> MonkeySetting {
    MonkeySetting::evaluation(Workload::of_parts(lookups, 0.0, 0.0, 1.0 - lookups, 0.0).expect("shares"))
}

fn heading(first: &str) {
    println!(
        "{first:<26} {:<8} {:>8} {:>5} {:>12} {:>10} {:>8} {:>8} {:>8} {:>12}",
        "policy", "T", "L", "memtable", "bits/entry", "Z", "W", "θ", "operations/s"
    );
}

fn line(name: &str, setting: &MonkeySetting, choice: &MonkeyChoice) {
    let MonkeyChoice { design, cost } = choice;
    let MonkeyDesign { tree, buffer_bytes, .. } = design;
    let MonkeyCost { lookup, update, operation, .. } = cost;
    let policy = match tree.merging {
        Merging::Leveling => "leveling",
        Merging::Tiering => "tiering",
    };
    println!(
        "{name:<26} {policy:<8} {:>8.2} {:>5.2} {:>8.0} KiB {:>10.2} {lookup:>8.4} {update:>8.4} {operation:>8.4} {:>12.0}",
        tree.ratio,
        setting.levels(design),
        buffer_bytes / 1024.0,
        setting.bits_per_entry(design),
        setting.throughput(cost)
    );
}

/// The fastest and the median of eleven.
#[expect(clippy::disallowed_methods, reason = "measures real time, on purpose; nothing of it enters a decision")]
fn timed<T>(work: impl Fn() -> T) -> String {
    let time = || {
        let start = std::time::Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..11).map(|_| time()).collect();
    times.sort_by(f64::total_cmp);
    format!("{:.3} ms at best, {:.3} ms in the median of 11", times[0], times[5])
}
