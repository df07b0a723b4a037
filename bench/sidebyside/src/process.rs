//! A process for each store: its memory, reads and writes are then its own, and if it crashes, the
//! others go on.
//!
//! ```text
//! asking program ── a question, one line of JSON ──► worker
//! asking program ◄── an answer, one line of JSON ── worker
//! ```
//!
//! A worker is the same program, started with the same arguments and `--worker ENGINE` after them.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A worker, from the side that asks.
pub struct Worker {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Worker {
    /// Starts this program again, with the same arguments and the name of the engine.
    pub fn start(engine: &str) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).args(["--worker", engine]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Self { child, answers })
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Asks, and waits for the answer; an error says that the worker has ended instead.
    pub fn ask<Answer: DeserializeOwned>(&mut self, question: &impl Serialize) -> io::Result<Answer> {
        let mut stdin = self.child.stdin.as_ref().expect("it is piped");
        writeln!(stdin, "{}", serde_json::to_string(question)?)?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!("its process ended: {}", self.child.wait()?)));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Worker {
    /// Its input ends, and so does it.
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("a worker does not end: {error}");
        }
    }
}

/// If this process was started as a worker: its engine, and the arguments of the asking program.
pub fn as_worker() -> Option<(String, Vec<String>)> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let engine = words.pop()?;
    (words.pop()? == "--worker").then_some((engine, words))
}

/// Answers until nothing is asked any more.
pub fn answer_all<Question: DeserializeOwned, Answer: Serialize>(
    mut answer: impl FnMut(Question) -> io::Result<Answer>,
) -> io::Result<()> {
    for line in io::stdin().lines() {
        println!("{}", serde_json::to_string(&answer(serde_json::from_str(&line?)?)?)?);
    }
    Ok(())
}
