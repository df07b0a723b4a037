//! `docs/OPTIONS.md` is generated from the tables of options.
//!
//! The test compares; with `TAMARACK_REWRITE=1` in the environment it writes the file instead.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tamarack::internals::Row;
use tamarack::{AdvancedOptions, Options};

/// The document matches the tables.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment serves the engine; this test reads files of the repository"
)]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPTIONS.md");
    let made = document();
    if std::env::var_os("TAMARACK_REWRITE").is_some() {
        fs::write(&path, &made).expect("can be written");
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(made == stored, "run with TAMARACK_REWRITE=1 and review the difference; it would now be\n{made}");
}

fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    for (group, _, rows) in GROUPS {
        let _ = write!(text, "\n| `{group}` | default | range |\n|---|---|---|\n");
        for row in rows {
            let _ = writeln!(text, "| [`{0}`](#{0}) | {1} | {2} |", row.name, prose(row.default), prose(row.range));
        }
    }
    for (group, about, rows) in GROUPS {
        let _ = write!(text, "\n## {group}\n\n{about}\n");
        for row in rows {
            let effect: String = row.effect.lines().map(|line| line.trim().to_owned() + "\n").collect();
            let (default, range) = (prose(row.default), prose(row.range));
            let _ = write!(
                text,
                "\n### `{}`\n\n{}\nTakes `{}`. Default: {default}. Range: {range}.\n",
                row.name,
                prose(&effect),
                row.takes
            );
        }
    }
    text
}

/// Removes the links that only rustdoc can follow.
fn prose(rustdoc: &str) -> String {
    rustdoc.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`")
}

const GROUPS: [(&str, &str, &[Row]); 2] = [
    (
        "Options",
        "What most programs need: `Options::new().memory_bytes(512 << 20).open(\"data/prices\")`.",
        Options::TABLE,
    ),
    (
        "AdvancedOptions",
        "Overrides of settings that are otherwise derived: `Options::new().advanced(AdvancedOptions::new().policy(\"tiering:T=4\"))`.",
        AdvancedOptions::TABLE,
    ),
];

const INTRODUCTION: &str = "\
# Options

Generated from the tables in `crates/tamarack/src/options.rs`, as is the documentation of the setters; `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite options`
writes it anew, and the test fails if it is out of date.

Sizes are in bytes. Opening a database with a value out of its range fails with an error that says what is allowed. `tamarack COMMAND --help` lists the options of a
command.
";
