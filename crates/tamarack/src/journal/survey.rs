//! [`Survey`]: a journal file as it was found, and what its bytes hold. Reading changes nothing;
//! [`Survey::make_durable`] leaves a file that can be built upon.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Access, ByteBuffer, Env, File};

use super::{Dropped, Profile, Record, RecordScan, Segment};
use crate::error::{Error, Result};
use crate::format::checksum::Place;
use crate::format::record::{FILE_HEADER_BYTES, FileHeader, HeaderFlaw, Position, record_at};

/// What is wrong with a file that cannot have been left by a crash.
pub(super) const NO_HEADER: &str = "the file has something in it, but no whole header";

/// A journal file as it was found.
#[derive(Debug)]
pub struct Survey {
    profile: &'static Profile,
    /// Its number, as in its name.
    pub number: u64,
    /// Its path.
    pub path: PathBuf,
    /// Its length.
    pub file_bytes: u64,
    /// What it says about itself.
    pub header: std::result::Result<FileHeader, HeaderFlaw>,
    /// What is in it.
    pub scan: RecordScan,
    file: Arc<dyn File>,
    place: Place,
}

impl Survey {
    /// Reads the file with that number in `dir`, and gives its bytes too. Where the `database` is
    /// known, a header that names another is damaged; where it is not, the header says it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read. Damage is no error.
    pub fn read(
        profile: &'static Profile,
        env: &dyn Env,
        dir: &Path,
        number: u64,
        database: Option<u64>,
        access: Access,
    ) -> Result<(Self, ByteBuffer)> {
        let path = (profile.name)(number).path(dir);
        let failed = |error| Error::io(profile.reading, &path, error);
        let file = env.open(&path, access).map_err(failed)?;
        let bytes = ByteBuffer::from(file.read_all().map_err(failed)?);
        let header = header(&bytes, profile, number, database);
        let database = database.or(header.ok().map(|header| header.database)).unwrap_or_default();
        let place = Place::new(database, profile.kind, number);
        let scan = RecordScan::of(&bytes, place, profile.growth);
        Ok((Self { profile, number, path, file_bytes: bytes.len() as u64, header, scan, file, place }, bytes))
    }

    /// What the file with that number in `dir` says about itself, without reading more of it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read. Damage is no error.
    pub fn read_header(
        profile: &'static Profile,
        env: &dyn Env,
        dir: &Path,
        number: u64,
        database: Option<u64>,
    ) -> Result<std::result::Result<FileHeader, HeaderFlaw>> {
        let path = (profile.name)(number).path(dir);
        let read = || {
            let file = env.open(&path, Access::Read)?;
            let mut head = vec![0; file.len()?.min(FILE_HEADER_BYTES) as usize];
            file.read_exact_at(&mut head, 0)?;
            Ok(head)
        };
        let head = read().map_err(|error| Error::io(profile.reading, &path, error))?;
        Ok(header(&head, profile, number, database))
    }

    /// An error if another version of the format wrote it.
    ///
    /// # Errors
    /// [`Error::OldFormat`] or [`Error::Unsupported`].
    pub fn check_version(&self) -> Result<()> {
        let Err(HeaderFlaw::OtherVersion(version)) = self.header else { return Ok(()) };
        Err(Error::other_version(&self.path, version))
    }

    /// True if nothing was ever appended to it, and not even its header is whole.
    pub fn is_unborn(&self) -> bool {
        self.header.is_err() && self.scan.written_bytes <= FILE_HEADER_BYTES
    }

    /// The number of its first item, if its header is whole.
    pub fn first(&self) -> Option<u64> {
        self.header.ok().map(|header| header.first)
    }

    /// Past every position in it.
    pub fn end_position(&self) -> Position {
        let base = self.header.map_or(0, |header| header.base.0);
        Position(base + self.file_bytes.max(FILE_HEADER_BYTES))
    }

    /// All of its bytes once more; they are not kept, as a journal may be larger than memory.
    pub fn read_again(&self) -> Result<ByteBuffer> {
        self.file.read_all().map(ByteBuffer::from).map_err(|error| self.failed(self.profile.reading, error))
    }

    /// The payload of a record that the scan found, in `bytes` of the file.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a newer version wrote it; [`Error::Corruption`] if it is not there
    /// any more.
    pub fn payload<'b>(&self, bytes: &'b [u8], record: &Record) -> Result<&'b [u8]> {
        let found = record_at(bytes, record.offset, self.place).filter(|(head, _)| *head == record.head);
        let Some((head, payload)) = found else {
            return Err(Error::corruption(
                &self.path,
                record.offset,
                "a record was whole, and is not when it is read again",
            ));
        };
        if !head.is_known() {
            let kind = head.kind;
            let what = format!(
                "a record of kind {}, version {}, which this program does not know; a newer one wrote it",
                kind.number, kind.version
            );
            return Err(Error::Unsupported { path: self.path.clone(), what });
        }
        Ok(payload)
    }

    /// What is damaged in it, below `durable`, each place once.
    pub fn damage(&self, durable: Position) -> Vec<Error> {
        let Ok(header) = self.header else { return vec![self.no_header()] };
        let gaps = self.scan.gaps().into_iter().filter(|(from, _)| header.base.0 + from < durable.0);
        let damaged = |(from, to)| {
            Error::corruption(&self.path, from, format!("what stands up to byte {to} is not a whole record"))
        };
        gaps.map(damaged).collect()
    }

    /// That it has something in it that cannot have been left by a crash.
    pub fn no_header(&self) -> Error {
        Error::corruption(&self.path, 0, NO_HEADER)
    }

    /// The beginning of a header, which a crash left and which is dropped.
    pub fn torn_header(&self) -> Dropped {
        let (path, bytes) = (self.path.clone(), self.scan.written_bytes);
        let why = "the file's header is not whole, and nothing follows it".to_owned();
        Dropped { path, offset: 0, bytes, commit_groups: 0, why }
    }

    /// Cuts off what follows `end` (in bytes of the file) if `is_cut`, writes again what may only
    /// be in the page cache (all behind `durable`), and makes the file durable.
    ///
    /// What a failed sync left in the page cache, marked as clean, could be read now and be gone
    /// after the next crash: no later sync writes such pages.
    pub(super) fn make_durable(&self, end: u64, is_cut: bool, durable: Position) -> Result<()> {
        let steps = &self.profile.steps;
        if is_cut {
            self.file.set_len(end, steps.recovery_cut).map_err(|error| self.failed(steps.recovery_cut.0, error))?;
        }
        let base = self.header.expect("only files with a header are kept").base;
        let start = durable.0.saturating_sub(base.0);
        if start < end {
            let mut bytes = ByteBuffer::zeroed((end - start) as usize);
            let available = self.file_bytes.min(end).saturating_sub(start) as usize;
            let read = self.file.read_exact_at(&mut bytes[..available], start);
            read.map_err(|error| self.failed(self.profile.reading, error))?;
            let written = self.file.write_all_at(&bytes, start, steps.recovery_write);
            written.map_err(|error| self.failed(steps.recovery_write.0, error))?;
        }
        self.file.sync(steps.recovery_sync).map_err(|error| self.failed(steps.recovery_sync.0, error))
    }

    /// The file, to be continued at `end` (in bytes of the file).
    ///
    /// # Errors
    /// [`Error::Io`] if its length cannot be read.
    pub fn segment(&self, end: u64) -> Result<Segment> {
        let file_bytes = self.file.len().map_err(|error| self.failed(self.profile.reading, error))?;
        let header = self.header.expect("only files with a header are kept");
        let segment = Segment::at_end(self.profile, header, self.path.clone(), self.file.clone(), end);
        Ok(segment.with_length(file_bytes))
    }

    fn failed(&self, doing: &'static str, error: io::Error) -> Error {
        Error::io(doing, &self.path, error)
    }
}

fn header(
    bytes: &[u8],
    profile: &Profile,
    number: u64,
    database: Option<u64>,
) -> std::result::Result<FileHeader, HeaderFlaw> {
    let header = FileHeader::decode(bytes, profile.kind, number)?;
    let is_ours = database.is_none_or(|database| database == header.database);
    if is_ours { Ok(header) } else { Err(HeaderFlaw::Damaged) }
}
