//! [`PREDICTIONS`]: what models say of a design under a workload, from the design alone. A
//! prediction sees no database and no measured figure.

use tamarack_model::Bytes;
use tamarack_model::cost::{lookup, range};
use tamarack_model::design::{Design, price};
use tamarack_model::device::Device;
use tamarack_model::prediction::{Length, Lookups, Question, Writes, predict};
use tamarack_model::simulate::{FullSpeed, Pace, Threads};
use tamarack_model::workload::Workload;

use crate::costs::{Figure, Figures, SCANNED};
use crate::store::{RAW_BYTES, THREADS, TOMBSTONE_BYTES};
use crate::workloads::{DELETED_PART, WriteMix};

/// A workload on a tree that was loaded with the design's entries, each once and in random order,
/// and is at rest when the workload begins.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// The writes, beside which reads are spread evenly.
    pub mix: &'static WriteMix,
    /// Entries inserted until its end.
    pub inserted: u64,
    /// Raw bytes of the memtables flushed until its end.
    pub flushed_bytes: u64,
    /// The machine, if writers are as fast as they may be; `None` if compactions are awaited after
    /// each memtable.
    pub machine: Option<Machine>,
}

/// A machine with the threads of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub device: Device,
    pub cores: usize,
}

impl Machine {
    /// Writers at full speed: one thread, beside those of the database.
    pub fn full_speed(&self) -> FullSpeed {
        let threads = Threads { writers: 1, workers: THREADS, cores: self.cores };
        FullSpeed::of(&self.device, RAW_BYTES as f64, threads)
    }
}

/// A prediction; `None` if the model does not cover the design or the workload.
pub type Predict = fn(&Design<'_>, &Phase) -> Option<Figures>;

/// All predictions, with their names in reports.
pub const PREDICTIONS: [(&str, Predict); 3] =
    [("simulated", simulated), ("simulated at a settled pace", at_settled_pace), ("full tree", full_tree)];

/// The name of a prediction as a part of a file's name.
pub fn file_part(name: &str) -> String {
    name.replace(' ', "-")
}

/// Means over the same phase of a simulated tree ([`predict`]).
fn simulated(design: &Design<'_>, phase: &Phase) -> Option<Figures> {
    let pace = phase.machine.map_or(Pace::Settled, |machine| Pace::AtFullSpeed(machine.full_speed()));
    at_pace(design, phase, pace)
}

/// The same without late compactions, to compare with; of writers at full speed only.
fn at_settled_pace(design: &Design<'_>, phase: &Phase) -> Option<Figures> {
    phase.machine?;
    at_pace(design, phase, Pace::Settled)
}

fn at_pace(design: &Design<'_>, phase: &Phase, pace: Pace) -> Option<Figures> {
    let mix = phase.mix;
    let share = |count: u64| count as f64 / (mix.inserts + mix.overwrites + mix.deletes).max(1) as f64;
    let writes = if mix.deletes > 0 {
        Writes::Deletes {
            inserts: share(mix.inserts),
            deletes: share(mix.deletes),
            deleted: 1.0 / DELETED_PART as f64,
            tombstone_bytes: TOMBSTONE_BYTES,
        }
    } else if mix.writes() {
        Writes::Puts { inserts: share(mix.inserts), theta: mix.theta }
    } else {
        Writes::Nothing
    };
    let length = Length::Flushed(Bytes(phase.flushed_bytes));
    let question = Question { writes, scans: &[1, SCANNED], digits: 256.0, length, pace, lookups: Lookups::Countless };
    let found = predict(design, &question);
    let figures = Figures::default()
        .with(Figure::ZeroResultReads, found.zero_result_reads.mean())
        .with(Figure::ExistingReads, found.existing_reads.mean())
        .with(Figure::SeekReads, found.scan_reads[0].mean())
        .with(Figure::ScanReads, found.scan_reads[1].mean())
        .with(Figure::SpaceAmplification, found.space_amplification.mean())
        .with(Figure::Runs, found.runs.mean())
        .with(Figure::FilterBits, found.filter_bits_per_entry.mean());
    let rate = found.put_bytes_per_second;
    let figures = if rate > 0.0 { figures.with(Figure::PutMegabytes, rate / 1e6) } else { figures };
    let figures = if mix.is_zipfian() { figures.with(Figure::ZipfianReads, found.drawn_reads.mean()) } else { figures };
    let is_written = phase.flushed_bytes > 0;
    Some(if is_written { figures.with(Figure::WriteAmplification, found.write_amplification) } else { figures })
}

/// The closed forms of a tree as full as its shape allows ([`price`]), for the mean number of
/// entries. Space is that of the worst case, so it is predicted only where entries become obsolete;
/// Zipfian lookups are not predicted.
fn full_tree(design: &Design<'_>, phase: &Phase) -> Option<Figures> {
    let design = Design { entries: design.entries + phase.inserted / 2, ..*design };
    let workload = Workload::of_parts(1.0, 0.0, 0.0, 0.0, 0.0)?;
    let priced = price(&design, &workload, &Device::default());
    let cost = priced.cost;
    let per_block = range::entries_per_block(design.block_bytes as f64, design.entry_bytes as f64);
    let runs: u64 = priced.levels.iter().map(|level| level.visible_runs).sum();
    let figures = Figures::default()
        .with(Figure::ZeroResultReads, cost.zero_result_reads)
        .with(Figure::ExistingReads, cost.existing_reads)
        .with(Figure::SeekReads, cost.range_seeks)
        .with(Figure::ScanReads, lookup::range((SCANNED - 1) as f64, per_block, cost.range_seeks))
        .with(Figure::Runs, runs as f64)
        .with(Figure::FilterBits, priced.filter_bits / design.entries as f64);
    let figures =
        if phase.flushed_bytes > 0 { figures.with(Figure::WriteAmplification, cost.update_writes) } else { figures };
    let has_garbage = phase.mix.makes_garbage();
    Some(if has_garbage { figures.with(Figure::SpaceAmplification, cost.space_amplification) } else { figures })
}
