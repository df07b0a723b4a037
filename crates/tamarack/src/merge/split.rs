//! [`split`]: the division of a compaction's keys into pieces that workers compact concurrently,
//! and the choice of slices that are moved instead of copied.
//!
//! ```text
//! input a     ├─ 1 ─┤├─ 2 ─┤                ├─ 5 ─┤├─ 6 ─┤
//! input b        ├── 3 ──┤   ├─ 4 ─┤            ├── 7 ──┤
//!           │   copy         │ move │          copy           │
//! ```
//!
//! In: the spans of keys that the inputs' slices cover. Out: adjacent pieces that cover all keys. A
//! piece either copies (merges the entries of its inputs) or moves (only one input has slices
//! there, and they become the output's unchanged). Small movable spans are copied together with
//! their neighbours, so that they are joined; where all neighbours are moved, copying would join
//! nothing, and the span is moved, too. Long pieces that copy are divided at first keys of slices
//! into parts of about the same size.
//!
//! Cost: sorting the spans.
//!
//! # Tests
//!
//! Random spans: the pieces cover every key once and in order, a moved span overlaps no other, no
//! span is moved twice or forgotten.

use crate::format::edit::{Key, KeyRange};

/// A span of keys, from `first` to before `after`, of which one input has some.
#[derive(Clone, Debug)]
pub struct Span {
    /// Its smallest key.
    pub first: Key,
    /// An exclusive upper bound on its keys.
    pub after: Key,
    /// The raw bytes of its entries.
    pub bytes: u64,
    /// True if its slice may be moved to the output unchanged.
    pub movable: bool,
    /// True if it is so small that it should be joined with its neighbours, if these are copied or
    /// as small.
    pub joins: bool,
}

/// A range of keys to be handed over, copied or moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The range.
    pub range: KeyRange,
    /// The indices of the spans to move, in key order; if empty, the piece is copied.
    pub moved: Vec<usize>,
    /// The raw bytes to copy.
    pub bytes: u64,
}

/// Divides `range` into pieces, of which about `parts` copy, each at least `bytes_min` unless moves
/// leave it less.
pub fn split(spans: &[Span], range: &KeyRange, parts: usize, bytes_min: u64) -> Vec<Piece> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by(|a, b| spans[*a].first.cmp(&spans[*b].first).then_with(|| spans[*a].after.cmp(&spans[*b].after)));
    let is_moved = moved(spans, &order);
    let copied_bytes: u64 = (0..order.len()).filter(|at| !is_moved[*at]).map(|at| spans[order[at]].bytes).sum();
    let bytes_each = copied_bytes.div_ceil(parts.max(1) as u64).max(bytes_min).max(1);
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, index) in order.iter().copied().enumerate() {
        let span = &spans[index];
        let moves = is_moved[at];
        let goes_on = pieces.last().is_some_and(|piece| {
            let is_move = !piece.moved.is_empty();
            is_move == moves && (is_move || piece.bytes < bytes_each || starts_at(piece, &span.first))
        });
        if !goes_on {
            let from = begin_piece(&mut pieces, range, span);
            pieces.push(Piece { range: KeyRange { from, to: range.to.clone() }, moved: Vec::new(), bytes: 0 });
        }
        let piece = pieces.last_mut().expect("one was just begun");
        if moves {
            piece.moved.push(index);
        } else {
            piece.bytes += span.bytes;
        }
    }
    if pieces.is_empty() {
        pieces.push(Piece { range: range.clone(), moved: Vec::new(), bytes: 0 });
    }
    pieces
}

/// Ends the last piece where `span` begins; returns where the next one begins.
fn begin_piece(pieces: &mut [Piece], range: &KeyRange, span: &Span) -> Option<Key> {
    let Some(last) = pieces.last_mut() else { return range.from.clone() };
    last.range.to = Some(span.first.clone());
    Some(span.first.clone())
}

/// Returns true if a piece would be empty if it ended here.
fn starts_at(piece: &Piece, key: &Key) -> bool {
    piece.range.from.as_ref().is_some_and(|from| from >= key) || key.is_empty()
}

/// For each span, in this order, whether it is moved.
fn moved(spans: &[Span], order: &[usize]) -> Vec<bool> {
    let lone = lone(spans, order);
    let stays = |at: usize| lone[at] && !spans[order[at]].joins;
    let has_none_to_join = |at: usize| (at == 0 || stays(at - 1)) && (at + 1 == order.len() || stays(at + 1));
    (0..order.len()).map(|at| lone[at] && (stays(at) || has_none_to_join(at))).collect()
}

/// For each span, in this order, whether it is movable and shares no key with any other.
fn lone(spans: &[Span], order: &[usize]) -> Vec<bool> {
    let mut reached: Option<&Key> = None;
    let mut lone = Vec::with_capacity(order.len());
    for (at, index) in order.iter().enumerate() {
        let span = &spans[*index];
        let before = reached.is_none_or(|reached| *reached <= span.first);
        let after = order.get(at + 1).is_none_or(|next| span.after <= spans[*next].first);
        lone.push(span.movable && before && after);
        if reached.is_none_or(|reached| *reached < span.after) {
            reached = Some(&span.after);
        }
    }
    lone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::sorted::Random;

    fn key(number: u64) -> Key {
        Key::from(&number.to_be_bytes()[..])
    }

    fn span(first: u64, after: u64, bytes: u64) -> Span {
        Span { first: key(first), after: key(after), bytes, movable: true, joins: false }
    }

    fn show(pieces: &[Piece]) -> Vec<(Option<u64>, Vec<usize>)> {
        let number = |key: &Key| u64::from_be_bytes((**key).try_into().expect("eight bytes"));
        pieces.iter().map(|piece| (piece.range.to.as_ref().map(number), piece.moved.clone())).collect()
    }

    /// The picture in the module's documentation.
    #[test]
    fn the_picture() {
        let spans = [
            span(0, 10, 9),
            span(10, 20, 9),
            span(40, 50, 9),
            span(50, 60, 9),
            span(5, 15, 9),
            span(20, 30, 9),
            span(45, 55, 9),
        ];
        let pieces = split(&spans, &KeyRange::ALL, 1, 0);
        assert_eq!(show(&pieces), [(Some(20), vec![]), (Some(40), vec![5]), (None, vec![])]);
        let pieces = split(&spans, &KeyRange::ALL, 2, 0);
        assert_eq!(
            show(&pieces),
            [(Some(20), vec![]), (Some(40), vec![5]), (None, vec![])],
            "a division at the borders that moves make anyway is enough"
        );
    }

    /// Parts have about the same size, and at least the minimum.
    #[test]
    fn copies_are_divided_evenly() {
        let overlapping: Vec<Span> = (0..100).map(|at| span(at, at + 200, 10)).collect();
        let pieces = split(&overlapping, &KeyRange::ALL, 4, 0);
        assert_eq!(pieces.iter().map(|piece| piece.bytes).collect::<Vec<_>>(), [250; 4]);
        assert_eq!(split(&overlapping, &KeyRange::ALL, 4, 400).len(), 3);
        assert_eq!(split(&overlapping, &KeyRange::ALL, 4, 1001).len(), 1);
        for parts in [0, 1] {
            assert_eq!(split(&overlapping, &KeyRange::ALL, parts, 0).len(), 1, "{parts} parts are one");
        }
        let nothing = Piece { range: KeyRange::ALL, moved: Vec::new(), bytes: 0 };
        assert_eq!(split(&[], &KeyRange::ALL, 4, 0), [nothing], "still a range to be handed over");
        let bytes = |sizes: &[u64], parts: usize| -> Vec<u64> {
            let spans: Vec<Span> = (0..).zip(sizes).map(|(at, size)| span(at, at + 200, *size)).collect();
            split(&spans, &KeyRange::ALL, parts, 0).iter().map(|piece| piece.bytes).collect()
        };
        assert_eq!(bytes(&[20, 10, 10], 2), [20, 20], "the first span counts");
        assert_eq!(bytes(&[1, 1, 1], 3), [1, 1, 1]);
    }

    /// Small spans are copied together, or with a copied neighbour; one between moved spans is
    /// moved.
    #[test]
    fn small_ones_are_joined() {
        let small = |first| Span { joins: true, ..span(first, first + 10, 1) };
        let large = |first| span(first, first + 10, 9);
        let moves = |spans: &[Span]| -> Vec<usize> {
            split(spans, &KeyRange::ALL, 1, 0).into_iter().flat_map(|piece| piece.moved).collect()
        };
        assert_eq!(moves(&[large(0), small(10), large(20), small(30)]), [0, 1, 2, 3]);
        assert_eq!(moves(&[large(0), small(10), small(20), large(30)]), [0, 3]);
        assert_eq!(moves(&[small(0)]), [0]);
        let pinned = Span { movable: false, ..large(20) };
        assert_eq!(moves(&[large(0), small(10), pinned, large(30)]), [0, 3]);
        assert_eq!(moves(&[small(0), large(10), span(15, 25, 9), small(25), large(35)]), [4], "1 and 2 overlap");
    }

    /// The properties of the module's documentation, for random spans.
    #[test]
    fn random_spans() {
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let width = *random.pick(&[2, 10, 100]);
            let spans: Vec<Span> = (0..random.below(30))
                .map(|_| {
                    let first = random.below(300);
                    let (movable, joins) = (random.below(4) > 0, random.below(4) == 0);
                    Span { movable, joins, ..span(first, first + 1 + random.below(width), random.below(50)) }
                })
                .collect();
            let pieces = split(&spans, &KeyRange::ALL, 1 + random.below(5) as usize, random.below(100));
            assert_eq!(pieces[0].range.from, None);
            assert_eq!(pieces.last().expect("a piece").range.to, None);
            for pair in pieces.windows(2) {
                assert!(pair[0].range.to.is_some() && pair[0].range.to == pair[1].range.from, "seed {seed}");
            }
            assert!(pieces.iter().all(|piece| !piece.range.is_empty()), "seed {seed}: {pieces:?}");
            let overlaps = |a: &Span, b: &Span| a.first < b.after && b.first < a.after;
            let mut moved: Vec<usize> = Vec::new();
            for piece in &pieces {
                for index in &piece.moved {
                    let span = &spans[*index];
                    assert!(span.movable && piece.range.contains(&span.first), "seed {seed}");
                    assert!(piece.range.to.as_ref().is_none_or(|to| span.after <= *to), "seed {seed}");
                    moved.push(*index);
                }
                if !piece.moved.is_empty() {
                    let inside = spans.iter().filter(|span| piece.range.contains(&span.first)).count();
                    assert_eq!(inside, piece.moved.len(), "seed {seed}: nothing else is in a piece that moves");
                }
            }
            let alone =
                |index: usize| spans.iter().enumerate().all(|(other, o)| other == index || !overlaps(&spans[index], o));
            for (index, span) in spans.iter().enumerate() {
                let may = |index: usize| spans[index].movable && alone(index);
                // The last span that begins earlier and the first that begins later: no two begin
                // at the same key.
                let begins = |other: &usize| &spans[*other].first;
                let before = (0..spans.len()).filter(|other| *begins(other) < span.first).max_by_key(begins);
                let after = (0..spans.len()).filter(|other| *begins(other) > span.first).min_by_key(begins);
                let joined = [before, after].into_iter().flatten().any(|next| !may(next) || spans[next].joins);
                assert_eq!(moved.contains(&index), may(index) && !(span.joins && joined), "seed {seed}");
            }
        }
    }
}
