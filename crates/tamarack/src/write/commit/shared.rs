//! [`Group`]: a commit group as its members share it, and how they wait for it.

use std::sync::{Arc, OnceLock};

use tamarack_env::sync::atomic::{AtomicU32, Ordering};
use tamarack_env::sync::{Condvar, Mutex, Rank, thread};

use crate::entry::Sequence;
use crate::error::Result;
use crate::memtable::Memtable;

/// One commit group, as its members share it.
pub(super) struct Group {
    phase: AtomicU32,
    /// Members that have not applied their entries yet.
    pub(super) unapplied: AtomicU32,
    /// Set before the phase becomes `LOGGED` or `FAILED`. A leader that is alone sets neither.
    outcome: OnceLock<Result<Logged>>,
    /// Members that sleep until the phase changes, or are about to.
    pub(super) sleepers: AtomicU32,
    /// Held by a member from counting itself until it sleeps, and by whoever wakes members.
    falling_asleep: Mutex<()>,
    changed: Condvar,
}

/// A logged group's sequences and memtable.
#[derive(Clone)]
pub(super) struct Logged {
    pub(super) first: Sequence,
    pub(super) last: Sequence,
    pub(super) number: u64,
    pub(super) ticket: u64,
    pub(super) memtable: Arc<Memtable>,
}

/// Phases of a group, in order; a forming group may alternate between the first two.
pub(super) const FORMING: u32 = 0;
/// Forming, and no group is led: a member should lead.
pub(super) const VACANT: u32 = 1;
/// Taken by a leader; closed to new members.
pub(super) const LED: u32 = 2;
pub(super) const LOGGED: u32 = 3;
pub(super) const FAILED: u32 = 4;
pub(super) const PUBLISHED: u32 = 5;

impl Group {
    pub(super) fn new() -> Self {
        Self {
            phase: AtomicU32::new(FORMING),
            unapplied: AtomicU32::new(0),
            outcome: OnceLock::new(),
            sleepers: AtomicU32::new(0),
            falling_asleep: Mutex::new(Rank::CommitGroup, ()),
            changed: Condvar::new(),
        }
    }

    pub(super) fn phase(&self) -> u32 {
        self.phase.load(Ordering::SeqCst)
    }

    pub(super) fn outcome(&self) -> Result<Logged> {
        self.outcome.get().expect("a group that was logged or failed has an outcome").clone()
    }

    pub(super) fn finish(&self, outcome: Result<Logged>) {
        let phase = if outcome.is_ok() { LOGGED } else { FAILED };
        assert!(self.outcome.set(outcome).is_ok(), "a group is led once");
        self.set_phase(phase);
    }

    #[inline]
    pub(super) fn set_phase(&self, phase: u32) {
        self.set_phase_quietly(phase);
        self.wake();
    }

    #[inline]
    pub(super) fn set_phase_quietly(&self, phase: u32) {
        self.phase.store(phase, Ordering::SeqCst);
    }

    /// Wakes the members that sleep.
    #[inline]
    pub(super) fn wake(&self) {
        // A member counts itself and then reads the phase; this thread has set the phase and then
        // reads the count. With sequential consistency, at least one sees the other.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_sleepers();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_sleepers(&self) {
        // A member that saw the old phase keeps the lock until it sleeps.
        let _falling_asleep = self.falling_asleep.lock();
        self.changed.notify_all();
    }

    /// Blocks until `done` accepts the phase, and returns it. Spins first, for about the time that
    /// another member needs to write to the page cache and to apply its entries; then yields, for
    /// about the time of waking a thread; then sleeps.
    pub(super) fn wait(&self, done: impl Fn(u32) -> bool) -> u32 {
        for turn in 0..SPINS + YIELDS {
            let phase = self.phase();
            if done(phase) {
                return phase;
            }
            if turn < SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
        let mut falling_asleep = self.falling_asleep.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let phase = self.phase();
            if done(phase) {
                self.sleepers.fetch_sub(1, Ordering::Relaxed);
                return phase;
            }
            falling_asleep = self.changed.wait(falling_asleep);
        }
    }
}

/// About 30 µs if no other thread is runnable: waking a thread takes 25 to 50 µs on a virtual
/// machine.
const YIELDS: u32 = if cfg!(feature = "shuttle") { 1 } else { 60 };

/// About 3 µs: a spin-loop pause takes 40 to 140 cycles on machines of the last ten years. The
/// schedule explorer gains nothing from spinning.
const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 100 };
