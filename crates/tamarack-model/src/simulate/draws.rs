//! Key distributions: the size of a compaction's output when its inputs have keys in common.
//!
//! ```text
//! a run of `d` draws from n keys with shares p      D(d) = Σ (1 - e^(-d p)) keys are in it
//! two such runs, compacted                          D(d + d')
//! keys that were inserted, each once                a share of all keys, plus the draws outside it
//! ```
//!
//! A compaction adds up draws and converts them into keys. By Zipf's law the r-th most frequent key
//! has a share proportional to `r^-θ`; with θ = 0 all shares are equal. Keys of nearly equal shares
//! are counted together, in 16 groups for each doubling of the rank, so the sum is short for any n.
//!
//! If some of what is written are new keys ([`Keys::inserting`]), n grows with every flush, and
//! shares keep their proportions.
//!
//! # Deletes
//!
//! Keys may also be deleted ([`Keys::deleting`]), each that has a value as likely, and put again in
//! the order in which they were deleted. The deleted keys are a queue of `q` keys. A run has what
//! was written in one stretch of time, so it also knows the length of the queue when that began:
//!
//! ```text
//! queue   q ├── deleted before ──┤                    r keys are put again at its front,
//!                 ├─────── later ───────┤ q + d - r   d keys join it at its end
//!
//! keys written   those of n - q with a value that are drawn or deleted, and min(r, q) of the queue
//! tombstones     min(d, q + d - r): the deleted keys that are still in the queue
//! ```
//!
//! The oldest run of a tree has no tombstones.
//!
//! Tested in `keys` against sets of keys that are really drawn and merged, with deletes in
//! `tests/suite/deletes.rs`.

/// Keys that writers draw repeatedly, and perhaps keys that they insert.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Groups of keys with nearly equal shares: their part of all keys, and the share of all draws
    /// of each of these keys, in shares of a key if all were equal.
    groups: Vec<(f64, f64)>,
    /// The number of keys that were ever put.
    entries: f64,
    entry_bytes: f64,
    /// The share of what is written that are new keys.
    inserts: f64,
    deletes: Deletes,
    /// The number of deleted keys.
    deleted: f64,
}

/// How keys are deleted; by default, none are.
#[derive(Clone, Copy, Debug, Default)]
struct Deletes {
    /// The share of what is written that are deletes, or puts of deleted keys.
    share: f64,
    /// The share of all keys that are deleted before the first is put again.
    most: f64,
    tombstone_bytes: f64,
}

/// The contents of a run: entries whose keys were inserted, each in one run, and draws; or what
/// was written in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DrawnContent {
    /// Entries that were inserted.
    pub once: f64,
    /// Draws of live keys that are put again.
    pub draws: f64,
    /// Draws of live keys that are deleted.
    pub deletes: f64,
    /// Puts of the key that was deleted longest ago.
    pub restores: f64,
    /// Keys that were deleted before the first of these writes.
    pub deleted_before: f64,
}

impl DrawnContent {
    /// This and what was written right before it.
    #[must_use]
    pub fn after(self, older: Self) -> Self {
        Self {
            once: self.once + older.once,
            draws: self.draws + older.draws,
            deletes: self.deletes + older.deletes,
            restores: self.restores + older.restores,
            deleted_before: older.deleted_before,
        }
    }

    /// The number of writes.
    pub fn writes(&self) -> f64 {
        self.once + self.draws + self.deletes + self.restores
    }

    /// Keys that are deleted after the last of these writes.
    pub fn deleted_after(&self) -> f64 {
        (self.deleted_before + self.deletes - self.restores).max(0.0)
    }

    /// Keys whose last entry is a tombstone.
    pub fn tombstones(&self) -> f64 {
        self.deletes.min(self.deleted_after())
    }
}

/// How a lookup chooses its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// Every key is equally likely.
    Uniform,
    /// As writers draw keys to overwrite.
    Drawn,
}

impl Keys {
    /// Creates a distribution of `entries` keys, at least 1, with `entry_bytes` raw bytes each, by
    /// Zipf's law with exponent `theta`; 0 makes all keys equally likely.
    pub fn drawn(entries: u64, entry_bytes: u64, theta: f64) -> Self {
        let mut groups = Vec::new();
        if theta == 0.0 {
            groups.push((1.0, 1.0));
        } else {
            let mut first = 1_u64;
            while first <= entries {
                let after = (first + (first / 16).max(1)).min(entries + 1);
                let (count, middle) = ((after - first) as f64, (first + after - 1) as f64 / 2.0);
                groups.push((count / entries as f64, middle.powf(-theta)));
                first = after;
            }
            let mean: f64 = groups.iter().map(|(part, height)| part * height).sum();
            groups.iter_mut().for_each(|(_, height)| *height /= mean);
        }
        let (entries, entry_bytes) = (entries as f64, entry_bytes as f64);
        Self { groups, entries, entry_bytes, inserts: 0.0, deletes: Deletes::default(), deleted: 0.0 }
    }

    /// The same, of whose writes this share, from 0 to 1, are inserts of new keys.
    #[must_use]
    pub fn inserting(self, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a share of writes: {share}");
        Self { inserts: share, ..self }
    }

    /// The same, of whose writes this share, from 0 to 1, deletes a live key, each as likely. Once
    /// so large a part `most` of all keys is deleted, from 0 to 1, such writes delete a key and put
    /// the one that was deleted longest ago, in turns. A tombstone has `tombstone_bytes` raw bytes,
    /// at least 1.
    ///
    /// # Panics
    /// If keys are not drawn with equal shares, or a number is out of its range.
    #[must_use]
    pub fn deleting(self, share: f64, most: f64, tombstone_bytes: u64) -> Self {
        assert!(self.groups.len() == 1, "only keys with equal shares are deleted");
        assert!((0.0..=1.0).contains(&(share + self.inserts)) && share >= 0.0, "a share of writes: {share}");
        assert!((0.0..=1.0).contains(&most) && tombstone_bytes > 0, "{most} of all keys, {tombstone_bytes} bytes");
        Self { deletes: Deletes { share, most, tombstone_bytes: tombstone_bytes as f64 }, ..self }
    }

    /// The number of keys that are not deleted.
    pub fn live(&self) -> f64 {
        self.entries - self.deleted
    }

    /// Returns true if keys are deleted.
    pub(super) fn are_deleted(&self) -> bool {
        self.deletes.share > 0.0
    }

    /// Returns true if writers draw each key as often, so that [`Sought::Drawn`] is
    /// [`Sought::Uniform`].
    pub(super) fn are_alike(&self) -> bool {
        self.groups.len() == 1
    }

    /// Raw bytes of each entry.
    pub fn entry_bytes(&self) -> f64 {
        self.entry_bytes
    }

    /// Raw bytes of a tombstone; 0 if nothing is deleted.
    pub fn tombstone_bytes(&self) -> f64 {
        self.deletes.tombstone_bytes
    }

    /// Adds the keys that so many raw bytes of writes insert, and takes those that they delete.
    pub(super) fn grow(&mut self, bytes: f64) {
        let written = self.written(bytes);
        self.entries += written.once;
        self.deleted = written.deleted_after();
    }

    /// What this many raw bytes of writes contain, if they come next.
    pub fn written(&self, bytes: f64) -> DrawnContent {
        let Deletes { share, most, tombstone_bytes } = self.deletes;
        // Until enough are deleted, and in turns.
        let [bytes_at_first, bytes_in_turns] =
            [share, share / 2.0].map(|deletes| self.entry_bytes - deletes * (self.entry_bytes - tombstone_bytes));
        let until = if share > 0.0 { (most * self.entries - self.deleted).max(0.0) / share } else { f64::INFINITY };
        let at_first = (bytes / bytes_at_first).min(until);
        let in_turns = (bytes - at_first * bytes_at_first).max(0.0) / bytes_in_turns;
        let writes = at_first + in_turns;
        DrawnContent {
            once: writes * self.inserts,
            draws: writes * (1.0 - self.inserts - share),
            deletes: share * (at_first + in_turns / 2.0),
            restores: share * in_turns / 2.0,
            deleted_before: self.deleted,
        }
    }

    /// Distinct keys in a run, those of tombstones included.
    pub fn distinct(&self, content: DrawnContent) -> f64 {
        let once = content.once.min(self.entries);
        let live_before = self.entries - content.deleted_before;
        let live = self.entries - (content.deleted_before + content.deleted_after()) / 2.0;
        let draws = (content.draws + content.deletes) * self.entries / live.max(1.0);
        let drawn: f64 = self.sum(|share| -(-draws * share).exp_m1()) * live_before / self.entries;
        let written = drawn + content.restores.min(content.deleted_before);
        once + (1.0 - once / self.entries) * written
    }

    /// The probability that the newest entry of a live key is in each of these runs, young to old,
    /// of which the memtable may be the first. A key that is in none of them does not count.
    pub fn newest(&self, runs: &[DrawnContent], sought: Sought) -> Vec<f64> {
        if self.are_deleted() {
            return self.newest_live(runs);
        }
        let (mut draws, mut once): (f64, f64) = (0.0, 0.0);
        let in_run = |run: &DrawnContent| {
            // Neither drawn nor inserted in a younger run; drawn here, or else inserted here.
            let (younger, inserted) = (draws, run.once / self.entries);
            let not_younger = (1.0 - once).max(0.0);
            (draws, once) = (draws + run.draws, once + inserted);
            let probability = |share: f64| {
                let drawn = -(-run.draws * share).exp_m1();
                (-younger * share).exp() * (drawn * not_younger + (1.0 - drawn) * inserted)
            };
            match sought {
                Sought::Uniform => self.sum(probability) / self.entries,
                Sought::Drawn => self.sum(|share| share * probability(share)),
            }
        };
        runs.iter().map(in_run).collect()
    }

    /// The same where keys are deleted: a live key is in the youngest runs whose writes together
    /// put it last.
    fn newest_live(&self, runs: &[DrawnContent]) -> Vec<f64> {
        let (mut all, mut found) = (DrawnContent::default(), 0.0);
        let live = runs.first().map_or(self.live(), |youngest| self.entries + youngest.once - youngest.deleted_after());
        let in_run = |run: &DrawnContent| {
            all = all.after(*run);
            let put = self.distinct(all) - all.tombstones();
            let here = (put - found).max(0.0) / live.max(1.0);
            found = found.max(put);
            here
        };
        runs.iter().map(in_run).collect()
    }

    /// The sum over all keys of a function of their share of all draws.
    fn sum(&self, of_share: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|(part, height)| self.entries * part * of_share(height / self.entries)).sum()
    }
}
