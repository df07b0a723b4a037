//! [`KeyLists`]: which keys a job has merged since its last handover, and from which inputs, for a
//! filter over the whole tree.
//!
//! ```text
//! key      inputs that had it   kept?     entries of the filter
//! apple    1 (the owner)        yes       unchanged
//! fig      0, 1                 yes       remove that of 0
//! pear     0, 2                 yes       that of 2 becomes one of the output; remove that of 0
//! plum     1, 2                 dropped   remove both
//! quince   a memtable           yes       insert one of the output
//! ```
//!
//! The output has the LID of the owner, if there is one ([`crate::tree::level_ids`]). A memtable
//! has no entries in the filter.
//!
//! Tests: here; `tests/suite/chucky.rs`.

use std::sync::Arc;

use tamarack_filter::Digest;

use crate::format::edit::RunId;
use crate::memory::{Account, Charge, MemoryPart};

/// Keys of lists at a handover, at most, but for those of the last key: a bound on their memory,
/// and on how long the gate is closed.
const KEYS_MAX: usize = 128 << 10;

/// How many times as many there may be rather than that a small table ends.
const FOR_SMALL: usize = 4;

/// The keys of a part since its last handover. See the module's documentation.
#[derive(Debug)]
pub(super) struct KeyLists {
    /// The number of the filter that they are for.
    pub(super) epoch: u64,
    /// Keys that no input has an entry of, and the output needs one.
    pub(super) inserts: Vec<Digest>,
    /// Keys, each with the number of an input whose entry of it becomes one of the output.
    pub(super) relabels: Vec<(Digest, u16)>,
    /// Keys, each with the number of an input whose entry of it goes.
    pub(super) removes: Vec<(Digest, u16)>,
    /// The run that each input is, by number; `None` for a memtable.
    pub(super) inputs: Vec<Option<RunId>>,
    /// The run whose LID the output shares, and its number, if it is an input here.
    owner: (Option<RunId>, Option<usize>),
    /// The key that is being merged; meaningless if `having` is empty.
    key: Vec<u8>,
    /// The inputs that have it.
    having: Vec<u16>,
    /// True if a version of it is kept.
    is_kept: bool,
    /// The keys with which they are full.
    keys_max: usize,
    charge: Charge,
}

impl KeyLists {
    /// Makes empty lists.
    pub(super) fn new(epoch: u64, inputs: Vec<Option<RunId>>, owner: Option<RunId>, account: &Arc<Account>) -> Self {
        let owner = (owner, owner.and_then(|owner| inputs.iter().position(|input| *input == Some(owner))));
        let charge = account.charge(MemoryPart::Compactions, 0);
        let (inserts, relabels, removes) = (Vec::new(), Vec::new(), Vec::new());
        let (key, having, is_kept) = (Vec::new(), Vec::new(), false);
        // The unit that they become takes as much again. A little less than a power of two, which
        // one list alone would double for at the last key.
        let keys_max = account.building_bytes_max() as usize / 2 / size_of::<(Digest, u16)>();
        let keys_max = keys_max.min(KEYS_MAX) / 8 * 7;
        Self { epoch, inserts, relabels, removes, inputs, owner, key, having, is_kept, keys_max, charge }
    }

    /// The run whose LID the output shares.
    pub(super) fn owner(&self) -> Option<RunId> {
        self.owner.0
    }

    /// Notes an entry of the input with that number, in entry order.
    pub(super) fn note(&mut self, input: usize, key: &[u8], is_kept: bool) {
        if self.having.is_empty() || self.key != key {
            self.end_key();
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        if !self.having.contains(&(input as u16)) {
            self.having.push(input as u16);
        }
        self.is_kept |= is_kept;
    }

    /// True if the lists have so many keys that what was merged is to be handed over, and `key` is
    /// another than that noted last. If the table being built `is_small`, they may have
    /// [`FOR_SMALL`] times as many before.
    pub(super) fn are_full_before(&self, key: &[u8], is_small: bool) -> bool {
        let keys_max = if is_small { FOR_SMALL * self.keys_max } else { self.keys_max };
        self.inserts.len() + self.relabels.len() + self.removes.len() >= keys_max && self.key != key
    }

    /// Completes the lists, and puts them in the order of digests: the key that was noted last has
    /// no more entries.
    pub(super) fn finish(&mut self) {
        self.end_key();
        self.inserts.sort_unstable();
        self.relabels.sort_unstable();
        self.removes.sort_unstable();
    }

    fn end_key(&mut self) {
        let is_owners = |input: &u16| self.owner.1 == Some(usize::from(*input));
        let has_owner = self.having.iter().any(is_owners);
        if !(self.having.is_empty() || has_owner && self.is_kept && self.having.len() == 1) {
            let digest = Digest::of(&self.key);
            let is_run = |input: &u16| self.inputs[usize::from(*input)].is_some();
            let runs = || self.having.iter().copied().filter(is_run);
            let kept = self.is_kept.then(|| runs().find(is_owners).or(runs().next()));
            self.removes.extend(runs().filter(|input| kept != Some(Some(*input))).map(|input| (digest, input)));
            match kept {
                Some(Some(input)) if !is_owners(&input) => self.relabels.push((digest, input)),
                Some(None) => self.inserts.push(digest),
                _ => (),
            }
            let inputs = self.relabels.capacity() + self.removes.capacity();
            let bytes = self.inserts.capacity() * size_of::<Digest>() + inputs * size_of::<(Digest, u16)>();
            self.charge.set(bytes);
        }
        self.having.clear();
        self.is_kept = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Budget;

    /// The table of the module's documentation, and a memtable.
    #[test]
    fn lists_say_what_changes() {
        let inputs = vec![Some(RunId(7)), Some(RunId(8)), Some(RunId(9)), None];
        let mut lists = KeyLists::new(1, inputs, Some(RunId(8)), &Account::new(Budget::unlimited()));
        for (key, having, is_kept) in [
            ("apple", &[1_usize, 1][..], true),
            ("fig", &[0, 1, 1], true),
            ("pear", &[2, 0], true),
            ("plum", &[1, 2], false),
            ("quince", &[3], true),
            ("yam", &[3, 1], true),
            ("zucchini", &[3], false),
        ] {
            having.iter().for_each(|input| lists.note(*input, key.as_bytes(), is_kept));
        }
        lists.finish();
        let sorted = |keys: &[(&str, u16)]| {
            let mut keys: Vec<_> = keys.iter().map(|(key, input)| (Digest::of(key.as_bytes()), *input)).collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(lists.inserts, [Digest::of(b"quince")]);
        assert_eq!(lists.relabels, sorted(&[("pear", 2)]));
        assert_eq!(lists.removes, sorted(&[("fig", 0), ("pear", 0), ("plum", 1), ("plum", 2)]));
    }
}
