//! The commit queue: many writers, one write to the log, one sync.
//!
//! # How a commit goes
//!
//! 1. A writer **joins** the forming group: under the queue's lock its entries are encoded behind
//!    those of the writers before it. The order of joining is the order of commits.
//! 2. If nobody **leads**, it does: it takes the group, seals the buffer first if the group would
//!    overfill it, appends the group to the log with one write, and syncs if a member asked for
//!    that. Meanwhile the next group forms.
//! 3. It gives up the lead (a member of the next group takes it), and every member **applies** its
//!    own entries to the buffer, concurrently with the other members and with the next group's way
//!    into the log.
//! 4. Whoever applies last **publishes** the group: the visible sequence advances over it, once all
//!    groups before it have been published. Every member returns only then, so that it sees its own
//!    write.
//!
//! ```text
//!   group 7   joined ─ logged ─┬─ applied by A ─┬─ published
//!                              └─ applied by B ─┘
//!   group 8       joined ────────── logged ──────── applied by C ─ published (not before 7)
//! ```
//!
//! # Rules
//!
//! * A group whose append failed took no sequence: the log has cut it off, and the next group gets
//!   its numbers.
//! * A group whose sync failed is never applied and never visible; its fate is unknown until the
//!   database is opened again, and nothing is written any more.
//! * A buffer is sealed only between groups; so no group, and no batch, is divided between two
//!   buffers.
//! * The leader never waits for background work. Writers wait for flushes before they join.
//! * A run that is ingested is installed between groups, by who holds the lead and leads no group;
//!   that one waits for a flush, and writers with it.
//! * Before a sync the leader gives writers that were there a moment ago a little time to join; see
//!   `gather`.
//!
//! # Costs
//!
//! An uncontended put takes five locks (the queue's twice, to join and to give up the lead; the
//! lead's, the WAL's, and the publisher's, once each), and makes one checksum, one write, one
//! insertion, and one small allocation for the group. A second writer spins for about as long as a
//! write to the page cache takes, and yields for as long as waking a thread would, before it
//! sleeps.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use tamarack_env::sync::{Condvar, Mutex, MutexGuard, thread};

use crate::database::{Activity, Database};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::format::record;
use crate::memory::{Budget, Charge, MemoryPart};
use crate::memtable::Memtable;
use crate::mistake::{self, Mistake};
use crate::stats::Counters;
use crate::tree::state::Tree;
use crate::wal::Wal;
use crate::write::batch::{Batch, Write};
use crate::write::interval::IntervalSync;
use crate::write::reserve::Reserve;
use crate::write::throttle::Throttle;

/// Writers came to the sequence that was reserved for a run: it would not be younger than what they
/// wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overtaken;

/// So many sequences lie between the last one and one that is reserved, at least: an hour of a
/// million writes per second. There are 2^55 of them, and so room for eight million runs.
pub const RESERVED: u64 = 1 << 32;

/// When a write is acknowledged, and what it then survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Once the operating system has it: it survives the end of the process, but the last writes
    /// before a crash of the machine can be lost. What is lost is always the end of the commit
    /// order.
    #[default]
    Buffered,
    /// Once storage has it: it survives a crash of the machine. Concurrent writers share one sync.
    Sync,
    /// As `Buffered`, and a sync begins at most that much later.
    Interval(Duration),
}

/// What a commit queue needs to know.
#[derive(Clone, Debug)]
pub struct CommitSettings {
    /// A buffer is sealed before a group that would bring it over this many raw bytes, until
    /// [`CommitQueue::set_memtable_bytes`].
    pub memtable_bytes: u64,
    /// Writers wait while this many sealed buffers are not flushed yet.
    pub immutable_memtables_max: usize,
    /// Writers wait for a flush rather than let the buffers, and the work on what was in them, take
    /// more memory than this.
    pub memtables_memory_max: u64,
    /// Says by how much memory a buffer is sealed, whatever it holds.
    pub budget: Budget,
    /// The largest value or batch, in bytes.
    pub write_bytes_max: u64,
    /// A group of several members has at most this many bytes in the log.
    pub group_bytes: usize,
    /// Holds writers back as far as merges need it.
    pub throttle: Arc<Throttle>,
    /// Refuses puts while the disk has little space.
    pub reserve: Option<Arc<Reserve>>,
}

/// Brings writes into the log and the buffer, in one order.
pub struct CommitQueue {
    settings: CommitSettings,
    /// The size at which a buffer is sealed, which a change of shape can change.
    memtable_bytes: AtomicU64,
    env: Arc<dyn Env>,
    wal: Arc<Wal>,
    database: Arc<Database>,
    tree: Arc<Tree>,
    counters: Arc<Counters>,
    queue: Mutex<Queue>,
    /// What only the leader touches.
    lead: Mutex<Lead>,
    publisher: Mutex<Publisher>,
    interval: Arc<IntervalSync>,
    /// Writers that wait for a flush.
    stalled: AtomicU32,
}

/// The group that writers join now, and whether somebody leads.
struct Queue {
    forming: Forming,
    /// True while a leader is between taking a group and having it logged.
    led: bool,
    /// The memory of a group that went by, to be used again.
    spare: Option<record::Group>,
    /// How many writers there were when the last group was logged: its members, and those that had
    /// joined the next.
    writers: u32,
    /// How long the last sync took.
    sync_time: Duration,
    /// Of the groups' bytes, as of the last one.
    charge: Charge,
}

/// A group that can still be joined.
struct Forming {
    group: Arc<Group>,
    bytes: record::Group,
    members: u32,
    raw_bytes: u64,
    /// A member wants the group durable before it is acknowledged.
    sync: bool,
    /// A member wants the buffer sealed before this group.
    seal: bool,
}

/// What the leader carries from group to group.
struct Lead {
    /// The sequence of the next entry.
    next: Sequence,
    /// Where entries go.
    buffer: Arc<Memtable>,
    /// Raw bytes of the groups that went to `buffer`.
    filled_bytes: u64,
    /// The number of the next group, for the publisher.
    number: u64,
    /// The last sequence that was reserved for an ingested run.
    reserved: Sequence,
    /// Sequences were skipped since the last entry, so the next one needs a segment of the log of
    /// its own.
    skipped: bool,
}

/// One commit group, as its members share it.
struct Group {
    phase: AtomicU32,
    /// Members that have not applied their entries yet.
    unapplied: AtomicU32,
    /// Set before the phase becomes `LOGGED` or `FAILED`.
    outcome: OnceLock<Result<Logged>>,
    /// Members that sleep until the phase changes, or are about to.
    sleepers: AtomicU32,
    /// Held by a member from counting itself until it sleeps, and by whoever wakes members.
    falling_asleep: Mutex<()>,
    changed: Condvar,
}

/// Where a logged group's entries belong.
#[derive(Clone)]
struct Logged {
    first: Sequence,
    last: Sequence,
    number: u64,
    buffer: Arc<Memtable>,
}

/// Phases of a group, in order, except that a forming group may go between the first two.
const FORMING: u32 = 0;
/// Forming, and nobody leads: a member should.
const VACANT: u32 = 1;
/// Taken by a leader; nobody can join any more.
const LED: u32 = 2;
const LOGGED: u32 = 3;
const FAILED: u32 = 4;
const PUBLISHED: u32 = 5;

/// Advances the visible sequence in the order of groups.
struct Publisher {
    /// The number of the group to be published next.
    next: u64,
    /// Groups from `next` on that are applied (or not yet: `None`), by their distance to it.
    applied: VecDeque<Option<Arc<Group>>>,
}

impl CommitQueue {
    /// A queue whose first entry gets the sequence after `last`. The active buffer already holds
    /// `filled_bytes`.
    pub fn new(
        settings: CommitSettings,
        env: Arc<dyn Env>,
        wal: Arc<Wal>,
        tree: Arc<Tree>,
        counters: Arc<Counters>,
        interval: Arc<IntervalSync>,
        last: Sequence,
    ) -> Self {
        let buffer = tree.pin().active.clone();
        let filled_bytes = buffer.raw_bytes();
        let charge = Charge::to(buffer.account(), MemoryPart::Wal, 0);
        let database = tree.database.clone();
        Self {
            memtable_bytes: AtomicU64::new(settings.memtable_bytes),
            settings,
            env,
            wal,
            database,
            tree,
            counters,
            queue: Mutex::new(Queue {
                forming: Forming::new(record::Group::new()),
                led: false,
                spare: None,
                writers: 0,
                sync_time: Duration::ZERO,
                charge,
            }),
            lead: Mutex::new(Lead {
                next: last.next(),
                buffer,
                filled_bytes,
                number: 0,
                reserved: last,
                skipped: false,
            }),
            publisher: Mutex::new(Publisher { next: 0, applied: VecDeque::new() }),
            interval,
            stalled: AtomicU32::new(0),
        }
    }

    /// Commits `write`, and returns once it has its durability and is visible.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key, value or batch that is too large; [`Error::Io`] if the
    /// disk has only its reserve left, the log could not be appended to (nothing was written,
    /// and trying again can help), or flushes are behind and fail; [`Error::Stopped`] if writing
    /// has ended.
    pub fn commit(&self, write: Write<'_>, durability: Durability) -> Result<()> {
        write.check(self.settings.write_bytes_max)?;
        self.database.health.check_running()?;
        if write.entries() == 0 {
            // Nothing to write, but what was written before gets the durability all the same.
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Sync => self.sync(),
                Durability::Interval(at_most) => {
                    self.interval.sync_within(at_most);
                    Ok(())
                }
            };
        }
        if let Some(reserve) = &self.settings.reserve
            && !write.only_deletes()
        {
            reserve.check()?;
        }
        self.wait_for_turn(write.raw_bytes());
        self.wait_for_room(write.raw_bytes())?;
        self.pass(|forming| write.encode(&mut forming.bytes), &write, durability == Durability::Sync)?;
        self.counters.entries_written.add(u64::from(write.entries()));
        self.counters.raw_bytes_written.add(write.raw_bytes());
        if let Durability::Interval(at_most) = durability {
            self.interval.sync_within(at_most);
        }
        Ok(())
    }

    /// Refuses what may not be written: a key or a value that is too large.
    pub fn check(&self, write: &Write<'_>) -> Result<()> {
        write.check(self.settings.write_bytes_max)
    }

    /// A sequence for all entries of a run that is built ahead, beside writers: they stay below it
    /// for at least [`RESERVED`] entries, and no other run gets it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if sequences run short; what is left is for writers.
    pub fn reserve(&self) -> Result<Sequence> {
        let mut lead = self.lead.lock();
        let reserved = lead.next.0.max(lead.reserved.0) + RESERVED;
        if reserved > Sequence::MAX.0 / 2 {
            let what = "half of all sequence numbers are used up, and no more runs are ingested; write the entries, or export and import the database";
            return Err(Error::InvalidArgument(what.to_owned()));
        }
        lead.reserved = Sequence(reserved);
        Ok(lead.reserved)
    }

    /// How much has been written since the last buffer was sealed, in raw bytes.
    pub fn filled_bytes(&self) -> u64 {
        self.lead.lock().filled_bytes
    }

    /// Makes a run that was built under `reserved` the youngest of the tree, between two groups:
    /// everything acknowledged before is in older runs, what is written from now on gets later
    /// sequences. `install` commits the edit, given the last sequence of a write; when it has, the
    /// run is durable, and this makes it visible.
    ///
    /// Nobody writes meanwhile: the active buffer is sealed, and its flush is waited for. What is
    /// in buffers should have been flushed right before. Returns how long writers were held.
    ///
    /// # Errors
    /// [`Overtaken`] if writers have come to `reserved`. Other errors as [`CommitQueue::seal`] and
    /// `install`; nothing has changed then, unless it is [`Error::Stopped`].
    pub fn install_run(
        &self,
        reserved: Sequence,
        install: impl FnOnce(Sequence) -> Result<()>,
    ) -> Result<Result<Duration, Overtaken>> {
        let mut lead = self.lead.lock();
        let began = self.env.now();
        self.database.health.check_running()?;
        if lead.next > reserved && !mistake::is_planted(Mistake::RunOvertaken) {
            return Ok(Err(Overtaken));
        }
        if !mistake::is_planted(Mistake::RunBelowMemtables) {
            if lead.filled_bytes > 0 {
                self.rotate_memtable(&mut lead)?;
            }
            self.wait_for_flushes()?;
        }
        install(Sequence(lead.next.0 - 1))?;
        self.wal.skip_to(reserved);
        (lead.next, lead.skipped) = (reserved.next(), true);
        let number = lead.number;
        lead.number += 1;
        let (group, buffer) = (Arc::new(Group::new()), lead.buffer.clone());
        drop(lead);
        let held = self.env.now() - began;
        group.finish(Ok(Logged { first: reserved, last: reserved, number, buffer }));
        self.publish(&group, number);
        group.wait(|phase| phase == PUBLISHED);
        Ok(Ok(held))
    }

    /// Waits until no sealed buffer is left.
    fn wait_for_flushes(&self) -> Result<()> {
        let flushed = || self.tree.pin().immutable.is_empty();
        let mut outcome = Ok(());
        self.env.wait(&self.database.progress, None, &mut || {
            outcome = if flushed() { Ok(()) } else { self.database.health.check_progress(Activity::Flush) };
            outcome.is_err() || flushed()
        });
        outcome
    }

    /// The size at which buffers are sealed from now on, in raw bytes.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        self.memtable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Seals the active buffer if it holds anything. Everything acknowledged before is then in
    /// sealed buffers or tables.
    pub fn seal(&self) -> Result<()> {
        self.database.health.check_running()?;
        self.wait_for_room(u64::MAX)?;
        self.pass(|forming| forming.seal = true, &Write::Many(&Batch::new()), false)
    }

    /// Makes everything acknowledged so far durable.
    pub fn sync(&self) -> Result<()> {
        self.database.health.check_running()?;
        let synced = self.database.events.timed(&*self.env, "log: sync", || self.wal.sync_to(self.wal.end()));
        synced.inspect_err(|error| self.database.health.report_stop(error.clone()))
    }

    /// Syncs what was promised to be synced within some time. The background work has ended, and no
    /// commit is under way.
    pub fn finish(&self) -> Result<()> {
        self.interval.finish()
    }

    /// Waits until merges can follow.
    fn wait_for_turn(&self, bytes: u64) {
        let begins = |bytes_per_second| self.database.events.post(|| Event::WriteThrottlingBegan { bytes_per_second });
        let delay = self.settings.throttle.admit(&*self.env, bytes, begins);
        if !delay.is_zero() {
            self.counters.write_delays.add(1);
            self.counters.write_delay_ns.add(delay.as_nanos() as u64);
        }
    }

    /// Waits while flushes are so far behind that there is no room for a write of so many raw
    /// bytes: a buffer would have to be sealed, and no more may wait.
    fn wait_for_room(&self, bytes: u64) -> Result<()> {
        let has_room = || {
            let state = self.tree.pin();
            if state.immutable.is_empty() {
                return true;
            }
            let fits = || !self.is_over(&state.active, state.active.raw_bytes().saturating_add(bytes));
            (state.immutable.len() < self.settings.immutable_memtables_max || fits())
                && state.memtables_memory_bytes()
                    + in_work(&state.active)
                    + 2 * bytes.min(self.settings.write_bytes_max)
                    <= self.settings.memtables_memory_max
        };
        if has_room() {
            return Ok(());
        }
        let began = self.env.now();
        let mut outcome = Ok(());
        if self.stalled.fetch_add(1, Ordering::Relaxed) == 0 {
            self.database.events.post(|| Event::WriteStallBegan);
        }
        self.env.wait(&self.database.progress, None, &mut || {
            outcome = self.database.health.check_progress(Activity::Flush);
            outcome.is_err() || has_room()
        });
        if self.stalled.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.database.events.post(|| Event::WriteStallEnded);
        }
        self.counters.write_stalls.add(1);
        self.counters.write_stall_ns.add((self.env.now() - began).as_nanos() as u64);
        outcome
    }

    /// True if a buffer with so many raw bytes should be sealed, or if it takes as much memory as
    /// any may.
    fn is_over(&self, buffer: &Memtable, raw_bytes: u64) -> bool {
        let size = self.memtable_bytes.load(Ordering::Relaxed);
        raw_bytes > size || buffer.used_bytes() > self.settings.budget.memtable_memory_max(size)
    }

    /// Takes a write through all phases: join, perhaps lead, apply, perhaps publish.
    fn pass(&self, join: impl FnOnce(&mut Forming), write: &Write<'_>, sync: bool) -> Result<()> {
        let (group, offset) = self.join(join, write, sync);
        let logged = group.outcome()?;
        write.apply(Sequence(logged.first.0 + u64::from(offset)), &logged.buffer);
        if group.unapplied.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.publish(&group, logged.number);
        }
        group.wait(|phase| phase == PUBLISHED);
        Ok(())
    }

    /// Joins the forming group and returns once it is logged or has failed, with the entries of it
    /// that come before ours.
    fn join(&self, join: impl FnOnce(&mut Forming), write: &Write<'_>, sync: bool) -> (Arc<Group>, u32) {
        let mut queue = self.queue.lock();
        while queue.forming.is_full(write.raw_bytes(), self.settings.group_bytes) {
            let full = queue.forming.group.clone();
            drop(queue);
            full.wait(|phase| phase >= LED);
            queue = self.queue.lock();
        }
        let forming = &mut queue.forming;
        let group = forming.group.clone();
        let offset = forming.bytes.entries();
        join(forming);
        forming.members += 1;
        forming.raw_bytes += write.raw_bytes();
        forming.sync |= sync;
        if !queue.led {
            self.lead(queue);
            return (group, offset);
        }
        drop(queue);
        while group.wait(|phase| phase != FORMING && phase != LED) == VACANT {
            let queue = self.queue.lock();
            // Somebody who came later may have taken the lead for us meanwhile.
            if group.phase() == VACANT {
                self.lead(queue);
            }
        }
        (group, offset)
    }

    /// Takes the forming group through the log, then gives up the lead.
    fn lead(&self, mut queue: MutexGuard<'_, Queue>) {
        queue.led = true;
        queue.forming.group.set_phase_quietly(FORMING);
        let mut queue = self.gather(queue);
        let bytes = queue.spare.take().unwrap_or_default();
        let mut taken = std::mem::replace(&mut queue.forming, Forming::new(bytes));
        taken.group.unapplied.store(taken.members, Ordering::Relaxed);
        taken.group.set_phase(LED);
        let group_bytes = taken.bytes.memory_bytes() + queue.forming.bytes.memory_bytes();
        queue.charge.set(group_bytes);
        drop(queue);

        let mut sync_time = None;
        let outcome = self.wal_group(&mut taken, &mut sync_time);

        let mut queue = self.queue.lock();
        queue.led = false;
        queue.writers = taken.members + queue.forming.members;
        queue.sync_time = sync_time.unwrap_or(queue.sync_time);
        let vacant = (queue.forming.members > 0).then(|| queue.forming.group.clone());
        if let Some(group) = &vacant {
            group.set_phase_quietly(VACANT);
        }
        taken.bytes.clear(self.settings.group_bytes);
        let group_bytes = taken.bytes.memory_bytes() + queue.forming.bytes.memory_bytes();
        queue.charge.set(group_bytes);
        queue.spare = Some(taken.bytes);
        drop(queue);
        if let Some(group) = vacant {
            group.wake();
        }
        taken.group.finish(outcome);
    }

    /// Lets the writers that were just released join before a sync that would make them wait for
    /// the one after it. Without this, two writers that take turns would each get a sync of
    /// their own. Waits for a small share of what the sync takes, and only if other writers
    /// were there a moment ago.
    fn gather<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        if !queue.forming.sync || queue.forming.members >= queue.writers {
            return queue;
        }
        let until = self.env.now() + queue.sync_time / GATHER_SHARE;
        // Counted as well, for clocks that stand still while nobody calls the environment.
        for _ in 0..GATHER_TURNS {
            if queue.forming.members >= queue.writers || self.env.now() >= until {
                break;
            }
            drop(queue);
            thread::yield_now();
            queue = self.queue.lock();
        }
        queue
    }

    /// Seals if needed, appends, syncs if asked to. Only the leader is here, so the log gets groups
    /// in the order of their sequences.
    fn wal_group(&self, forming: &mut Forming, sync_time: &mut Option<Duration>) -> Result<Logged> {
        let mut lead = self.lead.lock();
        if lead.filled_bytes > 0 && (forming.seal || self.is_over(&lead.buffer, lead.filled_bytes + forming.raw_bytes))
        {
            self.rotate_memtable(&mut lead)?;
        }
        let first = lead.next;
        let entries = forming.bytes.entries();
        if entries > 0 {
            if lead.skipped {
                self.wal.rotate(first, self.database.durable_edit()).inspect_err(|error| self.report_wal(error))?;
                lead.skipped = false;
            }
            self.append(forming, first, sync_time)?;
            self.counters.commit_groups.add(1);
            lead.next = Sequence(first.0 + u64::from(entries));
            assert!(lead.next <= Sequence::MAX, "sequence numbers are used up: {:?}", lead.next);
            lead.filled_bytes += forming.raw_bytes;
        }
        let number = lead.number;
        lead.number += 1;
        Ok(Logged { first, last: Sequence(lead.next.0 - 1), number, buffer: lead.buffer.clone() })
    }

    fn append(&self, forming: &mut Forming, first: Sequence, sync_time: &mut Option<Duration>) -> Result<()> {
        let end = self.wal.append(&mut forming.bytes, first).inspect_err(|error| self.report_wal(error))?;
        if forming.sync {
            // Appended, but not durable and perhaps never: no later group may build on it.
            let began = self.env.now();
            let synced = self.database.events.timed(&*self.env, "log: sync", || self.wal.sync_to(end));
            synced.inspect_err(|error| self.database.health.report_stop(error.clone()))?;
            *sync_time = Some(self.env.now() - began);
        }
        Ok(())
    }

    fn rotate_memtable(&self, lead: &mut Lead) -> Result<()> {
        self.wal.rotate(lead.next, self.database.durable_edit()).inspect_err(|error| self.report_wal(error))?;
        lead.buffer = self.tree.seal(Sequence(lead.next.0 - 1));
        lead.filled_bytes = 0;
        self.database.wake_flusher();
        Ok(())
    }

    /// The log says itself whether it can go on after an error.
    fn report_wal(&self, error: &Error) {
        if matches!(error, Error::Stopped { .. }) {
            self.database.health.report_stop(error.clone());
        }
    }

    /// Publishes `group`, and those after it that were only waiting for it.
    fn publish(&self, group: &Arc<Group>, number: u64) {
        let mut publisher = self.publisher.lock();
        let distance = (number - publisher.next) as usize;
        if publisher.applied.len() <= distance {
            publisher.applied.resize(distance + 1, None);
        }
        publisher.applied[distance] = Some(group.clone());
        while let Some(Some(_)) = publisher.applied.front() {
            let group = publisher.applied.pop_front().flatten().expect("just seen");
            publisher.next += 1;
            self.database.sequences.advance(group.logged().last);
            group.set_phase(PUBLISHED);
        }
        drop(publisher);
        // A sealed buffer is complete when its last sequence is visible. We advance and then look for
        // sealed buffers; the flusher is woken after one was sealed and looks at the visible
        // sequence: with a fence on both sides, one of us sees the other.
        fence(Ordering::SeqCst);
        if !self.tree.pin().immutable.is_empty() {
            self.database.wake_flusher();
        }
    }
}

/// What writes on their way into the log, flushes and merges take beside the buffers.
fn in_work(buffer: &Memtable) -> u64 {
    buffer.account().map_or(0, |account| account.bytes(MemoryPart::Wal) + account.bytes(MemoryPart::Compactions))
}

impl Forming {
    fn new(bytes: record::Group) -> Self {
        Self { group: Arc::new(Group::new()), bytes, members: 0, raw_bytes: 0, sync: false, seal: false }
    }

    /// A write alone may be as large as it likes; together, members share the limit.
    fn is_full(&self, more_bytes: u64, limit_bytes: usize) -> bool {
        self.members > 0 && self.raw_bytes + more_bytes > limit_bytes as u64
    }
}

impl Group {
    fn new() -> Self {
        Self {
            phase: AtomicU32::new(FORMING),
            unapplied: AtomicU32::new(0),
            outcome: OnceLock::new(),
            sleepers: AtomicU32::new(0),
            falling_asleep: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    fn phase(&self) -> u32 {
        self.phase.load(Ordering::SeqCst)
    }

    fn outcome(&self) -> Result<Logged> {
        self.outcome.get().expect("a group that was logged or failed has an outcome").clone()
    }

    fn logged(&self) -> &Logged {
        match self.outcome.get() {
            Some(Ok(logged)) => logged,
            _ => panic!("only a logged group is published"),
        }
    }

    fn finish(&self, outcome: Result<Logged>) {
        let phase = if outcome.is_ok() { LOGGED } else { FAILED };
        assert!(self.outcome.set(outcome).is_ok(), "a group is led once");
        self.set_phase(phase);
    }

    fn set_phase(&self, phase: u32) {
        self.set_phase_quietly(phase);
        self.wake();
    }

    fn set_phase_quietly(&self, phase: u32) {
        self.phase.store(phase, Ordering::SeqCst);
    }

    /// Wakes the members that sleep.
    fn wake(&self) {
        // A member counts itself and then looks at the phase again; we have set the phase and look
        // at the count. Sequentially consistent, so that it sees the new phase, or we see it.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // One that has seen the old phase keeps the lock until it sleeps.
            let _falling_asleep = self.falling_asleep.lock();
            self.changed.notify_all();
        }
    }

    /// Waits for a phase that `done` accepts, and returns it. Spins first, for about as long as
    /// another member needs to write to the page cache and to apply its entries; then lets
    /// others run, for about as long as it takes to wake a thread that sleeps; then sleeps.
    fn wait(&self, done: impl Fn(u32) -> bool) -> u32 {
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

/// About 30 µs if nobody else wants to run: waking a thread that sleeps takes 25 to 50 µs on a
/// virtual machine.
const YIELDS: u32 = if cfg!(feature = "shuttle") { 1 } else { 60 };

/// A leader waits at most this share of a sync for writers to join: it costs 3 % if nobody comes,
/// and halves the syncs if somebody does.
const GATHER_SHARE: u32 = 32;

/// More turns than a share of any sync takes: letting others run takes a microsecond at most if
/// nobody wants to.
const GATHER_TURNS: u32 = 100_000;

/// About 3 µs: a pause takes 40 to 140 cycles on the machines of the last ten years. The explorer
/// of schedules gains nothing from spinning.
const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 100 };
