//! The machine: one disk, one clock, and the one path on which every call travels.
//!
//! ```text
//! call ──┬──────────▶ numbered, counted, logged ── hook ── omitted? ── struck by a fault? ── disk
//!        └─ delayed? ──┘ once a call with the awaited step has come to the end of this line
//! ```
//!
//! The state has one lock. It is never held while foreign code runs that may call the environment:
//! the hook sees the disk through a shared pointer taken before the lock is released. The disk is
//! copied on write, so looking costs nothing unless another thread changes it meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::device::{Device, Storage};
use super::disk::Disk;
use super::fault::{Call, CallKind, Failure, Fault};
use super::inode::{FailedSync, Inode};
use crate::env::Step;
use crate::random::Random;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, Rank, apart};

/// Called with each call that changes storage, the disk as it is before, and what else an image
/// needs.
pub(super) type Hook = Box<dyn FnMut(&Call, &Disk, Inherited) + Send>;

/// What an image has from its machine, besides the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inherited {
    pub(super) seed: u64,
    pub(super) clock: Duration,
    pub(super) cores: usize,
    pub(super) device: Option<Device>,
}

pub(super) struct Machine {
    seed: u64,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) disk: Arc<Disk>,
    pub(super) next_call: u64,
    pub(super) hook: Option<Hook>,
    /// The calls so far, if they are wanted.
    pub(super) log: Option<Vec<Call>>,
    pub(super) step_counts: BTreeMap<Step, u64>,
    pub(super) omitted: BTreeSet<Step>,
    /// Which step waits until after which.
    pub(super) delays: BTreeMap<Step, Step>,
    deferred: Vec<Deferred>,
    pub(super) faults: Vec<Fault>,
    pub(super) faults_shown: u64,
    /// Locked files, each with who holds the lock.
    locks: BTreeMap<Inode, Holders>,
    locks_taken: u64,
    /// The time of whoever makes calls now: with a device, each background step has a time of its
    /// own.
    clock: Duration,
    pub(super) cores: usize,
    storage: Option<Storage>,
    pub(super) cost_per_call: Duration,
    pub(super) cost_per_byte: Duration,
    pub(super) random: Random,
    fault_random: Random,
    batch_random: Random,
}

/// Who holds a lock: one, or any number of those that share it.
struct Holders {
    share: bool,
    numbers: BTreeSet<u64>,
}

/// A call that has returned `Ok` and not happened yet.
struct Deferred {
    until_after: Step,
    call: Call,
    operation: Operation,
}

/// What a call does to the disk.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    CreateDir,
    SyncDir,
    Rename { to: PathBuf },
    HardLink { to: PathBuf },
    Remove,
    Create,
    Write { inode: Inode, bytes: Arc<[u8]> },
    Sync { inode: Inode },
    SetLen { inode: Inode },
    Allocate { inode: Inode },
    Reserve { inode: Inode },
}

/// What came of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Done,
    Created(Inode),
    Wrote(usize),
}

/// Whether a process still lives: the calls of a dead one change nothing.
#[derive(Debug, Default)]
pub(super) struct Life {
    ended: AtomicBool,
}

impl Life {
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    pub(super) fn check(&self) -> io::Result<()> {
        match self.ended.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(io::Error::other("the simulated process was killed")),
        }
    }
}

impl Machine {
    pub(super) fn new(disk: Disk, inherited: Inherited) -> Arc<Self> {
        let Inherited { seed, clock, cores, device } = inherited;
        Arc::new(Self {
            seed,
            state: Mutex::new(
                Rank::SimMachine,
                State {
                    disk: Arc::new(disk),
                    next_call: 0,
                    hook: None,
                    log: None,
                    step_counts: BTreeMap::new(),
                    omitted: BTreeSet::new(),
                    delays: BTreeMap::new(),
                    deferred: Vec::new(),
                    faults: Vec::new(),
                    faults_shown: 0,
                    locks: BTreeMap::new(),
                    locks_taken: 0,
                    clock,
                    cores,
                    storage: device.map(Storage::new),
                    cost_per_call: Duration::ZERO,
                    cost_per_byte: Duration::ZERO,
                    random: Random::for_purpose(seed, 0x0A11),
                    fault_random: Random::for_purpose(seed, 0xFA17),
                    batch_random: Random::for_purpose(seed, 0xBA7C),
                },
            ),
        })
    }

    /// Runs `f` on the state, under its lock; `f` must not call the environment.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock())
    }

    /// The disk as it is now.
    pub(super) fn disk(&self) -> Arc<Disk> {
        self.state.lock().disk.clone()
    }

    /// What an image made now has from this machine.
    pub(super) fn inherited(&self) -> Inherited {
        let state = self.state.lock();
        let device = state.storage.as_ref().map(|storage| storage.device);
        Inherited { seed: self.seed, clock: state.clock, cores: state.cores, device }
    }

    pub(super) fn now(&self) -> Duration {
        self.state.lock().clock
    }

    pub(super) fn advance_to(&self, moment: Duration) {
        let mut state = self.state.lock();
        state.clock = state.clock.max(moment);
    }

    /// If calls have costs of their own, so that workers work at the same time and not one after
    /// the other.
    pub(super) fn has_device(&self) -> bool {
        self.state.lock().storage.is_some()
    }

    /// Whoever makes calls from now on does so at this time, which may be earlier: it is somebody
    /// else's.
    pub(super) fn turn_to(&self, moment: Duration) {
        self.state.lock().clock = moment;
    }

    /// A call that changes storage.
    pub(super) fn change(&self, life: &Life, call: Call, operation: Operation) -> io::Result<Outcome> {
        life.check()?;
        let step = call.step.expect("a call that changes storage carries its step");
        if let Some(outcome) = self.defer(step, &call, &operation) {
            return Ok(outcome);
        }
        let result = self.carry_out(life, call, operation);
        self.release_deferred(life, step);
        result
    }

    /// A call that only reads: counts it and says how many of its bytes it may read.
    pub(super) fn observe(&self, life: &Life, call: Call) -> io::Result<usize> {
        life.check()?;
        let mut state = self.state.lock();
        let call = state.enter(call);
        match state.strike(&call) {
            None => Ok(call.bytes as usize),
            Some(Failure::ShortRead) => Ok(state.short(call.bytes as usize)),
            Some(_) => Err(input_output_error()),
        }
    }

    /// Takes the lock of a file, which is created if needed.
    pub(super) fn lock(&self, path: &Path) -> io::Result<(Inode, u64)> {
        let mut state = self.state.lock();
        let inode = match state.disk.file_at(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => state.disk_mut().create(path)?,
            found => found?,
        };
        if state.locks.contains_key(&inode) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok((inode, state.hold(inode, false)))
    }

    /// Takes a share of the lock of a file that is there.
    pub(super) fn share_lock(&self, path: &Path) -> io::Result<(Inode, u64)> {
        let mut state = self.state.lock();
        let inode = state.disk.file_at(path)?;
        if state.locks.get(&inode).is_some_and(|holders| !holders.share) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok((inode, state.hold(inode, true)))
    }

    /// Gives a lock back, unless the end of its process has done so already.
    pub(super) fn unlock(&self, inode: Inode, number: u64) {
        let mut state = self.state.lock();
        if let Some(holders) = state.locks.get_mut(&inode) {
            holders.numbers.remove(&number);
            if holders.numbers.is_empty() {
                state.locks.remove(&inode);
            }
        }
        state.disk_mut().closed(inode);
    }

    /// What the end of a process leaves behind: no locks, and nothing that was still to happen.
    pub(super) fn process_ended(&self) {
        let mut state = self.state.lock();
        state.locks.clear();
        state.deferred.clear();
    }

    fn defer(&self, step: Step, call: &Call, operation: &Operation) -> Option<Outcome> {
        let until_after = self.state.lock().delays.get(&step).copied()?;
        let outcome = operation.pretended();
        let mut state = self.state.lock();
        state.deferred.push(Deferred { until_after, call: call.clone(), operation: operation.clone() });
        Some(outcome)
    }

    fn release_deferred(&self, life: &Life, step: Step) {
        loop {
            let deferred = {
                let mut state = self.state.lock();
                let Some(at) = state.deferred.iter().position(|deferred| deferred.until_after == step) else { return };
                state.deferred.remove(at)
            };
            let late_step = deferred.call.step.expect("only calls with a step are delayed");
            if deferred.operation.inode().is_none_or(|inode| self.disk().files.contains_key(&inode)) {
                // Its caller was told `Ok` long ago, so there is nobody left to hear of a failure.
                let _ = self.carry_out(life, deferred.call, deferred.operation);
            }
            self.release_deferred(life, late_step);
        }
    }

    fn carry_out(&self, life: &Life, call: Call, operation: Operation) -> io::Result<Outcome> {
        let call = self.state.lock().enter(call);
        self.call_hook(&call);
        // The hook may have cut the power.
        life.check()?;
        if self.with(|state| call.step.is_some_and(|step| state.omitted.contains(&step))) {
            return Ok(operation.pretended());
        }
        let mut state = self.state.lock();
        match state.strike(&call) {
            None => {
                let outcome = operation.apply(&call, state.disk_mut())?;
                state.charge(&call, &operation, outcome);
                Ok(outcome)
            }
            Some(failure) => state.fail(&call, operation, failure),
        }
    }

    fn call_hook(&self, call: &Call) {
        let Some((mut hook, disk)) = self.with(|state| Some((state.hook.take()?, state.disk.clone()))) else { return };
        let inherited = self.inherited();
        // Its databases are not that of the call, which may hold any lock.
        apart(|| hook(call, &disk, inherited));
        drop(disk);
        self.state.lock().hook.get_or_insert(hook);
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn disk_mut(&mut self) -> &mut Disk {
        Arc::make_mut(&mut self.disk)
    }

    /// Notes one more holder of a lock, and gives it a number.
    fn hold(&mut self, inode: Inode, share: bool) -> u64 {
        self.locks_taken += 1;
        let numbers = &mut self.locks.entry(inode).or_insert(Holders { share, numbers: BTreeSet::new() }).numbers;
        numbers.insert(self.locks_taken);
        self.disk_mut().opened(inode);
        self.locks_taken
    }

    fn enter(&mut self, mut call: Call) -> Call {
        call.number = self.next_call;
        self.next_call += 1;
        if let Some(step) = call.step {
            *self.step_counts.entry(step).or_default() += 1;
        }
        if let Some(log) = &mut self.log {
            log.push(call.clone());
        }
        self.clock += self.cost_per_call + self.cost_per_byte * u32::try_from(call.bytes).unwrap_or(u32::MAX);
        call
    }

    /// Forgets what the device was doing; all that was written counts as clean.
    pub(super) fn set_device(&mut self, device: Option<Device>) {
        self.storage = device.map(Storage::new);
    }

    /// Lets a change that has taken effect take its time.
    fn charge(&mut self, call: &Call, operation: &Operation, outcome: Outcome) {
        let Some(storage) = &mut self.storage else { return };
        let now = self.clock;
        self.clock = match (operation, outcome) {
            (Operation::Write { inode, .. }, Outcome::Wrote(bytes)) => storage.write(now, *inode, call.offset, bytes),
            (Operation::Sync { inode }, _) => storage.sync(now, *inode),
            (Operation::SyncDir, _) => {
                storage.retain(|inode| self.disk.files.contains_key(&inode));
                storage.sync_dir(now)
            }
            (Operation::SetLen { inode }, _) => {
                storage.set_len(*inode, call.offset);
                now
            }
            _ => now,
        };
    }

    /// Lets a read take its time.
    pub(super) fn charge_read(&mut self, inode: Inode, offset: u64, bytes: usize) {
        if let Some(storage) = &mut self.storage {
            self.clock = storage.read(self.clock, inode, offset, bytes);
        }
    }

    pub(super) fn start_writeback(&mut self, inode: Inode, offset: u64, bytes: u64) {
        if let Some(storage) = &mut self.storage {
            storage.start_writeback(self.clock, inode, offset, bytes);
        }
    }

    fn strike(&mut self, call: &Call) -> Option<Failure> {
        let at = self.faults.iter_mut().position(|fault| fault.strikes(call))?;
        let failure = self.faults[at].failure.clone();
        self.faults_shown += 1;
        Some(failure)
    }

    fn fail(&mut self, call: &Call, operation: Operation, failure: Failure) -> io::Result<Outcome> {
        match (failure, operation) {
            (Failure::StorageFull, _) => Err(io::ErrorKind::StorageFull.into()),
            (Failure::CrossesDevices, _) => Err(io::ErrorKind::CrossesDevices.into()),
            (Failure::ErrorAfterEffect, operation) => {
                operation.apply(call, self.disk_mut())?;
                Err(input_output_error())
            }
            (Failure::ShortWrite, Operation::Write { inode, bytes }) => self.write_part(call, inode, &bytes),
            (Failure::PartialWrite, Operation::Write { inode, bytes }) => {
                self.write_part(call, inode, &bytes)?;
                Err(input_output_error())
            }
            (Failure::LostWrite, Operation::Write { inode, bytes }) => {
                self.disk_mut().lose_write(inode, call.offset, &bytes)?;
                Ok(Outcome::Wrote(bytes.len()))
            }
            (Failure::MisdirectedWrite { path, offset }, Operation::Write { inode, bytes }) => {
                self.misdirect(call, inode, &bytes, path, offset)
            }
            (Failure::SyncKeepsPages, Operation::Sync { inode }) => self.fail_sync(inode, FailedSync::KeepsPages),
            (Failure::SyncDropsPages, Operation::Sync { inode }) => self.fail_sync(inode, FailedSync::DropsPages),
            (Failure::SyncKeepsLengthOnly, Operation::Sync { inode }) => {
                self.fail_sync(inode, FailedSync::KeepsLengthOnly)
            }
            _ => Err(input_output_error()),
        }
    }

    fn write_part(&mut self, call: &Call, inode: Inode, bytes: &Arc<[u8]>) -> io::Result<Outcome> {
        let count = self.short(bytes.len());
        self.disk_mut().write(inode, call.offset, &bytes[..count].into()).map(Outcome::Wrote)
    }

    fn misdirect(
        &mut self,
        call: &Call,
        inode: Inode,
        bytes: &[u8],
        path: Option<PathBuf>,
        offset: u64,
    ) -> io::Result<Outcome> {
        self.disk_mut().lose_write(inode, call.offset, bytes)?;
        let victim = path.map_or(Some(inode), |path| self.disk.file_at(&path).ok());
        if let Some(victim) = victim {
            self.disk_mut().stray_write(victim, offset, bytes);
        }
        Ok(Outcome::Wrote(bytes.len()))
    }

    fn fail_sync(&mut self, inode: Inode, way: FailedSync) -> io::Result<Outcome> {
        self.disk_mut().fail_sync(inode, way);
        Err(input_output_error())
    }

    /// The numbers below `count`, in some order.
    pub(super) fn batch_order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for place in (1..count).rev() {
            order.swap(place, self.batch_random.below(place as u64 + 1) as usize);
        }
        order
    }

    /// A number of bytes from 1 to one less than `count`.
    pub(super) fn short(&mut self, count: usize) -> usize {
        1 + self.fault_random.below(count as u64 - 1) as usize
    }
}

impl Operation {
    fn apply(&self, call: &Call, disk: &mut Disk) -> io::Result<Outcome> {
        match self {
            Self::CreateDir => disk.create_dir(&call.path)?,
            Self::SyncDir => disk.sync_dir(&call.path)?,
            Self::Rename { to } => disk.rename(&call.path, to)?,
            Self::HardLink { to } => disk.hard_link(&call.path, to)?,
            Self::Remove => disk.remove(&call.path)?,
            Self::Create => return disk.create(&call.path).map(Outcome::Created),
            Self::Write { inode, bytes } => return disk.write(*inode, call.offset, bytes).map(Outcome::Wrote),
            Self::Sync { inode } => disk.sync(*inode)?,
            Self::SetLen { inode } => disk.set_len(*inode, call.offset)?,
            Self::Allocate { inode } => disk.allocate(*inode, call.offset)?,
            Self::Reserve { inode } => disk.reserve(*inode, call.offset)?,
        }
        Ok(Outcome::Done)
    }

    /// The file it needs, where it does not find it by its name.
    fn inode(&self) -> Option<Inode> {
        match self {
            Self::Write { inode, .. }
            | Self::Sync { inode }
            | Self::SetLen { inode }
            | Self::Allocate { inode }
            | Self::Reserve { inode } => Some(*inode),
            _ => None,
        }
    }

    /// What a call is told that is omitted or delayed. Panics for what cannot be, and so must be
    /// called without the lock.
    fn pretended(&self) -> Outcome {
        match self {
            Self::Write { bytes, .. } => Outcome::Wrote(bytes.len()),
            Self::Create | Self::CreateDir => {
                panic!("what is created is needed at once; it cannot be omitted or delayed")
            }
            _ => Outcome::Done,
        }
    }
}

/// A call that has not been numbered yet.
pub(super) fn call(kind: CallKind, step: Option<Step>, path: Arc<Path>, offset: u64, bytes: usize) -> Call {
    Call { number: 0, kind, step, path, offset, bytes: bytes as u64 }
}

pub(super) fn input_output_error() -> io::Error {
    io::Error::other("simulated input/output error")
}
