//! [`Requests`]: requested compactions, in the order of the requests.
//!
//! A request waits until no compaction in progress uses a run that it needs; then its compaction
//! begins, and the request is served when that has ended. Requests are taken one at a time, each
//! from the tree as it is then.

use std::collections::VecDeque;

use super::situation::Situation;
use crate::planner::{Cause, CompactionPlan, Occasion};

/// The number of a request, unique within one agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// The part of the tree that is compacted into one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole tree.
    All,
    /// A range of keys, known to the caller.
    Range,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    made: u64,
    /// Requests that are not served yet.
    open: VecDeque<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    id: RequestId,
    scope: Scope,
    has_begun: bool,
}

/// The next step for requests.
pub(super) enum Turn {
    /// This compaction begins.
    Begins(CompactionPlan, RequestId),
    /// The next request waits for compactions in progress.
    Waits,
    /// Every request has begun.
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

    pub(super) fn withdraw(&mut self, id: RequestId) {
        self.open.retain(|request| request.id != id || request.has_begun);
    }

    pub(super) fn is_waiting(&self, id: RequestId) -> bool {
        self.open.iter().any(|request| request.id == id && !request.has_begun)
    }

    pub(super) fn is_served(&self, id: RequestId) -> bool {
        self.open.iter().all(|request| request.id != id)
    }

    /// Describes the number of requests for people.
    pub(super) fn describe(&self) -> Option<String> {
        let waiting = self.open.iter().filter(|request| !request.has_begun).count();
        let begun = self.open.len() - waiting;
        (!self.is_empty()).then(|| format!("requests: {waiting} waiting, {begun} in progress"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
