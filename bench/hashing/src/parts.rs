//! The time of a lookup by its parts, on a clock that is read between them.

use common::numbers::median;
use tamarack::Result;
use tamarack::measure::{Hash, Hashed, LookupPart, PARTS, begin, hash_with, set_clock, take_parts};

use crate::clock::nanoseconds;
use crate::trees::{Device, Tree};

/// One line of the report, in nanoseconds for each lookup.
pub struct Row {
    pub device: Device,
    pub found: u64,
    /// In the order of [`PARTS`]; the time between two readings of the clock with nothing in
    /// between is subtracted.
    pub parts: [f64; PARTS.len()],
    /// What is in no part; looking at the clock is taken off.
    pub rest: f64,
    /// The same lookups without a clock.
    pub whole: f64,
    /// How often each part was entered.
    pub entered: [f64; PARTS.len()],
}

/// Measures lookups that all find something, and such that find nothing.
pub fn measure(tree: &mut Tree, device: Device, rounds: u64) -> Result<Vec<Row>> {
    hash_with(Hash::Digest, Hashed::Once);
    tree.open(device)?;
    let (empty, outside) = empty_part();
    let row = |found| {
        let lookups = if device == Device::Memory { 500 } else { 200 };
        let (mut parts, mut rest, mut whole) = ([const { Vec::new() }; PARTS.len()], Vec::new(), Vec::new());
        let mut entered = [0.0; PARTS.len()];
        for round in 0..rounds {
            whole.push(tree.take(lookups, 2 * round * lookups, found)?.ns);
            take_parts();
            set_clock(Some(nanoseconds));
            let taken = tree.take(lookups, (2 * round + 1) * lookups, found);
            set_clock(None);
            let mut left = taken?.ns;
            for (nth, (sum, count)) in take_parts().into_iter().enumerate() {
                let part = (sum as f64 - count as f64 * empty) / lookups as f64;
                parts[nth].push(part);
                left -= part + count as f64 * outside / lookups as f64;
                entered[nth] += count as f64 / (lookups * rounds) as f64;
            }
            rest.push(left);
        }
        let middle = |values: Vec<f64>| median(values.into_iter());
        let (parts, rest, whole) = (parts.map(middle), middle(rest), middle(whole));
        Ok(Row { device, found, parts, rest, whole, entered })
    };
    let rows = [row(100)?, row(0)?];
    tree.close();
    Ok(rows.into())
}

/// A part in which nothing happens, in nanoseconds: as it counts, and what it takes in all.
fn empty_part() -> (f64, f64) {
    const TIMES: u64 = 1000;
    set_clock(Some(nanoseconds));
    let mut taken = [const { Vec::new() }; 2];
    for _ in 0..15 {
        take_parts();
        let began = nanoseconds();
        (0..TIMES).for_each(|_| begin(LookupPart::Hash).end());
        taken[1].push((nanoseconds() - began) as f64 / TIMES as f64);
        taken[0].push(take_parts()[0].0 as f64 / TIMES as f64);
    }
    set_clock(None);
    // The least: others on the machine only make it more.
    let [counted, whole] = taken.map(|taken| taken.into_iter().fold(f64::INFINITY, f64::min));
    (counted, whole)
}
