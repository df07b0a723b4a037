//! [`OpenManifest`]: a manifest file, open for appending: what a manifest adds to a segment of its
//! journal. Made with its base; then an edit and its mark at a time.
//!
//! Knows neither `CURRENT` nor when to roll. Tests: those of [`super`].

use std::path::Path;

use tamarack_env::{Env, Step};

use crate::error::{Error, Result};
use crate::format::checksum::FileKind;
use crate::format::edit::Edit;
use crate::format::names::FileName;
use crate::format::record::{FileHeader, RECORD_HEAD_BYTES, RecordBuffer};
use crate::journal::{Growth, Position, Profile, Segment, Steps};
use crate::step;
use crate::tree::version::Version;

/// The journal that a manifest is.
pub static PROFILE: Profile = Profile {
    kind: FileKind::Manifest,
    noun: "manifest",
    name: FileName::Manifest,
    growth: Growth::Keeps,
    reading: "manifest: read",
    steps: Steps {
        create: step::MANIFEST_CREATE,
        begin: step::MANIFEST_WRITE_BASE,
        sync_begin: step::MANIFEST_SYNC_BASE,
        reserve: step::MANIFEST_RESERVE,
        cut: step::MANIFEST_CUT_APPEND,
        sync_cut: step::MANIFEST_SYNC_CUT,
        recovery_cut: step::MANIFEST_CUT,
        recovery_write: step::MANIFEST_RECOVERY_WRITE,
        recovery_sync: step::MANIFEST_RECOVERY_SYNC,
    },
};

/// A manifest file, open for appending.
#[derive(Debug)]
pub(super) struct OpenManifest {
    /// The file.
    pub(super) segment: Segment,
    /// Where the base ends.
    pub(super) base_end: u64,
}

/// Space for edits is reserved in pieces of so many bytes.
pub(super) const RESERVE_BYTES: u64 = 64 << 10;

/// Space for the mark after an edit is reserved together with that of the edit.
const MARK_BYTES: u64 = RECORD_HEAD_BYTES as u64;

impl OpenManifest {
    /// Makes a manifest whose base is `version`; when it returns, the file and its name are
    /// durable. [`Error::Io`] if what was made can be thrown away.
    pub(super) fn create(env: &dyn Env, dir: &Path, number: u64, version: &Version) -> Result<Self> {
        let header = FileHeader {
            kind: PROFILE.kind,
            database: version.database(),
            number,
            base: Position(0),
            first: version.edit_number().0,
            created_after: version.edit_number(),
        };
        // One to which nothing is ever appended, such as a checkpoint's, takes the space of its
        // base.
        let mut segment = Segment::create(&PROFILE, env, dir, header, 0)?;
        segment.begin(Some(&version.state_edit().encode()))?;
        sync_dir(env, dir, step::MANIFEST_SYNC_DIRECTORY).map_err(Error::ends_writing)?;
        let base_end = segment.end();
        Ok(Self { segment: segment.reserving(RESERVE_BYTES), base_end })
    }

    /// Its number, as in its name.
    pub(super) fn number(&self) -> u64 {
        self.segment.header().number
    }

    /// Appends an edit and makes it durable. [`Error::Io`] if nothing was appended,
    /// [`Error::Stopped`] if that is unknown.
    pub(super) fn append(&mut self, edit: &Edit) -> Result<()> {
        let mut record = RecordBuffer::with_payload(&edit.encode());
        let durable = Position(self.segment.synced());
        self.segment.append(&mut record, 1, edit.number.0, durable, step::MANIFEST_APPEND, MARK_BYTES)?;
        let end = self.segment.sync(step::MANIFEST_SYNC)?;
        self.segment.note_synced(end);
        Ok(())
    }

    /// Appends the mark that says that everything before it is durable; `next` is the number of the
    /// next edit.
    pub(super) fn append_mark(&mut self, next: u64) -> Result<()> {
        let durable = Position(self.segment.synced());
        self.segment.append(&mut RecordBuffer::new(), 0, next, durable, step::MANIFEST_MARK, 0)
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(env: &dyn Env, dir: &Path, step: Step) -> Result<()> {
    env.sync_dir(dir, step).map_err(|source| Error::io(step.0, dir, source))
}
