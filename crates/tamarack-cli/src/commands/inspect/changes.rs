//! The changes of an edit in words, one line each.

use tamarack_format::edit::{Change, KeyRange, RunId, ShapeBlob, SliceSpec};
use tamarack_format::meta::TableMeta;
use tamarack_format::shape::TreeDesign;

use crate::show::table::{grouped, plural};
use crate::size::show_bytes;
use crate::text;

/// More changes than this are counted, not told, where an edit has one line.
const TOLD_MAX: usize = 6;

/// What an edit does, on one line: its changes, or if there are many, how many of which kind.
pub(super) fn on_one_line(changes: &[Change]) -> String {
    if changes.len() <= TOLD_MAX {
        return changes.iter().map(words).collect::<Vec<_>>().join("; ");
    }
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for change in changes {
        let kind = kind(change);
        match kinds.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let counted = kinds.iter().map(|(kind, count)| match count {
        1 => (*kind).to_owned(),
        _ => format!("{} × {kind}", grouped(*count)),
    });
    counted.collect::<Vec<_>>().join("; ")
}

/// The kind of a change.
fn kind(change: &Change) -> &'static str {
    match change {
        Change::Database { .. } => "database",
        Change::IdsUsed { .. } => "ids used",
        Change::TreeCreated { .. } => "tree created",
        Change::TreeNamed { .. } => "tree named",
        Change::TreeDropped { .. } => "tree dropped",
        Change::TableAdded { .. } => "table added",
        Change::RunAdded { .. } => "run added",
        Change::SlicesAdded { .. } => "slices added",
        Change::RunCut { .. } => "run cut",
        Change::RunRemoved { .. } => "run removed",
        Change::CompactionBegun { .. } => "compaction begun",
        Change::CompactionAdvanced { .. } => "compaction advanced",
        Change::CompactionEnded { .. } => "compaction ended",
        Change::Relabelled { .. } => "relabelled",
        Change::ShapeSet { .. } => "shape set",
        Change::FlushedThrough { .. } => "flushed through",
        Change::WalEnd { .. } => "WAL ends",
        Change::WalReopened => "WAL reopened",
        Change::WalDurable { .. } => "WAL durable",
        Change::AgesMixed { .. } => "ages mixed",
        Change::MergeOperatorSet { .. } => "merge operator set",
        Change::RangesDeleted { .. } => "ranges deleted",
        Change::RangeDeletesEnded { .. } => "range deletes ended",
    }
}

/// A change in words.
pub(super) fn words(change: &Change) -> String {
    match change {
        Change::Database { id } => format!("database {id:016x}"),
        Change::IdsUsed { tables, runs, compactions } => {
            format!("next are table {tables}, run {runs}, compaction {compactions}")
        }
        Change::TreeCreated { tree } => format!("tree {} created", tree.0),
        Change::TreeNamed { tree, name } => format!("tree {} named {name:?}", tree.0),
        Change::TreeDropped { tree } => format!("tree {} dropped", tree.0),
        Change::TableAdded { meta, .. } => table(meta),
        Change::RunAdded { run, level, index, .. } => format!("run {} added to level {level} at place {index}", run.0),
        Change::SlicesAdded { run, slices: added, .. } => format!("run {} gets {}", run.0, slices(added)),
        Change::RunCut { run, range, .. } => format!("run {} loses {}", run.0, keys(range)),
        Change::RunRemoved { run, .. } => format!("run {} removed", run.0),
        Change::CompactionBegun { compaction, inputs, output, .. } => {
            format!("compaction {} begun: {} into run {}", compaction.0, runs(inputs), output.0)
        }
        Change::CompactionAdvanced { compaction, range, outputs, .. } => {
            format!("compaction {} has done {}: {}", compaction.0, keys(range), slices(outputs))
        }
        Change::CompactionEnded { compaction, .. } => format!("compaction {} ended", compaction.0),
        Change::Relabelled { levels, .. } => {
            let levels = (1..).zip(levels).map(|(level, of_level)| format!("level {level}: {}", runs(of_level)));
            format!("relabelled: {}", levels.collect::<Vec<_>>().join(", "))
        }
        Change::ShapeSet { shape, .. } => shape_words(shape),
        Change::FlushedThrough { sequence, .. } => format!("flushed through sequence {}", sequence.0),
        Change::WalEnd { position } => format!("closed, the WAL ends at position {position}"),
        Change::WalReopened => "WAL reopened".to_owned(),
        Change::WalDurable { position } => format!("WAL durable up to position {position}"),
        Change::AgesMixed { .. } => "ages of tables mixed".to_owned(),
        Change::MergeOperatorSet { name, .. } => format!("merge operator {name:?}"),
        Change::RangesDeleted { ranges, .. } => {
            let deleted = ranges.iter().map(|(range, sequence)| format!("{} at sequence {}", keys(range), sequence.0));
            format!("ranges deleted: {}", deleted.collect::<Vec<_>>().join(", "))
        }
        Change::RangeDeletesEnded { sequences, .. } => {
            let ended = sequences.iter().map(|sequence| sequence.0.to_string());
            format!("range deletes ended: those of sequences {}", ended.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A policy and the shape that it gave, on one line.
pub(super) fn shape_words(blob: &ShapeBlob) -> String {
    match TreeDesign::decode(blob) {
        Ok(TreeDesign { policy, filter, space_bound, block_bytes, shape, decisions: _ }) => {
            let shape = shape.to_string();
            let space = space_bound.map_or_else(String::new, |bound| format!(", space {}", bound.most()));
            let shape = shape.lines().collect::<Vec<_>>().join(", ");
            let blocks = block_bytes.map_or_else(String::new, |bytes| format!(", blocks of {}", show_bytes(bytes)));
            format!("policy {policy}, filter {filter}{space}{blocks}: {shape}")
        }
        Err(_) => format!("shape, not readable: {}", text::escaped(&blob.bytes)),
    }
}

fn table(meta: &TableMeta) -> String {
    let ingest = meta.ingest.map_or_else(String::new, |part| {
        format!(", of the ingest that began with table {}, sequence base {}", part.first_table, meta.sequence_base.0)
    });
    format!(
        "table {} added: {}, {}, keys {} to {}, sequences {} to {}{ingest}",
        meta.id.0,
        plural(meta.entries, "entry"),
        show_bytes(meta.file_bytes),
        text::escaped(&meta.smallest_key),
        text::escaped(&meta.largest_key),
        meta.smallest_sequence.0,
        meta.largest_sequence.0
    )
}

fn slices(slices: &[SliceSpec]) -> String {
    if slices.is_empty() {
        return "nothing".to_owned();
    }
    let words = slices.iter().map(|slice| match &slice.range {
        KeyRange { from: None, to: None } => format!("table {}", slice.table.0),
        range => format!("{} of table {}", keys(range), slice.table.0),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn runs(runs: &[RunId]) -> String {
    let numbers: Vec<String> = runs.iter().map(|run| run.0.to_string()).collect();
    match numbers.len() {
        0 => "no runs".to_owned(),
        1 => format!("run {}", numbers[0]),
        _ => format!("runs {}", numbers.join(", ")),
    }
}

fn keys(range: &KeyRange) -> String {
    match (&range.from, &range.to) {
        (None, None) => "all keys".to_owned(),
        (Some(from), None) => format!("keys from {}", text::escaped(from)),
        (None, Some(to)) => format!("keys before {}", text::escaped(to)),
        (Some(from), Some(to)) => format!("keys from {} to before {}", text::escaped(from), text::escaped(to)),
    }
}
