//! [`Circumstances`]: when, where and how figures were measured, as they are kept beside them.

use std::fmt::Write as _;
use std::path::Path;

use common::machine;
use serde::{Deserialize, Serialize};

/// When, where and how a program measured.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Circumstances {
    pub date: String,
    pub commit: String,
    pub machine: String,
    pub file_system: String,
    pub command: String,
    /// The machine's load averages, noted again and again.
    pub busy: Vec<f64>,
    pub minutes: f64,
    pub rounds: usize,
    /// What went wrong.
    pub troubles: Vec<String>,
}

impl Circumstances {
    /// Of now, with databases in `dir`.
    pub fn now(dir: &Path, command: &str, rounds: usize) -> Self {
        Self {
            date: machine::date(),
            commit: machine::commit(),
            machine: machine::description(),
            file_system: machine::file_system(dir),
            command: command.to_owned(),
            busy: Vec::new(),
            minutes: 0.0,
            rounds,
            troubles: Vec::new(),
        }
    }

    /// The first lines of a report: what went wrong, and the machine. `before` is what load
    /// averages were noted before.
    pub fn preface(&self, before: &str) -> String {
        let busiest = self.busy.iter().fold(0f64, |most, load| most.max(*load));
        let Self { machine, file_system, commit, .. } = self;
        let mut text = String::new();
        for trouble in &self.troubles {
            writeln!(text, "* **Trouble: {trouble}.**").expect("a string takes everything");
        }
        writeln!(
            text,
            "* Machine: {machine}; databases on {file_system}. Commit {commit}. Load average over one minute before \
             {before}, their own share included: up to {busiest:.1}."
        )
        .expect("a string takes everything");
        text
    }
}
