//! The rules of the planner (files 1 to 13, and 21) and of the agenda (14 to 20, and 22) as
//! readable files: `tests/expectations/*.txt`, each a lesson with one tree.
//!
//! A line that begins with `> ` is a command; its result follows, indented: each compaction with
//! its cause, then the tree. Comments begin with `#`. With `TAMARACK_REWRITE=1` in the environment
//! the test writes the results into the files, and a review of the difference takes the place of
//! the comparison.
//!
//! | command | effect |
//! |---|---|
//! | `policy SPECIFICATION buffer SIZE` | an empty tree; or the policy's shape for this one |
//! | `shape LINES` | the same with a custom shape, its lines separated by `;` |
//! | `tree LINES` | these runs, lines separated by `;` |
//! | `flush 4 1*9` | memtables of these sizes in turn, and all compactions that follow; of nine |
//! | | memtables of size 1 only the end is shown |
//! | `fill SIZE` | a memtable of this size is full; its flush begins, and nothing ends |
//! | `ingest SIZE` | a run of this size from outside, and all compactions that follow |
//! | `end N` | the N-th merge in progress ends |
//! | `reshape` | every level takes the form of the shape, and all compactions that follow |
//! | `compact`, `compact a range` | requests, of the planner alone |
//! | `bound space`, `tombstones rN` | further causes, of the planner alone |
//! | `request all`, `request a range` | somebody asks for a compaction; nothing ends |
//! | `request a reshape` | a reshape begins; what is in its way ends |
//! | `ingest only SIZE` | a run of this size from outside; nothing ends |
//! | `reads repay N` | the levels down to level N are to become one run; nothing ends |
//! | `pause`, `resume` | compactions are paused, and go on |
//! | `rest` | nothing is written for a while; nothing ends |
//! | `bounded by X` | a bound on space amplification from now on |
//! | `garbage rN AGE of ENTRIES` | the age of garbage in a run, in writes, and the tree's entries |
//! | `leaves SIZE` | the compaction that ends next writes no more than this |
//!
//! A line `agenda:` below a tree says what is still on it.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tamarack_model::agenda::{Contents, Garbage, Next, Scope};
use tamarack_model::bound::SpaceBound;
use tamarack_model::planner::{Cause, CompactionPlan, Occasion};
use tamarack_model::policy::{self, Custom, Policy};
use tamarack_model::simulate::{Data, Tree};
use tamarack_model::{Bytes, Entries, Occupancy, RunId, Shape};

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment serves the engine; this test reads files of the repository"
)]
fn expectations_hold() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expectations");
    let mut files: Vec<PathBuf> =
        fs::read_dir(&directory).expect("expectations").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has files", directory.display());
    let mut wrong = Vec::new();
    for file in files {
        let expected = fs::read_to_string(&file).expect("a text file");
        let found = play(&expected);
        if found == expected {
            continue;
        }
        if tamarack_testing::rewrites() {
            fs::write(&file, found).expect("can be written");
        } else {
            wrong.push(format!("{}:\n{}", file.display(), first_difference(&expected, &found)));
        }
    }
    assert!(wrong.is_empty(), "run with TAMARACK_REWRITE=1 and review the difference\n{}", wrong.join("\n"));
}

fn first_difference(expected: &str, found: &str) -> String {
    let lines = (1..).zip(expected.lines().zip(found.lines()));
    let differing = lines.into_iter().find(|(_, (expected, found))| expected != found);
    differing.map_or("one is longer".into(), |(number, (expected, found))| {
        format!("  line {number} expects {expected:?}\n  and there is   {found:?}")
    })
}

/// The file with what comes of its commands.
fn play(text: &str) -> String {
    let mut out = String::new();
    let mut stage = Stage::default();
    for line in text.lines().filter(|line| !line.starts_with(' ')) {
        writeln!(out, "{line}").expect("a string");
        if let Some(command) = line.strip_prefix("> ") {
            stage.perform(command, &mut out);
        }
    }
    out
}

#[derive(Default)]
struct Stage {
    tree: Option<Tree<'static>>,
    told: Told,
}

/// What a lesson says of the entries in its runs. Else all keys are unique, and none is deleted.
#[derive(Clone, Debug, Default)]
struct Told(Rc<RefCell<Entry>>);

#[derive(Debug, Default)]
struct Entry {
    garbage: Vec<Garbage>,
    entries: u64,
    leaves: Option<Bytes>,
}

impl Contents for Told {
    fn entries(&self) -> Entries {
        Entries(self.0.borrow().entries)
    }

    fn garbage(&self) -> Vec<Garbage> {
        self.0.borrow().garbage.clone()
    }
}

impl Data for Told {
    fn output_bytes(&self, plan: &CompactionPlan, occupancy: &Occupancy) -> Bytes {
        let runs = occupancy.runs().filter(|(_, run)| plan.inputs.contains(&run.id));
        let all = plan.buffer + runs.map(|(_, run)| run.bytes).sum();
        let leaves = self.0.borrow().leaves.filter(|_| plan.cause != Cause::Flush);
        leaves.map_or(all, |leaves| all.min(leaves))
    }

    fn written(&mut self, plan: &CompactionPlan, _occupancy: &Occupancy, _output: RunId) {
        let mut told = self.0.borrow_mut();
        told.garbage.retain(|garbage| !plan.inputs.contains(&garbage.run));
        if plan.cause != Cause::Flush {
            told.leaves = None;
        }
    }
}

impl Stage {
    fn perform(&mut self, command: &str, out: &mut String) {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        match name {
            "policy" => {
                let (words, buffer) = rest.split_once(" buffer ").expect("`buffer SIZE`");
                self.take(policy::parse(words).expect(words), buffer.parse().expect("a size"), out);
            }
            "shape" => {
                let shape: Shape = rest.replace("; ", "\n").parse().expect("a shape");
                let buffer = shape.buffer();
                self.take(Custom::new(shape).into(), buffer, out);
            }
            "tree" => {
                let runs: Occupancy = rest.replace("; ", "\n").parse().expect("a tree");
                let tree = self.tree.take().expect("a policy or shape first");
                self.told = Told::default();
                let tree = Tree::resume(tree.policy(), tree.shape().clone(), runs);
                self.tree = Some(tree.holding(self.told.clone()));
            }
            "bounded" => {
                let most = rest.trim_start_matches("by ").parse().expect("a number");
                let tree = self.tree.take().expect("a policy or shape first");
                self.tree = Some(tree.bounded(SpaceBound::new(most).expect("a bound")));
            }
            "garbage" => {
                let words: Vec<&str> = rest.split(' ').collect();
                let [run, age, "of", entries] = words[..] else { panic!("`garbage rN AGE of ENTRIES`") };
                let mut told = self.told.0.borrow_mut();
                told.garbage.push(Garbage { run: run_id(run), age: age.parse().expect("writes") });
                told.entries = entries.parse().expect("entries");
            }
            "leaves" => self.told.0.borrow_mut().leaves = Some(rest.parse().expect("a size")),
            _ => act(self.tree.as_mut().expect("a policy or shape first"), command, name, rest, out),
        }
        show(self.tree.as_ref().expect("a tree"), out);
    }

    fn take(&mut self, policy: Policy, buffer: Bytes, out: &mut String) {
        // Policies live as long as the test: they are few.
        let policy = Box::leak(Box::new(policy));
        match &mut self.tree {
            None => self.tree = Some(Tree::new(policy, buffer).holding(self.told.clone())),
            Some(tree) => {
                tree.change_policy(policy);
                writeln!(out, "  relabelled").expect("a string");
            }
        }
    }
}

fn act(tree: &mut Tree<'_>, command: &str, name: &str, rest: &str, out: &mut String) {
    let (levels, holds) = (tree.shape().last(), tree.shape().holds());
    match name {
        "flush" => {
            for sizes in rest.split(' ') {
                let (size, times) = sizes.split_once('*').unwrap_or((sizes, "1"));
                let times = times.parse().expect("a number of flushes");
                for at in 1..=times {
                    let mut scratch = String::new();
                    let told = if at == times { &mut *out } else { &mut scratch };
                    tree.rotate_memtable(size.parse().expect("a size"));
                    tell_decided(tree, told);
                    while !tree.in_progress().is_empty() {
                        end(tree, 0, told);
                    }
                }
            }
        }
        "fill" => {
            tree.rotate_memtable(rest.parse().expect("a size"));
            tell_decided(tree, out);
            if tree.decided().is_empty() {
                writeln!(out, "  waits behind the flush in progress").expect("a string");
            }
        }
        "ingest" if rest.starts_with("only ") => {
            let level = tree.ingest(rest.trim_start_matches("only ").parse().expect("a size"));
            writeln!(out, "  arrives at level {level}").expect("a string");
            tell_growth(tree, levels, holds, out);
            tell_decided(tree, out);
        }
        "ingest" => {
            let level = tree.ingest(rest.parse().expect("a size"));
            writeln!(out, "  arrives at level {level}").expect("a string");
            tell_growth(tree, levels, holds, out);
            tell_decided(tree, out);
            while !tree.in_progress().is_empty() {
                end(tree, 0, out);
            }
        }
        "reshape" => {
            tree.reshape();
            tell_growth(tree, levels, holds, out);
            if tree.decided().is_empty() {
                writeln!(out, "  nothing to do").expect("a string");
            }
            tell_decided(tree, out);
            while !tree.in_progress().is_empty() {
                end(tree, 0, out);
            }
        }
        "request" => {
            match rest {
                "all" => _ = tree.request(Scope::All),
                "a range" => _ = tree.request(Scope::Range),
                "a reshape" => tree.reshape(),
                _ => panic!("`{command}` is not a command"),
            }
            tell_growth(tree, levels, holds, out);
            tell_decided(tree, out);
            if tree.decided().is_empty() {
                writeln!(out, "  {}", if tree.agenda().is_at_rest() { "nothing to do" } else { "has to wait" })
                    .expect("a string");
            }
        }
        "rest" => {
            if !tree.rest() {
                writeln!(out, "  nothing to do").expect("a string");
            }
            tell_decided(tree, out);
        }
        "reads" => {
            tree.compact_for_reads(rest.trim_start_matches("repay ").parse().expect("a level"));
            tell_decided(tree, out);
            if tree.decided().is_empty() {
                writeln!(out, "  {}", if tree.agenda().is_at_rest() { "nothing to do" } else { "has to wait" })
                    .expect("a string");
            }
        }
        "pause" => tree.pause_compactions(),
        "resume" => {
            tree.resume_compactions();
            tell_growth(tree, levels, holds, out);
            tell_decided(tree, out);
        }
        "end" if tree.in_progress().is_empty() => {
            writeln!(out, "  nothing is in progress").expect("a string");
        }
        "end" => end(tree, rest.parse::<usize>().expect("a number") - 1, out),
        _ => {
            let occasion = match command {
                "compact" => Occasion::Compact,
                "compact a range" => Occasion::CompactRange,
                "bound space" => Occasion::SpaceBound,
                _ if name == "tombstones" => Occasion::TombstonesDue { run: run_id(rest) },
                _ => panic!("`{command}` is not a command"),
            };
            if tree.ask(occasion) {
                let last = tree.in_progress().len() - 1;
                tell(&tree.in_progress()[last], out);
                end(tree, last, out);
            } else {
                writeln!(out, "  nothing to do, or it has to wait").expect("a string");
            }
        }
    }
}

fn run_id(name: &str) -> RunId {
    RunId(name.trim_start_matches('r').parse().expect("a run"))
}

/// Ends a compaction, and prints what begins because of that.
fn end(tree: &mut Tree<'_>, index: usize, out: &mut String) {
    let (levels, holds) = (tree.shape().last(), tree.shape().holds());
    tree.end(index);
    tell_growth(tree, levels, holds, out);
    tell_decided(tree, out);
}

/// Tells what has begun because of the last event.
fn tell_decided(tree: &Tree<'_>, out: &mut String) {
    for next in tree.decided() {
        if let Next::Flush(plan) | Next::Compact { plan, .. } = next {
            tell(plan, out);
        }
    }
}

/// What became of a tree that had so many levels, and held so much.
fn tell_growth(tree: &Tree<'_>, levels: usize, holds: Bytes, out: &mut String) {
    if tree.shape().last() > levels {
        writeln!(out, "  grown: {} levels", tree.shape().last()).expect("a string");
    } else if tree.shape().holds() > holds {
        writeln!(out, "  grown: the last level to {}", tree.shape().holds()).expect("a string");
    } else if tree.shape().holds() < holds {
        writeln!(out, "  shrunk: {} levels", tree.shape().last()).expect("a string");
    }
}

fn tell(plan: &CompactionPlan, out: &mut String) {
    writeln!(out, "  {plan}").expect("a string");
}

fn show(tree: &Tree<'_>, out: &mut String) {
    for (number, level) in (1..).zip(tree.shape().levels()) {
        let runs: Vec<String> =
            tree.occupancy().level(number).iter().map(|run| format!("{} {}", run.id, run.bytes)).collect();
        let name = format!("level {number}");
        let filled = format!("{} of {}", tree.occupancy().level_bytes(number), level.capacity);
        let slots = format!("{} of {} run{}", runs.len(), level.runs, if level.runs == 1 { "" } else { "s" });
        let line = format!("    {name:<9}{filled:>12}  {slots:>13}  | {}", runs.join(" | "));
        writeln!(out, "{}", line.trim_end()).expect("a string");
    }
    for (number, plan) in (1..).zip(tree.in_progress()) {
        writeln!(out, "    in progress {number}: {plan}").expect("a string");
    }
    let flushing = tree.in_progress().iter().filter(|plan| plan.cause == Cause::Flush).count();
    if tree.immutable_memtables() > flushing {
        writeln!(out, "    waiting: {} immutable", tree.immutable_memtables() - flushing).expect("a string");
    }
    if !tree.agenda().is_at_rest() || tree.agenda().is_paused() {
        writeln!(out, "    agenda: {}", tree.agenda()).expect("a string");
    }
}
