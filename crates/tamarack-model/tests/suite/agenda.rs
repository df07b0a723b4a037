//! What an agenda says of itself between decisions: what is pending, which request waits or is
//! served, whether compactions are paused. The engine's waiting calls and its `Idle` state rest on
//! these answers; the decisions themselves are taught by `tests/expectations/14_…` to `19_…`.
//!
//! Each test drives an agenda by hand, event by event, beside a small tree.

use tamarack_model::agenda::{Agenda, Contents, Design, Garbage, Next, Scope, Situation};
use tamarack_model::bound::SpaceBound;
use tamarack_model::planner::{self, Cause, CompactionPlan};
use tamarack_model::policy::{Custom, Policy};
use tamarack_model::{Bytes, Entries, Occupancy, Run, RunId, Shape};

/// An agenda and its tree.
struct Stage {
    agenda: Agenda,
    policy: Policy,
    shape: Shape,
    tree: Occupancy,
    in_progress: Vec<CompactionPlan>,
    memtable: Option<Bytes>,
    contents: Counted,
    bound: Option<SpaceBound>,
}

/// Garbage of some runs, and the entries of the tree.
struct Counted(Vec<Garbage>, u64);

impl Contents for Counted {
    fn entries(&self) -> Entries {
        Entries(self.1)
    }

    fn garbage(&self) -> Vec<Garbage> {
        self.0.clone()
    }
}

impl Stage {
    fn new(tree: &str) -> Self {
        let shape: Shape = "buffer 1\nlevel 4 in 4 runs\nlevel 16 in 2 runs".parse().expect("a shape");
        Self {
            agenda: Agenda::default(),
            policy: Custom::new(shape.clone()).into(),
            shape,
            tree: tree.replace("; ", "\n").parse().expect("a tree"),
            in_progress: Vec::new(),
            memtable: None,
            contents: Counted(Vec::new(), 0),
            bound: None,
        }
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            design: Design { policy: &self.policy, shape: &self.shape, bound: self.bound },
            occupancy: &self.tree,
            in_progress: &self.in_progress,
            memtable: self.memtable,
            contents: &self.contents,
            may_flush: true,
            may_compact: true,
        }
    }

    fn next(&mut self) -> Next {
        let mut agenda = std::mem::take(&mut self.agenda);
        let next = agenda.next(&self.situation());
        self.agenda = agenda;
        next
    }

    /// Begins what the agenda decides, which must be a compaction. Returns its number in progress.
    fn begin(&mut self) -> usize {
        let Next::Compact { plan, .. } = self.next() else { panic!("a compaction is due: {}", self.agenda) };
        planner::begin(&mut self.tree, &plan);
        self.agenda.begun(&plan);
        self.in_progress.push(plan);
        self.in_progress.len() - 1
    }

    /// Ends a compaction, with a run of the size of its inputs.
    fn end(&mut self, number: usize, output: u64) {
        let plan = self.in_progress.remove(number);
        let bytes = self.tree.runs().filter(|(_, run)| plan.inputs.contains(&run.id)).map(|(_, run)| run.bytes).sum();
        planner::finish(&mut self.tree, &plan, Some(Run { id: RunId(output), bytes, entries: None }));
    }

    fn is_reshaping(&self) -> bool {
        self.agenda.is_reshaping(&self.situation())
    }
}

/// The agenda is at rest if, and only if, nothing at all is pending: each kind of event by itself
/// ends the rest, and so does an examination whose answer is in the making.
#[test]
fn every_pending_matter_ends_the_rest() {
    type Event = fn(&mut Agenda);
    let events: [(&str, Event, bool); 9] = [
        ("flush ended", |agenda| agenda.flushed(), true),
        ("compaction ended", |agenda| agenda.ended(2, None), true),
        ("run moved", |agenda| agenda.moved(2), true),
        ("run ingested", |agenda| agenda.ingested(RunId(3)), true),
        ("little space left", |agenda| agenda.garbage_is_due(), true),
        ("compaction requested", |agenda| _ = agenda.request(Scope::All), false),
        ("reshape requested", |agenda| agenda.request_reshape(), false),
        ("reads repay one run", |agenda| agenda.compact_for_reads(2), false),
        ("database opened", |agenda| *agenda = Agenda::of_opened(), true),
    ];
    for (name, event, is_arrival) in events {
        let mut stage = Stage::new("level 1: r3 1; level 2: r2 4");
        assert!(stage.agenda.is_at_rest() && !stage.agenda.has_arrivals(), "at first");
        event(&mut stage.agenda);
        assert!(!stage.agenda.is_at_rest(), "{name}");
        assert_eq!(stage.agenda.has_arrivals(), is_arrival, "{name}");
    }
}

/// An examination is pending until its answer has begun: the level has left the queue, but the
/// tree may still change because of it.
#[test]
fn an_answer_that_was_not_carried_out_is_pending() {
    let mut stage = Stage::new("level 1: r6 1, r5 1, r4 1, r3 1; level 2: r2 4");
    stage.agenda.flushed();
    let decided = stage.next();
    assert!(matches!(&decided, Next::Compact { plan, .. } if plan.cause == Cause::Full { level: 1, through: 1 }));
    assert!(stage.agenda.has_arrivals() && !stage.agenda.is_at_rest(), "not carried out");
    assert_eq!(stage.next(), decided, "the same decision until then");
    stage.begin();
    assert_eq!(stage.next(), Next::Nothing);
    assert!(!stage.agenda.has_arrivals() && stage.agenda.is_at_rest(), "examined to the end");
    stage.end(0, 7);
    stage.agenda.ended(2, None);
    assert!(stage.agenda.has_arrivals(), "the output arrived at level 2");
    assert_eq!(stage.next(), Next::Nothing);
    assert!(stage.agenda.is_at_rest());
}

/// A level that arrives twice before it is examined is examined once.
#[test]
fn arrivals_at_one_level_are_one_examination() {
    let mut stage = Stage::new("level 1: r3 1");
    stage.agenda.flushed();
    stage.agenda.flushed();
    assert_eq!(stage.agenda.to_string(), "to examine: level 1");
    stage.agenda.moved(2);
    assert_eq!(stage.agenda.to_string(), "to examine: level 1, level 2");
    stage.agenda.ingested(RunId(3));
    assert_eq!(stage.agenda.to_string(), "to examine: level 1, level 2, r3");
}

/// Each request knows whether it waits, and whether it is served, whatever became of others; those
/// of one scope begin in the order in which they were made.
#[test]
fn requests_are_told_apart() {
    let mut stage = Stage::new("level 1: r4 1, r3 1; level 2: r2 4");
    let first = stage.agenda.request(Scope::All);
    let second = stage.agenda.request(Scope::All);
    let third = stage.agenda.request(Scope::Range);
    assert!(first != second && second != third && first != third);
    let told =
        |agenda: &Agenda| [first, second, third].map(|request| (agenda.is_waiting(request), agenda.is_served(request)));
    let (waits, runs, served) = ((true, false), (false, false), (false, true));
    assert_eq!(told(&stage.agenda), [waits, waits, waits]);
    assert_eq!(stage.agenda.to_string(), "requests: 3 waiting, 0 in progress");
    assert!(matches!(stage.next(), Next::Compact { request, .. } if request == Some(first)));
    assert_eq!(told(&stage.agenda), [waits, waits, waits], "a decision is no beginning");
    stage.begin();
    assert_eq!(told(&stage.agenda), [runs, waits, waits]);
    assert_eq!(stage.next(), Next::Nothing, "the next request waits for the runs");
    assert_eq!(stage.agenda.to_string(), "requests: 2 waiting, 1 in progress");
    stage.end(0, 5);
    stage.agenda.ended(2, Some(first));
    assert_eq!(told(&stage.agenda), [served, waits, waits]);
    stage.begin();
    stage.end(0, 6);
    stage.agenda.ended(2, Some(second));
    assert_eq!(told(&stage.agenda), [served, served, waits]);
    // A compaction with another cause serves nobody.
    let cause = Cause::Full { level: 1, through: 1 };
    stage.agenda.begun(&CompactionPlan { cause, inputs: vec![RunId(6)], buffer: Bytes::ZERO, target: 2 });
    assert_eq!(told(&stage.agenda), [served, served, waits]);
    stage.begin();
    assert_eq!(told(&stage.agenda), [served, served, runs]);
    stage.in_progress.clear();
    stage.agenda.ended(1, Some(third));
    assert_eq!(told(&stage.agenda), [served, served, served]);
    assert_eq!(stage.next(), Next::Nothing);
    assert!(stage.agenda.is_at_rest());
}

/// A request that is withdrawn before its compaction begins leaves the others as they were; one
/// whose compaction has begun goes on.
#[test]
fn only_waiting_requests_are_withdrawn() {
    let mut stage = Stage::new("level 1: r4 1, r3 1; level 2: r2 4");
    let [first, second, third] = [Scope::All, Scope::Range, Scope::All].map(|scope| stage.agenda.request(scope));
    stage.begin();
    stage.agenda.withdraw(first);
    assert!(!stage.agenda.is_served(first), "it has begun");
    stage.agenda.withdraw(second);
    assert!(stage.agenda.is_served(second) && stage.agenda.is_waiting(third), "{}", stage.agenda);
    stage.end(0, 5);
    stage.agenda.ended(2, Some(first));
    assert!(matches!(stage.next(), Next::Compact { request, .. } if request == Some(third)));
    stage.agenda.withdraw(third);
    assert_eq!(stage.next(), Next::Nothing);
    assert!(stage.agenda.is_at_rest(), "{}", stage.agenda);
}

/// A request for an empty tree is served at once, with no compaction.
#[test]
fn a_request_for_an_empty_tree_is_served() {
    let mut stage = Stage::new("");
    let request = stage.agenda.request(Scope::All);
    assert!(!stage.agenda.is_served(request));
    assert_eq!(stage.next(), Next::Nothing);
    assert!(stage.agenda.is_served(request) && stage.agenda.is_at_rest());
}

/// Compactions are paused until each pause was withdrawn; flushes go on.
#[test]
fn pauses_are_counted() {
    let mut stage = Stage::new("level 1: r4 1, r3 1; level 2: r2 4");
    stage.agenda.request(Scope::All);
    stage.memtable = Some(Bytes(1));
    for paused in [true, true] {
        stage.agenda.pause();
        assert_eq!(stage.agenda.is_paused(), paused);
        assert!(matches!(stage.next(), Next::Flush(_)));
    }
    stage.agenda.resume();
    assert!(stage.agenda.is_paused() && matches!(stage.next(), Next::Flush(_)), "one of two is left");
    stage.agenda.resume();
    assert!(!stage.agenda.is_paused() && matches!(stage.next(), Next::Compact { .. }));
}

/// While runs are announced, a flush takes no run of level 1 along, so that the flush is no larger
/// than its memtable; two announcements need two withdrawals.
#[test]
fn announced_runs_keep_flushes_small() {
    // A level of a single run, which every flush joins.
    let mut stage = Stage::new("level 1: r3 1");
    stage.shape = "buffer 1\nlevel 4 in 1 run\nlevel 16 in 2 runs".parse().expect("a shape");
    stage.memtable = Some(Bytes(1));
    let joined = |stage: &mut Stage| match stage.next() {
        Next::Flush(plan) => plan.inputs.len(),
        other => panic!("a flush is due: {other:?}"),
    };
    assert_eq!(joined(&mut stage), 1);
    stage.agenda.expect_run();
    stage.agenda.expect_run();
    assert_eq!(joined(&mut stage), 0);
    assert_eq!(stage.agenda.to_string(), "ingested run expected");
    stage.agenda.expect_run_no_longer();
    assert_eq!(joined(&mut stage), 0);
    assert_eq!(stage.agenda.to_string(), "ingested run expected");
    stage.agenda.expect_run_no_longer();
    assert_eq!(joined(&mut stage), 1);
    assert_eq!(stage.agenda.to_string(), "");
}

/// One flush at a time.
#[test]
fn a_flush_waits_for_the_flush_in_progress() {
    let mut stage = Stage::new("");
    stage.memtable = Some(Bytes(1));
    let Next::Flush(plan) = stage.next() else { panic!("a flush is due") };
    stage.in_progress.push(plan);
    assert_eq!(stage.next(), Next::Nothing);
    stage.in_progress.clear();
    assert!(matches!(stage.next(), Next::Flush(_)));
}

/// A reshape is in progress from its request to the end of its last compaction; its levels are
/// examined before that. A change of design begins it again.
#[test]
fn a_reshape_ends_with_its_last_compaction() {
    // Five runs where four may be.
    let mut stage = Stage::new("level 1: r7 1, r6 1, r5 1, r4 1, r3 1; level 2: r2 4");
    assert!(!stage.is_reshaping() && !stage.agenda.has_levels_to_reshape());
    stage.agenda.request_reshape();
    assert!(stage.is_reshaping() && stage.agenda.has_levels_to_reshape());
    assert_eq!(stage.agenda.to_string(), "reshape from level 1 on");
    let number = stage.begin();
    assert!(matches!(stage.in_progress[number].cause, Cause::Reshape { level: 1 }));
    assert_eq!(stage.next(), Next::Nothing);
    assert!(stage.is_reshaping() && !stage.agenda.has_levels_to_reshape(), "its compaction is in progress");
    assert_eq!(stage.agenda.to_string(), "reshape until its compactions end");
    stage.agenda.design_changed();
    assert!(stage.is_reshaping() && stage.agenda.has_levels_to_reshape(), "from level 1 again");
    stage.next();
    stage.end(number, 8);
    stage.agenda.ended(2, None);
    assert!(!stage.is_reshaping() || stage.agenda.has_levels_to_reshape());
    assert_eq!(stage.next(), Next::Nothing);
    assert!(!stage.is_reshaping() && stage.agenda.is_at_rest());
    stage.agenda.design_changed();
    assert!(stage.agenda.is_at_rest(), "a change of design asks for no reshape");
}

/// Garbage is due once more entries were written since than the tree has; of several runs the
/// youngest idle one.
#[test]
fn garbage_is_due_after_as_many_writes_as_entries() {
    for (age, is_due) in [(9, false), (10, false), (11, true)] {
        let mut stage = Stage::new("level 1: r4 1; level 2: r3 4, r2 4");
        stage.contents = Counted(vec![Garbage { run: RunId(3), age }, Garbage { run: RunId(2), age }], 10);
        stage.agenda.garbage_is_due();
        let next = stage.next();
        let expected = Cause::TombstonesDue { run: RunId(3) };
        assert_eq!(matches!(&next, Next::Compact { plan, .. } if plan.cause == expected), is_due, "{age}: {next:?}");
        assert_eq!(next == Next::Nothing, !is_due, "{age}: {next:?}");
        if is_due {
            stage.begin();
            assert_eq!(stage.next(), Next::Nothing, "the older run is in the same compaction");
        }
    }
}

/// Contents of which nothing is known have no entries and no garbage.
#[test]
fn sizes_alone_have_no_garbage() {
    struct Sizes;
    impl Contents for Sizes {}
    assert_eq!((Sizes.entries(), Sizes.garbage()), (Entries(0), Vec::new()));
}

/// Each question of an examination yields one compaction: other garbage that is due waits for the
/// next arrival.
#[test]
fn an_examination_removes_garbage_once() {
    let mut stage = Stage::new("level 1: r4 1; level 2: r2 8");
    stage.contents = Counted([4, 2].map(|run| Garbage { run: RunId(run), age: 11 }).to_vec(), 10);
    stage.agenda.garbage_is_due();
    let number = stage.begin();
    assert_eq!(stage.in_progress[number].inputs, [RunId(4)], "r2 fills its slot");
    assert_eq!(stage.next(), Next::Nothing);
    stage.agenda.garbage_is_due();
    let next = stage.next();
    assert!(matches!(&next, Next::Compact { plan, .. } if plan.inputs == [RunId(2)]), "{next:?}");
}

/// Only a compaction with its own cause answers a question: whatever else begins, the decision
/// stays.
#[test]
fn other_compactions_answer_no_question() {
    let of_level = |agenda: &mut Agenda| agenda.flushed();
    let of_run = |agenda: &mut Agenda| agenda.ingested(RunId(4));
    let full = Stage::new("level 1: r6 1, r5 1, r4 1, r3 1; level 2: r2 4");
    let mut space = Stage::new("level 1: r4 1; level 2: r2 4");
    space.bound = SpaceBound::new(1.1);
    let mut garbage = Stage::new("level 1: r4 1; level 2: r2 4");
    garbage.contents = Counted(vec![Garbage { run: RunId(4), age: 11 }], 10);
    let join = Stage::new("level 2: r4 1, r3 4");
    let run = RunId(4);
    let causes = [
        Cause::Full { level: 1, through: 1 },
        Cause::SpaceBound,
        Cause::TombstonesDue { run },
        Cause::Ingested { run },
    ];
    let events: [fn(&mut Agenda); 4] = [of_level, of_level, of_level, of_run];
    for ((mut stage, event), answer) in [full, space, garbage, join].into_iter().zip(events).zip(causes) {
        event(&mut stage.agenda);
        let decided = stage.next();
        assert!(matches!(&decided, Next::Compact { plan, .. } if plan.cause == answer), "{answer}: {decided:?}");
        for cause in causes.into_iter().chain([Cause::Flush, Cause::Compact]).filter(|cause| *cause != answer) {
            stage.agenda.begun(&CompactionPlan { cause, inputs: vec![RunId(9)], buffer: Bytes::ZERO, target: 2 });
            assert_eq!(stage.next(), decided, "{cause} began");
        }
        stage.begin();
        assert_eq!(stage.next(), Next::Nothing, "{answer} began");
    }
}

/// Levels are examined in the order of their arrivals.
#[test]
fn the_first_arrival_is_examined_first() {
    let mut stage = Stage::new("level 1: r6 1, r5 1, r4 1, r3 1; level 2: r2 16");
    stage.shape = "buffer 1\nlevel 4 in 4 runs\nlevel 16 in 2 runs\nlevel 64 in 2 runs".parse().expect("a shape");
    stage.agenda.moved(2);
    let next = stage.next();
    assert!(matches!(&next, Next::Compact { plan, .. } if plan.inputs == [RunId(2)]), "{next:?}");
}

/// An ingested run that is gone, in a compaction or dropped, is not examined, nor is any other run
/// in its place.
#[test]
fn a_run_that_is_gone_is_not_examined() {
    let mut stage = Stage::new("level 1: r6 1, r5 1, r4 1, r3 1; level 2: r2 4");
    stage.agenda.ingested(RunId(7));
    assert_eq!(stage.next(), Next::Nothing);
    stage.agenda.ingested(RunId(6));
    let next = stage.next();
    assert!(matches!(&next, Next::Compact { plan, .. } if plan.cause == Cause::Full { level: 1, through: 1 }));
}

/// An opened tree, and one whose disk has little space left, has its first level examined.
#[test]
fn level_1_is_examined_without_an_arrival() {
    assert_eq!(Agenda::of_opened().to_string(), "to examine: level 1");
    let mut agenda = Agenda::default();
    agenda.garbage_is_due();
    assert_eq!(agenda.to_string(), "to examine: level 1");
}

/// An agenda that has nothing left to do is as one that never had: it does not remember that a
/// compaction has ended.
#[test]
fn rest_leaves_nothing_behind() {
    let mut stage = Stage::new("level 1: r3 1; level 2: r2 4");
    stage.agenda.ended(2, None);
    stage.agenda.ingested(RunId(3));
    stage.agenda.request_reshape();
    assert_ne!(stage.agenda, Agenda::default());
    assert_eq!(stage.next(), Next::Nothing);
    assert_eq!(stage.agenda, Agenda::default());
}
