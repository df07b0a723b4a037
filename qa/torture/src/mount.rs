//! [`Mount`]: a file system of our own, until it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, Stop};

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
        // A file that is still open keeps the file system, but not its name.
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} cannot be unmounted", self.path.display());
        }
    }
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
