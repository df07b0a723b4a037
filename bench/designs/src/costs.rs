//! [`Figures`]: what is measured and predicted of a design under a workload.

use serde_json::{Map, Value};

/// One of the figures, each a mean over the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Data blocks read by a lookup of a key that is not there.
    ZeroResultReads,
    /// Data blocks read by a lookup of an existing key, each equally likely.
    ExistingReads,
    /// The same of keys drawn like those that are overwritten, by a Zipfian law.
    ZipfianReads,
    /// Data blocks read by a scan of one entry, from any existing key on.
    SeekReads,
    /// The same of [`SCANNED`] entries.
    ScanReads,
    /// Raw bytes that flushes and compactions write, per raw byte of the memtables flushed.
    WriteAmplification,
    /// Raw bytes in runs per raw byte of live entries on storage.
    SpaceAmplification,
    /// Runs that a key can be in: one that a compaction has handed over in part counts for the
    /// rest.
    Runs,
    /// Filter bits per entry in runs.
    FilterBits,
    /// Raw bytes that the writer put in a second at full speed, in millions.
    PutMegabytes,
}

/// Entries of a scan.
pub const SCANNED: u64 = 10;

const COUNT: usize = 10;

impl Figure {
    pub const ALL: [Self; COUNT] = [
        Self::ZeroResultReads,
        Self::ExistingReads,
        Self::ZipfianReads,
        Self::SeekReads,
        Self::ScanReads,
        Self::WriteAmplification,
        Self::SpaceAmplification,
        Self::Runs,
        Self::FilterBits,
        Self::PutMegabytes,
    ];

    /// In JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroResultReads => "zero_result_reads",
            Self::ExistingReads => "existing_reads",
            Self::ZipfianReads => "zipfian_reads",
            Self::SeekReads => "seek_reads",
            Self::ScanReads => "scan_reads",
            Self::WriteAmplification => "write_amplification",
            Self::SpaceAmplification => "space_amplification",
            Self::Runs => "runs",
            Self::FilterBits => "filter_bits_per_entry",
            Self::PutMegabytes => "put_megabytes_per_second",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::ZeroResultReads => "Zero-result lookups: block reads",
            Self::ExistingReads => "Lookups of existing keys, uniform: block reads",
            Self::ZipfianReads => "Lookups of existing keys, Zipfian: block reads",
            Self::SeekReads => "Seeks: block reads",
            Self::ScanReads => "Scans of 10 entries: block reads",
            Self::WriteAmplification => "Write amplification",
            Self::SpaceAmplification => "Space amplification",
            Self::Runs => "Sorted runs",
            Self::FilterBits => "Filter bits per entry",
            Self::PutMegabytes => "Puts: MB/s",
        }
    }

    /// Digits behind the point in tables.
    pub fn digits(self) -> usize {
        match self {
            Self::ZeroResultReads => 4,
            Self::ExistingReads | Self::ZipfianReads | Self::SpaceAmplification => 3,
            Self::SeekReads | Self::ScanReads | Self::WriteAmplification | Self::Runs | Self::FilterBits => 2,
            Self::PutMegabytes => 1,
        }
    }

    fn place(self) -> usize {
        self as usize
    }
}

/// Values of all figures; `None` where there is nothing to measure, or no prediction.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Figures([Option<f64>; COUNT]);

impl Figures {
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0[figure.place()]
    }

    /// With this value, which is left out unless it is finite.
    #[must_use]
    pub fn with(mut self, figure: Figure, value: f64) -> Self {
        self.0[figure.place()] = value.is_finite().then_some(value);
        self
    }

    pub fn to_json(self) -> Value {
        let values =
            Figure::ALL.iter().filter_map(|figure| Some((figure.name().to_owned(), self.get(*figure)?.into())));
        Value::Object(values.collect::<Map<_, _>>())
    }

    pub fn from_json(value: &Value) -> Self {
        Self(Figure::ALL.map(|figure| value[figure.name()].as_f64()))
    }
}

/// What is written is read, and what is missing stays so.
#[test]
fn figures_are_read_back() {
    let figures = Figures::default().with(Figure::Runs, 3.5).with(Figure::FilterBits, 0.0);
    assert_eq!(Figures::from_json(&figures.to_json()), figures);
    assert_eq!(figures.get(Figure::ZipfianReads), None);
    assert_eq!(figures.with(Figure::Runs, f64::NAN).get(Figure::Runs), None);
    assert!(Figure::ALL.iter().enumerate().all(|(at, figure)| figure.place() == at));
}
