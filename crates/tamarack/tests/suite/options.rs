//! `docs/OPTIONS.md` is what the tables of options say.
//!
//! The test compares; with `TAMARACK_REWRITE=1` in the environment it writes the file instead.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tamarack::internals::Row;
use tamarack::{AdvancedOptions, Options};

/// The document is up to date.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment serves the engine; this test reads files of the repository"
)]
fn the_document_is_fresh() {
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

/// Without the links that only rustdoc can follow.
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
        "Overrides of what is otherwise derived: `Options::new().expert(AdvancedOptions::new().policy(\"tiering:T=4\"))`.",
        AdvancedOptions::TABLE,
    ),
];

const INTRODUCTION: &str = "\
# Options

Generated from the tables in `crates/tamarack/src/options.rs`, as is the documentation of the methods; `TAMARACK_REWRITE=1 cargo test -p tamarack --test suite options`
makes it again, and the test fails if that changes anything.

Sizes are in bytes. A value out of its range is refused when the database is opened, by an error that says what is allowed. `tamarack COMMAND --help` says which of these a
command takes, and under which name.
";
