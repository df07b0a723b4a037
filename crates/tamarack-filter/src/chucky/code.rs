//! [`Code`]: buckets from the LIDs and fingerprints of their slots, and back.
//!
//! The code is canonical: frequent groups in the order of their codeword lengths, each an interval
//! of consecutive codewords, then one codeword of full length for each combination, for rare
//! buckets. So a bucket is a number, groups are intervals of numbers, and the first number of each
//! interval tells the group of a bucket:
//!
//! ```text
//! 0            thresholds[1]    thresholds[2]                         rare                   2⁶⁴
//! │ group 0 ─────── │ group 1 ─────── │ …                               │ combinations │ unused │
//! │ c │c│c│c│c│…                                    c: one combination, all fingerprints
//! ```
//!
//! A table of 1,024 rows leads from the first ten bits of a bucket to the first group to look at;
//! the next ones follow in order.

use std::fmt;

use tamarack_model::filter::chucky::groups::{self, Counts, LIDS_MAX, SLOTS_MAX, Shares};
use tamarack_model::filter::chucky::lengths::{self, BUCKET_BITS};
use tamarack_model::filter::chucky::{self, CLASSES_MAX, CodeParts};

use crate::chucky::combinations::{Binomials, Combinations};
use crate::chucky::fingerprint::{FINGERPRINT_BITS_MIN, Fingerprint};
use crate::digest::{Digest, FIRST};

/// The first bits of a bucket that select a row of [`Code::heads`].
const HEAD_BITS: u32 = 10;

/// Why no code can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// The number of slots is not between 1 and [`SLOTS_MAX`].
    Slots(usize),
    /// The number of classes is not between 1 and [`CLASSES_MAX`].
    Classes(usize),
    /// A class without LIDs, or more than 380 LIDs in all.
    Lids(Vec<u16>),
    /// No states, or one with another number of classes.
    States,
    /// Too many runs for so many slots: not even the shortest fingerprints fit.
    DoesNotFit {
        /// The slots of a bucket.
        slots: usize,
    },
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(slots) => write!(f, "{slots} slots for each bucket of a filter; 1 to {SLOTS_MAX} are possible"),
            Self::Classes(classes) => write!(f, "{classes} classes of runs; 1 to {CLASSES_MAX} are possible"),
            Self::Lids(lids) => {
                write!(
                    f,
                    "classes with {lids:?} runs; each needs one at least, and all together have at most {LIDS_MAX}"
                )
            }
            Self::States => f.write_str("no state of the tree, or one with another number of classes of runs"),
            Self::DoesNotFit { slots } => write!(
                f,
                "fingerprints of {FINGERPRINT_BITS_MIN} bits in {slots} slots leave too few bits to tell which runs \
                 the entries belong to; give the filter more bits per entry, so that buckets have fewer slots"
            ),
        }
    }
}

impl std::error::Error for CodeError {}

/// A slot of a bucket: a level ID, and as many bits of a key's fingerprint as the class of the LID
/// keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketSlot {
    /// The level ID.
    pub lid: u16,
    /// The prefix of the fingerprint.
    pub fingerprint: u16,
}

impl BucketSlot {
    /// The slot without an entry.
    pub const EMPTY: Self = Self { lid: 0, fingerprint: 0 };
}

/// The slots of a bucket, in the order of the code: by LID, then by fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    slots: [BucketSlot; SLOTS_MAX],
    count: usize,
}

impl Bucket {
    /// A bucket of `count` empty slots.
    ///
    /// # Panics
    /// If `count` exceeds [`SLOTS_MAX`].
    pub fn empty(count: usize) -> Self {
        assert!(count <= SLOTS_MAX, "{count} slots");
        Self { slots: [BucketSlot::EMPTY; SLOTS_MAX], count }
    }

    /// All slots, empty ones first.
    pub fn slots(&self) -> &[BucketSlot] {
        &self.slots[..self.count]
    }

    /// The number of empty slots.
    pub fn empty_slots(&self) -> usize {
        self.slots().iter().take_while(|slot| **slot == BucketSlot::EMPTY).count()
    }

    /// Puts an entry into an empty slot; false if there is none.
    pub fn insert(&mut self, slot: BucketSlot) -> bool {
        // Empty slots come first.
        self.slots[0] == BucketSlot::EMPTY && self.replace(BucketSlot::EMPTY, slot)
    }

    /// Empties one slot that is equal to `slot`; false if there is none.
    pub fn remove(&mut self, slot: BucketSlot) -> bool {
        self.replace(slot, BucketSlot::EMPTY)
    }

    /// Puts `new` in the place of one slot that is equal to `old`; false if there is none.
    pub fn replace(&mut self, old: BucketSlot, new: BucketSlot) -> bool {
        let slots = &mut self.slots[..self.count];
        let Some(mut place) = slots.iter().position(|slot| *slot == old) else { return false };
        while place + 1 < slots.len() && slots[place + 1] < new {
            slots[place] = slots[place + 1];
            place += 1;
        }
        while place > 0 && slots[place - 1] > new {
            slots[place] = slots[place - 1];
            place -= 1;
        }
        slots[place] = new;
        true
    }
}

/// An encoded bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// These bits have all that the slots contain.
    Frequent(u64),
    /// These bits have the LIDs. The fingerprints are to be kept elsewhere, in the order of the
    /// slots.
    Rare(u64, [u16; SLOTS_MAX]),
}

/// The slots of a bucket whose fingerprint is that of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matches {
    row: u16,
    /// The highest bit of each fingerprint that matches.
    fingerprints: u64,
}

impl Matches {
    /// Whether no slot matches.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.fingerprints == 0
    }

    /// How many slots match.
    #[inline]
    pub fn count(self) -> usize {
        self.fingerprints.count_ones() as usize
    }
}

/// A class of LIDs: those from `first_lid` on.
#[derive(Clone, Copy, Debug)]
struct Class {
    first_lid: u16,
    lids: u16,
    fingerprint_bits: u32,
    /// Where its tables begin in [`Code::tables`], one for each count from 2 on; classes with
    /// equally many LIDs share them. `None` for a single LID.
    tables: Option<u16>,
}

/// What the code of a LID is made of.
#[derive(Clone, Copy, Debug)]
struct LidCode {
    class: u8,
    /// Those of its class.
    fingerprint_bits: u8,
    /// Its place in the class.
    number: u16,
}

/// A frequent group, as lookups need it.
#[derive(Clone, Copy, Debug)]
struct Row {
    counts: Counts,
    lengths: Lengths,
}

/// The lengths of the fingerprints in a bucket, from the last slot's on, a byte for each sequence
/// of equal ones: the length in its lowest five bits, and how many they are in the other three. No
/// more follow after 0. The highest byte is their sum: the fingerprints take so many bits, the
/// lowest ones of the bucket.
#[derive(Clone, Copy, Debug)]
struct Lengths(u64);

/// Fingerprints of the same length that follow each other in a bucket.
struct Alike {
    length: u32,
    count: u32,
    /// The bits of the bucket after them.
    place: u32,
}

impl Lengths {
    /// Of the slots' fingerprints, from the first slot's on.
    fn of(slots: &[u32]) -> Self {
        let alike = slots.chunk_by(|one, next| one == next);
        let alike = alike.fold(0, |all, alike| all << 8 | (alike.len() as u64) << 5 | u64::from(alike[0]));
        Self(u64::from(slots.iter().sum::<u32>()) << SUM_PLACE | alike)
    }

    /// The bits that all fingerprints take.
    #[inline]
    fn sum(self) -> u32 {
        (self.0 >> SUM_PLACE) as u32
    }

    /// The first bit of each fingerprint.
    #[inline]
    fn first_bits(self) -> u64 {
        self.iter().fold(0, |all, alike| all | alike.first_bits())
    }

    /// From the last ones on.
    #[inline]
    fn iter(self) -> impl Iterator<Item = Alike> {
        let (mut left, mut next) = (self.0 & ((1 << SUM_PLACE) - 1), 0);
        std::iter::from_fn(move || {
            let (length, count, place) = ((left & 31) as u32, (left >> 5 & 7) as u32, next);
            next += length * count;
            left >>= 8;
            (length > 0).then_some(Alike { length, count, place })
        })
    }
}

impl Alike {
    /// A one in the last bit of each.
    #[inline]
    fn last_bits(&self) -> u64 {
        LAST_BITS[self.length as usize][self.count as usize] << self.place
    }

    /// A one in the first bit of each.
    #[inline]
    fn first_bits(&self) -> u64 {
        self.last_bits() << (self.length - 1)
    }
}

/// The first bit of each fingerprint that is equal in two buckets, of these first bits and of so
/// many bits in all. All are compared at once.
#[inline]
fn equal_fingerprints(first_bits: u64, sum: u32, one: u64, other: u64) -> u64 {
    let others = ((1 << sum) - 1) & !first_bits;
    let differing = one ^ other;
    // One that differs has a one in its first bit already, or after the addition.
    first_bits & !(((differing & others) + others) | differing)
}

/// The place of the sum in [`Lengths`].
const SUM_PLACE: u32 = 8 * SLOTS_MAX as u32;

/// For each length of fingerprints, and each number of them that follow each other, a one in the
/// last bit of each. Lengths have five bits.
static LAST_BITS: [[u64; SLOTS_MAX + 1]; 32] = {
    let mut all = [[0; SLOTS_MAX + 1]; 32];
    let mut length = 1;
    while length < all.len() {
        let mut count = 1;
        while count <= SLOTS_MAX && length * count <= BUCKET_BITS as usize {
            all[length][count] = all[length][count - 1] << length | 1;
            count += 1;
        }
        length += 1;
    }
    all
};

/// The code of all buckets of a filter: which bits stand for which LIDs and fingerprints.
#[derive(Clone, Debug)]
pub struct Code {
    slots: usize,
    classes: Vec<Class>,
    lids: Vec<LidCode>,
    /// The first bucket of each row; last, that of rare buckets.
    thresholds: Vec<u64>,
    rows: Vec<Row>,
    /// For each value of a bucket's first bits, the row of the first bucket with these bits.
    heads: Vec<u16>,
    /// The rows by the hash of their counts, with linear probing; [`NO_ROW`] where there is none.
    row_of: Vec<u16>,
    /// Combinations of LIDs in a class, where they are few.
    tables: Vec<Option<Combinations>>,
    binomials: Binomials,
}

/// An empty place of [`Code::row_of`].
const NO_ROW: u16 = u16::MAX;

impl Code {
    /// Makes the code for buckets of `slots` slots.
    ///
    /// `lids` has the number of LIDs of each class, the class of the largest runs first. `states`
    /// are the states that the tree goes through: the code is made so that few buckets are rare in
    /// each of them, and that false positives are fewest on average over all.
    ///
    /// # Errors
    /// [`CodeError`] if an argument is out of its range, or if there are too many runs for so many
    /// slots.
    pub fn new(slots: usize, lids: &[u16], states: &[Shares]) -> Result<Self, CodeError> {
        let all_lids: usize = lids.iter().map(|&lids| usize::from(lids)).sum();
        if !(1..=SLOTS_MAX).contains(&slots) {
            return Err(CodeError::Slots(slots));
        }
        if !(1..=CLASSES_MAX).contains(&lids.len()) {
            return Err(CodeError::Classes(lids.len()));
        }
        if lids.contains(&0) || all_lids > LIDS_MAX {
            return Err(CodeError::Lids(lids.to_vec()));
        }
        if states.is_empty() || states.iter().any(|state| state.of_entries().len() != lids.len()) {
            return Err(CodeError::States);
        }
        let parts = CodeParts::best(slots, lids, states).ok_or(CodeError::DoesNotFit { slots })?;
        Ok(Self::with_parts(slots, lids, parts, Binomials::new(all_lids)))
    }

    /// The code of given parts, which fit.
    fn with_parts(slots: usize, lids: &[u16], parts: CodeParts, binomials: Binomials) -> Self {
        let CodeParts { mut frequent, bits: lengths } = parts;
        let lengths = &lengths[..];
        let (mut classes, mut codes) = (Vec::<Class>::with_capacity(lids.len()), Vec::new());
        let mut all_tables = Vec::new();
        for (class, (&lids, &fingerprint_bits)) in lids.iter().zip(lengths).enumerate() {
            let like = classes.iter().find(|class| class.lids == lids);
            let tables = like.map_or_else(|| (lids > 1).then_some(all_tables.len() as u16), |class| class.tables);
            if like.is_none() && lids > 1 {
                all_tables.extend((2..=slots).map(|count| binomials.table(lids.into(), count)));
            }
            classes.push(Class { first_lid: codes.len() as u16, lids, fingerprint_bits, tables });
            let (class, fingerprint_bits) = (class as u8, fingerprint_bits as u8);
            codes.extend((0..lids).map(|number| LidCode { class, fingerprint_bits, number }));
        }
        let bits_of = |group: Counts| lengths::fingerprint_bits(group, lengths);
        // The shortest codewords first.
        frequent.sort_by_key(|&(group, _)| (std::cmp::Reverse(bits_of(group)), group));
        let (mut thresholds, mut next) = (Vec::with_capacity(frequent.len() + 1), 0_u128);
        for &(group, combinations) in &frequent {
            thresholds.push(next as u64);
            next += u128::from(combinations) << bits_of(group);
        }
        assert!(next < 1 << BUCKET_BITS, "the lengths do not fit: {lengths:?}");
        thresholds.push(next as u64);
        let row = |&(counts, _): &(Counts, u64)| {
            let classes = counts.iter().flat_map(|(class, count)| std::iter::repeat_n(class, count));
            Row { counts, lengths: Lengths::of(&classes.map(|class| lengths[class]).collect::<Vec<_>>()) }
        };
        let mut row_of = vec![NO_ROW; (2 * frequent.len()).next_power_of_two()];
        for (&(group, _), row) in frequent.iter().zip(0..) {
            let free = probes(group, row_of.len()).find(|&place| row_of[place] == NO_ROW);
            row_of[free.expect("half of the places stay empty")] = row;
        }
        let first_of_heads = (0..1_u64 << HEAD_BITS).map(|head| head << (BUCKET_BITS - HEAD_BITS));
        let heads =
            first_of_heads.map(|bits| (thresholds.partition_point(|&first| first <= bits) - 1) as u16).collect();
        let rows = frequent.iter().map(row).collect();
        Self { slots, classes, lids: codes, thresholds, rows, heads, row_of, tables: all_tables, binomials }
    }

    /// The number of slots of a bucket.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The LIDs of a class: 0 is that of the largest runs.
    pub fn lids_of_class(&self, class: usize) -> std::ops::Range<u16> {
        let Class { first_lid, lids, .. } = self.classes[class];
        first_lid..first_lid + lids
    }

    /// The fingerprint's length of each class, in bits.
    pub fn fingerprint_bits(&self) -> impl Iterator<Item = u32> {
        self.classes.iter().map(|class| class.fingerprint_bits)
    }

    /// The fingerprint's length of a run with this LID, in bits.
    ///
    /// # Panics
    /// If the code has no such LID.
    pub fn fingerprint_bits_of(&self, lid: u16) -> u32 {
        self.lids[usize::from(lid)].fingerprint_bits.into()
    }

    /// The fingerprint of a key. Its first bits are never all zeros, as those of empty slots are.
    #[inline]
    pub fn fingerprint(&self, digest: Digest) -> Fingerprint {
        Fingerprint::of(digest, self.classes[0].fingerprint_bits)
    }

    /// The slot of a key in a run.
    ///
    /// # Panics
    /// If the code has no such LID.
    pub fn slot(&self, lid: u16, fingerprint: Fingerprint) -> BucketSlot {
        BucketSlot { lid, fingerprint: fingerprint.prefix(self.fingerprint_bits_of(lid)) }
    }

    /// The first [`FINGERPRINT_BITS_MIN`] bits of a slot's fingerprint, which lead to its key's
    /// other bucket.
    pub fn first_bits(&self, slot: BucketSlot) -> u16 {
        slot.fingerprint >> (self.fingerprint_bits_of(slot.lid) - FINGERPRINT_BITS_MIN)
    }

    /// The 64 bits of `bucket`.
    ///
    /// # Panics
    /// If `bucket` has slots that this code does not know.
    pub fn encode(&self, bucket: &Bucket) -> Encoded {
        let slots = bucket.slots();
        assert_eq!(slots.len(), self.slots, "a bucket of another code");
        let (mut counts, mut fingerprints, mut rank, mut combinations) = (Counts::default(), 0, 0, 1);
        // Those of the slots of one class, which follow each other.
        let (mut class_now, mut count, mut own_rank) = (0, 0, 0);
        for slot in slots {
            let LidCode { class, fingerprint_bits, number } = self.lids[usize::from(slot.lid)];
            if class != class_now {
                rank += combinations * own_rank;
                combinations *= self.binomials.count(self.classes[usize::from(class_now)].lids.into(), count);
                (class_now, count, own_rank) = (class, 0, 0);
            }
            own_rank += self.binomials.term(number.into(), count);
            count += 1;
            counts = counts.plus(class.into(), 1);
            assert!(
                u32::from(slot.fingerprint) >> fingerprint_bits == 0,
                "{slot:?} has more than {fingerprint_bits} bits"
            );
            fingerprints = fingerprints << fingerprint_bits | u64::from(slot.fingerprint);
        }
        rank += combinations * own_rank;
        if let Some(row) = self.row_with(counts) {
            return Encoded::Frequent(self.thresholds[row] + (rank << self.rows[row].lengths.sum()) + fingerprints);
        }
        let rank = self.binomials.rank(slots.iter().map(|slot| slot.lid.into()));
        let mut fingerprints = [0; SLOTS_MAX];
        for (fingerprint, slot) in fingerprints.iter_mut().zip(slots) {
            *fingerprint = slot.fingerprint;
        }
        Encoded::Rare(self.first_rare() + rank, fingerprints)
    }

    /// What the slots of a bucket contain, or `None` if the bucket is rare.
    pub fn decode(&self, bits: u64) -> Option<Bucket> {
        let row = self.row(bits)?;
        let mut bucket = Bucket::empty(self.slots);
        let lids = self.lids_of_row(bits, row);
        let (mut rest, mut next) = (bits, self.slots);
        for Alike { length, count, .. } in self.rows[row].lengths.iter() {
            for _ in 0..count {
                next -= 1;
                bucket.slots[next] = BucketSlot { lid: lids[next], fingerprint: (rest & ((1 << length) - 1)) as u16 };
                rest >>= length;
            }
        }
        Some(bucket)
    }

    /// What the slots of a rare bucket contain, with the fingerprints that
    /// [`encode`](Self::encode) gave.
    ///
    /// # Panics
    /// If the bucket is not rare, or no bucket of the code.
    pub fn decode_rare(&self, bits: u64, fingerprints: &[u16; SLOTS_MAX]) -> Bucket {
        let rank = bits.checked_sub(self.first_rare()).unwrap_or_else(|| panic!("{bits:#x} is no rare bucket"));
        let mut lids = [0; SLOTS_MAX];
        self.binomials.unrank(rank, self.lids.len(), &mut lids[..self.slots]);
        let mut bucket = Bucket::empty(self.slots);
        for (slot, (&lid, &fingerprint)) in bucket.slots.iter_mut().zip(lids.iter().zip(fingerprints)).take(self.slots)
        {
            *slot = BucketSlot { lid: lid as u16, fingerprint };
        }
        bucket
    }

    /// The slots of a bucket that may belong to a key, or `None` if the bucket is rare.
    ///
    /// The key's fingerprint, in each length, is put in all places where the bucket has one of that
    /// length.
    #[inline]
    pub fn matches(&self, bits: u64, fingerprint: Fingerprint) -> Option<Matches> {
        let row = self.row(bits)?;
        let lengths = self.rows[row].lengths;
        let (mut of_key, mut first_bits) = (0, 0);
        for alike in lengths.iter() {
            of_key |= alike.last_bits() * u64::from(fingerprint.prefix(alike.length));
            first_bits |= alike.first_bits();
        }
        let fingerprints = equal_fingerprints(first_bits, lengths.sum(), bits, of_key);
        Some(Matches { row: row as u16, fingerprints })
    }

    /// The number of empty slots of a bucket, or `None` if it is rare. Takes less than decoding it.
    #[inline]
    pub fn empty_slots(&self, bits: u64) -> Option<usize> {
        let row = self.row(bits)?;
        let Row { counts, lengths } = self.rows[row];
        let first_bits = lengths.first_bits();
        // Empty slots come first. Of their class, no other has zeros as fingerprint.
        let others = first_bits & !equal_fingerprints(first_bits, lengths.sum(), bits, 0);
        let zeros = first_bits & !u64::MAX.checked_shr(others.leading_zeros()).unwrap_or(0);
        Some(counts.of(0).min(zeros.count_ones() as usize))
    }

    /// What [`Code::first_bits`] gives for each slot of a bucket, or `None` if it is rare. Takes
    /// less than decoding it.
    #[inline]
    pub fn first_bits_of_slots(&self, bits: u64) -> Option<[u16; SLOTS_MAX]> {
        let row = self.row(bits)?;
        let (mut all, mut place, mut next) = ([0; SLOTS_MAX], 0, self.slots);
        for Alike { length, count, .. } in self.rows[row].lengths.iter() {
            for _ in 0..count {
                place += length;
                next -= 1;
                all[next] = (bits >> (place - FINGERPRINT_BITS_MIN) & ((1 << FINGERPRINT_BITS_MIN) - 1)) as u16;
            }
        }
        Some(all)
    }

    /// The LIDs of a bucket's matching slots, ascending; a LID comes as often as it matches.
    #[inline]
    pub fn lids(&self, bits: u64, matches: Matches) -> impl Iterator<Item = u16> + use<> {
        let row = usize::from(matches.row);
        let lids = self.lids_of_row(bits, row);
        let (first_bits, mut left) = (self.rows[row].lengths.first_bits(), matches.fingerprints);
        std::iter::from_fn(move || {
            let place = left.checked_ilog2()?;
            left ^= 1 << place;
            // The first bits from there on are those of the slots up to this one.
            let slots = (first_bits >> place).count_ones();
            Some(lids[slots as usize - 1])
        })
    }

    /// The share of buckets that are rare in a tree in this state. A code that was made for the
    /// state keeps it below one in ten thousand; if it is much more, the filter needs another
    /// code.
    pub fn rare_share(&self, state: &Shares) -> f64 {
        1.0 - groups::probability(self.slots, state, self.rows.iter().map(|row| row.counts))
    }

    /// The false positives of a lookup of an absent key in a tree in this state, with the share
    /// `load` of all slots in use.
    pub fn false_positives(&self, state: &Shares, load: f64) -> f64 {
        let classes = state.of_entries().iter().zip(self.fingerprint_bits());
        classes.map(|(&share, bits)| chucky::rate(self.slots, load, share, bits.into())).sum()
    }

    /// The number of frequent groups.
    pub fn groups(&self) -> usize {
        self.rows.len()
    }

    /// The bytes that the code takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.classes)
            + size_of_val(&*self.lids)
            + size_of_val(&*self.thresholds)
            + size_of_val(&*self.rows)
            + size_of_val(&*self.heads)
            + size_of_val(&*self.row_of)
            + self.tables.iter().flatten().map(Combinations::memory_bytes).sum::<usize>()
            + self.binomials.memory_bytes()
    }

    /// Whether a bucket is rare.
    #[inline]
    pub fn is_rare(&self, bits: u64) -> bool {
        bits >= self.first_rare()
    }

    /// The row of the group with these counts, or `None` if it is not frequent.
    #[inline]
    fn row_with(&self, counts: Counts) -> Option<usize> {
        let rows = probes(counts, self.row_of.len()).map(|place| self.row_of[place]).take_while(|row| *row != NO_ROW);
        rows.map(usize::from).find(|&row| self.rows[row].counts == counts)
    }

    /// The first rare bucket.
    fn first_rare(&self) -> u64 {
        self.thresholds[self.rows.len()]
    }

    /// The row of a bucket, or `None` if it is rare.
    #[inline]
    fn row(&self, bits: u64) -> Option<usize> {
        let mut row = usize::from(self.heads[(bits >> (BUCKET_BITS - HEAD_BITS)) as usize]);
        while self.thresholds.get(row + 1).is_some_and(|next| bits >= *next) {
            row += 1;
        }
        (row < self.rows.len()).then_some(row)
    }

    /// The LIDs of a frequent bucket.
    fn lids_of_row(&self, bits: u64, row: usize) -> [u16; SLOTS_MAX] {
        let Row { counts, lengths } = self.rows[row];
        let mut rank = (bits - self.thresholds[row]) >> lengths.sum();
        let (mut lids, mut slot) = ([0; SLOTS_MAX], 0);
        let mut classes = counts.iter().peekable();
        while let Some((class, count)) = classes.next() {
            let Class { first_lid, lids: of_class, tables, .. } = self.classes[class];
            let own = &mut lids[slot..slot + count];
            slot += count;
            own.fill(first_lid);
            let Some(tables) = tables else { continue };
            // Nothing is left of the rank for the last one but its own.
            let mut own_rank = rank;
            if classes.peek().is_some() {
                let combinations = self.binomials.count(of_class.into(), count);
                (rank, own_rank) = (rank / combinations, rank % combinations);
            }
            if count == 1 {
                own[0] += own_rank as u16;
            } else if let Some(table) = &self.tables[usize::from(tables) + count - 2] {
                own.iter_mut().zip(table.of_rank(own_rank)).for_each(|(lid, number)| *lid += u16::from(number));
            } else {
                let mut numbers = [0; SLOTS_MAX];
                self.binomials.unrank(own_rank, of_class.into(), &mut numbers[..count]);
                own.iter_mut().zip(numbers).for_each(|(lid, number)| *lid += number as u16);
            }
        }
        lids
    }
}

/// The places of [`Code::row_of`], of `places` in all, where a group may be.
fn probes(counts: Counts, places: usize) -> impl Iterator<Item = usize> {
    let first = (counts.packed().wrapping_mul(FIRST) >> (u64::BITS - places.trailing_zeros())) as usize;
    (0..places).map(move |step| (first + step) & (places - 1))
}
