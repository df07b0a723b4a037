//! All statistics in the OpenMetrics text format, which Prometheus and others read.
//!
//! ```text
//! Stats ── figures(): rows, values ──► metric: a family for each row ──► exposition: text
//!   └──── levels, memtables, jobs: a label for each, and values added up
//! ```
//!
//! Nothing is listed by hand but what the groups of statistics have in common: the families come
//! from the rows of the tables, and a row without one fails a test.
//!
//! What can be one of many is added up, so that labels have few values: memtables by state, runs by
//! level, flushes and compactions by kind and level. Of the navigator's decisions the last one is
//! exposed. Percentiles are not: histograms can be added, and percentiles of them computed, by who
//! reads them.
//!
//! Cost: one pass over all figures, and some hundred lines of text; nothing is kept.
//!
//! Tests: here, in both modules, and `tests/suite/openmetrics.rs`.

mod exposition;
mod metric;

use exposition::{Exposition, Label, SampleValue};
use metric::{GROUPS, Metric, MetricGroup, group_of, inner_type, label_value};

use super::{Figure, JobStats, LevelStats, MemtableStats, Statistic, Stats};

/// Content type of an HTTP response with the text of [`openmetrics`] or [`Stats::to_openmetrics`].
pub const OPENMETRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Stats {
    /// Returns all statistics in the OpenMetrics text format, to be served with the content type
    /// [`OPENMETRICS_CONTENT_TYPE`]. Counters begin at 0 when the database is opened.
    ///
    /// `docs/STATS.md` has the name of each metric. A process with several databases exposes them
    /// together, see [`openmetrics`].
    pub fn to_openmetrics(&self) -> String {
        exposed([(None, self)])
    }
}

/// Returns all statistics of several databases in one OpenMetrics text. Each sample has the label
/// `database` with the given name, by which databases are told apart: names should not repeat.
///
/// Texts of [`Stats::to_openmetrics`] cannot simply be joined: the format wants the samples of a
/// metric family together.
pub fn openmetrics<'a>(databases: impl IntoIterator<Item = (&'a str, &'a Stats)>) -> String {
    exposed(databases.into_iter().map(|(name, stats)| (Some(name), stats)))
}

fn exposed<'a>(databases: impl IntoIterator<Item = (Option<&'a str>, &'a Stats)>) -> String {
    let mut exposition = Exposition::default();
    for group in GROUPS {
        let metrics = group.table.iter().filter_map(|row| Metric::of(group, row));
        metrics.for_each(|metric| exposition.declare(metric.family));
    }
    for (name, stats) in databases {
        let labels = name.map(|name| ("database", name.to_owned())).into_iter().collect();
        Exposing { exposition: &mut exposition, labels }.database(stats);
    }
    exposition.text()
}

/// Returns the name of the metric that a statistic of a group becomes, with the label that it has
/// among others of its family; `None` if it has no metric of its own.
#[cfg(feature = "internals")]
pub fn openmetrics_name(group: &str, row: &'static Statistic) -> Option<String> {
    let Metric { family, label, .. } = Metric::of(group_of(group)?, row)?;
    let label = label.map_or_else(String::new, |(name, value)| format!("{{{name}=\"{value}\"}}"));
    Some(format!("{}{label}", family.sample_name()))
}

/// Adds the statistics of one database to an exposition.
struct Exposing<'a> {
    exposition: &'a mut Exposition,
    /// Labels of all samples.
    labels: Vec<Label>,
}

impl Exposing<'_> {
    fn database(&mut self, stats: &Stats) {
        self.group("Stats", &[], stats.figures());
        if let Some(last) = stats.decisions.last() {
            self.group("DecisionStats", &[], last.figures());
        }
        self.memtables(&stats.memtables);
        for (number, level) in (1_usize..).zip(&stats.levels) {
            self.level(number, level);
        }
        for job in &stats.jobs {
            self.job(job);
        }
    }

    /// Both states are there also without a memtable in them.
    fn memtables(&mut self, memtables: &[MemtableStats]) {
        for state in ["active", "immutable"] {
            self.group("MemtableStats", &[("state", state.to_owned())], MemtableStats::default().figures());
        }
        for (at, memtable) in memtables.iter().enumerate() {
            let state = if at == 0 { "active" } else { "immutable" };
            self.group("MemtableStats", &[("state", state.to_owned())], memtable.figures());
        }
    }

    fn level(&mut self, number: usize, level: &LevelStats) {
        let labels = [("level", number.to_string())];
        self.group("LevelStats", &labels, level.figures());
        self.group("RunStats", &labels, level.total().figures());
    }

    fn job(&mut self, job: &JobStats) {
        let kind = if job.is_flush { "flush" } else { "compaction" };
        let labels = [("kind", kind.to_owned()), ("level", job.target_level.to_string())];
        self.group("JobStats", &labels, job.figures());
    }

    /// Adds the values of a group, and of groups in it. Of a list only the length: its members need
    /// labels.
    fn group(&mut self, name: &str, labels: &[Label], figures: Vec<(&'static Statistic, Figure)>) {
        let group = group_of(name).expect("all groups of statistics are known");
        for (row, figure) in figures {
            match figure {
                Figure::Group(inner) => {
                    let own = label_value(group, row).zip(group.label).map(|(value, label)| (label, value.to_owned()));
                    let labels: Vec<Label> = labels.iter().cloned().chain(own).collect();
                    self.group(inner_type(row), &labels, inner);
                }
                figure => self.value(group, row, labels, figure),
            }
        }
    }

    fn value(&mut self, group: &MetricGroup, row: &'static Statistic, labels: &[Label], figure: Figure) {
        let Some(Metric { family, label, text_label, factor }) = Metric::of(group, row) else { return };
        let mut labels: Vec<Label> = self.labels.iter().chain(labels).cloned().chain(label).collect();
        let is_text = row.takes.contains("String");
        let value = match figure {
            // A text that is missing; a number that is missing has no sample.
            Figure::Absent if is_text => SampleValue::Count(0),
            Figure::Absent | Figure::Group(_) => return,
            Figure::Flag(flag) => SampleValue::Count(u64::from(flag)),
            Figure::Count(count) if factor == 1.0 => SampleValue::Count(count),
            Figure::Count(count) => SampleValue::Number(count as f64 * factor),
            Figure::Number(number) => SampleValue::Number(number * factor),
            Figure::Latencies(latencies) => SampleValue::Latencies(latencies),
            Figure::List(members) => SampleValue::Count(members.len() as u64),
            Figure::Text(text) => {
                labels.extend(text_label.map(|label| (label, text)));
                SampleValue::Count(1)
            }
        };
        self.exposition.add(family, labels, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Histogram;
    use crate::stats::{
        DecisionStats, DiskStats, LatencyStats, LookupCounts, MemoryStats, ReadStats, RunStats, ScanCounts, SpaceStats,
    };

    fn histogram(ns: u64) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.note(Duration::from_nanos(ns));
        histogram
    }

    /// Statistics of which none is missing. All fields are named, so that a new one has to be
    /// added here.
    fn complete() -> Stats {
        let run = |id| RunStats { id, entries: 10, filter_bits: 100, raw_bytes: 500, ..RunStats::default() };
        Stats {
            policy: "leveling:T=10".to_owned(),
            decisions: vec![DecisionStats { policy: "older".to_owned(), ..DecisionStats::default() }, {
                DecisionStats { policy: "tiering:T=4".to_owned(), op_seconds: 1.5e-6, ..DecisionStats::default() }
            }],
            searching_design: true,
            memtable_capacity_bytes: 1 << 20,
            block_bytes: 4096,
            memtables: [3, 4, 5].map(|entries| MemtableStats { entries, ..MemtableStats::default() }).to_vec(),
            levels: vec![LevelStats { runs: vec![run(1), run(2)], ..LevelStats::default() }, LevelStats::default()],
            jobs: vec![
                JobStats { is_flush: true, target_level: 1, inputs: vec![7], left_bytes: 1, ..JobStats::default() },
                JobStats { target_level: 2, inputs: vec![8, 9], left_bytes: 20, ..JobStats::default() },
                JobStats { target_level: 2, inputs: vec![10], left_bytes: 300, ..JobStats::default() },
            ],
            debt_bytes: 321,
            late_bytes: 1,
            debt_seconds: Some(0.5),
            compaction_bytes_per_second: Some(1e6),
            compactions_paused: false,
            background_error: Some("an error".to_owned()),
            writing_stopped: Some("an error".to_owned()),
            disk: Some(DiskStats::default()),
            last_background_error: Some("an error".to_owned()),
            space: SpaceStats { live_bytes: 1, stale_bytes: 2, pending_delete_bytes: 3 },
            space_amplification_worst: f64::INFINITY,
            space_amplification_max: Some(1.5),
            wal_segments: 1,
            wal_bytes: 2,
            visible_sequence: 3,
            snapshots: 4,
            range_deletes: 5,
            memory: MemoryStats { filters_bytes: 5, ..MemoryStats::default() },
            cache_bytes: 6,
            cache_entry_bytes: 7,
            cache_hits: 8,
            cache_misses: 9,
            reads: ReadStats::default(),
            filter_bytes: 10,
            lookups: LookupCounts { lookups: 11, ..LookupCounts::default() },
            scans: ScanCounts::default(),
            lookups_sampled: 12,
            latencies: LatencyStats { writes: histogram(1000), ..LatencyStats::default() },
            write_delay_times: histogram(1_000_000),
            write_stall_times: histogram(1_000_000_000),
            entries_written: 13,
            raw_bytes_written: 14,
            commit_groups: 15,
            transactions_committed: 16,
            transaction_conflicts: 17,
            lock_waits: 34,
            lock_timeouts: 35,
            deadlocks: 36,
            flushes: 18,
            flushed_raw_bytes: 19,
            flush_bytes: 20,
            flush_failures: 21,
            ingests: 22,
            ingested_raw_bytes: 23,
            ingest_bytes: 24,
            compactions: 25,
            compaction_bytes: 26,
            compaction_failures: 27,
            compaction_filter_dropped: 34,
            compaction_filter_changed: 35,
            compaction_filter_failures: 36,
            moves: 28,
            reshapes: 29,
            filters_rebuilt: 30,
            filters_loaded: 31,
            filters_dropped: 32,
            filter_rebuild_bytes_read: 33,
            write_delays: 1,
            write_delay_seconds: 0.001,
            write_stalls: 1,
            write_stall_seconds: 1.0,
        }
    }

    /// Each family has a sample where no statistic is missing.
    #[test]
    fn no_statistic_is_forgotten() {
        let stats = complete();
        for (row, figure) in stats.figures() {
            let is_empty =
                matches!(&figure, Figure::Absent) || matches!(&figure, Figure::List(list) if list.is_empty());
            assert!(!is_empty, "give the complete statistics a value for `{}`", row.name);
        }
        let text = stats.to_openmetrics();
        let mut lines = 0;
        for group in GROUPS {
            for row in group.table {
                let Some(Metric { family, label, .. }) = Metric::of(group, row) else { continue };
                let label = label.map_or_else(String::new, |(name, value)| format!("{name}=\"{value}\""));
                let has_sample = text.lines().any(|line| {
                    let name = line.split(['{', ' ']).next().expect("a part");
                    let suffixes = ["", "_count", "_sum"];
                    suffixes.iter().any(|suffix| name == format!("{}{suffix}", family.sample_name()))
                        && line.contains(&label)
                });
                assert!(has_sample, "{}::{} has no line: {text}", group.name, row.name);
                lines += 1;
            }
        }
        assert!(lines > 130, "only {lines} rows");
    }

    /// Values are those of the statistics, in base units, and added up by their labels.
    #[test]
    fn values_are_those_of_the_statistics() {
        let text = complete().to_openmetrics();
        for line in [
            "tamarack_policy{policy=\"leveling:T=10\"} 1",
            "tamarack_searching_design 1",
            "tamarack_decisions 2",
            "tamarack_decision_policy{policy=\"tiering:T=4\"} 1",
            "tamarack_decision_op_seconds 1.5e-6",
            "tamarack_memtables 3",
            "tamarack_memtable_entries{state=\"active\"} 3",
            "tamarack_memtable_entries{state=\"immutable\"} 9",
            "tamarack_levels 2",
            "tamarack_level_runs{level=\"1\"} 2",
            "tamarack_level_entries{level=\"1\"} 20",
            "tamarack_level_filter_bytes{level=\"1\"} 25.0",
            "tamarack_level_entries{level=\"2\"} 0",
            "tamarack_jobs 3",
            "tamarack_job_left_bytes{kind=\"flush\",level=\"1\"} 1",
            "tamarack_job_left_bytes{kind=\"compaction\",level=\"2\"} 320",
            "tamarack_job_inputs{kind=\"compaction\",level=\"2\"} 3",
            "tamarack_background_error 1",
            "tamarack_space_bytes{kind=\"stale\"} 2",
            "tamarack_space_amplification_worst_ratio +Inf",
            "tamarack_memory_bytes{part=\"filters\"} 5",
            "tamarack_reads_total{reader=\"multi_gets\"} 0",
            "tamarack_lookups_total 11",
            "tamarack_latency_seconds_count{operation=\"writes\"} 1",
            "tamarack_latency_seconds_sum{operation=\"writes\"} 1e-6",
            "tamarack_write_stall_times_seconds_sum 1.0",
            "tamarack_written_raw_bytes_total 14",
            "tamarack_write_delay_seconds_total 0.001",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing: {text}");
        }
    }

    /// What is missing has no value, and is described all the same.
    #[test]
    fn what_is_missing_has_no_sample() {
        let text = Stats::default().to_openmetrics();
        let lines = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!((lines("# TYPE tamarack_debt_seconds "), lines("tamarack_debt_seconds ")), (1, 0));
        assert_eq!((lines("# TYPE tamarack_level_entries "), lines("tamarack_level_entries{")), (1, 0));
        assert_eq!((lines("tamarack_background_error 0"), lines("tamarack_levels 0")), (1, 1));
    }

    /// Several databases share families, and differ in a label.
    #[test]
    fn databases_are_told_apart() {
        let (one, other) = (complete(), Stats { flushes: 99, ..Stats::default() });
        let text = openmetrics([("one", &one), ("the \"other\"", &other)]);
        let flushes: Vec<&str> = text.lines().filter(|line| line.contains("tamarack_flushes")).collect();
        assert_eq!(
            flushes[2..],
            [
                "tamarack_flushes_total{database=\"one\"} 18",
                "tamarack_flushes_total{database=\"the \\\"other\\\"\"} 99"
            ]
        );
        let samples = text.lines().filter(|line| !line.starts_with("# "));
        assert!(samples.into_iter().all(|line| line.contains("database=\"")), "{text}");
        assert_eq!(text.matches("# EOF\n").count(), 1);
    }
}
