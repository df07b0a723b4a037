//! Background work without threads: workers take their steps when someone waits, in an order drawn from the seed.
//!
//! One process has one set of workers. A step runs on the thread that asked for it, with no lock held, so it may call
//! the environment, wake and start other workers and notify events. While it runs, its worker is not runnable: a step
//! that waits steps the others.
//!
//! Time passes only when nobody can run: then it jumps to the moment at which some idle worker wants to go on, or to
//! the waiter's deadline, whichever is first. If there is neither, nothing can ever happen again, which is a deadlock
//! in the code under test and a panic that says who is idle. [`Process::wait`] asks its question again only after the
//! event was notified, as the contract allows, so a notification that someone forgot is such a deadlock too.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use super::machine::{Life, Machine};
use crate::env::{Event, Progress, Work, Worker};
use crate::random::Random;
use crate::sync::{Condvar, Mutex};

/// How long a waiter that expects other threads lets them run, in real time, before the virtual clock moves.
const PATIENCE: Duration = Duration::from_millis(20);

/// What ends when a process ends: its workers and the validity of its handles.
pub(super) struct Process {
    pub(super) life: Life,
    state: Mutex<State>,
    /// A step has returned.
    stepped: Condvar,
}

struct State {
    workers: BTreeMap<u64, Slot>,
    workers_started: u64,
    order: Random,
    expects_threads: bool,
}

struct Slot {
    name: String,
    work: Arc<dyn Work>,
    /// What its last step said, or `More` if it was woken since; never `Done`.
    progress: Progress,
    /// Woken while its step was running.
    woken: bool,
    running_on: Option<ThreadId>,
}

/// The handle on a worker.
pub(super) struct SimWorker {
    process: Arc<Process>,
    id: u64,
}

/// A worker whose step is running. However the step ends, the worker stops counting as running.
struct Running<'a> {
    process: &'a Process,
    id: u64,
    /// What the step said; `Done` until it has returned, so that a step that panics is not called again.
    progress: Progress,
}

impl Process {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            life: Life::default(),
            state: Mutex::new(State {
                workers: BTreeMap::new(),
                workers_started: 0,
                order: Random::for_purpose(seed, 0x0BAC_69B0),
                expects_threads: false,
            }),
            stepped: Condvar::new(),
        })
    }

    /// Ends the process: no step is ever called again. A step that is running runs on, but all its calls fail.
    pub(super) fn kill(&self) {
        self.life.end();
        let workers = std::mem::take(&mut self.state.lock().workers);
        // What the workers held is released without the lock, since that may call the environment.
        drop(workers);
    }

    pub(super) fn expect_threads(&self) {
        self.state.lock().expects_threads = true;
    }

    pub(super) fn start(self: &Arc<Self>, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        self.life.check()?;
        let mut state = self.state.lock();
        let id = state.workers_started;
        state.workers_started += 1;
        let slot = Slot { name: name.to_owned(), work, progress: Progress::More, woken: false, running_on: None };
        state.workers.insert(id, slot);
        Ok(Arc::new(SimWorker { process: self.clone(), id }))
    }

    /// Lets one runnable worker, drawn from the seed, take a step; false if there is none.
    pub(super) fn step(&self, now: Duration) -> bool {
        let (mut running, work) = {
            let mut state = self.state.lock();
            let runnable: Vec<u64> =
                state.workers.iter().filter(|(_, slot)| slot.is_runnable(now)).map(|(id, _)| *id).collect();
            if runnable.is_empty() {
                return false;
            }
            let id = runnable[state.order.below(runnable.len() as u64) as usize];
            let slot = state.workers.get_mut(&id).expect("a runnable worker is in the list");
            slot.running_on = Some(std::thread::current().id());
            slot.woken = false;
            (Running { process: self, id, progress: Progress::Done }, slot.work.clone())
        };
        running.progress = work.step();
        drop(running);
        true
    }

    /// As [`crate::Env::wait`].
    pub(super) fn wait(
        &self,
        machine: &Machine,
        event: &Event,
        deadline: Option<Duration>,
        ready: &mut dyn FnMut() -> bool,
    ) -> bool {
        loop {
            let seen = event.count();
            if ready() {
                return true;
            }
            while event.count() == seen {
                if deadline.is_some_and(|deadline| machine.now() >= deadline) || self.life.check().is_err() {
                    return false;
                }
                if !self.step(machine.now()) && !self.let_threads_run(event, seen) {
                    self.let_time_pass(machine, deadline, ready);
                }
            }
        }
    }

    /// Gives other threads, if there are any, some real time to notify; true if they did or one of them is in a step.
    fn let_threads_run(&self, event: &Event, seen: u64) -> bool {
        let (expected, stepping) = {
            let state = self.state.lock();
            let here = std::thread::current().id();
            let elsewhere = |slot: &Slot| slot.running_on.is_some_and(|thread| thread != here);
            (state.expects_threads, state.workers.values().any(elsewhere))
        };
        if !expected && !stepping {
            return false;
        }
        let notified = event.wait_past(seen, Some(PATIENCE)).is_continue();
        notified || stepping
    }

    fn let_time_pass(&self, machine: &Machine, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) {
        let state = self.state.lock();
        let timers = state.workers.values().filter_map(Slot::timer);
        match timers.chain(deadline).min() {
            Some(moment) => machine.advance_to(moment),
            None if state.expects_threads => {}
            None => {
                let idle: Vec<String> = state.workers.values().map(|slot| slot.to_string()).collect();
                drop(state);
                let hint = match ready() {
                    true => "what was waited for is true, but nobody notified the event",
                    false => "what was waited for is false, and nothing is left that could make it true",
                };
                panic!("deadlock: {hint}; workers: {idle:?}");
            }
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

impl Slot {
    fn is_runnable(&self, now: Duration) -> bool {
        self.running_on.is_none()
            && match self.progress {
                Progress::More => true,
                Progress::IdleUntil(moment) => moment <= now,
                Progress::Idle | Progress::Done => false,
            }
    }

    fn timer(&self) -> Option<Duration> {
        match self.progress {
            Progress::IdleUntil(moment) if self.running_on.is_none() => Some(moment),
            _ => None,
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.running_on {
            Some(_) => write!(f, "{}: in a step", self.name),
            None => write!(f, "{}: {:?}", self.name, self.progress),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.process.state.lock();
        let ended = match state.workers.get_mut(&self.id) {
            Some(slot) => {
                slot.running_on = None;
                slot.progress =
                    if slot.woken && self.progress != Progress::Done { Progress::More } else { self.progress };
                slot.progress == Progress::Done
            }
            None => false,
        };
        let slot = if ended { state.workers.remove(&self.id) } else { None };
        drop(state);
        drop(slot);
        self.process.stepped.notify_all();
    }
}

impl Worker for SimWorker {
    fn wake(&self) {
        if let Some(slot) = self.process.state.lock().workers.get_mut(&self.id) {
            slot.woken = true;
            if slot.running_on.is_none() {
                slot.progress = Progress::More;
            }
        }
    }

    fn stop(&self) {
        let mut state = self.process.state.lock();
        let stopped = loop {
            match state.workers.get(&self.id).map(|slot| slot.running_on) {
                None => break None,
                Some(None) => break state.workers.remove(&self.id),
                Some(Some(thread)) => {
                    assert_ne!(thread, std::thread::current().id(), "a worker was stopped from within its own step");
                    state = self.process.stepped.wait(state);
                }
            }
        };
        drop(state);
        drop(stopped);
    }
}
