//! An immutable Bloom filter of any kind, built from digests.

use std::sync::Arc;

use tamarack_model::filter::{self, FilterKind, LINE_BITS};

use crate::digest::Digest;
use crate::lines::{LINE_BYTES, LINE_WORDS, Line};
use crate::set::DigestSet;
use crate::{blocked, bloom, elastic};

/// Requested size of a filter. Filters consist of whole cache lines of 512 bits: a size above 0 is
/// rounded to the nearest number of lines, at least one. A filter thus differs from its request by
/// at most 256 bits, and by at most 511 for very few keys. Each unit of an elastic filter has whole
/// lines, so that the filter may be smaller by almost a line per unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Bits per entry, not negative, possibly fractional.
    PerEntry(f64),
    /// Bits in total, for any number of entries.
    Total(u64),
}

impl Size {
    /// The number of lines for a number of entries.
    ///
    /// # Panics
    /// If the number of bits is negative or NaN, or needs more than 2³² - 1 lines.
    fn lines(self, entries: u64) -> usize {
        let bits = match self {
            Self::PerEntry(bits) => bits * entries as f64,
            Self::Total(bits) => bits as f64,
        };
        let most = f64::from(u32::MAX) * LINE_BITS as f64;
        assert!((0.0..=most).contains(&bits), "a filter of {self:?} for {entries} entries");
        if bits == 0.0 { 0 } else { (bits / LINE_BITS as f64).round().max(1.0) as usize }
    }
}

/// An immutable Bloom filter over digests. It has no false negatives.
#[derive(Clone, PartialEq, Eq)]
pub struct Filter {
    pub(crate) bits: Bits,
    /// From 1 to the maximum of the kind.
    pub(crate) probes: u32,
    pub(crate) entries: u64,
    /// Mask of the digest bits that it was built from: all bits, unless it was rebuilt from a
    /// [`DigestSet`].
    pub(crate) mask: u64,
}

/// The bits of a filter, by kind; never empty, and always whole lines.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Bits {
    /// A probe reads one word, which never lies across two lines of the machine.
    Bloom(Box<[u64]>),
    /// Aligned, so that a line of the filter is a cache line.
    Blocked(Box<[Line]>),
    /// The lines of each unit in memory; all units have the same size. Filters with more or fewer
    /// units share them.
    Elastic(Box<[Arc<[Line]>]>),
}

impl Filter {
    /// Builds a filter over these digests; `None` if its size is 0 bits. Duplicate digests are
    /// harmless but count as entries.
    ///
    /// # Panics
    /// If the size is invalid; see [`Size`].
    pub fn build(kind: FilterKind, size: Size, digests: &[Digest]) -> Option<Self> {
        let entries = digests.len() as u64;
        let lines = size.lines(entries);
        if lines == 0 {
            return None;
        }
        let (lines, units) = match kind {
            FilterKind::Elastic => elastic::split(lines, entries),
            FilterKind::Bloom | FilterKind::Blocked => (lines, 1),
        };
        let bits_per_entry = (lines as u64 * LINE_BITS) as f64 / entries.max(1) as f64;
        let of_piece = if kind == FilterKind::Elastic { FilterKind::Blocked } else { kind };
        let probes = filter::best_probes(of_piece, bits_per_entry);
        let bits = match kind {
            FilterKind::Bloom => {
                let mut words = vec![0; lines * LINE_WORDS].into_boxed_slice();
                digests.iter().for_each(|digest| bloom::insert(&mut words, probes, *digest));
                Bits::Bloom(words)
            }
            FilterKind::Blocked => {
                let mut lines = vec![Line::default(); lines].into_boxed_slice();
                digests.iter().for_each(|digest| blocked::insert(&mut lines, probes, *digest));
                Bits::Blocked(lines)
            }
            FilterKind::Elastic => Bits::Elastic(elastic::build(units, lines, probes, digests)),
        };
        Some(Self { bits, probes, entries, mask: u64::MAX })
    }

    /// Builds a filter from the digests that a table stores. Such a filter lives in memory only and
    /// cannot be encoded: the set is what is stored.
    ///
    /// # Panics
    /// If the size is not one; see [`Size`].
    pub fn rebuild(kind: FilterKind, size: Size, set: &DigestSet) -> Option<Self> {
        Some(Self { mask: DigestSet::MASK, ..Self::build(kind, size, set.digests())? })
    }

    /// False if no key with this digest is in the set. True if one is, or, with the probability
    /// [`fpr`](Self::fpr), as a false positive.
    #[inline]
    pub fn may_contain(&self, digest: Digest) -> bool {
        let digest = digest.masked(self.mask);
        match &self.bits {
            Bits::Bloom(words) => bloom::may_contain(words, self.probes, digest),
            Bits::Blocked(lines) => blocked::may_contain(lines, self.probes, digest),
            Bits::Elastic(units) => elastic::may_contain(units, self.probes, digest),
        }
    }

    /// The memory that [`may_contain`](Self::may_contain) reads first for this digest, so that a
    /// caller can ask for it before.
    #[inline]
    pub fn first_read(&self, digest: Digest) -> *const u64 {
        let digest = digest.masked(self.mask);
        match &self.bits {
            Bits::Bloom(words) => bloom::first_read(words, digest),
            Bits::Blocked(lines) => blocked::line(lines, digest).0.as_ptr(),
            Bits::Elastic(units) => blocked::line(&units[0], digest).0.as_ptr(),
        }
    }

    /// Number of distinct cache lines that [`may_contain`](Self::may_contain) reads for this
    /// digest. For measurements and tests; slower than the lookup itself.
    pub fn lines_touched(&self, digest: Digest) -> u32 {
        let digest = digest.masked(self.mask);
        match &self.bits {
            Bits::Bloom(words) => bloom::lines_touched(words, self.probes, digest),
            Bits::Blocked(_) => 1,
            Bits::Elastic(units) => elastic::lines_touched(units, self.probes, digest),
        }
    }

    /// The kind of the filter.
    pub fn kind(&self) -> FilterKind {
        match &self.bits {
            Bits::Bloom(_) => FilterKind::Bloom,
            Bits::Blocked(_) => FilterKind::Blocked,
            Bits::Elastic(_) => FilterKind::Elastic,
        }
    }

    /// Probes per lookup, at least 1; of an elastic filter, per unit.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// Number of digests that the filter was built from.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Size in bits, without the header.
    pub fn bits(&self) -> u64 {
        self.lines() as u64 * LINE_BITS
    }

    /// Size in cache lines.
    pub(crate) fn lines(&self) -> usize {
        match &self.bits {
            Bits::Bloom(words) => words.len() / LINE_WORDS,
            Bits::Blocked(lines) => lines.len(),
            Bits::Elastic(units) => units.len() * units[0].len(),
        }
    }

    /// Number of units: 1 unless the filter is elastic.
    pub fn units(&self) -> usize {
        match &self.bits {
            Bits::Bloom(_) | Bits::Blocked(_) => 1,
            Bits::Elastic(units) => units.len(),
        }
    }

    /// The filter of the first `units` units, which share their memory with this one; `None` for 0.
    ///
    /// # Panics
    /// If the filter has fewer units.
    pub fn with_units(&self, units: usize) -> Option<Self> {
        assert!(units <= self.units(), "{units} units of {self:?}");
        let Bits::Elastic(all) = &self.bits else { return (units > 0).then(|| self.clone()) };
        (units > 0).then(|| Self { bits: Bits::Elastic(all[..units].into()), ..*self })
    }

    /// Memory of the filter in bytes, this value included.
    pub fn memory_bytes(&self) -> usize {
        let beside = match &self.bits {
            Bits::Bloom(_) | Bits::Blocked(_) => 0,
            Bits::Elastic(units) => units.len() * elastic::UNIT_BYTES,
        };
        size_of::<Self>() + self.lines() * LINE_BYTES + beside
    }

    /// The false positive rate that the model predicts for this size.
    pub fn fpr(&self) -> f64 {
        let lines = self.lines() as u64;
        match &self.bits {
            Bits::Bloom(_) | Bits::Blocked(_) => filter::fpr_of(self.kind(), self.entries, lines, self.probes),
            Bits::Elastic(units) => {
                let units = units.len() as u64;
                filter::fpr_of(FilterKind::Blocked, self.entries, lines / units, self.probes).powi(units as i32)
            }
        }
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, lines, units, Self { probes, entries, .. }) = (self.kind(), self.lines(), self.units(), self);
        write!(f, "Filter {{ kind: {kind:?}, probes: {probes}, entries: {entries}, lines: {lines}, units: {units} }}")
    }
}
