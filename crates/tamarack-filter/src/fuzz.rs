//! What the fuzz targets of this crate do with their input; also called by the test that replays
//! the kept corpus.
//!
//! Any input must be refused or decoded without a panic. What is accepted has one encoding, answers
//! every digest, reads no more cache lines for an answer than it makes probes, and can be taken
//! apart into its units and put together again.

use tamarack_model::FilterKind;

use crate::bytes;
use crate::digest::Digest;
use crate::filter::Filter;
use crate::set::{self, DigestSet};

/// Bytes as a filter: as they are, and with a header whose version and length are made to fit.
pub fn filter(input: &[u8]) {
    check(input);
    // What the header's lines cannot cover is cut off.
    let whole = input.len().saturating_sub(16) % 64;
    let mut mended = input[..input.len() - whole].to_vec();
    bytes::mend(&mut mended);
    check(&mended);
}

/// Bytes as a set of digests: refused, or decoded into what encodes to the same bytes, in order.
/// Checksums are made to fit first.
pub fn digests(input: &[u8]) {
    const SEED: u64 = 7;
    let _ = DigestSet::decode(input, SEED);
    let mut mended = input.to_vec();
    set::mend(&mut mended, SEED);
    let Ok(set) = DigestSet::decode(&mended, SEED) else { return };
    assert_eq!(set.encode(SEED), mended, "one set has one encoding");
    assert!(set.digests().is_sorted());
    assert_eq!(DigestSet::new(set.digests().to_vec()), set);
}

fn check(input: &[u8]) {
    let Ok(filter) = Filter::decode(input) else { return };
    assert_eq!(filter.encode(), input, "one filter has one encoding");
    assert_eq!(filter.encoded_bytes(), input.len());
    assert!((0.0..=1.0).contains(&filter.fpr()), "{filter:?} predicts {}", filter.fpr());
    let some = input.as_chunks::<8>().0.iter().take(16).map(|bytes| Digest::from_stored(u64::from_le_bytes(*bytes)));
    for digest in some.chain([0, 1, u64::MAX, 1 << 63].map(Digest::from_stored)) {
        let _ = filter.may_contain(digest);
        let most = if filter.kind() == FilterKind::Elastic { filter.units() as u32 } else { filter.probes() };
        assert!((1..=most).contains(&filter.lines_touched(digest)), "{filter:?}");
    }
    let mut parts = Filter::decode(&filter.encode_unit(0)).expect("the first unit is a filter");
    for unit in 1..filter.units() {
        assert_eq!(Some(&parts), filter.with_units(unit).as_ref());
        parts = parts.with_next_unit(&filter.encode_unit(unit)).expect("the next unit");
    }
    assert_eq!(parts, filter);
    assert!(parts.with_next_unit(input).is_err(), "no unit comes twice");
}

#[cfg(test)]
mod tests {
    //! What fuzzers alter gets past the checks that random bytes would never pass.

    use super::*;
    use crate::filter::Size;

    fn some(count: u64) -> Vec<Digest> {
        (0..count).map(|key| Digest::of(&key.to_le_bytes())).collect()
    }

    #[test]
    fn headers_of_filters_are_mended() {
        let good = Filter::build(FilterKind::Blocked, Size::Total(1536), &some(100)).expect("bits").encode();
        let mut altered = good.clone();
        for byte in [0, 3, 4, 5, 6, 7] {
            altered[byte] ^= 0xA5;
        }
        assert!(Filter::decode(&altered).is_err());
        bytes::mend(&mut altered);
        assert_eq!(altered, good);
    }

    #[test]
    fn checksums_of_sets_are_mended() {
        for count in [0, 5, 2100] {
            let good = DigestSet::new(some(count)).encode(7);
            let mut altered = DigestSet::new(some(count)).encode(8);
            assert!(DigestSet::decode(&altered, 7).is_err());
            set::mend(&mut altered, 7);
            assert_eq!(altered, good, "{count} digests");
        }
    }
}
