//! A job: one merge of the planner's, carried out in pieces and steps. A flush is the job whose
//! youngest input is a sealed buffer.
//!
//! ```text
//!             handed over          not yet
//!          ├───────────────┼─────────────────────┤  keys of one piece
//!  inputs  │               │ ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ │  cut back: their slices begin at the border
//!          │               │ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ │
//!  output  │ ███████ █████ │                     │  finished tables, each a slice
//! ```
//!
//! A job is divided into [`Piece`]s of its keys, so that several workers can carry it out at once.
//! A piece either moves slices that overlap nothing, or copies: entries in order, without the
//! versions that nobody can see any more, and without tombstones that have nothing left to delete
//! in any older run. A [`Part`] is what is left of a piece, and, while it is worked on, the cursors
//! and the table being written. Nothing but the part's range survives a crash, a failure or a
//! handover; the cursors are opened anew, on the runs as they then are, so that tables that are
//! used up can go.
//!
//! This module reads runs and writes tables. What becomes part of the tree, and when, is decided in
//! `scheduler`.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_model::agenda::RequestId;
use tamarack_model::planner::Cause;

use crate::compaction::output::{Output, Workshop};
use crate::database::Database;
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::edit::{CompactionId, Key, KeyRange, RunId, SliceSpec};
use crate::memtable::{Memtable, MemtableCursor};
use crate::merge::{MergedSource, Piece, Retain, Source, Span, split};
use crate::mistake::{self, Mistake};
use crate::table::{FilterSettings, ReadPolicy};
use crate::tree::run::{Run, RunCursor};
use crate::tree::slice::Slice;
use crate::tree::state::ImmutableMemtable;
use crate::tree::version::TreeVersion;

/// How much one step copies at most, in raw bytes.
const STEP_BYTES: u64 = 1 << 20;

/// How long one step copies at most; it looks at the clock every [`LOOK_BYTES`].
const STEP_TIME: Duration = Duration::from_millis(4);
const LOOK_BYTES: u64 = 64 << 10;

/// A whole table that is moved although its neighbours could be joined with it has at least this
/// part of the size that the output's tables get: runs should not come to consist of crumbs. The
/// smaller the part, the less is copied of what is written in the order of keys: tables are joined
/// once, as levels grow, and then moved.
const WHOLE_SHARE: u64 = 16;

/// A part of a table that is moved is at least this part of that size: it keeps the whole file.
const CUT_SHARE: u64 = 4;

/// What a job does.
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Makes a run of a sealed buffer, together with the active run of level 1 if that is to take
    /// it.
    Flush {
        /// The buffer.
        immutable: Arc<ImmutableMemtable>,
        /// The run.
        input: Option<RunId>,
    },
    /// Makes one run of several; the version knows which.
    Compaction {
        /// Its number.
        id: CompactionId,
    },
    /// Makes one run of a range of keys of several, in the place of the oldest. Each handover is
    /// complete by itself, so no version knows of it.
    Range {
        /// The runs, young to old; those that have become empty are gone.
        inputs: Arc<[RunId]>,
    },
}

/// One decision that is being carried out.
#[derive(Debug)]
pub(super) struct Job {
    /// Its number among all jobs; it says who began first.
    pub(super) number: u64,
    pub(super) task: Task,
    pub(super) cause: Cause,
    /// Who asked for it, if somebody did.
    pub(super) request: Option<RequestId>,
    /// What is not being worked on now.
    pub(super) parts: Vec<Part>,
    /// How many parts workers have taken.
    pub(super) taken: usize,
    /// Raw bytes that there were to be copied when it was opened, roughly.
    pub(super) total: u64,
    /// Raw bytes that are left to be copied, roughly.
    pub(super) left: u64,
    /// An earlier process began it; why is not known any more.
    pub(super) resumed: bool,
    /// What the pieces of a flush came to, until all of them are installed together.
    pub(super) done: Vec<Done>,
    /// When it began, on the clock of the environment.
    pub(super) began: Duration,
    /// Bytes of the tables that its parts made part of the tree.
    pub(super) written: u64,
}

/// A finished piece of a flush.
#[derive(Debug)]
pub(super) struct Done {
    /// Its place among the pieces.
    pub(super) from: Option<Key>,
    /// Slices that were not copied.
    pub(super) moved: Vec<SliceSpec>,
    /// Tables, finished but in no edit yet.
    pub(super) output: Output,
}

/// What is left to do of a piece.
#[derive(Debug)]
pub(super) struct Part {
    /// The job's number.
    pub(super) job: u64,
    pub(super) task: Task,
    /// The keys that have not been handed over.
    pub(super) range: KeyRange,
    /// Slices to be moved; if there are none, the range is copied.
    pub(super) moved: Vec<SliceSpec>,
    pub(super) table_bytes: u64,
    /// Which filter its tables get.
    pub(super) filter: Option<FilterSettings>,
    /// Raw bytes copied since the last handover: what a failure takes back.
    pub(super) copied: u64,
    /// Whether a step of it was ever taken.
    pub(super) has_begun: bool,
    /// Bytes of the tables that it made part of the tree.
    pub(super) written: u64,
    open: Option<Open>,
}

/// A part that is being copied.
#[derive(Debug)]
struct Open {
    entries: MergedSource<Input>,
    retain: Retain,
    output: Output,
}

/// Where a step of a part ended.
#[derive(Debug)]
pub(super) enum Reached {
    /// Nowhere in particular.
    Pause,
    /// A table is full, and may be handed over up to this key.
    Border(Key),
    /// The end of the range.
    End,
}

/// What a step did.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) reached: Reached,
    /// Raw bytes read.
    pub(super) bytes: u64,
}

/// The runs that a task takes and those that are older, as they are now.
pub(super) struct Inputs {
    buffer: Option<Arc<Memtable>>,
    runs: Vec<Arc<Run>>,
    older: Vec<Arc<Run>>,
}

impl Inputs {
    /// Looks them up.
    pub(super) fn of(task: &Task, tree: &TreeVersion) -> Self {
        let runs: Vec<Arc<Run>> = tree.runs().cloned().collect();
        let (buffer, inputs, output) = match task {
            Task::Flush { immutable, input } => {
                (Some(immutable.memtable.clone()), input.iter().copied().collect(), None)
            }
            Task::Range { inputs } => (None, inputs.to_vec(), None),
            Task::Compaction { id } => {
                let merge = tree.compactions().iter().find(|merge| merge.id == *id);
                let merge = merge.unwrap_or_else(|| panic!("{id:?} is being carried out, but is not in progress"));
                (None, merge.inputs.clone(), Some(merge.output))
            }
        };
        let is_member = |run: &Arc<Run>| inputs.contains(&run.id()) || Some(run.id()) == output;
        let mut older = runs[runs.iter().rposition(is_member).map_or(0, |at| at + 1)..].to_vec();
        if mistake::is_planted(Mistake::TombstoneDroppedEarly) {
            older.clear();
        }
        if mistake::is_planted(Mistake::StaticRunOverlooked) {
            let level_of = |run: RunId| tree.run(run).map(|(_, level, _)| level);
            older.retain(|run| output.and_then(level_of) != level_of(run.id()));
        }
        let runs = runs.into_iter().filter(|run| inputs.contains(&run.id())).collect();
        Self { buffer, runs, older }
    }

    /// Raw bytes of all.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.raw_bytes())
            + self.runs.iter().map(|run| run.raw_bytes()).sum::<u64>()
    }

    /// Divides the keys of `ranges` into pieces. `rewrite` says that nothing is to be moved as it
    /// is.
    pub(super) fn pieces(
        &self,
        ranges: &[KeyRange],
        parts: usize,
        table_bytes: u64,
        rewrite: bool,
    ) -> Result<Vec<(Piece, Vec<SliceSpec>)>> {
        let mut pieces = Vec::new();
        for range in ranges {
            let (mut spans, mut slices) = (Vec::new(), Vec::new());
            for run in &self.runs {
                for slice in run.within(range).slices().iter() {
                    spans.push(self.span(slice, table_bytes, rewrite));
                    slices.push(slice.spec());
                }
            }
            if let Some(buffer) = &self.buffer {
                spans.extend(span_of(buffer)?);
            }
            let found = split(&spans, range, parts, table_bytes.saturating_mul(PIECE_TABLES));
            pieces.extend(found.into_iter().map(|piece| {
                let moved = piece.moved.iter().map(|index| slices[*index].clone()).collect();
                (piece, moved)
            }));
        }
        Ok(pieces)
    }

    fn span(&self, slice: &Slice, table_bytes: u64, rewrite: bool) -> Span {
        let meta = slice.table().meta();
        let after = slice.to().cloned().unwrap_or_else(|| successor(&meta.largest_key));
        let has_garbage = meta.tombstones > 0 && self.older.is_empty();
        let is_cut = slice.from().is_some() || slice.to().is_some();
        let is_below = |share| slice.share_of(meta.file_bytes) < table_bytes / share;
        Span {
            first: Key::from(slice.first_key()),
            after,
            bytes: slice.share_of(meta.raw_bytes),
            movable: !(rewrite || has_garbage || (is_cut && is_below(CUT_SHARE))),
            joins: is_below(WHOLE_SHARE),
        }
    }
}

/// A piece that copies has at least so many tables' worth of bytes: each costs reading a block
/// twice per input, and extra space.
const PIECE_TABLES: u64 = 4;

/// All keys of a buffer; `None` if it is empty.
fn span_of(buffer: &Arc<Memtable>) -> Result<Option<Span>> {
    let mut cursor = buffer.cursor();
    cursor.seek_first()?;
    let Some(first) = cursor.entry().map(|entry| Key::from(entry.key)) else { return Ok(None) };
    cursor.seek_last()?;
    let after = cursor.entry().map_or_else(|| successor(&first), |entry| successor(entry.key));
    Ok(Some(Span { first, after, bytes: buffer.raw_bytes(), movable: false, joins: true }))
}

/// The smallest key that is larger than `key`.
fn successor(key: &[u8]) -> Key {
    key.iter().copied().chain([0]).collect()
}

impl Part {
    /// What there is to do of a piece.
    pub(super) fn new(
        job: u64,
        task: Task,
        range: KeyRange,
        moved: Vec<SliceSpec>,
        table_bytes: u64,
        filter: Option<FilterSettings>,
    ) -> Self {
        Self { job, task, range, moved, table_bytes, filter, copied: 0, has_begun: false, written: 0, open: None }
    }

    /// Copies for a few milliseconds, until a table is full, or to the end of the range. `tree` is
    /// the tree's present version.
    pub(super) fn copy(
        &mut self,
        env: &dyn Env,
        database: &Database,
        tree: &TreeVersion,
        shop: &Arc<Workshop>,
    ) -> Result<Copied> {
        if self.open.is_none() {
            self.open = Some(self.open(database, tree, shop)?);
        }
        let open = self.open.as_mut().expect("opened above");
        let can_hand_over = !matches!(self.task, Task::Flush { .. });
        // Asked for anew at each step, so that a part that waits for its turn keeps no tables of other
        // runs. What older runs hold of a key only becomes less: nothing that is younger than the
        // inputs is put below them while they are being merged.
        let older = Inputs::of(&self.task, tree).older;
        let until = env.now() + STEP_TIME;
        let (mut copied, mut look_at) = (0, LOOK_BYTES);
        while let Some(entry) = open.entries.entry() {
            if open.output.is_full_before(entry.key) {
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
            let older_may_exist = || older.iter().any(|run| run.table_of(entry.key).is_some());
            if open.retain.keep(&entry, older_may_exist) {
                open.output.add(entry)?;
            }
            open.entries.next()?;
        }
        Ok(Copied { reached: Reached::End, bytes: copied })
    }

    fn open(&self, database: &Database, tree: &TreeVersion, shop: &Arc<Workshop>) -> Result<Open> {
        let Inputs { buffer, runs, .. } = Inputs::of(&self.task, tree);
        let buffer = buffer.map(|buffer| Input::Memtable { cursor: buffer.cursor(), end: self.range.to.clone() });
        let runs = runs.iter().map(|run| run.within(&self.range)).filter(|run| !run.is_empty());
        let runs = runs.map(|run| Input::Run(Arc::new(run).cursor(ReadPolicy::Sequential)));
        let mut entries = MergedSource::new(buffer.into_iter().chain(runs).collect());
        match &self.range.from {
            None => entries.seek_first()?,
            Some(key) => entries.seek(key, Sequence::MAX)?,
        }
        if let Some(range_delete) = tree.range_deletes().first() {
            match *range_delete {}
        }
        // Asked for only now that the inputs are complete: what is visible covers all that a buffer holds.
        let retain = Retain::new(database.sequences.readable());
        Ok(Open { entries, retain, output: shop.output(self.table_bytes, self.filter) })
    }

    /// Finishes the table being written. What was written since the last handover is ready then.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), |open| open.output.finish_table())
    }

    /// What was written since the last handover.
    pub(super) fn output(&mut self) -> Option<&mut Output> {
        self.open.as_mut().map(|open| &mut open.output)
    }

    /// Goes on at `border`, with cursors that are opened anew.
    pub(super) fn go_on_at(&mut self, border: Key) {
        self.range.from = Some(border);
        self.copied = 0;
        self.open = None;
    }

    /// Lets go of the cursors and returns what was written since the last handover.
    pub(super) fn close(&mut self) -> Option<Output> {
        self.open.take().map(|open| open.output)
    }
}

/// One input of a job.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few, and almost all are runs; a box would cost each step a pointer"
)]
enum Input {
    /// A buffer, up to a key: unlike runs, it cannot be cut.
    Memtable {
        cursor: MemtableCursor,
        end: Option<Key>,
    },
    Run(RunCursor),
}

impl Source for Input {
    fn seek_first(&mut self) -> Result<()> {
        match self {
            Self::Memtable { cursor, .. } => cursor.seek_first(),
            Self::Run(cursor) => cursor.seek_first(),
        }
    }

    fn seek_last(&mut self) -> Result<()> {
        match self {
            Self::Memtable { cursor, end: Some(end) } => cursor.seek_before(end, Sequence::MAX),
            Self::Memtable { cursor, end: None } => cursor.seek_last(),
            Self::Run(cursor) => cursor.seek_last(),
        }
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        match self {
            Self::Memtable { cursor, .. } => cursor.seek(key, sequence),
            Self::Run(cursor) => cursor.seek(key, sequence),
        }
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        match self {
            Self::Memtable { cursor, .. } => cursor.seek_before(key, sequence),
            Self::Run(cursor) => cursor.seek_before(key, sequence),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self {
            Self::Memtable { cursor, .. } => cursor.next(),
            Self::Run(cursor) => cursor.next(),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self {
            Self::Memtable { cursor, .. } => cursor.prev(),
            Self::Run(cursor) => cursor.prev(),
        }
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Self::Memtable { cursor, end: None } => cursor.entry(),
            Self::Memtable { cursor, end: Some(end) } => cursor.entry().filter(|entry| entry.key < &**end),
            Self::Run(cursor) => cursor.entry(),
        }
    }

    fn shared(&self) -> Option<usize> {
        match self {
            Self::Memtable { cursor, .. } => cursor.shared(),
            Self::Run(cursor) => cursor.shared(),
        }
    }

    fn left(&self) -> &[u8] {
        match self {
            Self::Memtable { cursor, .. } => cursor.left(),
            Self::Run(cursor) => cursor.left(),
        }
    }
}
