//! `docs/MANUAL.md`: the help of all commands on one page, generated from the list of commands.
//!
//! The test compares; with `TAMARACK_REWRITE=1` in the environment it writes the file instead.

use std::fmt::Write as _;
use std::path::Path;

use super::{STATUSES, SUBCOMMANDS, command_line};

/// Lines that are longer do not fit the terminals of everybody.
const WIDTH: usize = 100;

/// The document is up to date, and its lines, which are those of `--help`, are not too long.
#[test]
fn the_document_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/MANUAL.md");
    let made = document();
    for line in made.lines().filter(|line| line.starts_with(' ')) {
        assert!(line.chars().count() <= WIDTH, "break this line of the help: {line}");
    }
    // Another build knows more methods of compression.
    if cfg!(feature = "zstd") {
        return;
    }
    tamarack_testing::assert_stored(&path, made);
}

fn document() -> String {
    let mut command_line = command_line();
    let mut text = INTRODUCTION.to_owned();
    for command in SUBCOMMANDS {
        let _ = writeln!(text, "| [`{0}`](#{0}) | {1} |", command.name, command.summary);
    }
    let _ = writeln!(text, "\n{STATUSES}");
    for command in SUBCOMMANDS {
        let subcommand = command_line.find_subcommand_mut(command.name).expect("it is in the list");
        let bare = subcommand.clone().about(None::<&str>).after_help(None::<&str>);
        let arguments = bare.bin_name(format!("tamarack {}", command.name)).render_help().to_string();
        let _ = write!(
            text,
            "\n## {}\n\n{}.\n\n```text\n{}\n\n{}\n```\n\n```sh\n{}\n```\n",
            command.name,
            command.summary,
            arguments.trim_end(),
            command.help,
            command.examples
        );
    }
    text
}

const INTRODUCTION: &str = "\
# The program `tamarack`

The help of every command on one page. A test generates this file from the list of commands in
`crates/tamarack-cli/src/commands`; `TAMARACK_REWRITE=1 cargo test -p tamarack-cli manual` rewrites it.

| `tamarack …` | |
|---|---|
";
