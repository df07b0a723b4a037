//! [`recover`]: replay of the WAL after a crash.
//!
//! The segments are a [journal](crate::journal), so where the WAL ends, and whether what follows is
//! damage or a torn end, is decided there ([`Chain`]). What the WAL adds:
//!
//! * A segment whose header is not there, and which has only zeros behind it, was being made when
//!   the machine or the disk's space ended: nothing was promised about it, since headers are
//!   durable before anything is appended. It is removed. For the same reason a segment with
//!   something in it and no whole header is damage, wherever D is.
//! * Segments before the one that holds the first entry not in tables are garbage that a crash
//!   kept; they are surveyed like all others, not replayed, and removed when what follows them is
//!   durable: after an ingested run, the segment that makes them garbage may be one that a process
//!   has just begun and not synced when it ended.
//! * Segments past the end are removed, the youngest first, before the torn end is cut off.
//! * A segment that was made after a later edit than the manifest has shows that the manifest has
//!   lost edits.

pub(super) mod findings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Access, Env};

use super::PROFILE;
use crate::directory::Listing;
use crate::entry::{Entry, Sequence};
use crate::error::{Error, Result};
use crate::format::group::{Entries, Malformed};
use crate::format::meta::{EditNumber, TreeId};
use crate::format::names::FileName;
use crate::journal::{Chain, Dropped, Position, Record, Segment, Survey, Tail};
use crate::step;

/// What recovery needs to know.
#[derive(Clone, Debug)]
pub struct RecoverySettings {
    /// Storage.
    pub env: Arc<dyn Env>,
    /// The database's directory.
    pub dir: PathBuf,
    /// The database's id.
    pub database: u64,
    /// Everything up to it is in tables.
    pub flushed_through: Sequence,
    /// The manifest's last edit.
    pub last_edit: EditNumber,
    /// Up to where the manifest knows the WAL to be durable.
    pub durable: Position,
    /// What to do about a torn end.
    pub tail: Tail,
}

/// A WAL that was recovered, ready to be continued by [`crate::wal::Wal::start`].
#[derive(Debug)]
pub struct Recovered {
    /// The last sequence that is in the WAL or in tables.
    pub last_sequence: Sequence,
    /// The last sequence that is in the WAL; or the one before the first that could be.
    pub last_in_wal: Sequence,
    /// Where the WAL ends.
    pub end: Position,
    /// What was dropped behind that, if anything was.
    pub dropped: Vec<Dropped>,
    /// The segments that are left, old to young.
    pub segments: Vec<Segment>,
    /// A number that no segment has had.
    pub next_number: u64,
}

/// Replays the WAL: calls `replay` for each entry after `flushed_through`, in the order of
/// commits, and leaves a WAL that can be continued.
///
/// # Errors
/// [`Error::Corruption`] if what was promised is missing or damaged, or the manifest has lost
/// edits; then nothing was changed. [`Error::Io`] if storage fails. [`Error::Unsupported`] for a
/// newer format. Whatever `replay` answers.
pub fn recover(
    settings: &RecoverySettings,
    replay: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
) -> Result<Recovered> {
    carry_out(settings, Access::ReadWrite, replay)
}

/// As [`recover`], but changes nothing: a torn end is left out and told of, and stays where it is;
/// what was read need not be durable.
///
/// # Errors
/// As [`recover`].
pub fn read(settings: &RecoverySettings, replay: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>) -> Result<Recovered> {
    carry_out(settings, Access::Read, replay)
}

fn carry_out(
    settings: &RecoverySettings,
    access: Access,
    replay: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
) -> Result<Recovered> {
    let surveys = survey_all(settings, access)?;
    surveys.iter().try_for_each(|survey| check_header(survey, settings))?;
    let next_number = surveys.last().map_or(1, |survey| survey.number + 1);
    let blamed = blamed(settings, &surveys);
    let (unborn, mut surveys): (Vec<_>, Vec<_>) = surveys.into_iter().partition(Survey::is_unborn);
    let stale = drain_stale(settings.flushed_through, &mut surveys);
    let chain = Chain::new(&surveys, settings.flushed_through.next().0, settings.durable);
    chain.check(&surveys, settings.tail, &blamed)?;
    for (survey, end) in chain.ends(&surveys) {
        replay_survey(survey, settings, end, replay)?;
    }
    if access == Access::ReadWrite {
        remove(settings, surveys[chain.files..].iter().rev().chain(&unborn))?;
        chain.make_durable(&surveys)?;
        let synced = settings.env.sync_dir(&settings.dir, step::WAL_RECOVERY_SYNC_DIRECTORY);
        synced.map_err(|error| Error::io(step::WAL_RECOVERY_SYNC_DIRECTORY.0, &settings.dir, error))?;
        remove(settings, &stale)?;
    }
    let segments = chain.ends(&surveys).map(|(survey, end)| survey.segment(end)).collect::<Result<_>>()?;
    let last_in_wal = Sequence(chain.next - 1);
    Ok(Recovered {
        last_sequence: last_in_wal.max(settings.flushed_through),
        last_in_wal,
        end: chain.end,
        dropped: dropped(&chain, &unborn),
        segments,
        next_number,
    })
}

/// Surveys all segments, in the order of their numbers.
fn survey_all(settings: &RecoverySettings, access: Access) -> Result<Vec<Survey>> {
    let RecoverySettings { env, dir, database, .. } = settings;
    let survey = |number| Survey::read(&PROFILE, env.as_ref(), dir, number, Some(*database), access);
    numbers(env.as_ref(), dir)?.into_iter().map(|number| survey(number).map(|(survey, _)| survey)).collect()
}

/// What a crash left at the end, and does not count.
fn dropped(chain: &Chain, unborn: &[Survey]) -> Vec<Dropped> {
    // A segment that was being made; one without a byte says nothing.
    let begun = unborn.iter().filter(|survey| survey.scan.written_bytes > 0);
    chain.dropped.clone().into_iter().chain(begun.map(Survey::torn_header)).collect()
}

/// The numbers of all segments, in order.
fn numbers(env: &dyn Env, dir: &Path) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = Listing::read(env, dir)?.files().filter_map(|file| file.wal()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The segment to name where something is missing and nothing is damaged: the youngest.
fn blamed(settings: &RecoverySettings, surveys: &[Survey]) -> PathBuf {
    surveys.last().map_or_else(|| FileName::Wal(1).path(&settings.dir), |survey| survey.path.clone())
}

/// An error if another version wrote the segment, or after an edit that the manifest does not have.
fn check_header(survey: &Survey, settings: &RecoverySettings) -> Result<()> {
    survey.check_version()?;
    match survey.header {
        Ok(header) if header.created_after > settings.last_edit => {
            let what = format!(
                "this segment was made after edit {}, but the manifest ends with edit {}: the manifest has lost edits",
                header.created_after.0, settings.last_edit.0
            );
            Err(Error::corruption(&survey.path, 0, what))
        }
        _ => Ok(()),
    }
}

/// Calls `replay` for the entries of the records before `end`.
fn replay_survey(
    survey: &Survey,
    settings: &RecoverySettings,
    end: u64,
    replay: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
) -> Result<()> {
    if survey.scan.records.last().is_none_or(|record| record.head.next() <= settings.flushed_through.next().0) {
        return Ok(());
    }
    let bytes = survey.read_again()?;
    for record in Chain::records(survey, end) {
        for_entries(survey, &bytes, record, &mut |tree, entry| {
            if entry.sequence > settings.flushed_through { replay(tree, entry) } else { Ok(()) }
        })?;
    }
    Ok(())
}

/// Calls `visit` for the entries of a record, in order.
///
/// # Errors
/// [`Error::Corruption`] if it does not hold what it says; [`Error::Unsupported`] for what a newer
/// version wrote; whatever `visit` answers.
fn for_entries(
    survey: &Survey,
    bytes: &[u8],
    record: &Record,
    visit: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
) -> Result<()> {
    let (offset, head) = (record.offset, &record.head);
    let mut entries = 0;
    for entry in Entries::new(survey.payload(bytes, record)?, Sequence(head.first)) {
        let (tree, entry) = entry.map_err(|malformed| match malformed {
            Malformed::Cut => {
                Error::corruption(&survey.path, offset, "a record whose checksum is right does not hold entries")
            }
            Malformed::UnknownKind(kind) => Error::Unsupported {
                path: survey.path.clone(),
                what: format!("an entry of kind {kind}, which this program does not know; a newer one wrote it"),
            },
        })?;
        visit(tree, entry)?;
        entries += 1;
    }
    if entries != head.items {
        let what = format!("a record holds {entries} entries, but says {}", head.items);
        return Err(Error::corruption(&survey.path, offset, what));
    }
    Ok(())
}

/// Takes off the front the segments whose entries are all in tables.
fn drain_stale(flushed_through: Sequence, surveys: &mut Vec<Survey>) -> Vec<Survey> {
    let begins_in_time = |survey: &Survey| survey.first().is_some_and(|first| first <= flushed_through.next().0);
    let first_needed = surveys.iter().rposition(begins_in_time).unwrap_or(0);
    surveys.drain(..first_needed).collect()
}

/// Removes segments.
fn remove<'a>(settings: &RecoverySettings, segments: impl IntoIterator<Item = &'a Survey>) -> Result<()> {
    segments.into_iter().try_for_each(|survey| {
        let removed = settings.env.remove(&survey.path, step::WAL_RECOVERY_REMOVE);
        removed.map_err(|error| Error::io(step::WAL_RECOVERY_REMOVE.0, &survey.path, error))
    })
}
