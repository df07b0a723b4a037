//! The model: a tree as plain lists of maps, and random histories of edits that fit it.
//!
//! Keys are the numbers below [`KEYS`], two bytes each, and the model knows for every run and every
//! single key which table holds it. What a version does with binary searches and shared lists is
//! here a loop over all keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tamarack_env::{MemoryEnv, Random};

use crate::entry::Sequence;
use crate::format::edit::{Change, CompactionId, Edit, KeyRange, RunId, ShapeBlob, SliceSpec};
use crate::format::meta::{EditNumber, TableId, TableMeta, TreeId};
use crate::format::properties::Properties;
use crate::table::TableStorage;
use crate::tree::table_file::TableFiles;
use crate::tree::version::Version;

/// How many keys there are.
pub(super) const KEYS: usize = 60;

/// The only tree.
pub(super) const TREE: TreeId = TreeId::DEFAULT;

/// The key with that number; with [`KEYS`], the end.
pub(super) fn key(number: usize) -> Vec<u8> {
    (number as u16).to_be_bytes().to_vec()
}

/// The range from one key to before another; a bound at the end of all keys is left out.
pub(super) fn range(from: usize, to: usize) -> KeyRange {
    KeyRange { from: (from > 0).then(|| key(from).into()), to: (to < KEYS).then(|| key(to).into()) }
}

/// Tables that nobody opens.
pub(super) fn no_files() -> Arc<TableFiles> {
    TableFiles::new(TableStorage::buffered(MemoryEnv::new(1), 1), Path::new("/nowhere"))
}

/// A run of the model.
#[derive(Clone, Debug)]
pub(super) struct ModelRun {
    pub(super) id: RunId,
    /// Which table holds each key.
    pub(super) keys: BTreeMap<usize, TableId>,
    /// The sequences it may hold.
    sequences: (u64, u64),
}

/// A compaction of the model.
#[derive(Clone, Debug)]
struct ModelCompaction {
    id: CompactionId,
    inputs: Vec<RunId>,
    output: RunId,
    /// The keys that have been handed over.
    done: BTreeSet<usize>,
}

/// A tree, a list of all runs young to old with the number of each one's level.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) runs: Vec<(u32, ModelRun)>,
    compactions: Vec<ModelCompaction>,
    tables: BTreeMap<TableId, (usize, usize)>,
    next: (u64, u64, u64),
    sequence: u64,
}

impl Model {
    pub(super) fn new() -> Self {
        Self { runs: Vec::new(), compactions: Vec::new(), tables: BTreeMap::new(), next: (1, 1, 1), sequence: 0 }
    }

    /// What one random thing that may happen to a tree changes; the model changes alike.
    pub(super) fn change(&mut self, random: &Random) -> Vec<Change> {
        let before = self.next;
        let mut changes = match random.below(12) {
            0..3 => self.flush(random),
            3 => self.begin_compaction(random),
            4..8 => self.advance_compaction(random),
            8 => self.relabel(random),
            9 => self.cut(random),
            10 => self.flush_into_active(random),
            _ => vec![Change::ShapeSet {
                tree: TREE,
                shape: ShapeBlob { kind: 1, bytes: random.next().to_le_bytes()[..].into() },
            }],
        };
        if self.next != before {
            let (tables, runs, compactions) = self.next;
            changes.insert(0, Change::IdsUsed { tables, runs, compactions });
        }
        if random.below(4) == 0 {
            changes.push(Change::WalDurable { position: random.below(1 << 40) });
        }
        changes
    }

    /// As [`Model::change`], as an edit of the tree after `version`.
    pub(super) fn edit(&mut self, version: &Version, random: &Random) -> Edit {
        Edit { number: EditNumber(version.edit_number().0 + 1), changes: self.change(random) }
    }

    /// Compares, key by key.
    pub(super) fn assert_equals(&self, version: &Version) {
        let tree = version.tree(TREE).expect("it exists");
        let runs: Vec<_> = tree
            .levels()
            .iter()
            .zip(1..)
            .flat_map(|(level, number)| level.runs().iter().map(move |run| (number, run)))
            .collect();
        let ids: Vec<_> = runs.iter().map(|(level, run)| (*level, run.id())).collect();
        assert_eq!(ids, self.runs.iter().map(|(level, run)| (*level, run.id)).collect::<Vec<_>>());
        for ((_, run), (_, model)) in runs.iter().zip(&self.runs) {
            for number in 0..KEYS {
                let found = run.table_of(&key(number)).map(|table| table.id());
                assert_eq!(found, model.keys.get(&number).copied(), "key {number} of {:?}", model.id);
            }
        }
        let named: BTreeSet<TableId> =
            runs.iter().flat_map(|(_, run)| run.slices().iter().map(|slice| slice.table().id())).collect();
        assert!(tree.tables().map(|table| table.id()).eq(named));
        assert_eq!(tree.flushed_through(), Sequence(self.sequence));
        assert_eq!(
            tree.compactions().iter().map(|compaction| (compaction.id, compaction.output)).collect::<Vec<_>>(),
            self.compactions.iter().map(|compaction| (compaction.id, compaction.output)).collect::<Vec<_>>()
        );
        for (compaction, model) in tree.compactions().iter().zip(&self.compactions) {
            for number in 0..KEYS {
                let done = compaction.done.iter().any(|range| range.contains(&key(number)));
                assert_eq!(done, model.done.contains(&number), "key {number} of {:?}", model.id);
            }
        }
    }

    fn new_run(&mut self, keys: BTreeMap<usize, TableId>, sequences: (u64, u64)) -> ModelRun {
        let id = RunId(self.next.1);
        self.next.1 += 1;
        ModelRun { id, keys, sequences }
    }

    /// Adds tables for some of the keys, in order, with the sequences given.
    fn new_tables(
        &mut self,
        random: &Random,
        (start, end): (usize, usize),
        sequences: (u64, u64),
        changes: &mut Vec<Change>,
    ) -> Vec<(usize, usize, SliceSpec)> {
        let mut slices = Vec::new();
        let mut from = start + random.below(4) as usize;
        while from < end {
            let to = (from + 1 + random.below(30) as usize).min(end);
            let id = TableId(self.next.0);
            self.next.0 += 1;
            self.tables.insert(id, (from, to));
            changes.push(Change::TableAdded { tree: TREE, meta: Arc::new(meta(id, from, to, sequences)) });
            slices.push((from, to, SliceSpec { table: id, range: KeyRange::ALL }));
            from = to + random.below(4) as usize;
        }
        slices
    }

    /// A new youngest run with at least one table.
    fn flush(&mut self, random: &Random) -> Vec<Change> {
        let sequences = (self.sequence + 1, self.sequence + 10);
        let mut changes = Vec::new();
        let slices = self.new_tables(random, (0, KEYS), sequences, &mut changes);
        self.add_youngest(slices, sequences, &mut changes);
        changes
    }

    /// As a flush, but the youngest run's entries are written again with the new ones.
    fn flush_into_active(&mut self, random: &Random) -> Vec<Change> {
        let Some((_, active)) = self.runs.first().filter(|(level, run)| *level == 1 && !self.is_compacting(run.id))
        else {
            return self.flush(random);
        };
        let (id, sequences) = (active.id, (active.sequences.0, self.sequence + 10));
        let mut changes = vec![Change::RunRemoved { tree: TREE, run: id }];
        let slices = self.new_tables(random, (0, KEYS), sequences, &mut changes);
        self.runs.remove(0);
        self.add_youngest(slices, sequences, &mut changes);
        changes
    }

    fn add_youngest(
        &mut self,
        slices: Vec<(usize, usize, SliceSpec)>,
        sequences: (u64, u64),
        changes: &mut Vec<Change>,
    ) {
        let run = self.new_run(keys_of(&slices), sequences);
        changes.push(Change::RunAdded { tree: TREE, run: run.id, level: 1, index: 0 });
        changes.push(Change::SlicesAdded {
            tree: TREE,
            run: run.id,
            slices: slices.into_iter().map(|(_, _, slice)| slice).collect(),
        });
        changes.push(Change::FlushedThrough { tree: TREE, sequence: Sequence(sequences.1) });
        self.sequence = sequences.1;
        self.runs.insert(0, (1, run));
    }

    fn begin_compaction(&mut self, random: &Random) -> Vec<Change> {
        if self.runs.is_empty() {
            return self.flush(random);
        }
        let start = random.below(self.runs.len() as u64) as usize;
        let count = 1 + random.below(3) as usize;
        let inputs: Vec<ModelRun> = self.runs[start..].iter().take(count).map(|(_, run)| run.clone()).collect();
        if inputs.iter().any(|run| self.is_compacting(run.id)) {
            return self.relabel(random);
        }
        // Beside or between the oldest two, in the oldest one's level.
        let last = start + inputs.len() - 1;
        let level = self.runs[last].0;
        let at = last + random.below(2) as usize;
        let index = self.runs[..at].iter().filter(|(other, _)| *other == level).count();
        let sequences = (inputs[inputs.len() - 1].sequences.0, inputs[0].sequences.1);
        let output = self.new_run(BTreeMap::new(), sequences);
        let compaction = ModelCompaction {
            id: CompactionId(self.next.2),
            inputs: inputs.iter().map(|run| run.id).collect(),
            output: output.id,
            done: BTreeSet::new(),
        };
        self.next.2 += 1;
        let changes = vec![
            Change::RunAdded { tree: TREE, run: output.id, level, index: index as u32 },
            Change::CompactionBegun {
                tree: TREE,
                compaction: compaction.id,
                inputs: compaction.inputs.clone(),
                output: output.id,
            },
        ];
        self.runs.insert(at, (level, output));
        self.compactions.push(compaction);
        changes
    }

    /// Hands over a random range, or the rest and ends the compaction.
    fn advance_compaction(&mut self, random: &Random) -> Vec<Change> {
        if self.compactions.is_empty() {
            return self.begin_compaction(random);
        }
        let at = random.below(self.compactions.len() as u64) as usize;
        let mut changes = Vec::new();
        if random.below(3) > 0 {
            let from = random.below(KEYS as u64) as usize;
            let to = from + 1 + random.below((KEYS - from) as u64) as usize;
            // The part of it, from its beginning, that has not been done.
            let free = (from..to).take_while(|number| !self.compactions[at].done.contains(number)).count();
            if free > 0 {
                self.hand_over(at, from, from + free, random, &mut changes);
                return changes;
            }
        }
        while let Some(from) = (0..KEYS).find(|number| !self.compactions[at].done.contains(number)) {
            let free = (from..KEYS).take_while(|number| !self.compactions[at].done.contains(number)).count();
            self.hand_over(at, from, from + free, random, &mut changes);
        }
        let compaction = self.compactions.remove(at);
        changes.push(Change::CompactionEnded { tree: TREE, compaction: compaction.id });
        self.runs.retain(|(_, run)| {
            !(compaction.inputs.contains(&run.id) || run.id == compaction.output && run.keys.is_empty())
        });
        changes
    }

    fn hand_over(&mut self, at: usize, from: usize, to: usize, random: &Random, changes: &mut Vec<Change>) {
        let compaction = self.compactions[at].clone();
        let moved = (random.below(3) == 0).then(|| self.movable(&compaction, from, to)).flatten();
        let output = self.run(compaction.output).sequences;
        let slices = match moved {
            Some(slice) => vec![slice],
            None if random.below(4) == 0 => Vec::new(),
            None => self.new_tables(random, (from, to), output, changes),
        };
        for input in &compaction.inputs {
            self.run(*input).keys.retain(|number, _| !(from..to).contains(number));
        }
        self.run(compaction.output).keys.extend(keys_of(&slices));
        self.compactions[at].done.extend(from..to);
        changes.push(Change::CompactionAdvanced {
            tree: TREE,
            compaction: compaction.id,
            range: range(from, to),
            outputs: slices.into_iter().map(|(_, _, slice)| slice).collect(),
        });
    }

    /// A slice of an input that holds the first key of the range: it can be moved instead of being
    /// written again.
    fn movable(&mut self, compaction: &ModelCompaction, from: usize, to: usize) -> Option<(usize, usize, SliceSpec)> {
        let input = self.run(compaction.inputs[0]).keys.clone();
        let table = *input.get(&from)?;
        let end = (from..to).take_while(|number| input.get(number) == Some(&table)).count() + from;
        Some((from, end, SliceSpec { table, range: KeyRange::new(Some(&key(from)), Some(&key(end))) }))
    }

    fn relabel(&mut self, random: &Random) -> Vec<Change> {
        let mut level = 1;
        for (own, _) in &mut self.runs {
            level += u32::from(random.below(3) == 0) * (1 + random.below(2) as u32);
            *own = level;
        }
        let levels = (1..=level)
            .map(|level| self.runs.iter().filter(|(own, _)| *own == level).map(|(_, run)| run.id).collect())
            .collect();
        vec![Change::Relabelled { tree: TREE, levels }]
    }

    /// Cuts a range from some run that no compaction names; the run ends if nothing is left.
    fn cut(&mut self, random: &Random) -> Vec<Change> {
        let free: Vec<RunId> =
            self.runs.iter().map(|(_, run)| run.id).filter(|run| !self.is_compacting(*run)).collect();
        if free.is_empty() {
            return self.flush(random);
        }
        let id = free[random.below(free.len() as u64) as usize];
        let from = random.below(KEYS as u64) as usize;
        let to = from + 1 + random.below((KEYS - from) as u64) as usize;
        let run = self.run(id);
        run.keys.retain(|number, _| !(from..to).contains(number));
        let mut changes = vec![Change::RunCut { tree: TREE, run: id, range: range(from, to) }];
        if run.keys.is_empty() {
            self.runs.retain(|(_, run)| run.id != id);
            changes.push(Change::RunRemoved { tree: TREE, run: id });
        }
        changes
    }

    fn is_compacting(&self, run: RunId) -> bool {
        self.compactions.iter().any(|compaction| compaction.output == run || compaction.inputs.contains(&run))
    }

    fn run(&mut self, id: RunId) -> &mut ModelRun {
        &mut self.runs.iter_mut().find(|(_, run)| run.id == id).expect("the model names runs that it has").1
    }
}

fn keys_of(slices: &[(usize, usize, SliceSpec)]) -> BTreeMap<usize, TableId> {
    slices.iter().flat_map(|(from, to, slice)| (*from..*to).map(|number| (number, slice.table))).collect()
}

/// A table with the keys [from, to).
pub(super) fn meta(id: TableId, from: usize, to: usize, sequences: (u64, u64)) -> TableMeta {
    TableMeta {
        id,
        file_bytes: 4096,
        root_checksum: id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        digest_bytes: 0,
        created_after: EditNumber(0),
        properties: Properties {
            entries: (to - from) as u64,
            raw_bytes: 100,
            smallest_key: key(from),
            largest_key: key(to - 1),
            smallest_sequence: Sequence(sequences.0),
            largest_sequence: Sequence(sequences.1),
            ..Properties::default()
        },
    }
}
