//! [`MergedSource`]: the k-way merging iterator over sorted sources, in both directions.
//!
//! Takes sorted sources, listed young to old, and is one [`Source`] that yields all their entries
//! in entry order. It drops nothing: `read` decides which versions a reader sees, [`super::retain`]
//! which ones a compaction keeps.
//!
//! # A tree of losers
//!
//! The sources play a tournament (Knuth, vol. 3, section 5.4.1). Each match stores its loser, and
//! its winner advances to the next one:
//!
//! ```text
//!   winner                   2 at a1
//!   match 1                  0 at b7               lost the final
//!                      ┌────────┴────────┐
//!   matches 2, 3    1 at c4           3 at e2      lost the matches before
//!                   ┌──┴──┐           ┌──┴──┐
//!   sources         0     1           2     3
//! ```
//!
//! When the winner's source moves, only the matches between its leaf and the root are played again:
//! log₂(k) comparisons, each with a loser whose address is known beforehand.
//!
//! # Offset-value codes
//!
//! A match compares two integers instead of two keys (Do and Graefe, "Robust and efficient sorting
//! with offset-value coding"). The code of a key describes how it differs from the key it last lost
//! to: the column of six bytes that contains the first difference, and the bytes of that column.
//!
//! ```text
//!   bits 56..64   254 - number of the column       later is nearer, so smaller
//!   bits  8..56   the six bytes there              complemented if the cursor goes backward
//!   bits  0..8    the source                       not compared; more bits with over 256 sources
//!
//!                 column 0   column 1   column 2
//!   lost to       user:0     010017     a
//!   key           user:0     010017     k        column 2, "k"       ─► comes first of the two,
//!   key           user:0     010023     b        column 1, "010023"     without comparing keys
//! ```
//!
//! Of two keys that come after the same third one, the one with the smaller code comes first, and
//! the code of the other is also valid relative to the first: its column is where they differ. All
//! losers that the moved source can meet have lost to the entry that it left, so a step only needs
//! the number of bytes that its new key shares with its old one, which sources mostly know
//! ([`Source::shared`]). Keys are compared only if two codes are equal; the loser's column then
//! moves on, so that this happens at most once for each column of a key.
//!
//! A source that wins twice in a row has met all its possible rivals. While its codes stay below
//! the smallest of theirs (the `challenge`), it keeps winning, and a step is one comparison.
//!
//! # Invariants
//!
//! * Going forward, every source but the winner is at its first entry after the winner's, or has no
//!   position if it has none; going backward, at its last entry before it.
//! * The code of each loser is relative to the entry that won its match.
//! * The entries of a tree are unique by key and sequence, so that no two sources compare equal. If
//!   a caller breaks that, the younger source comes first going forward and last going backward.
//! * Sources may gain entries while the cursor stands (the active memtable does), but lose none.
//! * A source that waits ([`Source::waits_at`]) plays with the place where it waits, and wins only
//!   until [`MergedSource::settle`].
//!
//! # Cost
//!
//! A step compares log₂(k) pairs of integers without a branch that depends on the data, or one if
//! the same source wins again. It copies nothing and allocates nothing. Where a source does not
//! know the shared bytes, as when it moves to another table, the whole tournament is played. A
//! change of direction seeks every source but the winner: scans from both ends therefore use two
//! cursors.
//!
//! # Tests
//!
//! Random sources against one sorted vector, random seeks and steps in both directions, failing
//! sources, and a count of calls to the sources.

use super::Source;
use crate::entry::{Entry, Sequence, compare};
use crate::error::{Error, Result};
use crate::format::prefixes::common_prefix;

/// The k-way merging iterator over sorted sources. See the module's documentation.
#[derive(Debug)]
pub struct MergedSource<S> {
    sources: Vec<S>,
    /// The direction of the tournament, and the encoding of players.
    codes: Codes,
    /// The source at the merged cursor's entry; `None` if the cursor has no position.
    winner: Option<usize>,
    /// The smallest code among the winner's rivals, or 0 if unknown: the winner keeps winning while
    /// its codes are below.
    challenge: u64,
    /// The source that the last step moved.
    moved: usize,
    /// True if a source waited when the whole tournament was last played. A source that begins to
    /// wait causes that.
    some_wait: bool,
    /// The loser of each match, as many as sources; the first is not used. The winner of match i
    /// plays in match i / 2, and source i enters in match (i + sources) / 2.
    losers: Vec<Player>,
    /// Space for building the tree.
    players: Vec<Player>,
}

/// The direction: whether the smallest or the largest entry comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Forward,
    Backward,
}

/// A source in the tournament: the code of its key, and its index in the lowest bits, so that a
/// match is a minimum and a maximum.
type Player = u64;

/// The bytes of a key that a code holds.
const COLUMN_BYTES: usize = 6;

/// The lower bound on the bits of a player for its source: eight are left for the column, enough
/// for keys of 1,500 bytes.
const SOURCE_BITS_MIN: u32 = 8;

/// The upper bound on these bits.
const SOURCE_BITS_MAX: u32 = 15;

/// The encoding of players: direction, and bits for the source.
#[derive(Clone, Copy, Debug)]
struct Codes {
    source_bits: u32,
    direction: Direction,
}

/// Without sources.
impl<S> Default for MergedSource<S> {
    fn default() -> Self {
        let codes = Codes { source_bits: SOURCE_BITS_MIN, direction: Direction::Forward };
        let (sources, losers, players) = (Vec::new(), Vec::new(), Vec::new());
        Self { sources, codes, winner: None, challenge: 0, moved: 0, some_wait: false, losers, players }
    }
}

impl<S: Source> MergedSource<S> {
    /// The source at whose entry the cursor is, by its place among them; `None` if the cursor has
    /// no position.
    #[inline]
    pub fn source(&self) -> Option<usize> {
        self.winner
    }

    /// Returns the source at the current entry.
    pub fn current(&self) -> Option<&S> {
        self.winner.map(|source| &self.sources[source])
    }

    /// Returns the sources, young to old.
    pub fn into_sources(self) -> Vec<S> {
        self.sources
    }

    /// Merges `sources`, listed young to old; there may be none. The cursor has no position.
    ///
    /// # Errors
    /// As [`MergedSource::change_sources`].
    pub fn new(sources: Vec<S>) -> Result<Self> {
        let mut merged = Self::default();
        merged.losers.reserve_exact(sources.len());
        merged.players.reserve_exact(2 * sources.len());
        merged.change_sources(|own| *own = sources)?;
        Ok(merged)
    }

    /// Merges other sources, listed young to old, which `change` makes of those that there are. The
    /// cursor has no position. Allocates nothing where there are no more than before.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there are more than 32,768, as in a tree of so many runs.
    pub fn change_sources(&mut self, change: impl FnOnce(&mut Vec<S>)) -> Result<()> {
        (self.winner, self.moved, self.some_wait) = (None, 0, false);
        change(&mut self.sources);
        let (count, count_max) = (self.sources.len(), 1 << SOURCE_BITS_MAX);
        if count > count_max {
            let what = format!("{count} memtables and sorted runs cannot be merged at once, only {count_max}");
            return Err(Error::InvalidArgument(what));
        }
        self.codes.source_bits = count.next_power_of_two().trailing_zeros().max(SOURCE_BITS_MIN);
        Ok(())
    }

    /// The sources, young to old. After moving one, the caller must seek with the merged cursor
    /// before anything else.
    pub fn sources_mut(&mut self) -> &mut [S] {
        &mut self.sources
    }

    /// The sources that the last step has not moved. As for [`MergedSource::sources_mut`].
    pub fn unmoved_mut(&mut self) -> impl Iterator<Item = &mut S> {
        let moved = self.moved;
        self.sources.iter_mut().enumerate().filter(move |(source, _)| *source != moved).map(|(_, cursor)| cursor)
    }

    /// Returns false if no source waits ([`Source::waits_at`]). Callers with sources that can wait
    /// check this after each seek and each step, and call [`MergedSource::settle`] if some do.
    #[inline]
    pub fn some_wait(&self) -> bool {
        self.some_wait
    }

    /// Returns false if the source that comes first waits.
    pub fn is_settled(&self) -> bool {
        self.winner.is_none_or(|first| self.sources[first].waits_at().is_none())
    }

    /// While the source that comes first waits, calls `go_on` with the place at which it waits, to
    /// move it and any others that wait at the same place; until the first source is at an entry,
    /// or none is left.
    ///
    /// # Errors
    /// Those of `go_on`; the cursor then has no position.
    #[cold]
    pub fn settle(&mut self, mut go_on: impl FnMut(&mut [S], (&[u8], Sequence)) -> Result<()>) -> Result<()> {
        while let Some((key, sequence)) = self.winner.and_then(|first| self.sources[first].waits_at()) {
            let key = key.to_vec();
            self.winner = None;
            go_on(&mut self.sources, (&key, sequence))?;
            self.play_all();
        }
        Ok(())
    }

    fn seek_all(&mut self, direction: Direction, mut seek: impl FnMut(&mut S) -> Result<()>) -> Result<()> {
        self.winner = None;
        self.codes.direction = direction;
        for source in &mut self.sources {
            seek(source)?;
        }
        self.play_all();
        Ok(())
    }

    /// Moves the winner by one entry and finds the new winner.
    #[inline]
    fn advance(&mut self, direction: Direction, step: impl FnOnce(&mut S) -> Result<()>) -> Result<()> {
        if self.codes.direction != direction {
            self.turn(direction)?;
        }
        let moving = self.winner.take().expect("the cursor must stand on an entry to be moved");
        self.moved = moving;
        let source = &mut self.sources[moving];
        step(source)?;
        match (source.entry(), source.shared()) {
            (Some(entry), Some(shared)) => {
                let codes = Codes { direction, ..self.codes };
                let player = codes.player(shared, entry.key, moving);
                if codes.code(player) < self.challenge {
                    self.winner = Some(moving);
                } else {
                    self.play_again(player, moving);
                }
            }
            (Some(_), None) => self.play_all(),
            (None, _) if source.waits_at().is_some() => self.play_all(),
            (None, _) => self.play_again(self.codes.nowhere(moving), moving),
        }
        Ok(())
    }

    /// Moves every source but the winner to the other side of the winner's entry. Seeks rather than
    /// steps, because entries may have been inserted since the source was last moved.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let winner = self.winner.take().expect("the cursor must stand on an entry to be moved");
        self.codes.direction = direction;
        for index in (0..self.sources.len()).filter(|&index| index != winner) {
            let [source, at_entry] =
                self.sources.get_disjoint_mut([index, winner]).expect("both are indices of different sources");
            let place = at_entry.entry().expect("the winner stands on an entry");
            match direction {
                Direction::Forward => source.seek(place.key, place.sequence)?,
                Direction::Backward => source.seek_before(place.key, place.sequence)?,
            }
        }
        self.play_all();
        Ok(())
    }

    /// Plays the whole tournament. The initial codes are relative to a place before all keys, with
    /// which none has a byte in common.
    fn play_all(&mut self) {
        let (count, codes) = (self.sources.len(), self.codes);
        let nobody = codes.nowhere(0);
        self.losers.clear();
        self.losers.resize(count, nobody);
        // Winners of match i, and from 2 · count on the entrants: the overall winner is at 1.
        let mut players = std::mem::take(&mut self.players);
        players.clear();
        players.resize(count, nobody);
        players.extend(self.sources.iter().enumerate().map(|(source, cursor)| match place_of(cursor) {
            Some((key, _)) => codes.player(0, key, source),
            None => codes.nowhere(source),
        }));
        for at in (1..count).rev() {
            (players[at], self.losers[at]) = self.play(players[2 * at], players[2 * at + 1]);
        }
        self.winner = players.get(1).and_then(|&first| codes.source_with_entry(first));
        self.challenge = 0;
        self.players = players;
        // A source that begins to wait is at no entry, so that this is reached.
        self.some_wait = self.sources.iter().any(|source| source.waits_at().is_some());
    }

    /// Plays the matches of the source `moved`, which has left the winning entry.
    fn play_again(&mut self, mut player: Player, moved: usize) {
        let mut at = (moved + self.sources.len()) / 2;
        let mut challenge = u64::MAX;
        while at > 0 {
            let loser;
            (player, loser) = self.play(player, self.losers[at]);
            self.losers[at] = loser;
            challenge = challenge.min(loser);
            at /= 2;
        }
        self.winner = self.codes.source_with_entry(player);
        // The losers are those of another source's matches if that has won.
        self.challenge = if self.winner == Some(moved) { self.codes.code(challenge) } else { 0 };
    }

    /// One match: the winner and the loser.
    #[inline]
    fn play(&self, a: Player, b: Player) -> (Player, Player) {
        if (a ^ b) >> self.codes.source_bits == 0 {
            return self.play_by_keys(a, b);
        }
        // The winner is unpredictable in random data: neither of the two is a branch.
        (a.min(b), a.max(b))
    }

    /// A match between equal codes.
    #[cold]
    fn play_by_keys(&self, a: Player, b: Player) -> (Player, Player) {
        let codes = self.codes;
        let [index_a, index_b] = [a, b].map(|player| codes.source(player));
        let (Some(of_a), Some(of_b)) = (place_of(&self.sources[index_a]), place_of(&self.sources[index_b])) else {
            return (a, b);
        };
        let common = common_prefix(of_a.0, of_b.0);
        let order = compare(of_a, of_b).then(index_a.cmp(&index_b));
        let a_wins = match codes.direction {
            Direction::Forward => order.is_lt(),
            Direction::Backward => order.is_gt(),
        };
        if a_wins { (a, codes.player(common, of_b.0, index_b)) } else { (b, codes.player(common, of_a.0, index_a)) }
    }
}

/// The place of a source: that of its entry, or at which it waits.
#[inline]
fn place_of(source: &impl Source) -> Option<(&[u8], Sequence)> {
    source.entry().map(|entry| (entry.key, entry.sequence)).or_else(|| source.waits_at())
}

impl Codes {
    /// The player of a source whose key shares exactly its first `shared` bytes with a key that
    /// comes before.
    #[inline]
    fn player(self, shared: usize, key: &[u8], source: usize) -> Player {
        // A column whose number does not fit only leads to more equal codes.
        let column_max = (1 << (16 - self.source_bits)) - 2;
        let column = (shared / COLUMN_BYTES).min(column_max);
        let rest = &key[column * COLUMN_BYTES..];
        // Missing bytes at the end of a key count as zeros. Keys that look alike because of that
        // have equal codes.
        let eight = match (rest.first_chunk(), key.last_chunk()) {
            (Some(first), _) => u64::from_be_bytes(*first),
            (None, Some(_)) if rest.is_empty() => 0,
            (None, Some(last)) => u64::from_be_bytes(*last) << (64 - 8 * rest.len()),
            (None, None) => rest.iter().zip(0..).fold(0, |eight, (&byte, at)| eight | u64::from(byte) << (56 - 8 * at)),
        };
        let value = eight >> (64 - 8 * COLUMN_BYTES);
        let value = match self.direction {
            Direction::Forward => value,
            Direction::Backward => value ^ ((1 << (8 * COLUMN_BYTES)) - 1),
        };
        (((column_max - column) as u64) << (8 * COLUMN_BYTES) | value) << self.source_bits | source as u64
    }

    /// The player of a source without an entry: it loses every match.
    fn nowhere(self, source: usize) -> Player {
        u64::MAX << self.source_bits | source as u64
    }

    /// The part of a player that is compared.
    #[inline]
    fn code(self, player: Player) -> u64 {
        player >> self.source_bits << self.source_bits
    }

    #[inline]
    fn source(self, player: Player) -> usize {
        (player & !(u64::MAX << self.source_bits)) as usize
    }

    /// A player's source, if that has an entry.
    #[inline]
    fn source_with_entry(self, player: Player) -> Option<usize> {
        (player < self.nowhere(0)).then(|| self.source(player))
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

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.advance(Direction::Forward, S::next)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.advance(Direction::Backward, S::prev)
    }

    fn passes(&self, floor: Sequence) -> bool {
        self.winner.is_some_and(|winner| self.sources[winner].passes(floor))
    }

    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        self.advance(Direction::Forward, |source| source.pass(to, floor))
    }

    fn pass_back(&mut self, from: &[u8], floor: Sequence) -> Result<()> {
        self.advance(Direction::Backward, |source| source.pass_back(from, floor))
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.sources[self.winner?].entry()
    }

    #[inline]
    fn left(&self) -> &[u8] {
        self.sources[self.moved].left()
    }
}

#[cfg(test)]
mod tests {
    //! Tests: a merged source is indistinguishable from one sorted vector of all its sources'
    //! entries.

    use super::*;
    use crate::format::entry::OwnedEntry;
    use crate::merge::sorted::{Random, RandomVersions as _, SortedSource};

    #[test]
    fn random_walks_agree_with_one_sorted_vector() {
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let count = *random.pick(&[0, 1, 2, 3, 5, 8, 17, 200, 300]);
            let versions = random.versions(200);
            let mut merged = MergedSource::new(deal(&mut random, versions.clone(), count)).unwrap();
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
            let mut random = Random::new(seed);
            let versions = random.versions(500);
            let mut merged = MergedSource::new(deal(&mut random, versions.clone(), 7)).unwrap();
            let model = SortedSource::new(versions);
            let expected: Vec<_> = model.versions().iter().map(OwnedEntry::entry).collect();

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

    /// A source fails at a random call: the error is returned, the cursor has no position, and the
    /// next seek finds everything again.
    #[test]
    fn an_error_leaves_the_cursor_nowhere_until_the_next_seek() {
        let mut failures = 0;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let versions = random.versions(60);
            let mut merged = MergedSource::new(deal(&mut random, versions.clone(), 4)).unwrap();
            let mut model = SortedSource::new(versions);
            let failing = random.below(4) as usize;
            merged.sources[failing].fail_after(random.below(40));
            for _ in 0..60 {
                let mut before = random.clone();
                let outcome = try_one_step(&mut random, &mut merged);
                if outcome.is_err() {
                    failures += 1;
                    assert_eq!(merged.entry(), None, "seed {seed}");
                    merged.seek_first().unwrap();
                    model.seek_first().unwrap();
                } else {
                    try_one_step(&mut before, &mut model).unwrap();
                }
                assert_eq!(merged.entry(), model.entry(), "seed {seed}");
            }
        }
        assert!(failures > 100, "only {failures} failures were met");
    }

    /// A step calls `entry` of the source that moves for the new entry only. Codes decide the rest.
    #[test]
    fn long_common_beginnings_do_not_lead_to_comparisons_of_keys() {
        let source = |first: u32| {
            let numbers = (first..1600).step_by(16);
            SortedSource::new(
                numbers.map(|n| OwnedEntry::put(format!("all-keys-begin-like-this-{n:04}"), 1, "")).collect(),
            )
        };
        let mut merged = MergedSource::new((0..16).map(source).collect()).unwrap();
        merged.seek_first().unwrap();
        let calls_before = entry_calls(&merged);
        for _ in 0..1500 {
            merged.next().unwrap();
        }
        assert_eq!(entry_calls(&merged) - calls_before, 1500);
    }

    #[test]
    fn more_sources_than_codes_have_bits_for_are_refused() {
        let merge = |count| MergedSource::new((0..count).map(|_| SortedSource::new(Vec::new())).collect());
        assert!(merge(32_768).is_ok());
        assert!(matches!(merge(32_769), Err(Error::InvalidArgument(_))));
    }

    /// Of two keys on the same side of a third one, the smaller code comes first, and the code of
    /// the other one is that of its difference from the first.
    #[test]
    fn codes_order_like_keys_and_hold_for_the_winner() {
        let mut random = Random::new(1);
        let mut decided = 0;
        for _ in 0..20_000 {
            let mut keys = [random.key(), random.key(), random.key()];
            keys.sort();
            let direction = *random.pick(&[Direction::Forward, Direction::Backward]);
            if direction == Direction::Backward {
                keys.reverse();
            }
            let [base, first, second] = &keys;
            let codes = Codes { source_bits: *random.pick(&[8, 9, 12, 15]), direction };
            let code = |key: &[u8], from: &[u8]| codes.player(common_prefix(from, key), key, 0);
            if code(first, base) != code(second, base) {
                assert!(code(first, base) < code(second, base), "{direction:?} {keys:?}");
                assert_eq!(code(second, base), code(second, first), "{direction:?} {keys:?}");
                decided += 1;
            }
        }
        assert!(decided > 5000, "{decided}");
    }

    /// Gives every version to one of `count` sources.
    fn deal(random: &mut Random, versions: Vec<OwnedEntry>, count: usize) -> Vec<SortedSource> {
        let mut hands = vec![Vec::new(); count];
        for version in versions {
            if count > 0 {
                hands[random.below(count as u64) as usize].push(version);
            }
        }
        hands.into_iter().map(SortedSource::new).collect()
    }

    fn walk_one_step(random: &mut Random, merged: &mut impl Source, model: &mut impl Source) {
        let mut before = random.clone();
        try_one_step(random, merged).unwrap();
        try_one_step(&mut before, model).unwrap();
    }

    /// The same random numbers lead to the same step, provided that the sources stand on the same
    /// entry.
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

    fn entry_calls(merged: &MergedSource<SortedSource>) -> u64 {
        merged.sources.iter().map(SortedSource::entry_calls).sum()
    }
}
