//! [`MergedSource`]: many sources as one, by a k-way merge, in both directions.
//!
//! In go sorted sources, listed young to old; out comes one [`Source`] that yields all their entries in entry order. It
//! drops nothing: what of a key's versions a reader sees is decided in `read`, what a merge keeps in [`super::retain`].
//!
//! ```text
//!   winner   ── the source whose entry the merged cursor stands on
//!   rest     ── a binary heap of all others that stand on an entry; on top the one that comes next
//!
//!   source 0:        b7      d9            winner = source 0, at b7
//!   source 1:            c4                rest   = [1 at c4, 2 at e2]
//!   source 2:   a1               e2        (forward: each source stands on its first entry past the winner's)
//! ```
//!
//! # Invariants
//!
//! * Going forward, every source but the winner stands on its first entry after the winner's, or nowhere if it has none;
//!   going backward, on its last entry before it.
//! * The entries of a tree are unique by key and sequence, so that no two sources compare equal. If a caller breaks that, the
//!   younger source comes first going forward and last going backward.
//! * Sources may gain entries while the cursor stands (the active buffer does), but lose none.
//!
//! # Cost
//!
//! The winner is kept outside the heap: as long as the same source goes on winning, which is the usual case in runs of different ages and
//! sizes, a step costs one comparison. When the lead changes it costs up to 2·log₂(k) more. A comparison looks at eight bytes of
//! each key that are kept beside the heap, and asks the sources only when these are equal. Steps allocate nothing. A change of
//! direction seeks every source but the winner: scans from both ends therefore use two cursors instead.
//!
//! # Tests
//!
//! Random sources against one sorted vector, random walks of seeks and steps in both directions, failing sources, and a count of
//! how often the sources are asked.

use super::Source;
use crate::entry::{Entry, Sequence, compare};
use crate::error::Result;

/// All entries of several sources, in entry order. See the module's documentation.
#[derive(Debug)]
pub struct MergedSource<S> {
    sources: Vec<S>,
    /// Which way the heap is ordered.
    direction: Direction,
    /// The source that stands on the merged cursor's entry; `None` if the cursor stands nowhere.
    winner: Option<Front>,
    /// All other sources that stand on an entry, as a binary heap.
    rest: Vec<Front>,
}

/// Which entry comes next: the smallest or the largest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forward,
    Backward,
}

/// A source that stands on an entry, with the first bytes of that entry's key.
#[derive(Clone, Copy, Debug)]
struct Front {
    prefix: u64,
    source: usize,
}

impl Front {
    fn of(source: &impl Source, index: usize) -> Option<Self> {
        source.entry().map(|entry| Self { prefix: key_prefix(entry.key), source: index })
    }
}

impl<S: Source> MergedSource<S> {
    /// Merges `sources`, which are listed young to old. There may be none. The cursor stands nowhere.
    pub fn new(sources: Vec<S>) -> Self {
        let rest = Vec::with_capacity(sources.len());
        Self { sources, direction: Direction::Forward, winner: None, rest }
    }

    fn seek_all(&mut self, direction: Direction, mut seek: impl FnMut(&mut S) -> Result<()>) -> Result<()> {
        self.stand_nowhere();
        self.direction = direction;
        for source in &mut self.sources {
            seek(source)?;
        }
        self.rest.extend(self.sources.iter().enumerate().filter_map(|(index, source)| Front::of(source, index)));
        self.order_rest();
        self.winner = self.take_top();
        Ok(())
    }

    /// Moves the winner one entry on and finds the new winner.
    fn advance(&mut self, direction: Direction) -> Result<()> {
        if self.direction != direction {
            self.turn(direction)?;
        }
        let index = self.winner.take().expect("the cursor must stand on an entry to be moved").source;
        let source = &mut self.sources[index];
        let moved = match direction {
            Direction::Forward => source.next(),
            Direction::Backward => source.prev(),
        };
        if moved.is_err() {
            self.stand_nowhere();
            return moved;
        }
        self.winner = match Front::of(&self.sources[index], index) {
            Some(front) => Some(self.exchange_with_top(front)),
            None => self.take_top(),
        };
        Ok(())
    }

    /// Makes every source but the winner stand on the other side of the winner's entry. Seeks rather than steps, because entries may have
    /// come in between since the source was last moved.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let winner = self.winner.expect("the cursor must stand on an entry to be moved");
        self.stand_nowhere();
        self.direction = direction;
        for index in (0..self.sources.len()).filter(|&index| index != winner.source) {
            let [source, standing] =
                self.sources.get_disjoint_mut([index, winner.source]).expect("both are indices of different sources");
            let place = standing.entry().expect("the winner stands on an entry");
            match direction {
                Direction::Forward => source.seek(place.key, place.sequence)?,
                Direction::Backward => source.seek_before(place.key, place.sequence)?,
            }
            self.rest.extend(Front::of(source, index));
        }
        self.order_rest();
        self.winner = Some(winner);
        Ok(())
    }

    fn stand_nowhere(&mut self) {
        self.winner = None;
        self.rest.clear();
    }

    /// Whichever comes first of `front` and the heap's top; the other one stays in the heap.
    fn exchange_with_top(&mut self, front: Front) -> Front {
        match self.rest.first().copied() {
            Some(top) if self.comes_before(top, front) => {
                self.rest[0] = front;
                self.sift_down(0);
                top
            }
            _ => front,
        }
    }

    fn take_top(&mut self) -> Option<Front> {
        if self.rest.is_empty() {
            return None;
        }
        let top = self.rest.swap_remove(0);
        self.sift_down(0);
        Some(top)
    }

    /// Makes a heap of `rest`, whatever its order was.
    fn order_rest(&mut self) {
        for at in (0..self.rest.len() / 2).rev() {
            self.sift_down(at);
        }
    }

    /// Restores the heap below `at`, where a front may stand that comes too late for its place.
    fn sift_down(&mut self, mut at: usize) {
        let Some(&sinking) = self.rest.get(at) else { return };
        loop {
            let mut child = 2 * at + 1;
            if child >= self.rest.len() {
                break;
            }
            if child + 1 < self.rest.len() && self.comes_before(self.rest[child + 1], self.rest[child]) {
                child += 1;
            }
            if !self.comes_before(self.rest[child], sinking) {
                break;
            }
            self.rest[at] = self.rest[child];
            at = child;
        }
        self.rest[at] = sinking;
    }

    fn comes_before(&self, a: Front, b: Front) -> bool {
        let order = a
            .prefix
            .cmp(&b.prefix)
            .then_with(|| compare(self.place(a), self.place(b)))
            .then_with(|| a.source.cmp(&b.source));
        match self.direction {
            Direction::Forward => order.is_lt(),
            Direction::Backward => order.is_gt(),
        }
    }

    fn place(&self, front: Front) -> (&[u8], Sequence) {
        let entry = self.sources[front.source].entry().expect("a front stands on an entry");
        (entry.key, entry.sequence)
    }
}

impl<S: Source> Source for MergedSource<S> {
    fn seek_first(&mut self) -> Result<()> {
        self.seek_all(Direction::Forward, S::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.seek_all(Direction::Backward, S::seek_last)
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_all(Direction::Forward, |source| source.seek(key, sequence))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.seek_all(Direction::Backward, |source| source.seek_before(key, sequence))
    }

    fn next(&mut self) -> Result<()> {
        self.advance(Direction::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.advance(Direction::Backward)
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.winner.and_then(|winner| self.sources[winner.source].entry())
    }
}

/// The first eight bytes of a key as a number that orders like the key: if the prefixes of two keys differ, the keys are in the same
/// order; if they are equal nothing is known. Shorter keys are filled with zeros.
fn key_prefix(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    //! A merged source must be indistinguishable from one sorted vector of all its sources' entries.

    use super::*;
    use crate::merge::sorted::{Random, SortedSource, Version};

    #[test]
    fn random_walks_agree_with_one_sorted_vector() {
        for seed in 0..400 {
            let mut random = Random(seed);
            let count = *random.pick(&[0, 1, 2, 3, 5, 8, 17, 200]);
            let versions = random.versions(200);
            let mut merged = MergedSource::new(deal(&mut random, versions.clone(), count));
            let all = if count == 0 { Vec::new() } else { versions };
            let mut model = SortedSource::new(all);
            for step in 0..150 {
                walk_one_step(&mut random, &mut merged, &mut model);
                assert_eq!(merged.entry(), model.entry(), "seed {seed}, step {step}, {count} sources");
            }
        }
    }

    #[test]
    fn whole_passes_agree_with_one_sorted_vector() {
        for seed in 0..50 {
            let mut random = Random(seed);
            let versions = random.versions(500);
            let mut merged = MergedSource::new(deal(&mut random, versions.clone(), 7));
            let model = SortedSource::new(versions);
            let expected: Vec<_> = model.versions().iter().map(Version::entry).collect();

            let mut met = 0;
            merged.seek_first().unwrap();
            while let Some(entry) = merged.entry() {
                assert_eq!(entry, expected[met], "seed {seed}");
                met += 1;
                merged.next().unwrap();
            }
            assert_eq!(met, expected.len(), "seed {seed}");
            merged.seek_last().unwrap();
            while let Some(entry) = merged.entry() {
                met -= 1;
                assert_eq!(entry, expected[met], "seed {seed}");
                merged.prev().unwrap();
            }
            assert_eq!(met, 0, "seed {seed}");
        }
    }

    /// A source fails at a random call: the error comes out, the cursor stands nowhere, and the next seek finds everything again.
    #[test]
    fn an_error_leaves_the_cursor_nowhere_until_the_next_seek() {
        let mut failures = 0;
        for seed in 0..300 {
            let mut random = Random(seed);
            let versions = random.versions(60);
            let mut merged = MergedSource::new(deal(&mut random, versions.clone(), 4));
            let mut model = SortedSource::new(versions);
            let failing = random.below(4) as usize;
            merged.sources[failing].fail_after(random.below(40));
            for _ in 0..60 {
                let before = random.0;
                let outcome = try_one_step(&mut random, &mut merged);
                if outcome.is_err() {
                    failures += 1;
                    assert_eq!(merged.entry(), None, "seed {seed}");
                    merged.seek_first().unwrap();
                    model.seek_first().unwrap();
                } else {
                    try_one_step(&mut Random(before), &mut model).unwrap();
                }
                assert_eq!(merged.entry(), model.entry(), "seed {seed}");
            }
        }
        assert!(failures > 100, "only {failures} failures were met");
    }

    /// All keys share their first eight bytes, so that every comparison must ask the sources: one question for the new front, two for the
    /// one comparison.
    #[test]
    fn a_source_that_stays_ahead_costs_one_comparison() {
        let source = |range: std::ops::Range<u32>| {
            SortedSource::new(range.map(|n| Version::put(format!("same-prefix-{n:04}"), 1, "")).collect())
        };
        let mut merged = MergedSource::new((0..64).map(|n| source(n * 100..n * 100 + 100)).collect());
        merged.seek_first().unwrap();
        let asked_before = asked(&merged);
        for _ in 0..99 {
            merged.next().unwrap();
        }
        assert_eq!(asked(&merged) - asked_before, 99 * 3);
    }

    #[test]
    fn prefixes_order_like_keys() {
        let mut random = Random(1);
        let keys: Vec<Vec<u8>> = (0..200).map(|_| random.key()).collect();
        for a in &keys {
            for b in &keys {
                if key_prefix(a) != key_prefix(b) {
                    assert_eq!(key_prefix(a).cmp(&key_prefix(b)), a.cmp(b), "{a:?} {b:?}");
                }
            }
        }
    }

    /// Gives every version to one of `count` sources.
    fn deal(random: &mut Random, versions: Vec<Version>, count: usize) -> Vec<SortedSource> {
        let mut hands = vec![Vec::new(); count];
        for version in versions {
            if count > 0 {
                hands[random.below(count as u64) as usize].push(version);
            }
        }
        hands.into_iter().map(SortedSource::new).collect()
    }

    fn walk_one_step(random: &mut Random, merged: &mut impl Source, model: &mut impl Source) {
        let before = random.0;
        try_one_step(random, merged).unwrap();
        try_one_step(&mut Random(before), model).unwrap();
    }

    /// The same random numbers lead to the same step, provided that the sources stand on the same entry.
    fn try_one_step(random: &mut Random, source: &mut impl Source) -> Result<()> {
        let (choice, key, sequence) = (random.below(20), random.key(), Sequence(random.below(250)));
        let sequence = *random.pick(&[sequence, Sequence::MAX, Sequence::ZERO]);
        match choice {
            0 => source.seek_first(),
            1 => source.seek_last(),
            2 => source.seek(&key, sequence),
            3 => source.seek_before(&key, sequence),
            _ if source.entry().is_none() => source.seek(&key, sequence),
            4..12 => source.next(),
            _ => source.prev(),
        }
    }

    fn asked(merged: &MergedSource<SortedSource>) -> u64 {
        merged.sources.iter().map(SortedSource::asked).sum()
    }
}
