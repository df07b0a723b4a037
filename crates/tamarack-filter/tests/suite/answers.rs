//! What a filter answers: never no to what it holds, and exactly what its page says, computed the
//! slow way.
//!
//! Keys are numbers, hashed; a base apart from others makes sets disjoint and histories repeatable.

use std::collections::HashSet;

use tamarack_filter::{Builder, Digest, Filter, FilterKind, Size};

const SIZES: [f64; 8] = [0.01, 0.5, 1.0, 2.7, 5.0, 10.0, 16.0, 200.0];

fn digest(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

fn digests(base: u64, count: u64) -> Vec<Digest> {
    (base..base + count).map(digest).collect()
}

/// Whatever was put in is found, for every kind, size and number of entries, as it was built and
/// read back from bytes.
#[test]
fn no_false_negatives() {
    for kind in FilterKind::ALL {
        for count in [0, 1, 2, 3, 10, 51, 52, 100, 1000, 20_000] {
            let set = digests(count << 32, count);
            for size in SIZES.map(Size::PerEntry).into_iter().chain([1, 512, 513, 100_000].map(Size::Total)) {
                let Some(filter) = Filter::build(kind, size, &set) else {
                    assert!(count == 0 && matches!(size, Size::PerEntry(_)), "{kind:?}, {count} entries, {size:?}");
                    continue;
                };
                let read = Filter::decode(&filter.encode()).expect("what was encoded");
                assert_eq!(read, filter);
                for digest in &set {
                    assert!(filter.may_contain(*digest) && read.may_contain(*digest), "{filter:?} lost {digest:?}");
                }
            }
        }
    }
}

/// The same for a million entries.
#[test]
fn no_false_negatives_in_large_filters() {
    let set = digests(0, 1_000_000);
    for kind in FilterKind::ALL {
        for size in [0.3, 10.0] {
            let filter = Filter::build(kind, Size::PerEntry(size), &set).expect("bits");
            assert!(set.iter().all(|digest| filter.may_contain(*digest)), "{filter:?}");
        }
    }
}

/// Without bits there is no filter; a filter over nothing holds nothing.
#[test]
fn none_and_empty() {
    for kind in FilterKind::ALL {
        assert_eq!(Filter::build(kind, Size::PerEntry(0.0), &digests(0, 1000)), None);
        assert_eq!(Filter::build(kind, Size::Total(0), &digests(0, 1000)), None);
        assert_eq!(Filter::build(kind, Size::PerEntry(10.0), &[]), None);
        let empty = Filter::build(kind, Size::Total(1000), &[]).expect("bits");
        assert!(digests(0, 1000).into_iter().all(|digest| !empty.may_contain(digest)));
        assert_eq!((empty.fpr(), empty.bits()), (0.0, 1024));
    }
}

/// Sizes are the nearest whole lines, at least one.
#[test]
fn sizes_are_rounded_to_lines() {
    let set = digests(0, 1000);
    for kind in FilterKind::OF_ONE_PIECE {
        for (size, lines) in [
            (Size::PerEntry(10.0), 20),
            (Size::PerEntry(0.001), 1),
            (Size::PerEntry(1.2), 2),
            (Size::PerEntry(1.3), 3),
            (Size::Total(5000), 10),
            (Size::Total(1), 1),
        ] {
            let filter = Filter::build(kind, size, &set).expect("bits");
            assert_eq!(filter.bits(), lines * 512, "{size:?}");
            assert_eq!(filter.encode().len(), filter.encoded_bytes());
            assert!(filter.memory_bytes() >= filter.bits() as usize / 8);
        }
    }
}

/// Units are of one size, whole lines of it, and together not more than what was asked for, in
/// whole lines; few lines are few units.
#[test]
fn units_are_whole_lines() {
    for (entries, bits, units, lines) in
        [(1000, 20.0, 6, 6), (1000, 10.0, 4, 5), (1000, 2.0, 1, 4), (5, 16.0, 1, 1), (100, 20.0, 4, 1)]
    {
        let filter = Filter::build(FilterKind::Elastic, Size::PerEntry(bits), &digests(0, entries)).expect("bits");
        assert_eq!((filter.units(), filter.bits()), (units, units as u64 * lines * 512), "{entries} with {bits} bits");
        assert!(entries < 10 || filter.bits() as f64 <= entries as f64 * bits + 256.0);
        let bytes = filter.encode_unit(0).len();
        assert_eq!(bytes as u64, 16 + lines * 64);
        assert_eq!(filter.encoded_bytes(), units * bytes);
        let first = filter.with_units(1).expect("a unit");
        let unit = filter.memory_bytes() - filter.with_units(units - 1).map_or(0, |less| less.memory_bytes());
        assert!(units == 1 || unit as u64 == lines * 64 + 80);
        assert_eq!(first.memory_bytes() as u64, size_of::<Filter>() as u64 + lines * 64 + 80);
    }
}

/// The units of a filter, each alone, lose nothing and err as often as one does; whether one errs
/// says nothing about another, nor about any two others: for sizes that are powers of two and for
/// others, for digests of keys and for shortened ones.
#[test]
fn units_are_independent() {
    for (entries, mask) in [(20_000, u64::MAX), (26_214, u64::MAX), (20_000, u64::MAX << 24)] {
        let short = |digest: Digest| Digest::from_stored(digest.stored() & mask);
        let set: Vec<Digest> = digests(0, entries).into_iter().map(short).collect();
        let filter = Filter::build(FilterKind::Elastic, Size::PerEntry(20.0), &set).expect("bits");
        let units: Vec<Filter> = (0..filter.units()).map(|unit| alone(&filter, unit)).collect();
        assert!(units.iter().all(|unit| set.iter().all(|digest| unit.may_contain(turned(*digest, &units, unit)))));
        let predicted = units[0].fpr();
        let asked = 400_000;
        let answers: Vec<u32> = digests(1 << 60, asked)
            .into_iter()
            .map(|digest| {
                let answer = |(at, unit): (usize, &Filter)| {
                    u32::from(unit.may_contain(turned(short(digest), &units, unit))) << at
                };
                units.iter().enumerate().map(answer).sum()
            })
            .collect();
        for mask in 1_u32..1 << units.len() {
            let together = mask.count_ones();
            if together > 3 {
                continue;
            }
            let count = answers.iter().filter(|answer| *answer & mask == mask).count() as f64;
            let expected = asked as f64 * predicted.powi(together as i32);
            // Filters differ a little from their prediction, each in its own proportion of set
            // bits.
            let allowed = expected * 0.015 * f64::from(together) + 4.5 * expected.sqrt();
            assert!((count - expected).abs() < allowed, "{filter:?}, units {mask:b}: {count} instead of {expected}");
        }
    }
}

/// One unit as a filter of one piece.
fn alone(filter: &Filter, unit: usize) -> Filter {
    let mut bytes = filter.encode_unit(unit);
    (bytes[1], bytes[3]) = (2, 0);
    Filter::decode(&bytes).expect("a unit is a blocked filter")
}

/// The digest that the unit is asked with, if its place among the units says which one it is.
fn turned(digest: Digest, units: &[Filter], unit: &Filter) -> Digest {
    let number = units.iter().position(|other| std::ptr::eq(other, unit)).expect("it is among them");
    (0..number).fold(digest, |digest, _| Digest::from_stored(digest.stored().wrapping_mul(0xD134_2543_DE82_EF95)))
}

/// Units in memory are the first ones, and their number decides how often they err together; more
/// of them never let pass what fewer stopped.
#[test]
fn fewer_units_err_more_often() {
    let set = digests(0, 30_000);
    let all = Filter::build(FilterKind::Elastic, Size::PerEntry(20.0), &set).expect("bits");
    assert_eq!(all.with_units(0), None);
    let asked = digests(1 << 60, 300_000);
    let mut passed = asked.len();
    for units in 1..=all.units() {
        let some = all.with_units(units).expect("units");
        assert!(set.iter().all(|digest| some.may_contain(*digest)), "{some:?}");
        let through: Vec<&Digest> = asked.iter().filter(|digest| some.may_contain(**digest)).collect();
        assert!(units == 1 || through.len() < passed);
        passed = through.len();
        let expected = asked.len() as f64 * some.fpr();
        let allowed = expected * 0.02 + 4.0 * expected.sqrt();
        assert!((passed as f64 - expected).abs() < allowed, "{some:?}: {passed} instead of {expected}");
        let more = (units < all.units()).then(|| some.with_next_unit(&all.encode_unit(units)).expect("the next"));
        assert_eq!(more, (units < all.units()).then(|| all.with_units(units + 1).expect("units")));
    }
}

/// Answers, and the lines read for them, equal those of a set of bits that follows the pages of
/// `bloom` and `blocked` word by word.
#[test]
fn equals_the_slow_twin() {
    for kind in FilterKind::ALL {
        for (count, size) in [(1, 10.0), (40, 10.0), (700, 3.3), (700, 12.0), (700, 18.0), (90, 45.0)] {
            let set = digests(1 << 40, count);
            let filter = Filter::build(kind, Size::PerEntry(size), &set).expect("bits");
            let places = |digest| twin::places(kind, &filter, digest);
            let bits: HashSet<u64> = set.iter().flat_map(|digest| places(*digest)).collect();
            for digest in set.iter().copied().chain(digests(2 << 40, 20_000)) {
                let places = places(digest);
                let expected = places.iter().all(|place| bits.contains(place));
                assert_eq!(filter.may_contain(digest), expected, "{filter:?} {digest:?}");
                let mut read =
                    places.iter().position(|place| !bits.contains(place)).map_or(places.len(), |first| first + 1);
                if kind == FilterKind::Elastic {
                    read = read.next_multiple_of(filter.probes() as usize);
                }
                let lines: HashSet<u64> = places[..read].iter().map(|place| place / 512).collect();
                assert_eq!(filter.lines_touched(digest) as usize, lines.len(), "{filter:?} {digest:?}");
            }
        }
    }
}

/// Where bits are, in plain arithmetic.
mod twin {
    use super::{Digest, Filter, FilterKind};

    const TWO_64: u128 = 1 << 64;

    fn folded(digest: u128, odd: u128) -> u128 {
        (digest * odd / TWO_64) ^ (digest * odd % TWO_64)
    }

    pub(crate) fn places(kind: FilterKind, filter: &Filter, digest: Digest) -> Vec<u64> {
        places_of(kind, filter.bits(), filter.units() as u64, filter.probes(), u128::from(digest.stored()))
    }

    fn places_of(kind: FilterKind, bits: u64, units: u64, probes: u32, digest: u128) -> Vec<u64> {
        match kind {
            FilterKind::Elastic => {
                let (mut digest, bits) = (digest, bits / units);
                let mut places = Vec::new();
                for unit in 0..units {
                    let of_unit = places_of(FilterKind::Blocked, bits, 1, probes, digest);
                    places.extend(of_unit.into_iter().map(|place| unit * bits + place));
                    digest = digest * 0xD134_2543_DE82_EF95 % TWO_64;
                }
                places
            }
            FilterKind::Bloom => {
                let at = |i: u128| {
                    let step = folded(digest, 0x9E37_79B9_7F4A_7C15);
                    // Summed up: the step is bent by 0 + 1 + 2 + … times the constant.
                    let bends = if i > 1 { i * (i - 1) * (i - 2) / 6 } else { 0 };
                    let sum = digest + i * step % TWO_64 + bends * 0xBB67_AE85_84CA_A73B % TWO_64;
                    (sum % TWO_64 * u128::from(bits) / TWO_64) as u64
                };
                (0..u128::from(probes)).map(at).collect()
            }
            FilterKind::Blocked => {
                let line = (digest * u128::from(bits / 512) / TWO_64) as u64;
                let place = |probe: u32| {
                    let odd = if probe < 7 { 0x9E37_79B9_7F4A_7C15 } else { 0x6A09_E667_F3BC_C909 };
                    line * 512 + (folded(digest, odd) >> (55 - 9 * (probe % 7)) & 511) as u64
                };
                (0..probes).map(place).collect()
            }
        }
    }
}

/// A builder makes filters of several kinds and sizes from one set, as a table does that rebuilds
/// its filter from the digests it stored. Keys with the same digest count, each of them.
#[test]
fn builders_keep_digests() {
    let mut set = digests(0, 999);
    set.push(set[998]);
    let mut builder = Builder::new();
    set.iter().for_each(|digest| builder.add(*digest));
    assert_eq!(builder.digests(), set);
    let stored: Vec<u64> = builder.digests().iter().map(|digest| digest.stored()).collect();
    let read: Vec<Digest> = stored.into_iter().map(Digest::from_stored).collect();
    for kind in FilterKind::ALL {
        for size in [2.0, 10.0] {
            let filter = builder.finish(kind, Size::PerEntry(size)).expect("bits");
            assert_eq!(filter.entries(), 1000);
            assert_eq!(Filter::build(kind, Size::PerEntry(size), &read), Some(filter));
        }
    }
    assert!((8000..=32_000).contains(&builder.memory_bytes()), "{} bytes of digests", builder.memory_bytes());
    assert_eq!(builder.into_digests(), set);
}

/// Each digest of a key is counted; filters compute none.
#[test]
#[cfg(debug_assertions)]
fn computed_digests_are_counted() {
    let before = tamarack_filter::digests_computed();
    let some = digests(0, 5);
    assert_eq!(tamarack_filter::digests_computed(), before + 5);
    Filter::build(FilterKind::Bloom, Size::PerEntry(8.0), &some).expect("bits").may_contain(some[0]);
    assert_eq!(tamarack_filter::digests_computed(), before + 5);
}

/// A filter takes the memory of its lines and of itself, and nothing else; filters other than
/// elastic ones have one unit, all of it or none.
#[test]
fn filters_of_one_piece() {
    for kind in [FilterKind::Bloom, FilterKind::Blocked] {
        let filter = Filter::build(kind, Size::Total(1024), &digests(0, 100)).expect("bits");
        assert_eq!(filter.memory_bytes(), size_of::<Filter>() + 128);
        assert_eq!((filter.with_units(0), filter.with_units(1)), (None, Some(filter.clone())));
    }
}

/// A filter of a few million bits is nothing unusual.
#[test]
fn large_filters_are_made() {
    let large = Filter::build(FilterKind::Blocked, Size::Total(20_000 * 512), &digests(0, 10)).expect("bits");
    assert_eq!(large.bits(), 20_000 * 512);
}

/// The largest filter has 2³² - 1 lines.
#[test]
#[should_panic = "a filter of"]
fn filters_of_too_many_lines_are_refused() {
    let _ = Filter::build(FilterKind::Blocked, Size::Total(u64::from(u32::MAX) * 512 + 512), &[]);
}

/// Few entries: over many small filters the rate is what [`Filter::fpr`] predicts, which is not
/// that of large ones.
#[test]
fn small_filters_have_the_predicted_rate() {
    for kind in FilterKind::ALL {
        for (count, lines) in [(60, 1), (100, 2), (400, 7)] {
            let (mut wrong, mut predicted) = (0, 0.0);
            for number in 0..400_u64 {
                let set = digests(number << 32, count);
                let filter = Filter::build(kind, Size::Total(lines * 512), &set).expect("bits");
                predicted += filter.fpr() * 2000.0;
                let absent = (1 << 60) + (number << 32);
                wrong += digests(absent, 2000).into_iter().filter(|digest| filter.may_contain(*digest)).count();
            }
            // At least 4,000 are counted; their number differs more from filter to filter than from
            // lookup to lookup.
            let ratio = wrong as f64 / predicted;
            assert!((0.93..1.07).contains(&ratio), "{kind:?}, {count} in {lines}: {wrong}, predicted {predicted}");
        }
    }
}

/// Digests may lose their low bits, if all do: with the high 40 of 64 the rate is as predicted, at
/// few bits per entry and at many.
#[test]
fn short_digests_have_the_predicted_rate() {
    let short = |digest: &Digest| Digest::from_stored(digest.stored() >> 24 << 24);
    for kind in FilterKind::ALL {
        for (size, queries) in [(3.0, 20_000), (12.0, 1_000_000)] {
            let set: Vec<Digest> = digests(0, 200_000).iter().map(short).collect();
            let filter = Filter::build(kind, Size::PerEntry(size), &set).expect("bits");
            let wrong = digests(1 << 60, queries).iter().filter(|digest| filter.may_contain(short(digest))).count();
            let ratio = wrong as f64 / (queries as f64 * filter.fpr());
            assert!((0.95..1.05).contains(&ratio), "{filter:?}: {ratio} of what is predicted");
        }
    }
}

/// A tree asks many filters with one digest. False positives of different tables do not go
/// together, nor do those of tables of one size: a digest that passes one by mistake passes the
/// next as often as any other.
#[test]
fn filters_that_share_a_digest_are_independent() {
    for kind in FilterKind::ALL {
        for sizes in [[4.0, 4.0], [4.0, 5.0]] {
            let [first, second] =
                [0, 1].map(|at| Filter::build(kind, Size::PerEntry(sizes[at]), &digests((at as u64) << 32, 50_000)));
            let (first, second) = (first.expect("bits"), second.expect("bits"));
            let past: Vec<Digest> =
                digests(1 << 60, 200_000).into_iter().filter(|digest| first.may_contain(*digest)).collect();
            let both = past.iter().filter(|digest| second.may_contain(**digest)).count();
            let ratio = both as f64 / past.len() as f64 / second.fpr();
            assert!((0.93..1.07).contains(&ratio), "{kind:?} {sizes:?}: {both} of {}", past.len());
        }
    }
}
