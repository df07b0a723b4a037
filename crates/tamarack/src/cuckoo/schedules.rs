//! Lookups beside flushes, compactions and moves in every order of steps, and in the orders that
//! the module forbids, each of which loses a key.
//!
//! The tree here is small: its state says which runs a LID means, and which keys a run has. One
//! key is always in it.
//!
//! ```text
//!  a  two runs, LIDs 0 and 1, both with the key
//!  b  a compaction of both hands over: its output shares LID 0; the key's entry with LID 1 goes
//!  c  a flush takes LID 1 for a run without the key
//!  d  the partition is made anew
//!  e  a compaction of both hands over: its output shares LID 1, which the key's entry with LID 0
//!     gets; LID 0 means the output as well meanwhile
//!  f  a flush takes LID 0 for a run without the key
//! ```

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tamarack_env::random::mixed;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{schedule_point, thread};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Code, Shares, partition_of};
use tamarack_testing::Random;

use super::{EntryChange, Partition, Place};
use crate::mistake::{self, Mistake};

/// An order that the module forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Broken {
    /// A flush is published before its entries are inserted.
    FlushPublishedFirst,
    /// Entries are changed before the handover is published.
    ChangedBeforePublication,
    /// The handover does not raise the generation.
    GenerationNotRaised,
    /// The generation is raised after entries are changed.
    GenerationAfterChange,
    /// The LID of an input does not mean the output.
    AliasForgotten,
    /// It does so no longer when another state is published before entries are changed.
    AliasEndsEarly,
    /// Lookups do not look at the generation.
    GenerationIgnored,
    /// A new partition is published before it is filled.
    PartitionPublishedFirst,
}

/// Different sets of other keys.
const SALTS: u64 = 20;

type RunId = u32;

/// What a lookup pins.
#[derive(Clone, Debug)]
struct PinnedState {
    edit: u64,
    lids: [Vec<RunId>; 3],
    /// A LID that means a run beside its own.
    alias: Option<(u16, RunId)>,
    /// The runs that have the key.
    with_key: BTreeSet<RunId>,
    partition: Arc<Partition>,
}

struct SmallTree {
    state: ArcSwap<PinnedState>,
    /// That of states that are published from now on.
    alias: ArcSwap<Option<(u16, RunId)>>,
    generation: AtomicU64,
    broken: Option<Broken>,
    key: Place,
}

fn new_partition() -> Arc<Partition> {
    // Few slots, so that other keys make the key move; and buckets of small runs are rare.
    let code = Code::new(2, &[1, 1, 1], &[Shares::new(vec![1000.0, 10.0, 1.0])]).expect("it fits");
    Arc::new(Partition::new(Arc::new(code), 3))
}

impl SmallTree {
    fn new(broken: Option<Broken>) -> Arc<Self> {
        let partition = new_partition();
        let key = place(&partition, 1 << 32);
        let (lids, with_key) = (Default::default(), BTreeSet::new());
        let state = ArcSwap::from_pointee(PinnedState { edit: 0, lids, alias: None, with_key, partition });
        let (alias, generation) = (ArcSwap::from_pointee(None), AtomicU64::new(0));
        Arc::new(Self { state, alias, generation, broken, key })
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn partition(&self) -> Arc<Partition> {
        self.state.load().partition.clone()
    }

    fn change(&self, change: EntryChange) {
        self.partition().change([(self.key, change)]);
    }

    fn publish(&self, change: impl FnOnce(&mut PinnedState)) {
        let mut state = PinnedState::clone(&self.state.load());
        state.edit += 1;
        state.alias = **self.alias.load();
        change(&mut state);
        schedule_point();
        self.state.store(Arc::new(state));
    }

    fn flush(&self, run: RunId, lid: u16, has_key: bool) {
        let insert = || {
            if has_key {
                self.change(EntryChange::Insert(lid));
            }
        };
        let publish = || {
            self.publish(|state| {
                state.lids[usize::from(lid)].push(run);
                if has_key {
                    state.with_key.insert(run);
                }
            });
        };
        if self.is(Broken::FlushPublishedFirst) {
            publish();
            insert();
        } else {
            insert();
            publish();
        }
    }

    /// Compacts `inputs` into `output`, which shares the LID `lid` with one of them. The key's
    /// entry with another LID changes: it gets `lid`, or goes.
    fn compact(&self, inputs: &[RunId], output: RunId, lid: u16, change: EntryChange) {
        if let EntryChange::Relabel(from, _) = change
            && !self.is(Broken::AliasForgotten)
        {
            self.alias.store(Arc::new(Some((from, output))));
        }
        let publish = || {
            self.publish(|state| {
                state.with_key.retain(|run| !inputs.contains(run));
                state.with_key.insert(output);
                state.lids.iter_mut().for_each(|runs| runs.retain(|run| !inputs.contains(run)));
                state.lids[usize::from(lid)].push(output);
            });
        };
        let raise = || {
            if !self.is(Broken::GenerationNotRaised) {
                self.generation.store(self.state.load().edit, Ordering::Release);
            }
        };
        let change = || self.change(change);
        let end = || self.alias.store(Arc::new(None));
        match self.broken {
            Some(Broken::ChangedBeforePublication) => {
                change();
                publish();
                raise();
            }
            Some(Broken::GenerationAfterChange) => {
                publish();
                change();
                raise();
            }
            Some(Broken::AliasEndsEarly) => {
                publish();
                raise();
                end();
                self.publish(|_| ());
                change();
            }
            _ => {
                publish();
                raise();
                change();
            }
        }
        end();
    }

    /// Makes the partition anew; the key has an entry with that LID.
    fn remake(&self, lid: u16) {
        let partition = new_partition();
        let fill = || partition.change([(self.key, EntryChange::Insert(lid))]);
        let publish = || self.publish(|state| state.partition = partition.clone());
        if self.is(Broken::PartitionPublishedFirst) {
            publish();
            fill();
        } else {
            fill();
            publish();
        }
    }

    /// Looks the key up, as a get does.
    fn get(&self) {
        schedule_point();
        let state = self.state.load_full();
        let is_excluded = state.partition.excludes(self.key);
        let candidates = state.partition.candidates(self.key);
        if !self.is(Broken::GenerationIgnored) && self.generation.load(Ordering::Acquire) > state.edit {
            // It searches all runs.
            return;
        }
        // What a get returns: the version in the youngest run.
        let youngest = state.with_key.last().expect("the key is in the tree");
        let means = |lid: u16| state.lids[usize::from(lid)].contains(youngest) || state.alias == Some((lid, *youngest));
        let found = candidates.iter().any(means);
        assert!(found && !is_excluded, "missed, excluded {is_excluded}: {candidates:?} in {state:?}");
    }
}

fn place(partition: &Partition, number: u64) -> Place {
    place_of(partition, Digest::from_stored(mixed(number)))
}

fn place_of(partition: &Partition, digest: Digest) -> Place {
    partition.place(digest, partition_of(digest, 1).1)
}

/// The story of the module's page, with lookups beside it.
fn story(broken: Option<Broken>) {
    let tree = SmallTree::new(broken);
    tree.flush(1, 0, true);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let tree = tree.clone();
            thread::spawn(move || (0..3).for_each(|_| tree.get()))
        })
        .collect();
    tree.flush(2, 1, true);
    tree.compact(&[1, 2], 3, 0, EntryChange::Remove(1));
    tree.flush(4, 1, false);
    tree.remake(0);
    tree.compact(&[3, 4], 5, 1, EntryChange::Relabel(0, 1));
    tree.flush(6, 0, false);
    readers.into_iter().for_each(|reader| reader.join().expect("no key is missed"));
}

/// Other keys come and go, so that the entry of the key moves between its buckets and the stash.
fn moves(salt: u64) {
    let tree = SmallTree::new(None);
    let partition = tree.partition();
    let mut random = Random::new(salt);
    let mut others: Vec<(Place, u16)> =
        (0..8).map(|_| (place(&partition, random.next()), random.below(3) as u16)).collect();
    let insert = |(other, lid): (Place, u16)| partition.change([(other, EntryChange::Insert(lid))]);
    let before = random.below(8) as usize;
    others[..before].iter().for_each(|other| insert(*other));
    tree.flush(1, random.below(3) as u16, true);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let tree = tree.clone();
            thread::spawn(move || (0..4).for_each(|_| tree.get()))
        })
        .collect();
    others[before..].iter().for_each(|other| insert(*other));
    for (other, lid) in &mut others {
        match random.below(3) {
            0 => {
                let to = random.below(3) as u16;
                partition.change([(*other, EntryChange::Relabel(*lid, to))]);
                *lid = to;
            }
            1 => {
                partition.change([(*other, EntryChange::Remove(*lid))]);
                partition.empty_stash(|digest| place_of(&partition, digest));
                partition.change([(*other, EntryChange::Insert(*lid))]);
            }
            _ => (),
        }
    }
    others.into_iter().for_each(|(other, lid)| partition.change([(other, EntryChange::Remove(lid))]));
    partition.empty_stash(|digest| place_of(&partition, digest));
    readers.into_iter().for_each(|reader| reader.join().expect("no key is missed"));
    assert_eq!((partition.entries(), partition.stashed()), (1, 0));
}

/// An entry that may be in a bucket with the key's gets another LID and its own again. Both are of
/// small runs, so the bucket is rare, and its fingerprints change their order.
fn relabels(salt: u64) {
    let tree = SmallTree::new(None);
    let partition = tree.partition();
    let other = place(&partition, salt);
    partition.change([(other, EntryChange::Insert(1))]);
    // Keys go to emptier buckets: others leave few of them.
    let mut random = Random::new(salt);
    (0..3).for_each(|_| partition.change([(place(&partition, random.next()), EntryChange::Insert(0))]));
    tree.flush(1, 2, true);
    let reader = {
        let tree = tree.clone();
        thread::spawn(move || (0..4).for_each(|_| tree.get()))
    };
    for (from, to) in [(1, 2), (2, 1), (1, 2)] {
        partition.change([(other, EntryChange::Relabel(from, to))]);
    }
    reader.join().expect("no key is missed");
}

/// Another key with the fingerprint of the key and the same buckets, but in the other order, comes
/// and goes: it may take the key's entry away, and leave its own to the key.
fn twins(salt: u64) {
    let tree = SmallTree::new(None);
    let partition = tree.partition();
    let mut random = Random::new(salt);
    let others: Vec<Place> = (0..4).map(|_| place(&partition, random.next())).collect();
    let twin = (0..)
        .map(|high: u64| {
            let digest = Digest::from_stored(mixed(1 << 32) & u64::from(u32::MAX) | mixed(high + salt) << 32);
            partition.place(digest, partition_of(digest, 1).1)
        })
        .find(|twin| twin.mirrors(tree.key))
        .expect("one in some");
    others.iter().for_each(|other| partition.change([(*other, EntryChange::Insert(0))]));
    tree.flush(1, 2, true);
    let reader = {
        let tree = tree.clone();
        thread::spawn(move || (0..4).for_each(|_| tree.get()))
    };
    for other in others {
        // Makes space in the one bucket or the other.
        partition.change([(other, EntryChange::Remove(0))]);
        partition.change([(twin, EntryChange::Insert(2))]);
        partition.change([(twin, EntryChange::Remove(2))]);
    }
    reader.join().expect("no key is missed");
}

/// True if no order of steps loses a key. Tries `orders` random ones, and as many with few
/// switches between threads.
fn check(run: impl Fn() + Send + Sync + Clone + 'static, orders: usize) -> bool {
    let all = || {
        shuttle::check_random(run.clone(), orders);
        shuttle::check_pct(run.clone(), orders, 3);
    };
    catch_unwind(AssertUnwindSafe(all)).is_ok()
}

#[test]
fn no_order_of_steps_loses_a_key() {
    assert!(check(|| story(None), 3_000));
    for salt in 0..SALTS {
        assert!(check(move || moves(salt), 300), "salt {salt}");
        assert!(check(move || relabels(salt), 300), "salt {salt}");
        assert!(check(move || twins(salt), 300), "salt {salt}");
    }
}

#[test]
fn broken_orders_lose_keys() {
    for broken in [
        Broken::FlushPublishedFirst,
        Broken::ChangedBeforePublication,
        Broken::GenerationNotRaised,
        Broken::GenerationAfterChange,
        Broken::AliasForgotten,
        Broken::AliasEndsEarly,
        Broken::GenerationIgnored,
        Broken::PartitionPublishedFirst,
    ] {
        assert!(!check(move || story(Some(broken)), 3_000), "{broken:?} is not noticed");
    }
}

#[test]
fn mistakes_within_a_partition_lose_keys() {
    for mistake in [
        Mistake::FilterMoveUnnoticed,
        Mistake::FilterEntryDeletedFirst,
        Mistake::FilterStashOverlooked,
        Mistake::FilterRareBucketByNumber,
        Mistake::FilterEqualEntryUncounted,
    ] {
        let loses = |salt| {
            !(check(move || moves(salt), 300) && check(move || relabels(salt), 300) && check(move || twins(salt), 300))
        };
        assert!(mistake::with(mistake, || (0..SALTS).any(loses)), "{mistake:?} is not noticed");
    }
}
