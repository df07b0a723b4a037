//! When a tree takes its policy's next shape, and when it returns to a smaller one.
//!
//! ```text
//!            holds       grows when …                       shrinks when …
//! step 1     10          10 would be reached                    -
//! step 2     100         100 would be reached                   the data is below 5
//! step 3     1000                                               the data is below 50
//! ```
//!
//! A tree grows when the planner reports that a batch would fill the last level
//! ([`planner::outgrown`](crate::planner::outgrown)). It shrinks when twice its data would still
//! fit a smaller step; that factor is the hysteresis. A tree that has just grown must lose half its
//! data before it shrinks, and one that has just shrunk must double before it grows, so small
//! variations of the data move no bytes to and fro.
//!
//! Either way the tree is [relabelled](crate::planner::relabel), and the planner moves its data
//! over time.

use crate::policy::ShapeFamily;
use crate::shape::Shape;
use crate::units::Bytes;

/// Returns the next shape for a tree of `data` bytes that has outgrown this one; `None` if the
/// policy has no larger one.
pub fn grown(policy: &dyn ShapeFamily, shape: &Shape, data: Bytes) -> Option<Shape> {
    let next = policy.shape(data.max(shape.holds()), shape.buffer());
    (next.holds() > shape.holds()).then_some(next)
}

/// Returns the smaller shape to which a tree of `data` bytes should return; `None` if it should
/// keep this one.
pub fn shrunk(policy: &dyn ShapeFamily, shape: &Shape, data: Bytes) -> Option<Shape> {
    // Below the largest tree, any shape for so much holds more than that. This is the common case,
    // and some policies take a millisecond to find a shape.
    if data * 2 >= shape.holds() {
        return None;
    }
    let smaller = policy.shape(data * 2, shape.buffer());
    (smaller.holds() < shape.holds()).then_some(smaller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Leveling;

    /// At any data size, a tree that changes its shape does not change back at that size.
    #[test]
    fn growing_and_shrinking_do_not_alternate() {
        let policy = Leveling::new(4, 1).expect("a policy");
        let step = |size| policy.shape(Bytes(size), Bytes(1));
        for data in (0..5000).map(Bytes) {
            for shape in [step(0), step(30), step(300), step(3000)] {
                if let Some(smaller) = shrunk(&policy, &shape, data) {
                    assert!(data.0 * 2 < smaller.holds().0, "{data} fits twice");
                    assert_eq!(shrunk(&policy, &smaller, data), None, "one step to the right shape");
                }
                if let Some(larger) = grown(&policy, &shape, shape.holds()) {
                    assert_eq!(shrunk(&policy, &larger, shape.holds()), None, "what has grown does not shrink at once");
                }
            }
        }
    }
}
