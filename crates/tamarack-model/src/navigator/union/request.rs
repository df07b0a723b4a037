//! [`Request`]: what the search is asked for, and within which limits.

use crate::device::Device;
use crate::filter::FilterChoice;
use crate::prediction::Prediction;
use crate::shape::BUFFER_MAX;
use crate::units::Bytes;
use crate::workload::Workload;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The number of entries, all live; at least 1.
    pub entries: u64,
    /// Raw bytes of each, at least 1: key, value, and 8 bytes.
    pub entry_bytes: u64,
    /// Bytes of a data block, at least 1. [`Limits::block_bytes_max`] allows larger ones.
    pub block_bytes: u64,
    /// Memory for memtables, filters, indexes and cache.
    pub memory: Bytes,
    /// The operations.
    pub workload: Workload,
    /// The share of updates that put new keys, from 0 to 1.
    pub inserts: f64,
    /// The exponent of Zipf's law by which existing keys are looked up and put again; 0 if each is
    /// as likely.
    pub theta: f64,
    /// The machine.
    pub device: Device,
    /// Upper bounds on single costs.
    pub bounds: Bounds,
    /// What is given, and what is allowed.
    pub limits: Limits,
}

/// What a search may choose. The [default](Limits::default) is everything but larger blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The memtable size, if it is given.
    pub buffer: Option<Bytes>,
    /// The largest memtable.
    pub buffer_max: Bytes,
    /// The most memtables that the data may be divided into: larger trees take long to simulate.
    pub memtables_max: u64,
    /// The largest size ratio. Compactions of a level of a tree in use rewrite so many memtables at
    /// once, and need as much free space.
    pub ratio_max: u64,
    /// Memory that is kept free for memtables even if nothing is written, as a multiple of their
    /// size; at most half of all.
    pub memtables_kept: f64,
    /// The filters, if they are given.
    pub filter: Option<FilterChoice>,
    /// Upper bound on the size of blocks: twice, four and eight times the request's size are
    /// choices as well if they are within it. Larger blocks have smaller indexes, and take longer
    /// to read.
    pub block_bytes_max: u64,
    /// True if a tree without filters is a choice. A tree in use could not get them back without
    /// reading all of its data.
    pub may_lack_filters: bool,
    /// The most memory that the cache may take.
    pub cache_max: Bytes,
    /// The exponent of Zipf's law by which keys are put again, if that is not the one by which they
    /// are looked up.
    pub update_theta: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            buffer: None,
            buffer_max: BUFFER_MAX,
            memtables_max: u64::MAX,
            ratio_max: u64::MAX,
            memtables_kept: 0.0,
            filter: None,
            block_bytes_max: 0,
            may_lack_filters: true,
            cache_max: Bytes(u64::MAX),
            update_theta: None,
        }
    }
}

/// Upper bounds on the predicted means of single costs (SLAs); `None` for no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Block reads of a zero-result lookup, without a cache.
    pub zero_result_reads: Option<f64>,
    /// Block reads of a lookup of an existing key, without a cache.
    pub existing_reads: Option<f64>,
    /// Block reads of a scan until its first entry.
    pub range_seeks: Option<f64>,
    /// Write amplification.
    pub update_writes: Option<f64>,
    /// Space amplification.
    pub space_amplification: Option<f64>,
}

/// The least memtable, in bytes.
const BUFFER_MIN: u64 = 64 << 10;

/// Memtables in memory while there are writes: the active one, and one that is flushed; assumed.
pub(super) const MEMTABLES: f64 = 2.0;

/// Bytes of memory for the fence pointer of a block; assumed.
pub(super) const FENCE_BYTES: f64 = 32.0;

impl Limits {
    /// These filters, as far as they are allowed, or the one that is given.
    pub(super) fn filters(&self, words: &[&str]) -> Vec<FilterChoice> {
        if let Some(filter) = self.filter {
            return vec![filter];
        }
        let choices = words.iter().map(|words| words.parse().expect("it is in the list"));
        choices.filter(|choice| self.may_lack_filters || *choice != FilterChoice::None).collect()
    }
}

impl Request {
    /// The sizes of blocks that may be chosen, smallest first.
    pub(super) fn blocks(&self) -> Vec<u64> {
        let larger = [2, 4, 8].map(|times| self.block_bytes.saturating_mul(times));
        let allowed = larger.into_iter().filter(|block| *block <= self.limits.block_bytes_max);
        std::iter::once(self.block_bytes).chain(allowed).collect()
    }

    /// The memtable size nearest to this one that may be chosen.
    pub(super) fn allowed(&self, buffer: Bytes) -> Bytes {
        let most = self.limits.buffer_max.min(BUFFER_MAX).max(Bytes(BUFFER_MIN));
        buffer.clamp(Bytes(BUFFER_MIN), most)
    }

    /// Memtables of this size that the data is divided into.
    pub fn memtables(&self, buffer: Bytes) -> u64 {
        self.entries.saturating_mul(self.entry_bytes) / buffer.0.max(1)
    }
}

/// The costs that can be bounded, in the order of [`Bounds`].
pub(super) const COSTS: [fn(&Prediction) -> f64; 5] = [
    |prediction| prediction.zero_result_reads.mean(),
    |prediction| prediction.existing_reads.mean(),
    |prediction| prediction.scan_reads[0].mean(),
    |prediction| prediction.write_amplification,
    |prediction| prediction.space_amplification.mean(),
];

impl Bounds {
    /// The bounds, in order.
    pub fn all(&self) -> [Option<f64>; 5] {
        [self.zero_result_reads, self.existing_reads, self.range_seeks, self.update_writes, self.space_amplification]
    }

    /// Returns true if the predicted means are within all bounds.
    pub fn are_kept(&self, prediction: &Prediction) -> bool {
        self.all().iter().zip(COSTS).all(|(bound, cost)| bound.is_none_or(|bound| cost(prediction) <= bound))
    }
}
