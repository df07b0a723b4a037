//! The Pareto front of designs with two costs: those that no other design beats in one cost without
//! losing in the other.
//!
//! ```text
//! reads │ a
//!       │      ·  ·
//!       │   b       ·       a, b, c are on the front:
//!       │      ·            each · has one of them to its lower left
//!       │            c
//!       └─────────────── writes
//! ```
//!
//! The front is all that a choice between two costs has to look at, whatever the weights of the
//! two. It knows no design: points are numbers. Source: Kung, Luccio, Preparata, *On Finding the
//! Maxima of a Set of Vectors*, JACM 1975. Tests: below, against the definition.

/// The indices of the points on the Pareto front, by ascending first cost and so by descending
/// second one.
///
/// A point is on the front if no other point has both costs at most as large. Of equal points, the
/// first is. A point with a cost that is no number is never on it. Takes `O(n log n)`.
///
/// ```
/// use tamarack_model::navigator::pareto::front;
///
/// let costs = [[4.0, 4.0], [1.0, 9.0], [5.0, 4.0], [9.0, 1.0]];
/// assert_eq!(front(&costs), [1, 0, 3]);
/// ```
pub fn front(costs: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).filter(|at| costs[*at].iter().all(|cost| !cost.is_nan())).collect();
    // A stable sort: of equal points the first stays first.
    order.sort_by(|a, b| costs[*a].partial_cmp(&costs[*b]).expect("costs are numbers"));
    let mut least: Option<f64> = None;
    order.retain(|at| {
        let second = costs[*at][1];
        let is_less = least.is_none_or(|least| second < least);
        if is_less {
            least = Some(second);
        }
        is_less
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamarack_testing::{Random, seeds};

    /// The definition, point by point: `other` is at least as good as `one`, and better, or equal
    /// and earlier.
    fn beats(costs: &[[f64; 2]], other: usize, one: usize) -> bool {
        let [[a, b], [x, y]] = [costs[other], costs[one]];
        a <= x && b <= y && (a < x || b < y || other < one)
    }

    /// Random points, with many equal costs, against the definition.
    #[test]
    fn as_defined() {
        for seed in seeds(200) {
            let mut random = Random::new(seed);
            let values = 1 + random.below(30);
            let points = random.below(60) as usize;
            let costs: Vec<[f64; 2]> =
                (0..points).map(|_| [random.below(values) as f64, random.below(values) as f64]).collect();
            let found = front(&costs);
            for one in 0..points {
                let is_beaten = (0..points).any(|other| beats(&costs, other, one));
                assert_eq!(found.contains(&one), !is_beaten, "seed {seed}: {one} of {costs:?}");
            }
            let is_ordered = |pair: &[usize]| costs[pair[0]][0] < costs[pair[1]][0];
            assert!(found.windows(2).all(is_ordered), "seed {seed}: {found:?}");
        }
    }

    /// No points, one point, and costs that are infinite or no numbers.
    #[test]
    fn borders() {
        assert_eq!(front(&[]), [] as [usize; 0]);
        assert_eq!(front(&[[3.0, f64::INFINITY]]), [0]);
        assert_eq!(front(&[[f64::NAN, 0.0], [0.0, f64::NAN], [2.0, 2.0], [f64::INFINITY, 1.0]]), [2, 3]);
    }
}
