//! [`LevelIds`]: the names that a filter over the whole tree has for runs, and [`FilterView`]: what
//! a state of the tree has of that, for lookups.
//!
//! ```text
//! digest ─► partition ─► LIDs ─► runs of this state, young to old ─► search
//!                                unlisted runs, always ──────┘
//! ```
//!
//! A **level ID (LID)** belongs to a run and stays with it, whatever level the run moves to. It is
//! one of the class of the run's level when the run is made; in level 1, of late runs if all of
//! those are taken. If runs outnumber LIDs, some share one. A run without a LID is **unlisted**:
//! the filter has no entries of it, or not all, so lookups search it always. Runs are unlisted that
//! no one has listed yet.
//!
//! # Invariant
//!
//! If key k is in run r of a published state whose edit is not older than the generation, then r is
//! unlisted, or the partition of k is not ready, or the partition has an entry of k with the LID of
//! r.
//!
//! The output of a compaction shares the LID of one of its inputs, the **owner**, which is decided
//! once for each output. Keys that it takes over from the owner need no change of the filter. While
//! entries of other inputs get the output's LID, the LIDs of these inputs mean the output as well:
//! they are **aliases** in all states from the handover's on, until that is done.
//!
//! Tests: `tests/suite/chucky.rs`; lockstep histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_filter::Digest;
use tamarack_filter::chucky::{Code, Shares};
use tamarack_model::Shape;
use tamarack_model::filter::chucky::{self, CLASS_LIDS_MAX, Classes};

use super::run::Run;
use super::table_file::TableFile;
use super::version::TreeVersion;
use crate::cuckoo::Directory;
use crate::format::edit::RunId;
use crate::format::meta::EditNumber;
use crate::memory::{Account, Charge, MemoryPart};

/// A level ID.
pub type Lid = u16;

/// A code is made anew if it makes more of the buckets rare, as a share, and the shape is another.
const RARE_MAX: f64 = 0.005;

/// Runs that a lookup searches, at most; beyond that it searches all runs.
pub const FEW_MAX: usize = 20;

/// The LIDs of a tree's runs, and the filter's partitions.
#[derive(Debug)]
pub struct LevelIds {
    /// Number of the filter among all that the tree has had; at least 1.
    pub epoch: u64,
    /// The code of its buckets.
    pub code: Arc<Code>,
    /// Charges it.
    _code_charge: Charge,
    /// The classes of LIDs.
    pub classes: Classes,
    /// The most LIDs that a class may have.
    lids_max: u16,
    /// The shape that the code was made for.
    shape: Shape,
    /// The bytes of the tree that the code was made for, if the states of the shape are not its own
    /// ([`Classes::states_of`]).
    made_for_bytes: Option<u64>,
    /// The levels of the present shape, from the last of which classes count.
    levels: usize,
    /// The partitions.
    pub directory: Directory,
    /// A run that is being listed, its LID, and those of its tables of which all keys have entries.
    pub arriving: Option<(RunId, Lid, Vec<Arc<TableFile>>)>,
    /// How often entries may have been left of keys that are in no run any more.
    pub leftovers: u64,
    lids: BTreeMap<RunId, Lid>,
    /// LIDs that mean a run beside its own: entries of keys that it has taken over have them still.
    aliases: Vec<(Lid, RunId)>,
    /// Outputs of compactions, and the input whose LID each one shares.
    owners: BTreeMap<RunId, Option<RunId>>,
    /// Runs that will not be listed.
    unlistable: BTreeSet<RunId>,
    /// The edit of the last handover of which entries were changed.
    generation: Arc<AtomicU64>,
}

/// The part of a tree's state that lookups find runs by.
#[derive(Debug)]
pub struct FilterView {
    epoch: u64,
    code: Arc<Code>,
    directory: Directory,
    generation: Arc<AtomicU64>,
    /// Young to old.
    runs: Box<[Arc<Run>]>,
    /// Where the runs of each LID begin in `positions`; one more at the end.
    starts: Box<[u16]>,
    positions: Box<[u16]>,
    /// The LID of each run; `None` if it is unlisted.
    lids: Box<[Option<Lid>]>,
    unlisted: Box<[u16]>,
}

/// Positions of runs, young to old.
#[derive(Clone, Copy, Debug)]
pub struct FewRuns {
    positions: [u16; FEW_MAX],
    count: usize,
    next: usize,
}

impl LevelIds {
    /// Makes a filter without partitions, for a tree whose runs are all unlisted.
    ///
    /// If the LIDs of all its runs leave too few bits for fingerprints, classes have fewer, and
    /// some runs share one. The code is made for the states of the shape, if they are those of a
    /// tree such as this.
    pub fn new(
        epoch: u64,
        slots: usize,
        (shape, tree): (Shape, &TreeVersion),
        directory: Directory,
        account: &Arc<Account>,
    ) -> Self {
        let all = Classes::of(&shape);
        let code_for = |states: Vec<Vec<f64>>| {
            let states: Vec<Shares> = states.into_iter().map(Shares::new).collect();
            CLASS_LIDS_MAX
                .into_iter()
                .find_map(|most| {
                    let classes = all.shared(most);
                    let code = Code::new(slots, classes.lids(), &states).ok()?;
                    Some((classes, most, code))
                })
                .unwrap_or_else(|| panic!("there is no code for {slots} slots with one LID for each of {all:?}"))
        };
        // Runs that are deeper than the shape, while a reshape goes on, have the LIDs of its last
        // level.
        let level_of = |run: &Run| tree.level_of(run.id()).map(|level| level.min(shape.last()));
        let runs = tree.runs().filter_map(|run| Some((level_of(run)?, run.raw_bytes() as f64)));
        let present = all.entries(shape.last(), runs);
        let of_shape = code_for(all.states(&shape));
        let is_empty = present.iter().sum::<f64>() == 0.0;
        let is_of_shape = is_empty || of_shape.2.rare_share(&Shares::new(present.clone())) <= RARE_MAX;
        let made = if is_of_shape { of_shape } else { code_for(all.states_of(&shape, &present)) };
        let (classes, lids_max, code) = made;
        let code = Arc::new(code);
        let _code_charge = account.charge(MemoryPart::Filters, code.memory_bytes());
        Self {
            epoch,
            code,
            _code_charge,
            classes,
            lids_max,
            levels: shape.last(),
            shape,
            made_for_bytes: (!is_of_shape).then(|| raw_bytes(tree)),
            directory,
            arriving: None,
            leftovers: 0,
            lids: BTreeMap::new(),
            aliases: Vec::new(),
            owners: BTreeMap::new(),
            unlistable: BTreeSet::new(),
            generation: Arc::new(AtomicU64::new(0)),
        }
    }

    /// True if the code is good for `tree`, which has, or is to take, this shape: each level has
    /// enough LIDs, and few buckets are rare, or no other code is made for this shape and a tree of
    /// this size.
    pub fn fits(&self, shape: &Shape, tree: &TreeVersion) -> bool {
        let has_lids = self.classes.have_lids_for(shape, self.lids_max);
        let is_made_for = || self.shape == *shape && !self.is_outgrown_by(tree);
        has_lids && (is_made_for() || self.rare_share(tree) <= RARE_MAX)
    }

    /// True if the tree has more than twice as much as the one that the code was made for.
    fn is_outgrown_by(&self, tree: &TreeVersion) -> bool {
        self.made_for_bytes.is_some_and(|made_for| raw_bytes(tree) / 2 > made_for)
    }

    /// The share of buckets that are rare, with the listed runs of `tree`.
    fn rare_share(&self, tree: &TreeVersion) -> f64 {
        let mut entries = vec![0.0; self.classes.lids().len()];
        for run in tree.runs() {
            let class = |lid: Lid| (0..entries.len()).find(|class| self.code.lids_of_class(*class).contains(&lid));
            if let Some(class) = self.lid(run.id()).and_then(class) {
                entries[class] += run.entries() as f64;
            }
        }
        if entries.iter().sum::<f64>() == 0.0 { 0.0 } else { self.code.rare_share(&Shares::new(entries)) }
    }

    /// The LID of a run; `None` if it is unlisted.
    pub fn lid(&self, run: RunId) -> Option<Lid> {
        self.lids.get(&run).copied()
    }

    /// Notes how many levels the present shape has.
    pub fn set_levels(&mut self, levels: usize) {
        self.levels = levels;
    }

    /// The class of the runs in a level.
    fn class_of(&self, level: usize) -> usize {
        self.classes.of_level(level, self.levels.max(level))
    }

    /// A LID for a run in a level: the first of its class that no run has; in level 1, else one of
    /// late runs; else the one that fewest have. Runs of other levels are too large for the
    /// fingerprints of late runs.
    pub fn free_lid(&self, level: usize) -> Lid {
        let own = self.code.lids_of_class(self.class_of(level));
        let late = (level == 1).then(|| self.code.lids_of_class(self.classes.late()));
        let arriving = self.arriving.iter().map(|(_, lid, _)| *lid);
        let taken: Vec<Lid> = self.lids.values().copied().chain(arriving).collect();
        let runs_of = |lid: &Lid| taken.iter().filter(|taken| *taken == lid).count();
        own.chain(late.into_iter().flatten()).min_by_key(runs_of).expect("a class has a LID")
    }

    /// Gives a run a LID.
    pub fn list(&mut self, run: RunId, lid: Lid) {
        self.lids.insert(run, lid);
    }

    /// Lets these LIDs mean `run` as well, until [`LevelIds::end_aliases`], in states that are
    /// published from now on.
    pub fn begin_aliases(&mut self, lids: impl IntoIterator<Item = Lid>, run: RunId) {
        self.aliases.extend(lids.into_iter().map(|lid| (lid, run)));
    }

    /// No entry has the LID of an input of what was handed over. True if lookups gain by a state
    /// without these aliases: one is also the LID of another run, so that keys and false positives
    /// of that run lead to both.
    pub fn end_aliases(&mut self, tree: &TreeVersion) -> bool {
        let aliases = std::mem::take(&mut self.aliases);
        let is_input = |run: RunId, output| tree.compaction_of(run).is_some_and(|it| it.output == output);
        let is_another = |run: RunId, output| run != output && tree.run(run).is_some() && !is_input(run, output);
        let is_shared =
            |(alias, of): &(Lid, RunId)| self.lids.iter().any(|(run, lid)| lid == alias && is_another(*run, *of));
        aliases.iter().any(is_shared)
    }

    /// Takes its LID from a run, for ever if `is_lost`.
    pub fn unlist(&mut self, run: RunId, is_lost: bool) {
        self.lids.remove(&run);
        if is_lost {
            self.unlistable.insert(run);
            self.leftovers += 1;
        }
    }

    /// The runs with such LIDs.
    pub fn runs_with(&self, is_such: impl Fn(Lid) -> bool) -> Vec<RunId> {
        self.lids.iter().filter(|(_, lid)| is_such(**lid)).map(|(run, _)| *run).collect()
    }

    /// Keeps a run from being listed.
    pub fn refuse(&mut self, run: RunId) {
        self.unlistable.insert(run);
    }

    /// True if a run may be listed.
    pub fn is_listable(&self, run: RunId) -> bool {
        !self.unlistable.contains(&run)
    }

    /// The input whose LID the output of a compaction shares: the largest listed one, if its class
    /// is that of the output's level.
    pub fn owner_of(&mut self, output: RunId, inputs: &[RunId], tree: &TreeVersion) -> Option<RunId> {
        let level = tree.level_of(output).unwrap_or(1);
        let class = self.code.lids_of_class(self.class_of(level));
        let lids = &self.lids;
        *self.owners.entry(output).or_insert_with(|| {
            // An output that has a LID of its own, which came before its compaction went on.
            let fits = |run: &RunId| lids.get(run).is_some_and(|lid| class.contains(lid));
            let bytes = |run: &RunId| tree.run(*run).map_or(0, |(run, ..)| run.raw_bytes());
            inputs.iter().copied().filter(|_| !lids.contains_key(&output)).filter(fits).max_by_key(bytes)
        })
    }

    /// Forgets runs that the tree does not have. Outputs of compactions that have begun since are
    /// younger than all of its runs.
    pub fn forget_all_but(&mut self, tree: &TreeVersion) {
        let youngest = tree.runs().map(|run| run.id()).max();
        self.lids.retain(|run, _| tree.run(*run).is_some());
        self.owners.retain(|run, _| tree.run(*run).is_some() || Some(*run) > youngest);
        self.unlistable.retain(|run| tree.run(*run).is_some());
    }

    /// Raises the generation to `edit`, before entries are changed that states before that edit
    /// need.
    pub fn raise_generation(&self, edit: EditNumber) {
        // Pairs with the load in `FilterView::is_young_enough`: whoever sees an entry changed,
        // which is stored with release, sees this.
        self.generation.fetch_max(edit.0, Ordering::Release);
    }

    /// What a state with that tree has of the filter.
    pub fn view(&self, tree: &TreeVersion) -> Arc<FilterView> {
        let runs: Box<[Arc<Run>]> = tree.runs().cloned().collect();
        let lid_count = (0..self.classes.lids().len()).map(|class| self.code.lids_of_class(class).end).max();
        let mut by_lid = vec![Vec::new(); usize::from(lid_count.unwrap_or(0))];
        let mut unlisted = Vec::new();
        let lids: Box<[Option<Lid>]> = runs.iter().map(|run| self.lid(run.id())).collect();
        for ((run, lid), position) in runs.iter().zip(&lids).zip(0..).filter(|((run, _), _)| !run.is_empty()) {
            match lid {
                Some(lid) => by_lid[usize::from(*lid)].push(position),
                None => unlisted.push(position),
            }
            for (alias, _) in self.aliases.iter().filter(|(_, of)| *of == run.id()) {
                by_lid[usize::from(*alias)].push(position);
            }
        }
        let mut starts = vec![0];
        starts.extend(by_lid.iter().scan(0, |end, runs: &Vec<u16>| {
            *end += runs.len() as u16;
            Some(*end)
        }));
        Arc::new(FilterView {
            epoch: self.epoch,
            code: self.code.clone(),
            directory: self.directory.clone(),
            generation: self.generation.clone(),
            runs,
            starts: starts.into(),
            positions: by_lid.concat().into(),
            lids,
            unlisted: unlisted.into(),
        })
    }
}

/// The raw bytes of all runs.
fn raw_bytes(tree: &TreeVersion) -> u64 {
    tree.runs().map(|run| run.raw_bytes()).sum()
}

impl FilterView {
    /// Number of the filter among all that the tree has had.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The run at a position.
    #[inline]
    pub fn run(&self, position: u16) -> &Arc<Run> {
        &self.runs[usize::from(position)]
    }

    /// True if no run has a key, in the state with that edit, which this view is of. Most lookups
    /// of absent keys end with this; it takes less than [`FilterView::find`].
    #[inline]
    pub fn excludes(&self, digest: Digest, edit: EditNumber) -> bool {
        self.unlisted.is_empty()
            && self.directory.find(digest).is_some_and(|(partition, place)| partition.excludes(place))
            && self.is_young_enough(edit)
    }

    /// Asks for the memory with which [`FilterView::excludes`] and [`FilterView::find`] begin.
    #[inline]
    pub fn prefetch(&self, digest: Digest) {
        if let Some((partition, place)) = self.directory.find(digest) {
            partition.prefetch(place);
        }
    }

    /// True if entries of the runs of a state with that edit are as they were. Call it after the
    /// filter is queried.
    #[inline]
    fn is_young_enough(&self, edit: EditNumber) -> bool {
        // Pairs with `LevelIds::raise_generation`. The loads of buckets acquire.
        self.generation.load(Ordering::Acquire) <= edit.0
    }

    /// The runs that may have a key, in the state with that edit, which this view is of. `None` if
    /// all may: the key's partition is not ready, the state is too old for the filter, or they are
    /// many.
    #[inline]
    pub fn find(&self, digest: Digest, edit: EditNumber) -> Option<FewRuns> {
        let (partition, place) = self.directory.find(digest)?;
        let candidates = partition.candidates(place);
        if !self.is_young_enough(edit) {
            return None;
        }
        let mut few = FewRuns { positions: [0; FEW_MAX], count: 0, next: 0 };
        for &position in &self.unlisted {
            few.add(position)?;
        }
        for lid in candidates.iter().map(usize::from) {
            for &position in &self.positions[usize::from(self.starts[lid])..usize::from(self.starts[lid + 1])] {
                few.add(position)?;
            }
        }
        Some(few)
    }

    /// For each listed run, the predicted false positives of a lookup in it, and its share of the
    /// filter's bits. Empty while partitions are not ready.
    pub fn predicted(&self) -> BTreeMap<RunId, (f64, u64)> {
        let (mut buckets, mut present) = (0, 0);
        for (_, partition) in self.directory.partitions() {
            let Some(partition) = partition else { return BTreeMap::new() };
            (buckets, present) = (buckets + partition.buckets(), present + partition.entries());
        }
        let slots = self.code.slots();
        let (load, all) = (present as f64 / (buckets * slots) as f64, present.max(1) as f64);
        let listed = || self.runs.iter().zip(&self.lids).filter_map(|(run, lid)| Some((run, (*lid)?)));
        let listed = || listed().filter(|(run, _)| !run.is_empty());
        let share = |run: &Run| run.entries() as f64 / all;
        let of_run = |(run, lid): (&Arc<Run>, Lid)| {
            // An entry of one run leads to all that share the LID.
            let shares = listed().filter(|(_, other)| *other == lid).map(|(run, _)| share(run)).sum();
            let rate = chucky::rate(slots, load, shares, self.code.fingerprint_bits_of(lid).into());
            (run.id(), (rate, (share(run) * (buckets * u64::BITS as usize) as f64) as u64))
        };
        listed().map(of_run).collect()
    }

    /// True if the filter does not know a run.
    #[inline]
    pub fn is_unlisted(&self, position: u16) -> bool {
        !self.unlisted.is_empty() && self.unlisted.contains(&position)
    }
}

impl FewRuns {
    /// Adds a position in its place, once; `None` if there are too many.
    #[inline]
    fn add(&mut self, position: u16) -> Option<()> {
        let at = self.positions[..self.count].iter().take_while(|other| **other < position).count();
        if self.positions[..self.count].get(at) == Some(&position) {
            return Some(());
        }
        if self.count == FEW_MAX {
            return None;
        }
        self.positions.copy_within(at..self.count, at + 1);
        self.positions[at] = position;
        self.count += 1;
        Some(())
    }
}

impl Iterator for FewRuns {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let position = *self.positions[..self.count].get(self.next)?;
        self.next += 1;
        Some(position)
    }
}
