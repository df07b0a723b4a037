//! The report: a row for each file, and every mutant that survived.

use std::fmt::Write as _;

use serde_json::json;

use crate::site::Mutant;
use crate::trial::Fate;

/// What became of the mutants of one file, or of all.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) sites: usize,
    pub(crate) viable: usize,
    pub(crate) killed: usize,
    pub(crate) timed_out: usize,
    pub(crate) not_reached: usize,
}

impl Counts {
    fn add(&mut self, fate: &Fate) {
        self.sites += 1;
        self.viable += usize::from(*fate != Fate::NotViable);
        self.killed += usize::from(fate.is_killed());
        self.timed_out += usize::from(matches!(fate, Fate::TimedOut(_)));
        self.not_reached += usize::from(*fate == Fate::NotReached);
    }

    /// Killed of the viable ones.
    pub(crate) fn percent(&self) -> f64 {
        if self.viable == 0 { 100.0 } else { 100.0 * self.killed as f64 / self.viable as f64 }
    }
}

/// All that was found.
pub(crate) struct Report {
    pub(crate) files: Vec<String>,
    pub(crate) mutants: Vec<(Mutant, Fate)>,
}

impl Report {
    pub(crate) fn total(&self) -> Counts {
        self.counts(|_| true)
    }

    fn counts(&self, of: impl Fn(usize) -> bool) -> Counts {
        let mut counts = Counts::default();
        self.mutants.iter().filter(|(mutant, _)| of(mutant.file)).for_each(|(_, fate)| counts.add(fate));
        counts
    }

    fn survivors(&self) -> impl Iterator<Item = &(Mutant, Fate)> {
        self.mutants.iter().filter(|(_, fate)| *fate != Fate::NotViable && !fate.is_killed())
    }

    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (mutant, fate) in self.survivors() {
            let Mutant { number, line, column, site, .. } = mutant;
            let why = match fate {
                Fate::Survived(tests) => format!("{tests} tests pass"),
                _ => "not reached".to_owned(),
            };
            let place = format!("{}:{line}:{column}", self.files[mutant.file]);
            writeln!(out, "survived: {place}: {} ({why}; --only {number})", site.description).expect("a string");
        }
        let width = self.files.iter().map(String::len).max().unwrap_or(0).max("file".len());
        let mut row = |name: &str, counts: &[String]| {
            write!(out, "{name:width$}").expect("a string");
            counts.iter().for_each(|count| write!(out, "  {count:>11}").expect("a string"));
            out.push('\n');
        };
        row(
            "file",
            &["sites", "viable", "killed", "timed out", "survived", "not reached", "percent"].map(str::to_owned),
        );
        let files =
            self.files.iter().enumerate().map(|(file, name)| (name.as_str(), self.counts(|other| other == file)));
        for (name, counts) in files.chain([("all", self.total())]) {
            let Counts { sites, viable, killed, timed_out, not_reached } = counts;
            let numbers = [sites, viable, killed, timed_out, viable - killed, not_reached];
            let mut cells: Vec<String> = numbers.iter().map(usize::to_string).collect();
            cells.push(format!("{:.1}", counts.percent()));
            row(name, &cells);
        }
        out
    }

    pub(crate) fn json(&self) -> String {
        let counts = |name: &str, counts: Counts| {
            json!({ "file": name, "sites": counts.sites, "viable": counts.viable, "killed": counts.killed,
                "timed_out": counts.timed_out, "not_reached": counts.not_reached, "percent": counts.percent() })
        };
        let files = self.files.iter().enumerate().map(|(file, name)| counts(name, self.counts(|other| other == file)));
        let survivors = self.survivors().map(|(mutant, fate)| {
            json!({ "number": mutant.number, "file": self.files[mutant.file], "line": mutant.line,
                "column": mutant.column, "mutant": mutant.site.description, "reached": *fate != Fate::NotReached })
        });
        let (files, survivors): (Vec<_>, Vec<_>) = (files.collect(), survivors.collect());
        json!({ "all": counts("all", self.total()), "files": files, "survivors": survivors }).to_string()
    }
}
