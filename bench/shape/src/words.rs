//! The options of these programs: `--name NUMBER`, and `--dir DIR`.

use std::path::PathBuf;

/// What was given on the command line.
pub struct Words {
    given: Vec<(String, String)>,
}

impl Words {
    /// Reads them, or prints `help` and ends the program. `names` are all that there are.
    pub fn read(names: &[&str], help: &str) -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let given: Vec<(String, String)> = words
            .chunks(2)
            .filter_map(|pair| Some((pair[0].strip_prefix("--")?.to_owned(), pair.get(1)?.clone())))
            .collect();
        let all_known = given.iter().all(|(name, _)| names.contains(&name.as_str()));
        if given.len() * 2 != words.len() || !all_known {
            eprintln!("{help}");
            std::process::exit(2);
        }
        Self { given }
    }

    /// A whole number.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        self.find(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("--{name} {text}: not a number")))
    }

    /// Where the databases are made.
    pub fn dir(&self) -> PathBuf {
        self.find("dir").map_or_else(std::env::temp_dir, PathBuf::from)
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.given.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}
