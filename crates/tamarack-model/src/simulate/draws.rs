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
//! Tested in `keys` against sets of keys that are really drawn and merged.

/// Keys that writers draw repeatedly, and perhaps keys that they insert.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Groups of keys with nearly equal shares: their part of all keys, and the share of all draws
    /// of each of these keys, in shares of a key if all were equal.
    groups: Vec<(f64, f64)>,
    /// The number of keys.
    entries: f64,
    entry_bytes: f64,
    /// The share of what is written that are new keys.
    inserts: f64,
}

/// The contents of a run: entries whose keys were inserted, each in one run, and draws.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DrawnContent {
    /// Entries that were inserted.
    pub once: f64,
    /// Draws of keys that existed.
    pub draws: f64,
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
        Self { groups, entries: entries as f64, entry_bytes: entry_bytes as f64, inserts: 0.0 }
    }

    /// The same, of whose writes this share, from 0 to 1, are inserts of new keys.
    #[must_use]
    pub fn inserting(self, share: f64) -> Self {
        assert!((0.0..=1.0).contains(&share), "a share of writes: {share}");
        Self { inserts: share, ..self }
    }

    /// The number of keys.
    pub fn entries(&self) -> f64 {
        self.entries
    }

    /// Raw bytes of each entry.
    pub fn entry_bytes(&self) -> f64 {
        self.entry_bytes
    }

    /// Adds the keys that so many raw bytes of writes insert.
    pub(super) fn grow(&mut self, bytes: f64) {
        self.entries += self.written(bytes).once;
    }

    /// What this many raw bytes of writes contain.
    pub fn written(&self, bytes: f64) -> DrawnContent {
        let entries = bytes / self.entry_bytes;
        DrawnContent { once: entries * self.inserts, draws: entries * (1.0 - self.inserts) }
    }

    /// Distinct keys in a run.
    pub fn distinct(&self, content: DrawnContent) -> f64 {
        let once = content.once.min(self.entries);
        let drawn: f64 = self.sum(|share| -(-content.draws * share).exp_m1());
        once + (1.0 - once / self.entries) * drawn
    }

    /// The probability that the newest entry of a key is in each of these runs, young to old, of
    /// which the memtable may be the first. A key that is in none of them does not count.
    pub fn newest(&self, runs: &[DrawnContent], sought: Sought) -> Vec<f64> {
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

    /// The sum over all keys of a function of their share of all draws.
    fn sum(&self, of_share: impl Fn(f64) -> f64) -> f64 {
        self.groups.iter().map(|(part, height)| self.entries * part * of_share(height / self.entries)).sum()
    }
}
