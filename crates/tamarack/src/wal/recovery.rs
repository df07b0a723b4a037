//! [`recover`]: what the log says after a crash, and where it ends.
//!
//! # How the end is found
//!
//! 1. Every segment is **surveyed**: records one after another from its header on, until something is not a whole record. If anything but
//!    zeros follows, the rest is searched for whole records all the same: they do not count, but their marks do.
//! 2. **D** is the highest mark of all: some record, or the manifest, was written when the log was known to be durable up to there.
//! 3. The segments are **chained**: each must begin where the one before ends, in position and in sequence. The chain ends at
//!    the first gap or damage.
//! 4. If it ends **below D**, something that was promised is missing: an error, and nothing on storage is changed. If it ends at or
//!    above D, what follows is the torn end that a crash leaves (unsynced pages reach storage in any order). It is
//!    dropped and reported.
//! 5. Before anything is built on it, the result is **made durable**: segments past the end are removed, the torn end is cut off,
//!    what lies above D is written again, what is left is synced, and so is the directory. Otherwise a dropped record could come back after
//!    the next crash, in the middle of newer ones; and what a failed sync left in the page cache, marked as clean, could be read now and be
//!    gone then, since no later sync writes such pages.
//!
//! A segment whose header is not there, and which has only zeros behind it, was being made when the machine or the disk's
//! space ended: nothing was promised about it, since headers are durable before anything is appended. It is removed. For the same reason a segment
//! with something in it and no whole header is damage, wherever D is.
//!
//! Segments before the one that holds the first entry not in tables are garbage that a crash kept; they are removed unread, when what follows them is
//! durable: after an ingested run, the segment that makes them garbage may be one that a process has just begun and not synced when it ended.

pub(super) mod findings;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Access, Env, File};

use crate::entry::{Entry, Sequence};
use crate::error::{Error, Result};
use crate::format::meta::{EditNumber, TreeId};
use crate::format::names::FileName;
use crate::format::record::{
    Entries, HeaderFlaw, Malformed, Position, RECORD_ALIGNMENT, RecordHead, SEGMENT_HEADER_BYTES, SegmentHeader,
    record_at, segment_place,
};
use crate::step;

/// What to do about a log that does not end cleanly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tail {
    /// A torn end is an error.
    Strict,
    /// A torn end past everything known durable is dropped and reported.
    #[default]
    MayBeTorn,
}

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
    /// Up to where the manifest knows the log to be durable.
    pub durable: Position,
    /// What to do about a torn end.
    pub tail: Tail,
}

/// A log that was recovered, ready to be continued by [`crate::wal::Wal::start`].
#[derive(Debug)]
pub struct Recovered {
    /// The last sequence that is in the log or in tables.
    pub last_sequence: Sequence,
    /// The last sequence that is in the log; or the one before the first that could be.
    pub last_in_wal: Sequence,
    /// Where the log ends.
    pub end: Position,
    /// What was dropped behind that, if anything was.
    pub dropped: Option<Dropped>,
    /// The segments that are left, old to young.
    pub segments: Vec<FoundSegment>,
    /// A number that no segment has had.
    pub next_number: u64,
}

/// A segment that recovery kept.
#[derive(Clone, Debug)]
pub struct FoundSegment {
    /// What it says about itself.
    pub header: SegmentHeader,
    /// Its file.
    pub path: PathBuf,
    /// The file, open for writing if it may be.
    pub file: Arc<dyn File>,
    /// Where its records end, in bytes of the file.
    pub end: u64,
    /// The file's length: reserved space included.
    pub file_bytes: u64,
}

/// The end of a file, of the log or the manifest, that was dropped because nothing in it had been promised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The file.
    pub path: PathBuf,
    /// Where in the file what was kept ends.
    pub offset: u64,
    /// Bytes dropped, later segments of the log included.
    pub bytes: u64,
    /// Whole commit groups among them.
    pub commit_groups: u64,
    /// What ended it.
    pub why: String,
}

/// Reads the log back: calls `replay` for each entry after `flushed_through`, in the order of commits, and leaves a log that can be
/// continued.
///
/// # Errors
/// [`Error::Corruption`] if what was promised is missing or damaged, or the manifest has lost edits; then nothing was
/// changed. [`Error::Io`] if storage fails. [`Error::Unsupported`] for a newer format. Whatever `replay` answers.
pub fn recover(
    settings: &RecoverySettings,
    replay: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
) -> Result<Recovered> {
    carry_out(settings, Access::ReadWrite, replay)
}

/// As [`recover`], but changes nothing: a torn end is left out and told of, and stays where it is; what was read need not be durable.
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
    surveys.iter().try_for_each(|survey| survey.check_header(settings))?;
    let next_number = surveys.last().map_or(1, |survey| survey.number + 1);
    let youngest = surveys.last().map(|survey| survey.path.clone());
    let (unborn, mut surveys): (Vec<_>, Vec<_>) = surveys.into_iter().partition(Survey::is_unborn);
    let stale = drain_stale(settings.flushed_through, &mut surveys);
    let mut chain = Chain::new(settings.flushed_through, &surveys);
    chain.durable = surveys.iter().map(|survey| survey.durable).max().unwrap_or_default().max(settings.durable);
    chain.check(settings, &surveys, youngest)?;
    let (kept, past_end) = surveys.split_at(chain.segments);
    for (index, survey) in kept.iter().enumerate() {
        survey.replay(settings, chain.end_in(index, survey), replay)?;
    }
    if access == Access::ReadWrite {
        make_durable(settings, &unborn, kept, past_end, &chain)?;
        remove(settings, &stale)?;
    }
    let found = kept.iter().enumerate().map(|(index, survey)| survey.found(chain.end_in(index, survey)));
    let segments = found.collect::<Result<_>>()?;
    Ok(Recovered {
        last_sequence: chain.last_sequence,
        last_in_wal: chain.last_in_wal,
        end: chain.end,
        dropped: chain.dropped,
        segments,
        next_number,
    })
}

/// What one segment holds.
#[derive(Debug)]
struct Survey {
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    file_bytes: u64,
    /// Where the zeros begin that end it: what was reserved and not written.
    written_bytes: u64,
    header: std::result::Result<SegmentHeader, HeaderFlaw>,
    /// The whole records that follow each other from the header on, with their offsets.
    records: Vec<(u64, RecordHead)>,
    /// Where these end.
    end: u64,
    /// True if anything but zeros follows.
    dirty: bool,
    /// True if nothing but zeros follows the place of the header.
    empty: bool,
    /// Whole records found behind the end, with their offsets.
    strays: Vec<(u64, RecordHead)>,
    /// The highest mark of all records, strays included.
    durable: Position,
}

/// Surveys all segments, in the order of their numbers.
fn survey_all(settings: &RecoverySettings, access: Access) -> Result<Vec<Survey>> {
    let numbers = numbers(settings.env.as_ref(), &settings.dir)?;
    numbers.into_iter().map(|number| Survey::of(settings, access, number)).collect()
}

/// The numbers of all segments, in order.
fn numbers(env: &dyn Env, dir: &Path) -> Result<Vec<u64>> {
    let names = env.list(dir).map_err(|error| Error::io("log: list directory", dir, error))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| FileName::parse(name.to_str()?)?.wal()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

impl Survey {
    fn of(settings: &RecoverySettings, access: Access, number: u64) -> Result<Self> {
        let path = FileName::Wal(number).path(&settings.dir);
        let io_error = |error| Error::io("log: read segment", &path, error);
        let file = settings.env.open(&path, access).map_err(io_error)?;
        let bytes = read_all(file.as_ref()).map_err(io_error)?;
        let header = SegmentHeader::decode(&bytes, settings.database, number);
        let written_bytes = written(&bytes).len() as u64;
        let mut survey = Self {
            number,
            path,
            file,
            file_bytes: bytes.len() as u64,
            written_bytes,
            header,
            records: Vec::new(),
            end: SEGMENT_HEADER_BYTES,
            dirty: false,
            empty: written_bytes <= SEGMENT_HEADER_BYTES,
            strays: Vec::new(),
            durable: Position(0),
        };
        survey.scan(settings.database, &bytes);
        Ok(survey)
    }

    /// An error if the segment has another format version, or was made after an edit that the
    /// manifest does not have.
    fn check_header(&self, settings: &RecoverySettings) -> Result<()> {
        match self.header {
            Err(HeaderFlaw::OtherVersion(version)) => Err(Error::other_version(&self.path, version)),
            Ok(SegmentHeader { created_after, .. }) if created_after > settings.last_edit => {
                let what = format!(
                    "this segment was made after edit {}, but the manifest ends with edit {}: the manifest has lost edits",
                    created_after.0, settings.last_edit.0
                );
                Err(Error::corruption(&self.path, 0, what))
            }
            _ => Ok(()),
        }
    }

    fn scan(&mut self, database: u64, bytes: &[u8]) {
        let place = segment_place(database, self.number);
        while let Some((head, _)) = record_at(bytes, self.end, place) {
            self.records.push((self.end, head));
            self.durable = self.durable.max(head.durable);
            self.end += head.stride();
        }
        // The file may end within the last record's padding.
        self.dirty = self.written_bytes > self.end;
        if !self.dirty {
            return;
        }
        let mut offset = self.end + RECORD_ALIGNMENT;
        while offset < bytes.len() as u64 {
            match record_at(bytes, offset, place) {
                Some((head, _)) => {
                    self.strays.push((offset, head));
                    self.durable = self.durable.max(head.durable);
                    offset += head.stride();
                }
                None => offset += RECORD_ALIGNMENT,
            }
        }
    }

    /// Calls `replay` for the entries of the records before `end`.
    fn replay(
        &self,
        settings: &RecoverySettings,
        end: u64,
        replay: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.records.last().is_none_or(|(_, head)| head.last() <= settings.flushed_through) {
            return Ok(());
        }
        let bytes = read_all(self.file.as_ref()).map_err(|error| Error::io("log: read segment", &self.path, error))?;
        let place = segment_place(settings.database, self.number);
        for &(offset, head) in self.records.iter().take_while(|(offset, _)| *offset < end) {
            let Some((again, body)) = record_at(&bytes, offset, place).filter(|(again, _)| *again == head) else {
                return Err(Error::corruption(
                    &self.path,
                    offset,
                    "a record was whole, and is not when it is read again",
                ));
            };
            let mut entries = 0;
            for entry in Entries::new(body, again.first) {
                let (tree, entry) = entry.map_err(|malformed| self.malformed(offset, malformed))?;
                if entry.sequence > settings.flushed_through {
                    replay(tree, entry)?;
                }
                entries += 1;
            }
            if entries != head.entries {
                let what = format!("a record holds {entries} entries, but says {}", head.entries);
                return Err(Error::corruption(&self.path, offset, what));
            }
        }
        Ok(())
    }

    fn malformed(&self, offset: u64, malformed: Malformed) -> Error {
        match malformed {
            Malformed::Cut => {
                Error::corruption(&self.path, offset, "a record whose checksum is right does not hold entries")
            }
            Malformed::UnknownKind(kind) => Error::Unsupported {
                path: self.path.clone(),
                what: format!("an entry of kind {kind}, which this program does not know; a newer one wrote it"),
            },
        }
    }

    fn found(&self, end: u64) -> Result<FoundSegment> {
        let file_bytes = self.file.len().map_err(|error| Error::io("log: file length", &self.path, error))?;
        let header = self.header.expect("only segments with a header are kept");
        Ok(FoundSegment { header, path: self.path.clone(), file: self.file.clone(), end, file_bytes })
    }

    /// Writes the bytes between `durable` and `end` (an offset of the file) again.
    fn write_again(&self, durable: Position, end: u64) -> Result<()> {
        let base = self.header.expect("only segments with a header are kept").base;
        let start = durable.0.saturating_sub(base.0);
        if start >= end {
            return Ok(());
        }
        let mut bytes = vec![0; (end - start) as usize];
        let available = self.file_bytes.min(end).saturating_sub(start) as usize;
        let read = self.file.read_exact_at(&mut bytes[..available], start);
        read.map_err(|error| Error::io("log: read segment", &self.path, error))?;
        let written = self.file.write_all_at(&bytes, start, step::LOG_RECOVERY_WRITE);
        written.map_err(|error| Error::io(step::LOG_RECOVERY_WRITE.0, &self.path, error))
    }

    /// The sequence of its first entry, if its header is there.
    fn first_sequence(&self) -> Option<Sequence> {
        self.header.ok().map(|header| header.first_sequence)
    }

    /// True if nothing was ever appended to it.
    fn is_unborn(&self) -> bool {
        self.header.is_err() && self.empty
    }
}

/// Takes off the front the segments whose entries are all in tables.
fn drain_stale(flushed_through: Sequence, surveys: &mut Vec<Survey>) -> Vec<Survey> {
    let begins_in_time = |survey: &Survey| survey.first_sequence().is_some_and(|first| first <= flushed_through.next());
    let first_needed = surveys.iter().rposition(begins_in_time).unwrap_or(0);
    surveys.drain(..first_needed).collect()
}

/// What is wrong with a segment that cannot have been left by a crash.
const NO_HEADER: &str = "the segment has something in it, but no whole header";

/// The segments and records that follow each other without gap or damage.
struct Chain {
    /// How many segments it has.
    segments: usize,
    /// Where it ends in the log.
    end: Position,
    /// Where it ends in its last segment.
    end_offset: u64,
    /// Its last sequence, or what was flushed if that is more.
    last_sequence: Sequence,
    /// Its last sequence.
    last_in_wal: Sequence,
    /// What ended it, if not simply the end of what was written.
    dropped: Option<Dropped>,
    /// D: up to where the log is known to have been durable.
    durable: Position,
}

impl Chain {
    fn new(flushed_through: Sequence, surveys: &[Survey]) -> Self {
        let mut chain = Self {
            segments: 0,
            end: Position(0),
            end_offset: 0,
            last_sequence: flushed_through,
            last_in_wal: flushed_through,
            dropped: None,
            durable: Position(0),
        };
        let mut next = None;
        for survey in surveys {
            let why = match survey.header {
                Err(_) => Some(NO_HEADER),
                Ok(header)
                    if chain.segments > 0 && (header.base != chain.end || Some(header.first_sequence) != next) =>
                {
                    Some("this segment does not begin where the one before ends, or a segment between them is gone")
                }
                Ok(header) if chain.segments == 0 && header.first_sequence > flushed_through.next() => {
                    Some("the log begins after the first entry that is needed; an older segment is gone")
                }
                Ok(_) => None,
            };
            if let Some(why) = why {
                chain.drop_from(survey, 0, why);
                break;
            }
            let header = survey.header.expect("just seen");
            chain.segments += 1;
            let mut expected = *next.get_or_insert(header.first_sequence);
            chain.end_offset = SEGMENT_HEADER_BYTES;
            let mut in_order = true;
            for (offset, head) in &survey.records {
                in_order = head.first == expected;
                if !in_order {
                    break;
                }
                expected = head.last().next();
                chain.end_offset = offset + head.stride();
            }
            next = Some(expected);
            chain.last_in_wal = Sequence(expected.0 - 1);
            chain.last_sequence = chain.last_sequence.max(chain.last_in_wal);
            chain.end = Position(header.base.0 + chain.end_offset);
            if !in_order {
                chain.drop_from(survey, chain.end_offset, "a record does not follow the one before");
                break;
            }
            if survey.dirty {
                chain.drop_from(survey, chain.end_offset, "what stands here is not a whole record");
                break;
            }
        }
        chain.count_dropped(surveys);
        chain
    }

    fn drop_from(&mut self, survey: &Survey, offset: u64, why: &str) {
        self.dropped =
            Some(Dropped { path: survey.path.clone(), offset, bytes: 0, commit_groups: 0, why: why.to_owned() });
    }

    /// Adds up what was dropped, from where the chain ended to the end of all segments.
    fn count_dropped(&mut self, surveys: &[Survey]) {
        let Some(dropped) = &mut self.dropped else { return };
        let broken = surveys.iter().position(|survey| survey.path == dropped.path).expect("it is one of them");
        let in_broken = surveys[broken].records.iter().filter(|(offset, _)| *offset >= dropped.offset).count() as u64;
        let later = &surveys[broken + 1..];
        dropped.bytes = surveys[broken].written_bytes.saturating_sub(dropped.offset)
            + later.iter().map(|survey| survey.written_bytes).sum::<u64>();
        dropped.commit_groups = in_broken
            + surveys[broken].strays.len() as u64
            + later.iter().map(|survey| (survey.records.len() + survey.strays.len()) as u64).sum::<u64>();
    }

    /// Where the chain ends in one of its segments.
    fn end_in(&self, index: usize, survey: &Survey) -> u64 {
        if index + 1 == self.segments { self.end_offset } else { survey.end }
    }

    /// An error if something that was promised is not in the chain.
    fn check(&self, settings: &RecoverySettings, surveys: &[Survey], youngest: Option<PathBuf>) -> Result<()> {
        let durable = self.durable;
        let lost = |offset, what: String| {
            let path = self.dropped.as_ref().map(|dropped| dropped.path.clone()).or(youngest);
            Err(Error::corruption(&path.unwrap_or_else(|| FileName::Wal(1).path(&settings.dir)), offset, what))
        };
        if self.end < durable {
            let why = self.dropped.as_ref().map_or("the log, or what is left of it, ends", |dropped| &dropped.why);
            let offset = self.dropped.as_ref().map_or(self.end_offset, |dropped| dropped.offset);
            return lost(
                offset,
                format!("{why}, at log position {}; but the log was durable up to position {}", self.end.0, durable.0),
            );
        }
        // A segment's header was durable before anything stood in it; and the first that is needed was promised by a table or by a
        // segment before it. So neither can be a torn end.
        if let Some(broken) = surveys.get(self.segments)
            && (broken.header.is_err() || self.segments == 0)
        {
            let why = self.dropped.as_ref().filter(|_| broken.header.is_ok()).map_or(NO_HEADER, |dropped| &dropped.why);
            return Err(Error::corruption(&broken.path, 0, why));
        }
        if let (Tail::Strict, Some(dropped)) = (settings.tail, &self.dropped) {
            return lost(
                dropped.offset,
                format!("{}; opening with a torn end allowed would drop the rest", dropped.why),
            );
        }
        Ok(())
    }
}

/// Removes what is not part of the log, cuts off the torn end, writes again what may only be in the page cache, and syncs the rest and the
/// directory.
fn make_durable(
    settings: &RecoverySettings,
    unborn: &[Survey],
    kept: &[Survey],
    past_end: &[Survey],
    chain: &Chain,
) -> Result<()> {
    let env = settings.env.as_ref();
    remove(settings, past_end.iter().rev().chain(unborn))?;
    if let Some(last) = kept.last()
        && (last.dirty || last.end > chain.end_offset)
    {
        let cut = last.file.set_len(chain.end_offset, step::LOG_RECOVERY_CUT);
        cut.map_err(|error| Error::io(step::LOG_RECOVERY_CUT.0, &last.path, error))?;
    }
    for (index, survey) in kept.iter().enumerate() {
        survey.write_again(chain.durable, chain.end_in(index, survey))?;
        let synced = survey.file.sync(step::LOG_RECOVERY_SYNC);
        synced.map_err(|error| Error::io(step::LOG_RECOVERY_SYNC.0, &survey.path, error))?;
    }
    let dir: &Path = &settings.dir;
    env.sync_dir(dir, step::LOG_RECOVERY_SYNC_DIRECTORY)
        .map_err(|error| Error::io(step::LOG_RECOVERY_SYNC_DIRECTORY.0, dir, error))
}

/// Removes segments.
fn remove<'a>(settings: &RecoverySettings, segments: impl IntoIterator<Item = &'a Survey>) -> Result<()> {
    segments.into_iter().try_for_each(|survey| {
        let removed = settings.env.remove(&survey.path, step::LOG_RECOVERY_REMOVE);
        removed.map_err(|error| Error::io(step::LOG_RECOVERY_REMOVE.0, &survey.path, error))
    })
}

/// Bytes up to the last that is not zero. A segment is as long as it may get from its first day on, so most of what is read is zeros: they are compared in pieces.
fn written(mut bytes: &[u8]) -> &[u8] {
    const ZEROS: [u8; 1024] = [0; 1024];
    while let Some((rest, piece)) = bytes.split_last_chunk()
        && *piece == ZEROS
    {
        bytes = rest;
    }
    &bytes[..bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
}

fn read_all(file: &dyn File) -> io::Result<Vec<u8>> {
    let length = file.len()?;
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::written;

    /// The last byte that is not zero is found wherever it stands.
    #[test]
    fn zeros_at_the_end_are_passed_over() {
        for length in [0, 1, 1023, 1024, 1025, 5000] {
            let mut bytes = vec![0; length];
            assert_eq!(written(&bytes), b"");
            for last in [0, 1, 975, 1023, 1024, 1025, 2047, 2048, 4999].into_iter().filter(|last| *last < length) {
                bytes[last] = 7;
                assert_eq!(written(&bytes).len(), last + 1, "of {length}");
            }
        }
    }
}
