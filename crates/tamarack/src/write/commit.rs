//! The commit queue: group commit. Concurrent writers share one write to the WAL and one sync.
//!
//! # Steps of a commit
//!
//! 1. A writer **joins** the forming group: under the queue's lock, its entries are encoded behind
//!    those of earlier members. The order of joining is the commit order.
//! 2. If no group has a leader, the writer **leads**: it takes the group, rotates the memtable
//!    first if the group would overfill it, appends the group to the WAL with one write, and syncs
//!    if a member requested that. Meanwhile the next group forms.
//! 3. It gives up the lead (a member of the next group takes it), and every member **applies** its
//!    own entries to the memtable, concurrently with the other members and with the next group's
//!    append.
//! 4. The last member to apply **publishes** the group: the visible sequence advances over it once
//!    all earlier groups have been published. Only then do the members return, so each sees its own
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
//! * A group whose append failed takes no sequence numbers: the WAL has cut it off, and the next
//!   group gets them.
//! * A group whose sync failed is never applied and never visible; its fate is unknown until the
//!   database is reopened, and writing ends.
//! * Rotating a memtable makes it immutable and opens a new one. This happens only between groups,
//!   so that no group, and no batch, spans two memtables.
//! * The leader never waits for background work. **Write throttling** delays writers, and a **write
//!   stall** stops them until a flush has ended; both before they join. Large writes take turns
//!   between the two, so that the memory of those in progress is bounded ([`Admission`]).
//! * An ingested run is installed between groups, by a thread that has the lead without a group. It
//!   waits for a flush, and writers wait with it. If it is unknown whether the run is durable, no
//!   group may get its sequence numbers: writing has ended before the lead is given up.
//! * Before a sync the leader gives recent writers a little time to join; see `gather`.
//! * While transactions are active, the keys of each member are noted in the commit window, and a
//!   transaction is compared with them before it joins; see `transactions`.
//!
//! # Costs
//!
//! An uncontended put takes five locks (the queue's twice, to join and to give up the lead; the
//! lead's, the WAL's and the publisher's once each), computes one checksum, makes one write and one
//! insertion, and allocates nothing: a leader that is **alone** in its group has nobody to tell
//! what became of it, and the group is used again (`docs/READ_PATH.md` counts instructions). A
//! waiting writer spins for about the time of a write to the page cache, then yields for about the
//! time of waking a thread, then sleeps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use tamarack_env::sync::{Condvar, Mutex, MutexGuard, Rank, thread};

use crate::admission::Admission;
use crate::database::{Activity, Database};
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::format::group;
use crate::memory::{Budget, Charge, MemoryPart};
use crate::memtable::Memtable;
use crate::stats::{Counters, LatencyKind, WriteCountdown, WriteSampler};
use crate::tree::state::Tree;
use crate::wal::{Position, Wal};
use crate::write::batch::{Batch, VALUE_BYTES_MAX, Write};
use crate::write::interval::IntervalSync;
use crate::write::reserve::Reserve;
use crate::write::throttle::Throttle;
use crate::write::window::{CommitWindow, Validation};

mod runs;
mod shared;
mod transactions;

use shared::{FORMING, Group, LED, Logged, PUBLISHED, VACANT};

/// When a write is acknowledged, and which failures it then survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Acknowledged once the operating system has the write: it survives the end of the process. A
    /// crash of the machine can lose the last writes, always the end of the commit order.
    #[default]
    Buffered,
    /// Acknowledged once storage has the write: it survives a crash of the machine. Concurrent
    /// writers share one sync.
    Sync,
    /// As `Buffered`; a sync begins at most this much later.
    Interval(Duration),
}

/// Settings of a commit queue.
#[derive(Clone, Debug)]
pub struct CommitSettings {
    /// Capacity of a memtable, in raw bytes: it is rotated before a group that would exceed this.
    /// [`CommitQueue::set_memtable_bytes`] changes it.
    pub memtable_bytes: u64,
    /// A write stall begins when this many immutable memtables wait to be flushed and the active
    /// one is full.
    pub immutable_memtables_max: usize,
    /// A write stall begins before memtables, those that readers pin included, and the memory of
    /// writes, flushes and compactions exceed this many bytes; for a large write, also with the
    /// blocks that readers pin.
    pub memtables_memory_max: u64,
    /// Limits the memory of one memtable, whatever its raw bytes.
    pub budget: Budget,
    /// Maximum size of a value or batch, in bytes.
    pub write_bytes_max: u64,
    /// Maximum size of a group of several members in the WAL, in bytes.
    pub group_bytes: usize,
    /// Write throttling: delays writers to the rate that compaction can sustain.
    pub throttle: Arc<Throttle>,
    /// The large reads in progress, which large writes wait for while memory is over the budget.
    pub large_reads: Arc<Admission>,
    /// Refuses puts while disk space is low.
    pub reserve: Option<Arc<Reserve>>,
}

/// Brings writes into the WAL and the memtable, in one order.
pub struct CommitQueue {
    settings: CommitSettings,
    /// Capacity of a memtable, which a change of shape can change.
    memtable_bytes: AtomicU64,
    env: Arc<dyn Env>,
    wal: Arc<Wal>,
    database: Arc<Database>,
    tree: Arc<Tree>,
    counters: Arc<Counters>,
    queue: Mutex<JoinQueue>,
    /// State of the leader. Its holder may append to the WAL and rotate the memtable.
    lead: Mutex<Lead>,
    publisher: Mutex<Publisher>,
    /// The ticket of the last group that was published: all groups up to it are visible, or have
    /// failed. Changed by the publisher alone, after the visible sequence.
    published: AtomicU64,
    /// Signalled when more is published and somebody waits for it.
    published_changed: Condvar,
    /// Signalled when a run was installed, or was not.
    run_ended: Condvar,
    /// Bounds the memory of large writes in progress.
    admission: Arc<Admission>,
    interval: Arc<IntervalSync>,
    /// Writers stopped by the current write stall.
    stalled: AtomicU32,
    /// Picks the writes whose latency is measured.
    sampler: WriteSampler,
}

/// The group that writers join now, and whether another one is being led.
struct JoinQueue {
    forming: Forming,
    /// True while a leader is between taking a group and having it logged.
    led: bool,
    /// The allocation of an earlier group, to be reused.
    spare: Option<group::Group>,
    /// An earlier group that nobody refers to any more, to be reused.
    spare_group: Option<Arc<Group>>,
    /// The number of writers when the last group was logged: its members, and those of the next
    /// group.
    writers: u32,
    /// Duration of the last sync.
    sync_time: Duration,
    /// Charge for the groups' bytes, as of the last one.
    charge: Charge,
    /// What transactions are validated against.
    window: CommitWindow,
    /// Runs that are being installed: transactions join once there is none.
    runs_beginning: u32,
    /// Counts writes down to the next sample.
    countdown: WriteCountdown,
}

/// The group that is forming.
struct Forming {
    group: Arc<Group>,
    /// Its place in the order in which groups form. An ingested run has that of the group before.
    ticket: u64,
    bytes: group::Group,
    members: u32,
    raw_bytes: u64,
    /// A member requested a sync.
    sync: bool,
    /// A member requested a new memtable for this group.
    rotates: bool,
}

/// What the leader carries from group to group.
struct Lead {
    /// The sequence of the next entry.
    next: Sequence,
    /// The active memtable.
    memtable: Arc<Memtable>,
    /// Raw bytes of the groups in `memtable`.
    filled_bytes: u64,
    /// The number of the next group, for the publisher.
    number: u64,
    /// The ticket of the last group.
    ticket: u64,
    /// Where the WAL ended when a group last had the free space queried.
    looked: Position,
}

/// A group that one of its members led.
struct LedGroup {
    outcome: Result<Logged>,
    /// The group, if it has other members.
    shared: Option<Arc<Group>>,
}

/// A group that was applied, or has failed, before all earlier ones were published.
struct Finished {
    ticket: u64,
    /// The last sequence; `None` if the group has failed.
    last: Option<Sequence>,
    /// What its members wait for.
    group: Option<Arc<Group>>,
}

/// Advances the visible sequence in the order of groups.
struct Publisher {
    /// The number of the group to be published next.
    next: u64,
    /// Groups from `next` on, by their distance to it; `None` until applied.
    applied: VecDeque<Option<Finished>>,
    /// Threads that wait until a ticket is published.
    waiting: u32,
}

impl CommitQueue {
    /// Creates a queue whose first entry gets the sequence after `last`. The tree's active memtable
    /// may already have entries.
    pub fn new(
        settings: CommitSettings,
        env: Arc<dyn Env>,
        wal: Arc<Wal>,
        tree: Arc<Tree>,
        counters: Arc<Counters>,
        interval: Arc<IntervalSync>,
        last: Sequence,
    ) -> Self {
        let memtable = tree.pin().active.clone();
        let filled_bytes = memtable.raw_bytes();
        let charge = Charge::to(memtable.account(), MemoryPart::Wal, 0);
        let window = CommitWindow::new(
            settings.budget.commit_window_bytes_max(),
            Charge::to(memtable.account(), MemoryPart::Transactions, 0),
        );
        let database = tree.database.clone();
        let looked = wal.end();
        Self {
            memtable_bytes: AtomicU64::new(settings.memtable_bytes),
            admission: Arc::new(Admission::new(Rank::LargeWrites, settings.write_bytes_max)),
            settings,
            env,
            wal,
            database,
            tree,
            counters,
            queue: Mutex::new(
                Rank::CommitQueue,
                JoinQueue {
                    forming: Forming::new(Arc::new(Group::new()), group::Group::new(), 1),
                    led: false,
                    spare: None,
                    spare_group: None,
                    writers: 0,
                    sync_time: Duration::ZERO,
                    charge,
                    window,
                    runs_beginning: 0,
                    countdown: WriteCountdown::new(last.0),
                },
            ),
            lead: Mutex::new(
                Rank::CommitLead,
                Lead { next: last.next(), memtable, filled_bytes, number: 0, ticket: 0, looked },
            ),
            publisher: Mutex::new(Rank::CommitPublisher, Publisher { next: 0, applied: VecDeque::new(), waiting: 0 }),
            published: AtomicU64::new(0),
            published_changed: Condvar::new(),
            run_ended: Condvar::new(),
            interval,
            stalled: AtomicU32::new(0),
            sampler: WriteSampler::default(),
        }
    }

    /// Commits `write`, and returns once it is as durable as requested and visible.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a key, a value or the batch is too large; [`Error::Io`] if
    /// only the reserve of disk space is left, if appending to the WAL failed (nothing was written,
    /// and a retry can succeed), or if writers are stopped and flushes fail; [`Error::Stopped`] if
    /// writing has ended.
    pub fn commit(&self, write: Write<'_>, durability: Durability) -> Result<()> {
        self.commit_if(write, durability, None)
    }

    /// Commits `write` as [`CommitQueue::commit`] does, if it passes a validation.
    #[inline]
    fn commit_if(
        &self,
        write: Write<'_>,
        durability: Durability,
        validation: Option<&mut Validation<'_>>,
    ) -> Result<()> {
        if self.sampler.is_next() {
            return self.commit_sampled(write, durability, validation);
        }
        self.commit_untimed(write, durability, validation)
    }

    /// Commits `write`, and records the latency if it has entries and succeeds.
    #[cold]
    #[inline(never)]
    fn commit_sampled(
        &self,
        write: Write<'_>,
        durability: Durability,
        validation: Option<&mut Validation<'_>>,
    ) -> Result<()> {
        if write.entries() == 0 || !self.sampler.take() {
            return self.commit_untimed(write, durability, validation);
        }
        let began = self.env.now();
        self.commit_untimed(write, durability, validation)?;
        self.tree.lookups.latencies().note(LatencyKind::Write, self.env.now().saturating_sub(began));
        Ok(())
    }

    fn commit_untimed(
        &self,
        write: Write<'_>,
        durability: Durability,
        mut validation: Option<&mut Validation<'_>>,
    ) -> Result<()> {
        self.check(&write)?;
        self.database.health.check_running()?;
        if write.entries() == 0 {
            // Nothing to write; earlier writes still get the requested durability.
            return match durability {
                Durability::Buffered => Ok(()),
                Durability::Sync => self.sync(),
                Durability::Interval(at_most) => {
                    self.interval.sync_within(at_most);
                    Ok(())
                }
            };
        }
        if let Some(reserve) = &self.settings.reserve {
            let allowed = match write.only_deletes() {
                true => reserve.check_delete(|| self.tree.frees_space()),
                false => reserve.check(),
            };
            allowed.inspect_err(|_| self.flush_deletes())?;
        }
        if let Some(validation) = &mut validation {
            while !self.validate(self.queue.lock(), validation)?.1 {}
        }
        self.delay(write.raw_bytes());
        let _admitted = self.admission.admit(write.raw_bytes());
        self.wait_for_space(write.raw_bytes())?;
        let sync = durability == Durability::Sync;
        self.take_through(validation, |forming| write.encode(&mut forming.bytes), &write, sync)?;
        if let Durability::Interval(at_most) = durability {
            self.interval.sync_within(at_most);
        }
        Ok(())
    }

    /// Makes the active memtable immutable if no other one waits, so that the tombstones in it
    /// reach the entries that they delete.
    fn flush_deletes(&self) {
        let is_waiting = {
            let state = self.tree.pin();
            state.immutable.is_empty() && !state.active.is_empty()
        };
        if is_waiting && let Err(error) = self.rotate_memtable() {
            // The caller is refused for the same reason, and tries again.
            tracing::debug!(%error, "no space for another WAL segment");
        }
    }

    /// Returns the maximum size of a batch with several writes, in raw bytes.
    pub fn batch_bytes_max(&self) -> u64 {
        self.settings.write_bytes_max.min(VALUE_BYTES_MAX)
    }

    /// Returns an error if a key, a value or the batch is too large, or if it has a merge operand
    /// that nothing could merge.
    #[inline]
    pub fn check(&self, write: &Write<'_>) -> Result<()> {
        if write.has_operands() {
            write.check_operands(&self.tree.merging)?;
        }
        write.check(self.settings.write_bytes_max)
    }

    /// Returns the raw bytes written since the last rotation of the memtable.
    pub fn filled_bytes(&self) -> u64 {
        self.lead.lock().filled_bytes
    }

    /// Blocks until all memtables that are immutable now are flushed.
    pub fn wait_for_flushes(&self) -> Result<()> {
        let Some(youngest) = self.tree.pin().immutable.first().map(|immutable| immutable.last) else { return Ok(()) };
        self.database.wait(&*self.env, || {
            if self.tree.pin().immutable.iter().all(|immutable| immutable.last > youngest) {
                return Ok(true);
            }
            self.database.health.check_progress(Activity::Flush).map(|()| false)
        })
    }

    /// Sets the capacity of memtables, in raw bytes, from now on.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        self.memtable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the capacity of memtables, in raw bytes.
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Returns true while writers wait in a write stall.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed) > 0
    }

    /// Rotates the memtable unless it is empty: makes it immutable and opens a new one. Everything
    /// acknowledged before is then in immutable memtables or in tables.
    pub fn rotate_memtable(&self) -> Result<()> {
        self.database.health.check_running()?;
        self.wait_for_space(u64::MAX)?;
        self.take_through(None, |forming| forming.rotates = true, &Write::Many(&Batch::new()), false)
    }

    /// Syncs the WAL: everything acknowledged so far is durable then.
    pub fn sync(&self) -> Result<()> {
        self.database.health.check_running()?;
        let synced = self.database.events.timed(&*self.env, "wal: sync", || self.wal.sync_to(self.wal.end()));
        synced.inspect_err(|error| self.database.health.report_stop(error.clone()))
    }

    /// Syncs writes of [`Durability::Interval`] that are pending. The background work has ended,
    /// and no commit is in progress.
    pub fn finish(&self) -> Result<()> {
        self.interval.finish()
    }

    /// Write throttling: delays a write of `bytes` raw bytes to the rate that compaction can
    /// sustain.
    fn delay(&self, bytes: u64) {
        let begins = |bytes_per_second| self.database.events.post(|| Event::WriteThrottlingBegan { bytes_per_second });
        let delay = self.settings.throttle.admit(&*self.env, bytes, begins);
        if !delay.is_zero() {
            self.counters.write_delays.add(1);
            self.counters.write_delay_seconds.add(delay);
            self.tree.lookups.latencies().note(LatencyKind::WriteDelay, delay);
        }
    }

    /// Write stall: blocks while flushes are so far behind that memtables have no space for `bytes`
    /// raw bytes, because a rotation would exceed the number of immutable memtables, or their
    /// memory the limit. Blocks that readers pin count for a large write, until the memtables that
    /// are immutable now have been flushed: readers may keep them for ever.
    #[inline]
    fn wait_for_space(&self, bytes: u64) -> Result<()> {
        if self.tree.may_have_immutable() || self.admission.is_large(bytes) {
            return self.wait_for_flushed_space(bytes);
        }
        Ok(())
    }

    /// As [`CommitQueue::wait_for_space`], if there may be something to wait for.
    #[inline(never)]
    fn wait_for_flushed_space(&self, bytes: u64) -> Result<()> {
        let has_space = |pinned_blocks_count: bool| {
            let state = self.tree.pin();
            if state.immutable.is_empty() {
                return true;
            }
            let fits = || !self.is_over(&state.active, state.active.raw_bytes().saturating_add(bytes));
            (state.immutable.len() < self.settings.immutable_memtables_max || fits())
                && state.memtables_memory_bytes()
                    + other_memory_bytes(&state.active, pinned_blocks_count)
                    + 2 * bytes.min(self.settings.write_bytes_max)
                    <= self.settings.memtables_memory_max
        };
        let is_large = self.admission.is_large(bytes);
        // What readers take is not counted before it has been read. Without this wait, one more
        // write after the other finds space that reads on their way are about to take.
        if is_large && self.tree.pin().active.account().is_some_and(|account| account.over_bytes() > 0) {
            self.settings.large_reads.wait_for_earlier();
        }
        if has_space(is_large) {
            return Ok(());
        }
        let began = self.env.now();
        let youngest = self.tree.pin().immutable.iter().map(|immutable| immutable.last).max();
        let are_flushed = || self.tree.pin().immutable.iter().all(|immutable| Some(immutable.last) > youngest);
        if self.stalled.fetch_add(1, Ordering::Relaxed) == 0 {
            self.database.events.post(|| Event::WriteStallBegan);
        }
        let outcome = self.database.wait(&*self.env, || {
            self.database.health.check_progress(Activity::Flush)?;
            Ok(has_space(is_large && !are_flushed()))
        });
        if self.stalled.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.database.events.post(|| Event::WriteStallEnded);
        }
        let stall = self.env.now() - began;
        self.counters.write_stalls.add(1);
        self.counters.write_stall_seconds.add(stall);
        self.tree.lookups.latencies().note(LatencyKind::WriteStall, stall);
        outcome
    }

    /// Returns true if a memtable with `raw_bytes` exceeds its capacity, or if it takes as much
    /// memory as one may. While disk space is low, also if its WAL segment does: the records of
    /// tiny entries are larger than these.
    fn is_over(&self, memtable: &Memtable, raw_bytes: u64) -> bool {
        let size = self.memtable_bytes.load(Ordering::Relaxed);
        let is_space_low = || self.settings.reserve.as_ref().is_some_and(|reserve| reserve.is_low());
        raw_bytes > size
            || (is_space_low() && self.wal.segment_bytes() > size)
            || memtable.used_bytes() > self.settings.budget.memtable_memory_max(size)
    }

    /// Takes a write through all phases: join, lead if needed, apply, publish if last.
    fn take_through(
        &self,
        validation: Option<&mut Validation<'_>>,
        join: impl FnOnce(&mut Forming),
        write: &Write<'_>,
        sync: bool,
    ) -> Result<()> {
        let (LedGroup { outcome, shared }, offset) = self.join(validation, join, write, sync)?;
        let logged = outcome?;
        write.apply(Sequence(logged.first.0 + u64::from(offset)), &logged.memtable);
        let unpublished = match shared {
            Some(group) => {
                if group.unapplied.fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.publish(logged.number, logged.ticket, Some(logged.last), Some(&group));
                }
                Some(group)
            }
            None => self.publish(logged.number, logged.ticket, Some(logged.last), None),
        };
        if let Some(group) = unpublished {
            group.wait(|phase| phase == PUBLISHED);
        }
        Ok(())
    }

    /// Joins the forming group and returns once it is logged or has failed, with the number of its
    /// entries before those of `write`. An error if the validation fails: `write` has not joined.
    fn join(
        &self,
        mut validation: Option<&mut Validation<'_>>,
        join: impl FnOnce(&mut Forming),
        write: &Write<'_>,
        sync: bool,
    ) -> Result<(LedGroup, u32)> {
        let mut queue = self.queue.lock();
        if queue.countdown.counts_down() {
            self.sampler.sample_next();
        }
        loop {
            while queue.forming.is_full(write.raw_bytes(), self.settings.group_bytes) {
                let full = queue.forming.group.clone();
                drop(queue);
                full.wait(|phase| phase >= LED);
                queue = self.queue.lock();
            }
            let Some(validation) = &mut validation else { break };
            let is_valid;
            (queue, is_valid) = self.validate(queue, validation)?;
            if is_valid {
                break;
            }
        }
        let forming = &mut queue.forming;
        let offset = forming.bytes.entries();
        join(forming);
        forming.members += 1;
        forming.raw_bytes += write.raw_bytes();
        forming.sync |= sync;
        let ticket = forming.ticket;
        let forgotten = queue.window.is_active().then(|| queue.window.note(ticket, write));
        if !queue.led {
            return Ok((self.lead(queue), offset));
        }
        let group = queue.forming.group.clone();
        drop(queue);
        drop(forgotten);
        while group.wait(|phase| phase != FORMING && phase != LED) == VACANT {
            let queue = self.queue.lock();
            // A later writer may have taken the lead meanwhile.
            if group.phase() == VACANT {
                // So that the leader can see whether it has the only reference.
                drop(group);
                return Ok((self.lead(queue), offset));
            }
        }
        Ok((LedGroup { outcome: group.outcome(), shared: Some(group) }, offset))
    }

    /// Appends the forming group, of which the caller is a member, to the WAL, then gives up the
    /// lead.
    fn lead(&self, mut queue: MutexGuard<'_, JoinQueue>) -> LedGroup {
        queue.led = true;
        queue.forming.group.set_phase_quietly(FORMING);
        let mut queue = self.gather(queue);
        let bytes = queue.spare.take().unwrap_or_default();
        let group = queue.spare_group.take().unwrap_or_else(|| Arc::new(Group::new()));
        let next = Forming::new(group, bytes, queue.forming.ticket + 1);
        let mut taken = std::mem::replace(&mut queue.forming, next);
        taken.group.unapplied.store(taken.members, Ordering::Relaxed);
        taken.group.set_phase(LED);
        let group_bytes = taken.bytes.memory_bytes() + queue.forming.bytes.memory_bytes();
        queue.charge.set(group_bytes);
        drop(queue);

        let mut sync_time = None;
        let (number, outcome) = self.write_group(&mut taken, &mut sync_time);

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
        let is_alone = taken.members == 1;
        let shared = if is_alone && Arc::get_mut(&mut taken.group).is_some() {
            // Nobody has come to know the group who could wait for a phase that it never reaches.
            taken.group.set_phase_quietly(FORMING);
            queue.spare_group = Some(taken.group);
            None
        } else {
            (!is_alone).then_some(taken.group)
        };
        drop(queue);
        if let Some(group) = vacant {
            group.wake();
        }
        if let Some(group) = &shared {
            group.finish(outcome.clone());
        }
        if outcome.is_err() {
            // It takes its turn, so that transactions can begin after it.
            self.publish(number, taken.ticket, None, None);
        }
        LedGroup { outcome, shared }
    }

    /// Lets writers that were just released join before a sync, so that they need not wait for the
    /// next one: otherwise two alternating writers would each get a sync of their own. Waits for a
    /// small share of a sync's duration, and only if there were other writers a moment ago.
    fn gather<'a>(&'a self, mut queue: MutexGuard<'a, JoinQueue>) -> MutexGuard<'a, JoinQueue> {
        if !queue.forming.sync || queue.forming.members >= queue.writers {
            return queue;
        }
        let until = self.env.now() + queue.sync_time / GATHER_SHARE;
        // The turns are bounded as well, for clocks that stand still while no thread calls the
        // environment.
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

    /// Writes a group. Only the leader calls this, so the WAL gets groups in the order of their
    /// sequences. Returns its number for the publisher, which one that fails has, too.
    fn write_group(&self, forming: &mut Forming, sync_time: &mut Option<Duration>) -> (u64, Result<Logged>) {
        let mut lead = self.lead.lock();
        let number = lead.number;
        lead.number += 1;
        lead.ticket = forming.ticket;
        (number, self.write_under_lead(&mut lead, number, forming, sync_time))
    }

    /// Rotates the memtable if needed, appends, and syncs if requested.
    fn write_under_lead(
        &self,
        lead: &mut Lead,
        number: u64,
        forming: &mut Forming,
        sync_time: &mut Option<Duration>,
    ) -> Result<Logged> {
        // Writing may have ended while this group waited for the lead: because of a run that may be
        // installed or not, and whose sequence numbers this group would get.
        self.database.health.check_running()?;
        if lead.filled_bytes > 0
            && (forming.rotates || self.is_over(&lead.memtable, lead.filled_bytes + forming.raw_bytes))
        {
            self.rotate_under_lead(lead)?;
        }
        let first = lead.next;
        let entries = forming.bytes.entries();
        if entries > 0 {
            if self.wal.needs_segment() {
                self.begin_segment(first)?;
            }
            self.append(lead, forming, first, sync_time)?;
            self.counters.commit_groups.add(1);
            self.counters.entries_written.add(u64::from(entries));
            self.counters.raw_bytes_written.add(forming.raw_bytes);
            lead.next = Sequence(first.0 + u64::from(entries));
            assert!(lead.next <= Sequence::MAX, "sequence numbers are used up: {:?}", lead.next);
            lead.filled_bytes += forming.raw_bytes;
        }
        let last = Sequence(lead.next.0 - 1);
        Ok(Logged { first, last, number, ticket: forming.ticket, memtable: lead.memtable.clone() })
    }

    fn append(
        &self,
        lead: &mut Lead,
        forming: &mut Forming,
        first: Sequence,
        sync_time: &mut Option<Duration>,
    ) -> Result<()> {
        let end = self.wal.append(&mut forming.bytes, first).inspect_err(|error| self.report_if_stopped(error))?;
        if let Some(reserve) = &self.settings.reserve
            && end.0 - lead.looked.0 >= self.memtable_bytes.load(Ordering::Relaxed) / LOOKS_PER_MEMTABLE
        {
            lead.looked = end;
            reserve.look();
        }
        if forming.sync {
            // Appended, but of unknown durability: no later group may build on it.
            let began = self.env.now();
            let synced = self.database.events.timed(&*self.env, "wal: sync", || self.wal.sync_to(end));
            synced.inspect_err(|error| self.database.health.report_stop(error.clone()))?;
            *sync_time = Some(self.env.now() - began);
        }
        Ok(())
    }

    fn rotate_under_lead(&self, lead: &mut Lead) -> Result<()> {
        self.begin_segment(lead.next)?;
        let raw_bytes = self.memtable_bytes.load(Ordering::Relaxed);
        lead.memtable = self.tree.rotate_memtable(Sequence(lead.next.0 - 1), raw_bytes);
        lead.filled_bytes = 0;
        if let Some(reserve) = &self.settings.reserve {
            // Writers may be far ahead of flushes, which look at the space as well.
            reserve.look();
        }
        self.database.wake_flusher();
        self.tree.lookups.idle_alarm().ring();
        Ok(())
    }

    /// Begins a WAL segment for entries from `first` on.
    fn begin_segment(&self, first: Sequence) -> Result<()> {
        self.wal.rotate(first, self.database.durable_edit()).inspect_err(|error| self.report_if_stopped(error))
    }

    /// The error says whether the WAL, the manifest or a file of a run can continue.
    fn report_if_stopped(&self, error: &Error) {
        if matches!(error, Error::Stopped { .. }) {
            self.database.health.report_stop(error.clone());
        }
    }

    /// Publishes the group with that number, and later groups that waited only for it. Of one that
    /// has failed, which has no `last`, nothing becomes visible. `group` is what its members wait
    /// for, if there are several. A leader that is alone gets what to wait for, if earlier groups
    /// are not published yet.
    fn publish(
        &self,
        number: u64,
        ticket: u64,
        last: Option<Sequence>,
        group: Option<&Arc<Group>>,
    ) -> Option<Arc<Group>> {
        let mut publisher = self.publisher.lock();
        if number != publisher.next {
            return publisher.put_off(number, Finished { ticket, last, group: group.cloned() });
        }
        let before = self.database.sequences.visible();
        let mut after = before;
        let mut finished = Finished { ticket, last, group: group.cloned() };
        loop {
            // Its place, if it has one: a group that comes in its turn needs none.
            publisher.applied.pop_front();
            publisher.next += 1;
            if let Some(last) = finished.last {
                after = last;
                self.database.sequences.advance(after);
            }
            self.published.store(finished.ticket, Ordering::Release);
            if let (Some(group), Some(_)) = (&finished.group, finished.last) {
                group.set_phase(PUBLISHED);
            }
            match publisher.applied.front_mut().and_then(Option::take) {
                Some(next) => finished = next,
                None => break,
            }
        }
        if publisher.waiting > 0 {
            self.published_changed.notify_all();
        }
        drop(publisher);
        // An immutable memtable is complete when its last sequence is visible. The one thread whose
        // advance passes that sequence then looks for the memtable; the flusher is woken after the
        // rotation and then reads the visible sequence. With a fence on both sides, at least one
        // sees the other.
        fence(Ordering::SeqCst);
        if self.tree.may_have_immutable() {
            self.wake_if_complete(before, after);
        }
        None
    }

    /// Wakes the flusher if an immutable memtable is complete that was not before: its last
    /// sequence is after the first of these, up to the second.
    #[inline(never)]
    fn wake_if_complete(&self, before: Sequence, after: Sequence) {
        if self.tree.pin().immutable.iter().any(|immutable| before < immutable.last && immutable.last <= after) {
            self.database.wake_flusher();
        }
    }
}

impl Publisher {
    /// Notes a group that earlier ones have to be published before. Makes and returns what to wait
    /// for if its leader is alone.
    #[cold]
    #[inline(never)]
    fn put_off(&mut self, number: u64, mut finished: Finished) -> Option<Arc<Group>> {
        let is_alone = finished.group.is_none() && finished.last.is_some();
        let own = is_alone.then(|| Arc::new(Group::new()));
        if is_alone {
            finished.group.clone_from(&own);
        }
        let distance = (number - self.next) as usize;
        if self.applied.len() <= distance {
            self.applied.resize_with(distance + 1, || None);
        }
        self.applied[distance] = Some(finished);
        own
    }
}

/// Memory of WAL groups, flushes and compactions, and of flushed memtables that readers pin, in
/// bytes, beside that of memtables; if `pinned_blocks_count`, also of blocks that readers pin.
fn other_memory_bytes(memtable: &Memtable, pinned_blocks_count: bool) -> u64 {
    let Some(account) = memtable.account() else { return 0 };
    let parts = [MemoryPart::Wal, MemoryPart::Compactions, MemoryPart::PinnedMemtables];
    let blocks_bytes = if pinned_blocks_count { account.pinned_bytes() } else { 0 };
    parts.iter().map(|part| account.bytes(*part)).sum::<u64>() + blocks_bytes
}

impl Forming {
    fn new(group: Arc<Group>, bytes: group::Group, ticket: u64) -> Self {
        Self { group, ticket, bytes, members: 0, raw_bytes: 0, sync: false, rotates: false }
    }

    /// A single write may exceed the limit; several members share it.
    fn is_full(&self, more_bytes: u64, limit_bytes: usize) -> bool {
        self.members > 0 && self.raw_bytes + more_bytes > limit_bytes as u64
    }
}

/// Free space is queried this often while the WAL grows by a memtable's size: what puts take
/// between two queries is a small part of the reserve.
const LOOKS_PER_MEMTABLE: u64 = 4;

/// A leader waits at most this share of a sync for writers to join: this costs 3 % if none joins,
/// and halves the number of syncs if one does.
const GATHER_SHARE: u32 = 32;

/// More turns than this share of any sync takes: a yield takes a microsecond at most if no other
/// thread is runnable.
const GATHER_TURNS: u32 = 100_000;

#[cfg(test)]
mod tests;
