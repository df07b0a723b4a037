//! [`Exposition`]: metric families with their samples, and their text in the OpenMetrics format.
//!
//! In: families with a type, a unit and a help text; samples with labels. Out: the text. It knows
//! no statistic, and the caller answers for names: they consist of letters, digits and underscores,
//! and end with the unit.
//!
//! ```text
//! # TYPE tamarack_flush_bytes counter
//! # UNIT tamarack_flush_bytes bytes
//! # HELP tamarack_flush_bytes File bytes that flushes wrote since opening.
//! tamarack_flush_bytes_total 2048
//! # EOF
//! ```
//!
//! What the format asks for: the samples of a family stand together, and within it those of one set
//! of labels; counters end in `_total`; the buckets of a histogram are cumulative, and the last one
//! has no bound; whole numbers have no decimal point, others have one or an exponent; `\`, `"` and
//! line feeds are escaped; the last line is `# EOF`. Timestamps are left to who reads the text, as
//! the format recommends.
//!
//! Format: OpenMetrics 1.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>. Tests: here,
//! and `tests/suite/openmetrics.rs` with a parser of the format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tamarack_env::histogram::Histogram;

/// Upper bounds of the buckets of histograms: 2 to these powers, in nanoseconds, from a quarter of
/// a microsecond to half a minute.
const BUCKET_DOUBLINGS: std::ops::RangeInclusive<u32> = 8..=35;

/// Type of a metric family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MetricType {
    /// A value that goes up and down.
    Gauge,
    /// A value that only grows, from 0 at the opening of the database.
    Counter,
    /// Latencies; they only become more.
    Histogram,
}

/// What stands above the samples of a metric family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MetricFamily {
    /// Its name, without the suffix of a counter's sample.
    pub(super) name: String,
    pub(super) metric_type: MetricType,
    /// Its base unit, with which the name ends; empty if it has none.
    pub(super) unit: &'static str,
    pub(super) help: String,
}

impl MetricFamily {
    /// Returns the name of its samples; of a histogram's samples, what they begin with.
    pub(super) fn sample_name(&self) -> String {
        let suffix = if self.metric_type == MetricType::Counter { "_total" } else { "" };
        format!("{}{suffix}", self.name)
    }
}

/// Label of a sample: its name and its value.
pub(super) type Label = (&'static str, String);

/// Value of a sample.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum SampleValue {
    /// A whole number.
    Count(u64),
    /// A number; it may be infinite.
    Number(f64),
    /// Latencies.
    Latencies(Histogram),
}

/// Labels and value.
type Sample = (Vec<Label>, SampleValue);

/// Metric families in the order in which they were declared.
#[derive(Default)]
pub(super) struct Exposition {
    families: Vec<(MetricFamily, Vec<Sample>)>,
    /// Places of the families by name.
    places: BTreeMap<String, usize>,
}

impl Exposition {
    /// Declares a family, so that it has its place and is described also without a sample.
    pub(super) fn declare(&mut self, family: MetricFamily) {
        self.samples_of(family);
    }

    /// Adds a sample. If the family has one with these labels, the values are added up.
    pub(super) fn add(&mut self, family: MetricFamily, labels: Vec<Label>, value: SampleValue) {
        let samples = self.samples_of(family);
        match samples.iter_mut().find(|(others, _)| *others == labels) {
            Some((_, sum)) => *sum = plus(std::mem::replace(sum, SampleValue::Count(0)), value),
            None => samples.push((labels, value)),
        }
    }

    fn samples_of(&mut self, family: MetricFamily) -> &mut Vec<Sample> {
        let place = *self.places.entry(family.name.clone()).or_insert(self.families.len());
        if place == self.families.len() {
            self.families.push((family, Vec::new()));
        } else {
            debug_assert_eq!(family, self.families[place].0, "a name belongs to one family");
        }
        &mut self.families[place].1
    }

    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (family, samples) in &self.families {
            describe(&mut text, family);
            for (labels, value) in samples {
                expose(&mut text, &family.sample_name(), labels, value);
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

/// The sum of two values of one sample.
fn plus(one: SampleValue, other: SampleValue) -> SampleValue {
    match (one, other) {
        (SampleValue::Count(one), SampleValue::Count(other)) => SampleValue::Count(one.saturating_add(other)),
        (SampleValue::Latencies(one), SampleValue::Latencies(other)) => SampleValue::Latencies(one + other),
        (one, other) => SampleValue::Number(number_of(&one) + number_of(&other)),
    }
}

fn number_of(value: &SampleValue) -> f64 {
    match value {
        SampleValue::Count(count) => *count as f64,
        SampleValue::Number(number) => *number,
        SampleValue::Latencies(latencies) => seconds(latencies.sum_ns()),
    }
}

/// Writes the lines above the samples.
fn describe(text: &mut String, family: &MetricFamily) {
    let MetricFamily { name, metric_type, unit, help } = family;
    let of_type = match metric_type {
        MetricType::Gauge => "gauge",
        MetricType::Counter => "counter",
        MetricType::Histogram => "histogram",
    };
    let _ = writeln!(text, "# TYPE {name} {of_type}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
    let _ = writeln!(text, "# HELP {name} {}", escaped(help));
}

/// Writes the sample, or all samples of a histogram.
fn expose(text: &mut String, name: &str, labels: &[Label], value: &SampleValue) {
    let mut line = |suffix: &str, bound: Option<&str>, value: &str| {
        let bound = bound.map(|bound| ("le", bound));
        let all = labels.iter().map(|(name, value)| (*name, value.as_str())).chain(bound);
        let all: Vec<String> = all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
        let _ = writeln!(text, "{name}{suffix}{labels} {value}");
    };
    match value {
        SampleValue::Count(count) => line("", None, &count.to_string()),
        SampleValue::Number(number) => line("", None, &real(*number)),
        SampleValue::Latencies(latencies) => {
            for doublings in BUCKET_DOUBLINGS {
                // A bound belongs to its bucket, and latencies are whole nanoseconds.
                let bound = bound(seconds((1 << doublings) - 1));
                line("_bucket", Some(&bound), &latencies.samples_below(doublings).to_string());
            }
            line("_bucket", Some("+Inf"), &latencies.samples().to_string());
            line("_count", None, &latencies.samples().to_string());
            line("_sum", None, &real(seconds(latencies.sum_ns())));
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A real number, with a decimal point or an exponent.
fn real(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        number if number.is_infinite() => if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        number => format!("{number:?}"),
    }
}

/// The bound of a bucket, positive and below 1e6, in the canonical form: as Go writes it with `%g`,
/// but with a decimal point.
fn bound(number: f64) -> String {
    if number >= 1e-4 {
        return format!("{number:?}");
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once("e-").expect("a small number has a negative exponent");
    format!("{digits}e-{exponent:0>2}")
}

/// Escapes a help text or the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn family(name: &str, metric_type: MetricType, unit: &'static str) -> MetricFamily {
        MetricFamily { name: name.to_owned(), metric_type, unit, help: format!("What {name} is.") }
    }

    /// Families keep their place, samples stand with their family, and equal labels are added up.
    #[test]
    fn families_and_samples() {
        let mut exposition = Exposition::default();
        let [bytes, level] = [family("a_bytes", MetricType::Counter, "bytes"), family("level", MetricType::Gauge, "")];
        exposition.declare(family("nothing_seconds", MetricType::Gauge, "seconds"));
        exposition.add(bytes.clone(), vec![], SampleValue::Count(1));
        exposition.add(level.clone(), vec![("level", "1".to_owned())], SampleValue::Number(0.5));
        exposition.add(level.clone(), vec![("level", "2".to_owned())], SampleValue::Number(f64::INFINITY));
        exposition.add(bytes, vec![], SampleValue::Count(41));
        exposition.add(level, vec![("level", "1".to_owned())], SampleValue::Number(1.5));
        assert_eq!(
            exposition.text(),
            "\
# TYPE nothing_seconds gauge
# UNIT nothing_seconds seconds
# HELP nothing_seconds What nothing_seconds is.
# TYPE a_bytes counter
# UNIT a_bytes bytes
# HELP a_bytes What a_bytes is.
a_bytes_total 42
# TYPE level gauge
# HELP level What level is.
level{level=\"1\"} 2.0
level{level=\"2\"} +Inf
# EOF
"
        );
    }

    /// Help texts and values of labels may have any characters.
    #[test]
    fn what_has_a_meaning_is_escaped() {
        let mut exposition = Exposition::default();
        let help = "A \"path\":\nC:\\x".to_owned();
        let path = MetricFamily { name: "path".to_owned(), metric_type: MetricType::Gauge, unit: "", help };
        exposition.add(path, vec![("path", "\"\\\n}".to_owned())], SampleValue::Count(1));
        let lines: Vec<String> = exposition.text().lines().map(str::to_owned).collect();
        assert_eq!(lines[1], r#"# HELP path A \"path\":\nC:\\x"#);
        assert_eq!(lines[2], r#"path{path="\"\\\n}"} 1"#);
    }

    /// The buckets of a histogram are cumulative, and each has the latencies up to its bound.
    #[test]
    fn histograms() {
        let mut latencies = Histogram::default();
        for ns in [255, 256, 511, 1_000_000, 3_600_000_000_000] {
            latencies.note(Duration::from_nanos(ns));
        }
        let mut exposition = Exposition::default();
        let family = family("latency_seconds", MetricType::Histogram, "seconds");
        exposition.add(family, vec![("operation", "get".to_owned())], SampleValue::Latencies(latencies));
        let text = exposition.text();
        let buckets: Vec<(f64, u64)> = (text.lines().filter_map(|line| line.split_once("le=\"")))
            .map(|(_, rest)| rest.split_once("\"} ").expect("it has a value"))
            .map(|(bound, count)| (bound.parse().expect("a bound"), count.parse().expect("a count")))
            .collect();
        assert_eq!(buckets.len(), 29);
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{buckets:?}");
        assert_eq!(buckets[..3], [(2.55e-7, 1), (5.11e-7, 3), (1.023e-6, 3)]);
        assert_eq!(buckets[26..], [(17.179_869_183, 4), (34.359_738_367, 4), (f64::INFINITY, 5)]);
        assert!(text.contains("latency_seconds_bucket{operation=\"get\",le=\"2.55e-07\"} 1\n"), "{text}");
        assert!(text.contains("latency_seconds_count{operation=\"get\"} 5\n"), "{text}");
        assert!(text.contains("latency_seconds_sum{operation=\"get\"} 3600.001001022\n"), "{text}");
    }

    /// Numbers are written as the format asks for.
    #[test]
    fn numbers() {
        let written = [0.0, 1.5, 1e300, 1e-9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(real);
        assert_eq!(written, ["0.0", "1.5", "1e300", "1e-9", "NaN", "+Inf", "-Inf"]);
        assert_eq!(
            [1e-10, 1e-5, 2.55e-7, 1e-4, 0.001, 1.0, 10.0].map(bound),
            ["1e-10", "1e-05", "2.55e-07", "0.0001", "0.001", "1.0", "10.0"]
        );
    }
}
