//! Filters as bytes: stored ones are compared, and what is no filter is refused.
//!
//! `tests/golden/filters.txt` holds filters as an earlier build wrote them. With
//! `TAMARACK_REWRITE=1` in the environment the test writes the file instead; a difference is a
//! change of the format.

use std::path::Path;

use tamarack_filter::{DecodeError, Digest, Filter, FilterKind, Size, fuzz};

fn filter(kind: FilterKind, count: u64, bits: u64) -> Filter {
    let set: Vec<Digest> = (0..count).map(|key| Digest::of(format!("key {key}").as_bytes())).collect();
    Filter::build(kind, Size::Total(bits), &set).expect("bits")
}

/// Today's bytes are the stored ones, and the stored ones are read. One filter has few probes, one
/// many: all constants take part.
#[test]
fn stored_bytes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/filters.txt");
    let mut found = String::new();
    for kind in FilterKind::ALL {
        for (count, bits) in [(90, 512), (20, 1024)] {
            let filter = filter(kind, count, bits);
            found += &format!("{} filter of \"key 0\" to \"key {}\" in {bits} bits:\n", kind.name(), count - 1);
            for line in filter.encode().chunks(16) {
                found += &line.iter().map(|byte| format!(" {byte:02X}")).collect::<String>();
                found += "\n";
            }
        }
    }
    tamarack_testing::assert_stored(&path, found);
}

/// Each field of the header is checked, and the length.
#[test]
fn refuses_what_is_no_filter() {
    for kind in FilterKind::ALL {
        // One unit of an elastic filter.
        let good = filter(kind, if kind == FilterKind::Elastic { 500 } else { 100 }, 1024).encode();
        let bytes = good.len();
        assert!(Filter::decode(&good).is_ok());
        let with = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            Filter::decode(&bad)
        };
        assert_eq!(with(0, 0), Err(DecodeError::UnknownVersion(0)));
        assert_eq!(with(0, 2), Err(DecodeError::UnknownVersion(2)));
        assert_eq!(with(1, 0), Err(DecodeError::UnknownKind(0)));
        assert_eq!(with(1, 4), Err(DecodeError::UnknownKind(4)));
        assert_eq!(with(2, 0), Err(DecodeError::Probes(0)));
        let too_many = kind.probes_max() as u8 + 1;
        assert_eq!(with(2, too_many), Err(DecodeError::Probes(too_many)));
        assert_eq!(with(3, 1), Err(DecodeError::Unit(1)));
        assert_eq!(with(4, 3), Err(DecodeError::Lines { lines: 3, bytes }));
        assert_eq!(with(7, 255), Err(DecodeError::Lines { lines: 2 + (255 << 24), bytes }));
        for length in 0..bytes {
            let error = Filter::decode(&good[..length]).expect_err("too short");
            assert!(!error.to_string().is_empty());
        }
        let longer = [&good[..], &[0]].concat();
        let expected = match kind {
            // It could have another unit.
            FilterKind::Elastic => DecodeError::TooShort(1),
            FilterKind::Bloom | FilterKind::Blocked => DecodeError::Lines { lines: 2, bytes: bytes + 1 },
        };
        assert_eq!(Filter::decode(&longer), Err(expected));
    }
    let mut none = filter(FilterKind::Bloom, 1, 512).encode();
    none.truncate(16);
    none[4] = 0;
    assert_eq!(Filter::decode(&none), Err(DecodeError::Lines { lines: 0, bytes: 16 }));
}

/// Units stand in order, are alike but for their bits, and are as many as there may be.
#[test]
fn refuses_units_that_do_not_go_together() {
    let all = filter(FilterKind::Elastic, 100, 3072);
    let (bytes, units) = (all.encode(), all.units());
    assert_eq!((units, bytes.len()), (6, 6 * 80));
    for cut in 1..units {
        assert_eq!(Filter::decode(&bytes[..cut * 80]).map(Some), Ok(all.with_units(cut)));
    }
    let with = |at: usize, value: u8| {
        let mut bad = bytes.clone();
        bad[at] = value;
        Filter::decode(&bad)
    };
    assert_eq!(with(80 + 3, 2), Err(DecodeError::Unit(2)));
    assert_eq!(with(80 + 2, 3), Err(DecodeError::Unit(1)));
    assert_eq!(with(80 + 1, 2), Err(DecodeError::Unit(1)));
    assert_eq!(with(80 + 8, 99), Err(DecodeError::Unit(1)));
    assert_eq!(with(80 + 4, 2), Err(DecodeError::Lines { lines: 2, bytes: 80 }));
    assert_eq!(Filter::decode(&bytes[..479]), Err(DecodeError::Lines { lines: 1, bytes: 79 }));
    assert_eq!(Filter::decode(&bytes[80..]), Err(DecodeError::Unit(1)));
    let two = all.with_units(2).expect("units");
    assert_eq!(two.with_next_unit(&all.encode_unit(3)), Err(DecodeError::Unit(3)));
    assert_eq!(two.with_next_unit(&all.encode_unit(2)[..79]), Err(DecodeError::Lines { lines: 1, bytes: 79 }));
    assert_eq!(
        filter(FilterKind::Blocked, 1, 512).with_next_unit(&all.encode_unit(1)),
        Err(DecodeError::UnknownKind(2))
    );
    let most = filter(FilterKind::Elastic, 1, 1 << 20);
    let mut one_more = most.encode_unit(21);
    one_more[3] = 22;
    assert_eq!((most.units(), most.with_next_unit(&one_more)), (22, Err(DecodeError::Unit(22))));
}

/// Arbitrary bytes never panic: random ones of all lengths, and filters with random bytes changed.
/// The checks are those of the fuzz target.
#[test]
fn arbitrary_bytes_do_no_harm() {
    let mut random = 4711_u64;
    let mut draw = move |below: usize| {
        random = Digest::of(&random.to_le_bytes()).stored();
        (random % below as u64) as usize
    };
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut bytes = if round % 2 == 0 {
            (0..draw(300)).map(|_| draw(256) as u8).collect()
        } else {
            filter(FilterKind::ALL[draw(3)], draw(100) as u64, 1 + draw(2048) as u64).encode()
        };
        for _ in 0..draw(4) {
            let length = bytes.len().max(1);
            // Mostly the header, which decides most.
            let at = if draw(3) == 0 { draw(length) } else { draw(length.min(16)) };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = draw(256) as u8;
            }
        }
        accepted += usize::from(Filter::decode(&bytes).is_ok());
        fuzz::filter(&bytes);
    }
    assert!((2000..18_000).contains(&accepted), "{accepted} of 20,000 were filters");
}
