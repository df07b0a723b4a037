//! [`Chain`]: the files and records of a journal that follow each other, and what to make of what
//! does not.
//!
//! 1. Every file is surveyed.
//! 2. **D** is the highest mark of all, or what the user knows: some record was written when the
//!    journal was known to be durable up to there.
//! 3. The files are **chained**: each must begin where the one before ends, in position and in the
//!    number of its first item. The chain ends at the first gap or damage.
//! 4. If it ends **below D**, something that was promised is missing: an error. If it ends at or
//!    above D, what follows is the torn end that a crash leaves (unsynced pages reach storage in
//!    any order): it is dropped and reported.
//! 5. Before anything is built on it, the result is **made durable**: the torn end is cut off, what
//!    lies above D is written again, and what is left is synced. Otherwise a dropped record could
//!    come back after the next crash, in the middle of newer ones.

use std::path::Path;

use super::survey::NO_HEADER;
use super::{Dropped, Position, Record, Survey, Tail};
use crate::error::{Error, Result};
use crate::format::record::FILE_HEADER_BYTES;

/// See the module's documentation.
#[derive(Debug)]
pub struct Chain {
    /// How many files it has.
    pub files: usize,
    /// Where it ends in the journal.
    pub end: Position,
    /// The number of the next item.
    pub next: u64,
    /// What follows it, if anything does.
    pub dropped: Option<Dropped>,
    /// D: up to where the journal is known to have been durable.
    pub durable: Position,
    /// Where it ends in its last file.
    end_offset: u64,
}

impl Chain {
    /// Chains files, old to young. Items before number `needed` are not missed. The journal is
    /// known to be durable up to `durable`, whatever its records say.
    pub fn new(surveys: &[Survey], needed: u64, durable: Position) -> Self {
        let durable = surveys.iter().map(|survey| survey.scan.durable).max().unwrap_or_default().max(durable);
        let mut chain = Self { files: 0, end: Position(0), next: needed, dropped: None, durable, end_offset: 0 };
        for survey in surveys {
            if let Some((offset, why)) = chain.take(survey, needed) {
                chain.drop_from(surveys, survey, offset, why);
                break;
            }
        }
        chain
    }

    /// Adds a file, as far as it follows. If it does not, or not to its end: from where in it, and
    /// why.
    fn take(&mut self, survey: &Survey, needed: u64) -> Option<(u64, &'static str)> {
        let Ok(header) = survey.header else { return Some((0, NO_HEADER)) };
        if self.files == 0 {
            if header.first > needed {
                return Some((0, "this begins after the first record that is needed; what was before is gone"));
            }
            self.next = header.first;
        } else if (header.base, header.first) != (self.end, self.next) {
            return Some((0, "this file does not begin where the one before ends, or one between them is gone"));
        }
        self.files += 1;
        self.end_offset = FILE_HEADER_BYTES;
        for record in &survey.scan.records {
            if record.head.first != self.next {
                break;
            }
            self.next = record.head.next();
            self.end_offset = record.end();
        }
        self.end = Position(header.base.0 + self.end_offset);
        if self.end_offset < survey.scan.end {
            return Some((self.end_offset, "a record does not follow the one before"));
        }
        survey.scan.is_dirty().then_some((self.end_offset, "what stands here is not a whole record"))
    }

    /// Where the chain ends in the file with that index, in bytes of the file.
    fn end_in(&self, index: usize, survey: &Survey) -> u64 {
        if index + 1 == self.files { self.end_offset } else { survey.scan.end }
    }

    /// The files of the chain, with where it ends in each.
    pub fn ends<'s>(&self, surveys: &'s [Survey]) -> impl Iterator<Item = (&'s Survey, u64)> {
        surveys.iter().take(self.files).enumerate().map(|(index, survey)| (survey, self.end_in(index, survey)))
    }

    /// The records of a file that belong to the chain, which ends at `end` in it.
    pub fn records(survey: &Survey, end: u64) -> impl Iterator<Item = &Record> {
        survey.scan.records.iter().take_while(move |record| record.offset < end)
    }

    /// An error if something that was promised is not in the chain, or if a torn end is one. Where
    /// no file is to blame, the error names `blamed`.
    pub fn check(&self, surveys: &[Survey], tail: Tail, blamed: &Path) -> Result<()> {
        let path = self.dropped.as_ref().map_or(blamed, |dropped| &dropped.path);
        if self.end < self.durable {
            let why = self.dropped.as_ref().map_or("this, or what is left of it, ends", |dropped| &dropped.why);
            let offset = self.dropped.as_ref().map_or(self.end_offset, |dropped| dropped.offset);
            let (end, durable) = (self.end.0, self.durable.0);
            let what = format!("{why}, at position {end}; but it was durable up to position {durable}");
            return Err(Error::corruption(path, offset, what));
        }
        // A header was durable before anything stood in its file; and the first file that is needed
        // was promised by what names it. So neither can be a torn end.
        if let Some(broken) = surveys.get(self.files)
            && (broken.header.is_err() || self.files == 0)
        {
            let why = self.dropped.as_ref().filter(|_| broken.header.is_ok()).map_or(NO_HEADER, |dropped| &dropped.why);
            return Err(Error::corruption(&broken.path, 0, why));
        }
        match (&self.dropped, tail) {
            (Some(Dropped { offset, why, .. }), Tail::Strict) => {
                let what = format!("{why}; opening with a torn end allowed would drop the rest");
                Err(Error::corruption(path, *offset, what))
            }
            _ => Ok(()),
        }
    }

    /// Makes the chain durable: cuts off what follows it in its last file, writes again what may
    /// only be in the page cache, and syncs its files. Removing files that follow it, and syncing
    /// the directory, is the user's part.
    pub fn make_durable(&self, surveys: &[Survey]) -> Result<()> {
        self.ends(surveys).try_for_each(|(survey, end)| {
            let is_cut = survey.scan.is_dirty() || survey.scan.end > end;
            survey.make_durable(end, is_cut, self.durable)
        })
    }

    /// Notes what is dropped: everything from `offset` of `broken` on.
    fn drop_from(&mut self, surveys: &[Survey], broken: &Survey, offset: u64, why: &str) {
        let is_broken = |survey: &&Survey| survey.number == broken.number;
        let later = || surveys.iter().skip_while(move |survey| !is_broken(survey)).skip(1);
        let in_broken = broken.scan.all().filter(|record| record.offset >= offset);
        let items = in_broken.chain(later().flat_map(|survey| survey.scan.all()));
        self.dropped = Some(Dropped {
            path: broken.path.clone(),
            offset,
            bytes: broken.scan.written_bytes.saturating_sub(offset)
                + later().map(|survey| survey.scan.written_bytes).sum::<u64>(),
            commit_groups: items.filter(|record| !record.head.is_mark()).count() as u64,
            why: why.to_owned(),
        });
    }
}
