//! Whether a history is linearizable: whether each call can be given a moment between its begin and
//! its end so that all calls, in the order of these moments, do what one thread would see.
//!
//! The whole database is one object here, so this says more than linearizability of each key:
//! batches are atomic, and scans and snapshots see one moment. (With that, the history is strictly
//! serializable.)
//!
//! The algorithm is just-in-time linearization (Lowe, *Testing for linearizability*, 2017), the
//! memoized search of Wing and Gong in the order of events:
//!
//! * A **configuration** is a state that the calls so far allow: the version of each key, and which
//!   of the calls in progress have had their moment.
//! * When a call returns, each configuration in which it has not had its moment is replaced by
//!   those that writes in progress, in any order, can lead to until it has. If none is left, there
//!   is no such order: a violation.
//! * A read has its moment as soon as its state is there, which excludes nothing: it changes no
//!   state.
//!
//! * A write has no moment while a read that has not had its own sees a version that it replaces:
//!   values are written once, so that version would never come back. This leaves few
//!   configurations.
//!
//! It takes time exponential in the calls in progress at a moment, of which there are as many as
//! threads, and linear in the length of the history.

use std::collections::{HashMap, HashSet};

use super::history::{Act, Call, Versioned};

/// More configurations than this are not searched.
const CONFIGURATIONS_MAX: usize = 1 << 18;

/// What a check of a history without violations took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Effort {
    /// The most configurations at a time.
    pub(crate) configurations_max: usize,
}

/// What is wrong with a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Complaint {
    /// No order of the calls explains this one, given by its index.
    Violation(usize),
    /// Too many calls were in progress to say.
    TooManyConfigurations(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Configuration {
    /// Bit `t`: the call in progress of thread `t` has had its moment.
    done: u32,
    versions: Box<[u32]>,
}

/// Checks a history of a database that was empty at its beginning.
///
/// # Errors
/// The first call that no order explains.
pub(crate) fn check(calls: &[Call], keys: usize) -> Result<Effort, Complaint> {
    let mut events: Vec<(u64, usize)> =
        calls.iter().enumerate().flat_map(|(index, call)| [(call.begin, index), (call.end, index)]).collect();
    events.sort_unstable();
    let threads = calls.iter().map(|call| call.thread + 1).max().unwrap_or(0);
    let mut search = Search { calls, in_progress: vec![None; threads], last_seen: last_seen(calls), now: 0 };
    let mut effort = Effort::default();
    let mut present: Vec<Configuration> = vec![Configuration { done: 0, versions: vec![0; keys].into_boxed_slice() }];
    for (tick, index) in events {
        let call = &calls[index];
        search.now = tick;
        if tick == call.begin {
            search.in_progress[call.thread] = Some(index);
            present.iter_mut().for_each(|configuration| search.finish_reads(configuration));
            continue;
        }
        present = search.with_done(call.thread, present).ok_or(Complaint::TooManyConfigurations(index))?;
        if present.is_empty() {
            return Err(Complaint::Violation(index));
        }
        search.in_progress[call.thread] = None;
        effort.configurations_max = effort.configurations_max.max(present.len());
    }
    Ok(effort)
}

/// When the last read that sees a version began; deletes have no version of their own.
fn last_seen(calls: &[Call]) -> HashMap<Versioned, u64> {
    let mut last = HashMap::new();
    for call in calls {
        if let Act::Read(versions) = &call.act {
            for versioned in versions.iter().filter(|(_, version)| *version != 0) {
                let begin = last.entry(*versioned).or_insert(0);
                *begin = call.begin.max(*begin);
            }
        }
    }
    last
}

struct Search<'a> {
    calls: &'a [Call],
    last_seen: HashMap<Versioned, u64>,
    /// Tick of the event.
    now: u64,
    /// The call of each thread that has begun and not returned.
    in_progress: Vec<Option<usize>>,
}

impl Search<'_> {
    /// Gives reads in progress their moment, where the state is what they saw.
    fn finish_reads(&self, configuration: &mut Configuration) {
        for (thread, index) in self.in_progress.iter().enumerate() {
            let Some(index) = index else { continue };
            if configuration.done & 1 << thread != 0 {
                continue;
            }
            if let Act::Read(versions) = &self.calls[*index].act
                && versions.iter().all(|(key, version)| configuration.versions[usize::from(*key)] == *version)
            {
                configuration.done |= 1 << thread;
            }
        }
    }

    /// True if a read that has not had its moment sees a version that this write would replace.
    fn is_still_seen(&self, configuration: &Configuration, written: &[Versioned]) -> bool {
        written.iter().any(|(key, _)| {
            let replaced = (*key, configuration.versions[usize::from(*key)]);
            // Of an absent key nobody knows when else it may be absent.
            if replaced.1 == 0 {
                return false;
            }
            self.last_seen.get(&replaced).is_some_and(|begin| *begin > self.now)
                || self.in_progress.iter().enumerate().any(|(thread, index)| {
                    let is_open = configuration.done & 1 << thread == 0;
                    is_open
                        && index.is_some_and(
                            |index| matches!(&self.calls[index].act, Act::Read(seen) if seen.contains(&replaced)),
                        )
                })
        })
    }

    /// The configurations in which the call of `thread` has had its moment, with its bit cleared;
    /// `None` if there are too many.
    fn with_done(&self, thread: usize, present: Vec<Configuration>) -> Option<Vec<Configuration>> {
        let bit = 1 << thread;
        if present.iter().all(|configuration| configuration.done & bit != 0) {
            let mut present = present;
            present.iter_mut().for_each(|configuration| configuration.done &= !bit);
            return Some(present);
        }
        let mut seen: HashSet<Configuration> = HashSet::new();
        let mut found: HashSet<Configuration> = HashSet::new();
        let mut open = present;
        while let Some(mut configuration) = open.pop() {
            if configuration.done & bit != 0 {
                configuration.done &= !bit;
                found.insert(configuration);
                continue;
            }
            if seen.len() + found.len() > CONFIGURATIONS_MAX {
                return None;
            }
            for (writer, index) in self.in_progress.iter().enumerate() {
                let Some(index) = index else { continue };
                if configuration.done & 1 << writer != 0 {
                    continue;
                }
                if let Act::Write(versions) = &self.calls[*index].act {
                    if self.is_still_seen(&configuration, versions) {
                        continue;
                    }
                    let mut next = configuration.clone();
                    next.done |= 1 << writer;
                    versions.iter().for_each(|(key, version)| next.versions[usize::from(*key)] = *version);
                    self.finish_reads(&mut next);
                    if !seen.contains(&next) {
                        seen.insert(next.clone());
                        open.push(next);
                    }
                }
            }
        }
        Some(found.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use tamarack_testing::Random;

    use super::*;

    const KEYS: usize = 6;

    fn call(thread: usize, begin: u64, end: u64, act: Act) -> Call {
        Call { thread, begin, end, act }
    }

    fn write(versions: &[(u16, u32)]) -> Act {
        Act::Write(versions.to_vec())
    }

    fn read(versions: &[(u16, u32)]) -> Act {
        Act::Read(versions.to_vec())
    }

    fn violates(calls: &[Call]) -> bool {
        check(calls, KEYS).is_err()
    }

    #[test]
    fn small_histories() {
        let put = call(0, 1, 4, write(&[(0, 7)]));
        let seen = |begin, end, version| call(1, begin, end, read(&[(0, version)]));
        assert!(!violates(&[put.clone(), seen(2, 3, 0)]), "beside the put it may see either");
        assert!(!violates(&[put.clone(), seen(2, 3, 7)]));
        assert!(violates(&[put.clone(), seen(5, 6, 0)]), "a stale read");
        assert!(violates(&[put.clone(), seen(5, 6, 8)]), "a value of nobody");
        let back = [put.clone(), seen(2, 3, 7), call(2, 5, 6, read(&[(0, 0)]))];
        assert!(violates(&back), "a value that was seen and is gone");
    }

    #[test]
    fn a_batch_takes_effect_at_once() {
        let batch = call(0, 1, 10, write(&[(0, 7), (1, 7)]));
        let two = |first: (u16, u32), second: (u16, u32)| {
            vec![batch.clone(), call(1, 2, 3, read(&[first])), call(1, 4, 5, read(&[second]))]
        };
        assert!(!violates(&two((0, 0), (1, 7))) && !violates(&two((0, 7), (1, 7))));
        assert!(violates(&two((0, 7), (1, 0))), "half of it was seen first");
        assert!(violates(&[batch.clone(), call(1, 2, 3, read(&[(0, 7), (1, 0)]))]), "a torn batch in one scan");
    }

    #[test]
    fn scans_see_one_moment() {
        let puts = [call(0, 1, 2, write(&[(0, 1)])), call(0, 3, 4, write(&[(1, 2)]))];
        let scan = |versions: &[(u16, u32)]| {
            let mut calls = puts.to_vec();
            calls.push(call(1, 0, 9, read(versions)));
            violates(&calls)
        };
        assert!(!scan(&[(0, 0), (1, 0)]) && !scan(&[(0, 1), (1, 0)]) && !scan(&[(0, 1), (1, 2)]));
        assert!(scan(&[(0, 0), (1, 2)]), "the later without the earlier");
    }

    /// A random history that is right: each call has its moment between its begin and its end.
    fn right(seed: u64) -> Vec<Call> {
        let mut random = Random::new(seed);
        let mut versions = [0_u32; KEYS];
        let mut calls = Vec::new();
        let mut free = [0_u64; 4];
        let mut moment = 1000;
        for version in 1..=300_u32 {
            let thread = random.below(4) as usize;
            moment = moment.max(free[thread] + 2) + 2 + random.below(20);
            let keys = 1 + random.below(3);
            let keys: Vec<u16> = (0..keys).map(|_| random.below(KEYS as u64) as u16).collect();
            let act = if random.one_in(2) {
                let written: Vec<_> =
                    keys.iter().map(|key| (*key, if random.one_in(5) { 0 } else { version })).collect();
                written.iter().for_each(|(key, version)| versions[usize::from(*key)] = *version);
                Act::Write(written)
            } else {
                Act::Read(keys.iter().map(|key| (*key, versions[usize::from(*key)])).collect())
            };
            let begin = (free[thread] + 1).max(moment.saturating_sub(random.below(60)));
            let end = moment + random.below(60);
            free[thread] = end;
            calls.push(call(thread, begin, end, act));
        }
        spread(&mut calls);
        calls
    }

    /// Makes all ticks different without changing their order.
    fn spread(calls: &mut [Call]) {
        for (index, call) in calls.iter_mut().enumerate() {
            (call.begin, call.end) = (call.begin * 1000 + index as u64, call.end * 1000 + 500 + index as u64);
        }
    }

    #[test]
    fn right_histories_pass_and_planted_violations_are_found() {
        let mut found = [0; 3];
        for seed in 0..100 {
            let calls = right(seed);
            assert_eq!(check(&calls, KEYS).err(), None, "seed {seed}");
            for (kind, count) in found.iter_mut().enumerate() {
                *count += u32::from(violates(&planted(&calls, kind, seed)));
            }
        }
        // Some are no violations: the old value may have been there at another moment.
        assert!(found.iter().all(|count| *count >= 40), "{found:?} of 100 stale reads, torn batches, lost writes");
    }

    /// The history with one mistake in it.
    fn planted(calls: &[Call], kind: usize, seed: u64) -> Vec<Call> {
        let mut calls = calls.to_vec();
        let mut random = Random::new(seed ^ 77);
        for _ in 0..1000 {
            let index = 50 + random.below(200) as usize;
            match (kind, &mut calls[index].act) {
                // A read gets a value that the key had long before.
                (0, Act::Read(versions)) if versions[0].1 > 40 => {
                    versions[0].1 -= 40;
                    return calls;
                }
                // Half of a batch never happens.
                (1, Act::Write(versions)) if versions.len() > 1 && versions[0].0 != versions[1].0 => {
                    versions.remove(0);
                    return calls;
                }
                (2, Act::Write(versions)) => {
                    versions.clear();
                    return calls;
                }
                _ => {}
            }
        }
        panic!("nothing to spoil in seed {seed}");
    }
}
