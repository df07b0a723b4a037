//! Where the entries of a key are: in one partition, in one of two buckets.
//!
//! A filter over the whole tree consists of partitions, which are made anew one at a time. Both
//! buckets of a key are in the same partition. Partition and first bucket come from the high bits
//! of the digest and keep the order of digests, so that changes in the order of digests visit
//! partitions, and the buckets of each, one after the other.

use crate::chucky::fingerprint::FINGERPRINT_BITS_MIN;
use crate::digest::{Digest, FIRST, SECOND, below};

/// The bits of a digest that tables store, and that a filter can be built from.
const STORED_BITS: u64 = !0 << 16;

/// The partition of a key, of `partitions` in all, and its place within the partition, for
/// [`first_bucket`].
///
/// # Panics
/// If there are no partitions.
#[inline]
pub fn partition_of(digest: Digest, partitions: usize) -> (usize, u64) {
    assert!(partitions > 0, "a filter has at least one partition");
    let product = u128::from(digest.stored() & STORED_BITS) * partitions as u128;
    ((product >> 64) as usize, product as u64)
}

/// The first one of the two buckets of a key, of `buckets` in all.
#[inline]
pub fn first_bucket(place: u64, buckets: usize) -> usize {
    below(place, buckets as u64) as usize
}

/// Where the other ones of two buckets are, in a table of so many: `h - bucket`, where h depends on
/// the first [`FINGERPRINT_BITS_MIN`] bits of the key's fingerprint. It is its own inverse for any
/// number of buckets.
///
/// The values of h have to look random. Multiples of one number make a table full at 91 % of four
/// slots instead of 95 %: entries then move along one line of buckets.
#[derive(Clone, Debug)]
pub struct Offsets {
    buckets: u32,
    /// The values of h.
    sums: [u32; 1 << FINGERPRINT_BITS_MIN],
}

impl Offsets {
    /// For a table of so many buckets.
    ///
    /// # Panics
    /// If there are none, or more than 2³¹.
    pub fn new(buckets: usize) -> Self {
        assert!((1..=1 << 31).contains(&buckets), "{buckets} buckets");
        let sum = |first_bits: usize| {
            let h = Digest::from_stored(first_bits as u64 + 1).turned(FIRST).folded(SECOND);
            below(h, buckets as u64) as u32
        };
        Self { buckets: buckets as u32, sums: std::array::from_fn(sum) }
    }

    /// The other one of the two buckets of a key, by the first bits of its fingerprint.
    ///
    /// # Panics
    /// If `bucket` is not in the table.
    #[inline]
    pub fn other(&self, bucket: usize, first_bits: u16) -> usize {
        assert!(bucket < self.buckets as usize, "bucket {bucket} of {}", self.buckets);
        let (sum, bucket) = (self.sums[usize::from(first_bits)], bucket as u32);
        (if sum >= bucket { sum - bucket } else { sum + self.buckets - bucket }) as usize
    }
}
