//! Sets of digests: their size, their bytes, and filters that are made of them again.

use tamarack_filter::{Digest, DigestSet, Filter, FilterKind, SetError, Size, fuzz};

fn digests(keys: std::ops::Range<u64>) -> Vec<Digest> {
    keys.map(|key| Digest::of(&key.to_be_bytes())).collect()
}

/// The bytes of a set read back as the set, at every size around powers of two, and take 26 to 27
/// bits for each key once there are some.
#[test]
fn sets_read_back_and_are_small() {
    for count in (0..70).chain([127, 128, 129, 1000, 4096, 4097, 50_000]) {
        let set = DigestSet::new(digests(0..count));
        let bytes = set.encode();
        assert_eq!(DigestSet::decode(&bytes), Ok(set), "{count}");
        let bits = (bytes.len() - 10) as f64 * 8.0 / count.max(1) as f64;
        assert!(count < 100 || (26.0..27.1).contains(&bits), "{count} digests take {bits} bits each");
    }
}

/// Kept bits of digests that agree, and digests that come twice, are no trouble.
#[test]
fn equal_digests_are_kept() {
    let twice: Vec<Digest> = digests(0..500).into_iter().chain(digests(100..200)).collect();
    let set = DigestSet::new(twice);
    assert_eq!(set.digests().len(), 600);
    assert_eq!(DigestSet::decode(&set.encode()), Ok(set));
    let same = DigestSet::new([1, 2, 3, 1 << 38].map(Digest::from_stored).to_vec());
    assert_eq!(same.digests(), [0, 0, 0, 1 << 38].map(Digest::from_stored));
    assert_eq!(DigestSet::decode(&same.encode()), Ok(same));
}

/// A filter that is made of a set has no false negatives, and errs as seldom as one of whole
/// digests is predicted to.
#[test]
fn rebuilt_filters_have_the_predicted_rate() {
    for kind in FilterKind::ALL {
        for count in [300, 5_000, 40_000] {
            let set = DigestSet::decode(&DigestSet::new(digests(0..count)).encode()).expect("a set");
            for bits in [2.0, 7.5, 12.0] {
                let filter = Filter::rebuild(kind, Size::PerEntry(bits), &set).expect("bits");
                assert!(digests(0..count).into_iter().all(|digest| filter.may_contain(digest)), "{filter:?}");
                let asked = 400_000;
                let errors =
                    digests(1 << 40..(1 << 40) + asked).into_iter().filter(|digest| filter.may_contain(*digest));
                let (measured, predicted) = (errors.count() as f64 / asked as f64, filter.fpr());
                let spread = 4.0 * (predicted / asked as f64).sqrt();
                // Small filters have sets of bits that are a little larger or smaller than expected.
                let allowed = predicted * (0.03 + 2.0 / (count as f64).sqrt()) + spread;
                assert!((measured - predicted).abs() < allowed, "{filter:?}: {measured} instead of {predicted}");
            }
        }
    }
}

/// Each part of the bytes is checked.
#[test]
fn refuses_what_is_no_set() {
    let good = DigestSet::new(digests(0..100)).encode();
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        DigestSet::decode(&bad)
    };
    assert_eq!(DigestSet::decode(&good[..9]), Err(SetError::TooShort(9)));
    assert_eq!(with(0, 2), Err(SetError::UnknownVersion(2)));
    assert_eq!(with(1, 8), Err(SetError::HighBits(8)));
    assert_eq!(with(2, 99), Err(SetError::Length(good.len())));
    assert_eq!(with(9, 255), Err(SetError::Length(good.len())));
    assert_eq!(DigestSet::decode(&good[..good.len() - 1]), Err(SetError::Length(good.len() - 1)));
    assert_eq!(with(10, good[10] ^ 1), Err(SetError::Unary));
    // The bits past the last value.
    assert_eq!(with(10 + 28, good[10 + 28] | 0x80), Err(SetError::Unary));
}

/// Every byte of a set altered in every bit: refused, or the bytes of another set.
#[test]
fn altered_sets_are_total() {
    for count in [0, 1, 2, 3, 40, 64] {
        let good = DigestSet::new(digests(0..count)).encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fuzz::digests(&bad);
        }
    }
}

/// The bytes of the format: a change of them is another version.
#[test]
fn stored_bytes() {
    let set = DigestSet::new(digests(0..5));
    let bytes: String = set.encode().iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(bytes, GOLDEN, "five digests with three high bits");
}

/// Version 1, three high bits, five digests; 13 bits of unary; five times 24 bits.
const GOLDEN: &str = "01030500000000000000B104235F624E71295511D530530BB92E29";
