//! Designs next to a design: what a step of the search may lead to.

use crate::filter::{Allocation, FilterChoice, FilterKind};
use crate::policy::{self, Policy};

/// The most bits per entry of a filter.
pub(super) const BITS_MAX: f64 = 64.0;

/// The policy's parameter of this name, if it has one that may be any other.
pub(super) fn parameter(policy: &Policy, name: &str) -> Option<f64> {
    let words = policy.to_string();
    // The ratios of a QLSM-bush are powers of its own, and shapes have none.
    let is_listed = !words.starts_with("qlsm-bush") && !words.starts_with("custom");
    let number = || words.split([':', ',']).find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    if is_listed { number() } else { None }
}

/// This policy with another value of a parameter; `None` if it has none of this name, or not this
/// value.
pub(super) fn with_parameter(policy: &Policy, name: &str, other: f64) -> Option<Policy> {
    parameter(policy, name)?;
    let of_name = |part: &str| part.split_once('=').is_some_and(|(found, _)| found == name);
    let words = policy.to_string();
    let (kind, parameters) = words.split_once(':')?;
    let changed = format!("{name}={other}");
    let parameters: Vec<&str> =
        parameters.split(',').map(|part| if of_name(part) { &changed[..] } else { part }).collect();
    policy::parse(&format!("{kind}:{}", parameters.join(","))).ok()
}

/// Another value of a parameter.
type ParameterStep = fn(f64) -> f64;

/// The policies that differ from this one by a step of one parameter.
pub(super) fn beside(policy: &Policy) -> Vec<Policy> {
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let steps: [(&str, &[ParameterStep]); 4] = [
        (
            "T",
            &[|ratio| ratio - 1.0, |ratio| ratio + 1.0, |ratio| (ratio * 0.75).round(), |ratio| (ratio * 1.5).round()],
        ),
        ("K", &[|runs| runs - 1.0, |runs| runs + 1.0]),
        ("k", &[|runs| runs * 0.7, |runs| runs * 1.4]),
        ("last", &[|part| part - 0.05, |part| part + 0.05]),
    ];
    let of_parameter = |(name, steps): (&'static str, &[ParameterStep])| -> Vec<Policy> {
        let value = parameter(policy, name);
        let values = steps.iter().filter_map(|step| value.map(|value| rounded(step(value))));
        values.filter_map(|other| with_parameter(policy, name, other)).collect()
    };
    steps.into_iter().flat_map(of_parameter).collect()
}

/// The most runs of a level of policies that divide the data into few levels: more of them take
/// long to simulate, and a reader longer.
pub(super) const RUNS_MAX: f64 = 256.0;

/// Policies whose size ratio divides so many memtables into one and into two levels, which are full
/// with some garbage.
pub(super) fn of_few_levels(memtables: f64) -> impl Iterator<Item = Policy> {
    const GARBAGE: f64 = 1.1;
    let ratios = [1.0, 2.0].map(|levels: f64| (GARBAGE * memtables).powf(1.0 / levels).ceil().max(2.0));
    let all = ["leveling", "tiering", "lazy-leveling"].into_iter().flat_map(move |kind| {
        let has_few = move |ratio: &f64| kind == "leveling" || *ratio <= RUNS_MAX;
        ratios.into_iter().filter(has_few).map(move |ratio| format!("{kind}:T={ratio}"))
    });
    all.filter_map(|words| policy::parse(&words).ok())
}

/// So many bits per entry in whole quarters, from one to the most that there may be.
pub(super) fn quarters(bits: f64, whole: fn(f64) -> f64) -> f64 {
    (whole(4.0 * bits) / 4.0).clamp(0.25, BITS_MAX)
}

/// Filters like this one with more and with fewer bits.
pub(super) fn neighbours(filter: FilterChoice) -> Vec<FilterChoice> {
    let each = |kind, bits_per_entry| FilterChoice::Each { kind, bits_per_entry, allocation: Allocation::Monkey };
    match filter {
        FilterChoice::None => [1.0, 2.0].map(|bits| each(FilterKind::Bloom, bits)).to_vec(),
        FilterChoice::Tree { .. } => {
            [11.7, 14.2, 17.9].map(|bits_per_entry| FilterChoice::Tree { bits_per_entry }).to_vec()
        }
        FilterChoice::Each { kind, bits_per_entry, .. } => [0.5, 0.75, 1.0, 1.25, 1.5, 1.75]
            .map(|factor| each(kind, quarters(bits_per_entry * factor, f64::round)))
            .to_vec(),
    }
}
