//! [`Args`]: the command line, as `--name value` pairs after one command.

use std::path::PathBuf;

/// What `torture` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    /// The command: `kill`, `power`, …
    pub(crate) command: String,
    /// No new round begins after so many seconds.
    pub(crate) seconds: u64,
    /// Seed of the first round; round `i` has this plus `i`.
    pub(crate) seed: u64,
    /// At most so many rounds.
    pub(crate) count: Option<u64>,
    /// Where directories are made.
    pub(crate) dir: PathBuf,
    /// Size of a file system or a history, where the command has one.
    pub(crate) size: Option<u64>,
    /// The program `tamarack`, for `cli`.
    pub(crate) cli: Option<PathBuf>,
    /// Print the result as JSON.
    pub(crate) json: bool,
    /// What follows the options: only the hidden commands of child processes take it.
    pub(crate) rest: Vec<String>,
}

impl Args {
    /// Reads the arguments of a command line, without the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut words = words;
        let mut args = Self {
            command: words.next().ok_or("no command")?,
            seconds: 60,
            seed: 1,
            count: None,
            dir: std::env::temp_dir(),
            size: None,
            cli: None,
            json: false,
            rest: Vec::new(),
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--seconds" => args.seconds = number(&value()?)?,
                "--seed" => args.seed = number(&value()?)?,
                "--count" => args.count = Some(number(&value()?)?),
                "--size" => args.size = Some(number(&value()?)?),
                "--dir" => args.dir = value()?.into(),
                "--cli" => args.cli = Some(value()?.into()),
                "--json" => args.json = true,
                "--" => args.rest = words.by_ref().collect(),
                _ => return Err(format!("unknown argument '{word}'")),
            }
        }
        Ok(args)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

#[test]
fn words_become_arguments() {
    let words = |line: &str| Args::parse(line.split(' ').map(str::to_owned));
    let args = words("kill --seed 7 --json --count 2 -- a b").expect("valid");
    assert_eq!((args.seed, args.json, args.count, args.seconds), (7, true, Some(2), 60));
    assert_eq!(args.rest, ["a", "b"]);
    assert!(words("kill --seed").is_err() && words("kill --seed x").is_err() && words("kill --what").is_err());
}
