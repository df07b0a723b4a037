//! Lookup statistics as text: block reads, filters, caches, latency.

use tamarack::{LookupCounts, Percentiles, Stats};

use super::table::{grouped, plural, table};
use crate::workloads::predict;

/// All lookup statistics; `None` without lookups.
pub(crate) fn lookups(stats: &Stats) -> Option<String> {
    let counts = &stats.lookups;
    let timed = latencies(stats);
    if counts.lookups == 0 {
        return timed;
    }
    let line = |name: &str, value: String| format!("{name:<8} {value}");
    let lines = [
        line("lookups", format!("{} since opening, {}", grouped(counts.lookups), reads(counts))),
        line("model", predicted(stats)),
        line("filters", filters(counts)),
        line("cache", cache(stats)),
    ];
    Some(std::iter::once(lines.join("\n")).chain(timed).collect::<Vec<_>>().join("\n\n"))
}

fn reads(counts: &LookupCounts) -> String {
    let each = counts.data_blocks_read as f64 / counts.lookups as f64;
    format!("{each:.3} block reads per lookup")
}

/// Block reads that the models predict for the present filters.
fn predicted(stats: &Stats) -> String {
    let (absent, present) = predict::lookup_blocks(stats);
    format!(
        "predicts {absent:.3} block reads per zero-result lookup, {present:.3} per lookup of an existing key, without a cache"
    )
}

fn filters(counts: &LookupCounts) -> String {
    let LookupCounts { lookups, filter_probes, filter_negatives, filter_false_positives, .. } = *counts;
    match percent(filter_false_positives, filter_negatives + filter_false_positives) {
        _ if filter_probes == 0 => "no filter probed".to_owned(),
        None => format!("{:.2} filter probes per lookup, all for existing keys", filter_probes as f64 / lookups as f64),
        Some(rate) => {
            format!("{:.2} filter probes per lookup, false positive rate {rate}", filter_probes as f64 / lookups as f64)
        }
    }
}

fn cache(stats: &Stats) -> String {
    let found = percent(stats.cache_hits, stats.cache_hits + stats.cache_misses);
    let blocks = found.map_or_else(|| "no block requested".to_owned(), |share| format!("block cache hit rate {share}"));
    let entries = stats.lookups.cached_entries;
    if entries == 0 { blocks } else { format!("{blocks}; {} answered by the entry cache", plural(entries, "entry")) }
}

/// Latency percentiles of the sampled lookups.
fn latencies(stats: &Stats) -> Option<String> {
    let kinds = [
        ("found in memory", &stats.latencies.found_in_memory),
        ("found by block reads", &stats.latencies.found_by_reads),
        ("not found", &stats.latencies.not_found),
        ("multi_get", &stats.latencies.multi_gets),
        ("seek", &stats.latencies.seeks),
        ("write", &stats.latencies.writes),
        ("write delay", &stats.write_delay_times),
        ("write stall", &stats.write_stall_times),
    ];
    let timed = kinds.map(|(name, latencies)| (name, Percentiles::of(latencies)));
    let rows: Vec<Vec<String>> = (timed.into_iter().filter(|(_, percentiles)| percentiles.samples > 0))
        .map(|(name, Percentiles { samples, p50_ns, p99_ns, p999_ns, longest_ns, .. })| {
            let times = [p50_ns, p99_ns, p999_ns, longest_ns].map(show_ns);
            [name.to_owned(), grouped(samples)].into_iter().chain(times).collect()
        })
        .collect();
    let heading = ["latency", "samples", "p50", "p99", "p99.9", "longest"];
    (!rows.is_empty()).then(|| table(&[vec![heading.map(str::to_owned).to_vec()], rows].concat()))
}

/// A short time with three digits.
pub(crate) fn show_ns(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{} µs", digits(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        ns => format!("{} s", digits(ns / 1e9)),
    }
}

/// `part` of `whole` in percent, unless `whole` is 0.
fn percent(part: u64, whole: u64) -> Option<String> {
    (whole > 0).then(|| rate(part as f64 / whole as f64))
}

/// A share in percent, with two or three digits.
pub(crate) fn rate(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.2} %") } else { format!("{} %", digits(percent)) }
}

/// A number below 1000, with at most three digits.
fn digits(number: f64) -> String {
    match number {
        n if n < 9.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// Short times and small shares have a unit in which they are read easily.
#[test]
fn shows_times_and_shares() {
    let shown = [0, 999, 1000, 9949, 123_400, 5_000_000, 12_000_000_000].map(show_ns);
    assert_eq!(shown, ["0 ns", "999 ns", "1.0 µs", "9.9 µs", "123 µs", "5.0 ms", "12 s"]);
    assert_eq!(
        [0.0, 0.000_66, 0.0096, 0.0231, 0.5, 1.0].map(rate),
        ["0.0 %", "0.07 %", "0.96 %", "2.3 %", "50 %", "100 %"]
    );
}
