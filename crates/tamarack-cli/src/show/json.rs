//! Results as JSON objects.

use serde_json::{Map, Value};
use tamarack::{Figure, Percentiles, Statistic};

use crate::text;

/// An object with these members.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// An object with these statistics by name.
pub(crate) fn figures(figures: Vec<(&Statistic, Figure)>) -> Map<String, Value> {
    figures.into_iter().map(|(row, figure)| (row.name.to_owned(), value(figure))).collect()
}

/// A statistic's value; JSON has no infinity, so an infinite number is null.
fn value(figure: Figure) -> Value {
    match figure {
        Figure::Flag(flag) => flag.into(),
        Figure::Count(count) => count.into(),
        Figure::Number(number) => number.into(),
        Figure::Text(text) => text.into(),
        Figure::Latencies(latencies) => figures(Percentiles::of(&latencies).figures()).into(),
        Figure::Group(group) => figures(group).into(),
        Figure::List(list) => list.into_iter().map(value).collect(),
        _ => Value::Null,
    }
}

/// The object of one record.
pub(crate) fn record(key: &[u8], value: &[u8]) -> Map<String, Value> {
    [bytes_member("key", key), bytes_member("value", value)].into_iter().collect()
}

/// The member that holds `bytes`: `name` if they are text, else `name_hex` with pairs of
/// hexadecimal digits.
pub(crate) fn bytes_member(name: &str, bytes: &[u8]) -> (String, Value) {
    match str::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), text.into()),
        Err(_) => (format!("{name}_hex"), text::to_hex(bytes).into()),
    }
}
