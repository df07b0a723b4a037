//! The error type of the engine, and its kinds.
//!
//! A kind is separate only where callers react differently: [`ErrorKind`] is what a program matches
//! on, [`Error`] has the details. Messages say which operation failed, on which file, and what to
//! do next. Errors are `Clone` because one failure reaches many callers: every writer of a commit
//! group, or every writer after the WAL has failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{is_not_regular, is_out_of_descriptors};
use tamarack_format::VERSION;
use tamarack_format::shape::ShapeError;
use tamarack_format::stored::Flaw;

/// A result whose error is this crate's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A storage operation failed. Whether a retry can succeed depends on `source`: after "disk
    /// full" it can once space is freed; after an input/output error check the device.
    Io {
        /// The operation that failed, such as "wal: append".
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the environment.
        source: Arc<io::Error>,
    },
    /// The bytes on storage differ from the bytes that were written. A retry does not help:
    /// [`Options::verify`](crate::Options::verify) lists all damage; restore the file from a copy.
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// The offset in the file at which the damage was detected, in bytes.
        offset: u64,
        /// A description of the damage.
        what: String,
    },
    /// An argument is out of its range, or not allowed in this state. Nothing was changed.
    InvalidArgument(String),
    /// What a transaction has read was written by others since it began, or it is too old for that
    /// to be known. Nothing was written. Run the transaction again, from its beginning:
    /// [`Db::transact`](crate::Db::transact) does so.
    Conflict {
        /// The key, and how it was read; or why that is not known.
        what: String,
    },
    /// Pessimistic transactions waited for each other's locks, and this one, the youngest of them,
    /// was rolled back: nothing was written, and its locks are released. Run it again, from its
    /// beginning: [`Db::transact_pessimistic`](crate::Db::transact_pessimistic) does so.
    Deadlock {
        /// Which transaction waited for which, and for which keys.
        what: String,
    },
    /// A pessimistic transaction has waited for a lock for as long as its [time-out] allows. It has
    /// what it had before, and can go on, or try again.
    ///
    /// [time-out]: crate::PessimisticTransaction::set_lock_timeout
    LockTimeout {
        /// The key or range, and the transactions that have locked it.
        what: String,
    },
    /// The merge operator failed on the operands of a key, or is not registered. They stay as they
    /// are. Other keys are not affected.
    Merge {
        /// The name of the merge operator.
        operator: String,
        /// The key.
        key: Vec<u8>,
        /// What the operator says.
        what: String,
    },
    /// There is no database in the directory, and the call may not create one: it only reads, or
    /// [`Options::create_if_missing`](crate::Options::create_if_missing) is off. Nothing was
    /// changed.
    NotFound {
        /// The directory.
        dir: PathBuf,
    },
    /// The lock of the database is taken by another process, or by another handle in this one.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The format is newer than this build reads, or needs a feature that this build lacks.
    Unsupported {
        /// The file with that format.
        path: PathBuf,
        /// The version or the feature.
        what: String,
    },
    /// The format version is older than the one that this build reads. Nothing was changed. Export
    /// the database with the program that wrote it, and import the records into a new one.
    OldFormat {
        /// The file with that version.
        path: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// The database is open read-only, so the write was refused. Open it with
    /// [`Options::open`](crate::Options::open) to write.
    ReadOnly {
        /// The directory of the database.
        dir: PathBuf,
    },
    /// The database was closed through this handle or another one. Writers get this error as the
    /// cause of an [`Error::Stopped`].
    Closed,
    /// Writes have stopped because of an earlier failure; reads still work. Reopen the database to
    /// find out which of the last writes are durable.
    Stopped {
        /// The failure that stopped writes.
        cause: Arc<Error>,
    },
}

/// The kind of an [`Error`]: what a program reacts to.
///
/// ```
/// # let env = tamarack::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// use tamarack::ErrorKind;
///
/// match options.create_if_missing(false).open("/prices") {
///     Ok(db) => println!("{db:?}"),
///     Err(error) => match error.kind() {
///         ErrorKind::NotFound => println!("nothing is stored yet"),
///         ErrorKind::Locked | ErrorKind::StorageFull => println!("later: {error}"),
///         _ => return Err(error),
///     },
/// }
/// # Ok::<(), tamarack::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no database in the directory: [`Error::NotFound`].
    NotFound,
    /// Another process or handle has the database open: [`Error::Locked`].
    Locked,
    /// A file is damaged: [`Error::Corruption`].
    Corruption,
    /// An argument is wrong, or not allowed in this state: [`Error::InvalidArgument`].
    InvalidArgument,
    /// Others have written what a transaction has read: [`Error::Conflict`].
    Conflict,
    /// Transactions waited for each other's locks, and this one was rolled back:
    /// [`Error::Deadlock`].
    Deadlock,
    /// A transaction has waited for a lock for too long: [`Error::LockTimeout`].
    LockTimeout,
    /// The merge operator failed, or is not registered: [`Error::Merge`].
    Merge,
    /// The format is newer than this build, or needs a feature that it lacks:
    /// [`Error::Unsupported`].
    Unsupported,
    /// The format is older than this build reads: [`Error::OldFormat`].
    OldFormat,
    /// A write to a database that is open for reading only: [`Error::ReadOnly`].
    ReadOnly,
    /// Storage is full, or free space is below the reserve: an [`Error::Io`] that ends once space
    /// is freed.
    StorageFull,
    /// Any other [`Error::Io`].
    Io,
    /// The database was closed: [`Error::Closed`], by itself or as the cause of an
    /// [`Error::Stopped`].
    Closed,
    /// Writes have stopped because of an earlier failure: any other [`Error::Stopped`].
    Stopped,
}

impl Error {
    /// Returns the kind of the error.
    ///
    /// ```
    /// # let advanced = tamarack::AdvancedOptions::new().env(tamarack::MemoryEnv::new(1));
    /// # let options = tamarack::Options::new().advanced(advanced);
    /// use tamarack::ErrorKind;
    ///
    /// let missing = options.open_read_only("/prices").unwrap_err();
    /// assert_eq!(missing.kind(), ErrorKind::NotFound);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } if self.is_storage_full() => ErrorKind::StorageFull,
            Self::Io { .. } => ErrorKind::Io,
            Self::Corruption { .. } => ErrorKind::Corruption,
            Self::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Deadlock { .. } => ErrorKind::Deadlock,
            Self::LockTimeout { .. } => ErrorKind::LockTimeout,
            Self::Merge { .. } => ErrorKind::Merge,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::OldFormat { .. } => ErrorKind::OldFormat,
            Self::ReadOnly { .. } => ErrorKind::ReadOnly,
            Self::Closed => ErrorKind::Closed,
            Self::Stopped { cause } if matches!(**cause, Self::Closed) => ErrorKind::Closed,
            Self::Stopped { .. } => ErrorKind::Stopped,
        }
    }

    /// Returns an [`Error::Io`].
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Returns true if storage was full: the operation can succeed once space is freed, without
    /// reopening the database.
    pub fn is_storage_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Classifies a failed sync of a new file that is discarded and written again: a lack of space
    /// is this error again, since a retry can succeed; any other failure stops writes
    /// ([`Error::Stopped`]).
    pub(crate) fn of_sync_of_new_file(self) -> Self {
        if self.is_storage_full() { self } else { self.ends_writing() }
    }

    /// Wraps this error as the cause of an [`Error::Stopped`].
    pub(crate) fn ends_writing(self) -> Self {
        match self {
            stopped @ Self::Stopped { .. } => stopped,
            other => Self::Stopped { cause: Arc::new(other) },
        }
    }

    /// Returns an [`Error::Corruption`].
    pub fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { path: path.to_owned(), offset, what: what.into() }
    }

    /// Converts a decoder's flaw at `offset` of the file at `path`.
    pub(crate) fn flaw(path: &Path, offset: u64, flaw: Flaw) -> Self {
        match flaw {
            Flaw::Damaged(what) => Self::corruption(path, offset, what),
            Flaw::Unsupported(what) => Self::Unsupported { path: path.to_owned(), what: what.to_owned() },
            Flaw::OtherVersion(version) => Self::other_version(path, version),
        }
    }

    /// Returns the error for a file at `path` whose format version is not [`VERSION`].
    pub(crate) fn other_version(path: &Path, version: u32) -> Self {
        if version < VERSION {
            return Self::OldFormat { path: path.to_owned(), version };
        }
        let what = format!("format version {version}, newer than version {VERSION} that this program reads");
        Self::Unsupported { path: path.to_owned(), what }
    }

    /// Converts a flaw in the shape of a tree in `dir`.
    pub(crate) fn shape(dir: &Path, error: ShapeError) -> Self {
        match error {
            ShapeError::Malformed(what) => {
                Self::corruption(dir, 0, format!("the tree's shape in the manifest: {what}"))
            }
            ShapeError::Newer(what) => Self::Unsupported { path: dir.to_owned(), what },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { source, .. } => {
                self.fmt_without_advice(f)?;
                write!(f, "; {}, then try again", advice(source))
            }
            Self::Corruption { path, offset, what } => {
                write!(f, "{}: damaged at byte {offset}: {what}; `Options::verify` lists all damage", path.display())
            }
            Self::InvalidArgument(what) => f.write_str(what),
            Self::Conflict { what } => {
                write!(f, "conflict: {what}; run the transaction again, as `Db::transact` does")
            }
            Self::Deadlock { what } => {
                write!(f, "deadlock: {what}; run it again, as `Db::transact_pessimistic` does")
            }
            Self::LockTimeout { what } => {
                write!(
                    f,
                    "lock time-out: {what}; try again once the others have ended, or wait for longer \
                     (`PessimisticTransaction::set_lock_timeout`)"
                )
            }
            Self::Merge { operator, key, what } => {
                write!(f, "merge operator {operator}, key \"{}\": {what}", key.escape_ascii())
            }
            Self::NotFound { dir } => {
                write!(
                    f,
                    "{}: there is no database here; check the path, or allow opening to create one",
                    dir.display()
                )
            }
            Self::Locked { path } => {
                write!(
                    f,
                    "{}: another process, or another handle in this one, has the database open; close it there first",
                    path.display()
                )
            }
            Self::Unsupported { path, what } => {
                write!(
                    f,
                    "{}: {what}; open it with a newer version of Tamarack, or with a build that has that feature",
                    path.display()
                )
            }
            Self::OldFormat { path, version } => {
                write!(
                    f,
                    "{}: format version {version}; this build reads version {VERSION} only. Nothing was changed: export the \
                     database with the program that wrote it, and import the records into a new one",
                    path.display()
                )
            }
            Self::ReadOnly { dir } => {
                write!(f, "{}: the database is open read-only; open it for writing to change it", dir.display())
            }
            Self::Closed => f.write_str("the database is closed; open it again"),
            Self::Stopped { cause } if matches!(**cause, Self::Closed) => fmt::Display::fmt(cause, f),
            Self::Stopped { cause } => {
                cause.fmt_without_advice(f)?;
                f.write_str(
                    "; writes have stopped, because it is unknown how much of the last one is durable; reads still work; ",
                )?;
                match &**cause {
                    Self::Io { source, .. } => write!(f, "{}, then reopen the database", advice(source)),
                    _ => f.write_str("reopen the database"),
                }
            }
        }
    }
}

impl Error {
    /// Writes what happened, without advice: the advice depends on whether writes have stopped.
    fn fmt_without_advice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { operation, path, source } => write!(f, "{}: {operation} failed: {source}", path.display()),
            other => fmt::Display::fmt(other, f),
        }
    }
}

/// So much of a key is shown in an error, in bytes.
const SHOWN_BYTES: usize = 80;

/// Returns a key as an error shows it.
pub(crate) fn shown_key(key: &[u8]) -> String {
    let cut = &key[..key.len().min(SHOWN_BYTES)];
    format!("\"{}\"{}", cut.escape_ascii(), if cut.len() < key.len() { "…" } else { "" })
}

/// Returns what to do about a storage error.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "check the owner and mode of the file, its directory and its file system"
        }
        io::ErrorKind::NotFound => "check that the path is right",
        _ if is_not_regular(error) => "move it out of the way: a file of the database belongs there",
        _ if is_out_of_descriptors(error) => {
            "raise the limit of open files (`ulimit -n`), or lower `AdvancedOptions::open_files_max`"
        }
        _ => "check the device and the system's log",
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source.as_ref()),
            Self::Stopped { cause } => Some(cause.as_ref()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The suite's module `errors` provokes one error of each kind. This match does not compile
    /// when a kind is added: provoke it there, and then list it here.
    #[test]
    fn kinds_that_are_provoked() {
        let text = include_str!("../tests/suite/errors.rs");
        let kinds = [
            ErrorKind::NotFound,
            ErrorKind::Locked,
            ErrorKind::Corruption,
            ErrorKind::InvalidArgument,
            ErrorKind::Conflict,
            ErrorKind::Deadlock,
            ErrorKind::LockTimeout,
            ErrorKind::Merge,
            ErrorKind::Unsupported,
            ErrorKind::OldFormat,
            ErrorKind::ReadOnly,
            ErrorKind::StorageFull,
            ErrorKind::Io,
            ErrorKind::Closed,
            ErrorKind::Stopped,
        ];
        for kind in kinds {
            match kind {
                ErrorKind::NotFound
                | ErrorKind::Locked
                | ErrorKind::Corruption
                | ErrorKind::InvalidArgument
                | ErrorKind::Conflict
                | ErrorKind::Deadlock
                | ErrorKind::LockTimeout
                | ErrorKind::Merge
                | ErrorKind::Unsupported
                | ErrorKind::OldFormat
                | ErrorKind::ReadOnly
                | ErrorKind::StorageFull
                | ErrorKind::Io
                | ErrorKind::Closed
                | ErrorKind::Stopped => {}
            }
            assert!(text.contains(&format!("ErrorKind::{kind:?},")), "the suite provokes no error of kind {kind:?}");
        }
    }
}
