//! The Bloom filter of a table: built with it, in memory while it is open, and probed before it.
//!
//! ```text
//! building   key ─► Digest ─► FilterBuilder … finish ─► filter block; kind, bits in the properties
//!                                            └────────► digest block, if wanted
//! opening    filter block ─► Filter             checked against its checksum, kind and bits
//! get        Query's digest ─► Filter ─► no: the table is not searched
//! rebuild    digest block ─► Filter of another size or kind, in the slot of the first
//! ```
//!
//! The caller chooses kind and bits per entry, since these depend on the run that the table is for.
//! A builder computes the digest of every key, once per key and not per version, and keeps it until
//! the end (8 bytes each): the size of the filter depends on their number.
//!
//! Cost: for each key, building takes a digest and a few stores, then one for each probe of the
//! filter; an open table takes its filter's bits in memory. Tests: `tests/suite/filters.rs`, and
//! for damage `table/tests/damage.rs`.

use tamarack_filter::{Builder, Digest, DigestSet, Filter, FilterKind, Size, kind_to_number};

use tamarack_model::filter::{FilterSettings, LINE_BITS};
use tamarack_model::filter_plan::FilterTarget;

use crate::format::checksum::Place;
use crate::format::meta::TableMeta;
use crate::format::stored::PAYLOAD_BYTES_MAX;
use crate::format::table::{Properties, digests_seed};

/// The outcome of giving a table another filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterOutcome {
    /// No change: the filter is the wanted one.
    Unchanged,
    /// The stored filter, or units of it, was read.
    Loaded,
    /// The filter was rebuilt from the digests.
    Rebuilt,
    /// The filter, or some of its units, was dropped.
    Dropped,
}

/// The origin of a table's filter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum FilterOrigin {
    Nowhere,
    Stored,
    Units(u64),
    Digests(FilterSettings),
}

impl FilterOrigin {
    /// The origin of the filter that `target` wants for a table; `may_use_digests` is false if they
    /// are damaged.
    pub(super) fn of(target: FilterTarget, meta: &TableMeta, may_use_digests: bool) -> Self {
        let stored = if meta.filter_kind == 0 { Self::Nowhere } else { Self::Stored };
        match target {
            FilterTarget::Stored => stored,
            FilterTarget::Nothing => Self::Nowhere,
            FilterTarget::Units(bits) if meta.filter_kind == kind_to_number(FilterKind::Elastic) => Self::Units(bits),
            FilterTarget::Units(_) => stored,
            FilterTarget::Of(wanted) => {
                let bits = bits_of(wanted, meta.entries);
                let is_stored = kind_to_number(wanted.kind) == meta.filter_kind && bits == meta.filter_bits;
                match () {
                    () if bits == 0 => Self::Nowhere,
                    () if is_stored => Self::Stored,
                    () if may_use_digests && meta.digest_bytes > 0 => Self::Digests(wanted),
                    () if meta.filter_bits <= bits => stored,
                    () => Self::Nowhere,
                }
            }
        }
    }
}

/// The bits of a filter over `entries` entries: whole lines, and at most what fits a block.
pub(crate) fn bits_of(wanted: FilterSettings, entries: u64) -> u64 {
    let bits = (entries as f64 * wanted.bits_per_entry).min(BITS_MAX as f64);
    if bits == 0.0 { 0 } else { (bits / LINE_BITS as f64).round().max(1.0) as u64 * LINE_BITS }
}

/// The upper bound on the bits of a filter: what fits a block, beside the filter's own few bytes.
const BITS_MAX: u64 = (PAYLOAD_BYTES_MAX as u64 - 64) * 8;

/// The upper bound on stored digests: each takes less than four bytes of the block.
const DIGESTS_MAX: usize = (PAYLOAD_BYTES_MAX - 64) / 4;

/// Collects the digests for a table's filter.
#[derive(Debug)]
pub(super) struct FilterBuilder {
    settings: Option<FilterSettings>,
    keeps_digests: bool,
    digests: Builder,
}

impl FilterBuilder {
    /// Makes a builder for a table with or without a filter, and with or without stored digests.
    pub(super) fn new(settings: Option<FilterSettings>, keeps_digests: bool) -> Self {
        Self { settings, keeps_digests, digests: Builder::new() }
    }

    /// Adds a key that differs from the previous one.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8]) {
        if self.settings.is_some() || self.keeps_digests {
            self.digests.add(Digest::of(key));
        }
    }

    /// Its memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.digests.memory_bytes()
    }

    /// Builds the filter, if there is one, and records it in `properties`.
    pub(super) fn finish(&self, properties: &mut Properties) -> Option<Filter> {
        let FilterSettings { kind, bits_per_entry } = self.settings?;
        let bits = (self.digests.digests().len() as f64 * bits_per_entry) as u64;
        let size = if bits > BITS_MAX { Size::Total(BITS_MAX) } else { Size::PerEntry(bits_per_entry) };
        let filter = self.digests.finish(kind, size)?;
        properties.filter_kind = kind_to_number(kind);
        properties.filter_bits = filter.bits();
        Some(filter)
    }

    /// Encodes the payload of the digest block, if there is one, and drops the digests.
    pub(super) fn take_digests(&mut self, place: Place) -> Option<Vec<u8>> {
        let digests = std::mem::take(&mut self.digests).into_digests();
        let fit = self.keeps_digests && digests.len() <= DIGESTS_MAX;
        fit.then(|| DigestSet::new(digests).encode(digests_seed(place)))
    }
}

/// Rebuilds the filter of that kind and size from the digests of a table.
pub(super) fn rebuild(wanted: FilterSettings, entries: u64, digests: &DigestSet) -> Option<Filter> {
    Filter::rebuild(wanted.kind, Size::Total(bits_of(wanted, entries)), digests)
}

/// Decodes a digest block.
pub fn decode_digests(payload: &[u8], place: Place) -> Result<DigestSet, String> {
    DigestSet::decode(payload, digests_seed(place)).map_err(|error| format!("the digests cannot be used: {error}"))
}

/// Decodes a filter block, which must be the filter that `meta` names.
pub fn decode(payload: &[u8], meta: &TableMeta) -> Result<Filter, String> {
    let filter = Filter::decode(payload).map_err(cannot_be_used)?;
    check(&filter, filter.bits(), meta)?;
    Ok(filter)
}

/// Decodes the next unit of an elastic filter after those in `before`. All `stored` units together
/// must be the filter that `meta` names.
pub fn decode_next_unit(
    before: Option<&Filter>,
    payload: &[u8],
    stored: usize,
    meta: &TableMeta,
) -> Result<Filter, String> {
    let filter = match before {
        None => Filter::decode(payload),
        Some(before) => before.with_next_unit(payload),
    };
    let filter = filter.map_err(cannot_be_used)?;
    let units = filter.units();
    check(&filter, filter.bits() / units as u64 * stored as u64, meta)?;
    if units != before.map_or(0, Filter::units) + 1 {
        return Err(format!("a unit of the filter was to be read, but all {units} are loaded"));
    }
    Ok(filter)
}

fn cannot_be_used(error: tamarack_filter::DecodeError) -> String {
    format!("the filter cannot be used: {error}")
}

fn check(filter: &Filter, bits: u64, meta: &TableMeta) -> Result<(), String> {
    let kind = kind_to_number(filter.kind());
    if (kind, bits) != (meta.filter_kind, meta.filter_bits) {
        return Err(format!(
            "the filter is of kind {kind} and has {bits} bits, but kind {} with {} bits was recorded",
            meta.filter_kind, meta.filter_bits
        ));
    }
    Ok(())
}
