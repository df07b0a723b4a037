//! Measures processes from the outside: starts a scene in a process of its own, and reads the
//! memory that the operating system counts for it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::scenes::{DONE, Scene};

/// What a scene took.
pub(crate) struct Measured {
    /// The account of memory at the end, in bytes.
    pub(crate) account: u64,
    /// The maximum of the account.
    pub(crate) account_max: u64,
    /// Resident memory of the process at the end, in bytes.
    pub(crate) resident: u64,
    /// The maximum of resident memory.
    pub(crate) resident_max: u64,
    /// Operations carried out.
    pub(crate) operations: u64,
}

impl Measured {
    /// Returns true if resident memory has kept to the scene's bound.
    pub(crate) fn is_within(&self, scene: &Scene) -> bool {
        self.resident_max <= scene.bound_bytes()
    }
}

/// Measures the process that `command` starts, which runs a scene.
///
/// # Panics
/// If the process cannot be started or fails.
pub(crate) fn measure(command: &mut Command) -> Measured {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the scene's process starts");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut lines = output.lines().map(|line| line.expect("text"));
    let numbers: Option<Vec<u64>> = lines.by_ref().find_map(|line| {
        let numbers = line.strip_prefix(DONE)?.split_whitespace();
        Some(numbers.map(|number| number.parse().expect("a number")).collect())
    });
    let memory = numbers.is_some().then(|| status(child.id()));
    drop(child.stdin.take());
    lines.for_each(drop);
    let ended = child.wait().expect("it was started");
    let (Some(numbers), Some((resident, resident_max))) = (numbers, memory) else { panic!("the scene ended: {ended}") };
    assert!(ended.success(), "the scene ended: {ended}");
    let [account, account_max, operations] = numbers[..] else { panic!("three numbers, not {numbers:?}") };
    Measured { account, account_max, resident, resident_max, operations }
}

/// The resident memory of a process, and its maximum since the process began, in bytes.
fn status(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("this is Linux");
    let bytes_of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes =
            line.and_then(|line| line.trim_matches(|sign: char| !sign.is_ascii_digit()).parse::<u64>().ok());
        1024 * kibibytes.unwrap_or_else(|| panic!("no {name} in {status}"))
    };
    (bytes_of("VmRSS:"), bytes_of("VmHWM:"))
}
