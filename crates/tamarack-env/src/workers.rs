//! Background workers on threads, and waiting for what they do: shared by the operating system and
//! the memory environment.
//!
//! A worker is one thread that calls [`Work::step`] again and again:
//!
//! ```text
//!        ┌──────────────── More ────────────────┐
//!        ▼                                      │
//!   seen = wakes ──► stopping? ──no──► step() ──┼── Idle, IdleUntil ──► sleep until wakes ≠ seen,
//!        ▲               │ yes                  └── Done                or the time ──┐
//!        │               ▼                           ▼                                │
//!        │              end ◄────────────────────────┘                                │
//!        └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//!
//! * **No wake-up is lost.** The count of wake-ups is read before the step, so one that comes
//!   during the step, or between the step and the sleep, makes the count differ, and the work is
//!   called again.
//! * **Background threads give way.** On Linux they run at a niceness of [`NICENESS`] above the
//!   thread that starts them.
//! * **Waking is cheap.** It is [`Event::notify`]: one atomic addition while the thread is busy.
//! * **No panic is lost.** The message is printed when it happens, as for any thread;
//!   [`Worker::stop`] then carries the panic on in the thread that called it. Who waits for the
//!   result of a worker that has panicked would wait for ever; so [`Workers::wait`] looks for such
//!   a worker every [`PANIC_CHECK`] and panics too. It cannot know whose result it waits for, and
//!   need not: a panic means that an invariant of ours is broken, and then waiting is no answer.
//!
//! Under the schedule explorer a panic in any thread ends the exploration, so nothing has to be
//! looked for.
//!
//! Tested by the contract suite, and for every order of steps by `tests/shuttle.rs`.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Clock;
use crate::env::{Event, Progress, Work, Worker};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread;
use crate::sync::{Mutex, Rank};

/// How long a waiting thread can overlook that a worker has panicked. Panics are bugs, so this may
/// be long; a thread that waits wakes up this often for nothing, so it should not be short.
const PANIC_CHECK: Duration = Duration::from_secs(1);

/// The background of one environment: its clock and what its workers share.
#[derive(Debug)]
pub(crate) struct Workers {
    clock: Arc<Clock>,
    panicked: Arc<OnceLock<String>>,
}

impl Workers {
    pub(crate) fn new() -> Self {
        Self { clock: Arc::new(Clock::new()), panicked: Arc::default() }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// [`crate::Env::start`]. Fails if the operating system gives no thread.
    pub(crate) fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        let signal = Arc::new(Signal::default());
        let looping = Loop {
            signal: signal.clone(),
            clock: self.clock.clone(),
            panicked: self.panicked.clone(),
            name: name.into(),
        };
        let thread = thread::Builder::new().name(name.into()).spawn(move || looping.run(work))?;
        Ok(Arc::new(Handle { signal, thread: Mutex::new(Rank::WorkerThread, Some(thread)) }))
    }

    /// [`crate::Env::wait`].
    ///
    /// # Panics
    /// If a worker of this environment has panicked and `ready` stays false.
    pub(crate) fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        loop {
            // Before `ready`: a change after `ready` has looked makes the count differ, and ends
            // the sleep.
            let seen = event.count();
            if ready() {
                return true;
            }
            if deadline.is_some_and(|deadline| deadline <= self.clock.now()) {
                return false;
            }
            if let Some(name) = self.panicked.get() {
                panic!("the background worker {name:?} panicked, so what this thread waits for may never come");
            }
            self.clock.sleep(event, seen, self.next_look(deadline));
        }
    }

    /// When to look again although nothing happened.
    fn next_look(&self, deadline: Option<Duration>) -> Option<Duration> {
        if cfg!(feature = "shuttle") {
            return deadline;
        }
        let check = self.clock.now() + PANIC_CHECK;
        Some(deadline.map_or(check, |deadline| deadline.min(check)))
    }
}

/// What a worker's handle tells its thread.
#[derive(Debug, Default)]
struct Signal {
    wakes: Event,
    stopping: AtomicBool,
}

impl Signal {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wakes.notify();
    }
}

/// The thread's side of a worker.
struct Loop {
    signal: Arc<Signal>,
    clock: Arc<Clock>,
    panicked: Arc<OnceLock<String>>,
    name: String,
}

impl Loop {
    /// Consumes the work, so that it is released when the thread ends.
    fn run(self, work: Arc<dyn Work>) {
        lower_priority();
        loop {
            let seen = self.signal.wakes.count();
            if self.signal.stopping.load(Ordering::Acquire) {
                return;
            }
            match work.step() {
                Progress::More => {}
                Progress::Idle => self.clock.sleep(&self.signal.wakes, seen, None),
                Progress::IdleUntil(time) => self.clock.sleep(&self.signal.wakes, seen, Some(time)),
                Progress::Done => return,
            }
        }
    }
}

/// Lets threads that the user waits for have the processor first. A get beside compactions on all
/// cores then waits less often for a time slice to end. Compactions use idle time, and about a
/// quarter of a core for which another thread competes.
///
/// If the operating system refuses, the priority stays as it is.
#[cfg(all(target_os = "linux", not(miri), not(feature = "shuttle")))]
fn lower_priority() {
    // Of this thread only: Linux keeps a niceness for each thread.
    let _unchanged = rustix::process::nice(NICENESS);
}

/// Elsewhere the call would change the whole process; so it would under the schedule explorer,
/// whose threads are one.
#[cfg(not(all(target_os = "linux", not(miri), not(feature = "shuttle"))))]
fn lower_priority() {}

/// What background threads add to their niceness. Five steps are a third of the processor time of a
/// thread without.
#[cfg(all(target_os = "linux", not(miri), not(feature = "shuttle")))]
const NICENESS: i32 = 5;

impl Drop for Loop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.panicked.get_or_init(|| self.name.clone());
        }
    }
}

/// The owner's side of a worker.
struct Handle {
    signal: Arc<Signal>,
    /// Whoever stops the worker first takes the thread and holds this lock until it has ended, so
    /// that all others who stop it wait too.
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Worker for Handle {
    fn wake(&self) {
        self.signal.wakes.notify();
    }

    fn stop(&self) {
        self.signal.stop();
        let mut thread = self.thread.lock();
        let ended = thread.take().map(thread::JoinHandle::join);
        // A panic must not be carried on under the lock, which would panic in turn for the next one
        // who stops.
        drop(thread);
        // If this thread is unwinding already, a second panic would abort the process and hide the
        // first.
        if let Some(Err(panic)) = ended
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl Drop for Handle {
    /// A worker that nobody can wake or stop any more ends by itself; nobody waits for that.
    fn drop(&mut self) {
        self.signal.stop();
    }
}
