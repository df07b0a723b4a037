//! What was asked of a database, and what it may hold after reopening: the model of the fault and
//! damage tests.
//!
//! A history is a list of commits in their order. The state of a database must at any time be that
//! of some prefix of the list; which prefixes are allowed depends on what was promised:
//!
//! ```text
//!  commits   ├──────────── durable ────────────┼──── acknowledged ────┼─ unknown ─┤
//!                          after a loss of power: from here on to the end
//!                                               after the end of the process: only from here on
//! ```
//!
//! At most one commit has an unknown fate, and it is the last: writing stops there. Commits that
//! were refused are not in the list.

use std::collections::BTreeMap;

/// Keys and values, as a reader sees them.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// One put, or with `None` one delete.
pub(crate) type KeyWrite = (Vec<u8>, Option<Vec<u8>>);

/// The commits so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    acknowledged: Vec<Vec<KeyWrite>>,
    unknown: Option<Vec<KeyWrite>>,
    durable: usize,
}

impl History {
    /// A commit was acknowledged.
    pub(crate) fn acknowledge(&mut self, changes: Vec<KeyWrite>) {
        assert_eq!(self.unknown, None, "a commit was acknowledged after one of unknown fate");
        self.acknowledged.push(changes);
    }

    /// A commit failed in a way that leaves open whether it will be there.
    pub(crate) fn leave_open(&mut self, changes: Vec<KeyWrite>) {
        assert_eq!(self.unknown.replace(changes), None, "writing goes on after a commit of unknown fate");
    }

    /// Records that everything acknowledged survives a loss of power.
    pub(crate) fn mark_durable(&mut self) {
        self.durable = self.acknowledged.len();
    }

    /// A database was opened and holds the first `commits`, durably.
    pub(crate) fn adopt(&mut self, commits: usize) {
        self.acknowledged.extend(self.unknown.take());
        self.acknowledged.truncate(commits);
        self.mark_durable();
    }

    /// Commits that survive a loss of power.
    pub(crate) fn durable(&self) -> usize {
        self.durable
    }

    /// Commits that were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Commits that can be there: one more, if there is one of unknown fate.
    pub(crate) fn possible(&self) -> usize {
        self.acknowledged.len() + usize::from(self.unknown.is_some())
    }

    /// The state after the first `commits`.
    pub(crate) fn state(&self, commits: usize) -> Model {
        let mut model = Model::new();
        self.acknowledged.iter().chain(&self.unknown).take(commits).for_each(|changes| apply(&mut model, changes));
        model
    }

    /// All keys that were ever written, and one that was not.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let written = self.acknowledged.iter().chain(&self.unknown).flatten().map(|(key, _)| key.clone());
        let mut keys: Vec<_> = written.chain([b"never written".to_vec()]).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The largest number of commits, among `from` and more, after which a database could give
    /// these answers.
    pub(crate) fn explains(&self, answers: &crate::answers::Answers, from: usize) -> Result<usize, String> {
        let mut why = String::new();
        for commits in (from..=self.possible()).rev() {
            match answers.contradiction(&self.state(commits)) {
                None => return Ok(commits),
                Some(contradiction) => why += &format!("\n      not the state after {commits}: {contradiction}"),
            }
        }
        Err(format!("no allowed prefix of the commits explains the answers ({from} or more needed):{why}"))
    }
}

/// Brings the changes of one commit into a model.
pub(crate) fn apply(model: &mut Model, changes: &[KeyWrite]) {
    for (key, value) in changes {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}
