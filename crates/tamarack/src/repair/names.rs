//! [`Names`]: unused file numbers, and names for files that are set aside.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tamarack_env::Env;

use super::examine::Examination;
use crate::directory::Listing;
use crate::error::Result;
use crate::format::names::{FILE_NUMBER_MAX, FileName};

/// The names in the directory: which numbers are unused, and which names set-aside files get.
pub(super) struct Names {
    all: Listing,
    ours: BTreeSet<FileName>,
    kept: BTreeSet<FileName>,
    /// The number of the next new table.
    pub(super) next_table: u64,
    next_wal: u64,
    next_manifest: u64,
}

/// The ending of names of set-aside files, before a number.
const ASIDE: &str = ".lost";

impl Names {
    pub(super) fn of(env: &dyn Env, dir: &Path, examination: &Examination) -> Result<Self> {
        let all = Listing::read(env, dir)?;
        // A number that was used is never used again, also if its file was set aside.
        let ever = all.names().iter().filter_map(|name| {
            let name = name.to_str()?;
            FileName::parse(name.split_once(ASIDE).map_or(name, |(name, _)| name))
        });
        let may_be_ours = |name: &FileName| match (name, examination.version()) {
            (FileName::Table(number), Some(version)) => version.may_have_made(*number),
            // A name with the largest number would leave none for the next file.
            (FileName::Table(number) | FileName::Wal(number) | FileName::Manifest(number), _) => {
                *number < FILE_NUMBER_MAX / 2
            }
            _ => true,
        };
        let ever: Vec<FileName> = ever.filter(may_be_ours).collect();
        let next =
            |number: fn(&FileName) -> Option<u64>| ever.iter().filter_map(number).max().map_or(1, |last| last + 1);
        let known = examination.version().map_or(1, |version| version.next_ids().table);
        Ok(Self {
            ours: examination.manifest.names.iter().copied().collect(),
            // A calibration is no part of the data.
            kept: BTreeSet::from([FileName::Lock, FileName::Calibration, FileName::CalibrationNew]),
            next_table: next(FileName::table).max(known),
            next_wal: next(FileName::wal).max(examination.wal.as_ref().map_or(1, |wal| wal.next_number)),
            next_manifest: next(FileName::manifest),
            all,
        })
    }

    pub(super) fn next_wal(&self) -> u64 {
        self.next_wal
    }

    pub(super) fn next_manifest(&self) -> u64 {
        self.next_manifest
    }

    pub(super) fn keep(&mut self, name: FileName) {
        self.kept.insert(name);
    }

    pub(super) fn keep_wal(&mut self) {
        self.kept.extend(self.ours.iter().filter(|name| name.wal().is_some()));
    }

    /// The files to set aside, each with its new name.
    pub(super) fn to_set_aside(&self, dir: &Path) -> Vec<(PathBuf, PathBuf)> {
        let aside = self.ours.difference(&self.kept).map(|name| {
            let name = name.name();
            let numbered = (2_u32..).map(|number| format!("{name}{ASIDE}-{number}"));
            let mut free = std::iter::once(format!("{name}{ASIDE}")).chain(numbered);
            let free = free.find(|name| !self.all.names().iter().any(|other| **other == **name));
            (dir.join(&name), dir.join(free.expect("there are more numbers than files")))
        });
        aside.collect()
    }
}
