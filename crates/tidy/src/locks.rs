//! The order of locks is written down as it is checked.
//!
//! `Rank` in the environment's crate lists all locks, and debug builds check that threads take them
//! in that order. ARCHITECTURE.md has the same list as a table for readers.

use crate::rust;
use crate::tree;
use crate::verdict::assert_none;

const RANKS: &str = "crates/tamarack-env/src/sync/rank.rs";
const DOCUMENT: &str = "ARCHITECTURE.md";
const SECTION: &str = "## Order of locks";

/// The table has the ranks of the enum in their order, and says the same of each.
#[test]
fn the_documented_order_of_locks_is_the_checked_one() {
    let ranks = ranks(&text_of(RANKS));
    assert!(ranks.len() > 20, "{RANKS} was not understood; it holds {ranks:?}");
    let rows: Vec<String> = ranks.iter().map(|(name, protects)| format!("| `{name}` | {protects} |")).collect();
    let document = text_of(DOCUMENT);
    let section = document.split(SECTION).nth(1).unwrap_or_else(|| panic!("{DOCUMENT} has no section {SECTION:?}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let found: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(
        found == rows,
        "{DOCUMENT}: the table under {SECTION:?} differs from {RANKS}; it is\n{}\n",
        rows.join("\n")
    );
}

/// Every rank is that of one lock, outside of tests.
#[test]
fn every_rank_has_its_lock() {
    let files = tree::rust_files();
    let shipped =
        files.iter().filter(|file| file.path.contains("/src/") && !file.path.contains("/tests") && file.path != RANKS);
    let shipped: Vec<String> = shipped.map(|file| rust::without_tests(&rust::code_only(&file.text))).collect();
    let ranks = ranks(&text_of(RANKS));
    let complaints: Vec<String> = ranks
        .iter()
        .filter_map(|(name, _)| {
            let locks: usize = shipped.iter().map(|code| uses(code, name)).sum();
            match (name.as_str(), locks) {
                ("Test", 0) => None,
                ("Test", _) => Some("Rank::Test is for tests; give the lock a rank of its own".to_owned()),
                (_, 1) => None,
                (_, 0) => Some(format!("{RANKS}: no lock has Rank::{name}; remove it")),
                (_, locks) => Some(format!("{RANKS}: {locks} locks are made with Rank::{name}; one each")),
            }
        })
        .collect();
    assert_none("every rank is that of one lock", &complaints);
}

fn text_of(path: &str) -> String {
    let files = tree::text_files();
    files.into_iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing")).text
}

/// How often `Rank::name` occurs.
fn uses(code: &str, name: &str) -> usize {
    rust::word_offsets(code, name).filter(|&at| code[..at].ends_with("Rank::")).count()
}

/// The variants of `Rank`, and their doc comments in one line each.
fn ranks(source: &str) -> Vec<(String, String)> {
    let body = source.split("pub enum Rank {\n").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap_or_default();
    let (mut ranks, mut protects) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim) {
        match (line.strip_prefix("/// "), line.strip_suffix(',')) {
            (Some(doc), _) => protects.push(doc),
            (None, Some(name)) => ranks.push((name.to_owned(), std::mem::take(&mut protects).join(" "))),
            (None, None) => {}
        }
    }
    ranks
}
