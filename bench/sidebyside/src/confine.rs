//! [`Confined`]: a bound on the memory of a process, the pages of its files in the page cache
//! included.
//!
//! Engines that read through the page cache otherwise have all memory of the machine, whatever
//! their caches are told.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A control group of one process; removed when dropped, after the process has ended.
#[derive(Debug)]
pub struct Confined(PathBuf);

impl Confined {
    /// Bounds the memory of a process from now on.
    ///
    /// # Errors
    /// If there are no control groups for memory, or this process may not make any: run it as root.
    pub fn new(process: u32, bytes: u64) -> io::Result<Self> {
        const ROOT: &str = "/sys/fs/cgroup";
        let is_first_version = Path::new(ROOT).join("memory").exists();
        let (parent, limit) = if is_first_version { ("memory", "memory.limit_in_bytes") } else { ("", "memory.max") };
        let dir = Path::new(ROOT).join(parent).join(format!("tamarack-defaults-{process}"));
        fs::create_dir(&dir).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))?;
        let confined = Self(dir);
        fs::write(confined.0.join(limit), bytes.to_string())?;
        fs::write(confined.0.join("cgroup.procs"), process.to_string())?;
        Ok(confined)
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{}: {error}; remove it by hand", self.0.display());
        }
    }
}
