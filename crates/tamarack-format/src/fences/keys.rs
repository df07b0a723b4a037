//! [`FenceKeys`]: the keys of the fences of an index block, searched as [`Prefixes`] and kept
//! without what those have of them.
//!
//! ```text
//! key      user:0142   user:0180   user:0199!17b\0
//! common   user:01
//! prefix          42          80          99!17b      eight bytes, without zeros at the end
//! tail                                          \0    the rest: usually nothing
//! ```
//!
//! A prefix is padded with zeros, so it does not tell whether zeros at its end are bytes of the
//! key: they belong to the tail. Two keys with the same prefix compare as their tails do.
//!
//! The first key, which is never searched for, is kept as a whole.

use crate::prefixes::{Prefixes, partition_point};
use crate::stored::Flaw;

/// A list of ascending keys, at least one.
#[derive(Debug)]
pub(super) struct FenceKeys {
    /// Those of all keys but the first.
    prefixes: Prefixes,
    /// The first key, then the tails of the others.
    tails: Box<[u8]>,
    /// Where in `tails` the first key and each tail ends; empty if all tails are.
    ends: Box<[u32]>,
}

impl FenceKeys {
    /// Packs the keys that stand in `keys` one after the other, at least one; each begins where
    /// `bounds` says, and ends at the next of the bounds. They must ascend; neighbours may be
    /// equal.
    ///
    /// # Errors
    /// If the first key and all tails together have 4 GiB or more.
    pub(super) fn new(keys: &[u8], bounds: &[usize]) -> Result<Self, Flaw> {
        let (first, rest) = (&keys[..bounds[1]], bounds[1..].windows(2).map(|bounds| &keys[bounds[0]..bounds[1]]));
        let prefixes = Prefixes::new(rest.clone());
        let common_bytes = prefixes.common().len();
        let with_prefixes = || rest.clone().zip(prefixes.iter());
        let tail_bytes = |(key, prefix): (&[u8], u64)| key.len() - tail_start(common_bytes, prefix);
        let tails_bytes = first.len() + with_prefixes().map(tail_bytes).sum::<usize>();
        if u32::try_from(tails_bytes).is_err() {
            return Err(Flaw::Damaged("the keys of an index block are too long"));
        }
        let (mut tails, mut ends) = (Vec::with_capacity(tails_bytes), Vec::new());
        tails.extend_from_slice(first);
        if tails_bytes > first.len() {
            ends.reserve_exact(bounds.len() - 1);
            ends.push(tails.len() as u32);
            for (key, prefix) in with_prefixes() {
                tails.extend_from_slice(&key[tail_start(common_bytes, prefix)..]);
                ends.push(tails.len() as u32);
            }
        }
        Ok(Self { prefixes, tails: tails.into(), ends: ends.into() })
    }

    /// The number of keys.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.prefixes.len() + 1
    }

    /// The index of the last key that `is_at_or_before` accepts, or 0: the first key is always
    /// accepted, and never asked for. It must accept all keys smaller than `key` and none that is
    /// larger, and of those equal to it the first ones. It gets the index of a key, its tail, and
    /// what compares with the tail as `key` does with the whole.
    #[inline(always)] // A step of each search in an index.
    pub(super) fn floor(&self, key: &[u8], is_at_or_before: impl Fn(usize, &[u8], &[u8]) -> bool) -> usize {
        let may_equal = self.prefixes.around(key);
        if may_equal.is_empty() {
            return may_equal.start;
        }
        // `key` has the common part and their prefix, too.
        let common_bytes = self.prefixes.common().len();
        let sought = &key[tail_start(common_bytes, self.prefixes.get(may_equal.start))..];
        partition_point(may_equal, |at| is_at_or_before(at + 1, self.tail(at + 1), sought))
    }

    /// Asks for the memory with which [`FenceKeys::floor`] begins.
    #[inline]
    pub(super) fn prefetch(&self) {
        self.prefixes.prefetch();
    }

    /// Returns true if the key at `index` is `key`.
    pub(super) fn is(&self, index: usize, key: &[u8]) -> bool {
        let (common, prefix, prefix_bytes) = self.head(index);
        let rest = key.strip_prefix(common).and_then(|rest| rest.strip_prefix(&prefix[..prefix_bytes]));
        rest == Some(self.tail(index))
    }

    /// The key at `index`.
    pub(super) fn key(&self, index: usize) -> Vec<u8> {
        let (common, prefix, prefix_bytes) = self.head(index);
        [common, &prefix[..prefix_bytes], self.tail(index)].concat()
    }

    /// What is before the tail at `index`: the common part, then the prefix and its length.
    fn head(&self, index: usize) -> (&[u8], [u8; 8], usize) {
        match index {
            0 => (&[], [0; 8], 0),
            _ => {
                let common = self.prefixes.common();
                let prefix = self.prefixes.get(index - 1);
                (common, prefix.to_be_bytes(), tail_start(0, prefix))
            }
        }
    }

    /// What is left of the key at `index`; the first key as a whole.
    #[inline]
    fn tail(&self, index: usize) -> &[u8] {
        match (index, &*self.ends) {
            (0, []) => &self.tails,
            (0, ends) => &self.tails[..ends[0] as usize],
            (_, []) => &[],
            (_, ends) => &self.tails[ends[index - 1] as usize..ends[index] as usize],
        }
    }

    /// Its memory beside its own size, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.prefixes.memory_bytes() + self.tails.len() + size_of_val(&*self.ends)
    }
}

/// Where in a key its tail starts: behind the common part and the prefix, without zeros at the
/// prefix's end.
#[inline]
fn tail_start(common_bytes: usize, prefix: u64) -> usize {
    common_bytes + size_of::<u64>() - prefix.trailing_zeros() as usize / 8
}
