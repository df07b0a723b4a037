//! [`Input`]: the file that is looked at, open for reading and nothing else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack::Error;
use tamarack_env::{Access, Env, File, OsEnv};
use tamarack_format::VERSION;

use crate::outcome::Failure;

/// Upper bound on WAL segments and manifests: a WAL segment ends after the commit group that fills
/// it, whose record has less than 4 GiB.
const WHOLE_BYTES_MAX: u64 = 8 << 30;

/// The file that is looked at.
pub(super) struct Input {
    /// Where it is.
    pub(super) path: PathBuf,
    /// How long it was when it was opened.
    pub(super) bytes: u64,
    /// What it was opened by.
    pub(super) env: Arc<dyn Env>,
    file: Arc<dyn File>,
}

impl Input {
    /// Opens the file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let (env, shown) = (OsEnv::new(), path.display());
        if env.list(path).is_ok() {
            return Err(Failure::Usage(format!("{shown}: a directory; name one of the files in it, such as CURRENT")));
        }
        let file = env.open(path, Access::Read).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::Usage(format!("{shown}: there is no such file; check the path")),
            _ => Error::io("inspect: open", path, error).into(),
        })?;
        let bytes = file.len().map_err(|error| Error::io("inspect: file length", path, error))?;
        Ok(Self { path: path.to_owned(), bytes, env, file })
    }

    /// Its name without the directory.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned()
    }

    /// Some of its bytes, which the file is to have; an error if it has not, or if the device
    /// cannot read them.
    pub(super) fn try_read(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(bytes).map_err(io::Error::other)?;
        buffer.resize(bytes, 0);
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// As [`Input::try_read`], for bytes without which there is nothing to show.
    pub(super) fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, Failure> {
        let read = usize::try_from(bytes).map_err(io::Error::other).and_then(|bytes| self.try_read(offset, bytes));
        read.map_err(|error| Error::io("inspect: read", &self.path, error).into())
    }

    /// All of it.
    pub(super) fn read_all(&self) -> Result<Vec<u8>, Failure> {
        if self.bytes > WHOLE_BYTES_MAX {
            let shown = self.path.display();
            return Err(Failure::Usage(format!("{shown}: {} bytes are more than any such file has", self.bytes)));
        }
        self.read(0, self.bytes)
    }

    /// The failure for a file of another format version.
    pub(super) fn other_version(&self, version: u32) -> Failure {
        let path = self.path.clone();
        if version < VERSION {
            return Error::OldFormat { path, version }.into();
        }
        self.newer(format!("format version {version}, newer than version {VERSION} that this program reads"))
    }

    /// The failure for a file that a newer version wrote.
    pub(super) fn newer(&self, what: impl Into<String>) -> Failure {
        Error::Unsupported { path: self.path.clone(), what: what.into() }.into()
    }
}
