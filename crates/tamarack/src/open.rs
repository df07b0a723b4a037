//! Opening a database: recovery as a list of steps.
//!
//! 1. Create the directory if it is missing and may be created, and take the lock.
//! 2. Recover the manifest, or create the first one: it says which tables exist, and up to which
//!    sequence number everything is in them.
//! 3. Check the directory: every table that the manifest names must exist; a table that it does not
//!    name but that was made after a later edit than it has shows that edits were lost. Nothing but
//!    torn ends and stale manifests has been changed so far.
//! 4. Recover the WAL into memtables: torn ends are cut off, and what was read becomes durable.
//! 5. Remove orphans, now that the WAL is known to be complete: an orphan is garbage only if the
//!    WAL or the manifest has its entries.
//! 6. Put the parts together and start the background work.
//!
//! Opening for reading only runs the same steps without changing anything: it makes no directory,
//! takes the lock in shared mode, and leaves torn ends and orphans. It starts no background work,
//! so nothing could change storage; WAL and manifest refuse it besides.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::{Env, Lock, Work, Worker};
use tamarack_model::Shape;
use tamarack_model::device::Device;
use tamarack_model::policy::{Auto, Policy};

use crate::cache::BlockCache;
use crate::calibration;
use crate::compaction::{
    self, FilterWorker, OutputContext, OutputSettings, Scheduler, SchedulerParts, SchedulerSettings, WorkerGroup,
};
use crate::controller::{Controller, ControllerParts, ControllerSettings};
use crate::database::Database;
use crate::directory::Listing;
use crate::engine::{Engine, RecoveryReport, no_database, not_a_directory, share_lock, take_lock};
use crate::entry::{Entry, EntryKind, Sequence};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::format::edit::Change;
use crate::format::meta::{TableId, TableMeta, TreeId};
use crate::format::names::FileName;
use crate::format::shape::TreeDesign;
use crate::locks::LockTable;
use crate::memory::{Account, MemoryPart};
use crate::memtable::Memtable;
use crate::operator::{self, Merging};
use crate::options::{Kept, Resolved};
use crate::redesign::{Redesign, begun};
use crate::stats::Counters;
use crate::step;
use crate::table::{Table, TableStorage};
use crate::tree::broken::Broken;
use crate::tree::design;
use crate::tree::manifest::Manifest;
use crate::tree::state::{ImmutableMemtable, Tree};
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;
use crate::wal::{self, Dropped, Position, Recovered, RecoverySettings, Wal, WalSettings};
use crate::write::throttle::Throttle;
use crate::write::{CommitQueue, CommitSettings, IntervalSync, Reserve};

/// The tree that is opened: every database has it, and this program knows no other.
const TREE: TreeId = TreeId::DEFAULT;

/// Lower index blocks may stay in memory up to this share of the cache's size, beside it. With
/// blocks of 4 KiB, they mostly take 0.5 to 0.7 % of the data.
const INDEX_SHARE: u64 = 4;

/// Opens the database in `dir`.
pub(crate) fn open(dir: &Path, options: &Resolved) -> Result<Engine> {
    let env = &options.env;
    prepare_directory(env.as_ref(), dir, options.create_if_missing)?;
    let lock = take_lock(env.as_ref(), dir)?;
    let (account, cache, tables) = table_files(dir, options);
    let (manifest, manifest_dropped) = recover_manifest(dir, options, tables.clone())?;
    let version = manifest.version();
    let files = Files::look(env.as_ref(), dir, &version)?;
    files.check_against(env.as_ref(), dir, &version)?;
    files.skip_ids(&manifest);
    let options = &with_kept_design(dir, options, &version)?;
    tables.set_elastic_bits_per_entry(options.filter.bits_per_entry());
    let mut replay = Replay::new(&account, options.memtable_bytes, flushed_through(&version));
    let recovered = recover_wal(wal::recover, env, dir, options, &version, &mut replay)?;
    let orphans_removed = files.remove_orphans(env.as_ref(), dir, &version)?;
    let report = RecoveryReport {
        dropped: manifest_dropped.into_iter().chain(recovered.dropped.clone()).collect(),
        entries_replayed: replay.entries,
        orphans_removed,
    };
    let wal = Wal::start(wal_settings(dir, options, &version), &recovered, version.edit_number())?;
    let version = note_birth(&manifest, &wal, version)?;
    let (version, shape) = settle_shape(dir, options, &manifest, version)?;
    let version = settle_operator(dir, options, &manifest, version, replay.has_operands)?;
    let last = recovered.last_sequence;
    let parts = RecoveredParts { lock, account, cache, tables, manifest, version, shape, replay, last, wal, report };
    let mut engine = assemble(dir, options, parts)?;
    start_background(&mut engine, options)?;
    Ok(engine)
}

/// Opens the database in `dir` and changes nothing.
pub(crate) fn open_read_only(dir: &Path, options: &Resolved) -> Result<Engine> {
    let env = &options.env;
    prepare_directory(env.as_ref(), dir, false)?;
    let lock = share_lock(env.as_ref(), dir)?;
    let (account, cache, tables) = table_files(dir, options);
    let found = Manifest::read(env, dir, options.tail, tables.clone())?.ok_or_else(|| no_database(dir))?;
    let version = found.manifest.version();
    Files::look(env.as_ref(), dir, &version)?.check_against(env.as_ref(), dir, &version)?;
    // A database gets its shape before its first write.
    let shape = stored_design(dir, &version)?.ok_or_else(|| no_database(dir))?.shape;
    let options = &with_kept_design(dir, options, &version)?;
    tables.set_elastic_bits_per_entry(options.filter.bits_per_entry());
    let mut replay = Replay::new(&account, shape.buffer().0, flushed_through(&version));
    let recovered = recover_wal(wal::read, env, dir, options, &version, &mut replay)?;
    check_operator(dir, options, &version, replay.has_operands)?;
    let report = RecoveryReport {
        dropped: found.dropped.into_iter().chain(recovered.dropped.clone()).collect(),
        entries_replayed: replay.entries,
        orphans_removed: Vec::new(),
    };
    let why = Error::ReadOnly { dir: dir.to_owned() };
    let wal = Wal::ended(wal_settings(dir, options, &version), &recovered, why.clone());
    let (manifest, last) = (found.manifest, recovered.last_sequence);
    let parts = RecoveredParts { lock, account, cache, tables, manifest, version, shape, replay, last, wal, report };
    let mut engine = assemble(dir, options, parts)?;
    engine.database.health.report_stop(why);
    start_collapsing(&mut engine)?;
    start_telling(&mut engine)?;
    Ok(engine)
}

/// The recovered parts of a database.
struct RecoveredParts {
    lock: Box<dyn Lock>,
    account: Arc<Account>,
    cache: Arc<BlockCache>,
    tables: Arc<TableFiles>,
    manifest: Manifest,
    version: Arc<Version>,
    shape: Shape,
    replay: Replay,
    /// The last sequence number in the WAL or in tables.
    last: Sequence,
    wal: Wal,
    report: RecoveryReport,
}

/// The reader of the tables in `dir`, and the account that it charges.
fn table_files(dir: &Path, options: &Resolved) -> (Arc<Account>, Arc<BlockCache>, Arc<TableFiles>) {
    let account = Account::new(options.budget);
    // The cache, and what is set aside for index blocks, begin with what memtables leave.
    account.set_memtable_bytes(options.memtable_bytes);
    let cache = Arc::new(BlockCache::new(account.cache_share()));
    account.set_cache(&cache);
    let index_bytes = options.index_bytes.unwrap_or(account.cache_share() / INDEX_SHARE);
    let env = options.env.clone();
    let storage = TableStorage::new(env, cache.clone(), account.clone(), index_bytes, options.table_access());
    let tables = TableFiles::with_filters(storage, dir, options.filter.bits_per_entry());
    (account, cache, tables)
}

/// Creates the directory, if it is missing and may be created. A directory without files of ours is
/// not touched unless it may become a database.
pub(crate) fn prepare_directory(env: &dyn Env, dir: &Path, create: bool) -> Result<()> {
    let wrong = |what| Err(Error::InvalidArgument(format!("{}: {what}", dir.display())));
    match Listing::find(env, dir) {
        Ok(Some(listing)) if !create && !listing.files().any(is_of_data) => Err(no_database(dir)),
        Ok(Some(_)) => Ok(()),
        Ok(None) if create => match env.create_dir(dir, step::DATABASE_CREATE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                wrong("the directory that it is to be made in does not exist; make that first")
            }
            made => made.map_err(|error| Error::io(step::DATABASE_CREATE.0, dir, error)),
        },
        Ok(None) => Err(no_database(dir)),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => Err(not_a_directory(dir)),
        Err(error) => Err(error),
    }
}

/// True if only a database has such a file. The lock may be a leftover of an attempt that found no
/// database, and a calibration that of a database which was removed.
fn is_of_data(file: FileName) -> bool {
    !matches!(file, FileName::Lock | FileName::Calibration | FileName::CalibrationNew)
}

/// Syncs the directory's own name, not only after creating the directory: an earlier attempt may
/// have ended right after that.
pub(crate) fn sync_parent(env: &dyn Env, dir: &Path) -> Result<()> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    env.sync_dir(parent, step::DATABASE_SYNC_PARENT)
        .map_err(|error| Error::io(step::DATABASE_SYNC_PARENT.0, parent, error))
}

/// The files in the directory.
struct Files {
    tables: BTreeSet<u64>,
}

impl Files {
    /// Lists the tables of the database, in or out of `version`. Files with numbers that it cannot
    /// have given are not its own: they stay, and do not count.
    fn look(env: &dyn Env, dir: &Path, version: &Version) -> Result<Self> {
        Ok(Self { tables: version.own_tables(Listing::read(env, dir)?.files()).collect() })
    }

    /// Reserves the numbers of all tables in the directory, orphans included.
    fn skip_ids(&self, manifest: &Manifest) {
        if let Some(&last) = self.tables.last() {
            manifest.skip_table_id(TableId(last));
        }
    }

    fn orphans(&self, version: &Version) -> impl Iterator<Item = u64> {
        let named: BTreeSet<u64> = version.tables().map(|table| table.meta().id.0).collect();
        self.tables.iter().copied().filter(move |number| !named.contains(number))
    }

    /// Tables that are missing, or that show that edits are.
    fn check_against(&self, env: &dyn Env, dir: &Path, version: &Version) -> Result<()> {
        for table in version.tables() {
            let path = FileName::Table(table.meta().id.0).path(dir);
            if !self.tables.contains(&table.meta().id.0) {
                return Err(Error::corruption(&path, 0, "the manifest names this table, but there is no such file"));
            }
        }
        for number in self.orphans(version) {
            let path = FileName::Table(number).path(dir);
            // An unreadable table was never finished, so no edit, lost or not, can have named it.
            let Some(meta) = complete_table(env, &path, version.database())? else { continue };
            if meta.created_after > version.edit_number() {
                return Err(Error::corruption(
                    &path,
                    0,
                    format!(
                        "this table was made after edit {}, but the manifest ends with edit {}: the manifest has lost edits",
                        meta.created_after.0,
                        version.edit_number().0
                    ),
                ));
            }
        }
        Ok(())
    }

    fn remove_orphans(&self, env: &dyn Env, dir: &Path, version: &Version) -> Result<Vec<PathBuf>> {
        let paths: Vec<_> = self.orphans(version).map(|number| FileName::Table(number).path(dir)).collect();
        for path in &paths {
            env.remove(path, step::TABLE_REMOVE).map_err(|error| Error::io(step::TABLE_REMOVE.0, path, error))?;
        }
        Ok(paths)
    }
}

/// The metadata of a table; `None` if it is damaged.
fn complete_table(env: &dyn Env, path: &Path, database: u64) -> Result<Option<TableMeta>> {
    match Table::read_meta(env, path, database) {
        Ok(meta) => Ok(Some(meta)),
        Err(Error::Corruption { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The memtables that the WAL is replayed into. They rotate by the present options.
struct Replay {
    memtable_bytes: u64,
    /// Upper bound on a memtable's memory, whatever its entries.
    memory_max: u64,
    active: Arc<Memtable>,
    /// Young to old.
    immutable: Vec<Arc<ImmutableMemtable>>,
    last: Sequence,
    entries: u64,
    has_operands: bool,
}

impl Replay {
    fn new(account: &Arc<Account>, memtable_bytes: u64, last: Sequence) -> Self {
        let memory_max = account.budget().memtable_memory_max(memtable_bytes);
        Self {
            memtable_bytes,
            memory_max,
            active: Arc::new(Memtable::on(account, memtable_bytes)),
            immutable: Vec::new(),
            last,
            entries: 0,
            has_operands: false,
        }
    }

    fn insert(&mut self, entry: Entry<'_>) {
        // A record may begin with entries that were flushed. Replay may rotate the memtable inside
        // of a batch, since what it reads is durable as a whole.
        if entry.sequence <= self.last {
            return;
        }
        if !self.active.is_empty()
            && (self.active.raw_bytes() + entry.raw_bytes() > self.memtable_bytes
                || self.active.used_bytes() > self.memory_max)
        {
            let next = Arc::new(self.active.another(self.memtable_bytes));
            let memtable = std::mem::replace(&mut self.active, next);
            self.immutable.insert(0, Arc::new(ImmutableMemtable { memtable, last: self.last }));
        }
        self.has_operands |= entry.kind == EntryKind::Merge;
        self.active.insert(entry);
        self.last = entry.sequence;
        self.entries += 1;
    }
}

/// One of [`wal::recover`] and [`wal::read`].
type RecoverWal = fn(&RecoverySettings, &mut dyn FnMut(TreeId, Entry<'_>) -> Result<()>) -> Result<Recovered>;

fn recover_wal(
    recover: RecoverWal,
    env: &Arc<dyn Env>,
    dir: &Path,
    options: &Resolved,
    version: &Version,
    replay: &mut Replay,
) -> Result<Recovered> {
    let settings = RecoverySettings {
        env: env.clone(),
        dir: dir.to_owned(),
        database: version.database(),
        flushed_through: flushed_through(version),
        last_edit: version.edit_number(),
        durable: Position(version.wal_durable()),
        tail: options.tail,
    };
    recover(&settings, &mut |tree, entry| {
        if tree != TREE {
            let what = format!("the WAL has an entry of tree {}; this version knows one tree", tree.0);
            return Err(Error::Unsupported { path: dir.to_owned(), what });
        }
        if let Some(kind) = entry.kind.unserved() {
            let what = format!("the WAL has {kind}, which this version cannot read");
            return Err(Error::Unsupported { path: dir.to_owned(), what });
        }
        replay.insert(entry);
        Ok(())
    })
}

fn recover_manifest(dir: &Path, options: &Resolved, tables: Arc<TableFiles>) -> Result<(Manifest, Option<Dropped>)> {
    if let Some(mut found) = Manifest::recover(&options.env, dir, options.tail, tables.clone())? {
        found.manifest.roll_from(manifest_bytes(dir, options));
        return Ok((found.manifest, found.dropped));
    }
    if !options.create_if_missing {
        return Err(no_database(dir));
    }
    sync_parent(options.env.as_ref(), dir)?;
    let mut manifest = Manifest::create(&options.env, dir, tables)?;
    manifest.roll_from(manifest_bytes(dir, options));
    Ok((manifest, None))
}

/// The sequence number up to which everything is in tables.
fn flushed_through(version: &Version) -> Sequence {
    version.tree(TREE).map_or(Sequence::ZERO, |tree| tree.flushed_through())
}

fn wal_settings(dir: &Path, options: &Resolved, version: &Version) -> WalSettings {
    WalSettings {
        env: options.env.clone(),
        dir: dir.to_owned(),
        database: version.database(),
        allocate_bytes: wal::reserved_bytes(options.memtable_bytes),
    }
}

/// Puts the parts together, without background work.
fn assemble(dir: &Path, options: &Resolved, parts: RecoveredParts) -> Result<Engine> {
    let RecoveredParts { lock, account, cache, tables, manifest, version, shape, replay, last, wal, report } = parts;
    let env = options.env.clone();
    let database = version.database();
    let wal = Arc::new(wal);
    let counters = Arc::new(Counters::default());
    let events = Arc::new(Events::new(options.listener.clone()));
    let (memtables, memtable_bytes) = (options.immutable_memtables_max as u64 + 1, shape.buffer().0);
    let reserve_bytes = options.reserve_bytes;
    let reserve = Reserve::new(env.clone(), dir.to_owned(), events.clone(), reserve_bytes, memtables, memtable_bytes);
    let reserve = Arc::new(reserve);
    let shared = Arc::new(Database::new(last, version.edit_number(), events.clone(), lock));
    let merging = merging(dir, options, &version);
    let tree = Tree::new(TREE, shared.clone(), replay.active, replay.immutable, version, merging.clone());
    let tree = Arc::new(tree);
    let manifest = Arc::new(manifest);
    let interval = Arc::new(IntervalSync::new(env.clone(), wal.clone(), shared.clone()));
    let output = OutputSettings {
        dir: dir.to_owned(),
        database,
        block_bytes: options.block_bytes,
        compression: options.compression,
        digests: options.keeps_digests(),
        merging,
        compaction_filter: options.compaction_filter.clone(),
    };
    let output_context =
        Arc::new(OutputContext::new(output, env.clone(), manifest.clone(), tables.clone(), reserve.clone()));
    let throttle = Arc::new(Throttle::default());
    let around = SchedulerParts {
        env: env.clone(),
        database: shared.clone(),
        tree: tree.clone(),
        wal: wal.clone(),
        manifest: manifest.clone(),
        tables: tables.clone(),
        output_context,
        counters: counters.clone(),
        throttle: throttle.clone(),
        reserve: reserve.clone(),
    };
    let scheduler_settings = SchedulerSettings {
        threads: options.threads,
        table_bytes: options.table_bytes,
        memtable_bytes: options.memtable_bytes,
        memtable_bytes_max: options.memtable_bytes_max,
        immutable_memtables_max: options.immutable_memtables_max,
        memtables_memory_max: options.memtables_memory_max,
        late_memtables_max: options.late_memtables_max,
        compaction_rate: options.compaction_rate,
        space_bound: options.space_bound,
        filter: options.filter,
    };
    let scheduler = Arc::new(Scheduler::new(around, scheduler_settings)?);
    let commit_settings = CommitSettings {
        memtable_bytes: shape.buffer().0,
        immutable_memtables_max: options.immutable_memtables_max,
        memtables_memory_max: options.memtables_memory_max,
        budget: options.budget,
        write_bytes_max: options.write_bytes_max,
        group_bytes: GROUP_BYTES.min(options.budget.total_bytes as usize / GROUP_SHARE),
        throttle,
        large_reads: tables.storage().large_reads().clone(),
        reserve: Some(reserve.clone()),
    };
    let commits = Arc::new(CommitQueue::new(
        commit_settings,
        env.clone(),
        wal.clone(),
        tree.clone(),
        counters.clone(),
        interval.clone(),
        last,
    ));
    let redesign = Arc::new(Redesign::new(
        scheduler.clone(),
        commits.clone(),
        account.clone(),
        wal.clone(),
        reserve.clone(),
        options.filter_digests,
    ));
    let charge = account.charge(MemoryPart::Transactions, 0);
    let locks = Arc::new(LockTable::new(env.clone(), counters.clone(), events.clone(), charge));
    let engine = Engine {
        env,
        dir: dir.into(),
        durability: options.durability,
        database: shared,
        tree,
        wal,
        manifest,
        tables,
        commits,
        locks,
        account,
        cache,
        redesign,
        controller: None,
        counters,
        recovery: report,
        scheduler,
        interval,
        reserve,
        workers: Vec::new(),
    };
    engine.redesign.set_memtable_bytes(shape.buffer().0);
    Ok(engine)
}

/// Starts the background work.
fn start_background(engine: &mut Engine, options: &Resolved) -> Result<()> {
    // Before any table is opened or rebuilt.
    let filters = Arc::new(FilterWorker::new(&engine.scheduler));
    if options.table_access().direct {
        let started = engine.tables.storage().start_read_ahead();
        let reading = started.map_err(|error| Error::io("database: start background work", &engine.dir, error));
        engine.workers.push(reading?);
    }
    let Workers { compacting, syncing } = start_workers(&engine.dir, options, &engine.scheduler, &engine.interval)?;
    engine.database.set_flusher(compacting.clone());
    engine.tables.set_collector(compacting.clone());
    engine.scheduler.set_workers(compacting.clone());
    // There may be a memtable to flush, and a compaction to resume.
    compacting.wake();
    let started = engine.env.start("tamarack-filters", filters);
    let filters = started.map_err(|error| Error::io("database: start background work", &engine.dir, error));
    let filters = filters.inspect_err(|_| [&compacting, &syncing].into_iter().for_each(|worker| worker.stop()))?;
    engine.scheduler.filters().set_worker(filters.clone());
    filters.wake();
    engine.workers.extend([compacting, syncing, filters]);
    start_collapsing(engine)?;
    start_controller(engine, options)?;
    start_telling(engine)
}

/// Starts the worker that changes the design while the policy is automatic.
fn start_controller(engine: &mut Engine, options: &Resolved) -> Result<()> {
    let parts = ControllerParts {
        env: engine.env.clone(),
        database: engine.database.clone(),
        tree: engine.tree.clone(),
        scheduler: engine.scheduler.clone(),
        commits: engine.commits.clone(),
        account: engine.account.clone(),
        cache: engine.cache.clone(),
        reserve: engine.reserve.clone(),
        counters: engine.counters.clone(),
        redesign: engine.redesign.clone(),
    };
    let settings = ControllerSettings {
        calibrated: calibrated(&*engine.env, &engine.dir),
        block_bytes: options.block_bytes as u64,
        is_block_given: options.is_block_given,
        space_bound: options.space_bound,
        memtable_bytes_max: options.usual_memtable_bytes_max(),
        is_memtable_given: options.is_memtable_given,
        is_filter_given: !options.keeps.filter || !options.filter_digests,
    };
    let controller = Arc::new(Controller::new(parts, settings));
    let started = engine.env.start("tamarack-controller", controller.clone());
    let worker = started.map_err(|error| Error::io("database: start background work", &engine.dir, error))?;
    controller.set_worker(worker.clone());
    engine.controller = Some(controller);
    engine.workers.push(worker);
    Ok(())
}

/// The figures that were measured where the database is. They only inform predictions, so ones that
/// cannot be read are left out.
fn calibrated(env: &dyn Env, dir: &Path) -> Option<Device> {
    let is_there = matches!(Listing::find(env, dir), Ok(Some(listing)) if listing.files().any(|file| file == FileName::Calibration));
    let load = || {
        calibration::load(env, dir)
            .inspect_err(|error| tracing::warn!(%error, "calibration cannot be used; calibrate again"))
    };
    is_there.then(load)?.ok()
}

/// Starts the worker that gets huge pages for the cache, where there are some.
fn start_collapsing(engine: &mut Engine) -> Result<()> {
    let started = engine.cache.start_collapsing(&engine.env);
    let worker = started.map_err(|error| Error::io("database: start background work", &engine.dir, error))?;
    engine.workers.extend(worker);
    Ok(())
}

/// Starts the worker that calls the listener, if there is one. It changes nothing on storage.
fn start_telling(engine: &mut Engine) -> Result<()> {
    let events = engine.database.events.clone();
    if events.is_heard() {
        let started = engine.env.start("tamarack-events", events.clone());
        let worker = started.map_err(|error| Error::io("database: start background work", &engine.dir, error))?;
        events.set_worker(worker.clone());
        engine.workers.push(worker);
    }
    Ok(())
}

/// Records in the manifest that there is a WAL: from then on, opening notices when it is missing.
fn note_birth(manifest: &Manifest, wal: &Wal, version: Arc<Version>) -> Result<Arc<Version>> {
    if version.wal_durable() > 0 {
        return Ok(version);
    }
    manifest.commit(vec![Change::WalDurable { position: wal.durable().0 }])
}

/// The options, with the database's present design where they leave it open.
fn with_kept_design(dir: &Path, options: &Resolved, version: &Version) -> Result<Resolved> {
    let mut options = options.clone();
    if let Some(stored) = stored_design(dir, version)? {
        let Kept { memtable_bytes, filter, space_bound } = options.keeps;
        // What the navigator has chosen stays, whatever would follow from the budget, if it fits
        // that.
        let is_chosen = stays_automatic(&stored, &options)
            && !stored.decisions.is_empty()
            && !options.is_memtable_given
            && stored.shape.buffer().0 <= options.usual_memtable_bytes_max();
        if memtable_bytes || is_chosen {
            options.memtable_bytes = stored.shape.buffer().0;
        }
        if filter {
            options.filter = stored.filter;
        }
        if space_bound {
            options.space_bound = stored.space_bound;
        }
    }
    Ok(options)
}

/// True if the tree's policy is automatic, and stays so.
fn stays_automatic(stored: &TreeDesign, options: &Resolved) -> bool {
    let is_auto = |policy: &Policy| matches!(policy, Policy::Auto(_));
    is_auto(&stored.policy) && options.policy.as_deref().is_none_or(is_auto)
}

/// The design of the tree, if it has one; an error if its runs do not fit its shape.
fn stored_design(dir: &Path, version: &Version) -> Result<Option<TreeDesign>> {
    let tree = version.tree(TREE).expect("every database has the one tree");
    let stored = tree.shape().map(TreeDesign::decode).transpose().map_err(|error| Error::shape(dir, error))?;
    let levels = stored.as_ref().map_or(usize::MAX, |design| design.shape.last());
    tree.check_levels(levels).map_err(|Broken(why)| Error::corruption(dir, 0, format!("the manifest: {why}")))?;
    Ok(stored)
}

/// Gives the tree the design of the options, if it has another or none. Moves no bytes.
fn settle_shape(
    dir: &Path,
    options: &Resolved,
    manifest: &Manifest,
    version: Arc<Version>,
) -> Result<(Arc<Version>, Shape)> {
    let tree = version.tree(TREE).expect("every database has the one tree");
    let stored = stored_design(dir, &version)?;
    let wanted: &Policy = match (&options.policy, &stored) {
        (Some(policy), _) => policy,
        (None, Some(design)) => &design.policy,
        (None, None) => &Auto::new().into(),
    };
    // What the navigator has chosen stays, unless somebody else chooses now.
    let keeps_blocks = |stored: &&TreeDesign| stays_automatic(stored, options) && !options.is_block_given;
    let block_bytes = stored.as_ref().filter(keeps_blocks).and_then(|stored| stored.block_bytes);
    let decisions = stored.as_ref().map_or_else(Vec::new, |design| design.decisions.clone());
    let policy = Arc::new(begun(wanted, stored.as_ref().map(|design| &*design.policy)));
    let occupancy = tree.occupancy();
    let wanted = design::shape_of(&policy, occupancy.bytes(), options.memtable_bytes, options.memtable_bytes_max)?;
    // A shape that the tree has grown into stays.
    let kept = stored.filter(|design| design.policy == policy && design.shape.buffer() == wanted.buffer());
    let shape = kept.as_ref().map_or(wanted, |design| design.shape.clone());
    let (filter, space_bound) = (options.filter, options.space_bound);
    let design = TreeDesign { policy, filter, space_bound, block_bytes, decisions, shape: shape.clone() };
    let blob = design.encode();
    if tree.shape() == Some(&blob) {
        return Ok((version, shape));
    }
    let changes = match kept {
        Some(_) => vec![Change::ShapeSet { tree: TREE, shape: blob }],
        None => compaction::reshaped(tree, blob, &shape),
    };
    let reopened = version.wal_end().map(|_| Change::WalReopened);
    let version = manifest.commit(reopened.into_iter().chain(changes).collect())?;
    Ok((version, shape))
}

/// Returns an error if the options have another merge operator than that of the operands in the
/// database.
fn check_operator(dir: &Path, options: &Resolved, version: &Version, has_operands: bool) -> Result<()> {
    let tree = version.tree(TREE).expect("every database has the one tree");
    let (Some(registered), Some(recorded)) = (&options.merge_operator, tree.merge_operator()) else { return Ok(()) };
    let name = registered.0.name();
    if name == &**recorded || !(has_operands || tree.has_merge_operands()) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{}: the database has operands of merge operator {recorded}, and is opened with {name}: register {recorded}, or \
         compact the database with it before the operator is replaced",
        dir.display()
    )))
}

/// Records the merge operator of the options, if another one or none is recorded.
fn settle_operator(
    dir: &Path,
    options: &Resolved,
    manifest: &Manifest,
    version: Arc<Version>,
    has_operands: bool,
) -> Result<Arc<Version>> {
    check_operator(dir, options, &version, has_operands)?;
    let recorded = version.tree(TREE).and_then(|tree| tree.merge_operator());
    let Some(registered) = &options.merge_operator else { return Ok(version) };
    let name = registered.0.name();
    if recorded.is_some_and(|recorded| **recorded == *name) {
        return Ok(version);
    }
    let reopened = version.wal_end().map(|_| Change::WalReopened);
    let set = Change::MergeOperatorSet { tree: TREE, name: name.into() };
    manifest.commit(reopened.into_iter().chain([set]).collect())
}

/// The merge operator of the options; without one, the ready-made one that is recorded.
fn merging(dir: &Path, options: &Resolved, version: &Version) -> Arc<Merging> {
    let recorded = version.tree(TREE).and_then(|tree| tree.merge_operator()).cloned();
    let registered = options.merge_operator.as_ref().map(|registered| registered.0.clone());
    let ready = || recorded.as_deref().and_then(operator::ready::by_name);
    Merging::new(dir.into(), registered.or_else(ready), recorded)
}

/// The background workers of a database.
struct Workers {
    /// The workers for flushes and compactions, as one.
    compacting: Arc<dyn Worker>,
    syncing: Arc<dyn Worker>,
}

fn start_workers(
    dir: &Path,
    options: &Resolved,
    scheduler: &Arc<Scheduler>,
    interval: &Arc<IntervalSync>,
) -> Result<Workers> {
    let start = |name: &str, work: Arc<dyn Work>| {
        options.env.start(name, work).map_err(|error| Error::io("database: start background work", dir, error))
    };
    let mut group = WorkerGroup::default();
    for number in 0..options.threads {
        let started = start(&format!("tamarack-compaction-{number}"), scheduler.clone());
        group.members.push(started.inspect_err(|_| group.stop())?);
    }
    let syncing = start("tamarack-sync", interval.clone()).inspect_err(|_| group.stop())?;
    interval.set_worker(syncing.clone());
    Ok(Workers { compacting: Arc::new(group), syncing })
}

/// A manifest is rewritten at the latest at one part in this many of the disk, or at its minimum.
const MANIFESTS_PER_DISK: u64 = 256;
const MANIFEST_BYTES_MIN: u64 = 64 << 10;

/// Returns the size from which on a manifest is rewritten: a small one on a small disk, which has
/// little space for it.
fn manifest_bytes(dir: &Path, options: &Resolved) -> u64 {
    let space = options.env.space(dir).ok().flatten();
    let most = space.map_or(u64::MAX, |space| (space.total_bytes / MANIFESTS_PER_DISK).max(MANIFEST_BYTES_MIN));
    options.manifest_bytes.min(most)
}

/// Upper bound on a commit group of several members, in bytes: enough to share a sync among
/// hundreds of small writes, small enough that no member waits long for others' bytes.
const GROUP_BYTES: usize = 1 << 20;

/// And this share of the memory budget: there are two groups, which keep that much memory.
const GROUP_SHARE: usize = 64;

#[cfg(test)]
mod tests {
    use tamarack_env::sim::SimEnv;

    use super::*;
    use crate::options::{AdvancedOptions, Options};

    /// The cache and the share of index blocks begin with what memtables leave of the memory, not
    /// with all of it.
    #[test]
    fn memory_for_memtables_is_kept_free_from_the_beginning() {
        let capacities = |memtable_bytes| {
            let advanced = AdvancedOptions::new().env(Arc::new(SimEnv::new(1))).memtable_bytes(memtable_bytes);
            let options = Options::new().memory_bytes(64 << 20).advanced(advanced).resolve().expect("valid");
            let (account, _cache, tables) = table_files(Path::new("/db"), &options);
            assert_eq!(account.cache_capacity(), account.cache_share());
            (account.cache_capacity(), tables.storage().index_budget().capacity_bytes())
        };
        let (small, large) = (capacities(1 << 20), capacities(4 << 20));
        assert_eq!(small.0 - large.0, 9 << 20);
        assert_eq!((small.1, large.1), (small.0 / INDEX_SHARE, large.0 / INDEX_SHARE));
    }
}
