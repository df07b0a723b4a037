//! Full levels, full runs, and the runs that an arriving batch joins: rules 1 and 3.
//!
//! **Half a batch.** Batches vary in size, so no level is filled to the byte. A capacity stands for
//! the nearest whole number of batches ([`Shape::batches`]), and a level is full once at most half
//! a batch of that number is missing ([`Shape::full_from`]): a level that is 2 % short does not
//! wait for another batch.
//!
//! These are the batches that arrive if each flush has the memtable's size, not nominal ones: a
//! level with a ratio of 5.7 passes on six of its batches. And the half batch is subtracted from
//! the whole number of them, not from the capacity: with a ratio of 2.5 (Garnering's T/c), two
//! batches would otherwise tie, decided by the odd bytes of a batch or of a rounded capacity.
//!
//! **A fair slot.** A level at rest holds its capacity less about one batch, since the batch that
//! fills it is never written there. The youngest run's slot is an equal part of what older runs
//! leave of that: (capacity - ¾ batch - older runs) / (slots - older runs); the run is full when it
//! is larger than that less half a batch. With nominal batches and a whole number s of them to a
//! slot, it is full with s batches. If s is not whole (10 batches in 7 slots), comparing each run
//! with capacity / slots would round every run down to one batch and need nine slots; the fair slot
//! gives 1, 1, 1, 2, 1, 2, 1. The same rule absorbs batches that are always a little small, and
//! runs of odd sizes after a change of shape.
//!
//! Three quarters, and not one batch: otherwise two slots for eight batches (3.5 each) would be a
//! tie between 3, 4 and 4, 3, decided by the odd bytes of a batch. With a quarter to either side no
//! whole numbers tie.
//!
//! **Slots are kept.** A batch that finds no free slot joins the youngest run, full or not. A level
//! therefore never has more runs than slots, unless a run was busy or a change of shape left more
//! runs. Then the next batch takes along as many of the youngest runs as needed for the slots to
//! suffice.
//!
//! **Small runs give up their slots.** A batch that joins runs also takes along the next older ones
//! while each is less than a third of the total. Evenly spread batches never leave such runs: a run
//! has at least k batches when the next younger one has k + 1, and their sizes vary. Small runs
//! remain in a level that has grown since, as MOOSE's last level does repeatedly: its oldest run
//! would keep a slot for ever with the few bytes that the level once had, and all later batches
//! would be rewritten with the other runs. Taking it along costs less than a third more, once.

use crate::planner::view::RunView;
use crate::shape::Shape;

/// Returns true if a level of this many bytes is full.
pub fn is_level_full(shape: &Shape, number: usize, bytes: u64) -> bool {
    bytes >= shape.full_from(number).0
}

/// Returns true if a level of this many bytes is more than full: half a nominal batch above its
/// capacity.
pub(super) fn is_level_overfull(shape: &Shape, number: usize, bytes: u64) -> bool {
    let (capacity, batch) = (shape.level(number).capacity.0, shape.nominal_batch(number).0);
    2 * u128::from(bytes) > 2 * u128::from(capacity) + u128::from(batch)
}

/// The number of youngest runs that a batch of this size joins when it arrives at a level and does
/// not fill it.
pub(super) fn runs_to_join(shape: &Shape, number: usize, runs: &[RunView], batch: u64) -> usize {
    let slots = shape.level(number).runs as usize;
    let for_slots = (runs.len() + 1).saturating_sub(slots);
    let for_active = usize::from(!runs.is_empty() && !is_youngest_full(shape, number, runs));
    let mut count = for_slots.max(for_active);
    if count > 0 {
        let mut merged = runs[..count].iter().fold(u128::from(batch), |sum, run| sum + u128::from(run.bytes));
        while let Some(run) = runs.get(count).filter(|run| 3 * u128::from(run.bytes) < merged) {
            merged += u128::from(run.bytes);
            count += 1;
        }
    }
    count
}

/// Returns true if the youngest of these runs fills its slot, so that the next batch opens another.
fn is_youngest_full(shape: &Shape, number: usize, runs: &[RunView]) -> bool {
    let (youngest, older) = runs.split_first().expect("a youngest run");
    let slots_left = u128::from(shape.level(number).runs).saturating_sub(older.len() as u128).max(1);
    let (capacity, batch) = (shape.level(number).capacity.0, shape.nominal_batch(number).0);
    let older_bytes: u64 = older.iter().map(|run| run.bytes).sum();
    let bytes_left_4 = (4 * u128::from(capacity) - 3 * u128::from(batch)).saturating_sub(4 * u128::from(older_bytes));
    // youngest > bytes_left / slots_left - batch / 2, in whole numbers.
    slots_left * (4 * u128::from(youngest.bytes) + 2 * u128::from(batch)) > bytes_left_4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::view::Availability;
    use crate::shape::Level;
    use crate::units::Bytes;

    /// Sizes of the runs, old to young, when equal batches arrive until the level is full.
    fn filled(capacity: u64, slots: u32, batch: u64) -> Vec<u64> {
        let shape = Shape::new(Bytes(100), vec![Level { capacity: Bytes(capacity), runs: slots }]).expect("a shape");
        let mut runs: Vec<RunView> = Vec::new();
        while !is_level_full(&shape, 1, runs.iter().map(|run| run.bytes).sum::<u64>() + batch) {
            let join = runs_to_join(&shape, 1, &runs, batch);
            let bytes = batch + runs.drain(..join).map(|run| run.bytes).sum::<u64>();
            runs.insert(0, RunView { bytes, state: Availability::Busy });
        }
        runs.iter().rev().map(|run| run.bytes / batch).collect()
    }

    /// Examples: whole and fractional numbers of batches in a slot, and batches that are always too
    /// small.
    #[test]
    fn batches_are_spread_over_slots() {
        assert_eq!(filled(1000, 1, 100), [9]);
        assert_eq!(filled(1000, 10, 100), [1; 9]);
        assert_eq!(filled(1000, 5, 100), [2, 2, 2, 2, 1]);
        assert_eq!(filled(1000, 7, 100), [1, 1, 1, 2, 1, 2, 1]);
        assert_eq!(filled(1000, 4, 100), [2, 2, 3, 2]);
        assert_eq!(filled(1000, 10, 96), [1; 9]);
        assert_eq!(filled(2000, 20, 90), [[1; 18].as_slice(), &[2, 1]].concat());
    }

    /// For every ratio and number of slots: as many runs as [`Shape::visible_runs`] says, of sizes
    /// as equal as possible.
    #[test]
    fn spreading_is_even() {
        for capacity in (150..=6000).step_by(50) {
            for slots in 1..=(capacity / 100) as u32 {
                let shape =
                    Shape::new(Bytes(100), vec![Level { capacity: Bytes(capacity), runs: slots }]).expect("a shape");
                let runs = filled(capacity, slots, 100);
                let context = format!("capacity {capacity}, slots {slots}: {runs:?}");
                assert_eq!(runs.len() as u64, shape.visible_runs(1), "{context}");
                assert_eq!(runs.iter().sum::<u64>(), shape.batches(1) - 1, "{context}");
                let (least, most) = (runs.iter().min().unwrap_or(&0), runs.iter().max().unwrap_or(&0));
                assert!(most - least <= 1, "{context}");
            }
        }
    }
}
