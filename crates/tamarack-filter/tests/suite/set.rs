//! Sets of digests: their size, their bytes, and filters that are made of them again.

use tamarack_filter::{Digest, DigestChunks, DigestSet, Filter, FilterKind, SetError, Size, fuzz};

fn digests(keys: std::ops::Range<u64>) -> Vec<Digest> {
    keys.map(|key| Digest::of(&key.to_be_bytes())).collect()
}

const SEED: u64 = 0x5EED;

/// The bytes of a set read back as the set, at every size around powers of two, and take as many
/// bits for each key as is stated.
#[test]
fn sets_read_back_and_are_small() {
    for count in (0..70).chain([127, 128, 129, 1000, 1024, 1025, 4096, 4097, 40_000, 50_000, 580_000]) {
        let set = DigestSet::new(digests(0..count));
        let bytes = set.encode(SEED);
        assert_eq!(DigestSet::decode(&bytes, SEED), Ok(set), "{count}");
        let bits = bytes.len() as f64 * 8.0 / count.max(1) as f64;
        let stated = 48.0 - (count.max(1) as f64).log2() + 2.0;
        assert!(count < 1000 || (stated - 1.0..stated + 1.2).contains(&bits), "{count} digests take {bits} bits each");
        if [40_000, 580_000].contains(&count) {
            println!("{count} digests: {bits:.2} bits each");
        }
    }
}

/// The digests of an interval are read from the list and the chunks that it names, and from nothing
/// else; damage of others is not met.
#[test]
fn intervals_are_read_alone() {
    for count in [0, 1, 900, 5_000, 70_000] {
        let set = DigestSet::new(digests(0..count));
        let bytes = set.encode(SEED);
        let front = DigestChunks::list_bytes(&bytes[..10]).expect("a set");
        let chunks = DigestChunks::decode(&bytes[..front], SEED).expect("a set");
        assert!(count < 2000 || chunks.count() as u64 >= count / 1024, "{} chunks of {count}", chunks.count());
        for (first, last) in [(0, u64::MAX), (1 << 62, 1 << 63), (u64::MAX / 3, u64::MAX / 3), (u64::MAX, u64::MAX)] {
            let (first, last) = (Digest::from_stored(first), Digest::from_stored(last));
            let wanted = chunks.of_interval(first, last);
            let place = chunks.bytes(wanted.clone());
            let mut damaged = vec![0xEE; bytes.len()];
            damaged[place.clone()].copy_from_slice(&bytes[place]);
            let mut read = Vec::new();
            for chunk in wanted {
                let place = chunks.bytes(chunk..chunk + 1);
                chunks.read(chunk, &damaged[place], &mut read).expect("whole");
            }
            let within = |digest: &&Digest| (first..=last).contains(digest);
            let expected: Vec<_> = set.digests().iter().filter(within).collect();
            assert_eq!(read.iter().filter(within).collect::<Vec<_>>(), expected, "{count} {first:?} {last:?}");
            assert!(read.len() <= expected.len() + 2 * 1400, "{} read for {}", read.len(), expected.len());
        }
        assert_eq!(DigestChunks::decode(&bytes[..front], SEED + 1), Err(SetError::List), "of another table");
    }
}

/// Kept bits of digests that agree, and digests that come twice, are no trouble.
#[test]
fn equal_digests_are_kept() {
    let twice: Vec<Digest> = digests(0..500).into_iter().chain(digests(100..200)).collect();
    let set = DigestSet::new(twice);
    assert_eq!(set.digests().len(), 600);
    assert_eq!(DigestSet::decode(&set.encode(SEED), SEED), Ok(set));
    let same = DigestSet::new([1, 2, 3, 1 << 16].map(Digest::from_stored).to_vec());
    assert_eq!(same.digests(), [0, 0, 0, 1 << 16].map(Digest::from_stored));
    assert_eq!(DigestSet::decode(&same.encode(SEED), SEED), Ok(same));
}

/// A filter that is made of a set has no false negatives, and errs as seldom as one of whole
/// digests is predicted to.
#[test]
fn rebuilt_filters_err_as_predicted() {
    for kind in FilterKind::ALL {
        for count in [300, 5_000, 40_000] {
            for bits in [2.0, 7.5, 12.0] {
                // Several of the small ones, of which each may have chanced on more or fewer bits.
                let (sets, asked) = if count < 1000 { (40, 10_000) } else { (1, 400_000) };
                let (mut errors, mut predicted) = (0, 0.0);
                for number in 0..sets {
                    let keys = || digests(number * count..(number + 1) * count);
                    let set = DigestSet::decode(&DigestSet::new(keys()).encode(SEED), SEED).expect("a set");
                    let filter = Filter::rebuild(kind, Size::PerEntry(bits), &set).expect("bits");
                    assert!(keys().into_iter().all(|digest| filter.may_contain(digest)), "{filter:?}");
                    let missing = digests(1 << 40..(1 << 40) + asked).into_iter();
                    errors += missing.filter(|digest| filter.may_contain(*digest)).count();
                    predicted = filter.fpr();
                }
                let asked = asked * sets;
                let measured = errors as f64 / asked as f64;
                let spread = 4.0 * (predicted / asked as f64).sqrt();
                // Small filters have sets of bits that are a little larger or smaller than
                // expected.
                let allowed = predicted * (0.03 + 2.0 / (count as f64).sqrt()) + spread;
                assert!(
                    (measured - predicted).abs() < allowed,
                    "{kind:?} {count} {bits}: {measured} instead of {predicted}"
                );
            }
        }
    }
}

/// Each part of the bytes is checked.
#[test]
fn refuses_what_is_no_set() {
    let good = DigestSet::new(digests(0..2100)).encode(SEED);
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        DigestSet::decode(&bad, SEED)
    };
    // 2^2 chunks of 525 digests.
    let front = 10 + 4 * 12 + 8;
    assert_eq!(DigestSet::decode(&good[..9], SEED), Err(SetError::TooShort(9)));
    assert_eq!(with(0, 1), Err(SetError::UnknownVersion(1)));
    assert_eq!(with(1, 8), Err(SetError::Chunks(8)));
    assert_eq!(with(2, good[2] ^ 1), Err(SetError::List));
    assert_eq!(with(20, good[20] ^ 1), Err(SetError::List));
    assert_eq!(with(front - 1, good[front - 1] ^ 1), Err(SetError::List));
    assert_eq!(with(front, good[front] ^ 1), Err(SetError::Chunk(0)));
    assert_eq!(with(good.len() - 1, good[good.len() - 1] ^ 1), Err(SetError::Chunk(3)));
    assert!(DigestSet::decode(&good[..good.len() - 1], SEED).is_err());
    assert!(DigestSet::decode(&[&good[..], &[0]].concat(), SEED).is_err());
    assert_eq!(DigestSet::decode(&good, SEED + 1), Err(SetError::List), "of another table");
}

/// A filter that is made of a set has all of its keys, whatever bits of their digests were lost;
/// and no filter is made of no bits.
#[test]
fn rebuilt_filters_have_all_keys() {
    for kind in FilterKind::ALL {
        let set = DigestSet::new(digests(0..300));
        let filter = Filter::rebuild(kind, Size::PerEntry(12.0), &set).expect("bits");
        assert!(digests(0..300).into_iter().all(|digest| filter.may_contain(digest)), "{filter:?}");
        assert_eq!(Filter::rebuild(kind, Size::PerEntry(0.0), &set), None);
    }
}

/// Every byte of a set altered in every bit: refused, or the bytes of another set.
#[test]
fn altered_sets_are_total() {
    alter([64, 1100]);
}

#[test]
fn altered_small_sets_are_total() {
    alter([0, 1, 2, 3, 5, 7, 20]);
}

fn alter(counts: impl IntoIterator<Item = u64>) {
    for count in counts {
        let good = DigestSet::new(digests(0..count)).encode(SEED);
        let mut full = good.clone();
        full[10 + 12 + 8..].fill(0xFF);
        fuzz::digests(&full);
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
    let bytes: String = set.encode(SEED).iter().map(|byte| format!("{byte:02X}")).collect();
    assert_eq!(bytes, GOLDEN, "one chunk of five digests with three high bits");
    assert_eq!(DigestSet::new(Vec::new()).encode(SEED).len(), 10 + 12 + 8, "an empty chunk has no bytes");
}

/// Version 2, 2^0 chunks, five digests; the chunk ends at 31, five digests, its checksum; that of
/// the list; 13 bits of unary; five times 45 bits.
const GOLDEN: &str = "020005000000000000001F00000005000000CBE602B8C48713AD0E8EE08EB104DDC864E44B4C97BE3BC5A5C84BE9AA88EA603E0F33B530BF30735D5200";
