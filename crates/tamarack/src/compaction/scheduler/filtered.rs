//! Handovers of what a compaction filter has dropped or changed.
//!
//! Such an output changes what is read, so it becomes visible at a moment when nobody can tell:
//!
//! ```text
//! gate closed, no snapshot reads it ─► cached entries forgotten ─► edit, state ─► gate opened
//!       │                              nothing is cached              lookups that see more than
//!       └ else: void, copied again without the filter                 is visible now cache again
//! ```
//!
//! * **Snapshots** (and scans, and transactions) read the same from their beginning to their end:
//!   [`Sequences::keep_snapshots_out`](crate::database::Sequences::keep_snapshots_out).
//! * **Gets** read one state, the one before or the one after.
//! * **Cached entries**: [`BlockCache::filter_begins`](crate::cache::BlockCache::filter_begins).
//!
//! Tests: `tests/suite/compaction_filters.rs`.

use super::Scheduler;
use crate::cache::FilterEffect;
use crate::database::ClosedGate;
use crate::events::Event;
use crate::merge::FilterOutcome;

/// What goes on while the decisions of a compaction filter take effect; nothing if there are none.
#[must_use = "the effect ends with `end_filter_effect`"]
pub(super) struct TakingEffect<'a>(Option<(ClosedGate<'a>, FilterEffect<'a>)>);

impl Scheduler {
    /// Begins to let the decisions of a compaction filter take effect. `None` if they are void: a
    /// snapshot can read what was dropped or changed.
    pub(super) fn filter_effect(&self, filtered: Option<&FilterOutcome>) -> Option<TakingEffect<'_>> {
        let Some((oldest, filtered)) = filtered.and_then(|filtered| Some((filtered.oldest?, filtered))) else {
            return Some(TakingEffect(None));
        };
        let gate = self.database.sequences.keep_snapshots_out(oldest)?;
        let effect = self.output_context.cache().filter_begins(&filtered.keys);
        Some(TakingEffect(Some((gate, effect))))
    }

    /// The state with the decisions is published, or never will be.
    pub(super) fn end_filter_effect(&self, effect: TakingEffect<'_>) {
        if let Some((gate, effect)) = effect.0 {
            effect.ends(self.database.sequences.visible());
            drop(gate);
        }
    }

    /// Counts what a compaction filter has done, and reports its first failure.
    pub(super) fn note_filtered(&self, filtered: Option<FilterOutcome>) {
        let Some(FilterOutcome { dropped, changed, failures, failure, .. }) = filtered else { return };
        self.counters.compaction_filter_dropped.add(dropped);
        self.counters.compaction_filter_changed.add(changed);
        self.counters.compaction_filter_failures.add(failures);
        if let Some(what) = failure {
            tracing::warn!(%what, failures, "a compaction filter has failed, and entries are kept");
            self.database.events.post(|| Event::CompactionFilterFailed { failures, what });
        }
    }
}
