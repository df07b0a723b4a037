//! [`Next`]: one decision of the [agenda](super), as a value that can be printed and compared.

use std::fmt;

use super::requests::RequestId;
use crate::planner::CompactionPlan;
use crate::shape::Shape;

/// A decision, which the caller carries out and reports to the [agenda](super::Agenda) before
/// asking for the next one.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The oldest immutable memtable becomes a run of level 1, together with the plan's inputs.
    /// Reported by `begun`, and by `flushed` at its end.
    Flush(CompactionPlan),
    /// A compaction begins. Reported by `begun`, and by `ended` at its end; by `moved` for a plan
    /// that [only moves a run](CompactionPlan::is_move).
    Compact {
        /// The inputs, target level and cause.
        plan: CompactionPlan,
        /// The request that it serves, if any.
        request: Option<RequestId>,
    },
    /// The tree takes this shape of its policy: it has outgrown its present shape, or a smaller one
    /// holds it. Reported by `design_changed`.
    NewShape(Shape),
    /// Nothing begins now.
    Nothing,
}

impl Next {
    /// A compaction that serves no request.
    pub(super) fn compact(plan: CompactionPlan) -> Self {
        Self::Compact { plan, request: None }
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flush(plan) | Self::Compact { plan, .. } => write!(f, "{plan}"),
            Self::NewShape(shape) => {
                write!(f, "new shape: {} levels for {} bytes", shape.last(), shape.holds())
            }
            Self::Nothing => write!(f, "nothing"),
        }
    }
}
