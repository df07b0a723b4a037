//! [`Mount`]: a file system of our own, until it is dropped.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::run::{Outcome, Run, Stop};

/// How often, and after which pause, a busy file system is unmounted again.
const BUSY_RETRIES: u32 = 500;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// A mounted file system.
#[derive(Debug)]
pub(crate) struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts a tmpfs of so many MiB on a new directory.
    pub(crate) fn tmpfs(path: &Path, mib: u64) -> Outcome<Self> {
        Self::new(path, &["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
    }

    /// Mounts the file system in a file, on a new directory or an old one.
    pub(crate) fn image(path: &Path, image: &Path) -> Outcome<Self> {
        Self::new(path, &["-o", "loop", &image.to_string_lossy()])
    }

    fn new(path: &Path, what: &[&str]) -> Outcome<Self> {
        fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        run_program(Command::new("mount").args(what).arg(path))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let once = |how: &[&str]| Command::new("umount").args(how).arg(&self.path).stderr(Stdio::null()).status();
        // The kernel closes files of a process that was killed some time later.
        for _ in 0..BUSY_RETRIES {
            if once(&[]).is_ok_and(|status| status.success()) {
                return;
            }
            std::thread::sleep(BUSY_PAUSE);
        }
        let unmounted = once(&["-l"]);
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} cannot be unmounted", self.path.display());
        }
    }
}

/// Runs `inside` where this process may mount file systems that nobody else sees, by starting this
/// program again in a mount namespace of its own.
pub(crate) fn in_namespace(run: Run, inside: impl FnOnce(Run) -> ExitCode) -> ExitCode {
    if run.args.rest == ["inside"] {
        return inside(run);
    }
    for how in [["-r", "-m"].as_slice(), &["-m"]] {
        let can = Command::new("unshare").args(how).args(["mount", "-t", "tmpfs", "tmpfs", "/tmp"]).output();
        if !can.is_ok_and(|output| output.status.success()) {
            continue;
        }
        run.remove_dir();
        let program = std::env::current_exe().expect("this program has a path");
        let error =
            Command::new("unshare").args(how).arg(program).args(std::env::args().skip(1)).args(["--", "inside"]).exec();
        eprintln!("unshare: {error}");
        return ExitCode::FAILURE;
    }
    run.rounds(|_, _| Err(Stop::Skipped("neither `unshare -rm` nor `unshare -m` can mount a tmpfs".to_owned())))
}

/// A round on a tmpfs of so many MiB; what is kept beside it goes below the path.
pub(crate) type TmpfsRound = fn(&mut Run, &Path, &Mount, u64) -> Outcome;

/// Carries out rounds, each on a tmpfs of its own of `mib` MiB, unless the command line has another
/// size.
pub(crate) fn on_tmpfs(run: Run, mib: u64, round: TmpfsRound) -> ExitCode {
    let mib = run.args.size.unwrap_or(mib);
    let inside = |run: Run| {
        run.rounds(|run, dir| {
            let disk = Mount::tmpfs(&dir.join("disk"), mib)?;
            round(run, dir, &disk, mib)
        })
    };
    in_namespace(run, inside)
}

/// Runs a program to its end; its output is part of the failure.
pub(crate) fn run_program(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| Stop::Failed(format!("{command:?}: {error}")))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Stop::Failed(format!("{command:?}: {}: {}", output.status, errors.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
