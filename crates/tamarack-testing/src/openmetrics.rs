//! A strict parser of the OpenMetrics text format, for tests of what writes it.
//!
//! In: a text. Out: its families with their samples, or the first line that breaks a rule, and
//! which one. What the format only permits is refused, if who writes it well does without:
//! samples of families that were not described, other orders of the lines above samples,
//! timestamps, exemplars, bounds of buckets that are not in the canonical form.
//!
//! ```text
//! exposition = *family "# EOF" LF
//! family     = "# TYPE " name SP type LF *metadata *sample
//! metadata   = "# UNIT " name SP unit LF / "# HELP " name SP escaped LF
//! sample     = name ["{" [label *("," label)] "}"] SP number LF
//! label      = label-name "=" DQUOTE escaped DQUOTE
//! escaped    = *(any character but LF, DQUOTE, BS / BS "n" / BS DQUOTE / BS BS)
//! ```
//!
//! Beside the grammar: families are unique and stand together, also with regard to the names that
//! their samples may have; the samples of one set of labels stand together; the suffixes of
//! samples, the values and labels that a type allows; units at the end of names; buckets that are
//! cumulative and have no gap at the end.
//!
//! Format: OpenMetrics 1.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>. That the
//! parser refuses mistakes is tested below.

use std::collections::{BTreeMap, BTreeSet};

/// A family of metrics.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ParsedFamily {
    /// Its name, without suffixes of samples.
    pub name: String,
    /// `counter`, `gauge` and so on.
    pub metric_type: String,
    /// Its unit; empty if it has none.
    pub unit: String,
    /// Its help text, unescaped.
    pub help: String,
    /// Its samples, in their order.
    pub samples: Vec<ParsedSample>,
}

/// Names of labels with their values.
type LabelPairs = Vec<(String, String)>;

/// A sample.
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedSample {
    /// What follows the family's name, such as `_total`.
    pub suffix: String,
    /// Names and unescaped values, in their order.
    pub labels: LabelPairs,
    /// The value.
    pub value: f64,
}

/// Types of families with the suffixes that their samples may have, the empty one included.
const TYPES: &[(&str, &[&str])] = &[
    ("counter", &["_total", "_created"]),
    ("gauge", &[""]),
    ("histogram", &["_bucket", "_count", "_sum", "_created"]),
    ("gaugehistogram", &["_bucket", "_gcount", "_gsum"]),
    ("stateset", &[""]),
    ("info", &["_info"]),
    ("summary", &["", "_count", "_sum", "_created"]),
    ("unknown", &[""]),
];

/// Parses a text in the OpenMetrics format.
///
/// # Errors
/// The number of the first line that breaks a rule, the rule, and the line.
pub fn parse_openmetrics(text: &str) -> Result<Vec<ParsedFamily>, String> {
    let mut families: Vec<ParsedFamily> = Vec::new();
    let mut lines = (1..).zip(text.split_inclusive('\n'));
    while let Some((number, line)) = lines.next() {
        let broken = |rule: &str| format!("line {number}: {rule}: {line:?}");
        let line = line.strip_suffix('\n').ok_or_else(|| broken("a line ends with a line feed"))?;
        if line == "# EOF" {
            if let Some((number, line)) = lines.next() {
                return Err(format!("line {number}: nothing follows `# EOF`: {line:?}"));
            }
            check_names(&families)?;
            families.iter().try_for_each(check_family)?;
            return Ok(families);
        }
        add(&mut families, line).map_err(|rule| broken(&rule))?;
    }
    Err("the last line is `# EOF`".to_owned())
}

/// Adds a line to the last family, or begins another one.
fn add(families: &mut Vec<ParsedFamily>, line: &str) -> Result<(), String> {
    if line.contains('\r') {
        return Err("there are no carriage returns".to_owned());
    }
    let Some(metadata) = line.strip_prefix('#') else { return add_sample(families, line) };
    let mut parts = metadata.splitn(4, ' ');
    let ("", Some(keyword), Some(name), Some(value)) =
        (parts.next().unwrap_or("#"), parts.next(), parts.next(), parts.next())
    else {
        return Err("`#` is followed by TYPE, UNIT or HELP, a name and a value, with one space before each".to_owned());
    };
    if !is_name(name, ":") || name.starts_with('_') {
        return Err("a name of a metric has letters, digits and underscores, and begins with a letter".to_owned());
    }
    if keyword == "TYPE" {
        if families.iter().any(|family| family.name == name) {
            return Err("a family is described once".to_owned());
        }
        if !TYPES.iter().any(|(metric_type, _)| *metric_type == value) {
            return Err("there is no such type".to_owned());
        }
        families.push(ParsedFamily { name: name.to_owned(), metric_type: value.to_owned(), ..ParsedFamily::default() });
        return Ok(());
    }
    let family = families.last_mut().filter(|family| family.name == name);
    let family = family.ok_or("lines about a family follow its type")?;
    if !family.samples.is_empty() || !family.help.is_empty() {
        return Err("the order is TYPE, UNIT, HELP, samples, each at most once".to_owned());
    }
    match keyword {
        "UNIT" if !family.unit.is_empty() => Err("a family has one unit".to_owned()),
        "UNIT" if !value.is_empty() && name.ends_with(&format!("_{value}")) => {
            family.unit = value.to_owned();
            Ok(())
        }
        "UNIT" => Err("the unit is the end of the name".to_owned()),
        "HELP" => {
            family.help = unescaped(value)?;
            if family.help.is_empty() { Err("a help text says something".to_owned()) } else { Ok(()) }
        }
        _ => Err("only TYPE, UNIT, HELP and EOF follow `#`".to_owned()),
    }
}

/// True if `name` has letters, digits, underscores and the other characters only, and does not
/// begin with a digit.
fn is_name(name: &str, others: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || others.contains(c);
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn unescaped(text: &str) -> Result<String, String> {
    let (mut unescaped, mut characters) = (String::new(), text.chars());
    while let Some(character) = characters.next() {
        unescaped.push(match character {
            '"' => return Err("a quote is escaped".to_owned()),
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some(escaped @ ('"' | '\\')) => escaped,
                _ => return Err("a backslash is followed by `n`, a quote or a backslash".to_owned()),
            },
            other => other,
        });
    }
    Ok(unescaped)
}

fn add_sample(families: &mut [ParsedFamily], line: &str) -> Result<(), String> {
    let name_end = line.find(['{', ' ']).ok_or("a sample has a value")?;
    let (name, rest) = line.split_at(name_end);
    let (labels, value) = labels(rest)?;
    let value = value.strip_prefix(' ').ok_or("one space stands before the value")?;
    let value = number(value)?;
    let family = families.last_mut().filter(|family| name.starts_with(&family.name));
    let family = family.ok_or("the samples of a family stand together, below its type")?;
    let suffix = &name[family.name.len()..];
    let (_, suffixes) = TYPES.iter().find(|(name, _)| *name == family.metric_type).expect("types are checked");
    if !suffixes.contains(&suffix) {
        return Err(format!("the samples of a {} end in {}", family.metric_type, suffixes.join(" or ")));
    }
    let sample = ParsedSample { suffix: suffix.to_owned(), labels, value };
    check_sample(family, &sample)?;
    family.samples.push(sample);
    Ok(())
}

/// The labels at the beginning of `text`, which may have none, and what follows.
fn labels(text: &str) -> Result<(LabelPairs, &str), String> {
    let mut labels = LabelPairs::new();
    let Some(mut rest) = text.strip_prefix('{') else { return Ok((labels, text)) };
    if let Some(rest) = rest.strip_prefix('}') {
        return Ok((labels, rest));
    }
    loop {
        let (name, quoted) = rest.split_once("=\"").ok_or("a label is name=\"value\"")?;
        if !is_name(name, "") || name.starts_with('_') {
            return Err("a name of a label has letters, digits and underscores, and begins with a letter".to_owned());
        }
        if labels.iter().any(|(other, _)| other == name) {
            return Err("a label occurs once".to_owned());
        }
        let end = end_of_quoted(quoted).ok_or("a value of a label ends with a quote")?;
        labels.push((name.to_owned(), unescaped(&quoted[..end])?));
        rest = &quoted[end + 1..];
        match rest.as_bytes().first() {
            Some(b',') => rest = &rest[1..],
            Some(b'}') => return Ok((labels, &rest[1..])),
            _ => return Err("a comma or a brace follows a label; quotes in its value are escaped".to_owned()),
        }
    }
}

/// The place of the first quote that is not escaped.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end.then_some(at)
    })
}

fn number(text: &str) -> Result<f64, String> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_word =
        ["inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) || text.eq_ignore_ascii_case("nan");
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_real = are_digits(whole) && are_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let is_exponent = |text: &str| {
        are_digits(text.strip_prefix(['-', '+']).unwrap_or(text)) && text.ends_with(|c: char| c.is_ascii_digit())
    };
    if is_word || (is_real && exponent.is_none_or(is_exponent)) {
        return text.parse().map_err(|error| format!("{error}"));
    }
    Err("a value is a number, and nothing follows it".to_owned())
}

/// Checks what a sample may be in its family, and that it stands with those of its labels.
fn check_sample(family: &ParsedFamily, sample: &ParsedSample) -> Result<(), String> {
    let ParsedFamily { metric_type, .. } = family;
    let ParsedSample { suffix, labels, value } = sample;
    let is_bucket = suffix == "_bucket";
    let bound = labels.iter().find(|(name, _)| name == "le");
    if metric_type.ends_with("histogram") && is_bucket != bound.is_some() {
        return Err("the buckets of a histogram, and nothing else, have a bound `le`".to_owned());
    }
    if let (true, Some((_, bound))) = (is_bucket, bound)
        && (!is_canonical(bound) || bound == "NaN")
    {
        return Err("a bound is in its canonical form".to_owned());
    }
    let is_count = is_bucket || suffix.ends_with("count");
    if is_count && (value.fract() != 0.0 || *value < 0.0 || !value.is_finite()) {
        return Err("a count is a whole number, and not negative".to_owned());
    }
    if (suffix == "_total" || suffix == "_sum") && (value.is_nan() || *value < 0.0) {
        return Err("a counter is not negative, and a number".to_owned());
    }
    if (metric_type == "info" && *value != 1.0) || (metric_type == "stateset" && ![0.0, 1.0].contains(value)) {
        return Err("an info is 1, and a state 0 or 1".to_owned());
    }
    if family.samples.iter().any(|other| other.suffix == *suffix && set(&other.labels) == set(labels)) {
        return Err("a sample occurs once".to_owned());
    }
    let is_of_metric = |other: &ParsedSample| metric(other) == metric(sample);
    let first = family.samples.iter().position(is_of_metric).unwrap_or(family.samples.len());
    if !family.samples[first..].iter().all(is_of_metric) {
        return Err("the samples of one set of labels stand together".to_owned());
    }
    Ok(())
}

fn set(labels: &[(String, String)]) -> BTreeSet<&(String, String)> {
    labels.iter().collect()
}

/// The labels of a sample without those that tell apart the parts of a histogram or a summary.
fn metric(sample: &ParsedSample) -> BTreeSet<&(String, String)> {
    sample.labels.iter().filter(|(name, _)| name != "le" && name != "quantile").collect()
}

/// True if a bound is written as Go writes it with `%g`, but always with a decimal point or an
/// exponent.
fn is_canonical(bound: &str) -> bool {
    if bound == "+Inf" {
        return true;
    }
    let Ok(number) = bound.parse::<f64>() else { return false };
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let expected = if number == 0.0 || (-4..6).contains(&exponent) {
        format!("{number:?}")
    } else {
        format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
    expected == bound
}

/// Checks that no sample of one family could be taken for one of another.
fn check_names(families: &[ParsedFamily]) -> Result<(), String> {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for family in families {
        let (_, suffixes) = TYPES.iter().find(|(name, _)| *name == family.metric_type).expect("types are checked");
        // The name itself belongs to the family also if no sample has it.
        let names: BTreeSet<String> =
            suffixes.iter().chain(&[""]).map(|suffix| format!("{}{suffix}", family.name)).collect();
        for name in names {
            if let Some(other) = taken.insert(name.clone(), &family.name) {
                return Err(format!("{name} could be a sample of {other} and of {}", family.name));
            }
        }
    }
    Ok(())
}

/// Checks a family as a whole.
fn check_family(family: &ParsedFamily) -> Result<(), String> {
    let ParsedFamily { name, metric_type, unit, samples, .. } = family;
    if !unit.is_empty() && ["info", "stateset"].contains(&metric_type.as_str()) {
        return Err(format!("{name}: an info or a stateset has no unit"));
    }
    if metric_type != "histogram" {
        return Ok(());
    }
    for labels in samples.iter().map(metric).collect::<BTreeSet<_>>() {
        let own: Vec<&ParsedSample> = samples.iter().filter(|sample| metric(sample) == labels).collect();
        check_histogram(&own).map_err(|rule| format!("{name}: {rule}: {labels:?}"))?;
    }
    Ok(())
}

/// Checks a histogram of one set of labels.
fn check_histogram(samples: &[&ParsedSample]) -> Result<(), String> {
    let of = |suffix: &str| samples.iter().find(|sample| sample.suffix == suffix).map(|sample| sample.value);
    let mut buckets = Vec::new();
    for bucket in samples.iter().filter(|sample| sample.suffix == "_bucket") {
        let bound = bucket.labels.iter().find(|(name, _)| name == "le").expect("buckets have bounds");
        buckets.push((bound.1.parse::<f64>().map_err(|error| format!("{error}"))?, bucket.value));
    }
    if !buckets.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        return Err("bounds of buckets ascend".to_owned());
    }
    if !buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1) {
        return Err("buckets are cumulative".to_owned());
    }
    let Some((f64::INFINITY, all)) = buckets.last().copied() else {
        return Err("the last bucket has the bound +Inf".to_owned());
    };
    if of("_count") != Some(all) || of("_sum").is_none() {
        return Err("the count is that of the last bucket, and there is a sum".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"# TYPE puts counter
# HELP puts How many \"puts\".
puts_total 17
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
# HELP wait_seconds How long.
wait_seconds_bucket{kind="a",le="1e-05"} 1
wait_seconds_bucket{kind="a",le="0.5"} 2
wait_seconds_bucket{kind="a",le="+Inf"} 3
wait_seconds_count{kind="a"} 3
wait_seconds_sum{kind="a"} 7.5
wait_seconds_bucket{kind="b",le="+Inf"} 0
wait_seconds_count{kind="b"} 0
wait_seconds_sum{kind="b"} 0.0
# TYPE level gauge
# HELP level Levels.
level{path="C:\\x\n\"}",n="1"} -1.5e+3
level{path="",n="2"} +Inf
level{path="",n="3"} NaN
# TYPE build info
build_info{version="1"} 1
# TYPE nothing gauge
# EOF
"#;

    /// What is there is found.
    #[test]
    fn families_and_samples() {
        let families = parse_openmetrics(GOOD).expect("it is good");
        let names: Vec<&str> = families.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names, ["puts", "wait_seconds", "level", "build", "nothing"]);
        assert_eq!(families[0].help, "How many \"puts\".");
        assert_eq!((families[1].unit.as_str(), families[1].samples.len()), ("seconds", 8));
        let level = &families[2].samples[0];
        assert_eq!(level.labels, [("path".to_owned(), "C:\\x\n\"}".to_owned()), ("n".to_owned(), "1".to_owned())]);
        assert_eq!((level.value, families[2].samples[1].value), (-1500.0, f64::INFINITY));
        assert_eq!(parse_openmetrics("# EOF\n"), Ok(vec![]));
    }

    /// Each change of the good text is refused, by its rule.
    #[test]
    fn mistakes_are_refused() {
        for (good, bad, rule) in [
            ("puts_total 17", "puts 17", "end in _total"),
            ("puts_total 17", "puts_total -1", "not negative"),
            ("puts_total 17", "puts_total NaN", "not negative"),
            ("puts_total 17", "puts_total 17 1520879607", "nothing follows"),
            ("puts_total 17", "puts_total  17", "a number"),
            ("puts_total 17", "puts_total 1_7", "a number"),
            ("puts_total 17", "puts_total .", "a number"),
            ("puts_total 17", "puts_total 1e", "a number"),
            ("puts_total 17", "puts_total 17\nputs_total 17", "occurs once"),
            ("puts_total 17", "puts_total 17\n", "a sample has a value"),
            ("puts_total 17", "puts_total 17\r", "carriage"),
            ("# EOF\n", "", "last line is `# EOF`"),
            ("# EOF\n", "# EOF", "line feed"),
            ("# EOF\n", "# EOF\n# EOF\n", "nothing follows"),
            ("# EOF\n", "# TYPE puts counter\n# EOF\n", "described once"),
            ("# EOF\n", "puts_total{a=\"b\"} 1\n# EOF\n", "stand together"),
            ("# EOF\n", "other 1\n# EOF\n", "stand together"),
            ("# EOF\n", "# a comment\n# EOF\n", "followed by TYPE"),
            ("# EOF\n", "# MORE nothing x\n# EOF\n", "only TYPE"),
            ("# EOF\n", "# TYPE puts_total gauge\n# EOF\n", "could be a sample"),
            ("# EOF\n", "# TYPE wait_seconds_sum counter\n# EOF\n", "could be a sample"),
            ("# EOF\n", "# TYPE 9lives gauge\n# EOF\n", "a name of a metric"),
            ("# EOF\n", "# TYPE a-b gauge\n# EOF\n", "a name of a metric"),
            ("# EOF\n", "# TYPE more number\n# EOF\n", "no such type"),
            ("How many \\\"puts\\\".", "How many \"puts\".", "a quote is escaped"),
            ("How many \\\"puts\\\".", "How many \\puts.", "a backslash is followed"),
            ("# HELP puts How many \\\"puts\\\".\n", "# HELP puts \n", "says something"),
            ("# HELP level Levels.\n", "# HELP level Levels.\n# HELP level Levels.\n", "at most once"),
            ("# HELP level Levels.\n", "# HELP puts Levels.\n", "follow its type"),
            ("# HELP wait_seconds How long.\n", "# UNIT wait_seconds seconds\n", "one unit"),
            (
                "# UNIT wait_seconds seconds\n# HELP wait_seconds How long.\n",
                "# HELP wait_seconds How long.\n# UNIT wait_seconds seconds\n",
                "the order is",
            ),
            ("# UNIT wait_seconds seconds", "# UNIT wait_seconds ms", "end of the name"),
            (r#"path="C:\\x"#, r#"path="C:"\\x"#, "quotes in its value are escaped"),
            (r#"path="C:\\x"#, r#"path="C:\x"#, "a backslash is followed"),
            (r#",n="1"}"#, r#",n="1""#, "a comma or a brace"),
            (r#",n="1""#, r#",path="1""#, "a label occurs once"),
            (r#",n="1""#, r#", n="1""#, "a name of a label"),
            (r#",n="1""#, r#",__n="1""#, "a name of a label"),
            (r#",n="1""#, r#",n='1'"#, "name=\"value\""),
            ("build_info{version=\"1\"} 1", "build_info{version=\"1\"} 2", "an info is 1"),
            ("build_info{version=\"1\"} 1", "build{version=\"1\"} 1", "end in _info"),
            (
                "wait_seconds_bucket{kind=\"a\",le=\"0.5\"} 2",
                "wait_seconds_bucket{kind=\"a\",le=\"0.5\"} 0",
                "cumulative",
            ),
            (
                "wait_seconds_bucket{kind=\"a\",le=\"0.5\"} 2",
                "wait_seconds_bucket{kind=\"a\",le=\"0.5\"} 1.5",
                "whole number",
            ),
            (
                "wait_seconds_bucket{kind=\"a\",le=\"0.5\"} 2",
                "wait_seconds_bucket{kind=\"a\",le=\"1e-06\"} 2",
                "ascend",
            ),
            ("le=\"1e-05\"", "le=\"0.00001\"", "canonical"),
            ("le=\"0.5\"", "le=\"5\"", "canonical"),
            ("le=\"0.5\"", "le=\"1000000.0\"", "canonical"),
            ("wait_seconds_bucket{kind=\"a\",le=\"+Inf\"} 3\n", "", "+Inf"),
            ("wait_seconds_count{kind=\"a\"} 3", "wait_seconds_count{kind=\"a\"} 4", "that of the last bucket"),
            ("wait_seconds_sum{kind=\"a\"} 7.5\n", "", "there is a sum"),
            ("wait_seconds_sum{kind=\"a\"} 7.5", "wait_seconds_sum{kind=\"a\",le=\"1.0\"} 7.5", "have a bound"),
            ("wait_seconds_count{kind=\"b\"} 0", "wait_seconds_count{kind=\"a\"} 0", "occurs once"),
            (
                "wait_seconds_bucket{kind=\"b\",le=\"+Inf\"} 0\n",
                "wait_seconds_bucket{kind=\"b\",le=\"+Inf\"} 0\nwait_seconds_created{kind=\"a\"} 1\n",
                "one set of labels",
            ),
        ] {
            assert_eq!(GOOD.matches(good).count(), 1, "{good} stands once in the good text");
            let refused = parse_openmetrics(&GOOD.replace(good, bad)).expect_err(bad);
            assert!(refused.contains(rule), "{bad} is refused because of another rule: {refused}");
        }
    }

    /// A text that was cut anywhere is refused: it lacks its end.
    #[test]
    fn what_is_cut_is_refused() {
        for end in (0..GOOD.len()).filter(|end| GOOD.is_char_boundary(*end)) {
            assert!(parse_openmetrics(&GOOD[..end]).is_err(), "{}", &GOOD[..end]);
        }
    }
}
