//! Background work without threads: workers take their steps when someone waits, in an order drawn
//! from the seed.
//!
//! One process has one set of workers. A step runs on the thread that asked for it, with no lock
//! held, so it may call the environment, wake and start other workers and notify events. While it
//! runs, its worker is not runnable: a step that waits steps the others.
//!
//! Time passes only when nobody can run: then it jumps to the moment at which some worker wants to
//! go on, or to the waiter's deadline, whichever is first. If there is neither, nothing can ever
//! happen again, which is a deadlock in the code under test and a panic that says who is idle.
//! [`Process::wait`] asks its question again only after the event was notified, as the contract
//! allows, so a notification that someone forgot is such a deadlock too. A wait without a deadline
//! that lasts a day is a livelock, and a panic as well: workers retry, and nothing comes of it.
//!
//! With a device, a step has its own time ([`super`] shows it): the clock is set to the step's
//! begin, moves with what the step costs, and is set back to the waiter's when it returns. The end
//! is where the worker's next step begins, and when what the step notified reaches the waiter. Of
//! several workers the one whose step begins first runs first, and only ties are drawn from the
//! seed. Without a device, each step begins now, and nothing is set back.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use super::machine::{Life, Machine};
use crate::env::{Event, Progress, Work, Worker};
use crate::random::Random;
use crate::sync::{Condvar, Mutex, Rank, apart};

/// How long a waiter that expects other threads lets them run, in real time, before the virtual
/// clock moves.
const PATIENCE: Duration = Duration::from_millis(20);

/// Upper bound on a wait without a deadline, in virtual time. Retries pause for half a second to
/// half a minute, so this many of them have failed; no workload of a test lasts as long.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// What ends when a process ends: its workers and the validity of its handles.
pub(super) struct Process {
    pub(super) life: Life,
    state: Mutex<WorkerTable>,
    /// A step has returned.
    stepped: Condvar,
}

/// The workers that have not ended, and the order of their steps.
struct WorkerTable {
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
    /// Its next step begins no earlier: the end of the last one, or when it was woken.
    free_at: Duration,
    running_on: Option<ThreadId>,
}

/// The handle on a worker.
pub(super) struct SimWorker {
    process: Arc<Process>,
    machine: Arc<Machine>,
    id: u64,
}

/// A worker whose step is running. However the step ends, the worker stops counting as running.
struct Running<'a> {
    process: &'a Process,
    machine: &'a Machine,
    id: u64,
    /// The time of the one on whose thread it runs, if the step has its own.
    resume_at: Option<Duration>,
    /// What the step said; `Done` until it has returned, so that a step that panics is not called
    /// again.
    progress: Progress,
}

impl Process {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            life: Life::default(),
            state: Mutex::new(
                Rank::SimWorkers,
                WorkerTable {
                    workers: BTreeMap::new(),
                    workers_started: 0,
                    order: Random::for_purpose(seed, 0x0BAC_69B0),
                    expects_threads: false,
                },
            ),
            stepped: Condvar::new(),
        })
    }

    /// Ends the process: no step is ever called again. A step that is running runs on, but all its
    /// calls fail.
    pub(super) fn kill(&self) {
        self.life.end();
        let workers = std::mem::take(&mut self.state.lock().workers);
        // What the workers held is released without the lock, since that may call the environment.
        drop(workers);
    }

    pub(super) fn expect_threads(&self) {
        self.state.lock().expects_threads = true;
    }

    pub(super) fn expects_threads(&self) -> bool {
        self.state.lock().expects_threads
    }

    pub(super) fn start(
        self: &Arc<Self>,
        machine: &Arc<Machine>,
        name: &str,
        work: Arc<dyn Work>,
    ) -> io::Result<Arc<dyn Worker>> {
        self.life.check()?;
        let mut state = self.state.lock();
        let id = state.workers_started;
        state.workers_started += 1;
        let (name, free_at) = (name.to_owned(), machine.now());
        let slot = Slot { name, work, progress: Progress::More, woken: false, free_at, running_on: None };
        state.workers.insert(id, slot);
        Ok(Arc::new(SimWorker { process: self.clone(), machine: machine.clone(), id }))
    }

    /// Lets one runnable worker, drawn from the seed, take a step, and says when the step ended;
    /// `None` if there is none.
    pub(super) fn step(&self, machine: &Machine) -> Option<Duration> {
        let (now, own_times) = (machine.now(), machine.has_device());
        let (mut running, work) = {
            let mut state = self.state.lock();
            let (begin, runnable) = state.runnable(now, own_times);
            if runnable.is_empty() {
                return None;
            }
            let id = runnable[state.order.below(runnable.len() as u64) as usize];
            let slot = state.workers.get_mut(&id).expect("a runnable worker is in the list");
            slot.running_on = Some(std::thread::current().id());
            slot.woken = false;
            if own_times {
                machine.turn_to(begin);
            }
            let resume_at = own_times.then_some(now);
            (Running { process: self, machine, id, resume_at, progress: Progress::Done }, slot.work.clone())
        };
        running.progress = apart(|| work.step());
        let end = machine.now();
        drop(running);
        Some(end)
    }

    /// As [`super::SimEnv::run_until`].
    pub(super) fn run_until(&self, machine: &Machine, moment: Duration) {
        loop {
            while self.step(machine).is_some() {}
            if machine.now() >= moment {
                return;
            }
            machine.advance_to(self.next_begin().map_or(moment, |next| next.min(moment)));
        }
    }

    /// As [`super::SimEnv::run_background_until_idle`].
    pub(super) fn run_until_idle(&self, machine: &Machine) {
        loop {
            while self.step(machine).is_some() {}
            let next = self.state.lock().workers.values().filter(|slot| slot.has_more()).map(|slot| slot.free_at).min();
            match next {
                Some(moment) => machine.advance_to(moment),
                None => return,
            }
        }
    }

    /// As [`crate::Env::wait`].
    pub(super) fn wait(
        &self,
        machine: &Machine,
        event: &Event,
        deadline: Option<Duration>,
        ready: &mut dyn FnMut() -> bool,
    ) -> bool {
        let begin = machine.now();
        loop {
            let mut seen = event.count();
            if ready() {
                return true;
            }
            // The earliest end of a step that notified.
            let mut told_at: Option<Duration> = None;
            while event.count() == seen && told_at.is_none_or(|told_at| machine.now() < told_at) {
                if deadline.is_some_and(|deadline| machine.now() >= deadline) || self.life.check().is_err() {
                    return false;
                }
                if let Some(end) = self.step(machine) {
                    let count = event.count();
                    if count != seen {
                        told_at = Some(told_at.map_or(end, |told_at| told_at.min(end)));
                        seen = count;
                    }
                } else if !self.let_threads_run(event, seen) {
                    let until = deadline.into_iter().chain(told_at).min();
                    self.let_time_pass(machine, until, ready);
                    if deadline.is_none() && machine.now() > begin + WAIT_MAX {
                        panic!("livelock: after a day of steps the wait goes on; workers: {:?}", self.idle());
                    }
                }
            }
        }
    }

    /// Gives other threads, if there are any, some real time to notify; true if they did or one of
    /// them is in a step.
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

    /// When the next step begins if nothing is notified or woken.
    fn next_begin(&self) -> Option<Duration> {
        self.state.lock().workers.values().filter_map(Slot::begin).min()
    }

    /// The workers, and what their last steps said.
    fn idle(&self) -> Vec<String> {
        self.state.lock().workers.values().map(ToString::to_string).collect()
    }

    fn let_time_pass(&self, machine: &Machine, until: Option<Duration>, ready: &mut dyn FnMut() -> bool) {
        let state = self.state.lock();
        let begins = state.workers.values().filter_map(Slot::begin);
        match begins.chain(until).min() {
            Some(moment) => machine.advance_to(moment),
            None if state.expects_threads => {}
            None => {
                drop(state);
                let idle = self.idle();
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

impl WorkerTable {
    /// Who may be the next to take a step, and when it begins: all who can begin now, or if steps
    /// have their own times, only those who begin first.
    fn runnable(&self, now: Duration, own_times: bool) -> (Duration, Vec<u64>) {
        let begins = self.workers.iter().filter_map(|(id, slot)| Some((slot.begin()?, *id)));
        let due: Vec<(Duration, u64)> = begins.filter(|(begin, _)| *begin <= now).collect();
        let first = due.iter().map(|(begin, _)| *begin).min().unwrap_or(now);
        let next = due.into_iter().filter(|(begin, _)| !own_times || *begin == first);
        (first, next.map(|(_, id)| id).collect())
    }
}

impl Slot {
    fn has_more(&self) -> bool {
        self.running_on.is_none() && self.progress == Progress::More
    }

    /// When its next step begins, if it need not be woken for that.
    fn begin(&self) -> Option<Duration> {
        match self.progress {
            _ if self.running_on.is_some() => None,
            Progress::More => Some(self.free_at),
            Progress::IdleUntil(moment) => Some(self.free_at.max(moment)),
            Progress::Idle | Progress::Done => None,
        }
    }

    /// Woken at `now`, it begins then, unless it is still busy or would have begun before.
    fn wake(&mut self, now: Duration) {
        self.woken = true;
        if self.running_on.is_none() {
            let woken_at = self.free_at.max(now);
            self.free_at = self.begin().map_or(woken_at, |begin| begin.min(woken_at));
            self.progress = Progress::More;
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
        let end = self.machine.now();
        if let Some(moment) = self.resume_at {
            self.machine.turn_to(moment);
        }
        let mut state = self.process.state.lock();
        let ended = match state.workers.get_mut(&self.id) {
            Some(slot) => {
                slot.running_on = None;
                slot.free_at = end;
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
        let now = self.machine.now();
        if let Some(slot) = self.process.state.lock().workers.get_mut(&self.id) {
            slot.wake(now);
        }
    }

    fn stop(&self) {
        let mut state = self.process.state.lock();
        let stopped = loop {
            match state.workers.get(&self.id).map(|slot| slot.running_on) {
                None => break None,
                Some(None) => {
                    let stopped = state.workers.remove(&self.id);
                    // Its current step, if it has a time of its own, may end later than now.
                    self.machine.advance_to(stopped.as_ref().map_or(Duration::ZERO, |slot| slot.free_at));
                    break stopped;
                }
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
