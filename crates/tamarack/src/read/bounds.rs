//! [`KeyBounds`]: the ranges of keys that scans, compactions and estimates take.
//!
//! The standard library's `RangeBounds<K>` holds for `..` with every `K`, so a call with `..` would
//! have to name a type of key that it does not have. Here each type of range has one type of key,
//! and `..` has none.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::format::key_range::KeyRange;

/// A range of keys: `..`, `from..`, `from..to`, `from..=to`, `..to` or `..=to` with bounds of any
/// type that is bytes (`&str`, `String`, `&[u8]`, `Vec<u8>`, arrays), or a pair of [`Bound`]s.
/// An inverted range has no key.
///
/// ```
/// # let env = tamarack::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// # let db = options.open("/bounds")?;
/// use std::ops::Bound;
///
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.scan(..).count(), 3);
/// assert_eq!(db.scan("b"..).count(), 2);
/// assert_eq!(db.scan([b'a']..=[b'b']).count(), 2);
/// assert_eq!(db.scan(vec![b'a']..vec![b'b', 0]).count(), 2);
/// assert_eq!(db.scan((Bound::Excluded("a"), Bound::Included("c"))).count(), 2);
/// # Ok::<(), tamarack::Error>(())
/// ```
pub trait KeyBounds {
    /// Returns the lower bound and the upper bound.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyBounds for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! ranges_of_the_standard_library {
    ($($range:ident)*) => {
        $(impl<K: AsRef<[u8]>> KeyBounds for $range<K> {
            fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                bytes_of::<K>(self)
            }
        })*
    };
}

ranges_of_the_standard_library! { Range RangeFrom RangeInclusive RangeTo RangeToInclusive }

/// Of one type, so that a pair may be unbounded on one side without naming it.
impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.0.as_ref().map(AsRef::as_ref), self.1.as_ref().map(AsRef::as_ref))
    }
}

impl<B: KeyBounds + ?Sized> KeyBounds for &B {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (**self).key_bounds()
    }
}

fn bytes_of<'r, K: AsRef<[u8]> + 'r>(range: &'r impl RangeBounds<K>) -> (Bound<&'r [u8]>, Bound<&'r [u8]>) {
    (range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
}

/// Returns the keys within `bounds`.
pub(crate) fn range_within(bounds: &impl KeyBounds) -> KeyRange {
    KeyRange::within::<&[u8]>(bounds.key_bounds())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every type of range has the bounds that the standard library gives it, whatever bytes they
    /// are.
    #[test]
    fn ranges_have_the_bounds_of_the_standard_library() {
        let (a, b) = (&b"a"[..], &b"b"[..]);
        let (unbounded, from, to) = (Bound::Unbounded, Bound::Included(a), Bound::Excluded(b));
        assert_eq!((..).key_bounds(), (unbounded, unbounded));
        assert_eq!(("a"..).key_bounds(), (from, unbounded));
        assert_eq!((..String::from("b")).key_bounds(), (unbounded, to));
        assert_eq!((..=*b"b").key_bounds(), (unbounded, Bound::Included(b)));
        assert_eq!((vec![b'a']..vec![b'b']).key_bounds(), (from, to));
        assert_eq!(([b'a']..=[b'b']).key_bounds(), (from, Bound::Included(b)));
        assert_eq!((a..b).key_bounds(), (from, to));
        let pair = (Bound::Excluded("a"), Bound::Included("b"));
        assert_eq!(pair.key_bounds(), (Bound::Excluded(a), Bound::Included(b)));
        assert_eq!(range_within(&pair), KeyRange::new(Some(b"a\0"), Some(b"b\0")));
    }
}
