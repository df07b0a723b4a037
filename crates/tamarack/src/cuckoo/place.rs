//! [`Place`]: where the entries of a key are.

use tamarack_filter::chucky::Fingerprint;

/// A key, as a partition knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// 48 bits of the digest, which tell keys in the stash apart.
    pub(super) digest: u64,
    pub(super) fingerprint: Fingerprint,
    pub(super) buckets: [usize; 2],
}

impl Place {
    /// The two buckets, or the one if both are the same.
    pub(super) fn distinct(self) -> impl Iterator<Item = usize> + use<> {
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
