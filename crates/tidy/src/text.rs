//! Rules about the text of single files.

use crate::finding::{Count, Finding, area};
use crate::rust;
use crate::tree::{self, TextFile};
use crate::verdict::assert_none;

/// Where `unsafe` may stand; each block there carries a `SAFETY` comment, which clippy checks.
const UNSAFE_PLACES: &[&str] = &[
    "crates/tamarack/src/cache/entry.rs",
    "crates/tamarack/src/cache/slot.rs",
    "crates/tamarack/src/memtable/",
    "crates/tamarack/tests/allocations/",
    "crates/tamarack/tests/memory/",
    "crates/tamarack-env/src/os/",
    "crates/tamarack-env/src/pages.rs",
    "crates/tamarack-env/src/prefetch.rs",
    "bench/device/src/registered.rs",
    "bench/sidebyside/src/stores/leveldb/",
    "qa/torture/src/power/shutdown.rs",
];

/// The longest a source file may be. Half of all files should be under 400 lines; one that nears
/// this holds two ideas.
const LINES_MAX: usize = 900;

/// The longest line of a comment, in characters: rows of tables as well. What a row cannot hold is
/// a list.
const COMMENT_COLUMNS_MAX: usize = 100;

/// What must not be committed, and what to do instead. Written in two halves, so that this file
/// does not break its own rule.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("/ho", "me/", "write a path relative to the repository"),
    ("/ro", "ot/", "write a path relative to the repository"),
    ("/wo", "rk/", "write a path relative to the repository"),
    ("/Us", "ers/", "write a path relative to the repository"),
    ("index.cr", "ates.io", "leave the choice of registry to the user's cargo configuration"),
    ("static.cr", "ates.io", "leave the choice of registry to the user's cargo configuration"),
];

/// What must not stand in Rust code, and what to do instead.
const FORBIDDEN_IN_RUST: &[(&str, &str, &str)] = &[
    ("to", "do!(", "finish it, or return an error that says what is not supported"),
    ("unimple", "mented!(", "finish it, or return an error that says what is not supported"),
    ("FIX", "ME", "fix it, or describe the limitation in the documentation"),
    ("XX", "X", "fix it, or describe the limitation in the documentation"),
    ("#[ig", "nore", "make it fast enough to run always, or make it a command of its own"),
    ("#[al", "low(", "use #[expect(…, reason = \"…\")], which complains once it is no longer needed"),
    ("#![al", "low(", "use #![expect(…, reason = \"…\")], which complains once it is no longer needed"),
];

/// Every source file opens with a page for the newcomer.
#[test]
fn every_file_begins_with_a_module_doc() {
    let complaints: Vec<String> = tree::rust_files()
        .iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| {
            format!(
                "{}: begin with `//!`: what it is, what goes in and out, what it never does, what it costs",
                file.path
            )
        })
        .collect();
    assert_none("every source file begins with a module doc", &complaints);
}

/// `unsafe` stands in few, known places.
#[test]
fn unsafe_only_where_listed() {
    let mut complaints = Vec::new();
    for file in tree::rust_files() {
        if UNSAFE_PLACES.iter().any(|place| file.path.starts_with(place)) {
            continue;
        }
        // A crate that forbids it says so with the same word.
        let code = rust::code_only(&file.text).replace("forbid(unsafe_code)", "forbid(           )");
        for word in ["unsafe", "unsafe_code"] {
            for at in rust::word_offsets(&code, word) {
                let line = rust::line_of(&code, at);
                complaints.push(format!(
                    "{}:{line}: write it safely; `unsafe` may stand only in {UNSAFE_PLACES:?}",
                    file.path
                ));
            }
        }
    }
    assert_none("`unsafe` stands only where it is listed", &complaints);
}

/// No source file is so long that it must hold more than one idea.
#[test]
fn files_are_short() {
    let complaints: Vec<String> = tree::rust_files()
        .iter()
        .map(|file| (file.path.as_str(), file.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| {
            format!("{path}: {lines} lines; find the second idea in it and give that a file of its own")
        })
        .collect();
    assert_none(&format!("source files have at most {LINES_MAX} lines"), &complaints);
}

/// Lines of comments that are too long to read.
pub(crate) fn long_comments(files: &[TextFile]) -> Vec<Count> {
    let instead = format!("at most {COMMENT_COLUMNS_MAX} columns; a table that needs more is a list");
    let mut count = Count::new("long comment lines", &instead);
    for file in files.iter().filter(|file| file.is_rust()) {
        for (index, line) in file.text.lines().enumerate() {
            let comment = line.trim_start();
            let text = comment.trim_start_matches(['/', '!']).trim_start();
            let is_breakable = comment.starts_with("//") && text.contains(' ');
            if is_breakable && line.chars().count() > COMMENT_COLUMNS_MAX {
                count.add(area(&file.path), Finding::on_line(file, index + 1));
            }
        }
    }
    vec![count]
}

/// Nothing unfinished, and nothing that only means something on one machine.
#[test]
fn no_forbidden_words() {
    let mut complaints = Vec::new();
    for file in tree::text_files() {
        let rust_rules = if file.is_rust() { FORBIDDEN_IN_RUST } else { &[] };
        for (first, second, instead) in FORBIDDEN.iter().chain(rust_rules) {
            let word = format!("{first}{second}");
            for (number, line) in file.text.lines().enumerate().filter(|(_, line)| line.contains(&word)) {
                complaints.push(format!("{}:{}: `{}`: {instead}", file.path, number + 1, line.trim()));
            }
        }
    }
    assert_none("nothing unfinished and no machine's own paths are committed", &complaints);
}
