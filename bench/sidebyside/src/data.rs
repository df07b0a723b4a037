//! What is stored, and which of it is asked for.
//!
//! Entry n is a pure function of n. Its key's last 16 bytes are hexadecimal digits of a permutation
//! of n, so that keys come in random order when entries come in theirs; its value is a window into
//! noise. Entries from [`Data::entries`] on are not stored at first, but their keys lie between the
//! stored ones.

use common::numbers::{mix, unit};

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
    pub fn unit(&mut self) -> f64 {
        unit(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_entries_have_sorted_keys() {
        let data = Data { name: "test", prefix: "account:", value_bytes: 10, entries: 1000, sequential: false };
        let keys: Vec<_> = data.sorted().into_iter().map(|n| data.key(n.into())).collect();
        assert!(keys.is_sorted() && keys.len() == 1000 && keys[0].len() == data.key_bytes());
    }
}
