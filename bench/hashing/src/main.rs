//! The gain of hashing a key once for all filters, measured beside the model (Zhu, Mun, Raman,
//! Athanassoulis, *Reducing Bloom Filter CPU Overhead in LSM-Trees on Modern Storage Devices*,
//! DaMoN 2021, Eq. 8), and a lookup's time by its parts.
//!
//! ```text
//! settings ──► trees to predict and trees to measure times in ──► gain ──► rows ──► report
//!                                                             └─► parts ─► rows ──┘
//! ```
//!
//! `cargo run --release -p hashing --features measure -- --help`

mod clock;
mod costs;
mod count;
mod gain;
mod hash;
mod parts;
mod report;
mod trees;
mod waiting;

use common::words::Words;
use gain::{DEVICES, Setting, Trees};
use tamarack::Result;
use trees::{Device, Kind};

const HELP: &str = "\
usage: hashing [--dir DIR] [--rounds N] [--buffer-kib N] [--quick] [--report FILE] [--no-report]

  --dir DIR        where databases for direct I/O are made and removed again     [the system's temporary directory]
  --rounds N       in memory; on other devices an eighth as many                 [161]
  --buffer-kib N   what is flushed at a time: a tree has 2^levels - 1 of it      [512]
  --quick          two trees, few rounds: does it run?
  --report FILE    where the report goes                                         [a new file in results/]
  --no-report      only print it
  --count-key-bytes N   for itself: lookups to be counted by valgrind, with keys of so many bytes,
  --count-found N       of which so many per cent are there";

fn main() -> Result<()> {
    let words = Words::read(HELP);
    if words.flag("count-key-bytes") {
        return count::run(words.number("count-key-bytes", 16) as usize, words.number("count-found", 0), &words.dir());
    }
    let scratch = words.scratch();
    let quick = words.flag("quick");
    let rounds = words.positive("rounds", if quick { 9 } else { 161 });
    let mut report = report::Report::new(&words, rounds);
    for setting in settings(quick) {
        eprintln!("{setting:?}");
        let dir = scratch.path().join(format!("{}", report.trees()));
        let mut trees = Trees::new(&setting, words.positive("buffer-kib", 512) << 10, &dir)?;
        let mut rows = Vec::new();
        let mut parts = Vec::new();
        for &device in &setting.devices {
            let rounds = if device == Device::Memory { rounds } else { rounds.div_ceil(8) };
            rows.extend(trees.measure(device, rounds)?);
        }
        if setting.devices.contains(&Device::Direct) {
            for device in [Device::Memory, Device::DirectButIndex] {
                parts.extend(parts::measure(trees.tree(), device, rounds)?);
            }
        }
        report.add(setting, rows, parts);
    }
    for key_bytes in report.keys_of_parts() {
        for found in [100, 0] {
            report.add_count(key_bytes, found, count::of_lookup(key_bytes, found, scratch.path()));
        }
    }
    report.finish(&words);
    Ok(())
}

/// What is measured: each of the quantities varies, the others stay as in the first.
fn settings(quick: bool) -> Vec<Setting> {
    let tree = |key_bytes, levels, filter: &str, devices: &[Device]| {
        let kind = Kind { key_bytes, filter: filter.to_owned() };
        Setting { kind, levels, devices: devices.to_vec() }
    };
    let monkey = |bits: u32| format!("blocked:bits={bits},allocation=monkey");
    let (memory, simulated) = (&[Device::Memory][..], &[Device::Memory, DEVICES[2], DEVICES[3]][..]);
    let first = tree(1024, 5, &monkey(10), &DEVICES);
    if quick {
        return vec![first, tree(16, 2, &monkey(10), memory)];
    }
    let mut all = vec![first];
    all.extend([8, 16, 64, 256].map(|bytes| match bytes {
        16 => tree(bytes, 5, &monkey(10), &DEVICES),
        64 => tree(bytes, 5, &monkey(10), simulated),
        _ => tree(bytes, 5, &monkey(10), memory),
    }));
    all.extend(
        [2, 3, 4, 6, 7].map(|levels| tree(1024, levels, &monkey(10), if levels == 7 { simulated } else { memory })),
    );
    all.extend([5, 16].map(|bits| tree(1024, 5, &monkey(bits), simulated)));
    all.push(tree(1024, 5, "blocked:bits=10", memory));
    all.push(tree(1024, 5, "bloom:bits=10,allocation=monkey", memory));
    all
}
