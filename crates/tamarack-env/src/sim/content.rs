//! The bytes of one file, so that a copy costs nothing until one of the two is changed.
//!
//! ```text
//! length 13,000     pages   [ • ][ – ][ • ]      a missing page reads as zeros, as do later ones
//!                             │         │
//!                           4 KiB     4 KiB      shared by all copies that have not written to it
//! ```
//!
//! A clone is two words. The first write after it copies the list of pages (8 bytes per 4 KiB of
//! file) and the one page that is written. Reserving gigabytes costs nothing. Every page remembers
//! its hash, so that the identity of a whole image is a walk over lists.
//!
//! Invariant: bytes at and past `length` are zero, so that growing a file shows zeros.
//! [`Content::put`] alone may break it, and [`Content::settle`] restores it: in between, a crash
//! image holds data whose change of length it has not met yet.

use std::sync::{Arc, OnceLock};

/// Bytes per page: the unit of copying, and the unit in which the simulated disk gives out space.
pub(super) const PAGE_BYTES: usize = 4096;

/// The longest file, in bytes: sixteen GiB, so that a wild offset is an error and not four million
/// list entries.
pub(super) const LENGTH_MAX: u64 = 1 << 34;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pages: Arc<Vec<Option<Arc<Page>>>>,
    length: u64,
}

#[derive(Clone, Debug)]
struct Page {
    bytes: [u8; PAGE_BYTES],
    /// Of `bytes`, once someone asked; emptied by every change.
    hash: OnceLock<u64>,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// Copies what there is at `offset`; the number of bytes is short only at the end of the file.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let count = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        for (page, within, range) in pieces(offset, count) {
            let to = &mut buffer[range.clone()];
            match self.pages.get(page) {
                Some(Some(page)) => to.copy_from_slice(&page.bytes[within..within + range.len()]),
                _ => to.fill(0),
            }
        }
        count
    }

    /// Writes and grows the length if needed.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.put(bytes, offset);
        self.extend(offset + bytes.len() as u64);
    }

    /// Writes without touching the length; see the invariant above.
    pub(super) fn put(&mut self, bytes: &[u8], offset: u64) {
        let pages = Arc::make_mut(&mut self.pages);
        for (page, within, range) in pieces(offset, bytes.len()) {
            if pages.len() <= page {
                pages.resize(page + 1, None);
            }
            let page = pages[page].get_or_insert_with(Page::zeros);
            Page::bytes_mut(page)[within..within + range.len()].copy_from_slice(&bytes[range]);
        }
    }

    /// Makes the length at least `length`.
    pub(super) fn extend(&mut self, length: u64) {
        self.length = self.length.max(length);
    }

    /// Cuts, or grows with zeros.
    pub(super) fn set_len(&mut self, length: u64) {
        if length < self.length {
            self.zero_from(length);
        }
        self.length = length;
    }

    /// Forgets what was put past the length.
    pub(super) fn settle(&mut self) {
        self.zero_from(self.length);
    }

    /// Space taken on the disk, in bytes: everything below the last page that was ever written.
    pub(super) fn space_bytes(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }

    /// All bytes.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length as usize];
        self.read(&mut bytes, 0);
        bytes
    }

    /// A hash of length and bytes; pages not there and pages of zeros are the same.
    pub(super) fn hash(&self) -> u64 {
        let mut hash = mix(0, self.length);
        for (index, page) in self.pages.iter().enumerate() {
            let Some(page) = page else { continue };
            let page_hash = *page.hash.get_or_init(|| hash_bytes(&page.bytes));
            if page_hash != zero_page_hash() {
                hash = mix(mix(hash, index as u64), page_hash);
            }
        }
        hash
    }

    fn zero_from(&mut self, from: u64) {
        let keep = from.div_ceil(PAGE_BYTES as u64) as usize;
        let within = from as usize % PAGE_BYTES;
        if self.pages.len() < keep || (self.pages.len() == keep && within == 0) {
            return;
        }
        let pages = Arc::make_mut(&mut self.pages);
        pages.truncate(keep);
        if within > 0
            && let Some(Some(page)) = pages.last_mut()
            && page.bytes[within..].iter().any(|byte| *byte != 0)
        {
            Page::bytes_mut(page)[within..].fill(0);
        }
    }
}

impl Page {
    fn zeros() -> Arc<Self> {
        Arc::new(Self { bytes: [0; PAGE_BYTES], hash: OnceLock::new() })
    }

    fn bytes_mut(page: &mut Arc<Self>) -> &mut [u8; PAGE_BYTES] {
        let page = Arc::make_mut(page);
        page.hash = OnceLock::new();
        &mut page.bytes
    }
}

/// Folds `value` into `hash`; every bit of both reaches every bit of the result.
pub(super) fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ 0x9E37_79B9_7F4A_7C15) * u128::from(value ^ 0xD6E8_FEB8_6659_FD93);
    (product as u64) ^ ((product >> 64) as u64).rotate_left(23) ^ value
}

/// A hash of any bytes.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, byte| mix(hash, u64::from(*byte)))
}

fn zero_page_hash() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| hash_bytes(&[0; PAGE_BYTES]))
}

/// Splits a range of a file at page borders: (page, offset within it, which of the caller's bytes).
fn pieces(offset: u64, count: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == count {
            return None;
        }
        let at = offset as usize + done;
        let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let range = done..count.min(done + PAGE_BYTES - within);
        done = range.end;
        Some((page, within, range))
    })
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    //! Random histories beside the obvious twin, a `Vec<u8>`; and that a copy is not touched by its
    //! original.

    use super::*;
    use crate::random::Random;

    #[test]
    fn behaves_like_a_vector_of_bytes() {
        for seed in 0..200 {
            let random = Random::new(seed);
            let (mut content, mut twin) = (Content::default(), Vec::new());
            for _ in 0..40 {
                let (before, before_twin) = (content.clone(), twin.clone());
                let offset = random.below(20_000);
                if random.eighths(6) {
                    let bytes: Vec<u8> = (0..random.below(9_000)).map(|_| random.below(3) as u8).collect();
                    content.write(&bytes, offset);
                    let end = offset as usize + bytes.len();
                    twin.resize(twin.len().max(end), 0);
                    twin[offset as usize..end].copy_from_slice(&bytes);
                } else {
                    content.set_len(offset);
                    twin.resize(offset as usize, 0);
                }
                assert_eq!(content.to_vec(), twin, "seed {seed}");
                assert_eq!(before.to_vec(), before_twin, "seed {seed}: a copy changed with its original");
                assert_eq!(before.hash() == content.hash(), before_twin == twin, "seed {seed}");
            }
        }
    }

    #[test]
    fn an_absent_page_and_a_page_of_zeros_are_the_same_content() {
        let (mut absent, mut zeros) = (Content::default(), Content::default());
        absent.set_len(10_000);
        zeros.write(&[0; 10_000], 0);
        assert_eq!(absent.hash(), zeros.hash());
    }
}
