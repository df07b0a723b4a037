//! A uniform sample of the keys of an existing database, and their number.
//!
//! One scan over all entries, which also fills the block cache with the last ones. Memory: the
//! sampled keys.

use tamarack::{Db, Result};
use tamarack_env::Random;

/// Maximum size of the sample: enough keys to lie in very many blocks.
const KEYS_MAX: usize = 100_000;

/// What was found.
pub(crate) struct Sample {
    /// Some of the keys, in no order.
    pub(crate) keys: Vec<Box<[u8]>>,
    /// How many entries there are.
    pub(crate) entries: u64,
    /// Bytes of their keys and values.
    pub(crate) bytes: u64,
}

impl Sample {
    /// Scans the database. `progress` is called now and then with the number of entries seen.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn of(db: &Db, seed: u64, progress: &mut dyn FnMut(u64)) -> Result<Self> {
        let mut sample = Self { keys: Vec::new(), entries: 0, bytes: 0 };
        let random = Random::for_purpose(seed, 0);
        let mut scan = db.scan(..);
        while let Some((key, value)) = scan.next_lent()? {
            sample.entries += 1;
            sample.bytes += (key.len() + value.len()) as u64;
            sample.see(key, &random);
            if sample.entries.is_multiple_of(10_000) {
                progress(sample.entries);
            }
        }
        Ok(sample)
    }

    /// The n-th key takes the place of one that is kept, with a chance that leaves all n the same
    /// (Vitter, *Random sampling with a reservoir*, 1985, algorithm R).
    fn see(&mut self, key: &[u8], random: &Random) {
        if self.keys.len() < KEYS_MAX {
            return self.keys.push(key.into());
        }
        let place = random.below(self.entries);
        if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.keys.get_mut(place)) {
            *kept = key.into();
        }
    }
}

/// Keys from the whole of a long sequence are kept, as many from each part of it.
#[test]
fn all_keys_have_the_same_chance() {
    let random = Random::new(1);
    let mut sample = Sample { keys: Vec::new(), entries: 0, bytes: 0 };
    for number in 0..5 * KEYS_MAX as u64 {
        sample.entries += 1;
        sample.see(&number.to_be_bytes(), &random);
    }
    let mut parts = [0; 5];
    for key in &sample.keys {
        let number = u64::from_be_bytes(key[..].try_into().expect("eight bytes"));
        parts[(number / KEYS_MAX as u64) as usize] += 1;
    }
    assert_eq!(sample.keys.len(), KEYS_MAX);
    // A fifth is expected of each, and a thousand more or less are eight standard deviations.
    assert!(parts.iter().all(|count| (19_000..21_000).contains(count)), "{parts:?}");
}
