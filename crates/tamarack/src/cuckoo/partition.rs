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
//!   before a call that inserts ends, and lowered after an entry of the stash has moved, which is
//!   counted. A call publishes the stash once, at its end: until then lookups find what was there,
//!   and may do so.
//! * `rare`, `stash`: pointers to immutable values, replaced as a whole.
//!
//! # Rare buckets
//!
//! Their fingerprints are found by number **and bits** of the bucket. By number alone, a lookup
//! could join the LIDs of the bucket before a change with the fingerprints after it. They are
//! there before the bucket changes, and go after it; a lookup that finds none loads the bucket
//! again.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tamarack_env::prefetch;
use tamarack_env::sync::atomic::{AtomicU64, Ordering, fence};
use tamarack_env::sync::{Mutex, Rank, schedule_point};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{
    Bucket, BucketSlot, Code, Encoded, FINGERPRINT_BITS_MIN, Fingerprint, Matches, Offsets, SLOTS_MAX, first_bucket,
};

use super::place::Place;
use super::stash::{SUMMARY_WORDS, Stash, Summary};
use super::way::{BucketSet, Ways};
use crate::memory::{Account, Charge, MemoryPart};
use crate::mistake::{self, Mistake};

/// Buckets whose fingerprints, if they are rare, are kept together.
const BUCKETS_PER_RARE: usize = 128;

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
pub(super) struct Rare(Vec<((usize, u64), [u16; SLOTS_MAX])>);

impl Rare {
    /// Its memory, with that of the reference to it; none if it is empty, and so shared.
    fn memory_bytes(&self) -> usize {
        if self.0.is_empty() { 0 } else { size_of::<Self>() + 2 * size_of::<usize>() + size_of_val(&*self.0) }
    }

    fn of(&self, bucket: usize, bits: u64) -> Option<&[u16; SLOTS_MAX]> {
        let place = self.0.binary_search_by_key(&(bucket, bits), |(key, _)| *key).ok()?;
        Some(&self.0[place].1)
    }

    pub(super) fn with(&self, bucket: usize, bits: u64, fingerprints: [u16; SLOTS_MAX]) -> Self {
        let mut all = self.without(bucket, bits);
        let place = all.0.partition_point(|(key, _)| *key < (bucket, bits));
        all.0.insert(place, ((bucket, bits), fingerprints));
        all
    }

    pub(super) fn without(&self, bucket: usize, bits: u64) -> Self {
        Self(self.0.iter().filter(|(key, _)| *key != (bucket, bits)).copied().collect())
    }
}

/// The one of a key's buckets that has more empty slots, which leaves the fewest full; `None` if
/// both are full.
pub(super) fn emptier(place: Place, empty_slots: impl Fn(usize) -> usize) -> Option<usize> {
    let [first, other] = place.buckets.map(|bucket| (empty_slots(bucket), bucket));
    let (empty_slots, bucket) = if other.0 > first.0 { other } else { first };
    (empty_slots > 0).then_some(bucket)
}

/// True if a whole bucket's slots have the key's fingerprint already, where `matching` counts them
/// in a bucket. Further ones would only push other entries around.
pub(super) fn crowds(code: &Code, place: Place, matching: impl Fn(usize) -> usize) -> bool {
    place.distinct().map(matching).sum::<usize>() >= code.slots()
}

/// The number of slots that have the fingerprint.
pub(super) fn matching(code: &Code, bucket: &Bucket, fingerprint: Fingerprint) -> usize {
    bucket.slots().iter().filter(|slot| code.slot(slot.lid, fingerprint) == **slot).count()
}

/// The first bits of each slot's fingerprint ([`Code::first_bits`]).
pub(super) fn first_bits(code: &Code, bucket: &Bucket) -> [u16; SLOTS_MAX] {
    std::array::from_fn(|number| bucket.slots().get(number).map_or(0, |slot| code.first_bits(*slot)))
}

/// Some thousand buckets, and what did not fit into them.
#[derive(Debug)]
pub struct Partition {
    pub(super) code: Arc<Code>,
    pub(super) offsets: Offsets,
    pub(super) buckets: Box<[AtomicU64]>,
    pub(super) moves: AtomicU64,
    /// A [`Summary`].
    pub(super) summary: [AtomicU64; SUMMARY_WORDS],
    /// In parts, by number of the bucket: one is replaced with each rare bucket that changes.
    rare: Box<[ArcSwap<Rare>]>,
    pub(super) stash: ArcSwap<Stash>,
    /// The lock is held during each change of the partition.
    pub(super) occupation: Mutex<Occupation>,
}

/// What those who change a partition know of all its entries together.
#[derive(Debug)]
pub(super) struct Occupation {
    pub(super) entries: u64,
    /// Insertions that found no way to an empty slot, since the partition was made.
    pub(super) unplaced: u64,
    /// The buckets without an empty slot, which searches for one ask for most.
    pub(super) full: BucketSet,
    /// For its memory.
    pub(super) charge: Charge,
}

impl Occupation {
    /// That of so many empty buckets.
    fn new(buckets: usize) -> Self {
        Self { entries: 0, unplaced: 0, full: BucketSet::new(buckets), charge: Charge::default() }
    }
}

/// A partition is overfull if one of so many of its entries has found no way to an empty slot and
/// is in the stash: each such search takes as long as hundreds of insertions, and a stash that is
/// not nearly empty is searched by many lookups.
const UNPLACED_ONE_IN: u64 = 512;

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
            occupation: Mutex::new(Rank::FilterPartition, Occupation::new(buckets)),
        }
    }

    /// A partition with entries, which `entries` gives with the place of each one. Each bucket is
    /// encoded once, so this takes a fraction of the time of as many insertions. Returns `None` if
    /// more than `unplaced_max` of them find no way to an empty slot.
    pub fn filled(
        code: Arc<Code>,
        buckets: usize,
        unplaced_max: u64,
        entries: impl Fn(&Self, &mut dyn FnMut(Place, u16)),
    ) -> Option<Self> {
        let mut this = Self::new(code, buckets);
        let mut plain = vec![Bucket::empty(this.code.slots()); buckets];
        let (mut stash, mut occupation) = (Stash::default(), Occupation::new(buckets));
        let mut ways = Ways::new(buckets);
        entries(&this, &mut |place, lid| {
            let Occupation { entries, unplaced, full, .. } = &mut occupation;
            if *unplaced > unplaced_max {
                return;
            }
            *entries += 1;
            let slot = this.code.slot(lid, place.fingerprint);
            let mut way = emptier(place, |at| plain[at].empty_slots()).map(|bucket| (&[][..], bucket));
            if way.is_none() && !crowds(&this.code, place, |at| matching(&this.code, &plain[at], place.fingerprint)) {
                let first_bits = |at: usize| first_bits(&this.code, &plain[at]);
                way = ways.find((this.code.slots(), &this.offsets), place, full, first_bits);
                *unplaced += u64::from(way.is_none());
            }
            let Some((moves, mut to)) = way else { return stash.insert(place.digest, lid) };
            let mut left = BucketSlot::EMPTY;
            for &(from, number) in moves {
                let moved = plain[from].slots()[number];
                assert!(plain[to].replace(left, moved), "{moved:?} goes from {from} to {to}");
                full.set(to, plain[to].empty_slots() == 0);
                (to, left) = (from, moved);
            }
            assert!(plain[to].replace(left, slot), "a slot of bucket {to} is empty now");
            full.set(to, plain[to].empty_slots() == 0);
        });
        if occupation.unplaced > unplaced_max {
            return None;
        }
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
        *this.occupation.lock() = occupation;
        Some(this)
    }

    /// Charges its memory to `account`, from now on also what changes add.
    #[must_use]
    pub fn charged(self, account: &Arc<Account>) -> Self {
        let mut occupation = self.occupation.lock();
        occupation.charge = account.charge(MemoryPart::Filters, self.memory_bytes(&occupation));
        drop(occupation);
        self
    }

    /// Its memory as it is now, in bytes.
    pub(super) fn memory_bytes(&self, occupation: &Occupation) -> usize {
        let rare_bytes: usize = self.rare.iter().map(|part| part.load().memory_bytes()).sum();
        let buckets_bytes = size_of_val(&*self.buckets) + occupation.full.memory_bytes() + size_of_val(&*self.rare);
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
        self.occupation.lock().entries
    }

    /// True if it should have more buckets although it has slots for its entries: keys of which
    /// many entries are there, all in the same two buckets, leave less of the slots usable.
    pub fn is_overfull(&self) -> bool {
        let Occupation { entries, unplaced, .. } = *self.occupation.lock();
        unplaced.min(self.stashed() as u64) > unplaced_max(entries)
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

    /// Whether an entry is in the stash, for those who change the partition.
    fn is_stashed(&self, place: Place, lid: u16) -> bool {
        let (word, bit) = Summary::place(place.digest);
        let may_be = self.summary[word].load(Ordering::Relaxed) & bit != 0;
        may_be && self.stash.load().has(place.digest, lid)
    }

    /// The part of the rare buckets' fingerprints that a bucket's are in.
    #[inline]
    pub(super) fn rare_of(&self, bucket: usize) -> &ArcSwap<Rare> {
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
    pub(super) fn bucket(&self, bucket: usize) -> Bucket {
        let bits = self.buckets[bucket].load(Ordering::Relaxed);
        self.code.decode(bits).unwrap_or_else(|| {
            let rare = self.rare_of(bucket).load();
            let fingerprints = rare.of(bucket, bits).unwrap_or_else(|| panic!("bucket {bucket}, {bits:#x}, is rare"));
            self.code.decode_rare(bits, fingerprints)
        })
    }
}

/// The most entries in the stash for want of a way to an empty slot, of a partition with so many
/// entries that is not overfull.
pub fn unplaced_max(entries: u64) -> u64 {
    entries / UNPLACED_ONE_IN
}
