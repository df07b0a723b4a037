//! The checksum of everything on storage: XXH3-64, seeded with where the bytes belong.
//!
//! The seed binds bytes to their place: a block or record that a device returned from another file,
//! another offset or another database fails its check even though it is whole.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// The kind of file that bytes belong to; part of the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// A log segment.
    Wal = 1,
    /// A table.
    Table = 2,
    /// A manifest.
    Manifest = 3,
    /// The file `CURRENT`.
    Current = 4,
}

/// Which file of which database bytes belong to: what a checksum is seeded with, besides the
/// offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(u64);

impl Place {
    /// The place of all bytes of one file. `database` is the random id of the database (0 where it
    /// is not yet known: `CURRENT` and the header of a manifest), `number` the file's number.
    pub fn new(database: u64, kind: FileKind, number: u64) -> Self {
        let mut bytes = [0; 17];
        bytes[..8].copy_from_slice(&database.to_le_bytes());
        bytes[8] = kind as u8;
        bytes[9..].copy_from_slice(&number.to_le_bytes());
        Self(xxh3_64(&bytes))
    }

    /// The checksum of `bytes` that begin at `offset` of the file.
    pub fn checksum(self, offset: u64, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.seed(offset))
    }

    /// The checksums of ever more bytes that begin at `offset` of the file.
    pub fn running(self, offset: u64) -> Running {
        Running(Box::new(Xxh3::with_seed(self.seed(offset))))
    }

    /// A number that only this offset of this file has: what records begin with, so that they can
    /// be found again after damage.
    pub fn marker(self, offset: u64) -> u32 {
        // Never zero, so that space which was only reserved does not look like a record.
        ((self.seed(offset) >> 32) as u32) | 1
    }

    /// Mixes in the offset. Multiplication by an odd constant is a bijection, so two offsets never
    /// share a seed.
    fn seed(self, offset: u64) -> u64 {
        let mixed = (self.0 ^ offset).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    }
}

/// Checksums of bytes that become more and more: for whoever knows where something begins, and not
/// where it ends.
#[derive(Clone)]
pub struct Running(Box<Xxh3>);

impl Running {
    /// Adds bytes at the end.
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

    /// A running checksum is at each length what the bytes so far have at once.
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
