//! [`Run`]: one run of one command: its directory, its time, its counts, and its verdict.
//!
//! A run consists of rounds, each with a seed of its own, so that a failed one can be run again
//! alone. Counts are printed at the end, as an aligned table or as JSON; progress goes to standard
//! error meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::args::Args;

/// Status of a run that could not be tried on this machine.
const SKIPPED: u8 = 77;

/// Progress is shown this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Why a round ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A promise was broken.
    Failed(String),
    /// This machine cannot do it; why.
    Skipped(String),
}

impl Stop {
    /// Says in what a failure was found.
    pub(crate) fn within(self, what: &str) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{why}; {what}")),
            skipped @ Self::Skipped(_) => skipped,
        }
    }
}

impl<T: Into<String>> From<T> for Stop {
    fn from(what: T) -> Self {
        Self::Failed(what.into())
    }
}

/// The outcome of a part of a round.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// One run of a command.
pub(crate) struct Run {
    pub(crate) args: Args,
    dir: PathBuf,
    began: Instant,
    shown: Instant,
    counts: Vec<(String, u64)>,
    round: u64,
}

impl Run {
    /// Begins a run in a new directory.
    pub(crate) fn begin(args: Args) -> std::io::Result<Self> {
        let dir = args.dir.join(format!("torture-{}-{}", args.command, process::id()));
        fs::create_dir_all(&dir)?;
        let dir = dir.canonicalize()?;
        let now = Instant::now();
        Ok(Self { args, dir, began: now, shown: now, counts: Vec::new(), round: 0 })
    }

    /// Seconds since it began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The seed of the round in progress.
    pub(crate) fn seed(&self) -> u64 {
        self.args.seed + self.round
    }

    /// True while time is left.
    pub(crate) fn has_time(&self) -> bool {
        self.began.elapsed() < Duration::from_secs(self.args.seconds)
    }

    /// How much of it is left.
    pub(crate) fn time_left(&self) -> Duration {
        Duration::from_secs(self.args.seconds).saturating_sub(self.began.elapsed())
    }

    /// Adds to a count.
    pub(crate) fn add(&mut self, name: &str, number: u64) {
        *self.count(name) += number;
    }

    /// Raises a count to a maximum.
    pub(crate) fn max(&mut self, name: &str, number: u64) {
        let count = self.count(name);
        *count = (*count).max(number);
    }

    fn count(&mut self, name: &str) -> &mut u64 {
        let index = self.counts.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.counts.push((name.to_owned(), 0));
            self.counts.len() - 1
        });
        &mut self.counts[index].1
    }

    /// Shows how far the run is, now and then.
    pub(crate) fn progress(&mut self) {
        if self.shown.elapsed() > PROGRESS_EVERY {
            self.shown = Instant::now();
            let first: Vec<String> =
                self.counts.iter().take(4).map(|(name, count)| format!("{count} {name}")).collect();
            eprintln!("{:5.0} s  seed {}: {}", self.elapsed().as_secs_f64(), self.seed(), first.join(", "));
        }
    }

    /// Runs rounds until the time or the count is reached, each in an empty directory that is
    /// removed afterwards, and prints the verdict.
    pub(crate) fn rounds(mut self, mut round: impl FnMut(&mut Self, &Path) -> Outcome) -> ExitCode {
        let at_panics = self.end_at_panics();
        while self.args.count.map_or(self.has_time() || self.round == 0, |count| self.round < count) {
            *at_panics.lock().unwrap_or_else(PoisonError::into_inner) = self.how_to_replay();
            let dir = self.dir.join(format!("seed-{}", self.seed()));
            let made = fs::create_dir(&dir).map_err(|error| Stop::Failed(format!("{}: {error}", dir.display())));
            if let Err(stop) = made.and_then(|()| round(&mut self, &dir)) {
                return self.verdict(Some(stop));
            }
            if let Err(error) = fs::remove_dir_all(&dir) {
                return self.verdict(Some(Stop::Failed(format!("cleaning up: {}: {error}", dir.display()))));
            }
            self.round += 1;
            self.progress();
        }
        self.verdict(None)
    }

    /// Lets a panic of any thread, the engine's own among them, end the run as a failure. Returns
    /// what is printed then, for each round to set.
    fn end_at_panics(&self) -> Arc<Mutex<String>> {
        let how_to_replay = Arc::new(Mutex::new(self.how_to_replay()));
        let printed = how_to_replay.clone();
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            usual(panic);
            println!("FAILED: a panic\n{}", printed.lock().unwrap_or_else(PoisonError::into_inner));
            process::exit(1);
        }));
        how_to_replay
    }

    fn how_to_replay(&self) -> String {
        let Args { command, size, .. } = &self.args;
        let size = size.map_or(String::new(), |size| format!(" --size {size}"));
        format!("kept: {}\nreplay: torture {command} --seed {} --count 1{size}", self.dir.display(), self.seed())
    }

    /// Prints counts and verdict, and cleans up if nothing was found.
    fn verdict(self, stop: Option<Stop>) -> ExitCode {
        let (word, code) = match &stop {
            None => ("passed", 0),
            Some(Stop::Failed(_)) => ("FAILED", 1),
            Some(Stop::Skipped(_)) => ("skipped", SKIPPED),
        };
        println!("{}", if self.args.json { self.json(word) } else { self.table() });
        match stop {
            Some(Stop::Failed(what)) => {
                println!("FAILED: {what}\n{}", self.how_to_replay());
            }
            Some(Stop::Skipped(why)) => {
                println!("skipped: {why}");
                self.clean_up();
            }
            None if !self.args.json => {
                println!("{} passed in {:.0} s", self.args.command, self.elapsed().as_secs_f64());
                self.clean_up();
            }
            None => self.clean_up(),
        }
        ExitCode::from(code)
    }

    /// Removes the directory of a run that goes on in another process.
    pub(crate) fn remove_dir(&self) {
        self.clean_up();
    }

    fn clean_up(&self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{} cannot be removed: {error}", self.dir.display());
        }
    }

    fn table(&self) -> String {
        let width = self.counts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let lines = self.counts.iter().map(|(name, count)| format!("  {name:width$}  {:>15}", grouped(*count)));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn json(&self, verdict: &str) -> String {
        let mut text = format!(
            "{{\"command\":\"{}\",\"seed\":{},\"seconds\":{:.1},\"verdict\":\"{verdict}\",\"counts\":{{",
            self.args.command,
            self.args.seed,
            self.elapsed().as_secs_f64()
        );
        for (index, (name, count)) in self.counts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(text, "{comma}\"{name}\":{count}").expect("a string takes text");
        }
        text + "}}"
    }
}

/// The number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn thousands_are_grouped() {
    assert_eq!([7, 999, 1000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
}
