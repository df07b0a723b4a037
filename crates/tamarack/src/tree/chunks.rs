//! [`Chunks`]: a persistent ordered list, cheap to copy and to change in one place.
//!
//! Every edit makes a new immutable version of a tree. Copying a plain list of 10,000 slices for
//! each would cost 10,000 reference counts; here the list consists of pieces that old and new
//! versions share:
//!
//! ```text
//! old   [ • • • • ]        new   [ • • • • ]
//!         │ │ │ └────────────────────┼─┼─┼─┘     one piece (here the 2nd) is copied and changed,
//!         │ │ └──────────────────────┼─┼─┘       all others are shared
//!         │ └── 64 items     64 items┘ │
//!         └────────────────────────────┘
//! ```
//!
//! Cost, for n items: a change copies n / 64 pointers and one or two pieces; a search is two binary
//! searches. Invariant: no piece is empty, and none has more than `PIECE_ITEMS_MAX` items.
//!
//! Tests: random splices against a plain `Vec`.

use std::ops::Range;
use std::sync::Arc;

/// Maximum number of items in a piece. A change copies the pointers and one piece, which together
/// cost least with about √n items per piece: 128 suits 10,000, and is acceptable at a hundredth or
/// a hundred times of that.
const PIECE_ITEMS_MAX: usize = 128;

/// An ordered list whose copies share their items.
#[derive(Clone, Debug)]
pub struct Chunks<T> {
    pieces: Vec<Arc<[T]>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

impl<T> Chunks<T> {
    /// Returns the number of items. Costs a walk over the pieces.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// Returns the items from index `start` on.
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = &T> {
        let (piece, at) = self.locate(start);
        let (first, rest) = match self.pieces.get(piece..) {
            Some([first, rest @ ..]) => (&first[at..], rest),
            _ => (&[][..], &[][..]),
        };
        first.iter().chain(rest.iter().flat_map(|piece| piece.iter()))
    }

    /// Returns the item at an index.
    pub fn get(&self, index: usize) -> Option<&T> {
        let (piece, at) = self.locate(index);
        self.pieces.get(piece)?.get(at)
    }

    /// Returns the last item.
    pub fn last(&self) -> Option<&T> {
        self.pieces.last()?.last()
    }

    /// Returns the number of items at the front that satisfy `before`, by which the list must be
    /// partitioned.
    pub fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let pieces = self.pieces.partition_point(|piece| before(&piece[0]));
        let Some(last) = pieces.checked_sub(1) else { return 0 };
        let full: usize = self.pieces[..last].iter().map(|piece| piece.len()).sum();
        full + self.pieces[last].partition_point(before)
    }

    /// Returns the piece with the index, and the position in it; past the end, the number of pieces
    /// and 0.
    fn locate(&self, index: usize) -> (usize, usize) {
        let mut rest = index;
        for (number, piece) in self.pieces.iter().enumerate() {
            if rest < piece.len() {
                return (number, rest);
            }
            rest -= piece.len();
        }
        (self.pieces.len(), 0)
    }
}

impl<T: Clone> Chunks<T> {
    /// Returns the item at an index, mutably. Copies its piece if older lists share it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let (piece, at) = self.locate(index);
        Arc::make_mut(self.pieces.get_mut(piece)?).get_mut(at)
    }

    /// Replaces the items at `range` by `items`.
    pub fn splice(&mut self, range: Range<usize>, items: impl IntoIterator<Item = T>) {
        let mut first = self.locate(range.start);
        if first.0 == self.pieces.len() && first.0 > 0 {
            // Appending fills the last piece.
            first = (first.0 - 1, self.pieces[first.0 - 1].len());
        }
        let (last, kept_after) = self.locate(range.end);
        let mut changed: Vec<T> = Vec::new();
        let mut end = first.0;
        if let Some(piece) = self.pieces.get(first.0) {
            changed.extend_from_slice(&piece[..first.1]);
        }
        changed.extend(items);
        if let Some(piece) = self.pieces.get(last) {
            changed.extend_from_slice(&piece[kept_after..]);
            end = last + 1;
        } else {
            end = end.max(self.pieces.len());
        }
        // Joins small pieces with the next, so that removals do not leave many tiny pieces.
        while let Some(next) = self.pieces.get(end)
            && changed.len() + next.len() <= PIECE_ITEMS_MAX / 2
        {
            changed.extend_from_slice(next);
            end += 1;
        }
        self.pieces.splice(first.0..end, cut(&changed));
    }
}

/// Splits the items into pieces of about the same length.
fn cut<T: Clone>(items: &[T]) -> impl Iterator<Item = Arc<[T]>> {
    let pieces = items.len().div_ceil(PIECE_ITEMS_MAX).max(1);
    items.chunks(items.len().div_ceil(pieces).max(1)).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use tamarack_env::Random;

    use super::*;

    /// The list agrees with a `Vec` under random splices and searches, and keeps its invariant.
    #[test]
    fn random_splices_agree_with_a_vec() {
        let random = Random::new(0x5eed_0001);
        let below = |bound: usize| random.below(bound as u64) as usize;
        for _ in 0..40 {
            let (mut chunks, mut plain) = (Chunks::default(), Vec::new());
            for _ in 0..120 {
                let start = below(plain.len() + 1);
                let end = start + below((plain.len() - start).min(300) + 1);
                let items: Vec<u64> = (0..below(if below(4) == 0 { 400 } else { 4 })).map(|_| random.next()).collect();
                let before = chunks.clone();
                let before_plain = plain.clone();
                chunks.splice(start..end, items.iter().copied());
                plain.splice(start..end, items);
                assert!(before.iter().eq(&before_plain), "a change must not affect older copies");
                assert!(chunks.iter().eq(&plain));
                assert_eq!(chunks.len(), plain.len());
                assert!(chunks.pieces.iter().all(|piece| (1..=PIECE_ITEMS_MAX).contains(&piece.len())));
                let at = below(plain.len() + 2);
                assert_eq!(chunks.get(at), plain.get(at));
                assert!(chunks.iter_from(at).eq(plain.iter().skip(at)));
                assert_eq!(chunks.last(), plain.last());
                if let Some(item) = chunks.get_mut(at) {
                    *item ^= 1;
                    plain[at] ^= 1;
                }
                assert!(before.iter().eq(&before_plain), "nor must a change of one item");
                assert!(chunks.iter().eq(&plain));
            }
            let mut sorted = plain.clone();
            sorted.sort_unstable();
            let mut chunks = Chunks::default();
            chunks.splice(0..0, sorted.iter().copied());
            for _ in 0..50 {
                let bound = random.next();
                let at = sorted.partition_point(|item| *item <= bound);
                assert_eq!(chunks.partition_point(|item| *item <= bound), at);
            }
        }
    }
}
