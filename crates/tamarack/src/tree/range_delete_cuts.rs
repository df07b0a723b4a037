//! How range deletes end: what they hide is cut out of runs, by edits that read no data.
//!
//! A range delete that every reader sees is **applied**. Nearly all tables need no reading for
//! that: a slice is a table and a range of keys, so an edit that cuts the range out of the slices
//! takes the keys away, and a table without slices goes as a file.
//!
//! ```text
//!   range delete at 50        ├───────────────────────────────┤
//!   run, sequences up to 40   ├─ 7 ─┤├── 8 ──┤├── 9 ──┤├─ 10 ──────┤
//!   after the edit            ├7┤                              ├ 10 ┤      8 and 9 are garbage
//!   run, sequences 45 to 60   ├──────── 12 ────────┤                      waits for a compaction
//! ```
//!
//! A slice that overlaps the range
//! * has nothing hidden if its table's sequences are all larger, or if the table was written by
//!   someone who knew of the range delete and left out what it hides
//!   ([`Properties::range_deletes_applied`](crate::format::properties::Properties));
//! * is cut if its table's sequences are all smaller, unless its table would have many slices, and
//!   unless a flush or a compaction reads it, which would bring the keys back;
//! * else waits for a compaction, as garbage.
//!
//! Once no slice waits, the range delete ends by the same edit.
//!
//! Tests: `tests/suite/range_deletes.rs`, `tests/suite/range_deletes_applied.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::range_deletes::end_of;
use super::run::Run;
use super::version::TreeVersion;
use crate::entry::Sequence;
use crate::format::edit::{Change, KeyRange, RunId};
use crate::format::key_range::Key;
use crate::format::meta::TableId;
use crate::mistake::{self, Mistake};
use crate::range_tombstones::RangeTombstone;

/// What an edit does about range deletes.
#[derive(Debug)]
pub struct AppliedRangeDeletes {
    /// Its changes; empty if nothing can be done now.
    pub changes: Vec<Change>,
    /// The range deletes that end.
    pub ended: Vec<RangeTombstone>,
}

/// A table that has so many slices is not split by a cut: a compaction rewrites it.
const SLICES_MAX: usize = 8;

impl TreeVersion {
    /// Returns what can be done now about the range deletes up to `oldest`, which every reader
    /// sees. Runs that are read by flushes and compactions in progress are busy.
    pub fn apply_range_deletes(&self, oldest: Sequence, is_busy: impl Fn(RunId) -> bool) -> AppliedRangeDeletes {
        let mut cuts: BTreeMap<RunId, CutRun> = BTreeMap::new();
        let (mut ended, mut more_slices) = (Vec::new(), BTreeMap::new());
        for delete in self.range_deletes().list().iter().take_while(|delete| delete.sequence <= oldest) {
            let mut is_done = true;
            for run in self.runs() {
                let present = cuts.get(&run.id()).map_or(&**run, |cut| &cut.left);
                let found = self.cuts_of(present, delete, is_busy(run.id()), &mut more_slices);
                is_done &= found.is_done;
                if !found.ranges.is_empty() {
                    let cut = cuts.entry(run.id()).or_insert_with(|| CutRun::of(run));
                    found.ranges.into_iter().for_each(|range| cut.cut(range));
                }
            }
            if is_done || mistake::is_planted(Mistake::RangeDeleteEndedEarly) {
                ended.push(delete.clone());
            }
        }
        let tree = self.id();
        let mut changes: Vec<Change> = Vec::new();
        for (run, CutRun { left, ranges }) in cuts {
            match left.is_empty() {
                true => changes.push(Change::RunRemoved { tree, run }),
                false => changes.extend(ranges.into_iter().map(|range| Change::RunCut { tree, run, range })),
            }
        }
        if !ended.is_empty() {
            let sequences = ended.iter().map(|delete| delete.sequence).collect();
            changes.push(Change::RangeDeletesEnded { tree, sequences });
        }
        AppliedRangeDeletes { changes, ended }
    }

    /// The ranges that a range delete cuts out of a run.
    fn cuts_of(
        &self,
        run: &Run,
        delete: &RangeTombstone,
        is_busy: bool,
        more_slices: &mut BTreeMap<TableId, usize>,
    ) -> FoundCuts {
        let mut found = FoundCuts { ranges: Vec::new(), is_done: true };
        let mut is_whole = true;
        for slice in run.within_range(&delete.range) {
            let meta = slice.table().meta();
            let has_none = meta.range_deletes_applied >= delete.sequence || meta.smallest_sequence > delete.sequence;
            if has_none {
                is_whole = false;
                continue;
            }
            let begins_inside = delete.range.from.as_deref().is_some_and(|from| slice.first_key() < from);
            let ends_inside = delete.range.to.as_deref().is_some_and(|to| *to < *end_of(slice));
            let is_split = begins_inside && ends_inside;
            let more = more_slices.get(&slice.table().id()).copied().unwrap_or(0);
            let slices = self.slices_of(slice.table().id()) + more;
            if is_busy || meta.largest_sequence > delete.sequence || is_split && slices >= SLICES_MAX {
                (found.is_done, is_whole) = (false, false);
                continue;
            }
            if is_split {
                more_slices.insert(slice.table().id(), more + 1);
            }
            let span = KeyRange { from: Some(Key::from(slice.first_key())), to: Some(end_of(slice)) };
            found.ranges.push(span.and(&delete.range));
        }
        if is_whole && found.ranges.len() > 1 {
            found.ranges = vec![delete.range.clone()];
        }
        found
    }
}

/// A run without what is cut out of it.
struct CutRun {
    left: Run,
    ranges: Vec<KeyRange>,
}

impl CutRun {
    fn of(run: &Arc<Run>) -> Self {
        Self { left: Run::clone(run), ranges: Vec::new() }
    }

    fn cut(&mut self, range: KeyRange) {
        self.left.cut(&range);
        self.ranges.push(range);
    }
}

/// What a range delete cuts out of a run, and whether the run has no other entry that it hides.
struct FoundCuts {
    ranges: Vec<KeyRange>,
    is_done: bool,
}
