//! What a database must hold, in the simplest way there is: the list of all states it has been in,
//! one per commit.
//!
//! ```text
//!   states       0 ── 1 ── 2 ── 3 ── 4 ── 5
//!                          ▲         ▲    └ a write whose fate is unknown
//!                          │         └ visible: what reads see; every write up to here was acknowledged
//!                          └ durable: what a loss of power must leave at least
//! ```
//!
//! After a crash the database must hold one of these states: from `durable` on if the machine lost
//! its power, from `visible` on if only the process ended, and exactly `visible` if it was closed.
//! The model then goes on from the state that was found.
//!
//! A write that was refused is not in the list: whatever happens later, it must never be seen.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::operation::{Level, Quoted, Range, Reader, Write};

/// Keys and values.
pub(crate) type State = BTreeMap<Arc<[u8]>, Arc<[u8]>>;

/// A key and its value.
pub(crate) type Pair = (Arc<[u8]>, Arc<[u8]>);

/// All that is known of a database.
#[derive(Clone)]
pub(crate) struct Model {
    states: Vec<Arc<State>>,
    visible: usize,
    durable: usize,
    /// The number of commits that must be durable when that time has come.
    deadlines: Vec<(Duration, usize)>,
    /// True once an operation said that no more writes are taken.
    pub(crate) stopped: bool,
    pub(crate) snapshots: BTreeMap<u8, Arc<State>>,
    /// What open scans have not delivered yet.
    pub(crate) scans: BTreeMap<u8, VecDeque<Pair>>,
    /// What is to be ingested.
    pub(crate) ingests: BTreeMap<u8, Vec<Write>>,
}

/// What an end must leave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Promise {
    /// All that was durable.
    Durable,
    /// All that was acknowledged.
    Acknowledged,
    /// All that was acknowledged, and nothing else.
    Exactly,
}

/// How the state that was found after an end compares with the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recovered {
    All,
    /// Acknowledged writes were lost, as they might be.
    Less,
    /// A write was kept that had not been acknowledged.
    More,
}

impl Model {
    /// An empty database.
    pub(crate) fn new() -> Self {
        Self {
            states: vec![Arc::default()],
            visible: 0,
            durable: 0,
            deadlines: Vec::new(),
            stopped: false,
            snapshots: BTreeMap::new(),
            scans: BTreeMap::new(),
            ingests: BTreeMap::new(),
        }
    }

    /// What a reader must see; `None` if there is no such snapshot.
    pub(crate) fn state(&self, reader: Reader) -> Option<Arc<State>> {
        match reader {
            Reader::Now => Some(self.states[self.visible].clone()),
            Reader::Snapshot(slot) => self.snapshots.get(&slot).cloned(),
        }
    }

    /// A write was acknowledged.
    pub(crate) fn acknowledge(&mut self, writes: &[Write], level: Level, now: Duration) {
        self.states.push(self.after(writes));
        self.visible += 1;
        assert_eq!(self.visible + 1, self.states.len(), "no write is acknowledged after one whose fate is unknown");
        match level {
            Level::Buffered => {}
            Level::Sync => self.durable = self.visible,
            Level::Interval(ms) => self.deadlines.push((now + Duration::from_millis(ms), self.visible)),
        }
    }

    /// A write ended without an answer, or with the answer that its fate is unknown. It is not
    /// visible.
    pub(crate) fn lose_track(&mut self, writes: &[Write]) {
        self.states.push(self.after(writes));
    }

    /// All that was acknowledged has become durable.
    pub(crate) fn make_durable(&mut self) {
        self.durable = self.visible;
    }

    /// It is so late, and all background work is done.
    pub(crate) fn time_passed(&mut self, now: Duration) {
        let due = self.deadlines.iter().filter(|(deadline, _)| *deadline <= now).map(|(_, commits)| *commits).max();
        self.durable = self.durable.max(due.unwrap_or(0));
    }

    /// Takes over what was found after an end, if it may be.
    ///
    /// # Errors
    /// Says what was expected instead.
    pub(crate) fn recover(&mut self, found: State, promise: Promise) -> Result<Recovered, String> {
        let before = self.visible;
        let (first, last) = match promise {
            Promise::Durable => (self.durable, self.states.len() - 1),
            Promise::Acknowledged => (self.visible, self.states.len() - 1),
            Promise::Exactly => (self.visible, self.visible),
        };
        let mut matching = (first..=last).filter(|commits| *self.states[*commits] == found);
        let Some(least) = matching.next() else { return Err(self.unexpected(&found, first, last)) };
        // Several may look alike. What follows is judged as if the last of them had been found, but no more
        // is taken to be durable than the first one tells.
        let most = matching.next_back().unwrap_or(least);
        self.states.truncate(most + 1);
        self.visible = most;
        if promise != Promise::Acknowledged {
            self.durable = least;
        }
        self.forget_process();
        Ok(match self.visible {
            now if now < before => Recovered::Less,
            now if now > before => Recovered::More,
            _ => Recovered::All,
        })
    }

    /// What only lived as long as the process.
    fn forget_process(&mut self) {
        self.deadlines.clear();
        self.stopped = false;
        self.snapshots.clear();
        self.scans.clear();
        self.ingests.clear();
    }

    fn after(&self, writes: &[Write]) -> Arc<State> {
        let mut state = (*self.states[self.visible]).clone();
        for write in writes {
            match &write.value {
                Some(value) => state.insert(write.key.as_slice().into(), value.as_slice().into()),
                None => state.remove(write.key.as_slice()),
            };
        }
        Arc::new(state)
    }

    fn unexpected(&self, found: &State, first: usize, last: usize) -> String {
        let mut text = format!("found {}\nexpected one of these:", show(found));
        for (commits, state) in self.states.iter().enumerate().take(last + 1).skip(first) {
            text += &format!("\n  after {commits} commits {}", show(state));
        }
        if let Some(other) = self.states.iter().position(|state| **state == *found) {
            text += &format!("\nit looks like the state after {other} commits");
        }
        text
    }
}

/// The pairs of a state in a range.
pub(crate) fn pairs(state: &State, range: &Range) -> VecDeque<Pair> {
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

/// A state in a line.
pub(crate) fn show(state: &State) -> String {
    let pairs: Vec<_> = state.iter().map(|(key, value)| format!("{}: {}", Quoted(key), Quoted(value))).collect();
    format!("{{{}}}", pairs.join(", "))
}
