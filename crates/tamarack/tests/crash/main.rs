//! Crash tests: after any crash, opening succeeds, and the database has a prefix of the commits
//! that includes everything durable.
//!
//! Workloads run on the simulator. At each moment the machine is stopped in many ways, and every
//! image is opened, checked, used, and stopped again. `edits` tells which step of which flush,
//! compaction or change of shape an image is of, `history` has the expected contents, `session` the
//! guarantees, `death` the ways to stop; `examiner` takes and checks images, `stories` has the
//! workloads, and `mutations` shows that the examiner can fail. `redesigns` has the same with
//! designs that change by themselves.
//!
//! `TAMARACK_IMAGES=5000000 cargo test -p tamarack --test crash images -- --nocapture` looks at
//! millions. A failure prints the command that examines its image again.

mod death;
mod edits;
mod examiner;
mod history;
mod mutations;
#[path = "../recorded_designs/mod.rs"]
mod recorded_designs;
mod redesigns;
mod regressions;
mod session;
mod stories;
mod workload;

use std::collections::BTreeMap;
use std::io::Write;

use tamarack_env::sync::{Mutex, Rank};

use crate::edits::HANDOVERS;
use crate::examiner::{Effort, Examiner, Mutation, Row, Taken, Tally, Trail, kind};

/// Number of different images in each half of the workloads.
const IMAGES: u64 = 25_000;

/// Number of different images per kind of step in each half.
const IMAGES_PER_KIND: u64 = 500;

const EFFORT: Effort = Effort { deaths: 12, deaths_in_recovery: 4, recoveries: 2 };

/// Minimum coverage.
const KINDS: [&str; 7] = ["WAL append", "rotation", "table", "directory", "manifest", "deletion", "recovery"];

/// Coverage of the half that ended first.
static OTHER_HALF: Mutex<Option<Tally>> = Mutex::new(Rank::Test, None);

#[test]
fn images_of_even_workloads_are_right() {
    images(0);
}

#[test]
fn images_of_odd_workloads_are_right() {
    images(1);
}

/// Examines the image that a failure named.
#[test]
fn replay() {
    let Ok(text) = std::env::var("TAMARACK_REPLAY") else { return };
    let mut parts = text.split('/');
    let (name, seed) = (parts.next().expect("a workload"), parts.next().expect("a seed").parse().expect("a number"));
    let trail: Trail = parts
        .map(|part| {
            let (call, death) = part.split_once('=').expect("call=crash");
            let (call, death) = (call.parse().expect("a number"), death.parse().expect("a crash"));
            Taken { call, death, step: None }
        })
        .collect();
    let workload = stories::named(name, seed).expect("a known workload");
    let examiner = Examiner::new(name, seed, EFFORT, Mutation::None, Some(trail));
    workload::run(&workload, &examiner);
    let (tally, failure) = examiner.finish();
    assert!(failure.is_none(), "{}", failure.expect("just seen"));
    assert!(tally.taken > 0, "nothing was examined: the workload makes other calls than it did when this was printed");
    println!("{} images on the way, all right", tally.images.len());
}

fn images(half: usize) {
    let wanted = std::env::var("TAMARACK_IMAGES").map_or(IMAGES, |count| count.parse::<u64>().expect("a number") / 2);
    let mut sum = Tally::default();
    for round in 0.. {
        for workload in stories::all(round).iter().skip(half).step_by(2) {
            let examiner = Examiner::new(&workload.name, workload.seed, EFFORT, Mutation::None, None);
            workload::run(workload, &examiner);
            let (tally, failure) = examiner.finish();
            assert!(failure.is_none(), "{}", failure.expect("just seen"));
            sum.add(tally);
        }
        if sum.images.len() as u64 >= wanted {
            break;
        }
        say(&format!("half {half}: {} of {wanted} images", sum.images.len()));
    }
    say(&format!("half {half}\n{}", table(&sum)));
    for wanted in KINDS {
        let count: u64 = sum.by_step.iter().filter(|(row, _)| kind(**row) == wanted).map(|(_, count)| count).sum();
        assert!(count >= IMAGES_PER_KIND, "only {count} images at steps of the kind {wanted:?}");
    }
    let mut other = OTHER_HALF.lock();
    match other.take() {
        None => *other = Some(sum),
        Some(other) => {
            sum.add(other);
            check_handovers(&sum);
            say(&format!("both halves: {} different images", sum.images.len()));
            mutations::check_complete(&sum.calls, &sum.syncs);
        }
    }
}

/// Checks that every step of every kind of handover occurred often.
fn check_handovers(sum: &Tally) {
    for (purpose, steps, wanted) in HANDOVERS {
        for step in *steps {
            let count = sum.by_edit.get(&(*purpose, step.0)).copied().unwrap_or_default();
            assert!(count >= *wanted, "only {count} images before {:?} on the way to {purpose:?}", step.0);
        }
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.images.extend(other.images);
        self.taken += other.taken;
        self.syncs.extend(other.syncs);
        self.redesigns += other.redesigns;
        for (row, count) in other.by_step {
            *self.by_step.entry(row).or_default() += count;
        }
        for (row, count) in other.by_edit {
            *self.by_edit.entry(row).or_default() += count;
        }
        for (step, count) in other.calls {
            *self.calls.entry(step).or_default() += count;
        }
        for (sum, count) in self.by_depth.iter_mut().zip(other.by_depth) {
            *sum += count;
        }
    }
}

/// The images by kind of step and by step.
fn table(tally: &Tally) -> String {
    let mut by_kind: BTreeMap<&str, Vec<(Row, u64)>> = BTreeMap::new();
    for (row, count) in &tally.by_step {
        by_kind.entry(kind(*row)).or_default().push((*row, *count));
    }
    let mut text = String::new();
    for (kind, rows) in by_kind {
        let sum: u64 = rows.iter().map(|(_, count)| count).sum();
        text += &format!("{kind:<44} {sum:>8}\n");
        for (row, count) in rows {
            text += &format!("    {:<40} {count:>8}\n", row.step.map_or("", |step| step.0));
        }
    }
    for ((purpose, step), count) in &tally.by_edit {
        text += &format!("{:<22} {step:<21} {count:>8}\n", format!("{purpose:?}"));
    }
    let [first, second, third] = tally.by_depth;
    text += &format!(
        "{} different images of {} taken; {first} of workloads, {second} of recoveries, {third} of recoveries of those",
        tally.images.len(),
        tally.taken
    );
    text
}

/// Prints at once, also while the test runs.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("stderr can be written");
}
