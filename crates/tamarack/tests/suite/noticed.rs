//! Planted mistakes that random histories notice.

use tamarack::Result;
use tamarack::mistake::{self, Mistake};

/// Checks that one of the first `histories_max` histories goes wrong with a planted mistake, and
/// not without it. A history is made of a seed; a wrong answer is an error of the second kind.
///
/// # Panics
/// If none does.
pub(crate) fn is_noticed<T>(
    mistake: Mistake,
    histories_max: u64,
    history: impl Fn(u64) -> Result<std::result::Result<T, String>>,
) {
    let wrong = |seed: &u64| mistake::with(mistake, || history(*seed)).expect("memory does not fail").is_err();
    let seed = (0..histories_max).find(wrong);
    let seed = seed.unwrap_or_else(|| panic!("{mistake:?} is not noticed by {histories_max} histories"));
    println!("{mistake:?} is noticed by history {seed}");
    assert!(history(seed).expect("memory does not fail").is_ok(), "it passes without the mistake");
}
