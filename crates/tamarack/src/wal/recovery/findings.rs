//! [`Findings`]: what can be read of a WAL that may be damaged, and all that is wrong with it.
//! Changes nothing.
//!
//! Recovery takes the records up to the first damage, and refuses a WAL that ends too early. Who
//! verifies wants to know all that is damaged, and who repairs wants every record that is whole,
//! wherever it stands.

use std::path::{Path, PathBuf};

use tamarack_env::{Access, Env};

use super::{
    RecoverySettings, blamed, check_header, drain_stale, dropped, for_entries, numbers, replay_survey, survey_all,
};
use crate::entry::{Entry, Sequence};
use crate::error::{Error, Result};
use crate::format::meta::{EditNumber, TreeId};
use crate::format::record::FileHeader;
use crate::journal::{Chain, Dropped, Position, Record, Survey};
use crate::wal::PROFILE;

/// What is left of a WAL. See the module's documentation.
#[derive(Debug)]
pub struct Findings {
    surveys: Vec<Survey>,
    /// What is wrong, below what was durable.
    pub problems: Vec<Error>,
    /// The end that a crash left torn, and segments whose headers are not whole, which a crash
    /// interrupted: nothing in them was promised.
    pub torn: Vec<Dropped>,
    /// True if opening takes the WAL as it is.
    pub is_sound: bool,
    /// The segments that are needed, old to young.
    pub segments: Vec<FoundSegment>,
    /// Entries of the WAL that are not in tables, as recovery would replay them.
    pub entries: u64,
    /// Past every position that some segment has.
    pub end: Position,
    /// A number that no segment has had.
    pub next_number: u64,
}

/// A segment as it was found.
#[derive(Clone, Debug)]
pub struct FoundSegment {
    /// Its file.
    pub path: PathBuf,
    /// The file's length.
    pub bytes: u64,
    /// What it says about itself; `None` if that is damaged.
    pub header: Option<FileHeader>,
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
        let header = Survey::read_header(&PROFILE, env, dir, number, Some(database))?;
        last = last.max(header.map_or(last, |header| header.created_after));
    }
    Ok(last)
}

impl Findings {
    /// Reads all segments that the settings say are needed. If the settings come from a manifest
    /// that `is_incomplete`, nothing is missed before the first segment that is there, and a
    /// segment may be younger than the last edit.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails; [`Error::Unsupported`] if a newer version wrote a segment.
    /// Damage is no error.
    pub fn of(settings: RecoverySettings, is_incomplete: bool) -> Result<Self> {
        let mut problems = Vec::new();
        let surveys = survey_all(&settings, Access::Read)?;
        for survey in &surveys {
            note(&mut problems, check_header(survey, &settings))?;
        }
        if is_incomplete {
            problems.clear();
        }
        let next_number = surveys.last().map_or(1, |survey| survey.number.saturating_add(1));
        let blamed = blamed(&settings, &surveys);
        let (unborn, mut surveys): (Vec<_>, Vec<_>) = surveys.into_iter().partition(Survey::is_unborn);
        drain_stale(settings.flushed_through, &mut surveys);
        let needed = settings.flushed_through.next().0;
        let first = surveys.first().filter(|_| is_incomplete).and_then(Survey::first);
        let chain = Chain::new(&surveys, needed.max(first.unwrap_or(0)), settings.durable);
        let mut sound = note(&mut problems, chain.check(&surveys, settings.tail, &blamed))?;
        let mut entries = 0;
        for (survey, end) in chain.ends(&surveys) {
            let count = &mut |_: TreeId, _: Entry<'_>| {
                entries += 1;
                Ok(())
            };
            sound &= note(&mut problems, replay_survey(survey, &settings, end, count))?;
        }
        for survey in &surveys {
            let known: Vec<(PathBuf, u64)> = problems.iter().filter_map(place_of).collect();
            let later = survey.damage(chain.durable).into_iter();
            problems.extend(later.filter(|error| place_of(error).is_none_or(|place| !known.contains(&place))));
        }
        // One that was being made when a crash came is no damage, unless something is missing.
        let torn = if sound {
            dropped(&chain, &unborn)
        } else {
            let begun = unborn.iter().filter(|survey| survey.scan.written_bytes > 0);
            problems.extend(begun.map(Survey::no_header));
            Vec::new()
        };
        let end = surveys.iter().map(Survey::end_position).max().unwrap_or_default().max(chain.durable).max(chain.end);
        let segments = surveys.iter().map(FoundSegment::of).collect();
        let is_sound = sound && problems.is_empty();
        Ok(Self { surveys, problems, torn, is_sound, segments, entries, end, next_number })
    }

    /// The bytes of all needed segments.
    pub fn bytes(&self) -> u64 {
        self.surveys.iter().map(|survey| survey.file_bytes).sum()
    }

    /// Calls `visit` for each entry of some records of the segment with that index. Gives those
    /// that are whole but hold no entries, which `visit` is not shown.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for entries of a kind that is not known; [`Error::Io`]; whatever
    /// `visit` answers.
    pub fn visit(
        &self,
        segment: usize,
        records: &[Record],
        visit: &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>,
    ) -> Result<Vec<Error>> {
        let survey = &self.surveys[segment];
        let bytes = survey.read_again()?;
        let mut malformed = Vec::new();
        for record in records {
            // None of its entries counts if one of them cannot be read.
            match for_entries(survey, &bytes, record, &mut |_, _| Ok(())) {
                Ok(()) => for_entries(survey, &bytes, record, visit)?,
                Err(damaged @ Error::Corruption { .. }) => malformed.push(damaged),
                Err(other) => return Err(other),
            }
        }
        Ok(malformed)
    }
}

impl FoundSegment {
    fn of(survey: &Survey) -> Self {
        Self {
            path: survey.path.clone(),
            bytes: survey.file_bytes,
            header: survey.header.ok(),
            records: survey.scan.all().copied().collect(),
        }
    }

    /// The first and the last sequence number in it, if it has entries.
    pub fn sequences(&self) -> Option<(Sequence, Sequence)> {
        let first = self.records.iter().map(|record| record.head.first).min()?;
        let next = self.records.iter().map(|record| record.head.next()).max()?;
        (first < next).then(|| (Sequence(first), Sequence(next - 1)))
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
