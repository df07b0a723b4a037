//! [`RangeTombstones`]: ranges of keys that are deleted, each for readers at or above a sequence
//! number, and which of them hides what.
//!
//! ```text
//!   tombstones        ├────── 7 ──────┤        ├─ 9 ─┤
//!                            ├──── 12 ─────┤
//!   fragments         ├─ 7 ─┤├ 12,7 ─┤├ 12 ┤   ├─ 9 ─┤       disjoint, in the order of keys
//!   floor at 10             7      7       0         9       what a reader at 10 sees is above it
//! ```
//!
//! The **floor** of a key for a reader is the greatest sequence, up to the reader's, of a tombstone
//! that covers the key; 0 if there is none. The reader sees an entry only if its sequence is above
//! the floor. As no two writes have one sequence, that is all there is to say about visibility.
//!
//! # Groups
//!
//! One list of fragments for n tombstones can have n² sequences: each deletes all keys up to one a
//! little later, say. So there are several lists. A tombstone is a group of its own at first;
//! groups of about one size are merged, unless that makes many more sequences than tombstones.
//! Disjoint ranges thus form log₂(n) groups, and nested ones about n / 16, which a lookup asks by
//! one comparison of keys each. Groups never change, so that copies of the whole are cheap.
//!
//! Tests: here, against a list of all tombstones.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::entry::{Entry, Sequence};
use crate::format::key_range::{Key, KeyRange};

/// A range of keys that is deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeTombstone {
    /// The range; not empty.
    pub range: KeyRange,
    /// The sequence of the deletion.
    pub sequence: Sequence,
}

/// Range tombstones, by keys. See the module's documentation.
#[derive(Clone, Default, Debug)]
pub struct RangeTombstones {
    /// In the order in which they were added.
    groups: Vec<Arc<FragmentGroup>>,
}

/// Keys that have one floor for a reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The keys.
    pub range: KeyRange,
    /// Their floor.
    pub floor: Sequence,
}

/// Tombstones as fragments.
#[derive(Debug)]
struct FragmentGroup {
    /// Disjoint, in the order of keys.
    fragments: Vec<Fragment>,
    tombstones: usize,
    /// Of all fragments together.
    sequences: usize,
    youngest: Sequence,
}

/// Keys that the same tombstones cover.
#[derive(Clone, Debug)]
struct Fragment {
    from: Key,
    /// `None` is the end of all keys.
    to: Option<Key>,
    /// Young to old; at least one.
    sequences: Vec<Sequence>,
}

/// How many times as many sequences as tombstones a merged group may have.
const SEQUENCES_PER_TOMBSTONE: usize = 8;

/// The memory of a fragment besides its keys, in bytes.
const FRAGMENT_BYTES: usize = size_of::<Fragment>() + 48;

impl RangeTombstone {
    /// The tombstone that an entry of the kind range delete is.
    pub fn of(entry: &Entry<'_>) -> Self {
        let to = (!entry.value.is_empty()).then(|| Key::from(entry.value));
        Self { range: KeyRange { from: Some(Key::from(entry.key)), to }, sequence: entry.sequence }
    }
}

impl RangeTombstones {
    /// All of these.
    pub fn of<'a>(tombstones: impl IntoIterator<Item = &'a RangeTombstone>) -> Self {
        tombstones.into_iter().fold(Self::default(), |all, tombstone| all.with(tombstone))
    }

    /// These and another one.
    #[must_use]
    pub fn with(&self, tombstone: &RangeTombstone) -> Self {
        let mut groups = self.groups.clone();
        let mut last = FragmentGroup::of(tombstone);
        while let Some(before) = groups.last().filter(|before| before.tombstones <= last.tombstones) {
            let merged = before.merged(&last);
            if merged.sequences > SEQUENCES_PER_TOMBSTONE * merged.tombstones {
                break;
            }
            last = merged;
            groups.pop();
        }
        groups.push(Arc::new(last));
        Self { groups }
    }

    /// Adds all of `others`.
    pub fn extend(&mut self, others: &Self) {
        self.groups.extend(others.groups.iter().cloned());
    }

    /// Returns true if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.tombstones).sum()
    }

    /// Returns the floor of a key for a reader.
    pub fn floor(&self, key: &[u8], reader: Sequence) -> Sequence {
        let mut floor = Sequence::ZERO;
        for group in self.groups.iter().rev().filter(|group| group.may_cover(key)) {
            if group.youngest > floor
                && let Some(fragment) = group.fragment_of(key)
            {
                floor = floor.max(fragment.floor(reader));
            }
        }
        floor
    }

    /// Returns true if all of `readable` (ascending) that see an entry by its sequence are at or
    /// above a tombstone that hides it. False if none of them sees it: it is not visible yet.
    pub fn hide(&self, key: &[u8], sequence: Sequence, readable: &[Sequence]) -> bool {
        let seen_by = readable.partition_point(|readable| *readable < sequence);
        readable.get(seen_by).is_some_and(|reader| self.floor(key, *reader) > sequence)
    }

    /// Returns the keys around `key` that have the same floor for a reader as it; perhaps not all
    /// of them.
    pub fn stretch(&self, key: &[u8], reader: Sequence) -> Stretch {
        let mut stretch = Stretch { range: KeyRange::ALL, floor: Sequence::ZERO };
        for group in &self.groups {
            let (range, floor) = group.around(key, reader);
            stretch.range = stretch.range.and(&range);
            stretch.floor = stretch.floor.max(floor);
        }
        stretch
    }

    /// Returns the end of the stretch of keys from `key` on whose floors are at least `floor`, for
    /// a reader; `None` if it has no end.
    pub fn covered_to(&self, key: &[u8], floor: Sequence, reader: Sequence) -> Option<Key> {
        let mut to = self.stretch(key, reader).range.to?;
        loop {
            let next = self.stretch(&to, reader);
            if next.floor < floor {
                return Some(to);
            }
            to = next.range.to?;
        }
    }

    /// Returns a key that begins a stretch with `key` whose floors are all at least `floor`, for a
    /// reader.
    pub fn covered_from(&self, key: &[u8], floor: Sequence, reader: Sequence) -> Key {
        let begin = |stretch: Stretch| stretch.range.from.unwrap_or_else(|| Key::from([]));
        let mut from = begin(self.stretch(key, reader));
        while let Some(before) = self.stretch_before(&from, reader).filter(|before| before.floor >= floor) {
            from = begin(before);
        }
        from
    }

    /// The keys directly before `key` that have one floor, if they are covered by a fragment that
    /// ends there.
    fn stretch_before(&self, key: &Key, reader: Sequence) -> Option<Stretch> {
        let before = |group: &Arc<FragmentGroup>| {
            let at = group.fragments.partition_point(|fragment| fragment.from < *key);
            let fragment = group.fragments.get(at.checked_sub(1)?)?;
            fragment.to.as_ref().is_none_or(|to| key <= to).then(|| fragment.clone())
        };
        let fragments: Vec<Fragment> = self.groups.iter().filter_map(before).collect();
        let from = fragments.iter().map(|fragment| &fragment.from).max()?.clone();
        let floor = fragments.iter().map(|fragment| fragment.floor(reader)).max()?;
        // Where no fragment covers, another one may end in between.
        let ends = self.groups.iter().flat_map(|group| group.ends_within(&from, key)).max();
        let from = ends.map_or(from.clone(), |end| from.max(end));
        Some(Stretch { range: KeyRange { from: Some(from), to: Some(key.clone()) }, floor })
    }

    /// Returns the sequence of a tombstone that `is_wanted` and covers some key from `first` to
    /// before `after`, and whether its fragment covers all of these.
    pub fn find(&self, first: &[u8], after: &[u8], is_wanted: impl Fn(Sequence) -> bool) -> Option<(Sequence, bool)> {
        self.groups.iter().find_map(|group| {
            let fragments = group.fragments[group.first_ending_after(first)..].iter();
            let mut within = fragments.take_while(|fragment| *fragment.from < *after);
            within.find_map(|fragment| {
                let sequence = *fragment.sequences.iter().find(|sequence| is_wanted(**sequence))?;
                let covers = *fragment.from <= *first && fragment.to.as_deref().is_none_or(|to| after <= to);
                Some((sequence, covers))
            })
        })
    }

    /// Returns tombstones that hide the same of what is older than all of these. `readable`
    /// (ascending) must have every sequence for which entries younger than some of these were kept.
    ///
    /// Of those that the same readers see, ranges that overlap or touch become one, with the least
    /// of their sequences: nothing that must be hidden lies between that and the others.
    pub fn coalesced(&self, readable: &[Sequence]) -> Vec<RangeTombstone> {
        let class = |sequence: Sequence| readable.partition_point(|readable| *readable < sequence);
        let mut classes: Vec<usize> = self.sequences().map(class).collect();
        classes.sort_unstable();
        classes.dedup();
        let mut coalesced: Vec<RangeTombstone> = Vec::new();
        for wanted in classes {
            let is_wanted = |sequence: &Sequence| class(*sequence) == wanted;
            let fragments = self.groups.iter().flat_map(|group| &group.fragments);
            let mut ranges: Vec<(&Key, &Option<Key>, Sequence)> = fragments
                .filter_map(|fragment| {
                    let least = fragment.sequences.iter().rev().copied().find(is_wanted)?;
                    Some((&fragment.from, &fragment.to, least))
                })
                .collect();
            ranges.sort_unstable_by(|a, b| a.0.cmp(b.0));
            let begin = coalesced.len();
            for (from, to, sequence) in ranges {
                match coalesced[begin..].last_mut().filter(|last| last.range.to.as_ref().is_none_or(|end| from <= end))
                {
                    Some(last) => {
                        if compare_ends(&last.range.to, to).is_lt() {
                            last.range.to.clone_from(to);
                        }
                        last.sequence = last.sequence.min(sequence);
                    }
                    None => {
                        let range = KeyRange { from: Some(from.clone()), to: to.clone() };
                        coalesced.push(RangeTombstone { range, sequence });
                    }
                }
            }
        }
        coalesced.sort_unstable_by_key(|tombstone| tombstone.sequence);
        coalesced
    }

    fn sequences(&self) -> impl Iterator<Item = Sequence> {
        let fragments = self.groups.iter().flat_map(|group| &group.fragments);
        fragments.flat_map(|fragment| fragment.sequences.iter().copied())
    }

    /// Returns the memory of all, in bytes, approximately.
    pub fn memory_bytes(&self) -> usize {
        self.groups.iter().map(|group| group.memory_bytes()).sum()
    }
}

impl Stretch {
    /// Returns true if `key` is one of its keys.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.range.contains(key)
    }
}

impl FragmentGroup {
    fn of(tombstone: &RangeTombstone) -> Self {
        let RangeTombstone { range, sequence } = tombstone;
        debug_assert!(!range.is_empty(), "an empty range of keys is deleted: {range:?}");
        let from = range.from.clone().unwrap_or_else(|| Key::from([]));
        let fragments = vec![Fragment { from, to: range.to.clone(), sequences: vec![*sequence] }];
        Self { fragments, tombstones: 1, sequences: 1, youngest: *sequence }
    }

    fn merged(&self, other: &Self) -> Self {
        let fragments = merge(&self.fragments, &other.fragments);
        Self {
            tombstones: self.tombstones + other.tombstones,
            sequences: fragments.iter().map(|fragment| fragment.sequences.len()).sum(),
            youngest: self.youngest.max(other.youngest),
            fragments,
        }
    }

    /// The number of the first fragment that does not end at or before `key`.
    fn first_ending_after(&self, key: &[u8]) -> usize {
        self.fragments.partition_point(|fragment| fragment.to.as_deref().is_some_and(|to| to <= key))
    }

    /// False if all fragments are after `key`, or all are before it.
    fn may_cover(&self, key: &[u8]) -> bool {
        let (Some(first), Some(last)) = (self.fragments.first(), self.fragments.last()) else { return false };
        *first.from <= *key && last.to.as_deref().is_none_or(|to| key < to)
    }

    fn fragment_of(&self, key: &[u8]) -> Option<&Fragment> {
        self.fragments.get(self.first_ending_after(key)).filter(|fragment| *fragment.from <= *key)
    }

    /// The keys around `key` that the same fragment covers, or that none does, and their floor.
    fn around(&self, key: &[u8], reader: Sequence) -> (KeyRange, Sequence) {
        let at = self.first_ending_after(key);
        match self.fragments.get(at) {
            Some(fragment) if *fragment.from <= *key => {
                let range = KeyRange { from: Some(fragment.from.clone()), to: fragment.to.clone() };
                (range, fragment.floor(reader))
            }
            next => {
                let from = at.checked_sub(1).and_then(|before| self.fragments[before].to.clone());
                (KeyRange { from, to: next.map(|next| next.from.clone()) }, Sequence::ZERO)
            }
        }
    }

    /// The bounds of fragments that lie between two keys.
    fn ends_within(&self, after: &Key, before: &Key) -> impl Iterator<Item = Key> {
        let fragments = self.fragments[self.first_ending_after(after)..].iter();
        let within = fragments.take_while(move |fragment| fragment.from < *before);
        let bounds = within.flat_map(|fragment| [Some(fragment.from.clone()), fragment.to.clone()]);
        bounds.flatten().filter(move |bound| after < bound && bound < before)
    }

    fn memory_bytes(&self) -> usize {
        let bytes = |fragment: &Fragment| {
            let keys = fragment.from.len() + fragment.to.as_ref().map_or(0, |to| to.len());
            FRAGMENT_BYTES + keys + fragment.sequences.capacity() * size_of::<Sequence>()
        };
        size_of::<Self>() + self.fragments.iter().map(bytes).sum::<usize>()
    }
}

impl Fragment {
    /// The greatest sequence up to the reader's; 0 if there is none.
    fn floor(&self, reader: Sequence) -> Sequence {
        let at = self.sequences.partition_point(|sequence| *sequence > reader);
        self.sequences.get(at).copied().unwrap_or(Sequence::ZERO)
    }

    /// The part from `key` on.
    fn begin_at(&mut self, key: &Key) {
        self.from = key.clone();
    }

    /// The part before `key`.
    fn up_to(&self, key: &Key) -> Self {
        Self { to: Some(key.clone()), ..self.clone() }
    }
}

/// Compares two ends of ranges; `None` is after all keys.
fn compare_ends(a: &Option<Key>, b: &Option<Key>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
    }
}

/// The fragments of two lists as one list.
fn merge(a: &[Fragment], b: &[Fragment]) -> Vec<Fragment> {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut more_a, mut more_b) = (a.iter().cloned(), b.iter().cloned());
    let (mut next_a, mut next_b) = (more_a.next(), more_b.next());
    while let (Some(a), Some(b)) = (&mut next_a, &mut next_b) {
        match a.from.cmp(&b.from) {
            Ordering::Less => {
                if a.to.as_ref().is_some_and(|to| *to <= b.from) {
                    merged.extend(std::mem::replace(&mut next_a, more_a.next()));
                } else {
                    merged.push(a.up_to(&b.from));
                    a.begin_at(&b.from);
                }
            }
            Ordering::Greater => {
                if b.to.as_ref().is_some_and(|to| *to <= a.from) {
                    merged.extend(std::mem::replace(&mut next_b, more_b.next()));
                } else {
                    merged.push(b.up_to(&a.from));
                    b.begin_at(&a.from);
                }
            }
            Ordering::Equal => {
                let order = compare_ends(&a.to, &b.to);
                let to = if order.is_le() { a.to.clone() } else { b.to.clone() };
                let mut sequences = [&a.sequences[..], &b.sequences[..]].concat();
                sequences.sort_unstable_by(|a, b| b.cmp(a));
                merged.push(Fragment { from: a.from.clone(), to: to.clone(), sequences });
                if let Some(to) = &to {
                    a.begin_at(to);
                    b.begin_at(to);
                }
                if order.is_le() {
                    next_a = more_a.next();
                }
                if order.is_ge() {
                    next_b = more_b.next();
                }
            }
        }
    }
    merged.extend(next_a.into_iter().chain(more_a).chain(next_b).chain(more_b));
    merged
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    fn key(number: u64) -> Key {
        Key::from(&[number as u8][..])
    }

    fn random_range(random: &mut Random, keys: u64) -> KeyRange {
        let from = random.below(keys);
        let to = from + 1 + random.below(keys - from);
        let to = (!random.one_in(8)).then(|| key(to));
        KeyRange { from: if random.one_in(8) { Some(Key::from([])) } else { Some(key(from)) }, to }
    }

    /// Tombstones with sequences from 1 on, as they come in a memtable: mostly in order.
    fn random_tombstones(random: &mut Random, count: u64, keys: u64) -> Vec<RangeTombstone> {
        let pattern = random.below(3);
        let mut tombstones: Vec<_> = (1..=count)
            .map(|number| {
                let range = match pattern {
                    0 => random_range(random, keys),
                    // All up to a key that grows.
                    1 => KeyRange { from: Some(Key::from([])), to: Some(key(1 + number * keys / (count + 1))) },
                    // One behind the other.
                    _ => {
                        let from = number * keys / (count + 1);
                        KeyRange { from: Some(key(from)), to: Some(key(from + 1)) }
                    }
                };
                RangeTombstone { range, sequence: Sequence(2 * number) }
            })
            .collect();
        for _ in 0..count / 4 {
            let at = random.below(count) as usize;
            tombstones.swap(at, (at + 1) % count as usize);
        }
        tombstones
    }

    fn floor(tombstones: &[RangeTombstone], key: &[u8], reader: Sequence) -> Sequence {
        let covering = tombstones.iter().filter(|tombstone| tombstone.range.contains(key));
        covering.map(|tombstone| tombstone.sequence).filter(|sequence| *sequence <= reader).max().unwrap_or_default()
    }

    /// Floors and stretches are those of a list of all tombstones.
    #[test]
    fn random_tombstones_agree_with_a_list() {
        const KEYS: u64 = 40;
        let mut covered = 0;
        for seed in 0..600 {
            let mut random = Random::new(seed);
            let most = *random.pick(&[3, 20, 80]);
            let count = 1 + random.below(most);
            let list = random_tombstones(&mut random, count, KEYS);
            let all = RangeTombstones::of(&list);
            assert_eq!(all.len(), list.len());
            let mut split = RangeTombstones::of(&list[..list.len() / 2]);
            split.extend(&RangeTombstones::of(&list[list.len() / 2..]));
            for _ in 0..60 {
                let (at, reader) = (key(random.below(KEYS + 1)), Sequence(random.below(2 * count + 3)));
                let expected = floor(&list, &at, reader);
                covered += u64::from(expected > Sequence::ZERO);
                assert_eq!(all.floor(&at, reader), expected, "seed {seed}, {at:?} at {reader:?}");
                assert_eq!(split.floor(&at, reader), expected, "seed {seed}");
                let stretch = all.stretch(&at, reader);
                assert!(stretch.contains(&at) && stretch.floor == expected, "seed {seed}: {stretch:?}");
                let (to, from) = (all.covered_to(&at, expected, reader), all.covered_from(&at, expected, reader));
                for number in 0..=KEYS {
                    let other = key(number);
                    let other_floor = floor(&list, &other, reader);
                    if stretch.contains(&other) {
                        assert_eq!(other_floor, expected, "seed {seed}: {stretch:?}");
                    }
                    let is_behind = at <= other && to.as_ref().is_none_or(|to| other < *to);
                    let is_before = from <= other && other <= at;
                    if (is_behind || is_before) && expected > Sequence::ZERO {
                        assert!(other_floor >= expected, "seed {seed}: {other:?} from {from:?} to {to:?}");
                    }
                }
                if let Some(to) = to.filter(|_| expected > Sequence::ZERO) {
                    assert!(floor(&list, &to, reader) < expected, "seed {seed}: the stretch goes on at {to:?}");
                }
                let first = random.below(KEYS);
                let after = first + 1 + random.below(KEYS - first);
                let least = Sequence(random.below(2 * count));
                let found = all.find(&key(first), &key(after), |sequence| sequence > least);
                let is_there = |tombstone: &RangeTombstone| {
                    tombstone.sequence > least && (first..after).any(|number| tombstone.range.contains(&key(number)))
                };
                assert_eq!(found.is_some(), list.iter().any(is_there), "seed {seed}");
                if let Some((sequence, covers)) = found {
                    let tombstone = list.iter().find(|tombstone| tombstone.sequence == sequence).expect("one of them");
                    let all_in = (first..after).all(|number| tombstone.range.contains(&key(number)));
                    assert!(!covers || all_in, "seed {seed}");
                }
            }
        }
        assert!(covered > 5000, "only {covered} keys were covered");
    }

    /// What is coalesced hides the same of older entries, from all readers that there are.
    #[test]
    fn coalesced_tombstones_hide_the_same() {
        const KEYS: u64 = 30;
        let (mut before, mut after) = (0, 0);
        for seed in 0..600 {
            let mut random = Random::new(seed);
            let count = 1 + random.below(30);
            let list = random_tombstones(&mut random, count, KEYS);
            let all = RangeTombstones::of(&list);
            let mut readable: Vec<_> = (0..random.below(4)).map(|_| Sequence(random.below(2 * count + 2))).collect();
            readable.push(Sequence(2 * count + 5));
            readable.sort_unstable();
            let coalesced = all.coalesced(&readable);
            (before, after) = (before + list.len(), after + coalesced.len());
            assert!(coalesced.is_sorted_by_key(|tombstone| tombstone.sequence));
            assert!(coalesced.windows(2).all(|pair| pair[0].sequence < pair[1].sequence), "seed {seed}: one each");
            for reader in &readable {
                for number in 0..=KEYS {
                    let hides = |list: &[RangeTombstone]| floor(list, &key(number), *reader) > Sequence::ZERO;
                    assert_eq!(hides(&coalesced), hides(&list), "seed {seed}, key {number} at {reader:?}");
                }
            }
            for tombstone in &coalesced {
                assert!(list.iter().any(|other| other.sequence == tombstone.sequence), "seed {seed}");
            }
        }
        assert!(2 * after < before, "{before} became {after}");
    }

    /// A range behind the other, as of a queue, becomes one; ranges that grow take little memory.
    #[test]
    fn many_tombstones_take_little() {
        let number = |number: u64| Key::from(&number.to_be_bytes()[..]);
        let many = 10_000;
        let queue = (1..=many).map(|at| {
            let range = KeyRange { from: Some(number(at)), to: Some(number(at + 1)) };
            RangeTombstone { range, sequence: Sequence(at) }
        });
        let queue = RangeTombstones::of(&queue.collect::<Vec<_>>());
        assert!(queue.groups.len() < 20, "{} groups", queue.groups.len());
        assert_eq!(queue.coalesced(&[Sequence(many)]).len(), 1);
        let growing = (1..=many).map(|at| {
            let range = KeyRange { from: Some(number(0)), to: Some(number(at)) };
            RangeTombstone { range, sequence: Sequence(at) }
        });
        let growing = RangeTombstones::of(&growing.collect::<Vec<_>>());
        let bytes = growing.memory_bytes() as u64 / many;
        assert!(bytes < 400, "{bytes} bytes for each");
        assert_eq!(growing.coalesced(&[Sequence(many)]).len(), 1);
        assert_eq!(growing.floor(&number(5), Sequence(many)), Sequence(many));
        assert_eq!(growing.floor(&number(5), Sequence(100)), Sequence(100));
        assert_eq!(growing.floor(&number(many), Sequence(many)), Sequence::ZERO);
    }
}
