//! Mutation tests of the crash suite: each sync is left out once, each pair of ordered steps is
//! swapped once, and every time the examiner must find a wrong image.
//!
//! A sync whose omission goes unnoticed is either useless or untested, and a simulator that shows
//! too little would make every test pass. Here the tests, the simulator and the engine's reasons
//! for each sync are compared. The lists are complete: every sync of any workload has its row, and
//! every step is exercised or has a reason.
//!
//! Not in the list of pairs are steps whose order does not matter because nothing is acknowledged,
//! removed or built upon between them: the syncs of several WAL segments among each other (all of
//! them come before the acknowledgement); a segment's header and its name (a segment with only one
//! of them is no segment, and nothing stands in it); a table and its name (both come before the
//! edit). "Before the acknowledgement" is tested as "before the next append", which is the next
//! thing that a writer can do.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tamarack::step::*;
use tamarack_env::Step;

use crate::examiner::{Effort, Examiner, Failure, Mutation, message};
use crate::workload::{self, Workload};
use crate::{say, stories};

/// Every sync. The text says what it is for; the report says how its absence was noticed.
const SYNCS: &[(Step, &str)] = &[
    (DATABASE_SYNC_PARENT, "a database that nobody finds has lost everything"),
    (WAL_SYNC_HEADER, "records behind a header that is not there are damage"),
    (WAL_SYNC, "acknowledged writes are durable"),
    (WAL_SYNC_PREVIOUS, "what is durable is a prefix of the WAL"),
    (WAL_SYNC_DIRECTORY, "records of a segment without a name are lost"),
    (WAL_SYNC_CUT, "what an error called not written does not come back"),
    (WAL_RECOVERY_SYNC, "what was read back and shown stays"),
    (WAL_RECOVERY_SYNC_DIRECTORY, "a dropped segment does not come back behind newer records"),
    (TABLE_SYNC, "a table that the manifest names is whole"),
    (TABLE_SYNC_DIRECTORY, "a table that the manifest names is there"),
    (MANIFEST_SYNC_BASE, "a manifest that CURRENT names is whole"),
    (MANIFEST_SYNC_DIRECTORY, "a manifest that CURRENT names is there"),
    (MANIFEST_SYNC, "what an edit replaces is removed only when the edit is durable"),
    (MANIFEST_SYNC_CUT, "an edit that failed does not come back"),
    (MANIFEST_RECOVERY_SYNC, "an edit that was read back is not lost after its inputs were removed"),
    (MANIFEST_RECOVERY_SYNC_DIRECTORY, "the old manifest is removed only when CURRENT names the new one for good"),
    (CURRENT_SYNC, "CURRENT is never torn or empty"),
    (CURRENT_SYNC_DIRECTORY, "edits go where CURRENT points to"),
    (CHECKPOINT_COPY_SYNC, "a copied table that the manifest names is whole"),
    (CHECKPOINT_SYNC_REMOVED, "CURRENT does not come back without what it leads to"),
];

/// Pairs of steps: the first must have happened before the second, because of the state between
/// them if it has not.
const ORDERED: &[(Step, Step, &str)] = &[
    // The WAL.
    (WAL_SYNC, WAL_APPEND, "a write is acknowledged after its sync"),
    (WAL_SYNC_PREVIOUS, WAL_APPEND, "and after the sync of all segments before its own"),
    (WAL_SYNC_HEADER, WAL_APPEND, "no record without the header before it"),
    (WAL_SYNC_DIRECTORY, TABLE_CREATE, "writes in a segment are acknowledged after its name is durable"),
    (WAL_SYNC_CUT, WAL_APPEND, "a failed append is gone before anything takes its place"),
    (WAL_SYNC, MANIFEST_APPEND, "the manifest says how far the WAL is durable"),
    (DATABASE_SYNC_PARENT, TABLE_CREATE, "writes are acknowledged after the directory's name is durable"),
    // Flushes and compactions.
    (TABLE_SYNC, MANIFEST_APPEND, "no edit names a table that is not whole"),
    (TABLE_SYNC_DIRECTORY, MANIFEST_APPEND, "no edit names a table that is not there"),
    (MANIFEST_APPEND, WAL_REMOVE, "the WAL is needed until the edit says that tables have its entries"),
    (MANIFEST_SYNC, WAL_REMOVE, "and until the edit is durable"),
    (MANIFEST_SYNC, TABLE_REMOVE, "a compaction's inputs are needed until the edit is durable"),
    (MANIFEST_SYNC, WAL_HEADER, "a segment names the last durable edit"),
    (MANIFEST_SYNC_CUT, MANIFEST_APPEND, "a failed edit is gone before another takes its place"),
    // The manifest's switch.
    (MANIFEST_WRITE_BASE, CURRENT_RENAME, "CURRENT names a manifest with a base"),
    (MANIFEST_SYNC_BASE, CURRENT_RENAME, "which is durable"),
    (MANIFEST_SYNC_DIRECTORY, CURRENT_RENAME, "and whose name is"),
    (CURRENT_WRITE, CURRENT_RENAME, "CURRENT has its line when it gets its name"),
    (CURRENT_SYNC, CURRENT_RENAME, "and has it for good"),
    (CURRENT_RENAME, MANIFEST_REMOVE, "the old manifest is needed until CURRENT names the new one"),
    (CURRENT_SYNC_DIRECTORY, MANIFEST_REMOVE, "for good"),
    (CURRENT_SYNC_DIRECTORY, MANIFEST_SYNC, "an edit counts where CURRENT points to"),
    // Checkpoints.
    (CHECKPOINT_LINK, CURRENT_RENAME, "CURRENT leads to tables that are there"),
    (CHECKPOINT_COPY_SYNC, CURRENT_RENAME, "and whole"),
    (CHECKPOINT_REMOVE_CURRENT, CHECKPOINT_REMOVE, "nothing is removed that CURRENT leads to"),
    (CHECKPOINT_SYNC_REMOVED, CHECKPOINT_REMOVE, "or may lead to after a crash"),
    // Recovery.
    (WAL_RECOVERY_SYNC, WAL_APPEND, "what was read back was shown, and records are built on it"),
    (WAL_RECOVERY_SYNC_DIRECTORY, WAL_SYNC, "a dropped segment that comes back could pass for newer records"),
    (MANIFEST_RECOVERY_SYNC, WAL_RECOVERY_REMOVE, "the WAL is needed until the edit that was read is durable"),
    (MANIFEST_RECOVERY_SYNC_DIRECTORY, MANIFEST_REMOVE, "the old manifest is needed until CURRENT's name is durable"),
];

/// Pairs of steps: the first must have happened before the second, because of what it does when it
/// comes late.
const NEVER_LATE: &[(Step, Step, &str)] = &[
    // What a sync is for comes before it; else it is not durable when that counts.
    (WAL_HEADER, WAL_SYNC_HEADER, "the sync is for the header"),
    (WAL_APPEND, WAL_SYNC, "the sync is for the records"),
    (WAL_CUT, WAL_SYNC_CUT, "the sync is for the cut"),
    (WAL_RECOVERY_WRITE, WAL_RECOVERY_SYNC, "the sync is for what was written again"),
    (
        WAL_RECOVERY_CUT,
        WAL_RECOVERY_SYNC,
        "the sync is for the cut: a torn end could come back and pass for newer records",
    ),
    (WAL_RECOVERY_REMOVE, WAL_RECOVERY_SYNC_DIRECTORY, "the sync is for the removals"),
    (TABLE_WRITE, TABLE_SYNC, "the sync is for the blocks"),
    (MANIFEST_WRITE_BASE, MANIFEST_SYNC_BASE, "the sync is for the base"),
    (MANIFEST_APPEND, MANIFEST_SYNC, "the sync is for the edit"),
    (MANIFEST_CUT_APPEND, MANIFEST_SYNC_CUT, "the sync is for the cut"),
    (MANIFEST_RECOVERY_WRITE, MANIFEST_RECOVERY_SYNC, "the sync is for what was written again"),
    (CURRENT_WRITE, CURRENT_SYNC, "the sync is for the line"),
    (CURRENT_RENAME, CURRENT_SYNC_DIRECTORY, "the sync is for the name"),
    (CHECKPOINT_LINK, MANIFEST_SYNC_DIRECTORY, "the sync is for the names"),
    (CHECKPOINT_COPY_WRITE, CHECKPOINT_COPY_SYNC, "the sync is for the copy"),
    // A late cut takes away what came after it was asked for.
    (WAL_CUT, WAL_APPEND, "it would cut off newer records"),
    (WAL_TRIM, WAL_APPEND, "it would cut off newer records"),
    (WAL_RECOVERY_CUT, WAL_APPEND, "it would cut off newer records"),
    (MANIFEST_CUT, MANIFEST_APPEND, "it would cut off newer edits"),
    (MANIFEST_CUT_APPEND, MANIFEST_APPEND, "it would cut off newer edits"),
];

/// Steps that no workload makes, each with the reason.
const NOT_EXERCISED: &[(Step, &str)] = &[
    (REPAIR_SET_ASIDE, "the suite `repair` interrupts repairs at each call"),
    (REPAIR_SYNC_DIRECTORY, "the same"),
    (CALIBRATION_CREATE_DATA, "`suite calibration` stops calibrations at each call"),
    (CALIBRATION_ALLOCATE_DATA, "the same"),
    (CALIBRATION_WRITE_DATA, "the same"),
    (CALIBRATION_SYNC_DATA, "the same"),
    (CALIBRATION_REMOVE, "the same"),
    (CALIBRATION_CREATE, "the same"),
    (CALIBRATION_WRITE, "the same"),
    (CALIBRATION_SYNC, "the same"),
    (CALIBRATION_RENAME, "the same"),
    (CALIBRATION_SYNC_DIRECTORY, "the same"),
];

const EFFORT: Effort = Effort { deaths: 12, deaths_in_recovery: 6, recoveries: 4 };

/// Number of rounds of all workloads after which a mutation counts as unnoticed.
const ROUNDS: u64 = 1;

#[test]
fn every_sync_is_missed() {
    let stories = Stories::rehearse();
    let rows =
        SYNCS.iter().map(|(sync, why)| Row::of(Mutation::Omit(*sync), stories.with(&[*sync]), sync.0.to_owned(), why));
    report("left out", rows.collect());
}

#[test]
fn every_order_is_needed() {
    let stories = Stories::rehearse();
    let rows = ORDERED.iter().chain(NEVER_LATE).map(|(first, then, why)| {
        let change = format!("{} after {}", first.0, then.0);
        Row::of(Mutation::Delay(*first, *then), stories.with(&[*first, *then]), change, why)
    });
    report("swapped", rows.collect());
}

/// All workloads, with the steps that each of them makes by itself; recoveries make more.
struct Stories(Vec<(Workload, BTreeMap<Step, u64>)>);

impl Stories {
    /// Runs each once, unchanged and without images.
    fn rehearse() -> Self {
        let rehearsed = (0..ROUNDS).flat_map(stories::all).map(|workload| {
            let effort = Effort { deaths: 0, ..EFFORT };
            let examiner = Examiner::new(&workload.name, workload.seed, effort, Mutation::None, None);
            workload::run(&workload, &examiner);
            let (tally, failure) = examiner.finish();
            assert!(failure.is_none(), "{failure:?}");
            (workload, tally.calls)
        });
        Self(rehearsed.collect())
    }

    /// Those that make all of these steps first: they will notice soonest.
    fn with(&self, steps: &[Step]) -> Vec<&Workload> {
        let mut stories: Vec<_> = self.0.iter().collect();
        stories.sort_by_key(|(_, calls)| !steps.iter().all(|step| calls.contains_key(step)));
        stories.into_iter().map(|(workload, _)| workload).collect()
    }
}

/// How one change was noticed.
struct Row {
    change: String,
    why: &'static str,
    images: u64,
    failure: Option<Failure>,
}

impl Row {
    fn of(mutation: Mutation, workloads: Vec<&Workload>, change: String, why: &'static str) -> Self {
        let mut images = 0;
        for workload in workloads {
            let examiner = Examiner::new(&workload.name, workload.seed, EFFORT, mutation, None);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| workload::run(workload, &examiner))) {
                examiner.fail(&Vec::new(), format!("a panic: {}", message(&*panic)));
            }
            let (tally, failure) = examiner.finish();
            images += tally.images.len() as u64;
            if failure.is_some() {
                return Self { change, why, images, failure };
            }
        }
        Self { change, why, images, failure: None }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(Failure { workload, trail, what, .. }) = &self.failure else {
            return write!(f, "{:<66} NOT NOTICED in {} images: {}", self.change, self.images, self.why);
        };
        let place = trail.last().and_then(|taken| taken.step).map_or("at rest", |step| step.0);
        let death = trail.last().map_or("the workload itself".to_owned(), |taken| taken.death.to_string());
        let what: String = what.chars().take(70).collect();
        write!(
            f,
            "{:<66} {:>6}  {workload}; {death}, {} deep, before {place}: {what}",
            self.change,
            self.images,
            trail.len()
        )
    }
}

fn report(what: &str, rows: Vec<Row>) {
    let lines: Vec<String> = rows.iter().map(Row::to_string).collect();
    say(&format!("{what:<66} images until noticed, and where\n{}", lines.join("\n")));
    let unnoticed: Vec<&str> = rows.iter().filter(|row| row.failure.is_none()).map(|row| &row.change[..]).collect();
    assert!(unnoticed.is_empty(), "nobody noticed: {unnoticed:#?}");
}

/// Every step is exercised, or has a reason; and every sync stands in the list above.
pub(crate) fn check_complete(calls: &BTreeMap<Step, u64>, syncs: &BTreeSet<Step>) {
    let excused = |step: &Step| NOT_EXERCISED.iter().any(|(known, _)| known == step);
    let missing: Vec<&Step> = ALL.iter().filter(|step| !calls.contains_key(step) && !excused(step)).collect();
    assert!(missing.is_empty(), "no workload makes these steps: {missing:?}");
    let listed: BTreeSet<Step> = SYNCS.iter().map(|(step, _)| *step).collect();
    assert_eq!(*syncs, listed, "the syncs that workloads make, and those that are left out once");
}
