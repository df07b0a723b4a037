//! [`Told`]: what a child told before it ended, and the process itself.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use crate::child::Task;
use crate::run::Outcome;

/// One acknowledged commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    /// When the call began, and when it had returned.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) is_synced: bool,
}

/// A checkpoint that was complete.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) name: String,
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// All that a child told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) is_open: bool,
    /// How many commits each writer's database had at the beginning.
    pub(crate) from: Vec<u64>,
    /// For each writer, the commits that follow.
    pub(crate) acks: Vec<Vec<Ack>>,
    /// Begin and end of each sync.
    pub(crate) syncs: Vec<(u64, u64)>,
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// The operator's calls.
    pub(crate) calls: u64,
    /// Writes and calls that a full disk refused.
    pub(crate) refused: u64,
    /// Calls of the operating system that were made to fail.
    pub(crate) faults: u64,
    pub(crate) errors: Vec<String>,
    pub(crate) wrong: Vec<String>,
}

impl Told {
    pub(crate) fn new(from: &[u64]) -> Self {
        Self { from: from.to_vec(), acks: vec![Vec::new(); from.len()], ..Self::default() }
    }

    /// How many commits of a writer are acknowledged.
    pub(crate) fn acked(&self, writer: usize) -> u64 {
        self.from[writer] + self.acks[writer].len() as u64
    }

    /// How many had returned before a moment.
    pub(crate) fn acked_before(&self, writer: usize, moment: u64) -> u64 {
        self.from[writer] + self.acks[writer].partition_point(|ack| ack.end < moment) as u64
    }

    /// How many may have begun before a moment; one more than the last may have at any.
    pub(crate) fn begun_before(&self, writer: usize, moment: u64) -> u64 {
        let acks = &self.acks[writer];
        let begun = acks.partition_point(|ack| ack.begin < moment);
        self.from[writer] + begun as u64 + u64::from(begun == acks.len())
    }

    /// The acknowledgement of a commit, if there is one.
    pub(crate) fn ack(&self, writer: usize, number: u64) -> Option<&Ack> {
        let index = number.checked_sub(self.from[writer] + 1)?;
        self.acks[writer].get(index as usize)
    }

    /// A moment at or before which a commit began. Of one that was never acknowledged only the end
    /// of the one before is known.
    pub(crate) fn begin(&self, writer: usize, number: u64) -> u64 {
        match self.ack(writer, number) {
            Some(ack) => ack.begin,
            None => self.acks[writer].last().map_or(0, |ack| ack.end),
        }
    }

    /// Takes one line; false if it is none of a child's.
    fn take(&mut self, line: &str) -> bool {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
        match (kind, &numbers[..]) {
            ("O", _) => self.is_open = true,
            ("A", [writer, number, begin, end, synced]) => {
                let acks = &mut self.acks[*writer as usize];
                if self.from[*writer as usize] + acks.len() as u64 + 1 != *number {
                    return false;
                }
                acks.push(Ack { begin: *begin, end: *end, is_synced: *synced == 1 });
            }
            ("S", [begin, end]) => {
                self.calls += 1;
                self.syncs.push((*begin, *end));
            }
            ("C", [begin, end]) => {
                let name = rest.split(' ').next().unwrap_or_default().to_owned();
                self.checkpoints.push(Checkpoint { name, begin: *begin, end: *end });
            }
            ("N", _) if rest == "refused" => self.refused += 1,
            ("N", _) => self.calls += 1,
            ("F", _) => self.faults += 1,
            ("E", _) => self.errors.push(rest.to_owned()),
            ("W", _) => self.wrong.push(rest.to_owned()),
            _ => return false,
        }
        true
    }
}

/// A running child.
pub(crate) struct Running {
    process: Child,
    listener: JoinHandle<Result<Told, String>>,
}

impl Running {
    /// Starts a child that works in `dir`; its standard error goes to the file
    /// `errors`.
    pub(crate) fn start(dir: &Path, errors: &Path, task: &Task) -> Outcome<Self> {
        let start = || {
            let errors = File::create(errors)?;
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["child", "--dir"]).arg(dir).arg("--").args(task.words());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn()
        };
        let mut process = start().map_err(|error| format!("no child: {error}"))?;
        let output = process.stdout.take().expect("it is piped");
        let mut told = Told::new(&task.from);
        let listener = std::thread::spawn(move || {
            let mut lines = BufReader::with_capacity(1 << 16, output);
            let mut line = String::new();
            // A kill can cut the last line short: it was not told then.
            while lines.read_line(&mut line).map_err(|error| error.to_string())? > 0 && line.ends_with('\n') {
                if !told.take(line.trim_end()) {
                    return Err(format!("the child told nonsense: {line}"));
                }
                line.clear();
            }
            Ok(told)
        });
        Ok(Self { process, listener })
    }

    /// Kills it with SIGKILL, if it still runs.
    pub(crate) fn kill(&mut self) -> Outcome {
        Ok(self.process.kill().map_err(|error| format!("kill: {error}"))?)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// True once it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Outcome<(ExitStatus, Told)> {
        let status = self.process.wait().map_err(|error| format!("wait: {error}"))?;
        let told = self.listener.join().map_err(|_| "the listener panicked".to_owned())??;
        Ok((status, told))
    }
}

#[test]
fn lines_are_understood() {
    let mut told = Told::new(&[10, 0]);
    for line in [
        "O",
        "A 0 11 5 9 1",
        "A 1 1 6 8 0",
        "S 7 12",
        "C checkpoint-3 3 4",
        "N flush",
        "F read of x: no",
        "E open: no",
        "W get",
    ] {
        assert!(told.take(line), "{line}");
    }
    assert_eq!([told.acked(0), told.acked(1)], [11, 1]);
    assert_eq!([told.acked_before(0, 9), told.acked_before(0, 10), told.begun_before(0, 5)], [10, 11, 10]);
    assert_eq!((told.begun_before(0, 6), told.begin(0, 11), told.begin(0, 12)), (12, 5, 9));
    assert!(told.checkpoints[0].name == "checkpoint-3" && told.calls == 2 && told.faults == 1 && told.wrong.len() == 1);
    assert!(!told.take("A 0 11 5 9 1") && !told.take("A 0 x") && !told.take(""), "nonsense");
}
