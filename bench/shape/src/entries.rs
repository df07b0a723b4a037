//! The entries written: unique random keys and incompressible values, all pure functions of a
//! number.

use common::numbers::{mix, noise};
use tamarack::{Db, Result};

/// Raw bytes of an entry: key, value, and what the engine adds.
pub const RAW_BYTES: u64 = (KEY_BYTES + VALUE_BYTES + 8) as u64;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 1000;

/// Makes entries from their numbers.
pub struct Entries {
    noise: Vec<u8>,
}

impl Entries {
    pub fn new() -> Self {
        Self { noise: noise() }
    }

    pub fn put(&self, db: &Db, number: u64) -> Result<()> {
        db.put(key(number), self.value(number))
    }

    /// Reads all entries; returns whether they are those of the numbers below `count`, each once
    /// and with its value.
    pub fn are_all_there(&self, db: &Db, count: u64) -> Result<bool> {
        let mut seen = vec![false; count as usize];
        for entry in db.scan(..) {
            let (found, value) = entry?;
            let number = number_in(&value);
            let is_new = number < count && !std::mem::replace(&mut seen[number as usize], true);
            if !is_new || found[..] != key(number) || value[..] != *self.value(number) {
                return Ok(false);
            }
        }
        Ok(seen.into_iter().all(|seen| seen))
    }

    pub fn value(&self, number: u64) -> Vec<u8> {
        let begin = mix(!number) as usize % (self.noise.len() - VALUE_BYTES);
        let mut value = self.noise[begin..begin + VALUE_BYTES].to_vec();
        value[..8].copy_from_slice(&number.to_be_bytes());
        value
    }
}

pub fn number_in(value: &[u8]) -> u64 {
    value.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes))
}

pub fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    key
}
