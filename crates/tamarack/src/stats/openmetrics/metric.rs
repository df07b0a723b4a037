//! [`Metric`]: what a statistic becomes as a metric: a pure function of its row and its group.
//!
//! ```text
//! group         row                metric
//! Stats         flush_bytes        tamarack_flush_bytes_total
//!               raw_bytes_written  tamarack_written_raw_bytes_total       the unit comes last
//! LookupCounts  zero_result        tamarack_lookups_zero_result_total     a group has a prefix
//!               lookups            tamarack_lookups_total
//! MemoryStats   filters_bytes      tamarack_memory_bytes{part="filters"}  values of a label
//!               budget_bytes       tamarack_memory_budget_bytes
//! RunStats      filter_bits        tamarack_level_filter_bytes{level="…"} base units
//! ```
//!
//! Names follow the conventions of Prometheus: base units, which come last; `_total` at the end of
//! counters; levels and kinds as labels, of few values, so that a run's number is none. A text is
//! the value of a label, with the value 1; a text that may be missing, such as an error, becomes 1
//! or 0, since the values of a label should be few.
//!
//! Every row has a metric or is in [`LEFT_OUT`] with the reason; a test sees to it.
//!
//! Conventions: <https://prometheus.io/docs/practices/naming/>.

use super::exposition::{MetricFamily, MetricType};
use crate::stats::{
    DecisionStats, DiskStats, JobStats, LatencyStats, LevelStats, LookupCounts, MemoryStats, MemtableStats, ReadStats,
    ReaderStats, RunLookups, RunStats, ScanCounts, SpaceStats, Statistic, Stats,
};

/// A group of statistics, and what their metrics have in common.
pub(super) struct MetricGroup {
    /// Its type.
    pub(super) name: &'static str,
    pub(super) table: &'static [Statistic],
    /// What the names of its metrics begin with.
    prefix: &'static str,
    /// What the help texts of its metrics begin with.
    about: &'static str,
    /// The label whose values are the names of its rows, if there is one.
    pub(super) label: Option<&'static str>,
}

const fn group(
    name: &'static str,
    table: &'static [Statistic],
    prefix: &'static str,
    about: &'static str,
) -> MetricGroup {
    MetricGroup { name, table, prefix, about, label: None }
}

const fn labelled(group: MetricGroup, label: &'static str) -> MetricGroup {
    MetricGroup { label: Some(label), ..group }
}

/// All groups, in the order of the text.
pub(super) const GROUPS: &[MetricGroup] = &[
    group("Stats", Stats::TABLE, "", ""),
    group("MemtableStats", MemtableStats::TABLE, "memtable", "Memtables by state: "),
    group("LevelStats", LevelStats::TABLE, "level", "Levels: "),
    group("RunStats", RunStats::TABLE, "level", "Runs of a level together: "),
    group("RunLookups", RunLookups::TABLE, "level_lookups", "Runs of a level together: "),
    group("JobStats", JobStats::TABLE, "job", "Flushes and compactions in progress: "),
    group("DecisionStats", DecisionStats::TABLE, "decision", "Last decision of the navigator: "),
    group("DiskStats", DiskStats::TABLE, "disk", "Disk: "),
    labelled(group("SpaceStats", SpaceStats::TABLE, "space", "Space of tables on storage, in file bytes."), "kind"),
    labelled(group("MemoryStats", MemoryStats::TABLE, "memory", "Memory of the database, by part."), "part"),
    group("LookupCounts", LookupCounts::TABLE, "lookups", "Lookups since opening: "),
    group("ScanCounts", ScanCounts::TABLE, "scans", "Scans since opening: "),
    labelled(
        group("LatencyStats", LatencyStats::TABLE, "latency", "Latencies of sampled operations since opening."),
        "operation",
    ),
    labelled(group("ReadStats", ReadStats::TABLE, "reads", ""), "reader"),
    group("ReaderStats", ReaderStats::TABLE, "reads", "Reads from tables since opening, by reader: "),
];

/// Rows without a metric: group, name, and why.
pub(super) const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("RunStats", "id", "a label of ever new values; runs are added up by level"),
    ("JobStats", "is_flush", "the label `kind`"),
    ("JobStats", "target_level", "the label `level`"),
    ("JobStats", "cause", "a label of many values"),
    ("DecisionStats", "reason", "a label of ever new values"),
];

/// What a statistic becomes.
pub(super) struct Metric {
    pub(super) family: MetricFamily,
    /// The label that tells it from other statistics of the family.
    pub(super) label: Option<(&'static str, String)>,
    /// The name of the label whose value is the statistic's text, if it is one.
    pub(super) text_label: Option<&'static str>,
    /// What a number is multiplied by to have the metric's unit.
    pub(super) factor: f64,
}

impl Metric {
    /// Returns the metric of a row; `None` if it has none: because it is left out, or because it is
    /// a group, whose rows have their own.
    pub(super) fn of(group: &MetricGroup, row: &'static Statistic) -> Option<Self> {
        let inner = inner_type(row);
        let is_list = row.takes.starts_with("Vec<");
        let is_group = GROUPS.iter().any(|group| group.name == inner);
        if (is_group && !is_list) || LEFT_OUT.iter().any(|(of, name, _)| (*of, *name) == (group.name, row.name)) {
            return None;
        }
        let is_text = inner == "String";
        let is_optional_text = is_text && row.takes.starts_with("Option<");
        let (unit, factor) = match inner {
            "Histogram" => ("seconds", 1.0),
            _ if is_list => ("", 1.0),
            _ => base_unit(row.unit),
        };
        let metric_type = match inner {
            "Histogram" => MetricType::Histogram,
            _ if row.is_counter => MetricType::Counter,
            _ => MetricType::Gauge,
        };
        let meaning = plain(row.meaning);
        let (name, help, label) = match label_value(group, row) {
            Some(value) => {
                let name = with_unit(group.prefix.to_owned(), unit);
                (name, group.about.to_owned(), group.label.map(|label| (label, value.to_owned())))
            }
            None => {
                let note = match (is_list, is_optional_text) {
                    (true, _) => "Number of: ",
                    (_, true) => "1 if there is one, else 0: ",
                    _ => "",
                };
                let help = format!("{}{note}{meaning}{}", group.about, unit_note(row, unit));
                (with_unit(prefixed(group.prefix, row.name), unit), help, None)
            }
        };
        let family = MetricFamily { name: format!("tamarack_{name}"), metric_type, unit, help };
        let text_label = (is_text && !is_optional_text).then_some(row.name);
        Some(Self { family, label, text_label, factor })
    }
}

/// Returns the group of that type.
pub(super) fn group_of(name: &str) -> Option<&'static MetricGroup> {
    GROUPS.iter().find(|group| group.name == name)
}

/// Returns the type of a row's values, without `Option` and `Vec`.
pub(super) fn inner_type(row: &Statistic) -> &'static str {
    row.takes.split(['<', '>']).find(|part| !["Vec", "Option"].contains(part)).expect("a row has a type")
}

/// Returns the value of the group's label for a row, if the row is a value of it.
pub(super) fn label_value(group: &MetricGroup, row: &Statistic) -> Option<&'static str> {
    group.label?;
    let is_part = |part: &str| MemoryStats::default().parts().iter().any(|(name, _)| *name == part);
    match row.name.strip_suffix("_bytes") {
        Some(part) if group.name == "MemoryStats" => is_part(part).then_some(part),
        Some(kind) => Some(kind),
        None => Some(row.name),
    }
}

/// Returns the base unit that stands for a unit in words, and the factor to it. No unit for numbers
/// of things.
fn base_unit(words: &str) -> (&'static str, f64) {
    match words {
        "bytes" | "raw bytes" | "file bytes" => ("bytes", 1.0),
        "bits" => ("bytes", 1.0 / 8.0),
        "seconds" => ("seconds", 1.0),
        "raw bytes per second" => ("bytes_per_second", 1.0),
        "raw bytes per live raw byte" | "fraction" | "fraction of lookups" => ("ratio", 1.0),
        _ => ("", 1.0),
    }
}

/// Returns what a help text says of the unit if the base unit says less.
fn unit_note(row: &Statistic, unit: &str) -> String {
    match row.unit {
        "bits" | "fraction" => String::new(),
        words if unit.is_empty() || words.is_empty() || words == unit => String::new(),
        words => format!(" Unit: {words}."),
    }
}

/// Returns `row` after `prefix`, unless it says the same.
fn prefixed(prefix: &str, row: &str) -> String {
    match prefix {
        "" => row.to_owned(),
        prefix if prefix == row => row.to_owned(),
        prefix => format!("{prefix}_{row}"),
    }
}

/// Returns a name with the unit at its end; inside, it is moved there.
fn with_unit(name: String, unit: &str) -> String {
    if unit.is_empty() || name.ends_with(unit) {
        return name;
    }
    if let Some(bits) = name.strip_suffix("_bits") {
        return format!("{bits}_{unit}");
    }
    for words in [format!("raw_{unit}"), unit.to_owned()] {
        if let Some((before, after)) = name.split_once(&format!("{words}_")) {
            return format!("{before}{after}_{words}");
        }
    }
    format!("{name}_{unit}")
}

/// Returns the documentation of a row on one line, without the marks of rustdoc.
fn plain(meaning: &str) -> String {
    let text = meaning.replace("crate::", "").replace(['`', '[', ']'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// All rows with their groups.
    fn rows() -> impl Iterator<Item = (&'static MetricGroup, &'static Statistic)> {
        GROUPS.iter().flat_map(|group| group.table.iter().map(move |row| (group, row)))
    }

    fn metric(group: &str, row: &str) -> String {
        let group = group_of(group).expect("a group");
        let row = group.table.iter().find(|other| other.name == row).expect("a row");
        let Metric { family, label, .. } = Metric::of(group, row).expect("it has a metric");
        let label = label.map_or_else(String::new, |(name, value)| format!("{{{name}={value}}}"));
        format!("{}{label}", family.sample_name())
    }

    /// The rules of names, by example.
    #[test]
    fn names_follow_the_conventions() {
        for (group, row, expected) in [
            ("Stats", "policy", "tamarack_policy"),
            ("Stats", "flush_bytes", "tamarack_flush_bytes_total"),
            ("Stats", "raw_bytes_written", "tamarack_written_raw_bytes_total"),
            ("Stats", "filter_rebuild_bytes_read", "tamarack_filter_rebuild_read_bytes_total"),
            ("Stats", "compaction_bytes_per_second", "tamarack_compaction_bytes_per_second"),
            ("Stats", "space_amplification_worst", "tamarack_space_amplification_worst_ratio"),
            ("Stats", "write_stall_seconds", "tamarack_write_stall_seconds_total"),
            ("Stats", "write_stall_times", "tamarack_write_stall_times_seconds"),
            ("Stats", "levels", "tamarack_levels"),
            ("Stats", "cache_hits", "tamarack_cache_hits_total"),
            ("MemtableStats", "memory_bytes", "tamarack_memtable_memory_bytes"),
            ("LevelStats", "written_raw_bytes", "tamarack_level_written_raw_bytes_total"),
            ("LevelStats", "runs", "tamarack_level_runs"),
            ("RunStats", "filter_bits", "tamarack_level_filter_bytes"),
            ("RunStats", "filter_fpr", "tamarack_level_filter_fpr_ratio"),
            ("RunLookups", "sampled", "tamarack_level_lookups_sampled"),
            ("DecisionStats", "op_seconds_before", "tamarack_decision_op_before_seconds"),
            ("SpaceStats", "pending_delete_bytes", "tamarack_space_bytes{kind=pending_delete}"),
            ("MemoryStats", "filters_bytes", "tamarack_memory_bytes{part=filters}"),
            ("MemoryStats", "cache_bytes", "tamarack_memory_bytes{part=cache}"),
            ("MemoryStats", "cache_capacity_bytes", "tamarack_memory_cache_capacity_bytes"),
            ("LookupCounts", "lookups", "tamarack_lookups_total"),
            ("LookupCounts", "zero_result", "tamarack_lookups_zero_result_total"),
            ("LatencyStats", "writes", "tamarack_latency_seconds{operation=writes}"),
            ("ReaderStats", "bytes", "tamarack_reads_bytes_total"),
            ("ReaderStats", "reads", "tamarack_reads_total"),
        ] {
            assert_eq!(metric(group, row), expected, "{group}::{row}");
        }
    }

    /// Every row that statistics of a database reach is in a group, and has a metric, is a group,
    /// or is left out; no row is both left out and there.
    #[test]
    fn every_statistic_has_a_metric() {
        let (mut reached, mut to_visit) = (BTreeSet::new(), vec!["Stats"]);
        while let Some(name) = to_visit.pop() {
            let group = group_of(name).unwrap_or_else(|| panic!("add {name} to GROUPS"));
            if !reached.insert(name) {
                continue;
            }
            for row in group.table {
                let inner = inner_type(row);
                let is_value = ["bool", "u32", "u64", "usize", "f64", "String", "Histogram"].contains(&inner);
                to_visit.extend((!is_value).then_some(inner));
                let is_left_out = LEFT_OUT.iter().any(|(of, name, _)| (*of, *name) == (group.name, row.name));
                let is_in_a_group = !is_value && !row.takes.starts_with("Vec<");
                let has_metric = Metric::of(group, row).is_some();
                assert!(has_metric != (is_left_out || is_in_a_group), "{}::{} needs a metric", group.name, row.name);
            }
        }
        assert!(GROUPS.iter().all(|group| reached.contains(group.name)), "only {reached:?} are reached");
        for (group, name, _) in LEFT_OUT {
            let exists = rows().any(|(of, row)| (of.name, row.name) == (*group, *name));
            assert!(exists, "{group}::{name} is left out, but does not exist");
        }
    }

    /// Two rows have different metrics; those of one family differ in the value of a label.
    #[test]
    fn metrics_are_apart() {
        let mut seen = BTreeMap::new();
        for (group, row) in rows() {
            let Some(Metric { family, label, .. }) = Metric::of(group, row) else { continue };
            let other = seen.insert((family.name.clone(), label), (group.name, row.name));
            assert_eq!(other, None, "{}::{} has the metric {}", group.name, row.name, family.name);
        }
    }

    /// Units are base units at the end of names, and units in words are known: a number of bytes,
    /// seconds, or of one thing per another has a base unit.
    #[test]
    fn units_are_base_units() {
        for (group, row) in rows() {
            let Some(Metric { family, .. }) = Metric::of(group, row) else { continue };
            let MetricFamily { name, unit, .. } = &family;
            assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{family:?}");
            let has_measure = ["byte", "second", "bit", "fraction", " per "].iter().any(|word| row.unit.contains(word));
            let is_number = !row.takes.starts_with("Vec<");
            assert!(!unit.is_empty() || !has_measure || !is_number, "add the unit of {}::{}", group.name, row.name);
            let suffixes = ["_total", "_created", "_count", "_sum", "_bucket", "_info", "_gcount", "_gsum"];
            assert!(suffixes.iter().all(|suffix| !name.ends_with(suffix)), "{name} ends like a sample");
        }
    }

    /// Help texts are sentences without marks.
    #[test]
    fn help_is_plain() {
        for (group, row) in rows() {
            let Some(Metric { family, .. }) = Metric::of(group, row) else { continue };
            assert!(family.help.ends_with(['.', ')']) && !family.help.contains(['`', '[', '\n']), "{family:?}");
        }
    }
}
