//! What measurements of reads draw keys with.

pub use tamarack_env::random::mixed as scattered;

use tamarack_env::Random;

/// The exponent of Zipf's law, as YCSB has it.
const EXPONENT: f64 = 0.99;

/// Draws ranks from 0 by YCSB's approximation (Gray et al., "Quickly generating billion-record
/// synthetic databases").
pub struct Zipf {
    count: f64,
    sum: f64,
    sum_of_two: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks below `count`.
    pub fn new(count: u64) -> Self {
        let sum = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-EXPONENT)).sum::<f64>();
        let (all, sum_of_two) = (sum(count), sum(2));
        let count = count as f64;
        let eta = (1.0 - (2.0 / count).powf(1.0 - EXPONENT)) / (1.0 - sum_of_two / all);
        Self { count, sum: all, sum_of_two, eta }
    }

    /// The next one.
    pub fn rank(&self, random: &Random) -> u64 {
        let u = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        match u * self.sum {
            place if place < 1.0 => 0,
            place if place < self.sum_of_two => 1,
            _ => {
                let rank = self.count * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - EXPONENT));
                (rank as u64).min(self.count as u64 - 1)
            }
        }
    }
}
