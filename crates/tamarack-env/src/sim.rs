//! Fault simulator: a machine with failing disks and power, deterministic from a seed.
//!
//! [`SimEnv`] implements the contract of [`mod@crate::env`] in memory, to the letter: a crash loses
//! everything that the contract does not guarantee. Its behaviour depends on its seed and the calls
//! alone, so every finding can be reproduced.
//!
//! # Faults, and their causes in real machines
//!
//! **Power fails** ([`SimEnv::image`], [`Crash`]). The operating system writes its cache out at any
//! time and in any order: any subset of unsynced writes may survive. Devices write sectors of 512
//! or 4096 bytes atomically: a write may survive in part. A file's length, its data and its name
//! are written by different parts of a file system: each may survive without the others, data may
//! be zeros below a new length, and a file that was written and synced with care may have no name
//! if its directory was not. A removed file is back if its removal was not synced.
//!
//! **The process dies** ([`SimEnv::process_image`], [`SimEnv::kill`]). The cache belongs to the
//! operating system and survives; only locks, workers and handles are gone. Unsynced data stays
//! unsynced, and a later loss of power may lose it.
//!
//! **Calls fail** ([`SimEnv::inject`], [`Failure`]). Cables and media cause transient or permanent
//! I/O errors on any call, also on one read of a batch. A call may fail although it took effect,
//! when only the answer was lost. Reads and writes may be short. Disks fill up
//! ([`SimEnv::set_capacity`]) and are freed again; the last write that fits is short, or the sync
//! after it fails ([`SimEnv::delay_allocation`]).
//!
//! **Syncs fail**, in three ways that file systems were found to have (Rebello et al., "Can
//! Applications Recover from fsync Failures?", 2020): pages stay dirty and the next sync writes
//! them; pages are marked clean, so that they can be read and the next sync reports success without
//! having written them; data is thrown away while the new length, being metadata, is kept.
//!
//! **Disks lie.** A write can be acknowledged and lost, or land in the wrong place
//! ([`Failure::LostWrite`], [`Failure::MisdirectedWrite`]); bytes at rest can rot, be cut off, or
//! be exchanged ([`SimEnv::flip_bit`], [`SimEnv::truncate`], [`SimEnv::swap`]).
//!
//! **Disks are slow**, on a virtual clock that otherwise advances only when every thread waits:
//! each call takes the same time ([`SimEnv::set_cost`]), or that of a device whose bandwidth all
//! calls share ([`SimEnv::set_device`], [`Device`]).
//!
//! **Programmers forget** ([`SimEnv::omit`], [`SimEnv::delay`]). Not a fault of machines: switches
//! that omit one named step of the code under test, or delay it past a later one, to check that a
//! test notices. A crash test that passes without the syncs tests nothing.
//!
//! # Use
//!
//! A harness runs a workload once, with a hook ([`SimEnv::set_hook`]) that is called before every
//! call that changes storage and makes any number of images there ([`Moment::image`]), each a
//! machine of its own to open the database on. Images share all pages with their origin until one
//! of them writes, so an image costs microseconds. [`SimEnv::identity`] tells images apart, so that
//! only different ones are counted.
//!
//! ```
//! use std::path::Path;
//! use tamarack_env::sim::{Crash, Moment};
//! use tamarack_env::{Env, SimEnv, Step};
//!
//! // The workload: acknowledged data must survive any crash. Without either sync, it does not.
//! let env = SimEnv::new(7);
//! let file = env.create(Path::new("/f"), Step("create"))?;
//! file.write_all_at(b"acknowledged", 0, Step("write"))?;
//! file.sync(Step("sync"))?;
//! env.sync_dir(Path::new("/"), Step("sync directory"))?;
//!
//! // From here on, it is checked before each further change, in four crashes each.
//! env.set_hook(|moment: &Moment<'_>| {
//!     for seed in 0..4 {
//!         let image = moment.image(Crash::draw(seed, moment.unsynced_changes()));
//!         let content = image.content("/f").unwrap();
//!         assert!(content.starts_with(b"acknowledged"), "seed {seed}, {:?}", moment.call);
//!     }
//! });
//! file.write_all_at(b"more", 12, Step("write"))?;
//! file.sync(Step("sync"))?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Nothing runs by itself: background workers step inside [`Env::wait`], [`SimEnv::run_until`] and
//! the like, on the caller's thread.
//!
//! # Time with a device
//!
//! Without a device, there is one clock, and a step that advances it makes everybody wait. With
//! one, workers run concurrently with the caller and each other, and compete only for the device:
//!
//! ```text
//! caller     ── put ── wait ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ deadline ─▶  until its deadline, exactly
//! worker 1   ├──── step ────┼────── step ──────┼── step ──┤    each begins when the last has ended
//! worker 2        ├─ step ──┼─── step ────┤  idle              or when the worker is woken
//! ```
//!
//! A step still runs in one go, with a clock that begins at the step's begin; its cost occupies its
//! worker and not the waiting thread. Three things follow:
//!
//! * An event's waiter is notified at the end of the step that notified it. Memory that the step
//!   changed can be read from its begin on: early by the length of a step, at most, for threads
//!   that read it without waiting.
//! * For the same reason [`Env::now`] goes back for nobody, but a time that a step recorded may be
//!   ahead of its reader's: subtract times of others saturating.
//! * Workers continue while the caller makes calls, but their effects show only when it waits, and
//!   then they catch up: each step begins at the time when it would have. A driver calls
//!   [`SimEnv::run_until`] between operations.
//!
//! There is a processor for every worker, whatever [`Env::cores`] says.
//!
//! # Limits
//!
//! Not simulated: symbolic links, several names of a file within one directory, permissions,
//! removed or moved directories, sectors with neither old nor new bytes after a loss of power (flip
//! bits instead), and the effects of real threads, which need a schedule explorer.
//!
//! # Tests
//!
//! Each fault is provoked and observed, beside a control without it (`sim/tests.rs`); the contract
//! suite of this crate runs on the simulator as on the other environments.

mod background;
mod content;
mod crash;
mod device;
mod disk;
mod fault;
mod file;
mod inode;
mod machine;
#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use self::crash::{Crash, Sector};
pub use self::device::Device;
pub use self::fault::{Call, CallKind, Failure, Fault};

use self::background::Process;
use self::disk::Disk;
use self::file::{SimFile, SimLock};
use self::inode::Inode;
use self::machine::{Inherited, Machine, Operation, Outcome, call};
use crate::env::{Access, Env, Event, File, Lock, ReadQueue, ReadRequest, Space, Step, Work, Worker};

/// A simulated machine, as one simulated process sees it. Clones are handles to the same process.
#[derive(Clone, Debug)]
pub struct SimEnv {
    machine: Arc<Machine>,
    process: Arc<Process>,
}

/// The moment before a call that changes storage, as the hook sees it.
#[derive(Debug)]
pub struct Moment<'a> {
    /// The call about to be made. A call that [`SimEnv::delay`] postpones appears when it takes
    /// effect.
    pub call: &'a Call,
    disk: &'a Disk,
    inherited: Inherited,
}

/// Default of [`Env::cores`]: the smallest number for which code under test starts several workers,
/// whose steps then run in any order.
const CORES: usize = 2;

/// Maximum number of concurrent reads of a queue.
const BATCH_MAX: usize = 128;

/// Machines made from machines.
impl SimEnv {
    /// Returns a machine with an empty disk: only the directory `/`. Relative paths begin there
    /// too.
    pub fn new(seed: u64) -> Self {
        Self::with_disk(Disk::default(), Inherited { seed, clock: Duration::ZERO, cores: CORES, device: None })
    }

    /// Returns the machine after a loss of power at this moment: a new one, independent of this
    /// one. It has no switches, faults, locks or workers, a disk of the same size with everything
    /// that survives `crash`, all of it durable, a clock that continues from here, and an idle
    /// device of the same speed.
    pub fn image(&self, crash: Crash) -> Self {
        Self::with_disk(crash::crashed(&self.machine.disk(), crash), self.machine.inherited())
    }

    /// Returns the machine after the death of the process at this moment, as a new and independent
    /// one: everything is as it was, and unsynced data can still be lost.
    pub fn process_image(&self) -> Self {
        Self::with_disk(crash::process_ended(&self.machine.disk()), self.machine.inherited())
    }

    /// Ends the process and returns a new one on the same machine. From now on every call through
    /// an old handle (this one, its clones, files, locks, workers) fails without effect or does
    /// nothing; locks are free; workers are gone without a last step; delayed calls never happen.
    /// The hook, faults, switches and the recorded calls stay. May be called from the hook, also
    /// within a background step.
    pub fn kill(&self) -> Self {
        self.process.kill();
        self.machine.process_ended();
        Self { machine: self.machine.clone(), process: Process::new(self.machine.with(|state| state.random.next())) }
    }

    /// Number of unsynced changes of all files and directories.
    pub fn unsynced_changes(&self) -> usize {
        self.machine.disk().unsynced_count()
    }

    /// A hash of all names and contents as processes see them; equal for equal disks.
    pub fn identity(&self) -> u64 {
        crash::identity(&self.machine.disk())
    }

    /// Calls `hook` before every call that changes storage, in place of an earlier hook. It may
    /// make images and call this environment's reading methods and [`SimEnv::kill`]; after the
    /// latter, the call that was about to be made fails. Calls that other threads make while
    /// the hook runs go unseen.
    pub fn set_hook(&self, mut hook: impl FnMut(&Moment<'_>) + Send + 'static) {
        self.machine.with(|state| {
            state.hook = Some(Box::new(move |call, disk, inherited| hook(&Moment { call, disk, inherited })));
        });
    }

    /// Removes the hook. Has no effect from within the hook, which is restored when it returns.
    pub fn clear_hook(&self) {
        self.machine.with(|state| state.hook = None);
    }

    fn with_disk(disk: Disk, inherited: Inherited) -> Self {
        Self { process: Process::new(inherited.seed), machine: Machine::new(disk, inherited) }
    }
}

impl Moment<'_> {
    /// As [`SimEnv::image`].
    pub fn image(&self, crash: Crash) -> SimEnv {
        SimEnv::with_disk(crash::crashed(self.disk, crash), self.inherited)
    }

    /// As [`SimEnv::process_image`].
    pub fn process_image(&self) -> SimEnv {
        SimEnv::with_disk(crash::process_ended(self.disk), self.inherited)
    }

    /// As [`SimEnv::unsynced_changes`].
    pub fn unsynced_changes(&self) -> usize {
        self.disk.unsynced_count()
    }
}

/// Switches and faults, and their effects.
impl SimEnv {
    /// Calls with this step return `Ok` and do nothing.
    ///
    /// # Panics
    /// Later, if the step turns out to create a file or a directory.
    pub fn omit(&self, step: Step) {
        self.machine.with(|state| state.omitted.insert(step));
    }

    /// Calls with this step return `Ok` and happen right after the next call with step
    /// `until_after`: never, if that never comes. The hook sees such a call when it happens, so
    /// it also sees the state in between; a failure then is not reported.
    ///
    /// # Panics
    /// Later, if the step turns out to create a file or a directory.
    pub fn delay(&self, step: Step, until_after: Step) {
        self.machine.with(|state| state.delays.insert(step, until_after));
    }

    /// Injects a fault. If several faults match a call, the first one takes effect.
    pub fn inject(&self, fault: Fault) {
        self.machine.with(|state| state.faults.push(fault));
    }

    /// Withdraws all faults.
    pub fn clear_faults(&self) {
        self.machine.with(|state| state.faults.clear());
    }

    /// Number of calls that faults have affected.
    pub fn faults_shown(&self) -> u64 {
        self.machine.with(|state| state.faults_shown)
    }

    /// Limits the disk to so many bytes, rounded down to pages of 4 KiB; `None` is without limit.
    /// Files take the pages up to their last written one, or what was allocated; removed files
    /// take space while they are open.
    pub fn set_capacity(&self, capacity_bytes: Option<u64>) {
        self.machine.with(|state| state.disk_mut().capacity_bytes = capacity_bytes);
    }

    /// Whether written pages get their place on the disk only when they are synced, as on file
    /// systems that report a full disk as late as that (network file systems among them):
    /// writes go through, and a sync for whose pages there is no space fails and throws them away.
    /// What was allocated or reserved has its place. False at first.
    pub fn delay_allocation(&self, delayed: bool) {
        self.machine.with(|state| state.disk_mut().delayed_allocation = delayed);
    }

    /// Space taken on the disk, in bytes, as [`SimEnv::set_capacity`] counts it.
    pub fn used_bytes(&self) -> u64 {
        self.machine.disk().used_bytes()
    }

    /// Number of calls so far, reads included: the number of the next call.
    pub fn calls_made(&self) -> u64 {
        self.machine.with(|state| state.next_call)
    }

    /// Number of calls per step, omitted and failed ones included.
    pub fn step_counts(&self) -> BTreeMap<Step, u64> {
        self.machine.with(|state| state.step_counts.clone())
    }

    /// Starts to record every call.
    pub fn start_recording(&self) {
        self.machine.with(|state| state.log = Some(Vec::new()));
    }

    /// Stops recording; returns the calls since [`SimEnv::start_recording`].
    pub fn stop_recording(&self) -> Vec<Call> {
        self.machine.with(|state| state.log.take().unwrap_or_default())
    }
}

/// Time and background work.
impl SimEnv {
    /// The results of these reads, with their index among them, in the order in which they were
    /// carried out.
    fn read_at_once(&self, requests: &[ReadRequest]) -> Vec<(usize, io::Result<Vec<u8>>)> {
        let (began, has_device) = (self.machine.now(), self.machine.has_device());
        let mut over = began;
        let mut brought = Vec::with_capacity(requests.len());
        for place in self.machine.with(|state| state.batch_order(requests.len())) {
            if has_device {
                self.machine.turn_to(began);
            }
            let mut memory = vec![0; requests[place].bytes];
            let outcome = requests[place].file.read_exact_at(&mut memory, requests[place].offset);
            brought.push((place, outcome.map(|()| memory)));
            over = over.max(self.machine.now());
        }
        if has_device {
            self.machine.turn_to(over);
        }
        brought
    }
}

impl SimEnv {
    /// Sets the time of every call, and the additional time per byte read or written. Both are zero
    /// at first.
    pub fn set_cost(&self, per_call: Duration, per_byte: Duration) {
        self.machine.with(|state| (state.cost_per_call, state.cost_per_byte) = (per_call, per_byte));
    }

    /// Makes calls take the time of this device, in addition to [`SimEnv::set_cost`]; `None`, the
    /// default, takes no time. Images have the same device. Data written before counts as clean,
    /// and the device is idle.
    ///
    /// # Panics
    /// If one of the device's rates is 0, or after [`SimEnv::expect_threads`]: other threads have
    /// no times of their own.
    pub fn set_device(&self, device: Option<Device>) {
        assert!(device.is_none() || !self.process.expects_threads(), "a device serves one thread and its workers");
        self.machine.with(|state| state.set_device(device));
    }

    /// Sets the answer of [`Env::cores`], which is 2 at first, also for images. Nothing else
    /// depends on it.
    ///
    /// # Panics
    /// If `cores` is 0.
    pub fn set_cores(&self, cores: usize) {
        assert!(cores > 0, "a machine has at least one core");
        self.machine.with(|state| state.cores = cores);
    }

    /// Lets time pass until `moment`, with workers running in it, also in the time before now
    /// during which calls kept them from running. [`Env::sleep_until`] only lets time pass.
    pub fn run_until(&self, moment: Duration) {
        self.process.run_until(&self.machine, moment);
    }

    /// Advances the clock without background work.
    pub fn advance(&self, time: Duration) {
        self.machine.advance_to(self.now() + time);
    }

    /// Lets one runnable worker take one step; false if all are idle, or with a device, still busy
    /// with their last.
    pub fn step_background(&self) -> bool {
        self.process.step(&self.machine).is_some()
    }

    /// Lets workers take steps until all are idle. Time passes only by their steps, so workers that
    /// wait for a time are idle.
    pub fn run_background_until_idle(&self) {
        self.process.run_until_idle(&self.machine);
    }

    /// Says that other threads use this process too: a wait that nothing on its own thread can end
    /// gives them time instead of panicking.
    ///
    /// # Panics
    /// If there is a device: see [`SimEnv::set_device`].
    pub fn expect_threads(&self) {
        assert!(!self.machine.has_device(), "a device serves one thread and its workers");
        self.process.expect_threads();
    }
}

/// Reading and damaging the disk. None of this is a call: nothing is counted, hooked or failed.
impl SimEnv {
    /// Content of a file as processes see it.
    pub fn content(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let disk = self.machine.disk();
        Ok(disk.file(disk.file_at(path.as_ref())?).volatile.to_vec())
    }

    /// All bytes of a file that survive any loss of power, for a file that has a name now.
    pub fn durable_content(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let disk = self.machine.disk();
        Ok(disk.file(disk.file_at(path.as_ref())?).durable.to_vec())
    }

    /// The paths of all files, sorted, with their lengths in bytes.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.machine.disk().all_files()
    }

    /// The sum of all files' lengths in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files().iter().map(|(_, length)| length).sum()
    }

    /// Flips one bit at rest: `bit` 0 is the lowest of the byte at `offset`, 8 and more lie in the
    /// bytes after it. Past the end nothing happens.
    pub fn flip_bit(&self, path: impl AsRef<Path>, offset: u64, bit: u64) -> io::Result<()> {
        let at = offset + bit / 8;
        self.damage(path.as_ref(), |content| {
            let mut byte = [0];
            if content.read(&mut byte, at) == 1 {
                content.put(&[byte[0] ^ 1 << (bit % 8)], at);
            }
        })
    }

    /// Overwrites bytes at rest, growing the file if needed.
    pub fn overwrite(&self, path: impl AsRef<Path>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.damage(path.as_ref(), |content| content.write(bytes, offset))
    }

    /// Cuts a file at rest, or extends it with zeros.
    pub fn truncate(&self, path: impl AsRef<Path>, length: u64) -> io::Result<()> {
        self.damage(path.as_ref(), |content| content.set_len(length))
    }

    /// Lets two files exchange their content at rest.
    pub fn swap(&self, a: impl AsRef<Path>, b: impl AsRef<Path>) -> io::Result<()> {
        self.machine.with(|state| {
            let (a, b) = (state.disk.file_at(a.as_ref())?, state.disk.file_at(b.as_ref())?);
            state.disk_mut().swap(a, b);
            Ok(())
        })
    }

    fn damage(&self, path: &Path, damage: impl FnMut(&mut content::Content)) -> io::Result<()> {
        self.machine.with(|state| {
            let inode = state.disk.file_at(path)?;
            state.disk_mut().damage(inode, damage);
            Ok(())
        })
    }
}

impl SimEnv {
    fn change(&self, kind: CallKind, step: Step, path: &Path, operation: Operation) -> io::Result<Outcome> {
        self.machine.change(&self.process.life, call(kind, Some(step), path.into(), 0, 0), operation)
    }

    fn observe(&self, kind: CallKind, path: &Path) -> io::Result<()> {
        self.machine.observe(&self.process.life, call(kind, None, path.into(), 0, 0)).map(|_| ())
    }

    fn file(&self, inode: Inode, path: &Path, access: Access) -> Arc<dyn File> {
        SimFile::new(self.machine.clone(), self.process.clone(), inode, path, access)
    }
}

impl Env for SimEnv {
    fn create_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.change(CallKind::CreateDir, step, dir, Operation::CreateDir).map(|_| ())
    }

    fn sync_dir(&self, dir: &Path, step: Step) -> io::Result<()> {
        self.change(CallKind::SyncDir, step, dir, Operation::SyncDir).map(|_| ())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.observe(CallKind::List, dir)?;
        self.machine.disk().list(dir)
    }

    fn rename(&self, from: &Path, to: &Path, step: Step) -> io::Result<()> {
        self.change(CallKind::Rename, step, from, Operation::Rename { to: to.to_owned() }).map(|_| ())
    }

    fn hard_link(&self, from: &Path, to: &Path, step: Step) -> io::Result<()> {
        self.change(CallKind::HardLink, step, from, Operation::HardLink { to: to.to_owned() }).map(|_| ())
    }

    fn remove(&self, path: &Path, step: Step) -> io::Result<()> {
        self.change(CallKind::Remove, step, path, Operation::Remove).map(|_| ())
    }

    fn space(&self, dir: &Path) -> io::Result<Option<Space>> {
        self.observe(CallKind::Space, dir)?;
        Ok(self.machine.disk().space())
    }

    fn create(&self, path: &Path, step: Step) -> io::Result<Arc<dyn File>> {
        match self.change(CallKind::Create, step, path, Operation::Create)? {
            Outcome::Created(inode) => Ok(self.file(inode, path, Access::ReadWrite)),
            other => unreachable!("a create gave {other:?}"),
        }
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        self.observe(CallKind::Open, path)?;
        let inode = self.machine.disk().file_at(path)?;
        Ok(self.file(inode, path, access))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.observe(CallKind::Lock, path)?;
        SimLock::take(self.machine.clone(), path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.observe(CallKind::Lock, path)?;
        SimLock::share(self.machine.clone(), path)
    }

    /// Reads everything that the queue has at a time, and then hands it over, in an order drawn
    /// from the seed. Each request is a call of its own, which can fail and be short. On a device
    /// all begin at the same moment, and their results are handed over when the last has ended.
    fn read_queue(&self, queue: &mut dyn ReadQueue) {
        let mut first = 0;
        loop {
            let requests: Vec<_> = std::iter::from_fn(|| queue.next()).take(BATCH_MAX).collect();
            if requests.is_empty() {
                return;
            }
            for (place, outcome) in self.read_at_once(&requests) {
                match outcome {
                    Ok(bytes) => queue.arrived(first + place, Ok(&bytes)),
                    Err(error) => queue.arrived(first + place, Err(error)),
                }
            }
            first += requests.len();
        }
    }

    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn unix_time(&self) -> Duration {
        // 2020-09-13 12:26:40 UTC: any fixed day, as long as it is not 1970, which would hide a
        // confusion of the two clocks.
        Duration::from_secs(1_600_000_000) + self.machine.now()
    }

    fn random(&self) -> u64 {
        self.machine.with(|state| state.random.next())
    }

    fn cores(&self) -> usize {
        self.machine.with(|state| state.cores)
    }

    fn start(&self, name: &str, work: Arc<dyn Work>) -> io::Result<Arc<dyn Worker>> {
        self.process.start(&self.machine, name, work)
    }

    /// As the contract says; moreover, false at once if the process was killed.
    ///
    /// # Panics
    /// If nothing can ever make `ready` true: see [`SimEnv::expect_threads`].
    fn wait(&self, event: &Event, deadline: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        self.process.wait(&self.machine, event, deadline, ready)
    }
}
