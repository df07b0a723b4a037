//! [`Partition`]: some thousand buckets of a filter over the whole tree, read by lookups while
//! entries are inserted, removed and relabelled.
//!
//! The partition is a multiset of pairs of a key and a LID. Each insertion adds one, each removal
//! takes one away; keys are known by 48 bits of their digest.
//!
//! # Atomics
//!
//! * `buckets`: stored with release, loaded with acquire. Whoever sees a change sees all that came
//!   before it: the generation that allowed it, the fingerprints of a rare bucket, the count of the
//!   move that it belongs to.
//! * `moves`: counted with release between the copy and the deletion of the original. A lookup
//!   loads it with acquire, reads, passes a fence, and loads it again. If it missed the copy, its
//!   first load came before the count; if it missed the original, it has seen the deletion, and so
//!   its second load sees the count. Two keys with equal fingerprints and buckets have equal
//!   entries, and either may be taken for either. So an entry that goes after an equal one came has
//!   moved, in effect, and is counted as well.
//! * `summary`: stored with release after a change of the stash, loaded with acquire. It is raised
//!   before an insertion ends, and lowered after an entry of the stash has moved, which is counted.
//! * `rare`, `stash`: pointers to immutable values, replaced as a whole.
//!
//! # Rare buckets
//!
//! Their fingerprints are found by number **and bits** of the bucket. By number alone, a lookup
//! could join the LIDs of the bucket before a change with the fingerprints after it. They are
//! there before the bucket changes, and go after it; a lookup that finds none loads the bucket
//! again.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tamarack_env::prefetch;
use tamarack_env::sync::atomic::{AtomicU64, Ordering, fence};
use tamarack_env::sync::{Mutex, Rank, schedule_point};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{
    Bucket, BucketSlot, Code, Encoded, FINGERPRINT_BITS_MIN, Fingerprint, Matches, Offsets, SLOTS_MAX, first_bucket,
};

use crate::memory::{Account, Charge, MemoryPart};
use crate::mistake::{self, Mistake};

/// Buckets that an insertion looks into for a place, at most.
const SEARCHED_MAX: usize = 500;

/// Buckets whose fingerprints, if they are rare, are kept together.
const BUCKETS_PER_RARE: usize = 128;

/// A key, as a partition knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// 48 bits of the digest, which tell keys in the stash apart.
    digest: u64,
    fingerprint: Fingerprint,
    buckets: [usize; 2],
}

impl Place {
    /// The two buckets, or the one if both are the same.
    fn distinct(self) -> impl Iterator<Item = usize> + use<> {
        let [first, other] = self.buckets;
        std::iter::once(first).chain((other != first).then_some(other))
    }

    /// True if the other key has the same fingerprint, and the same buckets in the other order.
    #[cfg(all(test, feature = "shuttle"))]
    pub fn mirrors(self, other: Self) -> bool {
        let [first, second] = other.buckets;
        self.fingerprint == other.fingerprint && self.buckets == [second, first] && first != second
    }
}

/// A change of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChange {
    /// The run with this LID has the key.
    Insert(u16),
    /// The entry with the first LID gets the second one.
    Relabel(u16, u16),
    /// The run with this LID has the key no longer.
    Remove(u16),
}

/// The LIDs that a key may have: a few from its buckets, more from the stash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    near: [u16; 2 * SLOTS_MAX],
    count: usize,
    stashed: Vec<u16>,
}

impl Candidates {
    /// All LIDs, in no order; one may come several times.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.near[..self.count].iter().chain(&self.stashed).copied()
    }

    fn add(&mut self, lid: u16) {
        self.near[self.count] = lid;
        self.count += 1;
    }
}

/// The fingerprints of rare buckets, by number and bits of the bucket.
#[derive(Clone, Debug, Default)]
struct Rare(Vec<((usize, u64), [u16; SLOTS_MAX])>);

impl Rare {
    /// Its memory, with that of the reference to it; none if it is empty, and so shared.
    fn memory_bytes(&self) -> usize {
        if self.0.is_empty() { 0 } else { size_of::<Self>() + 2 * size_of::<usize>() + size_of_val(&*self.0) }
    }

    fn of(&self, bucket: usize, bits: u64) -> Option<&[u16; SLOTS_MAX]> {
        let place = self.0.binary_search_by_key(&(bucket, bits), |(key, _)| *key).ok()?;
        Some(&self.0[place].1)
    }

    fn with(&self, bucket: usize, bits: u64, fingerprints: [u16; SLOTS_MAX]) -> Self {
        let mut all = self.without(bucket, bits);
        let place = all.0.partition_point(|(key, _)| *key < (bucket, bits));
        all.0.insert(place, ((bucket, bits), fingerprints));
        all
    }

    fn without(&self, bucket: usize, bits: u64) -> Self {
        Self(self.0.iter().filter(|(key, _)| *key != (bucket, bits)).copied().collect())
    }
}

/// Entries that are in no bucket, ordered: 48 bits of the digest, then the LID. There are many if
/// some keys are in more runs than two buckets have slots.
#[derive(Clone, Debug, Default)]
struct Stash(Vec<u64>);

impl Stash {
    fn entry(digest: u64, lid: u16) -> u64 {
        digest << 16 | u64::from(lid)
    }

    /// The LIDs of a key.
    fn of(&self, digest: u64) -> impl Iterator<Item = u16> {
        let from = self.0.partition_point(|entry| *entry < Self::entry(digest, 0));
        self.0[from..].iter().take_while(move |entry| **entry >> 16 == digest).map(|entry| *entry as u16)
    }

    /// Adds an entry.
    fn insert(&mut self, digest: u64, lid: u16) {
        let entry = Self::entry(digest, lid);
        self.0.insert(self.0.partition_point(|other| *other < entry), entry);
    }

    /// Takes an entry away; false if there is none.
    fn remove(&mut self, digest: u64, lid: u16) -> bool {
        let found = self.0.binary_search(&Self::entry(digest, lid));
        found.map(|place| self.0.remove(place)).is_ok()
    }

    fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for entry in &self.0 {
            let (word, bit) = Summary::place(entry >> 16);
            summary.0[word] |= bit;
        }
        summary
    }
}

/// For each key of the stash, a bit: most other keys have none there.
#[derive(Clone, Copy, Default)]
struct Summary([u64; SUMMARY_WORDS]);

const SUMMARY_WORDS: usize = 8;

impl Summary {
    /// The bit of a key, from bits of the digest that keys of one partition do not share.
    #[inline]
    fn place(digest: u64) -> (usize, u64) {
        ((digest >> 22) as usize % SUMMARY_WORDS, 1 << (digest >> 16 & 63))
    }
}

/// The LIDs of entries that came since a move was counted, or others too.
#[derive(Clone, Copy)]
struct Arrivals(u64);

impl Arrivals {
    const ANY: Self = Self(!0);
    const NONE: Self = Self(0);

    fn add(&mut self, lid: u16) {
        self.0 |= 1 << (lid % 64);
    }

    fn may_have(self, lid: u16) -> bool {
        self.0 >> (lid % 64) & 1 == 1
    }
}

/// A move of an entry: the bucket that it leaves, and the number of its slot there.
type Move = (usize, usize);

/// The buckets that a search has met, each a bit: to compare with each of [`SEARCHED_MAX`] took
/// three quarters of the time of searches that found no place.
struct MetBuckets([u64; MET_WORDS]);

/// For all buckets of an ordinary partition.
const MET_WORDS: usize = 128;

impl Default for MetBuckets {
    fn default() -> Self {
        Self([0; MET_WORDS])
    }
}

impl MetBuckets {
    /// Adds a bucket. True if it was not there; `None` for one that has no bit.
    fn insert(&mut self, bucket: usize) -> Option<bool> {
        let (word, bit) = (self.0.get_mut(bucket / 64)?, 1 << (bucket % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        Some(is_new)
    }
}

/// The moves that make space for a key, in their order. The first one goes to the bucket that comes
/// with them, which has an empty slot, and each other one to where the one before came from; the
/// key's entry goes to where the last one came from.
///
/// Breadth first, from the key's buckets to the first one that has space; `None` if that is too
/// far. `first_bits` are those of a bucket's slots ([`Code::first_bits`]).
fn find_way(
    slots: usize,
    offsets: &Offsets,
    place: Place,
    first_bits: impl Fn(usize) -> [u16; SLOTS_MAX],
    (touch, has_space): (impl Fn(usize), impl Fn(usize) -> bool),
) -> Option<(Vec<Move>, usize)> {
    /// A bucket that could give an entry to another one.
    struct Step {
        bucket: usize,
        /// The step before, and the slot whose entry goes from there to here.
        from: Option<(usize, usize)>,
    }
    let mut steps: Vec<Step> = Vec::with_capacity(4 * SLOTS_MAX);
    let mut met = MetBuckets::default();
    for bucket in place.distinct() {
        met.insert(bucket);
        steps.push(Step { bucket, from: None });
    }
    let mut at = 0;
    while at < steps.len() {
        let here = steps[at].bucket;
        // All of them are full, so none has an empty slot.
        let first_bits = first_bits(here);
        let others = first_bits[..slots].iter().map(|first_bits| offsets.other(here, *first_bits));
        others.clone().for_each(&touch);
        for (slot, other) in others.enumerate() {
            if has_space(other) {
                // From the free end on.
                let (mut moves, mut from) = (vec![(here, slot)], steps[at].from);
                while let Some((step, slot)) = from {
                    moves.push((steps[step].bucket, slot));
                    from = steps[step].from;
                }
                return Some((moves, other));
            }
            let is_new = met.insert(other);
            if is_new.unwrap_or_else(|| steps.iter().all(|step| step.bucket != other)) {
                if steps.len() == SEARCHED_MAX {
                    return None;
                }
                steps.push(Step { bucket: other, from: Some((at, slot)) });
            }
        }
        at += 1;
    }
    None
}

/// The one of a key's buckets that has more empty slots, which leaves the fewest full; `None` if
/// both are full.
fn emptier(place: Place, empty_slots: impl Fn(usize) -> usize) -> Option<usize> {
    let [first, other] = place.buckets.map(|bucket| (empty_slots(bucket), bucket));
    let (empty_slots, bucket) = if other.0 > first.0 { other } else { first };
    (empty_slots > 0).then_some(bucket)
}

/// True if a whole bucket's slots have the key's fingerprint already, where `matching` counts them
/// in a bucket. Further ones would only push other entries around.
fn is_crowded(code: &Code, place: Place, matching: impl Fn(usize) -> usize) -> bool {
    place.distinct().map(matching).sum::<usize>() >= code.slots()
}

/// The number of slots that have the fingerprint.
fn matching(code: &Code, bucket: &Bucket, fingerprint: Fingerprint) -> usize {
    bucket.slots().iter().filter(|slot| code.slot(slot.lid, fingerprint) == **slot).count()
}

/// The first bits of each slot's fingerprint ([`Code::first_bits`]).
fn first_bits(code: &Code, bucket: &Bucket) -> [u16; SLOTS_MAX] {
    std::array::from_fn(|number| bucket.slots().get(number).map_or(0, |slot| code.first_bits(*slot)))
}

/// Some thousand buckets, and what did not fit into them.
#[derive(Debug)]
pub struct Partition {
    code: Arc<Code>,
    offsets: Offsets,
    buckets: Box<[AtomicU64]>,
    moves: AtomicU64,
    /// A [`Summary`].
    summary: [AtomicU64; SUMMARY_WORDS],
    /// In parts, by number of the bucket: one is replaced with each rare bucket that changes.
    rare: Box<[ArcSwap<Rare>]>,
    stash: ArcSwap<Stash>,
    /// The number of entries, and the charge for its memory. The lock is held during each change of
    /// the partition.
    entries: Mutex<(u64, Charge)>,
}

impl Partition {
    /// A partition without entries.
    pub fn new(code: Arc<Code>, buckets: usize) -> Self {
        let Encoded::Frequent(empty) = code.encode(&Bucket::empty(code.slots())) else {
            panic!("empty buckets are frequent in every code")
        };
        Self {
            code,
            offsets: Offsets::new(buckets),
            buckets: (0..buckets).map(|_| AtomicU64::new(empty)).collect(),
            moves: AtomicU64::new(0),
            summary: Default::default(),
            rare: std::iter::repeat_n(Arc::<Rare>::default(), buckets / BUCKETS_PER_RARE + 1)
                .map(ArcSwap::new)
                .collect(),
            stash: ArcSwap::default(),
            entries: Mutex::new(Rank::FilterPartition, (0, Charge::default())),
        }
    }

    /// A partition with entries, which `entries` gives with the place of each one. Each bucket is
    /// encoded once, so this takes a fraction of the time of as many insertions.
    pub fn filled(code: Arc<Code>, buckets: usize, entries: impl Fn(&Self, &mut dyn FnMut(Place, u16))) -> Self {
        let mut this = Self::new(code, buckets);
        let mut plain = vec![Bucket::empty(this.code.slots()); buckets];
        let (mut stash, mut count) = (Stash::default(), 0);
        entries(&this, &mut |place, lid| {
            count += 1;
            let slot = this.code.slot(lid, place.fingerprint);
            let mut way = emptier(place, |at| plain[at].empty_slots()).map(|bucket| (Vec::new(), bucket));
            if way.is_none() && !is_crowded(&this.code, place, |at| matching(&this.code, &plain[at], place.fingerprint))
            {
                let first_bits = |at: usize| first_bits(&this.code, &plain[at]);
                let has_space = |at: usize| plain[at].empty_slots() > 0;
                way = find_way(this.code.slots(), &this.offsets, place, first_bits, (|_| (), has_space));
            }
            let Some((moves, mut to)) = way else { return stash.insert(place.digest, lid) };
            let mut left = BucketSlot::EMPTY;
            for (from, number) in moves {
                let moved = plain[from].slots()[number];
                assert!(plain[to].replace(left, moved), "{moved:?} goes from {from} to {to}");
                (to, left) = (from, moved);
            }
            assert!(plain[to].replace(left, slot), "a slot of bucket {to} is empty now");
        });
        let mut rare: BTreeMap<usize, Rare> = BTreeMap::new();
        for (at, bucket) in plain.iter().enumerate().filter(|(_, bucket)| bucket.empty_slots() < this.code.slots()) {
            let bits = match this.code.encode(bucket) {
                Encoded::Frequent(bits) => bits,
                Encoded::Rare(bits, fingerprints) => {
                    rare.entry(at / BUCKETS_PER_RARE).or_default().0.push(((at, bits), fingerprints));
                    bits
                }
            };
            *this.buckets[at].get_mut() = bits;
        }
        rare.into_iter().for_each(|(part, rare)| this.rare[part].store(Arc::new(rare)));
        this.summary = stash.summary().0.map(AtomicU64::new);
        this.stash = ArcSwap::from_pointee(stash);
        this.entries.lock().0 = count;
        this
    }

    /// Charges its memory to `account`, from now on also what changes add.
    #[must_use]
    pub fn charged(self, account: &Arc<Account>) -> Self {
        self.entries.lock().1 = account.charge(MemoryPart::Filters, self.memory_bytes());
        self
    }

    /// Its memory as it is now, in bytes.
    fn memory_bytes(&self) -> usize {
        let rare_bytes: usize = self.rare.iter().map(|part| part.load().memory_bytes()).sum();
        let buckets_bytes = size_of_val(&*self.buckets) + size_of_val(&*self.rare);
        size_of::<Self>() + buckets_bytes + rare_bytes + size_of_val(&*self.stash.load().0)
    }

    /// Its buckets.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// The place of a key, from its digest and its place among the keys of the partition
    /// ([`tamarack_filter::chucky::partition_of`]).
    #[inline]
    pub fn place(&self, digest: Digest, place: u64) -> Place {
        let fingerprint = self.code.fingerprint(digest);
        let first = first_bucket(place, self.buckets.len());
        let other = self.offsets.other(first, fingerprint.prefix(FINGERPRINT_BITS_MIN));
        Place { digest: digest.stored() >> 16, fingerprint, buckets: [first, other] }
    }

    /// The number of entries, those in the stash included.
    pub fn entries(&self) -> u64 {
        self.entries.lock().0
    }

    /// The number of entries in the stash.
    pub fn stashed(&self) -> usize {
        self.stash.load().0.len()
    }

    /// True if no run has the key, which takes less than [`Partition::candidates`]. False if one
    /// may, or an entry has moved meanwhile.
    #[inline(always)] // As `Directory::find`.
    pub fn excludes(&self, place: Place) -> bool {
        // Pairs with `count_move`.
        let moves = self.moves.load(Ordering::Acquire);
        let is_without = |bucket: usize| {
            let matches = self.code.matches(self.buckets[bucket].load(Ordering::Acquire), place.fingerprint);
            matches.is_some_and(Matches::is_empty)
        };
        place.buckets.into_iter().all(is_without) && !self.may_be_stashed(place) && self.is_unmoved_since(moves)
    }

    /// Asks for the memory of a key's buckets.
    #[inline]
    pub fn prefetch(&self, place: Place) {
        place.buckets.into_iter().for_each(|bucket| prefetch(&raw const self.buckets[bucket]));
    }

    /// The LIDs that a key may have. All those that it has are among them, if changes keep to the
    /// orders that the module states.
    pub fn candidates(&self, place: Place) -> Candidates {
        loop {
            // Pairs with `count_move`.
            let moves = self.moves.load(Ordering::Acquire);
            let mut candidates = Candidates::default();
            for bucket in place.distinct() {
                self.look(bucket, place.fingerprint, &mut candidates);
            }
            if self.may_be_stashed(place) {
                schedule_point();
                candidates.stashed.extend(self.stash.load().of(place.digest));
            }
            if self.is_unmoved_since(moves) {
                return candidates;
            }
        }
    }

    /// Whether the stash may have entries of the key.
    #[inline]
    fn may_be_stashed(&self, place: Place) -> bool {
        let (word, bit) = Summary::place(place.digest);
        self.summary[word].load(Ordering::Acquire) & bit != 0 && !mistake::is_planted(Mistake::FilterStashOverlooked)
    }

    /// True if no entry has moved since so many moves were counted, up to the last load before.
    #[inline]
    fn is_unmoved_since(&self, moves: u64) -> bool {
        fence(Ordering::Acquire);
        self.moves.load(Ordering::Relaxed) == moves || mistake::is_planted(Mistake::FilterMoveUnnoticed)
    }

    /// Whether the run with this LID may have the key, for those who change the partition.
    pub fn has(&self, place: Place, lid: u16) -> bool {
        let slot = self.code.slot(lid, place.fingerprint);
        let is_in = |bucket: usize| {
            let bits = self.buckets[bucket].load(Ordering::Relaxed);
            match self.code.matches(bits, place.fingerprint) {
                Some(matches) if matches.is_empty() => false,
                Some(matches) => self.code.lids(bits, matches).any(|other| other == lid),
                None => self.bucket(bucket).slots().contains(&slot),
            }
        };
        place.distinct().any(is_in) || self.is_stashed(place, lid)
    }

    /// Carries out changes, one after the other. It is fastest if keys are in the order of their
    /// digests.
    ///
    /// # Panics
    /// If an entry to be changed is not there: a broken invariant of ours.
    pub fn change(&self, changes: impl IntoIterator<Item = (Place, EntryChange)>) {
        let mut guard = self.entries.lock();
        let (entries, charge) = &mut *guard;
        let mut arrivals = Arrivals::ANY;
        let mut changes = changes.into_iter().peekable();
        while let Some((place, change)) = changes.next() {
            if let Some((next, _)) = changes.peek() {
                next.buckets.into_iter().for_each(|bucket| self.touch(bucket));
            }
            if let EntryChange::Relabel(lid, _) | EntryChange::Remove(lid) = change
                && arrivals.may_have(lid)
                && !mistake::is_planted(Mistake::FilterEqualEntryUncounted)
            {
                self.count_move();
                arrivals = Arrivals::NONE;
            }
            match change {
                EntryChange::Insert(lid) => {
                    self.insert(place, lid);
                    *entries += 1;
                }
                EntryChange::Relabel(from, to) => self.replace(place, from, Some(to)),
                EntryChange::Remove(lid) => {
                    self.replace(place, lid, None);
                    *entries -= 1;
                }
            }
            if let EntryChange::Insert(lid) | EntryChange::Relabel(_, lid) = change {
                arrivals.add(lid);
            }
        }
        charge.set(self.memory_bytes());
    }

    /// Begins to load a bucket that is needed soon, while others are worked on: most are in no near
    /// cache.
    #[inline]
    fn touch(&self, bucket: usize) {
        black_box(self.buckets[bucket].load(Ordering::Relaxed));
    }

    /// Counts a move. The caller holds the lock of `entries`, so nobody else does meanwhile.
    fn count_move(&self) {
        self.moves.store(self.moves.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Whether an entry is in the stash, for those who change the partition.
    fn is_stashed(&self, place: Place, lid: u16) -> bool {
        let (word, bit) = Summary::place(place.digest);
        let may_be = self.summary[word].load(Ordering::Relaxed) & bit != 0;
        may_be && self.stash.load().0.binary_search(&Stash::entry(place.digest, lid)).is_ok()
    }

    /// Puts entries of the stash into buckets that have empty slots by now. `place_of` gives the
    /// place of a key, from those bits of its digest that tables store.
    pub fn empty_stash(&self, place_of: impl Fn(Digest) -> Place) {
        let mut guard = self.entries.lock();
        let mut stash = self.stash.load_full();
        let is_put = |entry: u64| {
            let (lid, place) = (entry as u16, place_of(Digest::from_stored(entry & !0xFFFF)));
            !self.is_crowded(place) && self.put(place, self.code.slot(lid, place.fingerprint))
        };
        let left: Vec<u64> = stash.0.iter().copied().filter(|entry| !is_put(*entry)).collect();
        if left.len() < stash.0.len() {
            // All copies come before the count, and the removals after it.
            self.count_move();
            Arc::make_mut(&mut stash).0 = left;
            self.set_stash(&stash);
            guard.1.set(self.memory_bytes());
        }
    }

    /// The part of the rare buckets' fingerprints that a bucket's are in.
    #[inline]
    fn rare_of(&self, bucket: usize) -> &ArcSwap<Rare> {
        &self.rare[bucket / BUCKETS_PER_RARE]
    }

    /// Adds the LIDs of one bucket that the key may have.
    #[inline]
    fn look(&self, bucket: usize, fingerprint: Fingerprint, candidates: &mut Candidates) {
        loop {
            let bits = self.buckets[bucket].load(Ordering::Acquire);
            if let Some(matches) = self.code.matches(bits, fingerprint) {
                if !matches.is_empty() {
                    self.code.lids(bits, matches).for_each(|lid| candidates.add(lid));
                }
                return;
            }
            schedule_point();
            let rare = self.rare_of(bucket).load();
            let of_any_bits = || rare.0.iter().find(|((other, _), _)| *other == bucket).map(|(_, prints)| prints);
            let by_number = mistake::is_planted(Mistake::FilterRareBucketByNumber).then(of_any_bits).flatten();
            if let Some(fingerprints) = by_number.or_else(|| rare.of(bucket, bits)) {
                let slots = self.code.decode_rare(bits, fingerprints);
                let matching = slots.slots().iter().filter(|slot| self.code.slot(slot.lid, fingerprint) == **slot);
                matching.for_each(|slot| candidates.add(slot.lid));
                return;
            }
            // The bucket has changed since it was loaded.
            schedule_point();
        }
    }

    /// What a bucket has. Only for those who change the partition.
    fn bucket(&self, bucket: usize) -> Bucket {
        let bits = self.buckets[bucket].load(Ordering::Relaxed);
        self.code.decode(bits).unwrap_or_else(|| {
            let rare = self.rare_of(bucket).load();
            let fingerprints = rare.of(bucket, bits).unwrap_or_else(|| panic!("bucket {bucket}, {bits:#x}, is rare"));
            self.code.decode_rare(bits, fingerprints)
        })
    }

    fn set(&self, bucket: usize, slots: &Bucket) {
        let before = self.buckets[bucket].load(Ordering::Relaxed);
        let after = match self.code.encode(slots) {
            Encoded::Frequent(bits) => bits,
            Encoded::Rare(bits, fingerprints) => {
                let rare = self.rare_of(bucket).load().with(bucket, bits, fingerprints);
                schedule_point();
                self.rare_of(bucket).store(Arc::new(rare));
                bits
            }
        };
        self.buckets[bucket].store(after, Ordering::Release);
        if before != after && self.code.is_rare(before) {
            let rare = self.rare_of(bucket).load().without(bucket, before);
            schedule_point();
            self.rare_of(bucket).store(Arc::new(rare));
        }
    }

    fn insert(&self, place: Place, lid: u16) {
        let slot = self.code.slot(lid, place.fingerprint);
        if self.put(place, slot) || !self.is_crowded(place) && self.make_space(place, slot) {
            return;
        }
        let mut stash = self.stash.load_full();
        Arc::make_mut(&mut stash).insert(place.digest, lid);
        self.set_stash(&stash);
    }

    fn is_crowded(&self, place: Place) -> bool {
        is_crowded(&self.code, place, |bucket| {
            let bits = self.buckets[bucket].load(Ordering::Relaxed);
            let of_frequent = self.code.matches(bits, place.fingerprint).map(Matches::count);
            of_frequent.unwrap_or_else(|| matching(&self.code, &self.bucket(bucket), place.fingerprint))
        })
    }

    fn empty_slots(&self, bucket: usize) -> usize {
        let bits = self.buckets[bucket].load(Ordering::Relaxed);
        self.code.empty_slots(bits).unwrap_or_else(|| self.bucket(bucket).empty_slots())
    }

    /// Puts an entry into an empty slot of one of its key's buckets; false if none has one.
    fn put(&self, place: Place, slot: BucketSlot) -> bool {
        let bucket = emptier(place, |bucket| self.empty_slots(bucket));
        bucket.inspect(|&bucket| self.put_along(&[], bucket, slot)).is_some()
    }

    /// Moves entries out of the way of a new one, and puts it there; false if no place was found.
    /// The way is found first, so that few entries move, and none for nothing.
    fn make_space(&self, place: Place, slot: BucketSlot) -> bool {
        let first_bits = |bucket: usize| {
            let bits = self.buckets[bucket].load(Ordering::Relaxed);
            self.code.first_bits_of_slots(bits).unwrap_or_else(|| first_bits(&self.code, &self.bucket(bucket)))
        };
        let has_space = |bucket: usize| self.empty_slots(bucket) > 0;
        let parts = (|bucket| self.touch(bucket), has_space);
        let way = find_way(self.code.slots(), &self.offsets, place, first_bits, parts);
        way.inspect(|(moves, free)| self.put_along(moves, *free, slot)).is_some()
    }

    /// Carries out moves, and puts an entry where the last one came from, or into the free bucket.
    ///
    /// The copy, the count, the deletion: see the page on atomics. The store that deletes an entry
    /// writes the next one to its slot.
    fn put_along(&self, moves: &[Move], free: usize, slot: BucketSlot) {
        let (mut to, mut bucket, mut left) = (free, self.bucket(free), BucketSlot::EMPTY);
        for &(from, number) in moves {
            let next = self.bucket(from);
            let moved = next.slots()[number];
            if mistake::is_planted(Mistake::FilterEntryDeletedFirst) {
                let mut without = next;
                assert!(without.remove(moved), "bucket {from} has {moved:?}");
                self.set(from, &without);
                self.count_move();
            }
            assert!(bucket.replace(left, moved), "bucket {to} has {left:?}: {bucket:?}");
            self.set(to, &bucket);
            self.count_move();
            (to, bucket, left) = (from, next, moved);
        }
        assert!(bucket.replace(left, slot), "bucket {to} has {left:?}: {bucket:?}");
        self.set(to, &bucket);
    }

    /// Gives an entry another LID, or none: removes it.
    fn replace(&self, place: Place, from: u16, to: Option<u16>) {
        // The stash first: it knows the key. An equal fingerprint in a bucket may be another
        // key's.
        if self.is_stashed(place, from) {
            let mut stash = self.stash.load_full();
            let changed = Arc::make_mut(&mut stash);
            changed.remove(place.digest, from);
            to.into_iter().for_each(|to| changed.insert(place.digest, to));
            return self.set_stash(&stash);
        }
        let old = self.code.slot(from, place.fingerprint);
        let new = to.map_or(BucketSlot::EMPTY, |to| self.code.slot(to, place.fingerprint));
        let changed = place.distinct().any(|bucket| {
            let bits = self.buckets[bucket].load(Ordering::Relaxed);
            if self.code.matches(bits, place.fingerprint).is_some_and(Matches::is_empty) {
                return false;
            }
            let mut slots = self.bucket(bucket);
            let done = slots.replace(old, new);
            if done {
                self.set(bucket, &slots);
            }
            done
        });
        assert!(changed, "no entry of {place:?} has LID {from}");
    }

    /// Replaces the stash, then its summary.
    fn set_stash(&self, stash: &Arc<Stash>) {
        schedule_point();
        self.stash.store(stash.clone());
        for (word, bits) in self.summary.iter().zip(stash.summary().0) {
            word.store(bits, Ordering::Release);
        }
    }
}
