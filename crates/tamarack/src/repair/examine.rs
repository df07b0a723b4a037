//! [`Examination`]: all files of a closed database, read and checked; damaged and whole ones.
//! Changes nothing.
//!
//! 1. `CURRENT` and the manifest, as far as they can be read: the version.
//! 2. Every table that the version names.
//! 3. The WAL from the first entry on that is not in tables.
//! 4. If something may be missing from the version, or is missing from the WAL, every other table
//!    as well.
//!
//! A table that the version does not name is an orphan of a crash, or a sign that the manifest has
//! lost edits: the latter if it was made after a later edit than the manifest has.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Env, Lock};

use super::ingests::{self, Ingests, Placed, Used};
use super::salvage::Salvage;
use super::verify::{VerifyReport, add_new};
use super::{ages, identity};
use crate::directory::Listing;
use crate::engine::{no_database, not_a_directory, share_lock, take_lock};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::meta::{EditNumber, TableId, TableMeta, TreeId};
use crate::format::names::FileName;
use crate::format::shape::TreeDesign;
use crate::table::{Table, TableStorage};
use crate::tree::broken::Broken;
use crate::tree::manifest::survey::ManifestSurvey;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::{self, Findings, FoundSegment, Position, RecoverySettings, Tail};

/// An examined, closed database. Holds the lock.
pub(crate) struct Examination {
    pub(crate) manifest: ManifestSurvey,
    /// The database's id; `None` if no file names one.
    pub(crate) database: Option<u64>,
    /// All tables that exist or should exist, by number.
    pub(crate) tables: BTreeMap<u64, Found>,
    /// The guessed places of ingested tables that nothing dates, by the table's number.
    pub(crate) guessed: BTreeMap<u64, Placed>,
    /// The WAL; `None` if the database's id is not known.
    pub(crate) wal: Option<Findings>,
    /// True if some file shows that the manifest has lost edits.
    pub(crate) lost_edits: bool,
    pub(crate) report: VerifyReport,
    _lock: Box<dyn Lock>,
}

/// The condition of a table.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Whole, and as the manifest says.
    Whole(TableMeta),
    /// Damaged; with the manifest's metadata, if it has any.
    Damaged(Option<TableMeta>),
    /// Named by the manifest, but missing.
    Missing(TableMeta),
    /// Named by nothing; only its end was read, and is whole.
    Unnamed(TableMeta),
    /// Named by nothing, and never finished.
    Unfinished,
}

impl Examination {
    /// Examines the database in `dir`, alone or beside other readers. `progress` gets the bytes of
    /// tables that were read and their total.
    ///
    /// # Errors
    /// [`Error::Locked`] if it is open; [`Error::NotFound`] if there is none;
    /// [`Error::Unsupported`] if a newer version wrote the manifest or the WAL; [`Error::Io`] if
    /// these cannot be read. Faults of tables are part of the report.
    pub(crate) fn of(
        env: &Arc<dyn Env>,
        dir: &Path,
        exclusively: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let storage = TableStorage::buffered(env.clone(), 0);
        let files = TableFiles::new(storage.clone(), dir);
        // Before anything is created in a directory that is none of ours.
        let found = ManifestSurvey::of(&**env, dir, &files).map_err(|error| match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => not_a_directory(dir),
            other => other,
        });
        found?.ok_or_else(|| no_database(dir))?;
        let lock = if exclusively { take_lock(&**env, dir)? } else { share_lock(&**env, dir)? };
        let manifest = ManifestSurvey::of(&**env, dir, &files)?.ok_or_else(|| no_database(dir))?;
        let database = match &manifest.version {
            Some(version) => Some(version.database()),
            None => identity::database_of(&**env, dir, &manifest.names)?,
        };
        let mut report = VerifyReport { problems: manifest.problems.clone(), ..VerifyReport::default() };
        report.problems.extend(manifest.version.as_ref().and_then(|version| check_levels(&manifest, version)));
        let (tables, guessed, lost_edits) = (BTreeMap::new(), BTreeMap::new(), !manifest.is_complete);
        let mut all = Self { manifest, database, tables, guessed, wal: None, lost_edits, report, _lock: lock };
        if let Some(database) = database {
            // Before tables are read: if edits are lost, tables without a name matter too.
            all.lost_edits |= wal::last_edit_named(&**env, dir, database)? > all.last_edit();
            all.tables(env, dir, &storage, database, progress)?;
        }
        all.report.torn.extend(all.manifest.torn.clone());
        all.note_unnamed(dir);
        all.note_foreign(&**env, dir)?;
        Ok(all)
    }

    /// The version, as far as it is known.
    pub(crate) fn version(&self) -> Option<&Version> {
        self.manifest.version.as_ref()
    }

    /// The sequence number up to which everything is known to be in tables.
    pub(crate) fn flushed_through(&self) -> Sequence {
        let tree = self.version().and_then(|version| version.tree(TreeId::DEFAULT));
        tree.map_or(Sequence::ZERO, |tree| tree.flushed_through())
    }

    /// The last edit that is known.
    pub(crate) fn last_edit(&self) -> EditNumber {
        self.version().map_or(EditNumber(0), Version::edit_number)
    }

    /// Checks tables and WAL. Tables that nothing names come last, and only if they may matter.
    fn tables(
        &mut self,
        env: &Arc<dyn Env>,
        dir: &Path,
        storage: &Arc<TableStorage>,
        database: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let there = self.tables_there();
        let named: BTreeMap<u64, TableMeta> = self
            .version()
            .into_iter()
            .flat_map(Version::tables)
            .map(|t| (t.id().0, TableMeta::clone(t.meta())))
            .collect();
        let (mut unnamed, mut endless) = (BTreeMap::new(), BTreeSet::new());
        for number in there.iter().copied().filter(|number| !named.contains_key(number)) {
            // A table that the manifest once named is certainly obsolete.
            if self.manifest.named.contains(&TableId(number)) {
                continue;
            }
            let path = FileName::Table(number).path(dir);
            match Table::read_meta(&**env, &path, database) {
                Ok(meta) => {
                    self.check_unnamed(&path, &meta);
                    unnamed.insert(number, meta);
                }
                Err(Error::Corruption { .. }) => {
                    endless.insert(number);
                }
                Err(error) => return Err(error),
            }
        }
        let all_bytes: u64 = named.values().chain(unnamed.values()).map(|meta| meta.file_bytes).sum();
        let is_incomplete = !self.manifest.is_complete;
        let check = Check { env, dir, storage, database, all_bytes, is_incomplete };
        for (number, meta) in &named {
            let found = check.named(meta.clone(), there.contains(number), &mut self.report, progress)?;
            self.tables.insert(*number, found);
        }
        // Where a table is missing and there are unnamed ones, one of these may have taken its
        // place.
        let is_missing = self.tables.values().any(|found| matches!(found, Found::Missing(_)));
        self.lost_edits |= is_missing && !(unnamed.is_empty() && endless.is_empty());
        let are_whole = self.tables.values().all(|found| !matches!(found, Found::Damaged(_) | Found::Missing(_)));
        if let Some(version) = self.manifest.version.as_ref().filter(|_| are_whole)
            && let Err(error) = ages::check(version, dir)
        {
            self.report.problems.push(error);
        }
        self.wal(env, dir, database)?;
        let needs_all = self.lost_edits || self.wal.as_ref().is_some_and(|wal| !wal.is_sound);
        if !needs_all {
            self.tables.extend(unnamed.into_iter().map(|(number, meta)| (number, Found::Unnamed(meta))));
            self.tables.extend(endless.into_iter().map(|number| (number, Found::Unfinished)));
            return Ok(());
        }
        // They may be unfinished, or named by a lost edit.
        let mut damaged = BTreeMap::new();
        for number in endless {
            let salvage = Salvage::read(&**env, &FileName::Table(number).path(dir), database, TableId(number), None)?;
            self.report.problems.extend_from_slice(salvage.problems());
            damaged.insert(number, salvage.counted().clone());
        }
        let wal: Vec<Used> =
            self.wal.iter().flat_map(|wal| &wal.segments).filter_map(FoundSegment::sequences).collect();
        let flushed_through = self.flushed_through();
        let unknown = Ingests { named: &named, unnamed: &mut unnamed, damaged: &damaged, wal: &wal, flushed_through };
        self.guessed = ingests::date(unknown);
        for (number, placed) in &self.guessed {
            let what = format!(
                "the table is one of an ingest, and nothing says when its entries were written: they count as written after sequence {}",
                placed.after.0
            );
            self.report.problems.push(Error::corruption(&FileName::Table(*number).path(dir), 0, what));
        }
        for (number, meta) in unnamed {
            let found = check.named(meta, true, &mut self.report, progress)?;
            self.tables.insert(number, found);
        }
        self.tables.extend(damaged.into_keys().map(|number| (number, Found::Damaged(None))));
        Ok(())
    }

    /// The readable part of the table with that number; `meta` is known of it.
    ///
    /// # Errors
    /// As [`Salvage::read`].
    pub(crate) fn salvage(&self, env: &dyn Env, dir: &Path, number: u64, meta: Option<&TableMeta>) -> Result<Salvage> {
        let database = self.database.expect("without it nothing can be checked");
        let path = FileName::Table(number).path(dir);
        let mut salvage = Salvage::read(env, &path, database, TableId(number), meta)?;
        if let Some(placed) = self.guessed.get(&number) {
            salvage.set_sequence_base(placed.base);
        }
        Ok(salvage)
    }

    /// A table that was made after a later edit than the manifest has.
    fn check_unnamed(&mut self, path: &Path, meta: &TableMeta) {
        let edit = self.last_edit();
        if !self.manifest.is_complete {
            // That is known and reported.
            return;
        }
        if meta.created_after > edit {
            let (made, last) = (meta.created_after.0, edit.0);
            let what = format!(
                "this table was made after edit {made}, but the manifest ends with edit {last}: the manifest has lost edits"
            );
            self.report.problems.push(Error::corruption(path, 0, what));
            self.lost_edits = true;
        }
    }

    fn wal(&mut self, env: &Arc<dyn Env>, dir: &Path, database: u64) -> Result<()> {
        let version = self.version();
        let durable = version.map_or(0, |version| version.wal_durable());
        let settings = RecoverySettings {
            env: env.clone(),
            dir: dir.to_owned(),
            database,
            flushed_through: self.flushed_through(),
            last_edit: self.last_edit(),
            durable: Position(durable),
            tail: Tail::MayBeTorn,
        };
        let wal = Findings::of(settings, !self.manifest.is_complete)?;
        self.report.problems.extend_from_slice(&wal.problems);
        self.report.torn.extend(wal.torn.clone());
        (self.report.wal_bytes, self.report.wal_entries) = (wal.bytes(), wal.entries);
        self.wal = Some(wal);
        Ok(())
    }

    /// Numbers of the tables that the database may have made.
    fn tables_there(&self) -> BTreeSet<u64> {
        let files = self.manifest.names.iter().copied();
        match self.version() {
            Some(version) => version.own_tables(files).collect(),
            None => files.filter_map(|file| file.table()).collect(),
        }
    }

    /// Reports files named like the database's, but with numbers that it cannot have given.
    fn note_foreign(&mut self, env: &dyn Env, dir: &Path) -> Result<()> {
        let listing = Listing::read(env, dir)?;
        let tables = self.tables_there();
        let is_foreign = |name: &str| match FileName::parse(name) {
            Some(FileName::Table(number)) => !tables.contains(&number),
            Some(_) => false,
            None => name.rsplit_once('.').is_some_and(|(number, ending)| {
                ["sst", "wal", "manifest"].contains(&ending) && number.bytes().all(|byte| byte.is_ascii_digit())
            }),
        };
        let foreign = listing.names().iter().filter_map(|name| name.to_str()).filter(|name| is_foreign(name));
        self.report.foreign = foreign.map(|name| dir.join(name)).collect();
        Ok(())
    }

    /// The files that the next opening removes.
    fn note_unnamed(&mut self, dir: &Path) {
        if self.lost_edits {
            return;
        }
        let named: BTreeSet<u64> =
            self.version().into_iter().flat_map(Version::tables).map(|table| table.id().0).collect();
        let (current, tables) = (self.manifest.path.clone(), self.tables_there());
        let paths = self.manifest.names.iter().filter_map(|name| {
            let path = name.path(dir);
            let is_unnamed = match name {
                FileName::Table(number) => tables.contains(number) && !named.contains(number),
                FileName::Manifest(_) => current.as_ref() != Some(&path),
                FileName::CurrentNew | FileName::CalibrationNew => true,
                _ => false,
            };
            is_unnamed.then_some(path)
        });
        self.report.unnamed = paths.collect::<Vec<PathBuf>>();
    }
}

/// The parts needed for checking tables.
struct Check<'a> {
    env: &'a Arc<dyn Env>,
    dir: &'a Path,
    storage: &'a Arc<TableStorage>,
    database: u64,
    all_bytes: u64,
    /// True if the manifest is known to have lost edits.
    is_incomplete: bool,
}

impl Check<'_> {
    /// Reads and checks a table that should be as `meta` says, and adds its faults to the report.
    fn named(
        &self,
        meta: TableMeta,
        is_there: bool,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Found> {
        let path = FileName::Table(meta.id.0).path(self.dir);
        if !is_there {
            let what = "the manifest names this table, but there is no such file";
            // A lost edit may have released it.
            report.problems.extend((!self.is_incomplete).then(|| Error::corruption(&path, 0, what)));
            return Ok(Found::Missing(meta));
        }
        let mut done_bytes = report.bytes;
        report.bytes += meta.file_bytes;
        report.tables += 1;
        report.entries += meta.entries;
        let advance = &mut |bytes| {
            done_bytes += bytes;
            progress(done_bytes, self.all_bytes);
        };
        let opened = Table::open(self.storage, self.dir, self.database, &meta);
        let Err(error) = opened.and_then(|table| table.verify(advance)) else { return Ok(Found::Whole(meta)) };
        let mut problems = vec![error];
        match Salvage::read(&**self.env, &path, self.database, meta.id, Some(&meta)) {
            Ok(salvage) => add_new(&mut problems, salvage.problems()),
            Err(error) => {
                // A file that cannot be read is one problem, whoever met it.
                let is_same = |problem: &Error| match (problem, &error) {
                    (Error::Io { path, source, .. }, Error::Io { path: other, source: cause, .. }) => {
                        path == other && source.kind() == cause.kind()
                    }
                    _ => problem.to_string() == error.to_string(),
                };
                let is_known = problems.iter().any(is_same);
                problems.extend((!is_known).then_some(error));
            }
        }
        report.problems.extend(problems);
        Ok(Found::Damaged(Some(meta)))
    }
}

/// Faults in the shapes of the trees, and in the levels of their runs.
fn check_levels(manifest: &ManifestSurvey, version: &Version) -> Option<Error> {
    let path = manifest.path.as_deref()?;
    version.trees().find_map(|(_, tree)| match tree.shape().map(TreeDesign::decode)? {
        Ok(design) => tree.check_levels(design.shape.last()).err().map(|Broken(why)| Error::corruption(path, 0, why)),
        Err(error) => Some(Error::shape(path, error)),
    })
}
