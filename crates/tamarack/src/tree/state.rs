//! [`Tree`]: one tree (keyspace), and the state of it that readers pin.
//!
//! ```text
//!            State ──┬── active    the memtable that commits go into
//!   (one Arc, behind ├── immutable immutable memtables that wait to be flushed, young to old
//!    an ArcSwap)     ├── version   the tables on storage
//!                    ├── tree      this tree's part of it: its runs
//!                    └── filter    the filter over the whole tree, if it has one
//! ```
//!
//! Every entry of `active` is younger than every entry of `immutable`, which is younger than every
//! entry of `version`; the immutable memtables are ordered among themselves. So the first version
//! found in this order is the youngest.
//!
//! Writers, readers, and background work meet here and only here: writers rotate the memtable,
//! background work installs versions, readers pin. [`Database`] has what does not belong to one
//! tree.
//!
//! # Pins
//!
//! Pinning takes no lock. Gets and scans pin **different objects**: a get pins the published state
//! itself ([`GetPin`]) and counts no reference on a shared cache line; a scan counts one on a twin
//! of the state ([`ScanPin`]), and may live for hours. So when a replaced state has no reference
//! left, every get that began on it has ended, whatever scans there are. A filter over the whole
//! tree needs to know that before it reuses a run's name.
//!
//! The schedule explorer cannot look into the pointer, so a [`schedule_point`] precedes each
//! access.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tamarack_env::sync::atomic::{AtomicBool, Ordering};
use tamarack_env::sync::{Mutex, Rank, schedule_point};

use crate::database::Database;
use crate::entry::{Query, Sequence};
use crate::format::meta::TreeId;
use crate::memtable::Memtable;
use crate::operator::Merging;
use crate::range_tombstones::RangeTombstones;
use crate::stats::LookupCounters;
use crate::tree::level_ids::{FilterView, LevelIds};
use crate::tree::version::{TreeVersion, Version};

/// A consistent view of a tree: memtables and version. A clone refers to the same memtables and
/// runs.
#[derive(Clone, Debug)]
pub struct State {
    /// The active memtable, into which writes are committed.
    pub active: Arc<Memtable>,
    /// Immutable memtables, young to old.
    pub immutable: Arc<[Arc<ImmutableMemtable>]>,
    /// The runs on storage, of all trees.
    pub version: Arc<Version>,
    /// This tree's part of `version`.
    tree: Arc<TreeVersion>,
    /// True if that has range deletes: each lookup asks.
    has_range_deletes: bool,
    /// The filter over the whole tree, if there is one.
    filter: Option<Arc<FilterView>>,
    /// The same without the filter, for scans; `None` in that. Made when the state is published.
    for_scans: Option<Arc<Self>>,
}

impl State {
    fn new(id: TreeId, active: Arc<Memtable>, immutable: Arc<[Arc<ImmutableMemtable>]>, version: Arc<Version>) -> Self {
        let tree = version.expect_tree(id).clone();
        let has_range_deletes = !tree.range_deletes().is_empty();
        Self { active, immutable, version, tree, has_range_deletes, filter: None, for_scans: None }
    }

    /// The state as it is published.
    fn with_twin(self) -> Arc<Self> {
        let twin = Self { filter: None, for_scans: None, ..self.clone() };
        Arc::new(Self { for_scans: Some(Arc::new(twin)), ..self })
    }

    /// Returns the filter over the whole tree, if it has one.
    #[inline]
    pub fn filter(&self) -> Option<&FilterView> {
        self.filter.as_deref()
    }

    /// Returns this tree's part of the version.
    #[inline]
    pub fn tree(&self) -> &Arc<TreeVersion> {
        &self.tree
    }

    /// Returns all memtables, young to old.
    #[inline]
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.immutable.iter().map(|immutable| &immutable.memtable))
    }

    /// Returns all range tombstones: those of memtables, and those that tables need. `None` if
    /// there is none.
    #[inline]
    pub fn range_tombstones(&self) -> Option<RangeTombstones> {
        let has_some = self.has_range_deletes || self.memtables().any(|memtable| memtable.has_range_tombstones());
        has_some.then(|| self.all_range_tombstones())
    }

    #[cold]
    #[inline(never)]
    fn all_range_tombstones(&self) -> RangeTombstones {
        let mut all = self.tree.range_deletes().tombstones().clone();
        self.memtables().for_each(|memtable| all.extend(&memtable.range_tombstones()));
        all
    }

    /// Returns the floor of the query's key in tables, of which range deletes hide what is below:
    /// see [`RangeTombstones::floor`].
    #[inline]
    pub fn floor_in_tables(&self, query: Query<'_>) -> Sequence {
        // Not the query itself, which would be copied for the call.
        if self.has_range_deletes { self.find_floor_in_tables(query.key(), query.sequence()) } else { Sequence::ZERO }
    }

    #[cold]
    #[inline(never)]
    fn find_floor_in_tables(&self, key: &[u8], sequence: Sequence) -> Sequence {
        self.tree.range_deletes().tombstones().floor(key, sequence)
    }

    /// Returns the memory of all memtables, in bytes.
    pub fn memtables_memory_bytes(&self) -> u64 {
        self.memtables().map(|memtable| memtable.memory_bytes()).sum()
    }

    /// Returns the raw bytes of all memtables.
    pub fn memtables_raw_bytes(&self) -> u64 {
        self.memtables().map(|memtable| memtable.raw_bytes()).sum()
    }
}

/// An immutable memtable: it takes no more commit groups and waits to be flushed.
#[derive(Debug)]
pub struct ImmutableMemtable {
    /// Its entries; complete once [`ImmutableMemtable::last`] is visible.
    pub memtable: Arc<Memtable>,
    /// The last sequence that can be in it.
    pub last: Sequence,
}

/// A get's pin: the published state itself, for one lookup. Never kept longer.
pub struct GetPin(Guard<Arc<State>>);

impl Deref for GetPin {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.0
    }
}

/// A scan's pin: memtables and runs, for any length of time. Does not pin the published state.
#[derive(Clone, Debug)]
pub struct ScanPin(Arc<State>);

impl Deref for ScanPin {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// One tree: its memtables, its version, and the counters of its lookups.
pub struct Tree {
    id: TreeId,
    /// The database that the tree belongs to.
    pub database: Arc<Database>,
    state: ArcSwap<State>,
    /// True while the published state has immutable memtables, and a little longer at both ends, so
    /// that writers need not pin a state that has none.
    has_immutable: AtomicBool,
    /// True while the published state has range deletes that tables need, and a little longer at
    /// both ends: whoever ends a snapshot then wakes the workers that apply them.
    has_range_deletes: AtomicBool,
    /// Protects the replacement of `state`.
    replacing: Mutex<()>,
    /// The filter over the whole tree, if it has one. States get their part of it when they are
    /// published.
    level_ids: Mutex<Option<LevelIds>>,
    /// Counters of lookups.
    pub lookups: LookupCounters,
    /// The merge operator of the tree.
    pub merging: Arc<Merging>,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Tree {
    /// Creates the tree `id` of `version`, with these memtables (`immutable` young to old) and this
    /// merge operator.
    ///
    /// # Panics
    /// If the version has no such tree.
    pub fn new(
        id: TreeId,
        database: Arc<Database>,
        active: Arc<Memtable>,
        immutable: Vec<Arc<ImmutableMemtable>>,
        version: Arc<Version>,
        merging: Arc<Merging>,
    ) -> Self {
        let lookups = version.files.storage().lookups().clone();
        let has_immutable = AtomicBool::new(!immutable.is_empty());
        let has_range_deletes = AtomicBool::new(!version.expect_tree(id).range_deletes().is_empty());
        let state = ArcSwap::new(State::new(id, active, immutable.into(), version).with_twin());
        let (replacing, level_ids) = (Mutex::new(Rank::TreeState, ()), Mutex::new(Rank::LevelIds, None));
        Self { id, database, state, has_immutable, has_range_deletes, replacing, level_ids, lookups, merging }
    }

    /// Returns the tree's number in the manifest and in the WAL.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// Returns this tree's part of a version.
    pub fn of<'a>(&self, version: &'a Version) -> &'a Arc<TreeVersion> {
        version.expect_tree(self.id)
    }

    /// Pins the current state for one operation. A reader pins first and reads the visible sequence
    /// second.
    #[inline]
    pub fn pin(&self) -> GetPin {
        schedule_point();
        GetPin(self.state.load())
    }

    /// Returns true if the current state may have immutable memtables; false is certain, as of a
    /// moment ago. Cheaper than a pin.
    #[inline]
    pub fn may_have_immutable(&self) -> bool {
        self.has_immutable.load(Ordering::Acquire)
    }

    /// Returns true if tables of the current state may need range deletes.
    #[inline]
    pub fn may_have_range_deletes(&self) -> bool {
        self.has_range_deletes.load(Ordering::Acquire)
    }

    /// Wakes the workers if there is a range delete that a snapshot of this sequence, which has
    /// ended, did not see: nobody else may need what that hides.
    #[cold]
    pub fn wake_for_range_deletes(&self, ended: Sequence) {
        if self.pin().tree().range_deletes().list().last().is_some_and(|last| last.sequence > ended) {
            self.database.wake_flusher();
        }
    }

    /// Pins the current memtables and runs for any length of time, without the filter over the
    /// whole tree: scans do not ask it, and would keep the memory of partitions that others have
    /// replaced.
    pub fn pin_scan(&self) -> ScanPin {
        let state = self.pin();
        ScanPin(state.for_scans.clone().expect("what is published has a twin for scans"))
    }

    /// A state like the current one.
    fn present(&self) -> State {
        State::clone(&self.pin())
    }

    /// Returns true if flushes and compactions that are due or in progress may free space on the
    /// disk: WAL segments, or entries that tombstones hide.
    pub fn frees_space(&self) -> bool {
        let state = self.pin();
        let has_tombstones = || state.tree().tables().any(|table| table.meta().tombstones > 0);
        let has_range_deletes = !state.tree().range_deletes().is_empty();
        !state.immutable.is_empty() || !state.tree().compactions().is_empty() || has_range_deletes || has_tombstones()
    }

    /// Rotates the memtable: makes the active one, whose last sequence is `last`, immutable and
    /// opens a new one for about `raw_bytes`, which is returned. Only between commit groups.
    pub fn rotate_memtable(&self, last: Sequence, raw_bytes: u64) -> Arc<Memtable> {
        let replacing = self.replacing.lock();
        let state = self.present();
        let youngest = state.immutable.first();
        assert!(youngest.is_none_or(|immutable| immutable.last <= last), "rotated at {last:?}, after {youngest:?}");
        let active = Arc::new(state.active.another(raw_bytes));
        let immutable = Arc::new(ImmutableMemtable { memtable: state.active.clone(), last });
        let immutable = [immutable].into_iter().chain(state.immutable.iter().cloned()).collect();
        let replaced = self.publish(State { active: active.clone(), immutable, ..state });
        drop(replacing);
        drop(replaced);
        active
    }

    /// Installs a durable version, unless a younger one, which includes it, came first. Removes the
    /// immutable memtables that are in its tables.
    pub fn install(&self, version: Arc<Version>) {
        self.database.advance_durable_edit(version.edit_number());
        let replacing = self.replacing.lock();
        let state = self.present();
        if version.edit_number() <= state.version.edit_number() {
            return;
        }
        let flushed = self.of(&version).flushed_through();
        let left = state.immutable.partition_point(|immutable| immutable.last > flushed);
        let immutable =
            if left == state.immutable.len() { state.immutable.clone() } else { state.immutable[..left].into() };
        state.immutable[left..].iter().for_each(|flushed| flushed.memtable.note_flushed());
        let new = State::new(self.id, state.active.clone(), immutable, version);
        let filter = self.level_ids.lock().as_ref().map(|ids| ids.view(new.tree()));
        let is_changed = !Arc::ptr_eq(state.tree(), new.tree());
        let replaced = self.publish(State { filter, ..new });
        drop(replacing);
        if is_changed {
            state.tree().kept_cursors().retire();
        }
        drop((replaced, state));
    }

    /// Looks at the filter over the whole tree, or changes what no published state has yet.
    pub fn level_ids<T>(&self, look: impl FnOnce(&mut Option<LevelIds>) -> T) -> T {
        look(&mut self.level_ids.lock())
    }

    /// Changes the filter over the whole tree, and publishes a state with it.
    pub fn change_filter<T>(&self, change: impl FnOnce(&mut Option<LevelIds>, &TreeVersion) -> T) -> T {
        let replacing = self.replacing.lock();
        let state = self.present();
        let (changed, filter) = {
            let mut ids = self.level_ids.lock();
            (change(&mut ids, state.tree()), ids.as_ref().map(|ids| ids.view(state.tree())))
        };
        let replaced = self.publish(State { filter, ..state.clone() });
        drop(replacing);
        drop((replaced, state));
        changed
    }

    /// Publishes a state, and returns the one that it replaces. The caller holds `replacing`, and
    /// drops what is replaced without that: it may be the last reference to memtables and versions.
    fn publish(&self, state: State) -> Arc<State> {
        schedule_point();
        let has_immutable = !state.immutable.is_empty();
        let has_range_deletes = !state.tree.range_deletes().is_empty();
        self.has_range_deletes.store(has_range_deletes, Ordering::Release);
        if has_immutable {
            // Before the state, so that whoever has seen the state's memtables has seen this.
            self.has_immutable.store(true, Ordering::Release);
        }
        let replaced = self.state.swap(state.with_twin());
        if !has_immutable {
            self.has_immutable.store(false, Ordering::Release);
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tamarack_env::MemoryEnv;

    use super::*;
    use crate::entry::{Entry, EntryKind};
    use crate::format::edit::{Change, Edit};
    use crate::format::meta::EditNumber;
    use crate::table::TableStorage;
    use crate::tree::table_file::TableFiles;

    fn new_tree() -> Tree {
        let env = MemoryEnv::new(1);
        let lock = env.lock(Path::new("LOCK")).expect("nobody has it");
        let files = TableFiles::new(TableStorage::buffered(env, 0), Path::new("/trees"));
        let version = Arc::new(Version::new(7, files));
        let database = Arc::new(Database::new(Sequence::ZERO, version.edit_number(), Arc::default(), lock));
        let merging = Merging::new(Path::new("/trees").into(), None, None);
        Tree::new(TreeId::DEFAULT, database, Arc::default(), Vec::new(), version, merging)
    }

    /// Returns the version after one more edit, with everything up to `flushed` in tables.
    fn next(version: &Version, flushed: u64) -> Arc<Version> {
        let change = Change::FlushedThrough { tree: TreeId::DEFAULT, sequence: Sequence(flushed) };
        let edit = Edit { number: EditNumber(version.edit_number().0 + 1), changes: vec![change] };
        Arc::new(version.apply(&edit).expect("it fits").version)
    }

    fn put_and_rotate(tree: &Tree, sequence: u64) {
        let entry = Entry { key: b"oak", sequence: Sequence(sequence), kind: EntryKind::Put, value: b"" };
        tree.pin().active.insert(entry);
        tree.rotate_memtable(Sequence(sequence), 1 << 20);
    }

    fn waiting(tree: &Tree) -> Vec<u64> {
        tree.pin().immutable.iter().map(|immutable| immutable.last.0).collect()
    }

    /// A replaced state lives as long as gets that began on it, independent of scans.
    #[test]
    fn a_replaced_state_goes_with_its_last_get() {
        let tree = new_tree();
        let published = Arc::downgrade(&tree.state.load_full());
        let (get, scan) = (tree.pin(), tree.pin_scan());
        put_and_rotate(&tree, 1);
        assert!(published.upgrade().is_some(), "a get that began on it has not ended");
        drop(get);
        assert!(published.upgrade().is_none(), "every get that began on it has ended");
        assert_eq!(scan.active.entries(), 1, "the scan still has its memtable");
    }

    /// Installing a version removes exactly the memtables that are in its tables, in whatever order
    /// versions are installed.
    #[test]
    fn a_version_replaces_its_flushed_memtables() {
        let tree = new_tree();
        (1..=3).for_each(|sequence| put_and_rotate(&tree, sequence));
        let first = tree.pin_scan().version.clone();
        let (one, two) = (next(&first, 1), next(&next(&first, 1), 2));
        tree.install(two);
        assert_eq!(waiting(&tree), [3]);
        assert!(tree.may_have_immutable());
        assert_eq!(tree.database.durable_edit(), EditNumber(3));
        tree.install(one.clone());
        assert_eq!(waiting(&tree), [3], "an older version has no effect");
        assert_eq!((tree.pin().version.edit_number(), tree.database.durable_edit()), (EditNumber(3), EditNumber(3)));
        tree.install(next(&next(&next(&one, 2), 2), 3));
        assert_eq!(waiting(&tree), [0; 0]);
        assert!(!tree.may_have_immutable(), "writers pin no state that has none");
        put_and_rotate(&tree, 4);
        assert!(tree.may_have_immutable());
    }
}
