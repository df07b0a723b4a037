//! [`Waypoints`]: places in a block where a search may begin, and how to choose one without looking
//! at the block.
//!
//! ```text
//! keys       user:0142  user:0150  user:0163  user:0180  user:0199
//! common     user:01
//! waypoints                        ▲ "50"                ▲ "80"     offsets of entries
//! ```
//!
//! A waypoint is the offset of an entry, and a *prefix* of the key **before** it: the four bytes
//! after what all keys of the block have in common (the picture shows two). If the prefix is
//! smaller than that of the sought key, so is the key before the waypoint, and the place where the
//! two differ tells how many bytes the keys have in common. To compare the entries that follow,
//! whose keys are encoded as differences, a search needs no more than this number
//! (`Block::compare`). So it may begin at any entry, not only at restarts.
//!
//! A usual block has a waypoint for every one to five entries, all of them in the `Block` itself,
//! beside the pointer to its payload. Where the processor's caches hold nothing of a block, a
//! search waits for the `Block`, then for the few entries.
//!
//! # Costs
//!
//! Making waypoints parses each entry once, and those of the last restart interval twice. Memory:
//! 112 bytes in each block; and 8 bytes beside it for each eight entries of a block with more than
//! [`RESTARTS_MAX`] restarts or 64 KiB. A search allocates nothing.
//!
//! If several waypoints have the prefix of the sought key, as where a block has many versions of
//! it, searches bisect restarts, as in a block without waypoints.
//!
//! Tests: `tests/block.rs`, where searches of indexed blocks are compared with a plain sorted list.

use std::ops::Range;

use crate::prefixes::{common_prefix, first_eight};

/// The number of waypoints in the block itself: their prefixes fill a cache line.
const INLINE: usize = 16;

/// The number of entries from one waypoint to the next in a block of many; and of one restart to
/// the next in tables, by which the number of entries is estimated.
const SPACING: usize = 8;

/// The number of restarts of a block beyond which its waypoints are not in the block itself.
const RESTARTS_MAX: usize = INLINE;

/// The number of waypoints with equal prefixes from which on a search is to bisect restarts rather
/// than pass all their entries.
const EQUALS: usize = 3;

/// A place where a search may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waypoint {
    /// The four bytes after the common prefix of the key before, padded with zeros, as a number
    /// with the same order.
    pub(super) prefix: u32,
    /// The offset of the entry.
    pub(super) offset: u32,
}

/// The entry at which a search begins. Those before it are before the sought place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SearchStart {
    /// The offset of the entry.
    pub(super) at: usize,
    /// The number of bytes that the key of the entry before has in common with the sought one.
    pub(super) matched: usize,
}

/// The waypoints of an indexed block.
#[derive(Debug)]
pub(super) struct Waypoints {
    /// The prefixes of waypoints in order, then `u32::MAX`.
    prefixes: [u32; INLINE],
    offsets: [u16; INLINE],
    /// The first bytes of what all keys have in common, padded with zeros: see [`first_sixteen`].
    /// Here, so that a search need not look at the first key.
    common: [u64; 2],
    /// The length of what all keys have in common; it stands in the first key.
    common_bytes: u16,
    common_start: u16,
    count: u8,
    /// All waypoints, of a block that needs more.
    many: Box<[Waypoint]>,
}

impl Default for Waypoints {
    fn default() -> Self {
        Self {
            prefixes: [u32::MAX; INLINE],
            offsets: [0; INLINE],
            common: [0; 2],
            common_bytes: 0,
            common_start: 0,
            count: 0,
            many: Box::default(),
        }
    }
}

/// Returns true for a block whose waypoints are not in the block itself.
pub(super) fn are_many(restarts: usize, entries_end: usize) -> bool {
    restarts > RESTARTS_MAX || entries_end > usize::from(u16::MAX)
}

/// Waypoints that are being chosen while the entries of a block are passed.
pub(super) struct Choice {
    chosen: Waypoints,
    many: Vec<Waypoint>,
    /// The number of entries from one waypoint to the next.
    spacing: u32,
    /// The number of entries since the last waypoint.
    since: u32,
    last_prefix: u32,
    entries_end: usize,
    has_many: bool,
}

impl Choice {
    /// Chooses among the waypoints of a block with so many restarts, whose entries end at
    /// `entries_end`. `common` is where the `payload` has the common prefix of all keys. `None` if
    /// that is too long.
    pub(super) fn new(payload: &[u8], common: Range<usize>, restarts: usize, entries_end: usize) -> Option<Self> {
        let chosen = Waypoints {
            common: first_sixteen(&payload[common.clone()]),
            common_bytes: u16::try_from(common.len()).ok()?,
            common_start: u16::try_from(common.start).ok()?,
            ..Waypoints::default()
        };
        let has_many = are_many(restarts, entries_end);
        let spacing = restarts.div_ceil(RESTARTS_MAX / SPACING).min(SPACING) as u32;
        Some(Self { chosen, many: Vec::new(), spacing, since: 0, last_prefix: 0, entries_end, has_many })
    }

    /// Passes the entry before a possible waypoint. `None` if the keys do not ascend.
    #[inline]
    pub(super) fn pass(&mut self, waypoint: Waypoint) -> Option<()> {
        self.since += 1;
        if self.since < self.spacing || waypoint.offset as usize == self.entries_end {
            return Some(());
        }
        self.since = 0;
        if waypoint.prefix < std::mem::replace(&mut self.last_prefix, waypoint.prefix) {
            return None;
        }
        self.choose(waypoint);
        Some(())
    }

    #[inline]
    fn choose(&mut self, waypoint: Waypoint) {
        if self.has_many {
            self.many.push(waypoint);
            return;
        }
        let chosen = &mut self.chosen;
        if usize::from(chosen.count) == INLINE {
            // More entries to a restart than is usual: every second waypoint goes.
            for to in 0..INLINE / 2 {
                chosen.prefixes[to] = chosen.prefixes[2 * to + 1];
                chosen.offsets[to] = chosen.offsets[2 * to + 1];
            }
            chosen.prefixes[INLINE / 2..].fill(u32::MAX);
            chosen.count = INLINE as u8 / 2;
            self.spacing *= 2;
            self.since = self.spacing / 2;
            return;
        }
        chosen.prefixes[usize::from(chosen.count)] = waypoint.prefix;
        chosen.offsets[usize::from(chosen.count)] = waypoint.offset as u16;
        chosen.count += 1;
    }

    /// The chosen waypoints.
    pub(super) fn finish(self) -> Waypoints {
        Waypoints { many: self.many.into(), ..self.chosen }
    }
}

impl Waypoints {
    /// The last waypoint before which all keys are smaller than `key`, or the first entry. `None`
    /// if restarts are to be searched: if many have the prefix of `key`.
    #[inline]
    pub(super) fn before(&self, payload: &[u8], key: &[u8]) -> Option<SearchStart> {
        let common_bytes = usize::from(self.common_bytes);
        if !self.is_alike(payload, key) {
            return Some(self.before_foreign(self.common_in(payload), key));
        }
        let sought = prefix_of(key, common_bytes);
        if !self.many.is_empty() {
            return self.before_among_many(sought, key);
        }
        let below: usize = self.prefixes.iter().map(|&prefix| usize::from(prefix < sought)).sum();
        if below + EQUALS <= usize::from(self.count) && self.prefixes[below + EQUALS - 1] == sought {
            return None;
        }
        Some(self.start(below, |before| matched(before, sought, common_bytes, key)))
    }

    /// Returns true if `key` begins with what all keys have in common.
    #[inline]
    fn is_alike(&self, payload: &[u8], key: &[u8]) -> bool {
        let common_bytes = usize::from(self.common_bytes);
        if common_bytes > size_of::<u128>() {
            return key.starts_with(self.common_in(payload));
        }
        // Beyond the common prefix, keys may differ.
        let beyond = 8 * (size_of::<u128>() - common_bytes) as u32;
        let differs = (number(first_sixteen(key)) ^ number(self.common)).checked_shr(beyond).unwrap_or(0);
        // A shorter key was padded with zeros.
        differs == 0 && key.len() >= common_bytes
    }

    /// What all keys have in common.
    fn common_in<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.common_start);
        &payload[start..start + usize::from(self.common_bytes)]
    }

    /// As [`Waypoints::before`], for a key that lacks the common prefix: all keys of the block are
    /// smaller, or all are larger.
    #[cold]
    fn before_foreign(&self, common: &[u8], key: &[u8]) -> SearchStart {
        let same = common_prefix(common, key);
        let is_smaller = key.get(same) < common.get(same);
        let below = if is_smaller { 0 } else { self.many.len().max(usize::from(self.count)) };
        self.start(below, |_| same)
    }

    #[inline(never)]
    fn before_among_many(&self, sought: u32, key: &[u8]) -> Option<SearchStart> {
        let below = self.many.partition_point(|waypoint| waypoint.prefix < sought);
        if self.many.get(below + EQUALS - 1).is_some_and(|waypoint| waypoint.prefix == sought) {
            return None;
        }
        Some(self.start(below, |before| matched(before, sought, usize::from(self.common_bytes), key)))
    }

    /// The start behind the first `below` waypoints; `matched` is of the last one's prefix.
    #[inline]
    fn start(&self, below: usize, matched: impl Fn(u32) -> usize) -> SearchStart {
        match below.checked_sub(1).and_then(|last| self.get(last)) {
            Some(Waypoint { prefix, offset }) => SearchStart { at: offset as usize, matched: matched(prefix) },
            None => SearchStart { at: 0, matched: 0 },
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Option<Waypoint> {
        if !self.many.is_empty() {
            return self.many.get(index).copied();
        }
        if index >= usize::from(self.count) {
            return None;
        }
        Some(Waypoint { prefix: *self.prefixes.get(index)?, offset: u32::from(*self.offsets.get(index)?) })
    }

    /// Its memory beside its own size, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.many)
    }
}

/// The prefix of an entry's key, which is the first `shared` bytes of the key before, then
/// `suffix`. `before` is the prefix of the key before; `first` is the first eight bytes of the
/// suffix and possibly what follows it. `None` if the key is shorter than the common prefix of all.
#[inline]
pub(super) fn next_prefix(before: u32, shared: usize, suffix: &[u8], first: u64, common_bytes: usize) -> Option<u32> {
    let Some(kept) = shared.checked_sub(common_bytes) else {
        let skipped = common_bytes - shared;
        return (skipped <= suffix.len()).then(|| prefix_of(suffix, skipped));
    };
    if kept >= size_of::<u32>() {
        return Some(before);
    }
    // What follows a short suffix does not belong to the key.
    let suffix_bits = 8 * suffix.len().min(4) as u32;
    let suffix = (first >> 32) as u32 & !u32::MAX.checked_shr(suffix_bits).unwrap_or(0);
    let kept_bits = 8 * kept as u32;
    Some(before & !(u32::MAX >> kept_bits) | suffix >> kept_bits)
}

/// The first sixteen bytes of `key`, padded with zeros, as two numbers with the same order.
#[inline]
fn first_sixteen(key: &[u8]) -> [u64; 2] {
    let second = if key.len() > 8 { first_eight(key, 8) } else { 0 };
    [first_eight(key, 0), second]
}

#[inline]
fn number([first, second]: [u64; 2]) -> u128 {
    u128::from(first) << 64 | u128::from(second)
}

/// The four bytes of `key[from..]`, padded with zeros, as a number with the same order.
#[inline]
fn prefix_of(key: &[u8], from: usize) -> u32 {
    (first_eight(key, from) >> 32) as u32
}

/// The number of bytes that two keys have in common whose prefixes differ: `key`, and the key
/// before a waypoint. Too large if that key ends within its prefix and `key` has zeros there. This
/// does not matter: the next entry cannot share more bytes with that key than it has.
#[inline]
fn matched(before: u32, sought: u32, common_bytes: usize, key: &[u8]) -> usize {
    let same = (before ^ sought).leading_zeros() as usize / 8;
    (common_bytes + same).min(key.len())
}
