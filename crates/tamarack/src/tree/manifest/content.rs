//! [`Content`]: what a manifest file says: the version after its last edit.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use tamarack_env::{Access, ByteBuffer, Env};

use super::file::{OpenManifest, PROFILE, RESERVE_BYTES};
use crate::error::{Error, Result};
use crate::format::edit::{Change, Edit, EditError};
use crate::format::meta::TableId;
use crate::format::record::FILE_HEADER_BYTES;
use crate::journal::{Chain, Dropped, Position, Record, Survey, Tail};
use crate::tree::broken::Broken;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;

/// What is in a manifest file.
pub(super) struct Content {
    /// The file.
    pub(super) survey: Survey,
    /// Its records that follow each other.
    chain: Chain,
    /// The version after the last edit that was read.
    pub(super) version: Version,
    /// Every table that the manifest ever named.
    pub(super) named: BTreeSet<TableId>,
    bytes: ByteBuffer,
    base_end: u64,
}

impl Content {
    /// Reads a manifest that `CURRENT` names, or named, up to where it ends.
    ///
    /// # Errors
    /// [`Error::Corruption`] if its base or an edit is damaged; [`Error::OldFormat`] or
    /// [`Error::Unsupported`] if another version wrote it; [`Error::Io`]. A record that is not
    /// whole is none: see [`Content::torn_end`].
    pub(super) fn read(env: &dyn Env, dir: &Path, number: u64, files: Arc<TableFiles>, access: Access) -> Result<Self> {
        let mut content = Self::read_base(env, dir, number, files, access)?;
        content.read_edits()?;
        Ok(content)
    }

    /// As [`Content::read`], but only up to the end of the base.
    pub(super) fn read_base(
        env: &dyn Env,
        dir: &Path,
        number: u64,
        files: Arc<TableFiles>,
        access: Access,
    ) -> Result<Self> {
        let (survey, bytes) = Survey::read(&PROFILE, env, dir, number, None, access).map_err(|error| match error {
            Error::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Error::corruption(&path, 0, "the file is missing, though CURRENT names it")
            }
            other => other,
        })?;
        survey.check_version()?;
        let damaged = |offset, what: String| Error::corruption(&survey.path, offset, what);
        let header = survey.header.map_err(|_| damaged(0, "the manifest's header is damaged".to_owned()))?;
        let base = survey.scan.records.first().filter(|record| !record.head.is_mark());
        let base = base.ok_or_else(|| damaged(FILE_HEADER_BYTES, "the base is damaged".to_owned()))?;
        let edit = decode_edit(&survey, &bytes, base)?;
        let version = Version::from_base(&edit, files).map_err(|Broken(why)| damaged(FILE_HEADER_BYTES, why))?;
        if version.database() != header.database {
            return Err(damaged(FILE_HEADER_BYTES, "header and base name different databases".to_owned()));
        }
        // `CURRENT` named the file after its base was durable.
        let (base_end, named) = (base.end(), tables_named(&edit).collect());
        let chain = Chain::new(slice::from_ref(&survey), header.first, Position(base_end));
        Ok(Self { survey, chain, version, named, bytes, base_end })
    }

    /// Applies the edits that follow the base, up to the first that cannot be.
    pub(super) fn read_edits(&mut self) -> Result<()> {
        for record in Chain::records(&self.survey, self.chain.end.0).skip(1).filter(|record| !record.head.is_mark()) {
            let edit = decode_edit(&self.survey, &self.bytes, record)?;
            let applied = self.version.apply(&edit);
            let applied = applied.map_err(|Broken(why)| Error::corruption(&self.survey.path, record.offset, why))?;
            self.version = applied.version;
            self.named.extend(tables_named(&edit));
        }
        Ok(())
    }

    /// Where its records end, in bytes of the file.
    pub(super) fn end(&self) -> u64 {
        self.chain.end.0
    }

    /// What follows the last edit, if that is what a crash leaves behind; an error if something is
    /// lost.
    pub(super) fn torn_end(&self, tail: Tail) -> Result<Option<Dropped>> {
        self.chain.check(slice::from_ref(&self.survey), tail, &self.survey.path)?;
        Ok(self.chain.dropped.clone())
    }

    /// What is damaged behind the first place, and below what was durable.
    pub(super) fn later_damage(&self) -> Vec<Error> {
        let is_first = |error: &Error| matches!(error, Error::Corruption { offset, .. } if *offset == self.end());
        let mut damage = self.survey.damage(self.chain.durable);
        damage.retain(|error| !is_first(error));
        damage
    }

    /// Makes what was read durable, without the torn end.
    pub(super) fn make_durable(&self) -> Result<()> {
        self.chain.make_durable(slice::from_ref(&self.survey))
    }

    /// The version, and the file to be continued.
    pub(super) fn open(self) -> Result<(Version, OpenManifest)> {
        let segment = self.survey.segment(self.end())?.reserving(RESERVE_BYTES);
        Ok((self.version, OpenManifest { segment, base_end: self.base_end }))
    }
}

/// The tables that an edit adds.
fn tables_named(edit: &Edit) -> impl Iterator<Item = TableId> {
    edit.changes.iter().filter_map(|change| match change {
        Change::TableAdded { meta, .. } => Some(meta.id),
        _ => None,
    })
}

/// The edit that a record holds.
fn decode_edit(survey: &Survey, bytes: &[u8], record: &Record) -> Result<Edit> {
    let unsupported = |what| Error::Unsupported { path: survey.path.clone(), what };
    let edit = Edit::decode(survey.payload(bytes, record)?).map_err(|error| match error {
        EditError::Malformed(_) => Error::corruption(&survey.path, record.offset, error.to_string()),
        EditError::UnknownChange(_) | EditError::UnknownField(_) => unsupported(error.to_string()),
    })?;
    if let Some((table, what)) = edit.unserved() {
        return Err(unsupported(format!("table {} has {what}, which this version cannot read", table.0)));
    }
    if (record.head.first, record.head.items) != (edit.number.0, 1) {
        let what = format!("the record of edit {} says that it holds edit {}", edit.number.0, record.head.first);
        return Err(Error::corruption(&survey.path, record.offset, what));
    }
    Ok(edit)
}
