//! The command line: options with a value, and flags, as the help text names them.

use std::path::PathBuf;

use tamarack_env::TempDir;

use crate::machine;

/// What was given on the command line.
pub struct Words {
    /// Names without dashes; flags have an empty value.
    given: Vec<(String, String)>,
}

/// Names that were asked for; all if none was.
#[derive(Clone, Default, Debug)]
pub struct List(Vec<String>);

impl List {
    pub fn wants(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|wanted| wanted == name)
    }

    /// True if one of the names is part of `name`.
    pub fn wants_part_of(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|wanted| name.contains(wanted.as_str()))
    }

    /// True if one of the names is part of `name` and contains `word`: for what is never wanted by
    /// default.
    pub fn asks_for(&self, word: &str, name: &str) -> bool {
        self.0.iter().any(|wanted| wanted.contains(word) && name.contains(wanted.as_str()))
    }
}

impl Words {
    /// Reads the program's arguments, or prints what is wrong or `help` and ends the program. An
    /// option is a line of `help` that begins with `--name VALUE` or, for a flag, `--name`.
    pub fn read(help: &str) -> Self {
        Self::of(help, std::env::args().skip(1))
    }

    /// Reads the given arguments.
    pub fn of(help: &str, words: impl Iterator<Item = String>) -> Self {
        Self::parse(help, words).unwrap_or_else(|message| {
            eprintln!("{message}");
            std::process::exit(2);
        })
    }

    fn parse(help: &str, mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut given = Vec::new();
        while let Some(word) = words.next() {
            let option = help
                .lines()
                .find_map(|line| line.trim_start().strip_prefix(&word))
                .filter(|rest| word.starts_with("--") && (rest.is_empty() || rest.starts_with(' ')));
            if word == "--help" || word == "-h" {
                return Err(help.to_owned());
            }
            let rest = option.ok_or_else(|| format!("{word} is not an option\n\n{help}"))?;
            let takes_value = rest.as_bytes().get(1).is_some_and(u8::is_ascii_uppercase);
            let value = if takes_value { words.next() } else { Some(String::new()) };
            given.push((word[2..].to_owned(), value.ok_or_else(|| format!("{word} needs a value\n\n{help}"))?));
        }
        Ok(Self { given })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn flag(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// A whole number from 0; another word ends the program.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.text(name).map_or(default, |text| number(name, text))
    }

    /// A whole number from 1.
    pub fn positive(&self, name: &str, default: u64) -> u64 {
        match self.number(name, default) {
            0 => refuse(name, "0"),
            number => number,
        }
    }

    /// Whole numbers with commas between them.
    pub fn numbers(&self, name: &str, default: &[u64]) -> Vec<u64> {
        self.text(name).map_or(default.to_vec(), |text| text.split(',').map(|text| number(name, text)).collect())
    }

    /// Names with commas between them.
    pub fn list(&self, name: &str) -> List {
        List(self.text(name).map_or(Vec::new(), |text| text.split(',').map(str::to_owned).collect()))
    }

    /// `--dir`: where databases are made.
    pub fn dir(&self) -> PathBuf {
        self.text("dir").map_or_else(std::env::temp_dir, PathBuf::from)
    }

    /// A new directory below `--dir`, which is removed with its content when it is dropped.
    pub fn scratch(&self) -> TempDir {
        TempDir::below(&self.dir()).unwrap_or_else(|error| panic!("{}: {error}", self.dir().display()))
    }

    /// `--report`: where the report is written; beside the older ones by default. `what` is part of
    /// its name.
    pub fn report(&self, what: &str) -> PathBuf {
        self.text("report").map_or_else(|| machine::default_report(what), PathBuf::from)
    }

    /// The command, to be shown in a report: where things are on this machine is nobody's concern.
    pub fn command(&self, program: &str) -> String {
        let shown =
            self.given.iter().filter(|(name, _)| !["report", "no-report", "keep", "json"].contains(&name.as_str()));
        let shown = shown.map(|(name, value)| match name.as_str() {
            "dir" => " --dir DIR".to_owned(),
            "notes" => " --notes FILE".to_owned(),
            _ => format!(" --{name} {value}").trim_end().to_owned(),
        });
        format!("cargo run --release --bin {program} --{}", shown.collect::<String>())
    }
}

fn number(name: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| refuse(name, text))
}

fn refuse(name: &str, text: &str) -> ! {
    eprintln!("--{name} {text}: a number is needed");
    std::process::exit(2);
}

#[test]
fn words_are_those_of_the_help() {
    let help = "usage: x\n\n  --dir DIR   where\n  --keep      leave it\n  --rounds N  how often [3]";
    let parse = |words: &str| Words::parse(help, words.split_whitespace().map(str::to_owned));
    let words = parse("--keep --dir /a --rounds 7").unwrap_or_else(|message| panic!("{message}"));
    assert!(words.flag("keep") && words.number("rounds", 3) == 7 && words.dir().ends_with("a"));
    assert_eq!(words.command("x"), "cargo run --release --bin x -- --dir DIR --rounds 7");
    let only = |words: &str| List(words.split(',').map(str::to_owned).collect());
    assert!(
        only("a/x,steady").asks_for("steady", "large-steady/b")
            && only("e-steady/b").asks_for("steady", "large-steady/b")
    );
    assert!(!only("large,b").asks_for("steady", "large-steady/b") && !List::default().asks_for("steady", "steady"));
    for wrong in ["--kee", "--dir", "keep", "--rounds", "--help", "usage:"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
