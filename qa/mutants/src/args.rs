//! [`Args`]: the command line.

use std::path::PathBuf;

/// What `mutants` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Args {
    /// Source files and directories, from the root of the repository.
    pub(crate) files: Vec<String>,
    /// Arguments of `cargo test`, several runs; those after `--` choose tests.
    pub(crate) tests: Vec<String>,
    /// Where the copy of the repository and what is built from it stay between runs.
    pub(crate) dir: PathBuf,
    /// So many mutants are run at a time.
    pub(crate) jobs: usize,
    /// Only the mutants with these numbers.
    pub(crate) only: Vec<u32>,
    /// Only so many mutants, chosen by `seed`.
    pub(crate) sample: Option<usize>,
    pub(crate) seed: u64,
    /// Tests that take longer without a mutant, in seconds, are left out.
    pub(crate) slowest: f64,
    /// Least percentage of viable mutants to be killed.
    pub(crate) goal: f64,
    /// Only lists the mutants.
    pub(crate) list: bool,
    pub(crate) json: bool,
}

impl Args {
    /// Reads the arguments of a command line, without the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut words = words;
        let mut args = Self {
            files: Vec::new(),
            tests: Vec::new(),
            dir: "target/mutants".into(),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            only: Vec::new(),
            sample: None,
            seed: 1,
            slowest: 60.0,
            goal: 90.0,
            list: false,
            json: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--test" => args.tests.push(value()?),
                "--dir" => args.dir = value()?.into(),
                "--jobs" => args.jobs = number(&value()?)?,
                "--only" => args.only.push(number(&value()?)?),
                "--sample" => args.sample = Some(number(&value()?)?),
                "--seed" => args.seed = number(&value()?)?,
                "--slowest" => args.slowest = number(&value()?)?,
                "--goal" => args.goal = number(&value()?)?,
                "--list" => args.list = true,
                "--json" => args.json = true,
                _ if word.starts_with('-') => return Err(format!("unknown argument '{word}'")),
                _ => args.files.push(word),
            }
        }
        if args.files.is_empty() || args.tests.is_empty() && !args.list || args.jobs == 0 {
            return Err("needs FILES, --test, and at least one job".into());
        }
        Ok(args)
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

#[test]
fn words_become_arguments() {
    let words = |words: &[&str]| Args::parse(words.iter().map(|word| (*word).to_owned()));
    let args = words(&["a.rs", "--test", "-p a --lib", "--only", "3", "--goal", "95.5", "b"]).expect("valid");
    assert_eq!((args.files, args.tests), (vec!["a.rs".into(), "b".into()], vec!["-p a --lib".to_owned()]));
    assert_eq!((args.only, args.goal, args.sample), (vec![3], 95.5, None));
    for wrong in [&["a.rs"][..], &["--test", "-p a"], &["a.rs", "--test"], &["a.rs", "--list", "--jobs", "0"], &["-x"]]
    {
        assert!(words(wrong).is_err(), "{wrong:?}");
    }
}
