//! The model of a database: the list of all states it has been in, one per commit.
//!
//! ```text
//!   states       0 ── 1 ── 2 ── 3 ── 4 ── 5
//!                          ▲         ▲    └ a write whose fate is unknown
//!                          │         └ visible to reads; every write up to here was acknowledged
//!                          └ durable: the least that a loss of power must leave
//! ```
//!
//! After a crash the database must have one of these states: from `durable` on after a loss of
//! power, from `visible` on after the end of the process, and exactly `visible` after a close. The
//! model continues from the state that was found.
//!
//! A refused write is not in the list: it must never become visible. States before `durable` are
//! dropped, since nothing can lead back to them; where nothing that was acknowledged can be lost,
//! these are all states but the last, and a write changes it in its place.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::operation::{Change, Level, Quoted, Range, Reader, Write};

/// Keys and values.
pub(crate) type KeyValues = BTreeMap<Arc<[u8]>, Arc<[u8]>>;

/// A key and its value.
pub(crate) type Pair = (Arc<[u8]>, Arc<[u8]>);

/// The state of the model.
#[derive(Clone)]
pub(crate) struct Model {
    /// Whether acknowledged writes that are not durable may be lost.
    can_lose: bool,
    states: VecDeque<Arc<KeyValues>>,
    /// The number of commits before the first state.
    dropped: usize,
    visible: usize,
    durable: usize,
    /// The number of commits that must be durable at that time.
    deadlines: Vec<(Duration, usize)>,
    /// True once an operation returned that writing has ended.
    pub(crate) stopped: bool,
    pub(crate) snapshots: BTreeMap<u8, Arc<KeyValues>>,
    /// The remaining items of open scans.
    pub(crate) scans: BTreeMap<u8, VecDeque<Pair>>,
    /// Pending ingests.
    pub(crate) ingests: BTreeMap<u8, Vec<Write>>,
}

/// Guaranteed state after an end of the process or machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Guarantee {
    /// At least the durable writes.
    Durable,
    /// At least the acknowledged writes.
    Acknowledged,
    /// The acknowledged writes, and nothing else.
    Exactly,
}

/// How the state found after an end compares with the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recovered {
    All,
    /// Acknowledged writes were lost, which was allowed.
    Less,
    /// An unacknowledged write survived.
    More,
}

impl Model {
    /// An empty database.
    pub(crate) fn new(can_lose: bool) -> Self {
        Self {
            can_lose,
            states: VecDeque::from([Arc::default()]),
            dropped: 0,
            visible: 0,
            durable: 0,
            deadlines: Vec::new(),
            stopped: false,
            snapshots: BTreeMap::new(),
            scans: BTreeMap::new(),
            ingests: BTreeMap::new(),
        }
    }

    /// Returns what a reader must see; `None` if there is no such snapshot.
    pub(crate) fn state(&self, reader: Reader) -> Option<Arc<KeyValues>> {
        match reader {
            Reader::Now => Some(self.now().clone()),
            Reader::Snapshot(slot) => self.snapshots.get(&slot).cloned(),
        }
    }

    /// Records an acknowledged write.
    pub(crate) fn acknowledge(&mut self, writes: &[Write], level: Level, now: Duration) {
        assert_eq!(self.visible, self.last(), "no write is acknowledged after one whose fate is unknown");
        if !self.can_lose {
            apply(Arc::make_mut(self.states.back_mut().expect("there is always a state")), writes);
            return;
        }
        self.states.push_back(self.after(writes));
        self.visible += 1;
        match level {
            Level::Usual | Level::Buffered => {}
            Level::Sync => self.make_durable(),
            Level::Interval(ms) => self.deadlines.push((now + Duration::from_millis(ms), self.visible)),
        }
    }

    fn now(&self) -> &Arc<KeyValues> {
        &self.states[self.visible - self.dropped]
    }

    /// The number of commits of the last state.
    fn last(&self) -> usize {
        self.dropped + self.states.len() - 1
    }

    /// Records a write without an answer, or of unknown fate. It is not visible.
    pub(crate) fn lose_track(&mut self, writes: &[Write]) {
        self.states.push_back(self.after(writes));
    }

    /// Records that all acknowledged writes have become durable.
    pub(crate) fn make_durable(&mut self) {
        self.durable_until(self.visible);
    }

    fn durable_until(&mut self, commits: usize) {
        self.durable = commits;
        self.states.drain(..commits - self.dropped);
        self.dropped = commits;
    }

    /// Records the time, with all background work done.
    pub(crate) fn time_passed(&mut self, now: Duration) {
        let due = self.deadlines.iter().filter(|(deadline, _)| *deadline <= now).map(|(_, commits)| *commits).max();
        self.durable_until(self.durable.max(due.unwrap_or(0)));
    }

    /// Accepts the state found after an end, if it is allowed.
    ///
    /// # Errors
    /// The expected state.
    pub(crate) fn recover(&mut self, found: KeyValues, guarantee: Guarantee) -> Result<Recovered, String> {
        let before = self.visible;
        let (first, last) = match guarantee {
            Guarantee::Durable => (self.durable, self.last()),
            Guarantee::Acknowledged => (self.visible, self.last()),
            Guarantee::Exactly => (self.visible, self.visible),
        };
        let mut matching = (first..=last).filter(|commits| *self.states[*commits - self.dropped] == found);
        let Some(least) = matching.next() else { return Err(self.unexpected(&found, first, last)) };
        // Several states may be equal. The last of them is taken as found, but only the first one
        // as durable.
        let most = matching.next_back().unwrap_or(least);
        self.states.truncate(most + 1 - self.dropped);
        self.visible = most;
        if guarantee != Guarantee::Acknowledged {
            self.durable_until(least);
        }
        self.forget_process();
        Ok(match self.visible {
            now if now < before => Recovered::Less,
            now if now > before => Recovered::More,
            _ => Recovered::All,
        })
    }

    /// Drops everything that ends with the process.
    fn forget_process(&mut self) {
        self.deadlines.clear();
        self.stopped = false;
        self.snapshots.clear();
        self.scans.clear();
        self.ingests.clear();
    }

    fn after(&self, writes: &[Write]) -> Arc<KeyValues> {
        let mut state = (**self.now()).clone();
        apply(&mut state, writes);
        Arc::new(state)
    }

    fn unexpected(&self, found: &KeyValues, first: usize, last: usize) -> String {
        let mut text = format!("found {}\nexpected one of these:", show(found));
        for (commits, state) in (self.dropped..=last).zip(&self.states).skip(first - self.dropped) {
            text += &format!("\n  after {commits} commits {}", show(state));
        }
        if let Some(other) = self.states.iter().position(|state| **state == *found) {
            text += &format!("\nit looks like the state after {} commits", self.dropped + other);
        }
        text
    }
}

/// Carries out writes in order.
fn apply(state: &mut KeyValues, writes: &[Write]) {
    for write in writes {
        match &write.change {
            Change::Put(value) => drop(state.insert(write.key.as_slice().into(), value.as_slice().into())),
            Change::Delete => drop(state.remove(write.key.as_slice())),
            Change::Merge(operand) => {
                let existing = state.get(write.key.as_slice()).map_or(&[][..], |value| value);
                let value = [existing, operand].concat();
                state.insert(write.key.as_slice().into(), value.into());
            }
            Change::DeleteRange(_) => {
                let (start, end) = write.range().expect("it deletes a range");
                let deleted = pairs(state, &Range::Bounds(start, end));
                deleted.iter().for_each(|(key, _)| drop(state.remove(key)));
            }
        }
    }
}

/// Returns the pairs of a state in a range.
pub(crate) fn pairs(state: &KeyValues, range: &Range) -> VecDeque<Pair> {
    let contains = |key: &[u8]| match range {
        Range::Prefix(prefix) => key.starts_with(prefix),
        Range::Bounds(start, end) => {
            let after_start = match start {
                Bound::Included(start) => key >= start.as_slice(),
                Bound::Excluded(start) => key > start.as_slice(),
                Bound::Unbounded => true,
            };
            let before_end = match end {
                Bound::Included(end) => key <= end.as_slice(),
                Bound::Excluded(end) => key < end.as_slice(),
                Bound::Unbounded => true,
            };
            after_start && before_end
        }
    };
    state.iter().filter(|(key, _)| contains(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Formats a state in one line.
pub(crate) fn show(state: &KeyValues) -> String {
    let pairs: Vec<_> = state.iter().map(|(key, value)| format!("{}: {}", Quoted(key), Quoted(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}
