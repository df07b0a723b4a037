//! [`Findings`]: what can be read of a log that may be damaged, and all that is wrong with it. Changes nothing.
//!
//! Recovery takes the records up to the first damage, and refuses a log that ends too early. Who verifies wants to know all that is damaged, and who repairs
//! wants every record that is whole, wherever it stands.

use std::path::{Path, PathBuf};

use tamarack_env::{Access, Env};

use super::{Chain, RecoverySettings, Survey, drain_stale, numbers, read_all, survey_all};
use crate::entry::{Entry, Sequence};
use crate::error::{Error, Result};
use crate::format::meta::{EditNumber, TreeId};
use crate::format::names::FileName;
use crate::format::record::{
    Entries, Malformed, Position, RecordHead, SEGMENT_HEADER_BYTES, SegmentHeader, record_at, segment_place,
};
use crate::wal::Dropped;

/// What is left of a log. See the module's documentation.
#[derive(Debug)]
pub struct Findings {
    settings: RecoverySettings,
    surveys: Vec<Survey>,
    /// What is wrong, below what was durable.
    pub problems: Vec<Error>,
    /// The end that a crash left torn: nothing in it was promised.
    pub torn: Option<Dropped>,
    /// True if opening takes the log as it is.
    pub is_sound: bool,
    /// The segments that are needed, old to young.
    pub segments: Vec<Segment>,
    /// Entries of the log that are not in tables, as recovery would replay them.
    pub entries: u64,
    /// Past every position that some segment has.
    pub end: Position,
    /// A number that no segment has had.
    pub next_number: u64,
}

/// A segment as it was found.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its file.
    pub path: PathBuf,
    /// The file's length.
    pub bytes: u64,
    /// What it says about itself; `None` if that is damaged.
    pub header: Option<SegmentHeader>,
    /// The whole records in it, in the order in which they stand there.
    pub records: Vec<Record>,
}

/// The last edit of the manifest that some segment names as durable when it was made.
///
/// # Errors
/// [`Error::Io`] if storage fails.
pub fn last_edit_named(env: &dyn Env, dir: &Path, database: u64) -> Result<EditNumber> {
    let mut last = EditNumber::default();
    for number in numbers(env, dir)? {
        let path = FileName::Wal(number).path(dir);
        let read = || {
            let file = env.open(&path, Access::Read)?;
            let mut head = vec![0; file.len()?.min(SEGMENT_HEADER_BYTES) as usize];
            file.read_exact_at(&mut head, 0)?;
            Ok(head)
        };
        let head = read().map_err(|error| Error::io("log: read segment", &path, error))?;
        last = last.max(SegmentHeader::decode(&head, database, number).map_or(last, |header| header.created_after));
    }
    Ok(last)
}

/// A whole record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where it begins in the file.
    pub offset: u64,
    /// What it says about its body.
    pub head: RecordHead,
}

impl Findings {
    /// Reads all segments that the settings say are needed. If the settings come from a manifest that `is_incomplete`, nothing is missed before the first segment that is
    /// there, and a segment may be younger than the last edit.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails; [`Error::Unsupported`] if a newer version wrote a segment. Damage is no error.
    pub fn of(settings: RecoverySettings, is_incomplete: bool) -> Result<Self> {
        let mut problems = Vec::new();
        let surveys = survey_all(&settings, Access::Read)?;
        for survey in &surveys {
            note(&mut problems, survey.check_header(&settings))?;
        }
        if is_incomplete {
            problems.clear();
        }
        let next_number = surveys.last().map_or(1, |survey| survey.number.saturating_add(1));
        let youngest = surveys.last().map(|survey| survey.path.clone());
        let (unborn, mut surveys): (Vec<_>, Vec<_>) = surveys.into_iter().partition(Survey::is_unborn);
        drain_stale(settings.flushed_through, &mut surveys);
        let first = surveys.first().filter(|_| is_incomplete).and_then(Survey::first_sequence);
        let flushed_through =
            first.map_or(settings.flushed_through, |first| settings.flushed_through.max(Sequence(first.0 - 1)));
        let mut chain = Chain::new(flushed_through, &surveys);
        chain.durable = surveys.iter().map(|survey| survey.durable).max().unwrap_or_default().max(settings.durable);
        let mut sound = note(&mut problems, chain.check(&settings, &surveys, youngest))?;
        let mut entries = 0;
        for (index, survey) in surveys.iter().take(chain.segments).enumerate() {
            let count = &mut |_: TreeId, _: Entry<'_>| {
                entries += 1;
                Ok(())
            };
            sound &= note(&mut problems, survey.replay(&settings, chain.end_in(index, survey), count))?;
        }
        for survey in &surveys {
            let known: Vec<(PathBuf, u64)> = problems.iter().filter_map(place_of).collect();
            let later = survey.damage(chain.durable).into_iter();
            problems.extend(later.filter(|error| place_of(error).is_none_or(|place| !known.contains(&place))));
        }
        // One that was being made when a crash came is no damage, unless something is missing.
        let begun = unborn.iter().filter(|survey| !sound && survey.written_bytes > 0);
        problems.extend(begun.map(|survey| Error::corruption(&survey.path, 0, super::NO_HEADER)));
        let end = surveys.iter().map(Survey::end_position).max().unwrap_or_default().max(chain.durable).max(chain.end);
        let segments = surveys.iter().map(Survey::segment).collect();
        let torn = chain.dropped.filter(|_| sound);
        let is_sound = sound && problems.is_empty();
        Ok(Self { settings, surveys, problems, torn, is_sound, segments, entries, end, next_number })
    }

    /// The bytes of all needed segments.
    pub fn bytes(&self) -> u64 {
        self.surveys.iter().map(|survey| survey.file_bytes).sum()
    }

    /// Calls `visit` for each entry of some records of the segment with that index. Gives those that are whole but hold no entries, which `visit` is not
    /// shown.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for entries of a kind that is not known; [`Error::Io`]; whatever `visit` answers.
    pub fn visit(
        &self,
        segment: usize,
        records: &[Record],
        visit: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
    ) -> Result<Vec<Error>> {
        let survey = &self.surveys[segment];
        let read = read_all(survey.file.as_ref());
        let bytes = read.map_err(|error| Error::io("log: read segment", &survey.path, error))?;
        let place = segment_place(self.settings.database, survey.number);
        let mut malformed = Vec::new();
        for record in records {
            let body = record_at(&bytes, record.offset, place).filter(|(head, _)| *head == record.head);
            let body = body.ok_or(Malformed::Cut).map(|(_, body)| body);
            let entries = || Entries::new(body?, record.head.first).collect::<std::result::Result<Vec<_>, _>>();
            match entries() {
                Ok(entries) if entries.len() as u64 == u64::from(record.head.entries) => {
                    entries.into_iter().try_for_each(|(tree, entry)| visit(tree, entry))?;
                }
                Ok(_) => malformed.push(survey.malformed(record.offset, Malformed::Cut)),
                Err(flaw) => match survey.malformed(record.offset, flaw) {
                    damaged @ Error::Corruption { .. } => malformed.push(damaged),
                    other => return Err(other),
                },
            }
        }
        Ok(malformed)
    }
}

impl Survey {
    /// What is damaged in it, below `durable`, each place once.
    fn damage(&self, durable: Position) -> Vec<Error> {
        let Ok(header) = self.header else {
            return vec![Error::corruption(&self.path, 0, super::NO_HEADER)];
        };
        let (mut problems, mut gap) = (Vec::new(), self.end);
        let mut add = |from: u64, to: u64| {
            if from < to && header.base.0 + from < durable.0 {
                let what = format!("what stands up to byte {to} is not a whole record");
                problems.push(Error::corruption(&self.path, from, what));
            }
        };
        for (offset, head) in &self.strays {
            add(gap, *offset);
            gap = offset + head.stride();
        }
        if self.dirty {
            add(gap, self.written_bytes);
        }
        problems
    }

    fn segment(&self) -> Segment {
        let records = self.records.iter().chain(&self.strays);
        let records = records.map(|(offset, head)| Record { offset: *offset, head: *head }).collect();
        Segment { path: self.path.clone(), bytes: self.file_bytes, header: self.header.ok(), records }
    }

    /// Past every position in it.
    fn end_position(&self) -> Position {
        let base = self.header.map_or(0, |header| header.base.0);
        Position(base + self.file_bytes.max(SEGMENT_HEADER_BYTES))
    }
}

/// Notes damage, and says whether there is none; other errors are errors here too.
fn note(problems: &mut Vec<Error>, outcome: Result<()>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(damaged @ Error::Corruption { .. }) => {
            problems.push(damaged);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn place_of(error: &Error) -> Option<(PathBuf, u64)> {
    match error {
        Error::Corruption { path, offset, .. } => Some((path.clone(), *offset)),
        _ => None,
    }
}
