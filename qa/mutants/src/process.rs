//! One run of one test in a process of its own, within limits of time, memory and disk space.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::compile::Program;

/// Address space in KiB, and the largest file in blocks of 512 B (`ulimit -v`, `-f`): a mutant that
/// allocates or writes without end fails before it harms the machine.
const ULIMITS: &str = "ulimit -v 8388608; ulimit -f 4194304; exec \"$@\"";

/// How a test ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Passed,
    Failed,
    TimedOut,
}

/// Names of the program's tests.
pub(crate) fn list(program: &Program) -> Result<Vec<String>, String> {
    let mut command = Command::new(&program.executable);
    command.args(["--list", "--format", "terse"]).args(&program.filters).current_dir(&program.directory);
    let output = command.output().map_err(|error| format!("{}: {error}", program.executable.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs one test with `TAMARACK_MUTANT` as given. `scratch` is its directory for temporary files,
/// emptied before.
pub(crate) fn run(
    program: &Program,
    test: &str,
    mutant: &str,
    reached: &Path,
    scratch: &Path,
    limit: Duration,
) -> Result<End, String> {
    let io = |error: std::io::Error| format!("{test}: {error}");
    if scratch.exists() {
        fs::remove_dir_all(scratch).map_err(io)?;
    }
    fs::create_dir_all(scratch).map_err(io)?;
    let mut command = Command::new("sh");
    command.args(["-c", ULIMITS, "sh"]).arg(&program.executable).args(["--exact", test, "--test-threads=1"]);
    command.current_dir(&program.directory).env("CARGO_MANIFEST_DIR", &program.directory).env("TMPDIR", scratch);
    command.env("TAMARACK_MUTANT", mutant).env("TAMARACK_MUTANT_REACHED", reached).env("RUST_BACKTRACE", "0");
    // A group of its own, so that its children can be ended with it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(io)?;
    let (began, mut pause) = (Instant::now(), Duration::from_micros(200));
    let end = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break if status.success() { End::Passed } else { End::Failed };
        }
        if began.elapsed() > limit {
            break End::TimedOut;
        }
        thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(20));
    };
    let group = rustix::process::Pid::from_child(&child);
    // An error says that no process of the group is left.
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    child.wait().map_err(io)?;
    Ok(end)
}
