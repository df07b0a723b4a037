//! Temporary directories for tests and measurements, removed when their value is dropped.

#![expect(clippy::disallowed_methods, reason = "an environment does not remove directories; only scratch ones vanish")]

use std::io;
use std::path::{Path, PathBuf};

use crate::random::Random;

/// A new directory that is removed with its content when the value is dropped. A killed process
/// leaves it behind.
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates a directory where the system keeps temporary files; often in memory rather than on a
    /// disk.
    pub fn new() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Creates a directory in `parent`, which must exist: for measurements, which need a certain
    /// disk.
    pub fn below(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("tamarack-{:016x}", Random::from_entropy().next()));
        std::fs::create_dir(&path)?;
        Ok(Self { path })
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A failure cannot be reported here, and leftovers lie where temporary files are expected.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    use super::*;

    /// No two are the same, and each is gone after the drop, with its content.
    #[test]
    fn vanishes_when_dropped() {
        let outer = TempDir::new().unwrap();
        let (one, two) = (TempDir::below(outer.path()).unwrap(), TempDir::below(outer.path()).unwrap());
        assert_ne!(one.path(), two.path());
        std::fs::write(one.path().join("file"), b"bytes").unwrap();
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
        assert!(two.path().exists());
    }
}
