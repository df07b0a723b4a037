//! [`Skips`]: sequences that no write has, so that two sequences tell the number of writes between.
//!
//! ```text
//! sequences  1 ········ 900 ╎ (skipped) ╎ S, of an ingested run │ S+1 ····· S+40
//! writes     900            ╎     0     ╎ as many as the run has │ 40
//! ```
//!
//! An ingested run is built under a sequence far ahead, and writing continues past it. Skips are
//! kept as long as a table is older; beyond [`SKIPS_MAX`], the two oldest become one, which makes
//! the writes between them look younger than they are.

use super::broken::{Broken, broken};
use crate::entry::Sequence;

/// Maximum number of skips.
const SKIPS_MAX: usize = 64;

/// The skipped sequences of a tree, old to young.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Skips(Vec<Skip>);

/// Of the sequences up to `through`, `count` belong to no write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Skip {
    pub(super) through: Sequence,
    pub(super) count: u64,
}

impl Skips {
    pub(super) fn add(&mut self, skip: Skip) -> Result<(), Broken> {
        let last = self.0.last().map_or(Sequence::ZERO, |last| last.through);
        if skip.through <= last || skip.count == 0 || skip.count > skip.through.0 - last.0 {
            return broken(format!("{skip:?} does not follow {last:?}"));
        }
        self.0.push(skip);
        if self.0.len() > SKIPS_MAX {
            let oldest = self.0.remove(0);
            self.0[0].count += oldest.count;
        }
        Ok(())
    }

    /// Removes skips before `oldest`, the smallest sequence that may still be queried.
    pub(super) fn forget_before(&mut self, oldest: Sequence) {
        self.0.retain(|skip| skip.through > oldest);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Skip> {
        self.0.iter()
    }

    /// Returns the number of writes after `from`, up to `now`, which is not below any skip; never
    /// more than there were.
    pub(super) fn writes_since(&self, from: Sequence, now: Sequence) -> u64 {
        let skipped: u64 = self.0.iter().filter(|skip| from < skip.through).map(|skip| skip.count).sum();
        now.0.saturating_sub(from.0).saturating_sub(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agrees with a list of the sequences that are writes: exact while there are few skips, and
    /// never too large.
    #[test]
    fn writes_are_counted() {
        let random = tamarack_env::Random::new(19);
        for round in 0..200 {
            let (mut skips, mut last, mut writes) = (Skips::default(), 0, Vec::new());
            let rounds = if round % 2 == 0 { SKIPS_MAX as u64 } else { 100 };
            for _ in 0..rounds {
                for _ in 0..random.below(20) {
                    last += 1;
                    writes.push(last);
                }
                let count = 1 + random.below(1000);
                last += count + 1;
                skips.add(Skip { through: Sequence(last), count }).expect("they follow each other");
                // The run itself is a write.
                writes.push(last);
            }
            for _ in 0..50 {
                let from = writes[random.below(writes.len() as u64) as usize];
                let expected = writes.iter().filter(|at| from < **at).count() as u64;
                let found = skips.writes_since(Sequence(from), Sequence(last));
                assert!(found <= expected, "since {from}: {found}, not {expected}");
                if rounds == SKIPS_MAX as u64 {
                    assert_eq!(found, expected, "since {from}");
                }
            }
            let oldest = writes[random.below(writes.len() as u64) as usize];
            let before = skips.writes_since(Sequence(oldest), Sequence(last));
            skips.forget_before(Sequence(oldest));
            assert_eq!(skips.writes_since(Sequence(oldest), Sequence(last)), before, "nothing younger is forgotten");
        }
    }

    #[test]
    fn skips_follow_each_other() {
        let mut skips = Skips::default();
        let add = |skips: &mut Skips, through, count| skips.add(Skip { through: Sequence(through), count }).is_ok();
        assert!(add(&mut skips, 100, 100));
        assert!(!add(&mut skips, 100, 1) && !add(&mut skips, 110, 0) && !add(&mut skips, 110, 11));
        assert!(add(&mut skips, 110, 10));
    }
}
