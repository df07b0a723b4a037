//! The code as a whole: all buckets come back, lengths are good, and a cuckoo table of such
//! buckets errs as predicted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tamarack_model::filter::chucky::groups::{self, Counts};
use tamarack_model::filter::chucky::lengths::{self, Fit};
use tamarack_model::filter::chucky::{self as chucky_model, CLASS_LIDS_MAX, Classes, CodeLengths};
use tamarack_model::policy;
use tamarack_model::simulate::Tree as Simulated;
use tamarack_model::units::Bytes;
use tamarack_testing::Random;

use super::combinations::Binomials;
use super::*;
use crate::digest::Digest;

/// A tree, as its code sees it: classes with their LIDs and their part of the entries.
struct Tree {
    name: &'static str,
    lids: Vec<u16>,
    shares: Shares,
}

impl Tree {
    /// Levels with `runs` each, the largest first, and sizes in the ratio `ratio`.
    fn of_levels(name: &'static str, ratio: f64, runs: &[u16]) -> Self {
        let entries = (0..runs.len() as i32).map(|level| ratio.powi(-level)).collect();
        Self { name, lids: runs.to_vec(), shares: Shares::new(entries) }
    }

    fn code(&self, slots: usize) -> Result<Code, CodeError> {
        Code::new(slots, &self.lids, std::slice::from_ref(&self.shares))
    }
}

fn trees() -> Vec<Tree> {
    vec![
        Tree::of_levels("leveling T=10 L=5", 10.0, &[1; 5]),
        Tree::of_levels("leveling T=2 L=10", 2.0, &[1; 10]),
        Tree::of_levels("lazy leveling T=5 L=6", 5.0, &[1, 4, 4, 4, 4, 4]),
        Tree::of_levels("tiering T=4 L=6", 4.0, &[3; 6]),
        Tree::of_levels("tiering T=10 L=4", 10.0, &[9; 4]),
        Tree::of_levels("one run", 10.0, &[1]),
        Tree::of_levels("many runs", 17.0, &[2, 16, 256]),
    ]
}

/// A slot of a random entry: LIDs uniformly, so that rare buckets occur.
fn any_slot(code: &Code, lids: u16, random: &mut Random) -> BucketSlot {
    if random.one_in(8) {
        return BucketSlot::EMPTY;
    }
    code.slot(random.below(lids.into()) as u16, code.fingerprint(Digest::from_stored(random.next())))
}

/// Every bucket comes back from its code, rare ones too; a lookup sees the same slots as decoding.
#[test]
fn buckets_come_back() {
    let mut random = Random::new(1);
    for tree in trees() {
        let lids: u16 = tree.lids.iter().sum();
        for slots in 1..=SLOTS_MAX {
            let code = match tree.code(slots) {
                Ok(code) => code,
                Err(error) => {
                    assert!(slots == SLOTS_MAX && lids > 100, "{}, {slots}: {error}", tree.name);
                    continue;
                }
            };
            let (mut frequent, mut rare) = (0, 0);
            for _ in 0..400 {
                let mut contents = Bucket::empty(slots);
                // Half of the buckets have the distribution of the tree.
                let natural = random.one_in(2);
                for _ in 0..slots {
                    let mut slot = any_slot(&code, lids, &mut random);
                    if natural {
                        let own = code.lids_of_class(any_class(&tree, &mut random));
                        let lid = own.start + random.below(own.len() as u64) as u16;
                        slot = code.slot(lid, code.fingerprint(Digest::from_stored(random.next())));
                    }
                    assert!(contents.insert(slot));
                }
                match code.encode(&contents) {
                    Encoded::Frequent(word) => {
                        frequent += 1;
                        assert_eq!(code.decode(word), Some(contents), "{}, {slots}: {word:#x}", tree.name);
                        assert_eq!(code.empty_slots(word), Some(contents.empty_slots()));
                        let first_bits = code.first_bits_of_slots(word).expect("not rare");
                        assert!(
                            contents.slots().iter().zip(first_bits).all(|(slot, bits)| code.first_bits(*slot) == bits)
                        );
                        for digest in [random.next(), (random.next() % 64) << 26] {
                            let key = code.fingerprint(Digest::from_stored(digest));
                            let found: Vec<u16> = code.lids(word, code.matches(word, key).expect("not rare")).collect();
                            let slots = contents.slots().iter();
                            let expected: Vec<u16> =
                                slots.filter(|slot| code.slot(slot.lid, key) == **slot).map(|slot| slot.lid).collect();
                            assert_eq!(found, expected);
                        }
                        for slot in contents.slots().iter().filter(|slot| **slot != BucketSlot::EMPTY) {
                            // Any key with this prefix.
                            let bits = code.fingerprint_bits().nth(code_class(&code, slot.lid)).expect("a class");
                            let key = Digest::from_stored(u64::from(slot.fingerprint) << (16 - bits) << 16);
                            let matches = code.matches(word, code.fingerprint(key)).expect("not rare");
                            assert!(code.lids(word, matches).any(|lid| lid == slot.lid));
                        }
                    }
                    Encoded::Rare(word, fingerprints) => {
                        rare += 1;
                        assert_eq!(code.decode(word), None);
                        assert_eq!(code.matches(word, code.fingerprint(Digest::from_stored(random.next()))), None);
                        assert_eq!(code.decode_rare(word, &fingerprints), contents);
                    }
                }
            }
            assert!(
                frequent > 0 && (rare > 0 || tree.lids.len() < 2 || slots < 3),
                "{}, {slots}: {frequent}, {rare}",
                tree.name
            );
        }
    }
}

fn code_class(code: &Code, lid: u16) -> usize {
    (0..).find(|&class| code.lids_of_class(class).contains(&lid)).expect("a class")
}

/// The class of a random entry of the tree.
fn any_class(tree: &Tree, random: &mut Random) -> usize {
    let mut at = random.fraction();
    let class = tree.shares.of_entries().iter().position(|share| {
        at -= share;
        at < 0.0
    });
    class.unwrap_or(0)
}

/// Buckets that are equal as numbers are equal in content, and the other way round: the order in
/// which entries came does not matter.
#[test]
fn buckets_have_one_encoding() {
    let tree = Tree::of_levels("lazy leveling T=5 L=6", 5.0, &[1, 4, 4, 4, 4, 4]);
    let (code, mut random) = (tree.code(5).expect("it fits"), Random::new(2));
    for _ in 0..200 {
        let mut slots: Vec<BucketSlot> = (0..4).map(|_| any_slot(&code, 21, &mut random)).collect();
        let words: Vec<Encoded> = (0..2)
            .map(|_| {
                slots.reverse();
                let mut contents = Bucket::empty(5);
                assert!(slots.iter().all(|slot| contents.insert(*slot)));
                code.encode(&contents)
            })
            .collect();
        assert_eq!(words[0], words[1]);
    }
}

/// Entries can be taken out again, each as often as it was put in.
#[test]
fn buckets_are_multisets() {
    let (a, b) = (BucketSlot { lid: 1, fingerprint: 7 }, BucketSlot { lid: 0, fingerprint: 9 });
    let mut contents = Bucket::empty(3);
    assert!(contents.insert(a) && contents.insert(b) && contents.insert(a) && !contents.insert(b));
    assert_eq!(contents.empty_slots(), 0);
    assert!(contents.replace(a, b) && contents.remove(a) && !contents.remove(a));
    assert_eq!(contents.slots(), [BucketSlot::EMPTY, b, b]);
}

/// The false positives of full trees, computed independently in floating point.
#[test]
fn false_positives_of_full_trees() {
    let expected = [
        ("leveling T=10 L=5", [0.0114, 0.00235, 0.00023]),
        ("leveling T=2 L=10", [0.0199, 0.0040, 0.00038]),
        ("lazy leveling T=5 L=6", [0.0193, 0.0039, 0.00038]),
        ("tiering T=4 L=6", [0.0289, 0.0060, 0.00058]),
        ("tiering T=10 L=4", [0.0509, 0.0105, 0.0010]),
    ];
    for (tree, (name, rates)) in trees().iter().zip(expected) {
        assert_eq!(tree.name, name);
        for ((slots, load), expected) in [(6, 0.97), (5, 0.96), (4, 0.95)].into_iter().zip(rates) {
            let found = tree.code(slots).expect("it fits").false_positives(&tree.shares, load);
            // Those in the list have two or three digits.
            assert!((found / expected - 1.0).abs() < 0.06, "{name}, {slots} slots: {found}, not {expected}");
        }
    }
}

/// The best lengths err at most as often as those of Algorithm 1, in the median much less for long
/// buckets.
#[test]
fn lengths_are_better_than_those_of_algorithm_1() {
    for tree in trees() {
        for slots in 4..=6 {
            let (frequent, all) = frequent_groups(&tree, slots);
            let fit = Fit { frequent: &frequent, combinations: all, bucket_bits: 64 };
            let own = lengths::best(fit, tree.shares.of_entries()).expect("it fits");
            let printed = lengths::algorithm_1(fit, tree.lids.len(), 16).expect("it fits");
            let rate = |lengths: &[u32]| lengths::rate(tree.shares.of_entries(), lengths);
            assert!(fit.holds(&own) && rate(&own) <= rate(&printed), "{}, {slots}: {own:?}, {printed:?}", tree.name);
            assert!(own.iter().all(|length| (5..=own[0]).contains(length)));
            let longer = |class: usize| {
                let mut longer = own.clone();
                longer[class] += 1;
                longer
            };
            let may = |class: usize| if class == 0 { 16 } else { own[0] };
            let stuck = (0..own.len()).all(|class| own[class] >= may(class) || !fit.holds(&longer(class)));
            assert!(stuck, "no class can be longer: {}, {slots}: {own:?}", tree.name);
        }
    }
}

fn frequent_groups(tree: &Tree, slots: usize) -> (Vec<(Counts, u64)>, u64) {
    let lids: usize = tree.lids.iter().map(|&lids| usize::from(lids)).sum();
    let binomials = Binomials::new(lids);
    let number = |group: Counts| group.iter().map(|(class, k)| binomials.count(tree.lids[class].into(), k)).product();
    let frequent = groups::frequent(slots, tree.lids.len(), std::slice::from_ref(&tree.shares));
    (frequent.into_iter().map(|group| (group, number(group))).collect(), binomials.count(lids, slots))
}

/// The paper's default tree (lazy leveling, T = 5, six levels), buckets of four slots: 7 bits a
/// slot are too few, 8 are enough.
#[test]
fn the_fewest_bits_of_the_papers_tree() {
    let tree = Tree::of_levels("lazy leveling T=5 L=6", 5.0, &[1, 4, 4, 4, 4, 4]);
    let (frequent, combinations) = frequent_groups(&tree, 4);
    assert_eq!(combinations, 10_626);
    let fits = |bits: u32| {
        lengths::best(Fit { frequent: &frequent, combinations, bucket_bits: 4 * bits }, tree.shares.of_entries())
    };
    assert_eq!((fits(7), fits(8).is_some()), (None, true));
}

/// Buckets of many runs take few groups.
#[test]
fn groups_are_few() {
    let of = |tree: &Tree, slots| (frequent_groups(tree, slots).0.len(), frequent_groups(tree, slots).1);
    assert_eq!(of(&trees()[1], 6).1, 5_005);
    assert_eq!(of(&trees()[4], 4).1, 82_251);
    let found = of(&trees()[2], 4);
    assert!((35..=45).contains(&found.0), "{found:?}");
    let code = trees()[6].code(4).expect("it fits");
    assert!(code.memory_bytes() < 128 << 10, "{} bytes", code.memory_bytes());
}

/// The code against its twin: Huffman's code over combinations, with the probabilities of the
/// tree. Nothing can be shorter on average than Huffman's. Ours is longer, since it gives what is
/// left of a bucket to fingerprints: its average is exactly what Eq. 15 allows.
#[test]
fn huffman_is_shorter_by_what_fingerprints_gain() {
    // Level IDs alone: T=5, K=4, Z=1, L=3, nine runs, 189/124 = 1.52 bits.
    let level_ids: Vec<f64> = [(25.0, 1), (5.0, 4), (1.0, 4)]
        .into_iter()
        .flat_map(|(share, runs): (f64, usize)| std::iter::repeat_n(share / 31.0 / runs as f64, runs))
        .collect();
    assert!((huffman(&level_ids) - 189.0 / 124.0).abs() < 1e-9);

    let tree = Tree::of_levels("lazy leveling T=5 L=3", 5.0, &[1, 4, 4]);
    let code = tree.code(4).expect("it fits");
    let of_lid = |lid: usize| {
        let class = code_class(&code, lid as u16);
        tree.shares.of_entries()[class] / f64::from(tree.lids[class])
    };
    let mut probabilities = BTreeMap::new();
    for number in 0..9_usize.pow(4) {
        let mut lids = [0, 1, 2, 3].map(|place| number / 9_usize.pow(place) % 9);
        let probability: f64 = lids.iter().map(|&lid| of_lid(lid)).product();
        lids.sort_unstable();
        *probabilities.entry(lids).or_insert(0.0) += probability;
    }
    assert_eq!(probabilities.len(), 495);
    let entropy: f64 = probabilities.values().map(|p| -p * f64::log2(*p)).sum();
    let shortest = huffman(&probabilities.values().copied().collect::<Vec<_>>());
    let lengths: Vec<u32> = code.fingerprint_bits().collect();
    let own: f64 = probabilities
        .iter()
        .map(|(lids, p)| {
            let mut contents = Bucket::empty(4);
            lids.iter().for_each(|&lid| assert!(contents.insert(BucketSlot { lid: lid as u16, fingerprint: 1 })));
            let bits: u32 = lids.iter().map(|&lid| lengths[code_class(&code, lid as u16)]).sum();
            p * f64::from(if matches!(code.encode(&contents), Encoded::Frequent(_)) { 64 - bits } else { 64 })
        })
        .sum();
    assert!(entropy <= shortest && shortest < entropy + 1.0 && shortest <= own, "{entropy}, {shortest}, {own}");
    assert!(own < shortest + 4.0, "a bit a slot at most: {shortest}, {own}");
}

/// The average length of Huffman's code.
fn huffman(probabilities: &[f64]) -> f64 {
    // Probabilities are positive, so their bits are in their order.
    let mut heap: BinaryHeap<Reverse<u64>> = probabilities.iter().map(|p| Reverse(p.to_bits())).collect();
    let mut length = 0.0;
    while let (Some(Reverse(a)), Some(Reverse(b))) = (heap.pop(), heap.pop()) {
        let both = f64::from_bits(a) + f64::from_bits(b);
        length += both;
        if !heap.is_empty() {
            heap.push(Reverse(both.to_bits()));
        }
    }
    length
}

/// Arguments out of their range are refused, with words that say why.
#[test]
fn impossible_codes() {
    let one = [Shares::new(vec![1.0])];
    let refused =
        |slots, lids: &[u16], states: &[Shares]| Code::new(slots, lids, states).expect_err("refused").to_string();
    for (error, part) in [
        (refused(8, &[1], &one), "8 slots"),
        (refused(4, &[], &one), "0 classes"),
        (refused(4, &[0], &one), "[0] runs"),
        (refused(4, &[401], &one), "[401] runs"),
        (refused(4, &[1, 1], &one), "another number of classes"),
        (refused(4, &[1], &[]), "no state"),
        (refused(7, &[2, 16, 256], &[Shares::new(vec![1.0, 1.0, 1.0])]), "more bits per entry"),
    ] {
        assert!(error.contains(part), "{error}");
    }
}

/// A cuckoo table of buckets, for one thread: as much as is needed to see loads and rates.
struct Cuckoo {
    code: Code,
    buckets: Vec<u64>,
    rare: BTreeMap<usize, [u16; SLOTS_MAX]>,
    random: Random,
    moves: u64,
}

impl Cuckoo {
    fn new(code: Code, buckets: usize) -> Self {
        let Encoded::Frequent(empty) = code.encode(&Bucket::empty(code.slots())) else {
            panic!("empty buckets are frequent")
        };
        Self { code, buckets: vec![empty; buckets], rare: BTreeMap::new(), random: Random::new(3), moves: 0 }
    }

    fn contents(&self, bucket: usize) -> Bucket {
        let word = self.buckets[bucket];
        self.code.decode(word).unwrap_or_else(|| self.code.decode_rare(word, &self.rare[&bucket]))
    }

    fn set(&mut self, bucket: usize, contents: &Bucket) {
        self.rare.remove(&bucket);
        self.buckets[bucket] = match self.code.encode(contents) {
            Encoded::Frequent(word) => word,
            Encoded::Rare(word, fingerprints) => {
                self.rare.insert(bucket, fingerprints);
                word
            }
        };
    }

    fn buckets_of(&self, digest: Digest) -> [usize; 2] {
        let first = digest.below(self.buckets.len() as u64) as usize;
        [first, self.other(first, self.code.fingerprint(digest).prefix(FINGERPRINT_BITS_MIN))]
    }

    fn other(&self, bucket: usize, first_bits: u16) -> usize {
        Offsets::new(self.buckets.len()).other(bucket, first_bits)
    }

    /// False if no place was found.
    fn insert(&mut self, lid: u16, digest: Digest) -> bool {
        let mut slot = self.code.slot(lid, self.code.fingerprint(digest));
        let buckets = self.buckets_of(digest);
        for bucket in buckets {
            let mut contents = self.contents(bucket);
            if contents.insert(slot) {
                self.set(bucket, &contents);
                return true;
            }
        }
        let mut bucket = buckets[self.random.below(2) as usize];
        for _ in 0..500 {
            self.moves += 1;
            let mut contents = self.contents(bucket);
            let evicted = *self.random.pick(contents.slots());
            assert!(contents.replace(evicted, slot));
            self.set(bucket, &contents);
            (slot, bucket) = (evicted, self.other(bucket, self.code.first_bits(evicted)));
            let mut contents = self.contents(bucket);
            if contents.insert(slot) {
                self.set(bucket, &contents);
                return true;
            }
        }
        false
    }

    /// The LIDs that the key may belong to.
    fn candidates(&self, digest: Digest) -> Vec<u16> {
        let key = self.code.fingerprint(digest);
        let buckets = self.buckets_of(digest);
        let slots = buckets.into_iter().flat_map(|bucket| self.contents(bucket).slots().to_vec());
        slots.filter(|slot| self.code.slot(slot.lid, key) == *slot).map(|slot| slot.lid).collect()
    }
}

/// Tables of buckets take as many entries as they should, miss no key, err as predicted, and few
/// buckets are rare.
#[test]
fn tables_err_as_predicted() {
    const WORDS: usize = 5_003;
    for tree in &trees()[..5] {
        for (slots, load) in [(4, 0.95), (5, 0.96), (6, 0.97), (7, 0.975)] {
            let mut table = Cuckoo::new(tree.code(slots).expect("it fits"), WORDS);
            let mut random = Random::new(slots as u64);
            let entries = (WORDS as f64 * slots as f64 * load) as usize;
            let mut keys = Vec::new();
            for _ in 0..entries {
                let own = table.code.lids_of_class(any_class(tree, &mut random));
                let (lid, digest) =
                    (own.start + random.below(own.len() as u64) as u16, Digest::from_stored(random.next()));
                assert!(table.insert(lid, digest), "{}, {slots} slots: full at {} of {entries}", tree.name, keys.len());
                keys.push((lid, digest));
            }
            for &(lid, digest) in keys.iter().step_by(7) {
                assert!(table.candidates(digest).contains(&lid), "{}, {slots} slots: a key is missed", tree.name);
            }
            assert!(table.rare.len() <= WORDS / 2_000 + 3, "{}, {slots} slots: {} rare", tree.name, table.rare.len());
            let predicted = table.code.false_positives(&tree.shares, load);
            let lookups = ((4_000.0 / predicted) as u64).min(400_000);
            let found: usize = (0..lookups).map(|_| table.candidates(Digest::from_stored(random.next())).len()).sum();
            let expected = predicted * lookups as f64;
            // Four standard deviations of a count, and the table's own.
            let deviation = 4.0 * expected.sqrt() + 0.03 * expected;
            assert!(
                (found as f64 - expected).abs() < deviation,
                "{}, {slots} slots: {found}, not {expected}",
                tree.name
            );
        }
    }
}

/// The other bucket of the other bucket is the bucket itself, for tables of any size.
#[test]
fn two_buckets_belong_together() {
    for buckets in (1..70).chain([1 << 20, (1 << 20) + 7]) {
        let (mut random, offsets) = (Random::new(buckets as u64), Offsets::new(buckets));
        for first_bits in 0..1 << FINGERPRINT_BITS_MIN {
            let bucket = random.below(buckets as u64) as usize;
            let other = offsets.other(bucket, first_bits);
            assert!(other < buckets && offsets.other(other, first_bits) == bucket);
        }
    }
}

/// Codes that are made for the states of a growing tree hold in a simulation of it: few buckets
/// are rare at any time, where with a code for the full tree alone up to one in ten would be, and
/// false positives are hardly more. LIDs for late runs, which the simulated tree does not have, add
/// up to 6 %.
#[test]
fn codes_hold_while_a_tree_grows() {
    const BUFFER: Bytes = Bytes(1 << 20);
    let mut rare_of_full_codes = 0.0_f64;
    for (words, memtables) in [
        ("leveling:T=10", 900),
        ("leveling:T=5,first=4", 600),
        ("leveling:T=2", 250),
        ("lazy-leveling:T=5", 600),
        ("tiering:T=4", 250),
        ("tiering:T=10", 900),
        ("garnering:T=5,c=0.8", 600),
    ] {
        let policy = policy::parse(words).expect("a policy");
        let shape = policy.shape(Bytes(BUFFER.0 * memtables), BUFFER);
        let classes = Classes::of(&shape);
        let states: Vec<Shares> = classes.states(&shape).into_iter().map(Shares::new).collect();
        let levels = (1..=shape.last()).map(|number| (number, shape.level(number).capacity.as_f64()));
        let full = classes.entries(shape.last(), levels);
        let never_late = |entries: &[f64]| Shares::new(entries[..classes.late()].to_vec());
        let states_never_late: Vec<Shares> = classes.states(&shape).iter().map(|state| never_late(state)).collect();
        let lids_never_late = &classes.lids()[..classes.late()];
        for slots in 4..=6 {
            let code = Code::new(slots, classes.lids(), &states).expect("it fits");
            let without_late = Code::new(slots, lids_never_late, &states_never_late).expect("it fits");
            let of_full = Code::new(slots, lids_never_late, &[never_late(&full)]).expect("it fits");
            let mut tree = Simulated::new(&policy, BUFFER);
            let (mut most, mut mean, mut seen) = (0.0_f64, [0.0; 3], 0);
            for _ in 0..memtables {
                tree.rotate_memtable(BUFFER);
                tree.settle();
                // From the time on when the last level has a batch. Under policies whose ratios
                // change with the number of levels, it begins with less, and then needs a code of
                // its own.
                let (last, occupancy) = (shape.last(), tree.occupancy());
                if tree.shape().last() < last || occupancy.level_bytes(last).as_f64() < shape.actual_batch(last) {
                    continue;
                }
                let runs = occupancy.runs().map(|(level, run)| (level, run.bytes.as_f64()));
                let entries = classes.entries(last, runs);
                let (state, never_late) = (Shares::new(entries.clone()), never_late(&entries));
                seen += 1;
                most = most.max(code.rare_share(&state)).max(without_late.rare_share(&never_late));
                rare_of_full_codes = rare_of_full_codes.max(of_full.rare_share(&never_late));
                let codes = [(&code, &state), (&without_late, &never_late), (&of_full, &never_late)];
                for (mean, (code, state)) in mean.iter_mut().zip(codes) {
                    *mean += code.false_positives(state, chucky_model::load(slots));
                }
            }
            assert!(seen > 50, "{words}: {seen} states");
            let (late, times) = (mean[0] / mean[1], mean[1] / mean[2]);
            assert!(most < 5e-4, "{words}, {slots} slots: {most} of the buckets are rare");
            assert!(times < 1.06, "{words}, {slots} slots: {times} times the false positives");
            assert!(late < 1.06, "{words}, {slots} slots: late runs make {late} times the false positives");
        }
    }
    assert!(rare_of_full_codes > 0.05, "{rare_of_full_codes}");
}

/// Trees of all policies have codes, also those of hundreds of runs.
#[test]
fn all_policies_have_codes() {
    for (words, memtables) in [
        ("leveling:T=10", 50_000),
        ("leveling:T=2", 1_000),
        ("tiering:T=10", 5_000),
        ("dostoevsky:T=6,K=3,Z=2", 5_000),
        ("garnering:T=5,c=0.8", 10_000),
        ("moose:last=0.8,k=1", 10_000),
        ("qlsm-bush:T=2,X=2", 20_000),
    ] {
        let shape = policy::parse(words).expect("a policy").shape(Bytes(memtables << 20), Bytes(1 << 20));
        let classes = Classes::of(&shape);
        let states: Vec<Shares> = classes.states(&shape).into_iter().map(Shares::new).collect();
        for slots in 4..=6 {
            let code = Code::new(slots, classes.lids(), &states).unwrap_or_else(|error| panic!("{words}: {error}"));
            assert!(code.memory_bytes() < 128 << 10, "{words}, {slots} slots: {} bytes", code.memory_bytes());
            let rare = states.iter().map(|state| code.rare_share(state)).fold(0.0, f64::max);
            assert!(rare <= 1.0001e-4, "{words}, {slots} slots: {rare} of the buckets are rare");
        }
    }
}

/// The lengths by which the model predicts false positives are those of codes: of trees with few
/// runs and with many, some of which share level IDs.
#[test]
fn the_models_lengths_are_those_of_codes() {
    let mut shared = 0;
    for words in
        ["leveling:T=10", "leveling:T=2", "tiering:T=4", "tiering:T=60", "leveling:T=5,first=4", "moose:last=0.8,k=1"]
    {
        let buffer = Bytes(1 << 20);
        let shape = policy::parse(words).expect("a policy").shape(Bytes(777 << 20), buffer);
        let all = Classes::of(&shape);
        let states: Vec<Shares> = all.states(&shape).into_iter().map(Shares::new).collect();
        for slots in 4..=SLOTS_MAX {
            let code_of = |most: &u16| Code::new(slots, all.shared(*most).lids(), &states).ok();
            let most = CLASS_LIDS_MAX.iter().find(|most| code_of(most).is_some()).expect("there is a code");
            shared += u64::from(*most < u16::MAX);
            let code = code_of(most).expect("just seen");
            let lengths = CodeLengths::of(slots, &shape);
            assert_eq!(lengths.bits(), code.fingerprint_bits().collect::<Vec<_>>(), "{words}, {slots} slots");
        }
    }
    assert!(shared > 0, "no tree has more runs than level IDs");
}
