//! [`Segment`]: a file of a journal, open for appending.
//!
//! ```text
//! header │ record │ record │ record │ (what a failed append left) │ reserved space
//!                 ▲ synced          ▲ end                                          ▲ reserved
//! ```
//!
//! An error of kind [`Error::Io`] means that nothing was appended and the journal can go on;
//! [`Error::Stopped`] that it cannot. Whoever owns the segment remembers that
//! ([`Ending`](super::Ending)).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{ByteBuffer, Env, File, Step};

use super::{Profile, RecordScan};
use crate::error::{Error, Result};
use crate::format::checksum::Place;
use crate::format::record::{FILE_HEADER_BYTES, FileHeader, Position, RECORD_ALIGNMENT, RecordBuffer};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Segment {
    profile: &'static Profile,
    header: FileHeader,
    place: Place,
    /// Shared, as every sync clones the segments that it makes durable.
    path: Arc<Path>,
    file: Arc<dyn File>,
    /// Space is reserved in pieces of this many bytes.
    reserve_bytes: u64,
    /// Where its records end.
    end: u64,
    /// Up to where space is reserved.
    reserved: u64,
    /// Up to where it is durable.
    synced: u64,
    /// What an append left that found no space has still to be cut off.
    uncut: bool,
}

impl Segment {
    /// Makes the file with that header, in `dir`. Nothing is in it before [`Segment::begin`].
    pub fn create(
        profile: &'static Profile,
        env: &dyn Env,
        dir: &Path,
        header: FileHeader,
        reserve_bytes: u64,
    ) -> Result<Self> {
        let path = (profile.name)(header.number).path(dir);
        let create = profile.steps.create;
        let file = env.create(&path, create).map_err(|error| Error::io(create.0, &path, error))?;
        Ok(Self::at_end(profile, header, path, file, 0).reserving(reserve_bytes))
    }

    /// A file that was found, which ends at `end` and is durable up to there.
    pub(super) fn at_end(
        profile: &'static Profile,
        header: FileHeader,
        path: PathBuf,
        file: Arc<dyn File>,
        end: u64,
    ) -> Self {
        let (place, reserved, path) = (header.place(), end, path.into());
        Self { profile, header, place, path, file, reserve_bytes: 0, end, reserved, synced: end, uncut: false }
    }

    /// The same, where the file has that length already.
    pub(super) fn with_length(self, file_bytes: u64) -> Self {
        Self { reserved: self.end.max(file_bytes), ..self }
    }

    /// The same, with space reserved in pieces of so many bytes.
    #[must_use]
    pub fn reserving(self, reserve_bytes: u64) -> Self {
        Self { reserve_bytes, ..self }
    }

    /// Writes the header, and perhaps a first record of one item with that payload, and makes them
    /// durable. The file's name is not yet. [`Error::Io`] if the file can be thrown away, as
    /// nothing has been promised in it.
    pub fn begin(&mut self, first: Option<&[u8]>) -> Result<()> {
        let steps = &self.profile.steps;
        let mut bytes = self.header.encode().to_vec();
        if let Some(payload) = first {
            let mut record = RecordBuffer::with_payload(payload);
            let record = record.finish(self.place, FILE_HEADER_BYTES, 1, self.header.first, Position(0));
            bytes.extend(record.unwrap_or_else(|| panic!("a first record of {} bytes", payload.len())));
        }
        let end = bytes.len() as u64;
        self.reserve(end)?;
        self.file.write_all_at(&bytes, 0, steps.begin).map_err(|error| self.failed(steps.begin, error))?;
        let synced = self.file.sync(steps.sync_begin).map_err(|error| self.failed(steps.sync_begin, error));
        synced.map_err(Error::of_sync_of_new_file)?;
        (self.end, self.synced) = (end, end);
        Ok(())
    }

    /// What it says about itself.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Its file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where its records end, in bytes of the file.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Where its records end, in the journal.
    pub fn end_position(&self) -> Position {
        Position(self.header.base.0 + self.end)
    }

    /// Up to where it is known to be durable, in bytes of the file.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Appends a record of `items` items, numbered from `first`, with `durable` as its mark. Space
    /// for `ahead` more bytes is reserved with it.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing was appended, and the journal can go on; [`Error::Stopped`] if it
    /// cannot; [`Error::InvalidArgument`] if the record is too large.
    pub fn append(
        &mut self,
        record: &mut RecordBuffer,
        items: u32,
        first: u64,
        durable: Position,
        step: Step,
        ahead: u64,
    ) -> Result<()> {
        self.cut_rest()?;
        let Some(record) = record.finish(self.place, self.end, items, first, durable) else {
            return Err(Error::InvalidArgument("a commit of 4 GiB or more: split it".to_owned()));
        };
        let end = self.end + record.len() as u64;
        self.reserve(end + ahead)?;
        if let Err(error) = self.file.write_all_at(record, self.end, step) {
            return Err(self.cut_failed(self.failed(step, error)));
        }
        self.end = end;
        Ok(())
    }

    /// Makes what was appended durable; gives up to where. That is to be noted with
    /// [`Segment::note_synced`]: the sync may go on while more is appended.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it failed: what is durable is unknown from then on.
    pub fn sync(&self, step: Step) -> Result<u64> {
        self.file.sync(step).map_err(|error| self.failed(step, error).ends_writing())?;
        Ok(self.end)
    }

    /// It is durable up to `end`, in bytes of the file.
    pub fn note_synced(&mut self, end: u64) {
        self.synced = self.synced.max(end);
    }

    /// Gives reserved space back. Not synced: whether reserved zeros follow the last record or the
    /// file ends there says the same.
    pub fn trim(&self, step: Step) -> Result<()> {
        self.file.set_len(self.end, step).map_err(|error| self.failed(step, error))
    }

    /// Cuts off what an append that found no space left, if that has not been done. [`Error::Io`]
    /// if that has to wait still.
    pub fn cut_rest(&mut self) -> Result<()> {
        if self.uncut { self.cut() } else { Ok(()) }
    }

    /// Reads it again up to `end`, which must be where a record ends, and compares it with what was
    /// written; its items must come after `next`, if that is given. Gives the first damage, or the
    /// number of the next item.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read. Damage is part of what it gives.
    pub fn verify(&self, end: u64, next: Option<u64>) -> Result<std::result::Result<u64, Error>> {
        let damaged = |offset, what: &str| Ok(Err(Error::corruption(&self.path, offset, what)));
        let failed = |error| Error::io(self.profile.reading, &self.path, error);
        let length = self.file.len().map_err(failed)?;
        // A file that was not made longer since it was recovered may end within the last record's
        // padding.
        if length + RECORD_ALIGNMENT <= end {
            return damaged(length, "the file ends before what was durable");
        }
        let mut bytes = ByteBuffer::zeroed(usize::try_from(end).map_err(io::Error::other).map_err(failed)?);
        self.file.read_exact_at(&mut bytes[..end.min(length) as usize], 0).map_err(failed)?;
        if FileHeader::decode(&bytes, self.profile.kind, self.header.number) != Ok(self.header) {
            return damaged(0, "the file does not have the header that was written");
        }
        let mut expected = self.header.first;
        // Items between may have been skipped.
        if next.is_some_and(|next| expected < next) {
            return damaged(0, "the file begins with an item that the one before has");
        }
        let scan = RecordScan::of(&bytes, self.place, self.profile.growth);
        for record in &scan.records {
            if record.head.first != expected {
                return damaged(record.offset, "a record does not follow the one before");
            }
            expected = record.head.next();
        }
        if scan.end < end {
            return damaged(scan.end, "what stands here is not the record that was written");
        }
        Ok(Ok(expected))
    }

    /// Reserves space up to `end` and some more, or at least up to `end` if there is no space for
    /// more.
    fn reserve(&mut self, end: u64) -> Result<()> {
        if end <= self.reserved {
            return Ok(());
        }
        let step = self.profile.steps.reserve;
        let take = |length| match self.profile.growth {
            super::Growth::Extends => self.file.allocate(length, step),
            super::Growth::Keeps => self.file.reserve(length, step),
        };
        let ample = end.max(self.reserved + self.reserve_bytes);
        let reserved = match take(ample) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => take(end).map(|()| end),
            other => other.map(|()| ample),
        };
        self.reserved = reserved.map_err(|error| self.failed(step, error))?;
        Ok(())
    }

    /// Cuts off what an append left that failed with `error`; gives what to tell the caller.
    fn cut_failed(&mut self, error: Error) -> Error {
        self.uncut = true;
        match self.cut() {
            Ok(()) => error,
            // What found no space is not whole: should a crash bring it back, recovery drops it. So
            // the cut can wait for the next append.
            Err(cut @ Error::Io { .. }) if error.is_storage_full() => {
                tracing::warn!(%cut, "an append found no space, and could not be cut off yet");
                error
            }
            Err(cut) => {
                tracing::error!(%error, "an append failed, and cutting it off failed as well");
                cut.ends_writing()
            }
        }
    }

    /// Takes back what a failed append may have left, for good: no crash may bring back what the
    /// caller is told was not written. [`Error::Stopped`] if the sync failed: the file holds what
    /// was promised.
    fn cut(&mut self) -> Result<()> {
        let steps = &self.profile.steps;
        self.reserved = self.end;
        self.file.set_len(self.end, steps.cut).map_err(|error| self.failed(steps.cut, error))?;
        self.uncut = false;
        self.sync(steps.sync_cut).map(drop)
    }

    fn failed(&self, step: Step, error: io::Error) -> Error {
        Error::io(step.0, &self.path, error)
    }
}
