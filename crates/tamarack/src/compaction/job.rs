//! A job: a compaction plan carried out in pieces and steps. A flush is the job whose youngest
//! input is an immutable memtable.
//!
//! ```text
//!             handed over          not yet
//!          ├───────────────┼─────────────────────┤  keys of one piece
//!  inputs  │               │ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ │  cut back: their slices begin at the border
//!          │               │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ │
//!  output  │ ███████ █████ │                     │  finished tables, each a slice
//! ```
//!
//! A job is divided into [`Piece`]s of its key range, so that several workers can carry it out at
//! once. A piece either moves slices that overlap nothing, or copies entries in order, without
//! versions that no reader can see, and without tombstones that delete nothing in any older run. A
//! [`JobPart`] is the rest of a piece, with its cursors and the table being written while a worker
//! has it. Only the part's range survives a crash or a failure. At a handover the cursors are
//! opened anew on the runs as they are then, so that exhausted tables can be removed; they go on
//! with what was read ahead.
//!
//! This module reads runs and writes tables; `scheduler` decides what enters the tree, and when.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_filter::Digest;
use tamarack_model::agenda::RequestId;
use tamarack_model::planner::Cause;
use tamarack_model::tables::PART_TABLES;

use crate::compaction::key_lists::KeyLists;
use crate::compaction::output::{CompactionOutput, OutputContext};
use crate::compaction::retry::Attempts;
use crate::compaction::task::Task;
use crate::compaction::tree_filter::TreeFilter;
use crate::database::Database;
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::edit::{Key, KeyRange, RunId, SliceSpec};
use crate::format::key_range::key_after;
use crate::format::meta::TableMeta;
use crate::memory::{Account, MemoryPart};
use crate::memtable::Memtable;
use crate::merge::{
    FilterBounds, FilterOutcome, FilterPass, Fold, FoldBounds, MergedSource, Piece, Retain, Source, Span, split,
};
use crate::mistake::{self, Mistake};
use crate::range_tombstones::RangeTombstones;
use crate::table::{FilterSettings, Pieces, ReadPolicy, ScanVolume};
use crate::tree::memtable_or_run::{MemtableOrRun, settle};
use crate::tree::range_deletes::RangeDeletes;
use crate::tree::run::Run;
use crate::tree::slice::Slice;
use crate::tree::version::TreeVersion;

/// Maximum raw bytes of one step.
const STEP_BYTES: u64 = 1 << 20;

/// Maximum duration of one step; the clock is read every [`LOOK_BYTES`].
const STEP_TIME: Duration = Duration::from_millis(4);
const LOOK_BYTES: u64 = 64 << 10;

/// A whole table is moved, rather than joined with its neighbours, if it has at least one part in
/// this many of the output's table size: runs should not consist of tiny tables. With a smaller
/// share, less is copied of data written in key order: its tables are joined once, as levels grow,
/// and then moved.
const WHOLE_SHARE: u64 = 16;

/// A slice of a table is moved if it has at least one part in this many of that size: it keeps the
/// whole file on storage.
const CUT_SHARE: u64 = 4;

/// The largest group of merge operands that is merged at once: this share of the memory budget, and
/// at most so many bytes.
const GROUP_SHARE: u64 = 64;
const GROUP_BYTES_MAX: u64 = 16 << 20;

/// The longest value that merge operands become: this share of the memory budget, and at most so
/// many bytes, as the longest that may be written.
const VALUE_SHARE: u64 = 8;
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// Entries that a compaction filter may drop or change until the next handover, at most: 1 MiB of
/// digests. With a small memory budget, fewer.
const FILTERED_MAX: usize = 128 << 10;

/// A decision of the agenda in progress.
#[derive(Debug)]
pub(super) struct Job {
    /// Number among all jobs, in the order of their beginning.
    pub(super) number: u64,
    pub(super) task: Task,
    pub(super) cause: Cause,
    /// The request that it serves, if any.
    pub(super) request: Option<RequestId>,
    /// Parts that no worker has.
    pub(super) parts: Vec<JobPart>,
    /// Number of parts that workers have.
    pub(super) taken: usize,
    /// Raw bytes to copy when it began, roughly.
    pub(super) total: u64,
    /// Raw bytes left to copy, roughly.
    pub(super) left: u64,
    /// Space that one part takes beyond what its inputs have, in bytes; none for flushes.
    pub(super) temporary_bytes: u64,
    /// True if an earlier process began it; its cause is unknown.
    pub(super) resumed: bool,
    /// Finished pieces of a flush, until all are installed together.
    pub(super) done: Vec<FinishedPiece>,
    /// Time of its beginning, on the environment's clock.
    pub(super) began: Duration,
    /// Bytes of the tables that its parts installed.
    pub(super) written: u64,
    /// The failures of a compaction; those of flushes are common to all.
    pub(super) attempts: Attempts,
}

/// A finished piece of a flush.
#[derive(Debug)]
pub(super) struct FinishedPiece {
    /// Lower bound of its keys, for the order of pieces.
    pub(super) from: Option<Key>,
    /// Slices moved without copying.
    pub(super) moved: Vec<SliceSpec>,
    /// Finished tables that no edit names yet.
    pub(super) output: CompactionOutput,
    /// Its keys, for a filter over the whole tree; `None` without one, or if it has copied nothing.
    pub(super) lists: Option<KeyLists>,
    /// The sequences for which it has kept entries.
    pub(super) readable: Vec<Sequence>,
}

/// Rest of a piece.
#[derive(Debug)]
pub(super) struct JobPart {
    /// The job's number.
    pub(super) job: u64,
    pub(super) task: Task,
    /// Keys that have not been handed over.
    pub(super) range: KeyRange,
    /// Slices to move; if empty, the range is copied.
    pub(super) moved: Vec<SliceSpec>,
    pub(super) table_bytes: u64,
    /// Filter of its tables.
    pub(super) filter: Option<FilterSettings>,
    /// Raw bytes copied since the last handover, which a failure loses.
    pub(super) copied: u64,
    /// Raw bytes that were copied, and have to be copied again.
    pub(super) again: u64,
    /// True after its first step.
    pub(super) has_begun: bool,
    /// Bytes of the tables that it installed.
    pub(super) written: u64,
    /// True if the compaction filter is not asked until the next handover: what it decided was
    /// void.
    is_unfiltered: bool,
    open: Option<OpenPart>,
    /// What the cursors had read ahead at the last handover.
    read_ahead: Vec<(RunId, Pieces)>,
}

/// A part that is being copied.
#[derive(Debug)]
struct OpenPart {
    entries: MergedSource<MemtableOrRun>,
    retain: Retain,
    fold: Fold,
    /// If there is a compaction filter.
    pass: Option<FilterPass>,
    /// The range tombstones that hide some of the entries, or none of them.
    deleted: RangeTombstones,
    /// The sequences that must stay readable, ascending.
    readable: Vec<Sequence>,
    output: CompactionOutput,
    /// For a filter over the whole tree, if there is one.
    lists: Option<KeyLists>,
    /// The last sequence of the memtable that it flushes, if it does.
    flushes_through: Option<Sequence>,
}

/// Position at which a step of a part ended.
#[derive(Debug)]
pub(super) enum Reached {
    /// Within a table.
    Pause,
    /// At a full table, or with full lists of keys: all up to this key can be handed over.
    Border(Key),
    /// At the end of the range.
    End,
}

/// Result of a step.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) reached: Reached,
    /// Raw bytes read.
    pub(super) bytes: u64,
}

/// What is copied where it could be moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// Everything.
    pub(super) all: bool,
    /// Parts of tables: with a filter over the whole tree, as their digests do not say which keys
    /// that part has.
    pub(super) cut: bool,
    /// Tables with merge operands at the bottom, where they become values.
    pub(super) operands: bool,
    /// Tables with entries that range deletes up to this sequence hide, unless these hide all of
    /// them: then the slice is cut, wherever it is moved to.
    pub(super) deleted_at: Sequence,
}

/// Present inputs of a task, and the older runs.
pub(super) struct Inputs {
    buffer: Option<Arc<Memtable>>,
    runs: Vec<Arc<Run>>,
    older: Vec<Arc<Run>>,
    range_deletes: Arc<RangeDeletes>,
}

impl Inputs {
    /// The runs.
    pub(super) fn ids(&self) -> impl Iterator<Item = RunId> {
        self.runs.iter().map(|run| run.id())
    }

    /// Finds the inputs of a task in the tree.
    pub(super) fn of(task: &Task, tree: &TreeVersion) -> Self {
        let runs: Vec<Arc<Run>> = tree.runs().cloned().collect();
        let (buffer, inputs, output) = match task {
            Task::Flush { immutable, input } => {
                (Some(immutable.memtable.clone()), input.iter().copied().collect(), None)
            }
            Task::Range { inputs } => (None, inputs.to_vec(), None),
            Task::Compaction { id } => {
                let compaction = tree.compaction(*id);
                (None, compaction.inputs.clone(), Some(compaction.output))
            }
        };
        let is_member = |run: &Arc<Run>| inputs.contains(&run.id()) || Some(run.id()) == output;
        let mut older = runs[runs.iter().rposition(is_member).map_or(0, |at| at + 1)..].to_vec();
        if mistake::is_planted(Mistake::TombstoneDroppedEarly) {
            older.clear();
        }
        if mistake::is_planted(Mistake::StaticRunOverlooked) {
            let level_of = |run: RunId| tree.level_of(run);
            older.retain(|run| output.and_then(level_of) != level_of(run.id()));
        }
        let runs = runs.into_iter().filter(|run| inputs.contains(&run.id())).collect();
        Self { buffer, runs, older, range_deletes: tree.shared_range_deletes().clone() }
    }

    /// Returns the raw bytes of all inputs.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.raw_bytes())
            + self.runs.iter().map(|run| run.raw_bytes()).sum::<u64>()
    }

    /// Divides the keys of `ranges` into pieces. Slices that are not among `copies` may be moved
    /// without copying.
    pub(super) fn pieces(
        &self,
        ranges: &[KeyRange],
        parts: usize,
        table_bytes: u64,
        copies: Copies,
    ) -> Result<Vec<(Piece, Vec<SliceSpec>)>> {
        let mut pieces = Vec::new();
        for range in ranges {
            let (mut spans, mut slices) = (Vec::new(), Vec::new());
            for run in &self.runs {
                for slice in run.within(range).slices().iter() {
                    spans.push(self.span(slice, table_bytes, copies));
                    slices.push(slice.spec());
                }
            }
            if let Some(buffer) = &self.buffer {
                spans.extend(span_of(buffer)?);
            }
            let found = split(&spans, range, parts, table_bytes.saturating_mul(PART_TABLES));
            pieces.extend(found.into_iter().map(|piece| {
                let moved = piece.moved.iter().map(|index| slices[*index].clone()).collect();
                (piece, moved)
            }));
        }
        Ok(pieces)
    }

    fn span(&self, slice: &Slice, table_bytes: u64, copies: Copies) -> Span {
        let meta = slice.table().meta();
        let after = slice.to().cloned().unwrap_or_else(|| key_after(&meta.largest_key));
        // At the bottom, tombstones go, and operands become values.
        let folds = copies.operands && meta.merge_operands() > 0;
        let is_hidden = self.range_deletes.hiding(slice, copies.deleted_at).is_some_and(|(_, all)| !all);
        let has_garbage = is_hidden || (meta.tombstones > 0 || folds) && self.older.is_empty();
        let is_cut = !slice.is_whole();
        let is_below = |share| slice.share_of(meta.file_bytes) < table_bytes / share;
        Span {
            first: Key::from(slice.first_key()),
            after,
            bytes: slice.share_of(meta.raw_bytes),
            movable: !(copies.all || has_garbage || (is_cut && (copies.cut || is_below(CUT_SHARE)))),
            joins: is_below(WHOLE_SHARE),
        }
    }
}

/// Moves to the next entry.
fn step(entries: &mut MergedSource<MemtableOrRun>) -> Result<()> {
    entries.next()?;
    if entries.some_wait() { settle(entries) } else { Ok(()) }
}

/// Ends the group of merge operands, if there is one: all entries of its key have been taken.
fn end_group(
    fold: &mut Fold,
    writer: &mut MergedWriter<'_>,
    may_exist_in_older: &impl Fn(&[u8]) -> bool,
) -> Result<()> {
    let Some((key, input)) = fold.group() else { return Ok(()) };
    let older_may_exist = may_exist_in_older(key);
    fold.end_key(|| older_may_exist, &mut |entry| writer.write(input, entry, || older_may_exist))
}

/// Writes what the operands of a key have become.
struct MergedWriter<'a> {
    lists: &'a mut Option<KeyLists>,
    pass: &'a mut Option<FilterPass>,
    output: &'a mut CompactionOutput,
}

impl MergedWriter<'_> {
    /// Writes an entry that was merged; `input` has some of its operands.
    fn write(&mut self, input: usize, entry: Entry<'_>, older_may_exist: impl FnOnce() -> bool) -> Result<()> {
        let written = match self.pass {
            Some(pass) => pass.apply(entry, older_may_exist),
            None => Some(entry),
        };
        let Some(entry) = written else { return Ok(()) };
        self.lists.iter_mut().for_each(|lists| lists.note(input, entry.key, true));
        self.output.add(entry)
    }
}

/// Returns the span of a memtable's keys; `None` if it is empty.
fn span_of(buffer: &Arc<Memtable>) -> Result<Option<Span>> {
    let mut cursor = buffer.cursor();
    cursor.seek_first()?;
    let Some(first) = cursor.entry().map(|entry| Key::from(entry.key)) else { return Ok(None) };
    cursor.seek_last()?;
    let after = cursor.entry().map_or_else(|| key_after(&first), |entry| key_after(entry.key));
    Ok(Some(Span { first, after, bytes: buffer.raw_bytes(), movable: false, joins: true }))
}

impl JobPart {
    /// Makes the part of a whole piece.
    pub(super) fn new(
        job: u64,
        task: Task,
        range: KeyRange,
        moved: Vec<SliceSpec>,
        table_bytes: u64,
        filter: Option<FilterSettings>,
    ) -> Self {
        Self {
            job,
            task,
            range,
            moved,
            table_bytes,
            filter,
            copied: 0,
            again: 0,
            has_begun: false,
            written: 0,
            is_unfiltered: false,
            open: None,
            read_ahead: Vec::new(),
        }
    }

    /// Copies for a few milliseconds, until a table or the lists of keys are full, or to the end of
    /// the range. `tree` is the present version.
    pub(super) fn copy(
        &mut self,
        env: &dyn Env,
        database: &Database,
        tree: &TreeVersion,
        context: &Arc<OutputContext>,
        filter: &TreeFilter,
    ) -> Result<Copied> {
        if self.open.as_ref().is_some_and(|open| open.lists.as_ref().map(|lists| lists.epoch) != filter.epoch()) {
            self.restart();
        }
        if self.open.is_none() {
            self.open = Some(self.open(database, tree, context, filter)?);
        }
        let open = self.open.as_mut().expect("opened above");
        let can_hand_over = !matches!(self.task, Task::Flush { .. });
        // Looked up anew at each step, so that a waiting part pins no tables of other runs. The
        // entries of a key in older runs only become fewer: nothing younger than the inputs is
        // placed below them during the compaction.
        let older = Inputs::of(&self.task, tree).older;
        let until = env.now() + STEP_TIME;
        let (mut copied, mut look_at) = (0, LOOK_BYTES);
        // Runs are cut to the range; a memtable cannot be cut.
        let end = self.range.to.as_deref().filter(|_| matches!(self.task, Task::Flush { .. }));
        let is_within = |entry: &Entry<'_>| end.is_none_or(|end| entry.key < end);
        let may_exist_in_older = |key: &[u8]| older.iter().any(|run| run.table_of(key).is_some());
        while let Some(entry) = open.entries.entry().filter(is_within) {
            if open.fold.group().is_some_and(|(key, _)| key != entry.key) {
                end_group(
                    &mut open.fold,
                    &mut MergedWriter { lists: &mut open.lists, pass: &mut open.pass, output: &mut open.output },
                    &may_exist_in_older,
                )?;
            }
            let is_small = || open.output.open_bytes().is_some_and(|bytes| bytes < self.table_bytes / WHOLE_SHARE);
            let has_full_lists =
                || open.lists.as_ref().is_some_and(|lists| lists.are_full_before(entry.key, is_small()));
            let has_full_pass = || open.pass.as_ref().is_some_and(|pass| pass.is_full_before(entry.key));
            let must_hand_over = || has_full_lists() || has_full_pass();
            let is_full = || open.output.is_full_before(entry.key) || can_hand_over && must_hand_over();
            // A group of operands is of this key, and not in the output yet.
            if open.fold.is_empty() && is_full() {
                if can_hand_over {
                    return Ok(Copied { reached: Reached::Border(Key::from(entry.key)), bytes: copied });
                }
                open.output.finish_table()?;
            }
            if copied >= look_at {
                look_at = copied + LOOK_BYTES;
                if copied >= STEP_BYTES || env.now() >= until {
                    return Ok(Copied { reached: Reached::Pause, bytes: copied });
                }
            }
            copied += entry.raw_bytes();
            if !open.deleted.is_empty() && open.deleted.hide(entry.key, entry.sequence, &open.readable) {
                if let Some(lists) = &mut open.lists {
                    lists.note(open.entries.source().expect("the cursor is at an entry"), entry.key, false);
                }
                step(&mut open.entries)?;
                continue;
            }
            let older_may_exist = || may_exist_in_older(entry.key);
            let is_kept = open.retain.keep(&entry, older_may_exist);
            let is_written = is_kept && open.fold.passes(&entry);
            let written = match &mut open.pass {
                Some(pass) if is_written => pass.apply(entry, older_may_exist),
                _ => is_written.then_some(entry),
            };
            if let Some(lists) = &mut open.lists {
                let input = open.entries.source().expect("the cursor is at an entry");
                lists.note(input, entry.key, written.is_some());
            }
            if let Some(last) = open.flushes_through.filter(|_| open.retain.is_first()) {
                let is_hot = open.entries.current().is_some_and(MemtableOrRun::was_looked_up);
                context.cache().renew(&entry, is_hot, last);
            }
            if let Some(written) = written {
                open.output.add(written)?;
            } else if !open.fold.passes(&entry) {
                let input = open.entries.source().expect("the cursor is at an entry");
                let mut writer =
                    MergedWriter { lists: &mut open.lists, pass: &mut open.pass, output: &mut open.output };
                let mut emit = |merged: Entry<'_>| writer.write(input, merged, older_may_exist);
                open.fold.take(entry, is_kept, input, older_may_exist, &mut emit)?;
            }
            step(&mut open.entries)?;
        }
        end_group(
            &mut open.fold,
            &mut MergedWriter { lists: &mut open.lists, pass: &mut open.pass, output: &mut open.output },
            &may_exist_in_older,
        )?;
        Ok(Copied { reached: Reached::End, bytes: copied })
    }

    fn open(
        &mut self,
        database: &Database,
        tree: &TreeVersion,
        context: &Arc<OutputContext>,
        filter: &TreeFilter,
    ) -> Result<OpenPart> {
        let Inputs { buffer, runs, .. } = Inputs::of(&self.task, tree);
        let mut deleted = tree.range_deletes().tombstones().clone();
        buffer.iter().for_each(|buffer| deleted.extend(&buffer.range_tombstones()));
        let memtable = buffer.as_ref().map(|_| None);
        let buffer = buffer.map(|buffer| buffer.cursor().into());
        let runs: Vec<Run> = runs.iter().map(|run| run.within(&self.range)).filter(|run| !run.is_empty()).collect();
        let lists =
            filter.lists(&self.task, tree, memtable.into_iter().chain(runs.iter().map(|run| Some(run.id()))).collect());
        let piece_bytes = context.account().piece_bytes_of(runs.len());
        let mut output = context.output(self.table_bytes, self.filter).in_pieces_of(piece_bytes);
        if context.is_space_low(self.table_bytes) {
            // Output larger than the inputs could take all space that is left.
            for slice in runs.iter().flat_map(|run| run.slices().iter()) {
                output = output.compressed(slice.table().meta().compression);
            }
        }
        // What is read ahead ends with this part: the next one reads the rest.
        let slice = runs.first().and_then(|run| run.slices().iter().next());
        let reads_ahead = slice.is_some_and(|slice| slice.table().storage().reads_ahead());
        let to = self.range.to.as_deref().filter(|_| reads_ahead).map(|to| (to, Sequence::MAX));
        let large_bytes = context.account().piece_bytes();
        let volume = ScanVolume::between(None, to).releasing(Some(large_bytes)).in_pieces_of(piece_bytes);
        let volume = Arc::new(volume);
        let mut read_ahead = std::mem::take(&mut self.read_ahead);
        let runs = runs.into_iter().map(|run| {
            let before = read_ahead.iter().position(|(id, _)| *id == run.id()).map(|at| read_ahead.swap_remove(at).1);
            Arc::new(run).cursor(ReadPolicy::Sequential, &volume).continuing(before).into()
        });
        let mut entries = MergedSource::new(buffer.into_iter().chain(runs).collect())?;
        match &self.range.from {
            None => entries.seek_first()?,
            Some(key) => entries.seek(key, Sequence::MAX)?,
        }
        settle(&mut entries)?;
        let flushes_through = match &self.task {
            Task::Flush { immutable, .. } => Some(immutable.last),
            Task::Compaction { .. } | Task::Range { .. } => None,
        };
        flushes_through.into_iter().for_each(|last| context.cache().flush_begins(last));
        // Read only after the inputs are complete, so that it covers all entries of the memtable.
        let readable = database.sequences.readable();
        let budget_bytes = context.account().budget().total_bytes;
        let bounds = FoldBounds {
            group_bytes: (budget_bytes / GROUP_SHARE).min(GROUP_BYTES_MAX) as usize,
            value_bytes: (budget_bytes / VALUE_SHARE).min(VALUE_BYTES_MAX) as usize,
        };
        let fold = Fold::new(context.merging(), readable.clone(), bounds);
        let retain = Retain::new(readable.clone());
        let pass = self.filter_pass(database, tree, context, &readable);
        if !deleted.is_empty() {
            // All range deletes up to there are among those, or were applied before.
            let known = flushes_through.unwrap_or(tree.flushed_through());
            output.set_range_deletes_applied(readable[0].min(known));
        }
        Ok(OpenPart { entries, retain, fold, pass, deleted, readable, output, lists, flushes_through })
    }

    /// Makes what shows entries to the compaction filter, if there is one. Flushes show none.
    fn filter_pass(
        &self,
        database: &Database,
        tree: &TreeVersion,
        context: &OutputContext,
        readable: &[Sequence],
    ) -> Option<FilterPass> {
        let filter = context.compaction_filter()?;
        if self.is_unfiltered || matches!(self.task, Task::Flush { .. }) {
            return None;
        }
        let digests_max = context.account().building_bytes_max() as usize / 8 / size_of::<Digest>();
        let bounds = FilterBounds {
            level: self.task.target(tree),
            oldest_readable: readable[0],
            visible: *readable.last().expect("the visible sequence is readable"),
            youngest_snapshot: database.sequences.youngest_snapshot(),
            entries_max: digests_max.min(FILTERED_MAX),
        };
        let charge = context.account().charge(MemoryPart::Compactions, 0);
        Some(FilterPass::new(filter.clone(), bounds, charge))
    }

    /// Takes what the compaction filter has done since the last handover, if there is one.
    pub(super) fn take_filtered(&mut self) -> Option<FilterOutcome> {
        self.open.as_mut()?.pass.as_mut().map(FilterPass::take_outcome)
    }

    /// Gives up what was copied since the last handover, because what the compaction filter has
    /// decided is void. It is copied again without it.
    pub(super) fn restart_unfiltered(&mut self) {
        self.is_unfiltered = true;
        self.restart();
    }

    /// The sequences for which it has kept entries.
    pub(super) fn readable(&self) -> Vec<Sequence> {
        self.open.as_ref().map_or(Vec::new(), |open| open.readable.clone())
    }

    /// Gives up what was copied since the last handover, for instance because it began with another
    /// filter over the whole tree.
    pub(super) fn restart(&mut self) {
        self.read_ahead.clear();
        self.again += std::mem::take(&mut self.copied);
        if let Some(open) = self.open.take() {
            open.output.discard();
        }
    }

    /// Takes the keys since the last handover, for a filter over the whole tree.
    pub(super) fn take_lists(&mut self) -> Option<KeyLists> {
        let lists = self.open.as_mut()?.lists.take();
        lists.map(|mut lists| {
            lists.finish();
            lists
        })
    }

    /// Its finished tables that were not handed over.
    pub(super) fn tables(&self) -> &[TableMeta] {
        self.open.as_ref().map_or(&[], |open| open.output.finished())
    }

    /// Finishes the table being written.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), |open| open.output.finish_table())
    }

    /// Returns the output since the last handover.
    pub(super) fn output(&mut self) -> Option<&mut CompactionOutput> {
        self.open.as_mut().map(|open| &mut open.output)
    }

    /// Continues at `border`, with cursors that are opened anew and go on with what was read ahead,
    /// unless flushes and compactions take much memory.
    pub(super) fn go_on_at(&mut self, border: Key, account: &Account) {
        self.range.from = Some(border);
        (self.copied, self.is_unfiltered) = (0, false);
        let sources = self.open.take().map_or(Vec::new(), |open| open.entries.into_sources());
        self.read_ahead.clear();
        if !account.blocks_of_compactions_are_many(0) {
            self.read_ahead.extend(sources.into_iter().filter_map(MemtableOrRun::into_pieces));
        }
    }

    /// Drops the cursors and returns the output since the last handover.
    pub(super) fn close(&mut self) -> Option<CompactionOutput> {
        self.read_ahead.clear();
        self.open.take().map(|open| open.output)
    }
}
