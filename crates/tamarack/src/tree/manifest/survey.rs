//! [`ManifestSurvey`]: what can be read of manifests that may be damaged, and all that is wrong
//! with them. Changes nothing.
//!
//! Opening a database refuses the first damage that it meets. Who verifies wants all of it, and who
//! repairs wants what is left: the version after the last edit that can be read, and whether that
//! is all there was.
//!
//! Where `CURRENT` does not say which manifest counts, it is the one that knows the latest edit: a
//! manifest is only replaced by one whose base says the same, and the old one gets no edit after
//! that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Access, Env};

use super::{Content, read_current, refuse_finished};
use crate::directory::Listing;
use crate::error::{Error, Result};
use crate::format::meta::TableId;
use crate::format::names::FileName;
use crate::journal::{Dropped, Tail};
use crate::tree::broken::Broken;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;

/// What the manifests of a database say. See the module's documentation.
#[derive(Debug, Default)]
pub struct ManifestSurvey {
    /// The manifest that counts, if one can be read at all.
    pub path: Option<PathBuf>,
    /// What it says, as far as it can be read.
    pub version: Option<Version>,
    /// True if nothing is known to be missing from that.
    pub is_complete: bool,
    /// Every table that it ever named.
    pub named: BTreeSet<TableId>,
    /// What is wrong with `CURRENT` and the manifest.
    pub problems: Vec<Error>,
    /// The end of the manifest that a crash left torn: nothing in it was promised.
    pub torn: Option<Dropped>,
    /// All files of ours that are there.
    pub names: Vec<FileName>,
}

impl ManifestSurvey {
    /// Reads what is in `dir`; `None` if no database is there, or one of which nothing but the
    /// making was begun.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails; [`Error::Unsupported`] if a newer version wrote the
    /// manifest. Damage is no error.
    pub fn of(env: &dyn Env, dir: &Path, files: &Arc<TableFiles>) -> Result<Option<Self>> {
        let Some(listing) = Listing::find(env, dir)? else { return Ok(None) };
        let names: Vec<FileName> = listing.files().collect();
        let mut survey = Self { names, ..Self::default() };
        let mut current = None;
        if survey.names.contains(&FileName::Current) {
            current = survey.note(read_current(env, dir))?;
        } else if survey.note(refuse_finished(env, dir, &survey.names, &Version::new(1, files.clone())))?.is_some() {
            return Ok(None);
        }
        let knows = current.is_none();
        if let Some(number) = current {
            let content = Content::read_base(env, dir, number, files.clone(), Access::Read);
            if let Some(content) = survey.note(content)? {
                survey.take(content)?;
                return Ok(Some(survey));
            }
        }
        survey.take_latest(env, dir, files, current)?;
        // If the one that counts is there and cannot be read, another one says what was, not what
        // is.
        survey.is_complete &= knows;
        Ok(Some(survey))
    }

    /// Takes the manifest that knows the latest edit.
    fn take_latest(&mut self, env: &dyn Env, dir: &Path, files: &Arc<TableFiles>, but: Option<u64>) -> Result<()> {
        let numbers: Vec<u64> = self.names.iter().filter_map(FileName::manifest).filter(|n| Some(*n) != but).collect();
        let mut found = Vec::new();
        for number in numbers {
            let mut one = Self::default();
            match one.note(Content::read_base(env, dir, number, files.clone(), Access::Read))? {
                Some(content) => one.take(content)?,
                // It is of no use, and nothing says that it should be.
                None if but.is_some() => continue,
                None => {}
            }
            found.push(one);
        }
        found.sort_by_key(|one| (one.version.as_ref().map(Version::edit_number), one.path.clone()));
        let Some(latest) = found.pop() else { return Ok(()) };
        if latest.version.is_none() {
            self.problems.extend(found.into_iter().flat_map(|one| one.problems));
        }
        self.problems.extend(latest.problems);
        (self.path, self.version, self.is_complete) = (latest.path, latest.version, latest.is_complete);
        (self.named, self.torn) = (latest.named, latest.torn);
        Ok(())
    }

    /// Takes what a manifest says, up to the first edit that cannot be read.
    fn take(&mut self, mut content: Content) -> Result<()> {
        let read = content.read_edits();
        let mut is_complete = self.note(read)?.is_some();
        if is_complete {
            match self.note(content.torn_end(Tail::MayBeTorn))? {
                Some(torn) => self.torn = torn,
                None => {
                    is_complete = false;
                    self.problems.extend(content.later_damage());
                }
            }
        }
        if let Err(Broken(why)) = content.version.check() {
            self.problems.push(Error::corruption(&content.survey.path, 0, why));
            is_complete = false;
        }
        self.is_complete = is_complete;
        self.path = Some(content.survey.path);
        self.version = Some(content.version);
        self.named = content.named;
        Ok(())
    }

    /// Notes damage; other errors are errors here too.
    fn note<T>(&mut self, outcome: Result<T>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(damaged @ Error::Corruption { .. }) => {
                self.problems.push(damaged);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
