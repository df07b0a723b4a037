//! What is stored, and which of it is asked for.
//!
//! Entry n is a pure function of n. Its key's last 16 bytes are hexadecimal digits of a permutation
//! of n, so that keys come in random order when entries come in theirs; its value is a window into
//! noise. Entries from [`Data::entries`] on are not stored at first, but their keys lie between the
//! stored ones.

use common::numbers::mix;

/// Keys and values of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// In the names of directories.
    pub name: &'static str,
    /// All keys begin with it.
    pub prefix: &'static str,
    pub value_bytes: usize,
    pub entries: u64,
    /// Keys come in their order, not in a random one.
    pub sequential: bool,
}

/// The digits of a key after its prefix.
const DIGITS: usize = 16;

impl Data {
    pub fn key_bytes(&self) -> usize {
        self.prefix.len() + DIGITS
    }

    /// Keys and values of all entries.
    pub fn bytes(&self) -> u64 {
        self.entries * (self.key_bytes() + self.value_bytes) as u64
    }

    /// The same, as Tamarack counts what a buffer holds: 8 bytes more for each entry.
    pub fn raw_bytes(&self) -> u64 {
        self.bytes() + 8 * self.entries
    }

    /// Appends the key of entry n.
    pub fn push_key(&self, n: u64, keys: &mut Vec<u8>) {
        let number = if self.sequential { n } else { mix(n) };
        keys.extend_from_slice(self.prefix.as_bytes());
        keys.extend((0..DIGITS).map(|i| b"0123456789abcdef"[(number >> (60 - 4 * i) & 15) as usize]));
    }

    pub fn key(&self, n: u64) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.key_bytes());
        self.push_key(n, &mut key);
        key
    }

    /// The value of entry n, cut from `noise`.
    pub fn value<'a>(&self, noise: &'a [u8], n: u64) -> &'a [u8] {
        let start = (mix(!n) % (noise.len() - self.value_bytes) as u64) as usize;
        &noise[start..start + self.value_bytes]
    }

    /// The numbers of all entries, in the order of their keys.
    pub fn sorted(&self) -> Vec<u32> {
        let mut sorted: Vec<(u64, u32)> =
            (0..self.entries).map(|n| (mix(n), u32::try_from(n).expect("fewer than 2^32 entries"))).collect();
        sorted.sort_unstable();
        sorted.into_iter().map(|(_, n)| n).collect()
    }
}

/// Numbers drawn from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 up to 1.
    fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ranks from a Zipfian distribution: rank r is drawn in proportion to 1 / (r + 1)^0.99. The method
/// is rejection-inversion (Hörmann and Derflinger, 1996), which is exact; YCSB's draws ranks 2 to 9
/// a tenth too often.
pub struct Zipfian {
    items: u64,
    /// The integral at both ends, and the distance from a whole number within which a draw is
    /// accepted at once.
    first: f64,
    last: f64,
    near: f64,
}

const THETA: f64 = 0.99;

impl Zipfian {
    pub fn new(items: u64) -> Self {
        let near = 2.0 - inverse(integral(2.5) - 2f64.powf(-THETA));
        Self { items, first: integral(1.5) - 1.0, last: integral(items as f64 + 0.5), near }
    }

    pub fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + random.unit() * (self.first - self.last);
            let x = inverse(u);
            let k = x.round().clamp(1.0, self.items as f64);
            if k - x <= self.near || u >= integral(k + 0.5) - k.powf(-THETA) {
                return k as u64 - 1;
            }
        }
    }
}

/// Of x^-0.99.
fn integral(x: f64) -> f64 {
    (x.powf(1.0 - THETA) - 1.0) / (1.0 - THETA)
}

fn inverse(y: f64) -> f64 {
    (1.0 + (1.0 - THETA) * y).powf(1.0 / (1.0 - THETA))
}

/// Permutes the numbers below `bound` without visible order: an entry's rank depends neither on its
/// age nor on its key.
pub fn scatter(n: u64, bound: u64) -> u64 {
    let bits = 64 - (bound - 1).max(1).leading_zeros();
    let mask = u64::MAX >> (64 - bits);
    let mut number = n;
    // Permutes the numbers of `bits` bits, repeatedly until the result is below the bound.
    loop {
        for factor in [0x9e37_79b9_7f4a_7c15u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            number = number.wrapping_mul(factor) & mask;
            number ^= number >> (bits / 2).max(1);
        }
        if number < bound {
            return number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_numbers_are_a_permutation() {
        for bound in [1, 2, 3, 10, 1000, 1 << 12] {
            let mut scattered: Vec<u64> = (0..bound).map(|n| scatter(n, bound)).collect();
            scattered.sort_unstable();
            assert_eq!(scattered, (0..bound).collect::<Vec<_>>(), "below {bound}");
        }
    }

    /// The share of the first ranks is what the formula says.
    #[test]
    fn ranks_are_zipfian() {
        let (zipfian, mut random) = (Zipfian::new(10_000), Random::new(1));
        let draws = 200_000;
        let mut counts = vec![0u32; 10_000];
        (0..draws).for_each(|_| counts[zipfian.rank(&mut random) as usize] += 1);
        let zeta: f64 = (1..=10_000).map(|i| f64::from(i).powf(-THETA)).sum();
        for (first, ranks) in [(0, 1), (1, 1), (2, 8), (10, 90), (100, 900)] {
            let share = f64::from(counts[first..first + ranks].iter().sum::<u32>()) / f64::from(draws);
            let expected: f64 = (first..first + ranks).map(|r| (r as f64 + 1.0).powf(-THETA) / zeta).sum();
            assert!((share / expected - 1.0).abs() < 0.05, "ranks {first}..+{ranks}: {share} instead of {expected}");
        }
    }

    #[test]
    fn sorted_entries_have_sorted_keys() {
        let data = Data { name: "test", prefix: "account:", value_bytes: 10, entries: 1000, sequential: false };
        let keys: Vec<_> = data.sorted().into_iter().map(|n| data.key(n.into())).collect();
        assert!(keys.is_sorted() && keys.len() == 1000 && keys[0].len() == data.key_bytes());
    }
}
