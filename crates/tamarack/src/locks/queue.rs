//! [`LockQueue`]: who gets a lock, who waits for whom, and who loses a deadlock. Decides only, and
//! never waits: [`super::LockTable`] does.
//!
//! # Who gets a lock
//!
//! A request is granted if no other transaction has a lock that conflicts with it, and no request
//! that conflicts with it has waited for longer: first come, first served, so that a writer is not
//! starved by readers. With one exception: a request passes by another one whose transaction waits,
//! directly or not, for the requesting one. That other one cannot go on before the requesting
//! transaction ends, so it loses nothing; without the exception both would wait for ever.
//!
//! ```text
//!   1 has a shared lock on k      2 waits for an exclusive lock on k     1 wants an exclusive one
//!                                 because of 1                           ◄── passes by 2
//! ```
//!
//! # Deadlocks
//!
//! A transaction waits for those whose locks conflict with its request. A cycle of such waits is a
//! deadlock. It can only begin when a request begins to wait: one that is granted is of a
//! transaction that goes on. So each request that has to wait is the start of a search for a path
//! back to its transaction. The youngest transaction of a cycle loses: its locks are taken away at
//! once, its request fails, and the others go on. A request can close several cycles.
//!
//! Waiting behind an older request is no part of a cycle. If a cycle has such a place, the
//! exception above lets the request there pass by, and it is none. (Say that all of a set wait
//! for each other, and none could be granted. From each, follow one wait: for a lock if there is
//! one, else behind an older request. That ends in a cycle. If it has only waits for locks, it is a
//! deadlock, which was resolved. Else somebody in it waits behind a request that waits for him, and
//! passes by.)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tamarack_env::Event;

use super::ranges::{LockMode, LockedRanges, Owner};
use crate::error::shown_key;
use crate::format::key_range::{KeyRange, key_after};
use crate::mistake::{self, Mistake};

/// A request that waits.
#[derive(Debug)]
struct LockRequest {
    owner: Owner,
    range: KeyRange,
    mode: LockMode,
    /// Notified when the request has an outcome.
    answered: Arc<Event>,
}

/// What became of a request that had to wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum LockOutcome {
    /// The transaction has the lock.
    Granted,
    /// The transaction has lost a deadlock, described here, and all its locks.
    Deadlock(String),
}

/// The locks and the requests that wait. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct LockQueue {
    pub(super) locked: LockedRanges,
    /// The ranges that each transaction has locked, in the order of locking.
    owned: BTreeMap<Owner, Vec<KeyRange>>,
    /// Requests in the order in which they came.
    waiting: Vec<LockRequest>,
    outcomes: BTreeMap<Owner, LockOutcome>,
    owned_bytes: usize,
}

/// The memory of a range in the list of its transaction besides its keys. The list can be half
/// empty.
const OWNED_BYTES: usize = 2 * size_of::<KeyRange>() + 32;

impl LockQueue {
    /// The memory of the locks, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.locked.bytes() + self.owned_bytes
    }

    /// Locks `range`, which is not empty, for `owner`, or lets the request wait. Returns true if
    /// the transaction has the lock. Otherwise `answered` is notified once there is an outcome:
    /// [`LockQueue::take_outcome`] returns it, or [`LockQueue::give_up`] ends the wait.
    pub(super) fn request(&mut self, owner: Owner, range: &KeyRange, mode: LockMode, answered: &Arc<Event>) -> bool {
        assert!(!range.is_empty() && !self.is_waiting(owner), "{owner} requests {range:?}: {:?}", self.waiting);
        if self.locked.covers(owner, range, mode) {
            return true;
        }
        let request = LockRequest { owner, range: range.clone(), mode, answered: answered.clone() };
        if self.is_grantable(&request, self.waiting.len()) {
            self.grant(&request);
            return true;
        }
        self.waiting.push(request);
        // Where the requesting transaction is the youngest one of a cycle, it alone loses, and ends
        // all cycles with it.
        while let Some(cycle) = self.cycle(owner, |other| other < owner).or_else(|| self.cycle(owner, |_| true)) {
            self.defeat(&cycle);
        }
        self.grant_waiting();
        false
    }

    /// Returns true if a request of `owner` waits.
    fn is_waiting(&self, owner: Owner) -> bool {
        self.waiting.iter().any(|request| request.owner == owner)
    }

    /// Returns true if a request that had to wait has an outcome.
    pub(super) fn has_outcome(&self, owner: Owner) -> bool {
        self.outcomes.contains_key(&owner)
    }

    /// Returns the outcome of a request that had to wait, once.
    pub(super) fn take_outcome(&mut self, owner: Owner) -> Option<LockOutcome> {
        self.outcomes.remove(&owner)
    }

    /// Ends the wait of a request without an outcome, and returns what it waited for, in words.
    pub(super) fn give_up(&mut self, owner: Owner) -> String {
        let at = self.waiting.iter().position(|request| request.owner == owner);
        let at = at.expect("a request without an outcome waits");
        let what = self.described(at);
        self.waiting.remove(at);
        self.grant_waiting();
        what
    }

    /// Takes all locks of `owner` away.
    pub(super) fn release(&mut self, owner: Owner) {
        self.unlock_all(owner);
        self.grant_waiting();
    }

    fn unlock_all(&mut self, owner: Owner) {
        for range in self.owned.remove(&owner).unwrap_or_default() {
            self.owned_bytes -= owned_bytes(&range);
            self.locked.unlock(owner, &range);
        }
    }

    fn grant(&mut self, request: &LockRequest) {
        self.locked.lock(request.owner, &request.range, request.mode);
        self.owned_bytes += owned_bytes(&request.range);
        self.owned.entry(request.owner).or_default().push(request.range.clone());
    }

    /// Grants all requests that can be. Passing by depends on who waits for whom, so each grant
    /// begins anew.
    fn grant_waiting(&mut self) {
        let grantable = |queue: &Self| (0..queue.waiting.len()).find(|at| queue.is_grantable(&queue.waiting[*at], *at));
        while let Some(at) = grantable(self) {
            let request = self.waiting.remove(at);
            self.grant(&request);
            self.answer(&request, LockOutcome::Granted);
        }
    }

    fn answer(&mut self, request: &LockRequest, outcome: LockOutcome) {
        let before = self.outcomes.insert(request.owner, outcome);
        assert!(before.is_none(), "transaction {} waits for one lock at a time: {before:?}", request.owner);
        request.answered.notify();
    }

    /// Returns true if a request that came after the first `earlier` ones in the queue is granted.
    fn is_grantable(&self, request: &LockRequest, earlier: usize) -> bool {
        if !self.locked.conflicting(request.owner, &request.range, request.mode).is_empty() {
            return false;
        }
        let mut before = self.waiting[..earlier].iter().filter(|other| other.conflicts_with(request));
        before.all(|other| self.waits_for(other.owner, request.owner))
    }

    /// Returns true if `owner` waits for `target`, directly or not.
    fn waits_for(&self, owner: Owner, target: Owner) -> bool {
        let (mut open, mut seen) = (vec![owner], BTreeSet::from([owner]));
        while let Some(owner) = open.pop() {
            let next = self.blockers(owner);
            if next.contains(&target) {
                return true;
            }
            open.extend(next.into_iter().filter(|next| seen.insert(*next)));
        }
        false
    }

    /// The transactions that a waiting one waits for: because of their locks, or, if there are
    /// none, because their requests came before.
    fn blockers(&self, owner: Owner) -> Vec<Owner> {
        let Some(at) = self.waiting.iter().position(|request| request.owner == owner) else { return Vec::new() };
        let conflicting = self.lock_conflicts(&self.waiting[at]);
        if !conflicting.is_empty() {
            return conflicting;
        }
        let before = self.waiting[..at].iter().filter(|other| other.conflicts_with(&self.waiting[at]));
        before.map(|other| other.owner).collect()
    }

    /// The transactions whose locks a request waits for.
    fn lock_conflicts(&self, request: &LockRequest) -> Vec<Owner> {
        let mut conflicting = self.locked.conflicting(request.owner, &request.range, request.mode);
        if mistake::is_planted(Mistake::WaitEdgeMissed) {
            conflicting.truncate(1);
        }
        conflicting
    }

    /// A cycle of waits for locks with `owner`, as the places of their requests in the queue: each
    /// waits for the next one, and the last one for the first. All others are such that `is_one`
    /// accepts.
    fn cycle(&self, owner: Owner, is_one: impl Fn(Owner) -> bool) -> Option<Vec<usize>> {
        let at = |owner: Owner| self.waiting.iter().position(|request| request.owner == owner);
        let start = at(owner)?;
        // Depth first; `path` has for each request what is left to be looked at.
        let mut path = vec![(start, self.lock_conflicts(&self.waiting[start]))];
        let mut seen = BTreeSet::from([owner]);
        while let Some((_, left)) = path.last_mut() {
            match left.pop() {
                Some(next) if next == owner => return Some(path.into_iter().map(|(at, _)| at).collect()),
                Some(next) if is_one(next) && seen.insert(next) => {
                    if let Some(next) = at(next) {
                        path.push((next, self.lock_conflicts(&self.waiting[next])));
                    }
                }
                Some(_) => {}
                None => drop(path.pop()),
            }
        }
        None
    }

    /// Ends a deadlock: its youngest transaction loses its request and its locks.
    fn defeat(&mut self, cycle: &[usize]) {
        let victim = cycle.iter().copied().max_by_key(|at| self.waiting[*at].owner).expect("a cycle is not empty");
        let waits: Vec<String> = cycle.iter().map(|at| self.described(*at)).collect();
        let owner = self.waiting[victim].owner;
        let what = format!("{}; transaction {owner}, the youngest, was rolled back", waits.join("; "));
        let request = self.waiting.remove(victim);
        self.unlock_all(owner);
        self.answer(&request, LockOutcome::Deadlock(what));
    }

    /// What a request waits for, in words.
    fn described(&self, at: usize) -> String {
        let request = &self.waiting[at];
        let LockRequest { owner, range, mode, .. } = request;
        let mode = match mode {
            LockMode::Shared => "a shared",
            LockMode::Exclusive => "an exclusive",
        };
        let because = match self.locked.first_conflict(*owner, range, request.mode) {
            Some(key) => {
                let locked_by = self.locked.conflicting(*owner, range, request.mode);
                let which = if is_one_key(range) {
                    "which".to_owned()
                } else {
                    format!("in which the key {}", shown_key(&key))
                };
                format!("{which} {} locked", listed(&locked_by, "has", "have"))
            }
            None => format!("which {} for, too, and came first", listed(&self.blockers(*owner), "waits", "wait")),
        };
        format!("transaction {owner} waits for {mode} lock on {}, {because}", shown_range(range))
    }
}

impl LockRequest {
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlaps = !self.range.is_before(&other.range) && !other.range.is_before(&self.range);
        self.owner != other.owner && overlaps && self.mode.conflicts_with(other.mode)
    }
}

#[cfg(test)]
impl LockQueue {
    /// The transactions that wait, in the order of their requests.
    pub(super) fn waiting(&self) -> Vec<Owner> {
        self.waiting.iter().map(|request| request.owner).collect()
    }

    /// The outcome of a request that had to wait, which stays.
    pub(super) fn outcome(&self, owner: Owner) -> Option<&LockOutcome> {
        self.outcomes.get(&owner)
    }
}

/// The memory that a range in the list of its transaction is charged for.
fn owned_bytes(range: &KeyRange) -> usize {
    OWNED_BYTES + [&range.from, &range.to].into_iter().flatten().map(|key| key.len()).sum::<usize>()
}

/// So many transactions are named in an error.
const NAMED: usize = 8;

/// Transactions in words, with a word that agrees with their number.
fn listed(owners: &[Owner], one: &str, many: &str) -> String {
    let numbers: Vec<String> = owners.iter().take(NAMED).map(Owner::to_string).collect();
    match owners.len() {
        1 => format!("transaction {} {one}", numbers[0]),
        all if all > NAMED => format!("transactions {} and {} others {many}", numbers.join(", "), all - NAMED),
        _ => format!("transactions {} {many}", numbers.join(", ")),
    }
}

fn is_one_key(range: &KeyRange) -> bool {
    range.from.as_deref().is_some_and(|from| range.to == Some(key_after(from)))
}

/// A range as an error shows it.
fn shown_range(range: &KeyRange) -> String {
    let from = range.from.as_deref().filter(|from| !from.is_empty()).map(shown_key).unwrap_or_default();
    if is_one_key(range) {
        return format!("the key {from}");
    }
    format!("the range {from}..{}", range.to.as_deref().map(shown_key).unwrap_or_default())
}
