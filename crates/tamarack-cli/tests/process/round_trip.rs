//! Many lines go in and come out again: one key at a time, in ranges from both ends, and all of
//! them sorted.
//!
//! The expected answers come from a sorted list of the same lines: 20,000 by default, or
//! `TAMARACK_LINES=1000000`. Memtables take a tenth of the data each, so that the answers come from
//! about ten runs and the WAL, at any size.

use std::fs;
use std::time::Instant;

use tamarack_testing::{Random, TestDir, number, seed};

use crate::program::{json_of, output_of, run, text};

/// See the top of this file.
#[test]
fn all_lines_come_back() {
    let dir = TestDir::new("all_lines_come_back");
    let (db, input, acks) = (dir.path().join("db"), dir.path().join("in.tsv"), dir.path().join("acks"));
    let mut random = Random::new(seed(4711));
    let count = number("TAMARACK_LINES").unwrap_or(20_000);
    let mut lines = random_lines(&mut random, count);
    let content = lines.concat();
    fs::write(&input, &content).expect("the directory is writable");

    let began = Instant::now();
    let buffer = (content.len() / 10).to_string();
    let report = json_of(&["import", text(&db), text(&input), "--acks", text(&acks), "--buffer", &buffer]);
    println!("import of {count} lines, {} bytes: {:.2} s", content.len(), began.elapsed().as_secs_f64());
    assert_eq!(report["records"], count);
    assert!(fs::read_to_string(&acks).expect("there are acks").ends_with(&format!("\n{count}\n")));
    let stats = json_of(&["stats", text(&db)]);
    assert!(stats["levels"].as_array().is_some_and(|levels| !levels.is_empty()), "{stats}");

    lines.sort_unstable();
    let began = Instant::now();
    for _ in 0..50 {
        let (key, value) = record(&lines[random.below(count) as usize]);
        assert_eq!(output_of(&["get", text(&db), key]), format!("{value}\n"), "{key}");
    }
    for _ in 0..10 {
        // Keys have 16 digits.
        let key = format!("{:015x}", random.next() >> 4);
        assert_eq!(run(&["get", text(&db), &key]).status, Some(1), "{key}");
    }
    println!("60 runs of get: {:.2} s", began.elapsed().as_secs_f64());
    for _ in 0..30 {
        scan_one_range(text(&db), &lines, &mut random);
    }

    let began = Instant::now();
    assert!(output_of(&["export", text(&db)]) == lines.concat(), "the export is not the input, sorted");
    println!("export: {:.2} s", began.elapsed().as_secs_f64());
    assert_eq!(json_of(&["verify", text(&db)])["ok"], true);
}

/// Scans a random range, in a random direction, perhaps with a limit, and compares.
fn scan_one_range(db: &str, sorted: &[String], random: &mut Random) {
    // Bounds are mostly keys that are there, cut short now and then, so that they fall between two.
    let mut bound = || {
        let key = record(&sorted[random.below(sorted.len() as u64) as usize]).0;
        key[..key.len() - random.below(4) as usize].to_owned()
    };
    let (from, to) = (bound(), bound());
    let begin = sorted.partition_point(|line| record(line).0 < from.as_str());
    let end = sorted.partition_point(|line| record(line).0 < to.as_str()).max(begin);
    let mut expected: Vec<&str> = sorted[begin..end].iter().map(String::as_str).collect();
    let mut words = vec!["scan", db, "--from", &from, "--to", &to];
    if random.below(2) == 0 {
        words.push("--reverse");
        expected.reverse();
    }
    let limit = random.below(200).to_string();
    if random.below(3) > 0 {
        words.extend(["--limit", &limit]);
        expected.truncate(limit.parse().expect("it is a number"));
    }
    assert!(output_of(&words) == expected.concat(), "{words:?} prints something else");
}

/// Key and value of a line, both in text form.
fn record(line: &str) -> (&str, &str) {
    line.trim_end_matches('\n').split_once('\t').expect("each line has a tab")
}

/// Lines with distinct keys in random order; some values are empty, some have what the text form
/// escapes.
fn random_lines(random: &mut Random, count: u64) -> Vec<String> {
    let offset = random.next();
    // An odd multiplier permutes the numbers below 2^64, so no key comes twice.
    let key = |i: u64| i.wrapping_add(offset).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut value = || match random.below(10) {
        0 => String::new(),
        1 => r"tab \t, feed \n, backslash \\, byte \xff, tree 🌲".to_owned(),
        _ => format!("{:0width$x}", random.next(), width = 16 + random.below(60) as usize),
    };
    (0..count).map(|i| format!("{:016x}\t{}\n", key(i), value())).collect()
}
