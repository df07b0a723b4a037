//! Seeds of randomised tests, from the environment.

use std::ops::Range;

/// Returns the number in an environment variable, decimal or as `0x…`; `None` if it is not set.
///
/// # Panics
/// If it is not a number.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    Some(parsed.unwrap_or_else(|error| panic!("{name}={text} is not a number: {error}")))
}

/// Returns the seed in `TAMARACK_SEED`, or `default`, and prints it: a failed test shows it.
pub fn seed(default: u64) -> u64 {
    let seed = number("TAMARACK_SEED").unwrap_or(default);
    println!("TAMARACK_SEED={seed}");
    seed
}

/// Returns the seeds to try: the one in `TAMARACK_SEED`, or as many as `TAMARACK_ROUNDS` says, or
/// `rounds`.
pub fn seeds(rounds: u64) -> Range<u64> {
    match number("TAMARACK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TAMARACK_ROUNDS").unwrap_or(rounds),
    }
}
