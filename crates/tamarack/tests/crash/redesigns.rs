//! Crashes of databases whose design changes by itself: the workloads of this suite with a
//! controller that changes policy, memtables and filters at random all the time, and workloads that
//! make the navigator change them.
//!
//! Checked in addition, at each opening: what is recorded of changes is a chain that leads to the
//! design that the database has (`recorded_designs`), and no change is lost that was seen made. The
//! last two tests plant mistakes that this notices.

use std::ops::AddAssign;

use tamarack::mistake::{self, Mistake};

use crate::examiner::{Effort, Examiner, Failure, Mutation, Tally};
use crate::workload::{self, Workload};
use crate::{say, stories};

/// Number of different images of databases with designs at random.
const IMAGES: u64 = 12_000;

/// One image at each moment: in a whole round of workloads there are enough.
const AT_RANDOM: Effort = Effort { deaths: 1, deaths_in_recovery: 1, recoveries: 1 };

/// For the few workloads of the navigator.
const NAVIGATED: Effort = Effort { deaths: 5, deaths_in_recovery: 2, recoveries: 1 };

/// Coverage of changes of the design.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RedesignTally {
    /// Changes that were made in workloads.
    pub(crate) changes: u64,
    /// Images with a recorded change.
    pub(crate) changed: u64,
    /// Images in which the last change was half made.
    pub(crate) half_made: u64,
    /// Images with a change that nobody had seen made before the crash.
    pub(crate) unseen: u64,
}

impl AddAssign for RedesignTally {
    fn add_assign(&mut self, other: Self) {
        self.changes += other.changes;
        self.changed += other.changed;
        self.half_made += other.half_made;
        self.unseen += other.unseen;
    }
}

#[test]
fn images_of_designs_at_random_are_right() {
    let mut sum = Tally::default();
    for round in 0.. {
        for workload in stories::at_random(round) {
            examine(&workload, AT_RANDOM, &mut sum).unwrap_or_else(|failure| panic!("{failure}"));
        }
        if sum.images.len() as u64 >= IMAGES {
            break;
        }
    }
    let RedesignTally { changes, changed, half_made, unseen } = sum.redesigns;
    say(&format!("designs at random: {} different images, {:?}", sum.images.len(), sum.redesigns));
    assert!(changes >= 1_000, "only {changes} changes were made");
    assert!(changed >= IMAGES / 2, "only {changed} images with a change");
    assert!(half_made >= 100, "only {half_made} images between the steps of a change");
    assert!(unseen >= 500, "only {unseen} images right after a change");
}

#[test]
fn images_of_what_the_navigator_changes_are_right() {
    let mut sum = Tally::default();
    for workload in stories::navigated() {
        let before = sum.redesigns.changes;
        examine(&workload, NAVIGATED, &mut sum).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(sum.redesigns.changes > before, "{}: the navigator has changed nothing", workload.name);
    }
    let RedesignTally { changed, unseen, .. } = sum.redesigns;
    say(&format!("the navigator at work: {} different images, {:?}", sum.images.len(), sum.redesigns));
    assert!(changed >= 100, "only {changed} images with a change");
    assert!(unseen >= 20, "only {unseen} images right after a change");
}

/// A change whose record comes with the edit of the next one is found without it after a crash.
#[test]
fn a_decision_that_is_recorded_late_is_noticed() {
    is_noticed(Mistake::DecisionRecordedLate);
}

/// Of a change that failed for an error of the storage, there is no record in the next one.
#[test]
fn a_decision_that_is_kept_though_undone_is_noticed() {
    is_noticed(Mistake::DecisionKeptThoughUndone);
}

fn is_noticed(mistake: Mistake) {
    let examine =
        |workload: &Workload| mistake::with(mistake, || examine(workload, AT_RANDOM, &mut Tally::default()).err());
    let failure = stories::at_random(0).iter().find_map(examine);
    let failure = failure.unwrap_or_else(|| panic!("nobody noticed {mistake:?}"));
    say(&format!("{mistake:?}: {failure}"));
}

fn examine(workload: &Workload, effort: Effort, sum: &mut Tally) -> Result<(), Failure> {
    let examiner = Examiner::new(&workload.name, workload.seed, effort, Mutation::None, None);
    workload::run(workload, &examiner);
    let (tally, failure) = examiner.finish();
    sum.add(tally);
    failure.map_or(Ok(()), Err)
}
