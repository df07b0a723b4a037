//! Lookups beside flushes, compactions and moves in every order of steps, and in the orders that
//! the module forbids, each of which loses a key.
//!
//! The tree here is small: its state says which runs a LID means, and which keys a run has. One
//! key is always in it.
//!
//! ```text
//!  a  two runs, LIDs 0 and 1, both with the key
//!  b  a compaction begins: both LIDs mean its output, too
//!  c  it hands over: the key is in the output; its entry with LID 1 goes
//!  d  it has ended: LID 1 is free
//!  e  a flush takes LID 1 for a run without the key
//!  f  a compaction of both begins, its output gets LID 1; it hands over; the entry is relabelled
//! ```

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tamarack_env::random::mixed;
use tamarack_env::sync::atomic::{AtomicU64, Ordering, fence};
use tamarack_env::sync::{schedule_point, thread};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Code, Shares, partition_of};
use tamarack_testing::Random;

use super::partition::{EntryChange, Partition, Place};
use crate::mistake::{self, Mistake};

/// An order that the module forbids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Broken {
    /// Entries change before the handover is published.
    ChangedBeforePublication,
    /// A flush is published before its entries are inserted.
    PublishedBeforeInsertion,
    /// The handover does not raise the generation.
    GenerationNotRaised,
    /// The generation is raised before the handover is published.
    GenerationBeforePublication,
    /// Lookups do not look at the generation.
    GenerationIgnored,
    /// The LIDs of inputs do not mean the output while the compaction goes on.
    NoAlias,
    /// An input's LID means nothing from the end of the compaction on, although entries are not
    /// changed yet.
    AliasEndsEarly,
}

/// Different sets of other keys.
const SALTS: u64 = 20;

type RunId = u32;

/// What a lookup pins.
#[derive(Clone, Debug, Default)]
struct PinnedState {
    edit: u64,
    lids: [Vec<RunId>; 3],
    /// The runs that have the key.
    with_key: BTreeSet<RunId>,
}

struct SmallTree {
    partition: Partition,
    state: ArcSwap<PinnedState>,
    generation: AtomicU64,
    broken: Option<Broken>,
    key: Place,
}

impl SmallTree {
    fn new(broken: Option<Broken>) -> Arc<Self> {
        // Few slots, so that other keys make the key move; and buckets of small runs are rare.
        let code = Code::new(2, &[1, 1, 1], &[Shares::new(vec![1000.0, 10.0, 1.0])]).expect("it fits");
        let partition = Partition::new(Arc::new(code), 3);
        let key = place(&partition, 1 << 32);
        Arc::new(Self { partition, state: ArcSwap::default(), generation: AtomicU64::new(0), broken, key })
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn publish(&self, change: impl FnOnce(&mut PinnedState)) {
        let mut state = PinnedState::clone(&self.state.load());
        state.edit += 1;
        change(&mut state);
        schedule_point();
        self.state.store(Arc::new(state));
    }

    fn flush(&self, run: RunId, lid: u16, has_key: bool) {
        let insert = || {
            if has_key {
                self.partition.change(self.key, EntryChange::Insert(lid));
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
        if self.is(Broken::PublishedBeforeInsertion) {
            publish();
            insert();
        } else {
            insert();
            publish();
        }
    }

    /// Compacts `inputs` into `output`; `changes` are those of the key's entries. All LIDs but
    /// that of the output are free afterwards.
    fn compact(&self, inputs: &[RunId], output: RunId, output_lid: u16, changes: &[EntryChange]) {
        let of_inputs = |state: &PinnedState| -> Vec<usize> {
            (0..3).filter(|&lid| state.lids[lid].iter().any(|run| inputs.contains(run))).collect()
        };
        self.publish(|state| {
            if !self.is(Broken::NoAlias) {
                of_inputs(state).into_iter().for_each(|lid| state.lids[lid].push(output));
            }
            if !state.lids[usize::from(output_lid)].contains(&output) {
                state.lids[usize::from(output_lid)].push(output);
            }
        });
        let change = || changes.iter().for_each(|change| self.partition.change(self.key, *change));
        let hand_over = || {
            self.publish(|state| {
                state.with_key.retain(|run| !inputs.contains(run));
                state.with_key.insert(output);
                let early = self.is(Broken::AliasEndsEarly);
                for (lid, runs) in state.lids.iter_mut().enumerate() {
                    runs.retain(|run| !inputs.contains(run));
                    if early && lid != usize::from(output_lid) {
                        runs.retain(|run| *run != output);
                    }
                }
            });
        };
        let raise = || {
            let edit = self.state.load().edit + u64::from(self.is(Broken::GenerationBeforePublication));
            if !self.is(Broken::GenerationNotRaised) {
                self.generation.store(edit, Ordering::SeqCst);
                fence(Ordering::Release);
            }
        };
        match self.broken {
            Some(Broken::ChangedBeforePublication) => {
                change();
                hand_over();
                raise();
            }
            Some(Broken::GenerationBeforePublication) => {
                // Changes follow the generation, as they should.
                raise();
                change();
                hand_over();
            }
            _ => {
                hand_over();
                raise();
                change();
            }
        }
        self.publish(|state| {
            for (lid, runs) in state.lids.iter_mut().enumerate() {
                if lid != usize::from(output_lid) {
                    runs.retain(|run| *run != output);
                }
            }
        });
    }

    /// Looks the key up, as a get does.
    fn get(&self) {
        for _ in 0..100 {
            schedule_point();
            let state = self.state.load_full();
            let candidates = self.partition.candidates(self.key);
            fence(Ordering::Acquire);
            if !self.is(Broken::GenerationIgnored) && self.generation.load(Ordering::SeqCst) > state.edit {
                continue;
            }
            // What a get returns: the version in the youngest run.
            let youngest = state.with_key.last().expect("the key is in the tree");
            let found = candidates.iter().any(|lid| state.lids[usize::from(lid)].contains(youngest));
            assert!(found, "missed: {candidates:?} in {state:?}");
            return;
        }
        panic!("a lookup begins again for ever");
    }
}

fn place(partition: &Partition, number: u64) -> Place {
    let digest = Digest::from_stored(mixed(number));
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
    tree.compact(&[1, 2], 3, 0, &[EntryChange::Remove(1)]);
    tree.flush(4, 1, false);
    tree.compact(&[3, 4], 5, 1, &[EntryChange::Relabel(0, 1)]);
    readers.into_iter().for_each(|reader| reader.join().expect("no key is missed"));
}

/// Other keys come and go, so that the entry of the key moves between its buckets and the stash.
fn moves(salt: u64) {
    let tree = SmallTree::new(None);
    let mut random = Random::new(salt);
    let mut others: Vec<(Place, u16)> =
        (0..8).map(|_| (place(&tree.partition, random.next()), random.below(3) as u16)).collect();
    let insert = |(other, lid): (Place, u16)| tree.partition.change(other, EntryChange::Insert(lid));
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
                tree.partition.change(*other, EntryChange::Relabel(*lid, to));
                *lid = to;
            }
            1 => {
                tree.partition.change(*other, EntryChange::Remove(*lid));
                tree.partition.empty_stash();
                tree.partition.change(*other, EntryChange::Insert(*lid));
            }
            _ => (),
        }
    }
    others.into_iter().for_each(|(other, lid)| tree.partition.change(other, EntryChange::Remove(lid)));
    tree.partition.empty_stash();
    readers.into_iter().for_each(|reader| reader.join().expect("no key is missed"));
    assert_eq!((tree.partition.entries(), tree.partition.stashed()), (1, 0));
}

/// An entry that may be in a bucket with the key's gets another LID and its own again. Both are of
/// small runs, so the bucket is rare, and its fingerprints change their order.
fn relabels(salt: u64) {
    let tree = SmallTree::new(None);
    let other = place(&tree.partition, salt);
    tree.partition.change(other, EntryChange::Insert(1));
    tree.flush(1, 2, true);
    let reader = {
        let tree = tree.clone();
        thread::spawn(move || (0..4).for_each(|_| tree.get()))
    };
    for (from, to) in [(1, 2), (2, 1), (1, 2)] {
        tree.partition.change(other, EntryChange::Relabel(from, to));
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
    }
}

#[test]
fn broken_orders_lose_keys() {
    for broken in [
        Broken::ChangedBeforePublication,
        Broken::PublishedBeforeInsertion,
        Broken::GenerationNotRaised,
        Broken::GenerationBeforePublication,
        Broken::GenerationIgnored,
        Broken::NoAlias,
        Broken::AliasEndsEarly,
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
    ] {
        assert!(
            mistake::with(mistake, || (0..SALTS)
                .any(|salt| !check(move || moves(salt), 300) || !check(move || relabels(salt), 300))),
            "{mistake:?} is not noticed"
        );
    }
}
