//! An arithmetic coder of the LIDs of a bucket: the entropy coder without tables of combinations
//! (Chucky, §6, "Entropy coding").
//!
//! LIDs are coded in ascending order, with exact probabilities: the smallest one of those that are
//! left, then how often it occurs.
//!
//! ```text
//! Q_b: the probability of LIDs from b on
//! P(smallest ≥ b | n slots, all ≥ a) = (Q_b / Q_a)^n
//! P(b occurs c times | smallest is b, n slots) = C(n, c) q_b^c Q_(b+1)^(n-c) / (Q_b^n - Q_(b+1)^n)
//! ```
//!
//! The product over a bucket is the probability of its combination (Eq. 12). The coder is that of
//! Witten, Neal and Cleary: an interval of 62-bit numbers that is doubled whenever its first bit is
//! known. Each bucket ends with the fewest bits that name a part of the interval, whatever follows
//! them, which takes up to two bits more than the combination has information.

use tamarack_filter::chucky::SLOTS_MAX;

use crate::tree::Distribution;

/// Symbols of a model have frequencies out of so many. Rarer ones than 2^-44 get one all the same,
/// and fewer bits than they have information.
const SCALE_BITS: u32 = 44;
const SCALE: u64 = 1 << SCALE_BITS;

const STATE_BITS: u32 = 62;
const HALF: u64 = 1 << (STATE_BITS - 1);
const QUARTER: u64 = HALF / 2;

/// The model of the LIDs.
pub struct Coder {
    /// `q` of each LID.
    own: Vec<f64>,
    /// By number of slots: `Q^n` of each LID, and 0 after the last.
    from: Vec<Vec<f64>>,
}

impl Coder {
    pub fn new(distribution: &Distribution) -> Self {
        let own = distribution.probabilities();
        let mut sums = vec![0.0; own.len() + 1];
        for lid in (0..own.len()).rev() {
            sums[lid] = sums[lid + 1] + own[lid];
        }
        let power = |n: usize| sums.iter().map(|sum| sum.powi(n as i32)).collect();
        Self { own, from: (0..=SLOTS_MAX).map(power).collect() }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.own) + self.from.iter().map(|powers| size_of_val(&**powers)).sum::<usize>()
    }

    /// The frequencies of smallest LIDs below `lid`, with `n` slots of LIDs from `least` on. Each
    /// LID has at least one.
    fn below(&self, n: usize, least: usize, lid: usize) -> u64 {
        let share = 1.0 - self.from[n][lid] / self.from[n][least];
        (share * (SCALE - self.own.len() as u64) as f64) as u64 + (lid - least) as u64
    }

    /// The frequencies of up to 0, 1, … `n` occurrences of LID `lid`, the smallest of `n` slots.
    fn occurrences(&self, n: usize, lid: usize) -> [u64; SLOTS_MAX + 1] {
        let mut up_to = [0; SLOTS_MAX + 1];
        if lid + 1 == self.own.len() {
            // No LID is left for the others: all occurrences at once.
            up_to[n] = SCALE;
            return up_to;
        }
        let all = self.from[n][lid] - self.from[n][lid + 1];
        let (mut binomial, mut power, mut sum) = (1.0, 1.0, 0.0);
        for (count, up_to) in up_to.iter_mut().enumerate().take(n + 1).skip(1) {
            binomial *= (n + 1 - count) as f64 / count as f64;
            power *= self.own[lid];
            sum += binomial * power * self.from[n - count][lid + 1];
            *up_to = ((sum / all).min(1.0) * (SCALE - SLOTS_MAX as u64) as f64) as u64 + count as u64;
        }
        up_to[n] = SCALE;
        up_to
    }

    /// Codes LIDs in ascending order.
    pub fn encode(&self, lids: &[u16]) -> Bits {
        let (mut interval, mut least, mut left) = (Encoder::new(), 0, lids.len());
        for equal in lids.chunk_by(|a, b| a == b) {
            let (lid, count) = (usize::from(equal[0]), equal.len());
            let end = if lid + 1 == self.own.len() { SCALE } else { self.below(left, least, lid + 1) };
            interval.narrow(self.below(left, least, lid), end);
            let up_to = self.occurrences(left, lid);
            interval.narrow(up_to[count - 1], up_to[count]);
            (least, left) = (lid + 1, left - count);
        }
        interval.finish()
    }

    /// The LIDs, from the first bits; the others may be anything.
    pub fn decode(&self, bits: &Bits, lids: &mut [u16]) {
        let (mut decoder, mut least, mut next) = (Decoder::new(bits), 0, 0);
        while next < lids.len() {
            let left = lids.len() - next;
            let at = decoder.frequency();
            // The last LID whose frequencies begin at or before this one.
            let (mut lid, mut above) = (least, self.own.len());
            while above - lid > 1 {
                let middle = usize::midpoint(lid, above);
                if self.below(left, least, middle) <= at { lid = middle } else { above = middle }
            }
            let end = if lid + 1 == self.own.len() { SCALE } else { self.below(left, least, lid + 1) };
            decoder.narrow(self.below(left, least, lid), end);
            let up_to = self.occurrences(left, lid);
            let at = decoder.frequency();
            let count = (1..left).find(|&count| at < up_to[count]).unwrap_or(left);
            decoder.narrow(up_to[count - 1], up_to[count]);
            lids[next..next + count].fill(lid as u16);
            (least, next) = (lid + 1, next + count);
        }
    }
}

/// Bits of a code, the first one the highest. A bucket of 14 symbols has 448 at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: [u64; 8],
    pub count: u32,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        let (word, place) = ((self.count / 64) as usize, 63 - self.count % 64);
        self.words[word] |= u64::from(bit) << place;
        self.count += 1;
    }

    /// A bit, or 0 after the last.
    fn get(&self, number: u32) -> u64 {
        let (word, place) = ((number / 64) as usize, 63 - number % 64);
        self.words.get(word).map_or(0, |word| word >> place & 1)
    }

    /// The first 64 bits.
    pub fn first(&self) -> u64 {
        self.words[0]
    }
}

/// The numbers from `low` on, `width` of them, and bits that are known only with the next one.
struct Encoder {
    low: u64,
    width: u64,
    pending: u32,
    bits: Bits,
}

impl Encoder {
    fn new() -> Self {
        Self { low: 0, width: 2 * HALF, pending: 0, bits: Bits::default() }
    }

    fn push(&mut self, bit: bool) {
        self.bits.push(bit);
        for _ in 0..self.pending {
            self.bits.push(!bit);
        }
        self.pending = 0;
    }

    fn narrow(&mut self, from: u64, to: u64) {
        (self.low, self.width) = part(self.low, self.width, from, to);
        loop {
            let end = self.low + self.width;
            if end <= HALF {
                self.push(false);
            } else if self.low >= HALF {
                self.push(true);
                self.low -= HALF;
            } else if self.low >= QUARTER && end <= 3 * QUARTER {
                self.pending += 1;
                self.low -= QUARTER;
            } else {
                return;
            }
            (self.low, self.width) = (2 * self.low, 2 * self.width);
        }
    }

    /// The fewest bits all of whose continuations are in the interval.
    fn finish(mut self) -> Bits {
        let mut length = 0;
        let number = loop {
            let step = (2 * HALF) >> length;
            let number = self.low.div_ceil(step);
            if number * step + step <= self.low + self.width {
                break number;
            }
            length += 1;
        };
        // Without a bit of its own, the number cannot say what pending bits are.
        if length == 0 && self.pending > 0 {
            self.push(false);
        }
        for bit in (0..length).rev() {
            self.push(number >> bit & 1 == 1);
        }
        self.bits
    }
}

struct Decoder<'a> {
    low: u64,
    width: u64,
    value: u64,
    bits: &'a Bits,
    next: u32,
}

impl<'a> Decoder<'a> {
    fn new(bits: &'a Bits) -> Self {
        let value = bits.first() >> (64 - STATE_BITS);
        Self { low: 0, width: 2 * HALF, value, bits, next: STATE_BITS }
    }

    /// The frequency in which the value lies.
    fn frequency(&self) -> u64 {
        let offset = u128::from(self.value - self.low);
        ((((offset + 1) << SCALE_BITS) - 1) / u128::from(self.width)) as u64
    }

    fn narrow(&mut self, from: u64, to: u64) {
        (self.low, self.width) = part(self.low, self.width, from, to);
        loop {
            let end = self.low + self.width;
            let less = if end <= HALF {
                0
            } else if self.low >= HALF {
                HALF
            } else if self.low >= QUARTER && end <= 3 * QUARTER {
                QUARTER
            } else {
                return;
            };
            self.low = 2 * (self.low - less);
            self.width *= 2;
            self.value = 2 * (self.value - less) + self.bits.get(self.next);
            self.next += 1;
        }
    }
}

/// The part of an interval that belongs to frequencies.
fn part(low: u64, width: u64, from: u64, to: u64) -> (u64, u64) {
    let place = |frequency: u64| ((u128::from(width) * u128::from(frequency)) >> SCALE_BITS) as u64;
    (low + place(from), place(to) - place(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    /// Every bucket comes back, whatever follows its bits. Its length is the information of its
    /// combination, and up to two bits more.
    #[test]
    fn buckets_come_back() {
        let mut seed = 0;
        let mut random = |bound: usize| {
            seed += 1;
            (common::numbers::mix(seed) % bound as u64) as usize
        };
        for tree in [
            Tree::of_paper(10.0, 1, 1, 5),
            Tree::of_paper(5.0, 4, 1, 6),
            Tree::of_paper(10.0, 9, 9, 4),
            Tree::of_policy("qlsm-bush:T=2,X=2", 20_000),
            Tree::of_paper(2.0, 1, 1, 1),
        ] {
            for slots in 1..=SLOTS_MAX {
                let distribution = Distribution::of_slots(&tree, slots);
                let (coder, own) = (Coder::new(&distribution), distribution.probabilities());
                for round in 0..300 {
                    // Large runs more often, and in every fourth round all equally often.
                    let bound = if round % 4 == 0 { own.len() } else { own.len().min(1 + random(own.len())) };
                    let mut lids: Vec<u16> = (0..slots).map(|_| random(bound) as u16).collect();
                    lids.sort_unstable();
                    let mut bits = coder.encode(&lids);
                    let factorial = |n: usize| (1..=n).map(|k| (k as f64).log2()).sum::<f64>();
                    let equal = lids.chunk_by(|a, b| a == b).map(|equal| factorial(equal.len())).sum::<f64>();
                    let each: f64 = lids.iter().map(|&lid| -own[usize::from(lid)].log2()).sum();
                    let information = each + equal - factorial(slots);
                    let length = f64::from(bits.count);
                    assert!(
                        information.min(30.0) - 0.01 <= length && length <= information + 2.01,
                        "{lids:?}: {length} bits for {information}"
                    );
                    for _ in 0..3 {
                        let mut back = vec![0; slots];
                        coder.decode(&bits, &mut back);
                        assert_eq!(back, lids, "{tree:?}");
                        let count = bits.count;
                        for _ in 0..64.min(448 - count) {
                            bits.push(random(2) == 1);
                        }
                        bits.count = count;
                    }
                }
            }
        }
    }

    /// A bucket without information takes no bits.
    #[test]
    fn one_run_takes_no_bits() {
        let coder = Coder::new(&Distribution::of_entries(&Tree::of_paper(5.0, 1, 1, 1)));
        assert_eq!(coder.encode(&[0, 0, 0]).count, 0);
    }
}
