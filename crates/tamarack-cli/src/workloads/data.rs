//! Keys and values of the entries of a benchmark.
//!
//! ```text
//! number of an entry, by age ── scatter ──► place among all keys ── key ──► 16 hexadecimal digits
//!
//! keys       place 0 ···              place 1 ···              place 2
//!            ├─ stored ─┼─ added later ─┼─ never ─┤├─ stored …
//!            0          ¼               ½        ¾          of the way to the next
//! ```
//!
//! Generated keys are spread almost evenly over the 64-bit numbers. The entries of a load have
//! numbers below [`Data::entries`]; keys of entries that workloads insert, and keys that are never
//! stored, lie between them. The place of an entry is a pseudo-random permutation of its number, so
//! a load in the order of numbers comes in random order of keys, each once; a load in the order of
//! places comes in ascending order.
//!
//! For an existing database, the entries are those of a [sample](super::sample) of its keys;
//! inserted and missing keys are sampled keys with a suffix.
//!
//! Values are pieces of noise that compresses to about one half, as in `db_bench`.

use std::borrow::Cow;

use tamarack_env::Random;

use super::sample::Sample;

/// Digits of generated keys, and thus their least length.
pub(crate) const KEY_BYTES_MIN: usize = 16;

/// How long made keys may be.
pub(crate) const KEY_BYTES_MAX: usize = 128;

/// Maximum number of entries, so that there are unused keys between them.
pub(crate) const ENTRIES_MAX: u64 = 1 << 40;

/// Least length of the noise, longer than the window of a compressor.
const NOISE_BYTES_MIN: usize = 1 << 20;

/// Noise repeats once within this many bytes; shorter values repeat within themselves.
const PIECE_BYTES_MAX: usize = 100;

/// Where keys come from.
enum Keys {
    /// Generated keys: distance between places, and length.
    Made { stride: u64, key_bytes: usize },
    /// They were found.
    Found(Sample),
}

/// A key.
pub(crate) enum Key<'a> {
    /// It is here, in so many of these bytes.
    Made([u8; KEY_BYTES_MAX], usize),
    /// It is elsewhere.
    Found(Cow<'a, [u8]>),
}

impl std::ops::Deref for Key<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Made(bytes, length) => &bytes[..*length],
            Self::Found(bytes) => bytes,
        }
    }
}

/// Keys and values.
pub(crate) struct Data {
    /// Number of entries that a load stores, or of sampled keys.
    pub(crate) entries: u64,
    /// Size of the values that workloads write.
    pub(crate) value_bytes: usize,
    keys: Keys,
    /// Noise whose second half repeats the first; a value is a piece of it.
    noise: Vec<u8>,
    piece_bytes: usize,
}

impl Data {
    /// Generated entries, 1 to [`ENTRIES_MAX`], with keys and values of these sizes.
    pub(crate) fn new(entries: u64, key_bytes: usize, value_bytes: usize) -> Self {
        assert!((KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&key_bytes), "keys of {key_bytes} bytes");
        Self::with(entries, Keys::Made { stride: u64::MAX / entries, key_bytes }, value_bytes)
    }

    /// Entries with sampled keys, at least one; new values have the given size.
    pub(crate) fn found(sample: Sample, value_bytes: usize) -> Self {
        Self::with(sample.keys.len() as u64, Keys::Found(sample), value_bytes)
    }

    fn with(entries: u64, keys: Keys, value_bytes: usize) -> Self {
        assert!((1..=ENTRIES_MAX).contains(&entries), "{entries} entries");
        let random = Random::new(entries);
        let half = value_bytes.min(PIECE_BYTES_MAX).div_ceil(2).max(1);
        let mut noise = Vec::new();
        while noise.len() < NOISE_BYTES_MIN.max(2 * value_bytes) {
            noise.extend((0..half).map(|_| random.next() as u8));
            noise.extend_from_within(noise.len() - half..);
        }
        Self { entries, value_bytes, keys, noise, piece_bytes: 2 * half }
    }

    /// Size of key and value of an entry in bytes; for sampled keys, the mean.
    pub(crate) fn entry_bytes(&self) -> u64 {
        match &self.keys {
            Keys::Made { key_bytes, .. } => (key_bytes + self.value_bytes) as u64,
            Keys::Found(sample) => sample.bytes / sample.entries,
        }
    }

    /// How many values a byte of a key has, where keys differ: made ones are of hexadecimal digits;
    /// of those that were found nothing is known, and all values are taken.
    pub(crate) fn digits(&self) -> f64 {
        match &self.keys {
            Keys::Made { .. } => 16.0,
            Keys::Found(_) => 256.0,
        }
    }

    /// Number of entries at the start: those of a load, or of the existing database.
    pub(crate) fn all_entries(&self) -> u64 {
        match &self.keys {
            Keys::Made { .. } => self.entries,
            Keys::Found(sample) => sample.entries,
        }
    }

    /// The key of entry `number`.
    pub(crate) fn key(&self, number: u64) -> Key<'_> {
        let old = number % self.entries;
        match &self.keys {
            Keys::Made { .. } if number < self.entries => self.key_at(self.place(old)),
            Keys::Made { stride, key_bytes } => {
                digits(self.place(old) * stride + stride / 4 + mixed(number) % (stride / 8), *key_bytes)
            }
            Keys::Found(sample) if number < self.entries => Key::Found(Cow::Borrowed(&sample.keys[old as usize])),
            Keys::Found(sample) => after(&sample.keys[old as usize], 0, number),
        }
    }

    /// The key of the entry with this place in the key order of a load.
    ///
    /// # Panics
    /// If the keys are sampled: they have no order and are never loaded.
    pub(crate) fn key_at(&self, place: u64) -> Key<'_> {
        let Keys::Made { stride, key_bytes } = self.keys else { panic!("keys that were found are not loaded") };
        digits(place * stride + mixed(place) % (stride / 8), key_bytes)
    }

    /// A missing key between existing ones; hardly ever the same twice.
    pub(crate) fn missing_key(&self, random: &Random) -> Key<'_> {
        let near = random.below(self.entries);
        match &self.keys {
            Keys::Made { stride, key_bytes } => {
                digits(near * stride + stride / 2 + random.below(stride / 4), *key_bytes)
            }
            Keys::Found(sample) => after(&sample.keys[near as usize], 1, random.next()),
        }
    }

    /// Some value.
    pub(crate) fn value(&self, random: &Random) -> &[u8] {
        let starts = (self.noise.len() - self.value_bytes) / self.piece_bytes + 1;
        let start = random.below(starts as u64) as usize * self.piece_bytes;
        &self.noise[start..start + self.value_bytes]
    }

    /// The place of entry `number` in the key order of a load.
    fn place(&self, number: u64) -> u64 {
        scatter(number, self.entries)
    }
}

/// The digits of a number, so that keys are ordered as numbers are, and dots up to that length.
fn digits(number: u64, key_bytes: usize) -> Key<'static> {
    let mut bytes = [b'.'; KEY_BYTES_MAX];
    for (i, byte) in bytes[..KEY_BYTES_MIN].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(number >> (60 - 4 * i) & 15) as usize];
    }
    Key::Made(bytes, key_bytes)
}

/// The key right after another one: a suffix of nine bytes is appended.
fn after(key: &[u8], kind: u8, number: u64) -> Key<'static> {
    Key::Found(Cow::Owned([key, &[kind], &number.to_be_bytes()].concat()))
}

/// Other bits for each number.
fn mixed(number: u64) -> u64 {
    Random::new(number).next()
}

/// A pseudo-random permutation of the numbers below `bound`.
pub(crate) fn scatter(number: u64, bound: u64) -> u64 {
    let bits = (u64::BITS - (bound - 1).leading_zeros()).max(1);
    let mask = u64::MAX >> (u64::BITS - bits);
    let mut scattered = number;
    // Permutes the numbers of so many bits, so from a number below the bound it comes to one again.
    loop {
        for factor in [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            // Every step is invertible: additions, odd factors, shifts by half of the bits.
            scattered = scattered.wrapping_add(factor).wrapping_mul(factor) & mask;
            scattered ^= scattered >> bits.div_ceil(2);
        }
        if scattered < bound {
            return scattered;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Each number comes once.
    #[test]
    fn scattering_is_a_permutation() {
        for bound in [1, 2, 3, 10, 1000, 1 << 12] {
            let scattered: BTreeSet<u64> = (0..bound).map(|number| scatter(number, bound)).collect();
            assert!(scattered.into_iter().eq(0..bound), "below {bound}");
        }
    }

    /// Loads in either order store the same keys, ascending in one; those added later are others,
    /// and missing ones are none of them.
    #[test]
    fn keys_differ() {
        for entries in [1, 7, 1000] {
            let data = Data::new(entries, 20, 10);
            let ascending: Vec<_> = (0..entries).map(|place| data.key_at(place).to_vec()).collect();
            assert!(ascending.is_sorted_by(|a, b| a < b) && ascending.iter().all(|key| key.len() == 20));
            let mut keys: BTreeSet<_> = (0..entries).map(|number| data.key(number).to_vec()).collect();
            assert!(keys.iter().eq(&ascending));
            keys.extend((entries..4 * entries).map(|number| data.key(number).to_vec()));
            assert_eq!(keys.len() as u64, 4 * entries);
            let random = Random::new(entries);
            for _ in 0..1000 {
                let text = data.missing_key(&random);
                let number = u64::from_str_radix(str::from_utf8(&text[..16]).expect("digits"), 16).expect("digits");
                // Where no key is: chance alone would keep it from those that are there.
                let stride = u64::MAX / entries;
                let way = number % stride;
                assert!((stride / 2..stride / 4 * 3).contains(&way) && !keys.contains(&*text));
            }
        }
        let most = Data::new(ENTRIES_MAX, 16, 0);
        assert!(*most.key_at(0) < *most.key_at(1) && *most.key_at(ENTRIES_MAX - 2) < *most.key_at(ENTRIES_MAX - 1));
    }

    /// Of keys that were found, others are made that differ from them and from each other.
    #[test]
    fn keys_beside_those_that_were_found() {
        let found = [&b""[..], b"a", b"a\0", b"long and longer"];
        let keys = found.iter().map(|key| Box::from(*key)).collect();
        let data = Data::found(Sample { keys, entries: 40, bytes: 4000 }, 10);
        assert_eq!((data.entries, data.all_entries(), data.entry_bytes()), (4, 40, 100));
        let mut keys: BTreeSet<_> = (0..4).map(|number| data.key(number).to_vec()).collect();
        assert!(found.iter().all(|key| keys.contains(*key)));
        keys.extend((4..1000).map(|number| data.key(number).to_vec()));
        assert_eq!(keys.len(), 1000);
        let random = Random::new(1);
        assert!((0..1000).all(|_| !keys.contains(&*data.missing_key(&random))));
    }

    /// Values have their size, whatever that is, and the half of each says what the other half
    /// does.
    #[test]
    fn values_have_their_size() {
        for value_bytes in [0, 1, 20, 100, 1000, 3 << 20] {
            let data = Data::new(1, 16, value_bytes);
            let value = data.value(&Random::new(1));
            assert_eq!(value.len(), value_bytes);
            for piece in value.chunks_exact(data.piece_bytes) {
                assert_eq!(piece[..piece.len() / 2], piece[piece.len() / 2..]);
            }
        }
    }
}
