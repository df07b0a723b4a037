//! Instructions of a cached lookup by part: this program, run by `valgrind --tool=callgrind`, whose
//! output is summed by source file.
//!
//! Inlined code counts for its own source file; inlined code of the standard library counts for the
//! function that it is inlined into. The measuring mode's own instructions are left out.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tamarack::Result;
use tamarack::measure::{Hash, Hashed, hash_with};

use crate::trees::{Device, Kind, Tree};

/// How many lookups are counted.
const LOOKUPS: u64 = 4000;

/// The parts, in the order of [`of_lookup`]: those that have a clock of their own, and the rest.
pub const NAMES: [&str; 5] = ["hashing", "probing", "index", "block", "rest"];

/// Where their sources are; the first that fits.
const SOURCES: &[(&str, usize)] = &[
    ("xxhash-rust", 0),
    ("tamarack-filter/src/", 1),
    ("tamarack/src/tree/", 2),
    ("tamarack/src/prefixes.rs", 2),
    ("tamarack/src/format/fences.rs", 2),
    ("tamarack/src/table/index.rs", 2),
    ("tamarack/src/format/", 3),
    ("tamarack/src/cache/", 3),
    ("arc_swap", 3),
    ("seize", 3),
    ("triomphe", 3),
    ("tamarack/src/read/value.rs", 3),
    ("tamarack/src/", 4),
];

/// Instructions for each lookup, by part; `None` if there is no valgrind.
pub fn of_lookup(key_bytes: usize, found: u64, dir: &Path) -> Option<[f64; NAMES.len()]> {
    let file = dir.join("callgrind");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*trees::Tree::look_up*"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe().ok()?)
        .args(["--count-key-bytes", &key_bytes.to_string(), "--count-found", &found.to_string(), "--dir"])
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok()?;
    if !status.success() {
        return None;
    }
    let mut sums = [0.0; NAMES.len()];
    for (source, cost) in by_source(&fs::read_to_string(file).ok()?) {
        if let Some(part) = part_of(&source) {
            sums[part] += cost as f64 / LOOKUPS as f64;
        }
    }
    Some(sums)
}

/// What runs under valgrind.
pub fn run(key_bytes: usize, found: u64, dir: &Path) -> Result<()> {
    let kind = Kind { key_bytes, filter: "blocked:bits=10,allocation=monkey".to_owned() };
    let mut tree = Tree::of_levels(&kind, 5, 64 << 10, dir)?;
    hash_with(Hash::Digest, Hashed::Once);
    tree.open(Device::Memory)?;
    tree.look_up(LOOKUPS, 0, found)
}

/// The part that a source file belongs to; `None` for those of this program and of the measuring
/// mode.
fn part_of(source: &str) -> Option<usize> {
    if source.contains("hashing/src/") || source.contains("common/src/") || source.contains("tamarack/src/measure/") {
        return None;
    }
    Some(SOURCES.iter().find(|(part, _)| source.contains(part)).map_or(NAMES.len() - 1, |(_, part)| *part))
}

/// The cost of the lines of each file, calls not included.
fn by_source(profile: &str) -> HashMap<String, u64> {
    let (mut names, mut sums) = (HashMap::new(), HashMap::new());
    // The file of the function, and that of the line.
    let (mut of_function, mut of_line) = (String::new(), String::new());
    let mut is_call = false;
    for line in profile.lines() {
        if let Some((key, value)) = line.split_once('=').filter(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase()))
        {
            match key {
                "fl" => {
                    of_function = name(&mut names, value);
                    of_line = of_function.clone();
                }
                "fi" | "fe" => of_line = name(&mut names, value),
                "cfi" | "cfl" => _ = name(&mut names, value),
                "calls" => is_call = true,
                _ => {}
            }
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) && !std::mem::take(&mut is_call) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            let is_of_library = of_line.contains("/library/") || of_line == "???";
            *sums.entry(if is_of_library { of_function.clone() } else { of_line.clone() }).or_default() += cost;
        }
    }
    sums
}

/// `(7) file` names file 7 from then on, `(7)` means it.
fn name(names: &mut HashMap<String, String>, value: &str) -> String {
    let (number, name) = value.split_once(' ').unwrap_or((value, ""));
    if !name.is_empty() {
        names.insert(number.to_owned(), name.to_owned());
    }
    names.get(number).cloned().unwrap_or_default()
}

#[test]
fn profiles_are_summed_by_source() {
    let profile = "fl=(1) a.rs\nfn=(1) f\n10 5\n+1 2\nfi=(2) /rustc/x/library/core/b.rs\n3 4\nfe=(1)\ncfi=(3) c.rs\ncfn=(2) g\n\
                   calls=1 7\n12 100\n* 1\n\nfl=(3)\nfn=(2)\n7 100\nfi=(4) d.rs\n-2 9\n";
    let sums = by_source(profile);
    assert_eq!((sums["a.rs"], sums["c.rs"], sums["d.rs"], sums.len()), (12, 100, 9, 3));
}
