//! [`Slice`]: the part [from, to) of a table that belongs to a run. See [`super::run`].

use std::sync::Arc;

use super::broken::Broken;
use super::table_file::TableFile;
use crate::entry::Sequence;
use crate::format::edit::{Key, KeyRange, SliceSpec};
use crate::merge::SeekTarget;

/// A part of a table that belongs to a run.
#[derive(Clone, Debug)]
pub struct Slice {
    table: Arc<TableFile>,
    from: Option<Key>,
    to: Option<Key>,
}

/// The size of a run, or of several; an estimate where slices are cut.
#[derive(Clone, Copy, Default, Debug)]
pub struct RunVolume {
    /// Raw bytes of its entries.
    pub raw_bytes: u64,
    /// The number of its entries.
    pub entries: u64,
    /// Its bytes in files, without filters and digests.
    pub data_bytes: u64,
}

impl std::iter::Sum for RunVolume {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            raw_bytes: sum.raw_bytes + part.raw_bytes,
            entries: sum.entries + part.entries,
            data_bytes: sum.data_bytes + part.data_bytes,
        })
    }
}

impl Slice {
    /// Creates the slice of `table` that `spec` describes.
    pub(super) fn new(table: Arc<TableFile>, spec: &SliceSpec) -> Result<Self, Broken> {
        let meta = table.meta();
        let (from, to) = (spec.range.from.clone(), spec.range.to.clone());
        let (from, to) = (from.filter(|from| **from > *meta.smallest_key), to.filter(|to| **to <= *meta.largest_key));
        let slice = Self { from, to, table: table.clone() };
        let starts_inside = *slice.first_key() <= *meta.largest_key;
        let ends_after_start = slice.to.as_deref().is_none_or(|to| slice.first_key() < to);
        if !(starts_inside && ends_after_start) {
            return Err(Broken(format!("slice {spec:?} has no key of its table {meta:?}")));
        }
        Ok(slice)
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<TableFile> {
        &self.table
    }

    /// Returns the lower bound (inclusive), if the table has keys below it.
    pub fn from(&self) -> Option<&Key> {
        self.from.as_ref()
    }

    /// Returns the upper bound (exclusive), if the table has keys at or above it.
    pub fn to(&self) -> Option<&Key> {
        self.to.as_ref()
    }

    /// Returns true if the slice has all keys of its table.
    pub fn is_whole(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Returns the smallest key that the slice may hold.
    pub fn first_key(&self) -> &[u8] {
        self.from.as_deref().unwrap_or(&self.table.meta().smallest_key)
    }

    /// Returns the end of the slice: its upper bound (exclusive), or else its table's largest key
    /// (inclusive).
    pub fn end_bound(&self) -> &[u8] {
        self.to.as_deref().unwrap_or(&self.table.meta().largest_key)
    }

    /// Returns the slice's share of `whole`, a quantity of its table: all if nothing is cut off, a
    /// half if one end is, a third if both are. An estimate, since the position of a cut among the
    /// entries is unknown without reading the table.
    pub fn share_of(&self, whole: u64) -> u64 {
        whole / (1 + u64::from(self.from.is_some()) + u64::from(self.to.is_some()))
    }

    /// Returns the raw bytes of its entries; an estimate if the slice is cut.
    pub fn raw_bytes(&self) -> u64 {
        self.share_of(self.table.meta().raw_bytes)
    }

    /// Returns the number of its entries; an estimate if the slice is cut.
    pub fn entries(&self) -> u64 {
        self.share_of(self.table.meta().entries)
    }

    /// Returns the size of the slice; an estimate if it is cut.
    pub(super) fn volume(&self) -> RunVolume {
        let meta = self.table.meta();
        let besides_bytes = meta.digest_bytes.saturating_add(meta.filter_bits / 8);
        RunVolume {
            raw_bytes: self.raw_bytes(),
            entries: self.entries(),
            data_bytes: self.share_of(meta.file_bytes.saturating_sub(besides_bytes)),
        }
    }

    /// Returns true if all keys that the slice may hold are smaller than `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match &self.to {
            Some(to) => **to <= *key,
            None => *self.table.meta().largest_key < *key,
        }
    }

    /// Returns true if the sequences of all entries are below `floor`.
    pub fn is_below(&self, floor: Sequence) -> bool {
        self.table.meta().largest_sequence < floor
    }

    /// Returns true if all keys that the slice may hold are smaller than all of `other`.
    pub fn is_before(&self, other: &Self) -> bool {
        self.ends_before(other.first_key())
    }

    /// Returns true if the slice may hold `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.first_key() <= key && !self.ends_before(key)
    }

    /// Returns true if all keys that the slice may hold are in `range`.
    pub fn is_within(&self, range: &KeyRange) -> bool {
        range.from.as_deref().is_none_or(|from| from <= self.first_key())
            && range.to.as_deref().is_none_or(|to| self.ends_before(to))
    }

    /// Returns the slice as edits describe it.
    pub fn spec(&self) -> SliceSpec {
        SliceSpec { table: self.table.id(), range: KeyRange { from: self.from.clone(), to: self.to.clone() } }
    }

    /// Returns the slice without `range`: the part below it and the part above, if any.
    pub(super) fn without(&self, range: &KeyRange) -> [Option<Self>; 2] {
        let below = range.from.as_ref().filter(|from| self.first_key() < &***from);
        let below = below.map(|from| {
            let to = if self.ends_before(from) { self.to.clone() } else { Some(from.clone()) };
            Self { to, ..self.clone() }
        });
        let above = range.to.as_ref().filter(|to| !self.ends_before(to));
        let above = above.map(|to| {
            let from = if **to <= *self.first_key() { self.from.clone() } else { Some(to.clone()) };
            Self { from, ..self.clone() }
        });
        [below, above]
    }

    /// Returns the place of its first entry in its table.
    fn first_place(&self) -> SeekTarget<'_> {
        self.from.as_deref().map_or(SeekTarget::First, |from| SeekTarget::From(from, Sequence::MAX))
    }

    /// Returns the place of its last entry in its table.
    fn last_place(&self) -> SeekTarget<'_> {
        self.to.as_deref().map_or(SeekTarget::Last, |to| SeekTarget::Before(to, Sequence::MAX))
    }

    /// Returns the place in its table at which iteration enters it: its first entry forward, its
    /// last backward.
    pub(super) fn end_place(&self, is_forward: bool) -> SeekTarget<'_> {
        if is_forward { self.first_place() } else { self.last_place() }
    }

    /// Returns true if all of the slice is behind one of its cuts, seen from a place that leads to
    /// it.
    pub(super) fn begins_behind_cut(&self, place: SeekTarget<'_>) -> bool {
        match place {
            SeekTarget::First => self.from.is_some(),
            SeekTarget::Last => self.to.is_some(),
            SeekTarget::From(key, _) => self.from.as_deref().is_some_and(|from| key < from),
            SeekTarget::Before(key, _) => self.to.as_deref().is_some_and(|to| to < key),
        }
    }

    /// Returns true if a place in the run that leads to this slice is between its bounds.
    pub(super) fn has_inside(&self, place: SeekTarget<'_>) -> bool {
        match place {
            SeekTarget::First | SeekTarget::Last => false,
            SeekTarget::From(key, _) => self.first_key() <= key,
            SeekTarget::Before(key, _) => !self.ends_before(key),
        }
    }

    /// Returns the place in its table for a place in the run that leads to this slice.
    pub(super) fn place_in_table<'a>(&'a self, place: SeekTarget<'a>) -> SeekTarget<'a> {
        match place {
            inside if self.has_inside(inside) => inside,
            SeekTarget::First | SeekTarget::From(..) => self.first_place(),
            SeekTarget::Last | SeekTarget::Before(..) => self.last_place(),
        }
    }
}
