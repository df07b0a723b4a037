//! The one error type.
//!
//! Few kinds, each with a different thing to do, and rich messages: what was being done, where, and
//! what to do next. A kind is only split when callers would react differently. Errors can be cloned
//! because one failure may have to be told to many: every writer of a commit group, or every writer
//! after the log has failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_format::VERSION;
use tamarack_format::shape::ShapeError;
use tamarack_format::stored::Flaw;

/// A result, with this crate's [`Error`] unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation did not succeed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Storage answered a call with an error. Whether trying again can help depends on `source`:
    /// after "disk full" it does once space is freed; after an input/output error look at the
    /// device.
    Io {
        /// What was being done, such as "log: append".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the environment said.
        source: Arc<io::Error>,
    },
    /// Bytes on storage are not what was written. Trying again does not help; `verify` lists all of
    /// them. Restore the file from a copy.
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Where in the file the damage was noticed, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The caller asked for something that cannot be; nothing was changed.
    InvalidArgument(String),
    /// Another process, or another handle in this one, holds the database.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The database was written by a newer version, or uses a feature that this build lacks.
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// Which version or feature.
        what: String,
    },
    /// The database has an old format version, which is not read any more. Nothing was changed.
    /// Export it
    /// with the program that wrote it, and import that into a new database.
    OldFormat {
        /// The file that says so.
        path: PathBuf,
        /// The format version that it has.
        version: u32,
    },
    /// The database was opened for reading only, so nothing can be changed. Trying again does not
    /// help: open it with [`Options::open`](crate::Options::open).
    ReadOnly {
        /// Its directory.
        dir: PathBuf,
    },
    /// The database was closed through this or another handle. Writers get it as the cause of an
    /// [`Error::Stopped`].
    Closed,
    /// The database takes no more writes because of an earlier failure; reads still work. Reopen it
    /// to find out what is durable.
    Stopped {
        /// The failure that ended writing.
        cause: Arc<Error>,
    },
}

impl Error {
    /// An [`Error::Io`].
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source: Arc::new(source) }
    }

    /// True if storage had no space, so that the same thing can succeed once some was freed,
    /// without opening the database again.
    pub fn is_storage_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// What a failed sync of a file means that is thrown away for it, so that another takes its
    /// place: nothing, if space was all that it lacked (this error again); else the end of
    /// writing ([`Error::Stopped`]).
    pub(crate) fn of_sync_of_something_new(self) -> Self {
        if self.is_storage_full() { self } else { self.ends_writing() }
    }

    /// This error as the reason why nothing is written any more.
    pub(crate) fn ends_writing(self) -> Self {
        match self {
            stopped @ Self::Stopped { .. } => stopped,
            other => Self::Stopped { cause: Arc::new(other) },
        }
    }

    /// An [`Error::Corruption`].
    pub fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corruption { path: path.to_owned(), offset, what: what.into() }
    }

    /// What a decoder refused, at `offset` of the file at `path`.
    pub(crate) fn flaw(path: &Path, offset: u64, flaw: Flaw) -> Self {
        match flaw {
            Flaw::Damaged(what) => Self::corruption(path, offset, what),
            Flaw::Unsupported(what) => Self::Unsupported { path: path.to_owned(), what: what.to_owned() },
            Flaw::OtherVersion(version) => Self::other_version(path, version),
        }
    }

    /// The file at `path` has another format version than [`VERSION`].
    pub(crate) fn other_version(path: &Path, version: u32) -> Self {
        if version < VERSION {
            return Self::OldFormat { path: path.to_owned(), version };
        }
        let what = format!("format version {version}, newer than version {VERSION} that this program reads");
        Self::Unsupported { path: path.to_owned(), what }
    }

    /// Why the shape of a tree in `dir` cannot be used.
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
                write!(f, "; {}, then try again", advice(source.kind()))
            }
            Self::Corruption { path, offset, what } => {
                write!(
                    f,
                    "{}: damaged at byte {offset}: {what}; `tamarack verify` lists all that is damaged",
                    path.display()
                )
            }
            Self::InvalidArgument(what) => f.write_str(what),
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
                    "{}: {what}; open it with a newer version of Tamarack, or a build that has what is missing",
                    path.display()
                )
            }
            Self::OldFormat { path, version } => {
                write!(
                    f,
                    "{}: format version {version}; this program reads version {VERSION} only. Export the database with \
                     the program that wrote it (`tamarack export`), and import that into a new one (`tamarack import`); \
                     nothing was changed",
                    path.display()
                )
            }
            Self::ReadOnly { dir } => {
                write!(f, "{}: opened for reading only, so nothing can be changed; open it for writing", dir.display())
            }
            Self::Closed => f.write_str("the database was closed; open it again"),
            Self::Stopped { cause } if matches!(**cause, Self::Closed) => fmt::Display::fmt(cause, f),
            Self::Stopped { cause } => {
                cause.fmt_without_advice(f)?;
                f.write_str(
                    "; what of it is durable is unknown, so no more writes are taken, while reads still work; ",
                )?;
                match &**cause {
                    Self::Io { source, .. } => write!(f, "{}, then reopen the database", advice(source.kind())),
                    _ => f.write_str("reopen the database"),
                }
            }
        }
    }
}

impl Error {
    /// What happened, without what to do about it, where that depends on who asks.
    fn fmt_without_advice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, source } => write!(f, "{}: {doing} failed: {source}", path.display()),
            other => fmt::Display::fmt(other, f),
        }
    }
}

/// What to do about storage that answers with such an error.
fn advice(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "check the owner and mode of the file, its directory and its file system"
        }
        io::ErrorKind::NotFound => "check that the path is right",
        _ => "look at the device and at the system's log",
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
