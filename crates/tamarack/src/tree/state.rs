//! [`Tree`]: one tree (keyspace), and the state of it that readers pin.
//!
//! ```text
//!            State ──┬── active    the memtable that commits go into
//!   (one Arc, behind ├── sealed    immutable memtables that wait to be flushed, young to old
//!    an ArcSwap)     ├── version   what is on storage
//!                    └── tree      this tree's part of it: its runs
//! ```
//!
//! Every entry of `active` is younger than every entry of `immutable`, which is younger than every
//! entry of `version`; the immutable memtables are ordered among themselves. So the first answer on
//! the way down is the youngest.
//!
//! Writers, readers, and background work meet here and only here: writers make memtables immutable,
//! background work installs versions, readers pin. What does not belong to one tree stands in
//! [`Database`].
//!
//! # Pins
//!
//! Pinning takes no lock and counts no reference on a shared cache line. Gets and scans pin
//! **different objects**: a get pins the published state itself ([`GetPin`]), a scan copies what
//! the state refers to ([`ScanPin`]), and may live for hours. So once a replaced state has no
//! reference left, every get that began on it has ended, whatever scans there are. A filter over
//! the whole tree needs to know that before it uses a run's name again.
//!
//! The schedule explorer cannot see into the pointer, so a [`schedule_point`] stands before each
//! access.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tamarack_env::sync::{Mutex, schedule_point};

use crate::database::Database;
use crate::entry::Sequence;
use crate::format::meta::TreeId;
use crate::memtable::Memtable;
use crate::stats::LookupCounters;
use crate::tree::version::{TreeVersion, Version};

/// One consistent view of a tree. A clone refers to the same memtables and runs.
#[derive(Clone, Debug)]
pub struct State {
    /// The memtable that takes what is committed.
    pub active: Arc<Memtable>,
    /// Immutable memtables, young to old.
    pub immutable: Arc<[Arc<ImmutableMemtable>]>,
    /// What is on storage.
    pub version: Arc<Version>,
    /// This tree's part of `version`.
    tree: Arc<TreeVersion>,
}

impl State {
    fn new(id: TreeId, active: Arc<Memtable>, immutable: Arc<[Arc<ImmutableMemtable>]>, version: Arc<Version>) -> Self {
        let tree = version.expect_tree(id).clone();
        Self { active, immutable, version, tree }
    }

    /// What this tree has on storage.
    #[inline]
    pub fn tree(&self) -> &Arc<TreeVersion> {
        &self.tree
    }

    /// Memory of all memtables, in bytes.
    pub fn memtables_memory_bytes(&self) -> u64 {
        let immutable: u64 = self.immutable.iter().map(|immutable| immutable.buffer.memory_bytes()).sum();
        self.active.memory_bytes() + immutable
    }

    /// Raw bytes of all memtables.
    pub fn memtables_raw_bytes(&self) -> u64 {
        let immutable: u64 = self.immutable.iter().map(|immutable| immutable.buffer.raw_bytes()).sum();
        self.active.raw_bytes() + immutable
    }
}

/// An immutable memtable: it takes no more commit groups.
#[derive(Debug)]
pub struct ImmutableMemtable {
    /// Its entries; complete once [`ImmutableMemtable::last`] is visible.
    pub buffer: Arc<Memtable>,
    /// The last sequence that can be in it.
    pub last: Sequence,
}

/// A get's pin: the published state itself, for the duration of one lookup. Never kept longer.
pub struct GetPin(Guard<Arc<State>>);

impl Deref for GetPin {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.0
    }
}

/// A scan's pin: memtables and runs, for as long as one likes. Does not keep the published state.
#[derive(Debug)]
pub struct ScanPin(State);

impl Deref for ScanPin {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// One tree: its memtables, its version, and the counters of its lookups.
pub struct Tree {
    id: TreeId,
    /// The database that it belongs to.
    pub database: Arc<Database>,
    state: ArcSwap<State>,
    /// Held by whoever replaces `state`.
    replacing: Mutex<()>,
    /// What lookups did.
    pub lookups: LookupCounters,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Tree {
    /// The tree `id` of `version`, with these memtables (`immutable` young to old).
    ///
    /// # Panics
    /// If the version has no such tree.
    pub fn new(
        id: TreeId,
        database: Arc<Database>,
        active: Arc<Memtable>,
        immutable: Vec<Arc<ImmutableMemtable>>,
        version: Arc<Version>,
    ) -> Self {
        let lookups = version.files.storage().lookups().clone();
        let state = ArcSwap::from_pointee(State::new(id, active, immutable.into(), version));
        Self { id, database, state, replacing: Mutex::default(), lookups }
    }

    /// The tree's number in the manifest and in the WAL.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// This tree's part of a version.
    pub fn of<'a>(&self, version: &'a Version) -> &'a Arc<TreeVersion> {
        version.expect_tree(self.id)
    }

    /// The state now, for the duration of one operation. A reader pins first and asks for the
    /// visible sequence second.
    #[inline]
    pub fn pin(&self) -> GetPin {
        schedule_point();
        GetPin(self.state.load())
    }

    /// What the state now refers to, to be kept.
    pub fn pin_scan(&self) -> ScanPin {
        ScanPin(State::clone(&self.pin()))
    }

    /// Makes the active memtable, whose last sequence is `last`, immutable and opens a new one,
    /// which is returned. Only between commit groups.
    pub fn seal(&self, last: Sequence) -> Arc<Memtable> {
        let _replacing = self.replacing.lock();
        let state = self.pin_scan();
        let youngest = state.immutable.first();
        assert!(youngest.is_none_or(|immutable| immutable.last <= last), "sealed {youngest:?} after {last:?}");
        let active = Arc::new(state.active.another());
        let immutable = Arc::new(ImmutableMemtable { buffer: state.active.clone(), last });
        let immutable = [immutable].into_iter().chain(state.immutable.iter().cloned()).collect();
        self.publish(State { active: active.clone(), immutable, ..state.0 });
        active
    }

    /// Shows readers a durable version, unless a younger one, which has all of it, came first.
    /// Immutable memtables that are in its tables go.
    pub fn install(&self, version: Arc<Version>) {
        self.database.advance_durable_edit(version.edit_number());
        let _replacing = self.replacing.lock();
        let state = self.pin_scan();
        if version.edit_number() <= state.version.edit_number() {
            return;
        }
        let flushed = self.of(&version).flushed_through();
        let left = state.immutable.partition_point(|immutable| immutable.last > flushed);
        let immutable =
            if left == state.immutable.len() { state.immutable.clone() } else { state.immutable[..left].into() };
        self.publish(State::new(self.id, state.active.clone(), immutable, version));
    }

    /// Puts a state in place of the old one. The caller holds `replacing`.
    fn publish(&self, state: State) {
        schedule_point();
        self.state.store(Arc::new(state));
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
        Tree::new(TreeId::DEFAULT, database, Arc::default(), Vec::new(), version)
    }

    /// The version after one more edit, with everything up to `flushed` in tables.
    fn next(version: &Version, flushed: u64) -> Arc<Version> {
        let change = Change::FlushedThrough { tree: TreeId::DEFAULT, sequence: Sequence(flushed) };
        let edit = Edit { number: EditNumber(version.edit_number().0 + 1), changes: vec![change] };
        Arc::new(version.apply(&edit).expect("it fits").version)
    }

    fn put_and_seal(tree: &Tree, sequence: u64) {
        let entry = Entry { key: b"oak", sequence: Sequence(sequence), kind: EntryKind::Put, value: b"" };
        tree.pin().active.insert(entry);
        tree.seal(Sequence(sequence));
    }

    fn waiting(tree: &Tree) -> Vec<u64> {
        tree.pin().immutable.iter().map(|immutable| immutable.last.0).collect()
    }

    /// A replaced state lives as long as gets that began on it, whatever scans began on it and go
    /// on.
    #[test]
    fn a_replaced_state_goes_with_its_last_get() {
        let tree = new_tree();
        let published = Arc::downgrade(&tree.state.load_full());
        let (get, scan) = (tree.pin(), tree.pin_scan());
        put_and_seal(&tree, 1);
        assert!(published.upgrade().is_some(), "a get that began on it goes on");
        drop(get);
        assert!(published.upgrade().is_none(), "every get that began on it has ended");
        assert_eq!(scan.active.entries(), 1, "the scan still has its memtable");
    }

    /// A version takes exactly those memtables along that are in its tables, in whatever order
    /// versions are installed.
    #[test]
    fn a_version_replaces_the_memtables_it_has() {
        let tree = new_tree();
        (1..=3).for_each(|sequence| put_and_seal(&tree, sequence));
        let first = tree.pin_scan().version.clone();
        let (one, two) = (next(&first, 1), next(&next(&first, 1), 2));
        tree.install(two);
        assert_eq!(waiting(&tree), [3]);
        assert_eq!(tree.database.durable_edit(), EditNumber(3));
        tree.install(one);
        assert_eq!(waiting(&tree), [3], "an older version changes nothing");
        assert_eq!((tree.pin().version.edit_number(), tree.database.durable_edit()), (EditNumber(3), EditNumber(3)));
    }
}
