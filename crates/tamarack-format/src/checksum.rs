//! The checksum of all data on storage: XXH3-64, seeded with the file and the offset of the bytes.
//!
//! The seed binds bytes to their place: a block or record that a device returned from another file,
//! another offset or another database fails its check even though it is whole.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// The kind of a file; part of the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// A WAL segment.
    Wal = 1,
    /// A table.
    Table = 2,
    /// A manifest.
    Manifest = 3,
    /// The file `CURRENT`.
    Current = 4,
    /// The file `CALIBRATION`.
    Calibration = 5,
}

/// The identity of a file and its database: the seed of its checksums, together with the offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// Makes the place of one file. `database` is the random id of the database (0 where it is not
    /// yet known: `CURRENT` and the header of a manifest; or of no matter: `CALIBRATION`), `number`
    /// the file's number.
    pub fn new(database: u64, kind: FileKind, number: u64) -> Self {
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&database.to_le_bytes());
        bytes[8] = kind as u8;
        bytes[9..].copy_from_slice(&number.to_le_bytes());
        Self(xxh3_64(&bytes))
    }

    /// The checksum of `bytes` at `offset` of the file.
    pub fn checksum(self, offset: u64, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed(offset))
    }

    /// A running checksum of bytes from `offset` of the file on.
    pub fn running(self, offset: u64) -> Running {
        Running(Box::new(Xxh3::with_seed(self.seed(offset))))
    }

    /// A number that is specific to this offset of this file: records begin with it, so that they
    /// can be found again after damage.
    pub fn marker(self, offset: u64) -> u32 {
        // Never zero, so that preallocated space does not look like a record.
        ((self.seed(offset) >> 32) as u32) | 1
    }

    /// Mixes in the offset. Multiplication by an odd constant is a bijection, so two offsets never
    /// share a seed.
    fn seed(self, offset: u64) -> u64 {
        let mixed = (self.0 ^ offset).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    }
}

/// A running checksum: for bytes whose beginning is known, and whose end is not.
#[derive(Clone)]
pub struct Running(Box<Xxh3>);

impl Running {
    /// Appends bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far, as [`Place::checksum`] computes it.
    pub fn checksum(&self) -> u64 {
        self.0.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A running checksum equals, at each length, the checksum of the bytes so far.
    #[test]
    fn running_checksums_are_those_of_all_bytes_so_far() {
        let bytes: Vec<u8> = (0..2000_u32).map(|number| (number * 7 % 251) as u8).collect();
        let place = Place::new(5, FileKind::Table, 7);
        let mut running = place.running(300);
        for end in 0..bytes.len() {
            assert_eq!(running.checksum(), place.checksum(300, &bytes[..end]), "{end} bytes");
            running.add(&bytes[end..=end]);
        }
    }
}
