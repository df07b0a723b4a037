//! [`Next`]: one decision of the [agenda](super), as a value that can be printed and compared.

use std::fmt;

use super::requests::RequestId;
use crate::planner::CompactionPlan;
use crate::shape::Shape;

/// One decision, to be carried out by the caller, who then reports it to the
/// [agenda](super::Agenda) and asks for the next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The oldest immutable memtable becomes a run of level 1, with the runs that the plan names.
    /// Reported by `begun`, and by `flushed` when it has ended.
    Flush(CompactionPlan),
    /// A compaction begins. Reported by `begun`, and by `ended` when it has ended; by `moved` for a
    /// plan that [only moves a run](Merge::is_move).
    Compact {
        /// Its inputs, its target level and its cause.
        plan: CompactionPlan,
        /// The request that it serves, if one does.
        request: Option<RequestId>,
    },
    /// The tree takes this shape of its policy, since it has outgrown the present one or a smaller
    /// one holds it. Reported by `design_changed`.
    NewShape(Shape),
    /// Nothing is to be begun now.
    Nothing,
}

impl Next {
    /// A compaction that nobody asked for.
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
