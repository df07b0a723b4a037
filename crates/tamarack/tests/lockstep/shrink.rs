//! Shrinks a failing history: removes operations, in large pieces first, then simplifies the rest,
//! until nothing helps any more. Any failure counts; the smallest one is investigated first.

use std::cell::Cell;
use std::ops::Bound;
use std::panic;
use std::sync::Once;

use crate::operation::{Change, Ending, History, Level, Operation, Range, Reader, Turn, Write};

/// Maximum number of tries.
pub(crate) const TRIES_MAX: u32 = 4000;

/// Number of small seeds that are tried for a crash: one may lose the right thing of a shorter
/// history.
const CRASHES: u64 = 16;

/// The operations of a history for which more is tried.
const SHORT: usize = 12;

/// Returns the smallest history found for which `fails` is true, as it must be for the given one.
pub(crate) fn shrink(history: History, fails: impl FnMut(&History) -> bool) -> History {
    let mut shrinker = Shrinker { best: history, fails, tries: 0 };
    loop {
        let before = shrinker.best.clone();
        shrinker.remove_operations();
        shrinker.remove_before_other_crashes();
        shrinker.simplify_operations();
        shrinker.simplify_options();
        if shrinker.best == before || shrinker.tries >= TRIES_MAX {
            return shrinker.best;
        }
    }
}

/// Runs something whose panics on this thread are not printed: thousands of the same one, each with
/// its backtrace, would take most of the time.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let outcome = run();
    QUIET.set(before);
    outcome
}

struct Shrinker<F> {
    best: History,
    fails: F,
    tries: u32,
}

impl<F: FnMut(&History) -> bool> Shrinker<F> {
    fn remove_operations(&mut self) {
        let mut piece = self.best.operations.len().next_power_of_two();
        while piece > 0 {
            // From the end, because operations after the failure are harmless to remove.
            let mut end = self.best.operations.len();
            while end > 0 {
                let start = end.saturating_sub(piece);
                self.attempt(|history| drop(history.operations.drain(start..end)));
                end = start;
            }
            piece /= 2;
        }
    }

    /// Removes an operation and draws a crash anew: without the operation, the same seed may lose
    /// something else. Only in short histories.
    fn remove_before_other_crashes(&mut self) {
        let mut at = 0;
        while at < self.best.operations.len() && self.best.operations.len() <= SHORT {
            let crashes: Vec<usize> = (0..self.best.operations.len())
                .filter(|&other| other != at && matches!(self.best.operations[other], Operation::End(Ending::Crash(_))))
                .collect();
            let is_removed = crashes.into_iter().any(|crash| {
                (0..CRASHES).any(|seed| {
                    self.attempt(|history| {
                        history.operations[crash] = Operation::End(Ending::Crash(seed));
                        history.operations.remove(at);
                    })
                })
            });
            at = if is_removed { 0 } else { at + 1 };
        }
    }

    fn simplify_operations(&mut self) {
        for at in 0..self.best.operations.len() {
            while simpler(&self.best.operations[at])
                .into_iter()
                .any(|operation| self.attempt(|history| history.operations[at] = operation))
            {}
        }
    }

    /// Leaves options out, one after the other.
    fn simplify_options(&mut self) {
        while self
            .best
            .setup
            .options
            .simpler()
            .into_iter()
            .any(|options| self.attempt(|history| history.setup.options = options))
        {}
    }

    /// Keeps the change if the history still fails.
    fn attempt(&mut self, change: impl FnOnce(&mut History)) -> bool {
        if self.tries >= TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let mut candidate = self.best.clone();
        change(&mut candidate);
        let better = quietly(|| (self.fails)(&candidate));
        if better {
            self.best = candidate;
        }
        better
    }
}

/// Returns simpler operations of the same kind, each a step towards the simplest, so that there is
/// no cycle.
fn simpler(operation: &Operation) -> Vec<Operation> {
    let mut found = Vec::new();
    match operation {
        Operation::Write { writes, level } => {
            let simpler_level = match level {
                Level::Usual => None,
                Level::Buffered => Some(Level::Usual),
                Level::Sync | Level::Interval(_) => Some(Level::Buffered),
            };
            found.extend(simpler_level.map(|level| Operation::Write { writes: writes.clone(), level }));
            for at in 0..writes.len() {
                let mut fewer = writes.clone();
                fewer.remove(at);
                found.push(Operation::Write { writes: fewer, level: *level });
                for write in simpler_writes(&writes[at]) {
                    let mut changed = writes.clone();
                    changed[at] = write;
                    found.push(Operation::Write { writes: changed, level: *level });
                }
            }
        }
        Operation::OpenIngest { slot, writes } => {
            found.extend(fewer(writes).map(|writes| Operation::OpenIngest { slot: *slot, writes }));
        }
        Operation::Ingest(writes) => {
            found.push(Operation::Write { writes: writes.clone(), level: Level::Sync });
            found.extend(fewer(writes).map(Operation::Ingest));
        }
        Operation::Get { reader, key } => {
            found.extend(now(*reader).map(|reader| Operation::Get { reader, key: key.clone() }));
            found.extend(simpler_key(key).map(|key| Operation::Get { reader: *reader, key }));
        }
        Operation::Contains { reader, key } => {
            found.extend(now(*reader).map(|reader| Operation::Contains { reader, key: key.clone() }));
            found.push(Operation::Get { reader: *reader, key: key.clone() });
        }
        Operation::MultiGet { reader, key } => {
            found.extend(now(*reader).map(|reader| Operation::MultiGet { reader, key: key.clone() }));
            found.push(Operation::Get { reader: *reader, key: key.clone() });
        }
        Operation::Scan { reader, range, turns, limit, is_told } => {
            let (limit, is_told) = (*limit, *is_told);
            let scan = |reader, range, turns| Operation::Scan { reader, range, turns, limit, is_told };
            if is_told {
                let (reader, range, turns) = (*reader, range.clone(), turns.clone());
                found.push(Operation::Scan { reader, range, turns, limit, is_told: false });
            }
            found.extend(now(*reader).map(|reader| scan(reader, range.clone(), turns.clone())));
            found.extend(simpler_range(range).into_iter().map(|range| scan(*reader, range, turns.clone())));
            found.extend(simpler_turns(turns).map(|turns| scan(*reader, range.clone(), turns)));
        }
        Operation::CompactRange(range) => {
            found.push(Operation::Compact);
            found.extend(simpler_range(range).into_iter().map(Operation::CompactRange));
        }
        Operation::OpenScan { slot, reader, range } => {
            let scan = |reader, range| Operation::OpenScan { slot: *slot, reader, range };
            found.extend(now(*reader).map(|reader| scan(reader, range.clone())));
            found.extend(simpler_range(range).into_iter().map(|range| scan(*reader, range)));
        }
        Operation::StepScan { slot, turns } => {
            found.extend(simpler_turns(turns).map(|turns| Operation::StepScan { slot: *slot, turns }));
        }
        Operation::Interrupt { calls, ending, operation } => {
            found.push((**operation).clone());
            found.push(Operation::End(*ending));
            let interrupt = |calls, ending, operation| Operation::Interrupt { calls, ending, operation };
            if *ending != Ending::Kill {
                found.push(interrupt(*calls, Ending::Kill, operation.clone()));
            }
            found.extend(calls.checked_sub(1).map(|calls| interrupt(calls, *ending, operation.clone())));
            let inner = simpler(operation).into_iter();
            found.extend(inner.map(|operation| interrupt(*calls, *ending, Box::new(operation))));
        }
        Operation::Reopen => found.push(Operation::End(Ending::Kill)),
        Operation::End(Ending::Crash(seed)) => {
            found.push(Operation::End(Ending::Kill));
            found.extend((0..CRASHES.min(*seed)).map(|seed| Operation::End(Ending::Crash(seed))));
        }
        Operation::Options(options) => found.extend(options.simpler().into_iter().map(Operation::Options)),
        Operation::Transfer(options) => found.extend(options.simpler().into_iter().map(Operation::Transfer)),
        Operation::Look | Operation::VerifyClosed | Operation::Repair | Operation::Linger => {
            found.push(Operation::Reopen);
        }
        Operation::Background(steps) if *steps > 1 => found.push(Operation::Background(steps - 1)),
        Operation::Fault { failure, after } if *after > 0 => {
            found.push(Operation::Fault { failure: failure.clone(), after: after - 1 });
        }
        _ => {}
    }
    found
}

/// All but one.
fn fewer(writes: &[Write]) -> impl Iterator<Item = Vec<Write>> {
    (0..writes.len()).map(|at| [&writes[..at], &writes[at + 1..]].concat())
}

fn simpler_writes(write: &Write) -> Vec<Write> {
    let mut found: Vec<_> = simpler_key(&write.key).map(|key| Write { key, change: write.change.clone() }).collect();
    let changed = |change| Write { key: write.key.clone(), change };
    match &write.change {
        Change::Put(value) if value.len() > 8 => found.push(changed(Change::Put(value[..value.len() / 2].to_vec()))),
        Change::Merge(operand) => found.push(changed(Change::Put(operand.clone()))),
        Change::DeleteRange(to) => {
            found.push(changed(Change::Delete));
            found.extend(simpler_key(to).map(|to| changed(Change::DeleteRange(to))));
        }
        Change::Put(_) | Change::Delete => {}
    }
    found
}

/// One byte, then fewer different ones.
fn simpler_key(key: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (key.len() > 1).then(|| key[..1].to_vec()).into_iter()
}

fn simpler_range(range: &Range) -> Option<Range> {
    let all = Range::Bounds(Bound::Unbounded, Bound::Unbounded);
    (*range != all).then_some(all)
}

fn simpler_turns(turns: &[Turn]) -> impl Iterator<Item = Vec<Turn>> {
    let fewer = (turns.len() > 1).then(|| turns[..turns.len() - 1].to_vec());
    let forward = (turns.len() == 1 && turns[0] != Turn::Front).then(|| vec![Turn::Front]);
    fewer.into_iter().chain(forward)
}

fn now(reader: Reader) -> Option<Reader> {
    (reader != Reader::Now).then_some(Reader::Now)
}
