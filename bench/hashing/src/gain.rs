//! The gain of hashing once, measured on a tree, beside the model's prediction from times measured
//! elsewhere.

use std::path::Path;

use common::numbers::median;
use tamarack::Result;
use tamarack::measure::{Hashed, hash_with};
use tamarack_filter::FilterKind;
use tamarack_model::cost::hashing::{Lookup, Overlap, Times};

use crate::costs::{self, FilterTimes};
use crate::hash::Hash;
use crate::trees::{Device, Kind, Taken, Tree};

/// Both hashes.
pub const HASHES: [Hash; 2] = [Hash::Digest, Hash::Murmur64A];
/// Shares of lookups that find something, in percent.
pub const FOUND: [u64; 3] = [0, 50, 100];
/// The delay of a block access on the slower devices stands for two reads: without a cache, no
/// index block stays in memory.
pub const DEVICES: [Device; 4] = [Device::Memory, Device::Direct, Device::Waits(50_000), Device::Computed(5_000_000)];

/// A tree that is measured.
#[derive(Clone, Debug)]
pub struct Setting {
    pub kind: Kind,
    pub levels: u32,
    pub devices: Vec<Device>,
}

/// The predicted tree, and two trees of the same keys, filters and number of entries that times are
/// taken from: one of one run, and one of eight runs of an eighth each.
pub struct Trees {
    tree: Tree,
    one: Tree,
    eight: Tree,
    /// With the hash of its index in [`HASHES`]. The probes are the same, measured twice.
    filters: [FilterTimes; 2],
}

/// One line of the report.
pub struct Row {
    pub device: Device,
    pub found: u64,
    pub hash: Hash,
    /// The model's: filters asked, and blocks.
    pub lookup: Lookup,
    /// Blocks that were read for each lookup; in memory none is.
    pub reads: f64,
    /// What a lookup took with one hash, and with one for each filter, in nanoseconds.
    pub once: f64,
    pub by_each: f64,
    /// The difference in processor time, and its standard error.
    pub saved: f64,
    pub error: f64,
    pub times: Measured,
}

/// Times that were measured apart from the tree, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// `T_H`, `T_P`, `T_D`, `T_N`, `T_R`.
    pub all: Times,
    /// `T_O`, `T_S`.
    pub overlap: Overlap,
}

/// The share of time that is saved.
#[derive(Clone, Copy, Debug)]
pub struct Gains {
    pub measured: f64,
    /// Eq. 8, with the paper's three times.
    pub paper: f64,
    /// With the rest of the lookup, too.
    pub whole: f64,
    /// And with hashes as they take time beside the rest.
    pub overlapping: f64,
}

impl Row {
    pub fn gains(&self) -> Gains {
        let Times { hash, probe, block, .. } = self.times.all;
        Gains {
            measured: self.saved / self.by_each,
            paper: self.lookup.gain(&Times::of_paper(hash, probe, block)),
            whole: self.lookup.gain(&self.times.all),
            overlapping: self.lookup.gain_overlapping(&self.times.all, &self.times.overlap),
        }
    }

    /// What should be saved, in nanoseconds.
    pub fn predicted_saving(&self) -> f64 {
        self.lookup.saved(&self.times.all, &self.times.overlap)
    }

    /// What a lookup should take that hashes for each filter.
    pub fn predicted_by_each(&self) -> f64 {
        self.lookup.hashed_once(&self.times.all) + self.predicted_saving()
    }
}

/// Lookups in memory that are timed together: few enough that other programs seldom interrupt them.
const BATCH: u64 = 600;

/// From here on are numbers of lookups in the trees apart.
const APART: u64 = 1 << 40;

impl Trees {
    pub fn new(setting: &Setting, buffer_bytes: u64, dir: &Path) -> Result<Self> {
        let kind = &setting.kind;
        let tree = Tree::of_levels(kind, setting.levels, buffer_bytes, &dir.join("levels"))?;
        let one = Tree::of_runs(kind, 1, tree.entries(), &dir.join("one"))?;
        let eight = Tree::of_runs(kind, 8, tree.entries(), &dir.join("eight"))?;
        let filter_kind = if kind.filter.starts_with("bloom") { FilterKind::Bloom } else { FilterKind::Blocked };
        let sizes: Vec<_> = tree.runs().iter().map(|run| (run.0, run.1)).collect();
        let filters = costs::filters(filter_kind, &sizes);
        let filters = HASHES.map(|hash| costs::filter_times(hash, kind.key_bytes, &filters));
        Ok(Self { tree, one, eight, filters })
    }

    /// The predicted tree.
    pub fn tree(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Measures on that device, in rounds that take turns.
    pub fn measure(&mut self, device: Device, rounds: u64) -> Result<Vec<Row>> {
        self.tree.open(device)?;
        self.one.open(device)?;
        let in_memory = device == Device::Memory;
        let mut apart = Apart::default();
        let mut taken: Vec<[Taken; 4]> = Vec::new();
        for round in 0..rounds {
            if in_memory || round == 0 {
                // What these take apart from blocks does not depend on the device.
                apart.take(self, device, round)?;
            } else {
                apart.take_block(&self.one, round)?;
            }
            for found in FOUND {
                let lookups = lookups(device, found);
                let mut modes = [Taken::default(); 4];
                for turn in 0..4 {
                    let mode = (turn + round as usize) % 4;
                    hash_with(HASHES[mode / 2].of_lookups(), [Hashed::Once, Hashed::ByEach][mode % 2]);
                    // In memory, each mode looks up keys of its own, whose blocks nothing has just
                    // touched. Elsewhere all modes read the same blocks, so that none reads more
                    // than another.
                    let nth = if in_memory { round * 4 + mode as u64 } else { round };
                    modes[mode] = self.tree.take(lookups, nth * lookups, found)?;
                }
                taken.push(modes);
            }
        }
        hash_with(Hash::Digest.of_lookups(), Hashed::Once);
        let mut rows = Vec::new();
        for (f, found) in FOUND.into_iter().enumerate() {
            let of_found: Vec<&[Taken; 4]> = taken.iter().skip(f).step_by(FOUND.len()).collect();
            for (h, hash) in HASHES.into_iter().enumerate() {
                let values = |value: fn(&Taken, &Taken) -> f64| {
                    of_found.iter().map(move |taken| value(&taken[2 * h], &taken[2 * h + 1]))
                };
                let saved = median(values(|once, by_each| by_each.cpu_ns - once.cpu_ns));
                let deviation =
                    median(values(|once, by_each| by_each.cpu_ns - once.cpu_ns).map(|one| (one - saved).abs()));
                rows.push(Row {
                    device,
                    found,
                    hash,
                    lookup: self.tree.lookup(found as f64 / 100.0),
                    reads: values(|once, _| once.reads).sum::<f64>() / rounds as f64,
                    once: median(values(|once, _| once.ns)),
                    by_each: median(values(|_, by_each| by_each.ns)),
                    saved,
                    // Of a median, from the median deviation, as if deviations were normal.
                    error: 1.4826 * 1.2533 * deviation / (rounds as f64).sqrt(),
                    times: apart.times(self, h, device, found),
                });
            }
        }
        self.one.close();
        self.eight.close();
        self.tree.close();
        Ok(rows)
    }
}

/// Enough lookups that a round takes some milliseconds and, for absent keys, reads some blocks.
fn lookups(device: Device, found: u64) -> u64 {
    match device {
        Device::Memory => BATCH,
        _ if found == 0 => 1500,
        _ => 100,
    }
}

/// Lookups in the trees apart, in nanoseconds.
#[derive(Default)]
struct Apart {
    absent: Vec<f64>,
    /// Of which half find something, and all.
    half: Vec<f64>,
    found: Vec<f64>,
    eight: Vec<f64>,
    /// What a hash more takes in one run, of both hashes: if nothing is found, and if all is.
    more: [[Vec<f64>; 2]; 2],
    /// On the device.
    on_device: Vec<f64>,
}

impl Apart {
    fn take(&mut self, trees: &mut Trees, device: Device, round: u64) -> Result<()> {
        let in_memory = device == Device::Memory;
        if !in_memory {
            trees.one.open(Device::Memory)?;
        }
        trees.eight.open_if_closed(Device::Memory)?;
        for turn in 0..if in_memory { 1 } else { 40 } {
            self.take_in_memory(trees, round + turn)?;
        }
        if !in_memory {
            trees.one.open(device)?;
            self.take_block(&trees.one, round)?;
        }
        Ok(())
    }

    /// The same lookups in the same order as in the predicted tree, so that the processor's caches
    /// hold as much of what they touch.
    fn take_in_memory(&mut self, trees: &Trees, round: u64) -> Result<()> {
        let mut batches = (0..16).map(|batch| APART + (round * 16 + batch) * BATCH);
        let mut next = || batches.next().expect("there are so many");
        hash_with(Hash::Digest.of_lookups(), Hashed::Once);
        trees.one.take(BATCH, next(), 0)?;
        self.take_with_more(trees, round, 0, &mut next)?;
        hash_with(Hash::Digest.of_lookups(), Hashed::Once);
        for _ in 0..4 {
            self.half.push(trees.one.take(BATCH, next(), 50)?.ns);
        }
        self.take_with_more(trees, round, 100, &mut next)?;
        hash_with(Hash::Digest.of_lookups(), Hashed::Once);
        trees.eight.take(BATCH, next(), 0)?;
        self.eight.push(trees.eight.take(BATCH, next(), 0)?.ns);
        Ok(())
    }

    /// Lookups in one run, with one digest and with a hash more for its filter, in turns.
    fn take_with_more(
        &mut self,
        trees: &Trees,
        round: u64,
        percent: u64,
        next: &mut impl FnMut() -> u64,
    ) -> Result<()> {
        let mut taken = [0.0; 3];
        for turn in 0..3 {
            let way = (turn + round as usize) % 3;
            match way {
                0 => hash_with(Hash::Digest.of_lookups(), Hashed::Once),
                _ => hash_with(HASHES[way - 1].of_lookups(), Hashed::Besides),
            }
            taken[way] = trees.one.take(BATCH, next(), percent)?.ns;
        }
        let is_found = percent > 0;
        if is_found { &mut self.found } else { &mut self.absent }.push(taken[0]);
        for (h, more) in self.more.iter_mut().enumerate() {
            more[usize::from(is_found)].push(taken[h + 1] - taken[0]);
        }
        Ok(())
    }

    fn take_block(&mut self, one: &Tree, round: u64) -> Result<()> {
        hash_with(Hash::Digest.of_lookups(), Hashed::Once);
        self.on_device.push(one.take(100, APART + round * 100, 100)?.ns);
        Ok(())
    }

    /// What they say, of the hash with that index.
    fn times(&self, trees: &Trees, h: usize, device: Device, found_percent: u64) -> Measured {
        let middle = |values: &[f64]| median(values.iter().copied());
        let (absent, found, eight) = (middle(&self.absent), middle(&self.found), middle(&self.eight));
        let in_memory = found - absent;
        // False positives are not a matter of coming to a run.
        let (in_one, in_eight) = (trees.one.lookup(0.0), trees.eight.lookup(0.0));
        let further = (eight - absent - (in_eight.reads - in_one.reads) * in_memory) / (in_eight.runs - in_one.runs);
        let [no, perhaps] = [0, 1].map(|kind| trees.filters[h].hash - middle(&self.more[h][kind]));
        let absent = absent - in_one.reads * in_memory;
        let block = match (device, found_percent) {
            // Where one lookup is not like the next, the processor guesses wrong more often.
            (Device::Memory, 50) => (middle(&self.half) - absent) / 0.5,
            (Device::Memory, _) => in_memory,
            _ => middle(&self.on_device) - absent,
        };
        let FilterTimes { hash, probe } = trees.filters[h];
        // These lookups made one digest each. So do those of the predicted tree, in addition to
        // their own hashes, unless the digest is one of these.
        let digest = if HASHES[h] == Hash::Digest { trees.filters[0].hash } else { 0.0 };
        let all = Times { hash, probe, block, run: further - probe, lookup: absent - further - digest };
        Measured { all, overlap: Overlap { negative: no, positive: perhaps } }
    }
}
