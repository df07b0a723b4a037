//! [`KeyRange`]: a range of user keys, the one type for ranges of scans, slices and compactions.
//!
//! The lower bound is inclusive, the upper one exclusive. That is no restriction: the smallest key
//! after `k` is `k` with a byte 0, so `..=k` is `..k0`.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A user's key as a bound of slices and ranges, shared by versions.
pub type Key = Arc<[u8]>;

/// A range of user keys, with an inclusive lower and an exclusive upper bound. A missing bound is
/// unbounded.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeyRange {
    /// The lower bound, inclusive.
    pub from: Option<Key>,
    /// The upper bound, exclusive; without it, the largest key is included.
    pub to: Option<Key>,
}

impl KeyRange {
    /// Makes the range between two bounds.
    pub fn new(from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        Self { from: from.map(Key::from), to: to.map(Key::from) }
    }

    /// All keys.
    pub const ALL: Self = Self { from: None, to: None };

    /// Returns true if the range contains no key.
    pub fn is_empty(&self) -> bool {
        matches!((&self.from, &self.to), (Some(from), Some(to)) if from >= to) || self.to.as_deref() == Some(&[])
    }

    /// Returns true if `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_none_or(|from| from <= key) && self.to.as_deref().is_none_or(|to| key < to)
    }

    /// Returns true if the range ends before `other` begins, so that all its keys are smaller.
    pub fn is_before(&self, other: &Self) -> bool {
        matches!((&self.to, &other.from), (Some(to), Some(from)) if to <= from)
    }

    /// Makes the range of the keys within `bounds`, such as `"a"..="b"`.
    pub fn within<K: AsRef<[u8]>>(bounds: impl RangeBounds<K>) -> Self {
        let (at, after) = (|key: &K| Key::from(key.as_ref()), |key: &K| key_after(key.as_ref()));
        let from = match bounds.start_bound() {
            Bound::Included(key) => Some(at(key)),
            Bound::Excluded(key) => Some(after(key)),
            Bound::Unbounded => None,
        };
        let to = match bounds.end_bound() {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(at(key)),
            Bound::Unbounded => None,
        };
        Self { from, to }
    }

    /// Makes the range of the keys that begin with `prefix`, itself included.
    pub fn with_prefix(prefix: &[u8]) -> Self {
        Self { from: Some(prefix.into()), to: after_prefix(prefix) }
    }

    /// Makes the range of the keys in both ranges.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let to = match (&self.to, &other.to) {
            (Some(to), Some(other)) => Some(to.min(other)),
            (to, other) => to.as_ref().or(other.as_ref()),
        };
        // No lower bound is below every other one.
        Self { from: (&self.from).max(&other.from).clone(), to: to.cloned() }
    }

    /// Returns the bounds, as the standard library has them.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let from = self.from.as_deref().map_or(Bound::Unbounded, Bound::Included);
        (from, self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Returns true if `key` is below the range.
    #[inline]
    pub fn starts_after(&self, key: &[u8]) -> bool {
        self.from.as_deref().is_some_and(|from| key < from)
    }

    /// Returns true if `key` is above the range.
    #[inline]
    pub fn ends_before(&self, key: &[u8]) -> bool {
        self.to.as_deref().is_some_and(|to| key >= to)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: &Option<Key>| bound.as_ref().map(|key| key.escape_ascii().to_string()).unwrap_or_default();
        write!(f, "[{}..{})", bound(&self.from), bound(&self.to))
    }
}

/// Returns the smallest key larger than `key`.
pub fn key_after(key: &[u8]) -> Key {
    Key::from([key, &[0]].concat())
}

/// Returns the smallest key larger than every key with this prefix; `None` if there is none,
/// because all bytes of the prefix are 255.
fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after.into())
}

#[cfg(test)]
mod tests {
    //! Membership by bounds must agree with `starts_with` and with the standard library's ranges.

    use tamarack_testing::Random;

    use super::*;

    #[test]
    fn the_key_after_a_prefix() {
        assert_eq!(after_prefix(b"ab").as_deref(), Some(&b"ac"[..]));
        assert_eq!(after_prefix(&[1, 255, 255]).as_deref(), Some(&[2][..]));
        assert_eq!(after_prefix(&[255, 255]), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn ranges_agree_with_the_standard_library() {
        let mut random = Random::new(7);
        let mut key = || (0..random.below(4)).map(|_| *random.pick(&[0, 1, b'a', 254, 255])).collect::<Vec<u8>>();
        for _ in 0..20_000 {
            let (a, b, key) = (key(), key(), key());
            let check = |range: &KeyRange, expected: bool| {
                assert_eq!(range.contains(&key), expected, "{range:?} {key:?}");
                assert_eq!(!range.starts_after(&key) && !range.ends_before(&key), expected, "{range:?} {key:?}");
            };
            check(&KeyRange::with_prefix(&a), key.starts_with(&a));
            check(&KeyRange::within(a.clone()..b.clone()), (a.clone()..b.clone()).contains(&key));
            check(&KeyRange::within(a.clone()..=b.clone()), (a.clone()..=b.clone()).contains(&key));
            let open = (Bound::Excluded(a.clone()), Bound::Included(b));
            check(&KeyRange::within(open.clone()), open.contains(&key));
            let endless = (Bound::Excluded(a), Bound::Unbounded);
            check(&KeyRange::within(endless.clone()), endless.contains(&key));
        }
    }
}
