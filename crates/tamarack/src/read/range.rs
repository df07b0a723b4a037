//! [`ScanRange`]: the keys that a scan covers, as two bounds or as a prefix.

use std::ops::{Bound, RangeBounds};

use crate::entry::Sequence;

/// A range of keys; empty if the start is past the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanRange {
    /// The lower bound.
    pub start: Bound<Vec<u8>>,
    /// The upper bound.
    pub end: Bound<Vec<u8>>,
}

impl ScanRange {
    /// The keys within `bounds`, such as `"a".."b"`.
    pub fn new<K: AsRef<[u8]>>(bounds: impl RangeBounds<K>) -> Self {
        let to_owned = |key: &K| key.as_ref().to_vec();
        Self { start: bounds.start_bound().map(to_owned), end: bounds.end_bound().map(to_owned) }
    }

    /// All keys.
    #[cfg(test)]
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// The keys that begin with `prefix`, itself included.
    pub fn prefix(prefix: &[u8]) -> Self {
        let end = after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        Self { start: Bound::Included(prefix.to_vec()), end }
    }

    /// Returns the position of its first possible entry, if it has a lower bound.
    pub fn first_position(&self) -> Option<(&[u8], Sequence)> {
        match &self.start {
            Bound::Included(key) => Some((key, Sequence::MAX)),
            Bound::Excluded(key) => Some((key, Sequence::ZERO)),
            Bound::Unbounded => None,
        }
    }

    /// Returns the position after its last possible entry, if it has an upper bound.
    pub fn end_position(&self) -> Option<(&[u8], Sequence)> {
        match &self.end {
            Bound::Included(key) => Some((key, Sequence::ZERO)),
            Bound::Excluded(key) => Some((key, Sequence::MAX)),
            Bound::Unbounded => None,
        }
    }

    /// Returns true if `key` is below the range.
    pub fn starts_after(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => key < start.as_slice(),
            Bound::Excluded(start) => key <= start.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Returns true if `key` is above the range.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key > end.as_slice(),
            Bound::Excluded(end) => key >= end.as_slice(),
            Bound::Unbounded => false,
        }
    }
}

/// Returns the smallest key larger than every key with this prefix; `None` if there is none,
/// because all bytes of the prefix are 255.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    //! Membership by bounds must agree with `starts_with` and with the standard library's ranges.

    use super::*;
    use crate::merge::sorted::{Random, RandomVersions as _};

    fn contains(range: &ScanRange, key: &[u8]) -> bool {
        !range.starts_after(key) && !range.ends_before(key)
    }

    #[test]
    fn the_key_after_a_prefix() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(after_prefix(&[255, 255]), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn ranges_agree_with_the_standard_library() {
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let (a, b, key) = (random.key(), random.key(), random.key());
            assert_eq!(contains(&ScanRange::prefix(&a), &key), key.starts_with(&a), "{a:?} {key:?}");
            assert_eq!(contains(&ScanRange::new(a.clone()..b.clone()), &key), (a.clone()..b.clone()).contains(&key));
            assert_eq!(contains(&ScanRange::new(a.clone()..=b.clone()), &key), (a.clone()..=b.clone()).contains(&key));
            let open = (Bound::Excluded(a), Bound::Unbounded);
            assert_eq!(contains(&ScanRange::new(open.clone()), &key), open.contains(&key));
        }
    }
}
