//! [`Listing`]: the names in the directory of a database.
//!
//! ```text
//! directory ──read──▶ names, of any file ──files──▶ FileName: lock, CURRENT, manifests,
//!                                                   WAL segments, tables, CALIBRATION
//! ```
//!
//! Everybody who asks which files exist asks here: opening, the manifest, the WAL's recovery,
//! verification, repair, checkpoints. So there is one rule for what is ours by its name, and one
//! error for a directory that cannot be read. Whether a table with such a name belongs to *this*
//! database depends on its number:
//! [`Version::own_tables`](crate::tree::version::Version::own_tables).
//!
//! Never opens, changes or removes a file. Tested through its users: by failing calls
//! (`tests/faults/failures`), and by directories that are missing, no directories, or have files
//! with numbers that no database gives (the CLI's `tests/process/odd_files.rs`).

use std::ffi::OsString;
use std::io;
use std::path::Path;

use tamarack_env::Env;

use crate::error::{Error, Result};
use crate::format::names::FileName;

/// The names in a directory, in any order.
#[derive(Debug)]
pub struct Listing {
    names: Vec<OsString>,
}

impl Listing {
    /// Reads the names in `dir`.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read, or does not exist.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Self> {
        let names = env.list(dir).map_err(|error| Error::io("database: list directory", dir, error))?;
        Ok(Self { names })
    }

    /// As [`Listing::read`]; `None` if there is no such directory.
    pub fn find(env: &dyn Env, dir: &Path) -> Result<Option<Self>> {
        match Self::read(env, dir) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            listing => listing.map(Some),
        }
    }

    /// Returns all names, those of other programs' files included.
    pub fn names(&self) -> &[OsString] {
        &self.names
    }

    /// Returns the files that are a database's by their names.
    pub fn files(&self) -> impl Iterator<Item = FileName> {
        self.names.iter().filter_map(|name| FileName::parse(name.to_str()?))
    }
}
