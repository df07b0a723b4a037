//! Times of encoding, decoding and matching one bucket, of our code and of its plain twins.
//!
//! All have the same random buckets of a full filter, with the fingerprint lengths of our code for
//! this tree. They take turns in each round, in one process.

use std::hint::black_box;
use std::time::Instant;

use common::numbers::{median, mix};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Bucket, BucketSlot, Code, Encoded, Fingerprint};
use tamarack_model::filter::chucky::combinations;

use crate::tree::{Distribution, Tree, random_bucket};
use crate::twins::{Entropy, Permutations, Slots, TABLE_MAX, Tables, Walk};

/// Buckets of one pass: enough that rare combinations take turns in the processor's caches, as they
/// do in a large filter.
const BUCKETS: usize = 32_768;

/// Permutations in a table, at most: their codewords alone take 16 MiB.
const PERMUTATIONS_MAX: f64 = (1 << 20) as f64;

/// Nanoseconds of one bucket: encoding, decoding, and matching an absent key.
pub type Times = [f64; 3];

/// The times of each code and the bytes of its tables, or why there are none.
pub struct Row {
    pub policy: &'static str,
    pub slots: usize,
    pub codes: Vec<Result<(Times, usize), String>>,
}

/// The codes, in the order of [`Row::codes`].
pub const CODES: [&str; 5] = ["ours", "tables of combinations", "Huffman tree", "permutations", "arithmetic coder"];

/// A pass over all buckets.
type Pass<'a> = Box<dyn Fn() -> u64 + 'a>;

/// The passes of a code, and the bytes of its tables.
type Passes<'a> = ([Pass<'a>; 3], usize);

pub fn row(policy: &'static str, tree: &Tree, slots: usize, rounds: usize) -> Row {
    let code = match tree.code(slots) {
        Ok(code) => code,
        Err(_) => {
            return Row { policy, slots, codes: CODES.map(|_| Err("no fingerprint lengths fit".to_owned())).into() };
        }
    };
    let distribution = Distribution::of_slots(tree, slots);
    let inputs = Inputs::new(tree, &code);
    let all = combinations(tree.runs() as u64, slots as u32);
    let tables = if all <= TABLE_MAX as f64 {
        Ok(Tables::new(tree, &code))
    } else {
        Err(format!("{all:.1e} combinations are too many for a table"))
    };
    let walk = tables.as_ref().map(Walk::new).map_err(String::clone);
    let ordered = (tree.runs() as f64).powi(slots as i32);
    let permutations = if ordered <= PERMUTATIONS_MAX {
        Permutations::new(tree, &code, &distribution).ok_or_else(|| "codewords of more than 127 bits".to_owned())
    } else {
        Err(format!("{ordered:.1e} permutations are too many for a table"))
    };
    let entropy = Entropy::new(tree, &code, &distribution);
    let passes: [Result<Passes<'_>, String>; 5] = [
        Ok((inputs.of_own(&code), code.memory_bytes())),
        tables.as_ref().map(|tables| (inputs.of_tables(tables), tables.memory_bytes())).map_err(String::clone),
        match (&tables, &walk) {
            (Ok(tables), Ok(walk)) => Ok((inputs.of_walk(tables, walk), walk.memory_bytes())),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        },
        permutations.as_ref().map(|code| (inputs.of_permutations(code), code.memory_bytes())).map_err(String::clone),
        Ok((inputs.of_entropy(&entropy), entropy.memory_bytes())),
    ];
    Row { policy, slots, codes: in_turns(&passes, rounds) }
}

/// Medians over the rounds.
fn in_turns(passes: &[Result<Passes<'_>, String>], rounds: usize) -> Vec<Result<(Times, usize), String>> {
    let mut measured = vec![[const { Vec::new() }; 3]; passes.len()];
    for _ in 0..rounds {
        for operation in 0..3 {
            for (passes, measured) in passes.iter().zip(&mut measured) {
                let Ok((passes, _)) = passes else { continue };
                // Whatever the code before left in the processor's caches.
                black_box(passes[operation]());
                let started = Instant::now();
                black_box(passes[operation]());
                measured[operation].push(started.elapsed().as_secs_f64() * 1e9 / BUCKETS as f64);
            }
        }
    }
    let medians = |measured: &[Vec<f64>; 3]| [0, 1, 2].map(|operation| median(measured[operation].iter().copied()));
    let of_code = |(passes, measured): (&Result<Passes<'_>, String>, _)| match passes {
        Ok((_, bytes)) => Ok((medians(measured), *bytes)),
        Err(why) => Err(why.clone()),
    };
    passes.iter().zip(&measured).map(of_code).collect()
}

/// Buckets that are frequent, and absent keys.
struct Inputs {
    buckets: Vec<Bucket>,
    keys: Vec<Fingerprint>,
}

impl Inputs {
    fn new(tree: &Tree, code: &Code) -> Self {
        let mut seed = 0;
        let mut random = || {
            seed += 1;
            mix(seed)
        };
        let mut buckets = Vec::with_capacity(BUCKETS);
        while buckets.len() < BUCKETS {
            let bucket = random_bucket(tree, code, &mut random);
            if matches!(code.encode(&bucket), Encoded::Frequent(_)) {
                buckets.push(bucket);
            }
        }
        let keys = (0..BUCKETS).map(|_| code.fingerprint(Digest::from_stored(random()))).collect();
        Self { buckets, keys }
    }

    fn each_bucket<'a>(&'a self, of: impl Fn(&Bucket) -> u64 + 'a) -> Pass<'a> {
        Box::new(move || self.buckets.iter().map(|bucket| of(black_box(bucket))).fold(0, u64::wrapping_add))
    }

    fn of_own<'a>(&'a self, code: &'a Code) -> [Pass<'a>; 3] {
        let encode = |bucket: &Bucket| match code.encode(bucket) {
            Encoded::Frequent(bits) | Encoded::Rare(bits, _) => bits,
        };
        let codes: Vec<u64> = self.buckets.iter().map(encode).collect();
        let decode = |bits: u64| code.decode(bits).map_or(0, |bucket| sum(bucket.slots()));
        let matches =
            |(&bits, &key): (&u64, &Fingerprint)| code.matches(bits, key).map_or(0, |found| found.count() as u64);
        let (of_decode, of_matches) = (codes.clone(), codes);
        [
            self.each_bucket(encode),
            Box::new(move || of_decode.iter().map(|&bits| decode(bits)).fold(0, u64::wrapping_add)),
            Box::new(move || of_matches.iter().zip(&self.keys).map(matches).sum()),
        ]
    }

    fn of_tables<'a>(&'a self, tables: &'a Tables) -> [Pass<'a>; 3] {
        let codes: Vec<u64> = self.buckets.iter().map(|bucket| tables.encode(bucket)).collect();
        self.of(
            codes,
            |bucket| tables.encode(bucket),
            |bits| tables.decode(*bits),
            |bits, key| tables.matches(*bits, key),
        )
    }

    fn of_walk<'a>(&'a self, tables: &'a Tables, walk: &'a Walk<'_>) -> [Pass<'a>; 3] {
        let codes: Vec<u64> = self.buckets.iter().map(|bucket| tables.encode(bucket)).collect();
        self.of(codes, |bucket| tables.encode(bucket), |bits| walk.decode(*bits), |bits, key| walk.matches(*bits, key))
    }

    fn of_permutations<'a>(&'a self, permutations: &'a Permutations) -> [Pass<'a>; 3] {
        // Slots as they come: turned by the number of the bucket.
        let turned: Vec<Vec<BucketSlot>> = self
            .buckets
            .iter()
            .zip(0..)
            .map(|(bucket, number)| {
                let mut slots = bucket.slots().to_vec();
                slots.rotate_left(number % bucket.slots().len());
                slots
            })
            .collect();
        let codes: Vec<(u128, u64)> = turned.iter().map(|slots| permutations.encode(slots)).collect();
        let encode = move || {
            let each = |slots: &Vec<BucketSlot>| {
                let (codeword, fingerprints) = permutations.encode(black_box(slots));
                (codeword >> 64) as u64 ^ fingerprints
            };
            turned.iter().map(each).fold(0, u64::wrapping_add)
        };
        let [_, decode, matches] =
            self.of(codes, |_| 0, |code| permutations.decode(*code), |code, key| permutations.matches(*code, key));
        [Box::new(encode), decode, matches]
    }

    fn of_entropy<'a>(&'a self, entropy: &'a Entropy) -> [Pass<'a>; 3] {
        let codes: Vec<_> = self.buckets.iter().map(|bucket| entropy.encode(bucket.slots())).collect();
        let encode = |bucket: &Bucket| {
            let (bits, fingerprints) = entropy.encode(bucket.slots());
            bits.first() ^ fingerprints
        };
        self.of(codes, encode, |code| entropy.decode(code), |code, key| entropy.matches(code, key))
    }

    fn of<'a, T: 'a>(
        &'a self,
        codes: Vec<T>,
        encode: impl Fn(&Bucket) -> u64 + 'a,
        decode: impl Fn(&T) -> Slots + 'a,
        matches: impl Fn(&T, Fingerprint) -> u32 + 'a,
    ) -> [Pass<'a>; 3] {
        let codes = std::rc::Rc::new(codes);
        let of_matches = std::rc::Rc::clone(&codes);
        [
            self.each_bucket(encode),
            Box::new(move || codes.iter().map(|code| sum(&decode(code))).fold(0, u64::wrapping_add)),
            Box::new(move || of_matches.iter().zip(&self.keys).map(|(code, key)| u64::from(matches(code, *key))).sum()),
        ]
    }
}

/// Something of each slot, so that none is left out.
fn sum(slots: &[BucketSlot]) -> u64 {
    slots.iter().fold(0, |all, slot| all + u64::from(slot.lid) + u64::from(slot.fingerprint))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All twins match as many absent keys as ours, and decode to the same slots; what is
    /// impossible says why.
    #[test]
    fn passes_agree() {
        let tree = Tree::of_paper(5.0, 2, 1, 2);
        let code = tree.code(7).expect("it fits");
        let distribution = Distribution::of_slots(&tree, 7);
        let inputs = Inputs::new(&tree, &code);
        let tables = Tables::new(&tree, &code);
        let walk = Walk::new(&tables);
        let permutations = Permutations::new(&tree, &code, &distribution).expect("short codewords");
        let entropy = Entropy::new(&tree, &code, &distribution);
        let [encode, decode, matches] = inputs.of_own(&code);
        assert!(encode() != 0 && matches() > 0);
        for [_, of_decode, of_matches] in [
            inputs.of_tables(&tables),
            inputs.of_walk(&tables, &walk),
            inputs.of_permutations(&permutations),
            inputs.of_entropy(&entropy),
        ] {
            assert_eq!((of_decode(), of_matches()), (decode(), matches()));
        }
        let bush = row("bush", &Tree::of_policy("qlsm-bush:T=2,X=2", 20_000), 5, 1);
        assert!(bush.codes[0].is_ok() && bush.codes[1].as_ref().is_err_and(|why| why.contains("too many")));
    }
}
