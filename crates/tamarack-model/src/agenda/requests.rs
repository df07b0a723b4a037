//! [`Requests`]: compactions that somebody asked for, in the order of asking.
//!
//! A request waits until nothing that is in progress holds a run that it needs; then its compaction
//! begins, and it is served when that has ended. Requests are taken one after the other, each from
//! the tree as it is when its turn comes.

use std::collections::VecDeque;

use super::situation::Situation;
use crate::planner::{Cause, CompactionPlan, Occasion};

/// The number of a request; no two of one agenda share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// What is to be compacted into one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole tree.
    All,
    /// A range of keys, which the caller knows.
    Range,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    made: u64,
    /// Those that are not served yet.
    open: VecDeque<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    id: RequestId,
    scope: Scope,
    has_begun: bool,
}

/// What is to be done for requests.
pub(super) enum Turn {
    /// This compaction begins.
    Begins(CompactionPlan, RequestId),
    /// The next request waits for what is in progress.
    Waits,
    /// There is none that has not begun.
    Nobody,
}

impl Requests {
    pub(super) fn make(&mut self, scope: Scope) -> RequestId {
        let id = RequestId(self.made);
        self.made += 1;
        self.open.push_back(Request { id, scope, has_begun: false });
        id
    }

    pub(super) fn next(&mut self, now: &Situation<'_>) -> Turn {
        while let Some(at) = self.open.iter().position(|request| !request.has_begun) {
            let Request { id, scope, .. } = self.open[at];
            let occasion = match scope {
                Scope::All => Occasion::Compact,
                Scope::Range => Occasion::CompactRange,
            };
            match now.plan(occasion) {
                Some(plan) => return Turn::Begins(plan, id),
                None if !now.in_progress.is_empty() => return Turn::Waits,
                // The tree is empty.
                None => drop(self.open.remove(at)),
            }
        }
        Turn::Nobody
    }

    pub(super) fn begun(&mut self, cause: Cause) {
        let scope = match cause {
            Cause::Compact => Scope::All,
            Cause::CompactRange => Scope::Range,
            _ => return,
        };
        if let Some(request) = self.open.iter_mut().find(|request| !request.has_begun)
            && request.scope == scope
        {
            request.has_begun = true;
        }
    }

    pub(super) fn served(&mut self, id: RequestId) {
        self.open.retain(|request| request.id != id);
    }

    pub(super) fn is_waiting(&self, id: RequestId) -> bool {
        self.open.iter().any(|request| request.id == id && !request.has_begun)
    }

    pub(super) fn is_served(&self, id: RequestId) -> bool {
        self.open.iter().all(|request| request.id != id)
    }

    /// For people: how many there are.
    pub(super) fn describe(&self) -> Option<String> {
        let waiting = self.open.iter().filter(|request| !request.has_begun).count();
        let begun = self.open.len() - waiting;
        (!self.is_empty()).then(|| format!("requests: {waiting} waiting, {begun} in progress"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
