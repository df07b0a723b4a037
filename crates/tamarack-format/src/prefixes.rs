//! [`Prefixes`]: the position of a key among sorted keys, decided by integers as far as possible.
//!
//! ```text
//! keys      user:0142   user:0180   user:0199!17
//! common    user:01
//! prefixes  "42"        "80"        "99!17"         the next eight bytes, padded with zeros
//! ```
//!
//! A search of a few hundred keys touches a few cache lines. Only keys that equal the sought one in
//! common part and prefix remain for the caller to compare: usually none, or one.
//!
//! Used by the fences of index blocks and by the slices of runs.
//! Memory: one allocation, of 8 bytes per key and their common prefix. A search allocates nothing.
//!
//! Tests: here, against comparing with every key.

use std::cmp::Ordering;
use std::ops::Range;

use tamarack_env::prefetch;

/// Prefixes in a cache line.
const PER_LINE: usize = 8;

/// The common prefix of sorted keys, and the next eight bytes of each.
#[derive(Debug, Default)]
pub struct Prefixes {
    /// The common prefix of all keys, then of each key the next eight bytes, as a native integer.
    bytes: Box<[u8]>,
    common_bytes: usize,
}

impl Prefixes {
    /// Makes the prefixes of `keys`, which must ascend; neighbours may be equal.
    pub fn new<'a>(keys: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Self {
        // The common prefix of the first and the last key is common to all between.
        let common = match (keys.clone().next(), keys.clone().next_back()) {
            (Some(first), Some(last)) => &first[..common_prefix(first, last)],
            _ => &[],
        };
        let mut bytes = Vec::with_capacity(common.len() + 8 * keys.size_hint().0);
        bytes.extend_from_slice(common);
        for key in keys {
            bytes.extend_from_slice(&first_eight(key, common.len()).to_ne_bytes());
        }
        let this = Self { bytes: bytes.into(), common_bytes: common.len() };
        debug_assert!(
            this.prefixes().is_sorted_by_key(|&prefix| number(prefix)),
            "{this:x?} is of keys that do not ascend"
        );
        this
    }

    /// The common prefix of all keys.
    #[inline]
    pub fn common(&self) -> &[u8] {
        &self.bytes[..self.common_bytes]
    }

    /// The number of keys.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.prefixes().len()
    }

    /// The next eight bytes of the key at `index`, as [`first_eight`] returns them.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        number(self.prefixes()[index])
    }

    /// The next eight bytes of all keys in order: see [`Prefixes::get`].
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.prefixes().iter().map(|&prefix| number(prefix))
    }

    /// The range of keys that may equal `key`: earlier ones are smaller, later ones are larger.
    #[inline(always)] // A call costs as much as the search among few.
    pub fn around(&self, key: &[u8]) -> Range<usize> {
        let (common, prefixes) = (self.common(), self.prefixes());
        match key[..key.len().min(common.len())].cmp(common) {
            Ordering::Less => 0..0,
            Ordering::Greater => prefixes.len()..prefixes.len(),
            Ordering::Equal => {
                let sought = first_eight(key, common.len());
                let start = prefixes.partition_point(|&prefix| number(prefix) < sought);
                match prefixes.get(start) {
                    Some(&prefix) if number(prefix) == sought => start..self.end_of_equals(start),
                    _ => start..start,
                }
            }
        }
    }

    /// Asks for the memory with which a search begins: the common prefix, and what the first steps
    /// compare with.
    #[inline]
    pub fn prefetch(&self) {
        let prefixes = self.prefixes();
        prefetch(self.bytes.as_ptr());
        let mut step = prefixes.len() / 2;
        // Halves, quarters and eighths: what is left has a line or two.
        for _ in 0..3 {
            if step < PER_LINE {
                break;
            }
            let mut at = step;
            while at < prefixes.len() {
                prefetch(&raw const prefixes[at]);
                at += 2 * step;
            }
            step /= 2;
        }
    }

    #[inline]
    fn prefixes(&self) -> &[[u8; 8]] {
        self.bytes[self.common_bytes..].as_chunks().0
    }

    /// The end of the keys with the same prefix as the one at `start`.
    #[cold]
    fn end_of_equals(&self, start: usize) -> usize {
        let prefixes = &self.prefixes()[start..];
        match prefixes.get(1) {
            Some(next) if *next == prefixes[0] => start + prefixes.partition_point(|&prefix| prefix == prefixes[0]),
            // The usual case.
            _ => start + 1,
        }
    }

    /// The number of keys that satisfy `before`, which must be true for all keys smaller than
    /// `key`, false for all larger ones, and among those equal to it first true, then false. Called
    /// only for keys that may be equal.
    // Lookups search the bounds of each run so: a call costs them as much as the search.
    #[inline(always)]
    pub fn partition_point(&self, key: &[u8], before: impl Fn(usize) -> bool) -> usize {
        partition_point(self.around(key), before)
    }

    /// Its memory beside its own size, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The first index in `range` for which `before` is false, if it is true for those before and false
/// for those after; the end of the range if there is none.
#[inline(always)] // Of usually none or one.
pub(crate) fn partition_point(range: Range<usize>, before: impl Fn(usize) -> bool) -> usize {
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[inline]
fn number(prefix: [u8; 8]) -> u64 {
    u64::from_ne_bytes(prefix)
}

/// The first eight bytes of `key[from..]`, padded with zeros, as a number with the same order.
#[inline]
pub fn first_eight(key: &[u8], from: usize) -> u64 {
    let rest = &key[from..];
    match (rest.first_chunk(), key.last_chunk()) {
        (Some(bytes), _) => u64::from_be_bytes(*bytes),
        // The last eight of the key, the first ones of which are before `from`.
        (None, Some(bytes)) => u64::from_be_bytes(*bytes).checked_shl(64 - 8 * rest.len() as u32).unwrap_or(0),
        (None, None) => {
            rest.iter().enumerate().fold(0, |number, (at, &byte)| number | u64::from(byte) << (56 - 8 * at))
        }
    }
}

/// The length of the common prefix of `a` and `b`.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    // Eight bytes at a time while both have them.
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let x = u64::from_le_bytes(x.try_into().expect("eight bytes"));
        let y = u64::from_le_bytes(y.try_into().expect("eight bytes"));
        if x != y {
            return common + ((x ^ y).trailing_zeros() / 8) as usize;
        }
        common += 8;
    }
    common + a[common..].iter().zip(&b[common..]).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On keys that share much and little, short and long, some of them equal.
    #[test]
    fn partition_points_agree_with_comparing_every_key() {
        let alphabet = [0, 1, b'a', 0xFF];
        let mut state = 1u64;
        for round in 0..400 {
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let common = vec![[b'p', 0][random(2) as usize]; random(20) as usize];
            let mut key = || -> Vec<u8> {
                let tail: Vec<u8> = (0..random(11)).map(|_| alphabet[random(4) as usize]).collect();
                [&common[..], &tail].concat()
            };
            let mut keys: Vec<_> = (0..round % 40).map(|_| key()).collect();
            keys.sort();
            let prefixes = Prefixes::new(keys.iter().map(|key| &key[..]));
            let mut sought: Vec<_> = (0..50).map(|_| key()).collect();
            sought.extend([vec![], b"o".to_vec(), b"q".to_vec(), [&common[..], &[0xFF; 9]].concat()]);
            sought.extend(keys.iter().cloned());
            for key in sought {
                for or_equal in [false, true] {
                    let before = |other: &Vec<u8>| *other < key || (or_equal && *other == key);
                    let found = prefixes.partition_point(&key, |at| before(&keys[at]));
                    assert_eq!(found, keys.partition_point(before), "{key:?} among {keys:?}");
                }
            }
        }
    }
}
