//! [`AxisScale`]: where values stand on an axis, and its ticks.

use crate::show::table::grouped;

/// The least ratio of values for which an axis is logarithmic: from there on, two ticks of three
/// (1, 2, 5, 10 …) lie between them.
const RATIO_MIN: f64 = 8.0;

/// The greatest such ratio. Costs that a cache brings near 0 would stretch the axis over decades
/// that nobody asks for.
const RATIO_MAX: f64 = 1e5;

/// The part of an axis that stays free at either end.
const MARGIN: f64 = 0.04;

/// An axis from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AxisScale {
    /// The ends: logarithms on a logarithmic axis.
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl AxisScale {
    /// An axis for these values, which are not negative.
    pub(super) fn new(values: impl Iterator<Item = f64>) -> Self {
        let (least, most) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
        if least > most {
            return Self { from: 0.0, to: 1.0, is_logarithmic: false };
        }
        let is_logarithmic = least > 0.0 && (RATIO_MIN..=RATIO_MAX).contains(&(most / least));
        let [low, high] = [least, most].map(|value| if is_logarithmic { value.ln() } else { value });
        // One value alone stands in the middle.
        let margin = if low == high { (low / 2.0).max(0.5) } else { (high - low) * MARGIN };
        let from = if is_logarithmic { low - margin } else { (low - margin).max(0.0) };
        Self { from, to: high + margin, is_logarithmic }
    }

    /// True if equal ratios have equal lengths.
    pub(super) fn is_logarithmic(&self) -> bool {
        self.is_logarithmic
    }

    /// The place of a value, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic { value.ln() } else { value };
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Round numbers on the axis, ascending: the most of a kind (1, 2, 5, 10 …) that are not more
    /// than `most`.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let kinds: Vec<Vec<f64>> = if self.is_logarithmic {
            let digits: [&[u32]; 4] = [&[1, 2, 3, 4, 5, 6, 8], &[1, 2, 5], &[1, 3], &[1]];
            let coarser = [2, 3].map(|step| self.decades_by(step));
            digits.map(|digits| self.decades(digits)).into_iter().chain(coarser).collect()
        } else {
            // The first steps are too small.
            let finest = power_of_ten(self.to - self.from) - 2;
            let steps = (finest..finest + 4).flat_map(|power| [1, 2, 5].map(|digit| (digit, power)));
            steps.map(|(digit, power)| self.multiples(digit, power)).collect()
        };
        kinds.into_iter().find(|ticks| ticks.len() <= most).unwrap_or_default()
    }

    /// The numbers with these first digits, on a logarithmic axis.
    fn decades(&self, digits: &[u32]) -> Vec<f64> {
        let powers = power_of_ten(self.from.exp())..=power_of_ten(self.to.exp());
        let numbers = powers.flat_map(|power| digits.iter().map(move |digit| rounded(f64::from(*digit), power)));
        numbers.filter(|number| (self.from..=self.to).contains(&number.ln())).collect()
    }

    /// The powers of ten whose exponents this is a factor of, on a logarithmic axis.
    fn decades_by(&self, step: usize) -> Vec<f64> {
        let is_one = |number: &f64| power_of_ten(*number).rem_euclid(step as i32) == 0;
        self.decades(&[1]).into_iter().filter(is_one).collect()
    }

    /// The multiples of `digit × 10^power`, on a linear axis.
    fn multiples(&self, digit: u32, power: i32) -> Vec<f64> {
        let step = rounded(f64::from(digit), power);
        let times = (self.from / step).ceil() as i64..=(self.to / step).floor() as i64;
        times.map(|times| rounded(times as f64 * f64::from(digit), power)).collect()
    }
}

/// The greatest n for which `10^n` is at most a number above 0.
fn power_of_ten(number: f64) -> i32 {
    // The logarithm of a power of ten may be a little less than whole.
    (number.ln() / std::f64::consts::LN_10 + 1e-12).floor() as i32
}

/// `number × 10^power` without the error of a negative power.
fn rounded(number: f64, power: i32) -> f64 {
    if power < 0 { number / 10_f64.powi(-power) } else { number * 10_f64.powi(power) }
}

/// A tick's number: `0.005`, `2`, `1.5`, `20,000`.
pub(super) fn label(number: f64) -> String {
    if number >= 1000.0 {
        return grouped(number.round() as u64);
    }
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamarack_testing::{Random, seeds};

    fn scale(values: &[f64]) -> AxisScale {
        AxisScale::new(values.iter().copied())
    }

    fn labels(values: &[f64], most: usize) -> Vec<String> {
        scale(values).ticks(most).into_iter().map(label).collect()
    }

    /// Values of one magnitude have a linear axis, others a logarithmic one, unless they reach 0.
    #[test]
    fn kinds_of_axes() {
        let is_logarithmic = |values: &[f64]| scale(values).is_logarithmic();
        assert!(is_logarithmic(&[1.0, 8.0]) && is_logarithmic(&[1e-3, 1.0]));
        for values in [&[1.0, 7.9][..], &[0.0, 8.0], &[1e-9, 1.0], &[3.0], &[]] {
            assert!(!is_logarithmic(values), "{values:?}");
        }
    }

    /// Ticks are round numbers, as many as fit.
    #[test]
    fn round_ticks() {
        assert_eq!(labels(&[1.0, 10.0], 7), ["1", "2", "5", "10"]);
        assert_eq!(labels(&[1.0, 10.0], 8), ["1", "2", "3", "4", "5", "6", "8", "10"]);
        assert_eq!(labels(&[0.02, 30.0], 12), ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20"]);
        assert_eq!(labels(&[0.02, 30.0], 5), ["0.1", "1", "10"]);
        assert_eq!(labels(&[1.02, 1.3], 6), ["1.05", "1.1", "1.15", "1.2", "1.25", "1.3"]);
        assert_eq!(labels(&[0.0, 1.0], 6), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(&[15_000.0, 40_000.0], 4), ["20,000", "30,000", "40,000"]);
    }

    /// Random values: places ascend with values and stay on the axis; ticks lie within it and are
    /// two or more.
    #[test]
    fn places_and_ticks() {
        for seed in seeds(2_000) {
            let mut random = Random::new(seed);
            let magnitude = (random.fraction() * 30.0 - 15.0).exp();
            let spread = 12.0 * random.fraction();
            let mut values: Vec<f64> =
                (0..2 + random.below(20)).map(|_| magnitude * (spread * random.fraction()).exp()).collect();
            values.sort_by(f64::total_cmp);
            let scale = scale(&values);
            let places: Vec<f64> = values.iter().map(|value| scale.place(*value)).collect();
            assert!(places.is_sorted() && places.iter().all(|place| (0.0..=1.0).contains(place)), "seed {seed}");
            for most in 3..12 {
                let ticks = scale.ticks(most);
                let forward = |tick: f64| if scale.is_logarithmic() { tick.ln() } else { tick };
                let slack = 1e-9 * (scale.to - scale.from);
                let is_there = |tick: &f64| (scale.from - slack..=scale.to + slack).contains(&forward(*tick));
                assert!(ticks.len() <= most && ticks.is_sorted() && ticks.iter().all(is_there), "seed {seed}");
                assert!(ticks.len() >= 2 || most < 5, "seed {seed}: {ticks:?} of at most {most}, {scale:?}");
            }
        }
    }
}
