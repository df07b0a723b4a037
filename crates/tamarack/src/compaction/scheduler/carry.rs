//! Carrying out jobs: which worker takes which part, how its tables enter the tree, and how jobs
//! end.

use std::time::Duration;

use tamarack_env::Progress;
use tamarack_model::Bytes;

use super::Scheduler;
use super::part_space::PartSpace;

use crate::compaction::edits;
use crate::compaction::job::{FinishedPiece, Job, JobPart, Reached};
use crate::compaction::output::CompactionOutput;
use crate::compaction::schedule::{Ingestion, Schedule};
use crate::compaction::task::Task;
use crate::compaction::tree_filter::Unit;
use crate::database::Activity;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::format::edit::{Change, KeyRange, RunId, SliceSpec};
use crate::format::meta::{EditNumber, TableMeta};
use crate::memtable::Memtable;
use crate::mistake::{self, Mistake};

/// Delay after which a worker that skipped a job looks again: about the duration of a step.
const SKIPPED: Duration = Duration::from_millis(4);

/// Part of the allowance for late compactions that writers may use up at any speed: bursts. The
/// rest is left for what a flood takes more smoothly.
const BURST_SHARE: u64 = 2;

/// Delay after which a worker looks whether there is space for a part now.
const REFUSED: Duration = Duration::from_millis(500);

impl Scheduler {
    /// Takes the most urgent part that no worker has, and returns when to look again if a part was
    /// skipped. Also updates the rate of write throttling.
    pub(super) fn take(&self, schedule: &mut Schedule) -> (Option<JobPart>, Option<Duration>) {
        let now = self.env.now();
        let flushes = self.flush_retry.pause().is_none();
        let compactions = !schedule.agenda.is_paused();
        let goes_on =
            |job: &Job| if job.is_flush() { flushes } else { compactions && job.attempts.paused_until <= now };
        let buffered_max = schedule.shape().buffer() * self.settings.immutable_memtables_max as u64;
        let buffered = {
            let state = self.tree.pin();
            // With tiny entries, memtables are full by memory before they are by raw bytes.
            let memory_share = state.memtables_memory_bytes() as f64 / self.settings.memtables_memory_max as f64;
            Bytes(state.memtables_raw_bytes()).max(Bytes((buffered_max.0 as f64 * memory_share) as u64))
        };
        // What is late takes more space until it has ended.
        let late_memtables = if self.reserve.is_low() { 0 } else { self.settings.late_memtables_max };
        let late_max = schedule.shape().buffer() * late_memtables as u64;
        let ingestion = Ingestion { buffered, buffered_max, late_max };
        let version = self.manifest.version();
        let tree = (version.edit_number(), &**self.tree.of(&version));
        let (order, rate) = {
            let writers_wait = self.throttle.is_delaying(now);
            schedule.pace(tree, ingestion, writers_wait, goes_on)
        };
        self.throttle.set_rate(rate);
        // A burst that fills all memtables would stall writers.
        let memtables_free = buffered_max.0.saturating_sub(buffered.0) / BURST_SHARE;
        self.throttle.set_burst((late_max.0 / BURST_SHARE).min(memtables_free));
        if self.throttle.take_ended() {
            self.database.events.post(|| Event::WriteThrottlingEnded);
        }
        let jobs = &mut schedule.jobs;
        // With huge values, a compaction can take a large part of the memory budget: then one goes
        // on at a time.
        let is_crowded =
            self.tables.storage().account().compactions_are_large() && jobs.compactions().any(|job| job.taken > 0);
        let is_limited = now < schedule.speed.compactions_from();
        let space = PartSpace::of(&self.reserve, jobs, goes_on);
        let threads = self.settings.threads;
        let waits = |job: &Job| goes_on(job) && space.next_part(job, threads).is_some();
        let may_go_on = |job: &Job| waits(job) && (job.is_flush() || !(is_limited || is_crowded));
        let found = space.choose(jobs, &order, threads, may_go_on);
        let skips_some = (0..).zip(jobs.iter()).any(|(at, job)| waits(job) && !(may_go_on(job) && order.contains(&at)));
        let skipped = skips_some.then(|| schedule.speed.compactions_from().max(now + SKIPPED));
        let refuses_some = jobs.iter().any(|job| goes_on(job) && space.refuses(job, threads));
        let retried = jobs.iter().map(|job| job.attempts.paused_until).filter(|until| *until > now);
        let look_again = retried.chain(skipped).chain(refuses_some.then(|| now + REFUSED)).min();
        let part = found.and_then(|at| {
            let job = jobs.at(at);
            space.next_part(job, threads).map(|part| job.take(part))
        });
        let is_busy = jobs.are_worked_on();
        schedule.speed.look(is_busy, now);
        (part, look_again)
    }

    /// Carries out one step of a part.
    pub(super) fn work(&self, mut part: JobPart) -> Progress {
        let _span = match part.task {
            Task::Flush { .. } => tracing::debug_span!("flush", job = part.job),
            Task::Compaction { .. } | Task::Range { .. } => tracing::debug_span!("compaction", job = part.job),
        }
        .entered();
        match self.advance(&mut part) {
            Ok(Advanced { bytes, reached }) => {
                let mut schedule = self.schedule.lock();
                part.copied += bytes;
                self.account(&mut schedule, part.job, bytes);
                schedule.jobs.get(part.job).left += std::mem::take(&mut part.again);
                match reached {
                    Reached::End => {
                        drop(schedule);
                        self.end_part(part);
                    }
                    Reached::Border(_) => {
                        self.part_succeeded(&mut schedule, part.job);
                        schedule.jobs.get(part.job).put_back(part);
                    }
                    Reached::Pause => schedule.jobs.get(part.job).put_back(part),
                }
            }
            Err(error) => {
                let mut schedule = self.schedule.lock();
                self.part_failed(&mut schedule, part, error);
            }
        }
        Progress::More
    }

    /// Adds the bytes that a job has copied.
    fn account(&self, schedule: &mut Schedule, number: u64, bytes: u64) {
        let memtable_bytes = schedule.shape().buffer().0;
        let job = schedule.jobs.get(number);
        job.left = job.left.saturating_sub(bytes);
        let is_flush = job.is_flush();
        schedule.speed.copied(bytes, is_flush, memtable_bytes, self.env.now());
    }

    /// Copies, and hands over what is done at a border.
    fn advance(&self, part: &mut JobPart) -> Result<Advanced> {
        if !part.moved.is_empty() {
            return Ok(Advanced { bytes: 0, reached: Reached::End });
        }
        let (env, events) = (&*self.env, &self.database.events);
        let version = self.manifest.version();
        let copied = events.timed(env, "table: copy", || {
            part.copy(env, &self.database, self.tree.of(&version), &self.output_context, &self.tree_filter)
        })?;
        drop(version);
        match &copied.reached {
            Reached::Pause => {}
            Reached::Border(border) => {
                events.timed(env, "table: finish", || part.finish())?;
                let done = KeyRange { from: part.range.from.clone(), to: Some(border.clone()) };
                let Some(unit) = self.begin_unit(part) else {
                    part.restart();
                    return Ok(Advanced { bytes: copied.bytes, reached: Reached::Pause });
                };
                // The handover of a range changes the set of runs, unlike that of a whole
                // compaction.
                let schedule = matches!(part.task, Task::Range { .. }).then(|| self.schedule.lock());
                let handed_over = self.hand_over(part, done, false);
                drop(schedule);
                match handed_over {
                    Ok(Some(edit)) => unit.published(edit),
                    Ok(None) => {
                        unit.withdrawn();
                        part.restart_unfiltered();
                        return Ok(Advanced { bytes: copied.bytes, reached: Reached::Pause });
                    }
                    Err(error) => {
                        unit.failed(&error);
                        return Err(error);
                    }
                }
                part.go_on_at(border.clone(), self.tables.storage().account());
            }
            Reached::End => events.timed(env, "table: finish", || part.finish())?,
        }
        Ok(Advanced { bytes: copied.bytes, reached: copied.reached })
    }

    /// Begins the change of a filter over the whole tree that belongs to the handover of what the
    /// part has copied, or moves. `None` if the part has to begin anew.
    fn begin_unit(&self, part: &mut JobPart) -> Option<Unit<'_>> {
        let lists = part.take_lists();
        let present = || self.manifest.version();
        self.tree_filter.begin_handover(&part.task, present, lists, (&part.moved, part.tables()))
    }

    /// Hands over `range`: its tables enter the output run, and all inputs are cut back, in one
    /// edit. Returns the number of the edit; `None`, and does nothing, if the decisions of the
    /// compaction filter are void, because a snapshot has begun that can read what it has dropped
    /// or changed.
    fn hand_over(&self, part: &mut JobPart, range: KeyRange, ends: bool) -> Result<Option<EditNumber>> {
        let version = self.manifest.version();
        let (task, mut moved) = (part.task.clone(), part.moved.clone());
        if mistake::is_planted(Mistake::SliceLeftBehind) {
            moved.pop();
        }
        if mistake::is_planted(Mistake::SliceMovedTwice) {
            moved.extend(part.moved.last().cloned());
        }
        let tables = part.output().map_or(Ok(&[][..]), |output| output.ready())?;
        let tree = self.tree.of(&version);
        let target = task.target(tree);
        let changes = match task {
            Task::Compaction { id } => {
                let advanced = edits::advanced(self.tree.id(), id, range, moved, tables).into_iter();
                advanced.chain(ends.then(|| edits::ended(self.tree.id(), id))).collect()
            }
            Task::Range { inputs } => edits::ranged(tree, &inputs, &range, tables),
            Task::Flush { .. } => panic!("a flush hands over nothing before it is installed"),
        };
        let filtered = part.take_filtered();
        let Some(effect) = self.filter_effect(filtered.as_ref()) else { return Ok(None) };
        let installed = self.install(changes);
        self.end_filter_effect(effect);
        let edit = installed?.edit_number();
        self.note_filtered(filtered);
        let tables = part.output().map(CompactionOutput::installed).unwrap_or_default();
        let file_bytes = tables.iter().map(|table| table.file_bytes).sum();
        part.written += file_bytes;
        self.counters.compaction_bytes.add(file_bytes);
        self.counters.level_bytes.add(target, raw_bytes(&tables));
        Ok(Some(edit))
    }

    /// Ends a part: installs its output in the tree, and ends its job if it was the last part.
    fn end_part(&self, mut part: JobPart) {
        if let Task::Flush { .. } = part.task {
            self.end_flush_part(part);
        } else {
            // The gate comes before the lock of the schedule.
            let Some(unit) = self.begin_unit(&mut part) else {
                part.restart();
                let mut schedule = self.schedule.lock();
                let job = schedule.jobs.get(part.job);
                job.left += std::mem::take(&mut part.again);
                return job.put_back(part);
            };
            self.end_compaction_part(unit, part);
        }
        self.remove_garbage();
        self.database.progress.notify();
        self.wake();
    }

    fn end_compaction_part(&self, unit: Unit<'_>, mut part: JobPart) {
        let mut schedule = self.schedule.lock();
        let job = schedule.jobs.get(part.job);
        let is_last = job.taken == 1 && job.parts.is_empty();
        let target = part.task.target(self.tree.of(&self.manifest.version()));
        let range = part.range.clone();
        let edit = match self.hand_over(&mut part, range, is_last) {
            Ok(Some(edit)) => edit,
            Ok(None) => {
                unit.withdrawn();
                part.restart_unfiltered();
                let job = schedule.jobs.get(part.job);
                job.left += std::mem::take(&mut part.again);
                return job.put_back(part);
            }
            Err(error) => {
                unit.failed(&error);
                return self.part_failed(&mut schedule, part, error);
            }
        };
        self.part_succeeded(&mut schedule, part.job);
        // Its cursors pin the last of its inputs.
        part.close();
        let job = schedule.jobs.get(part.job);
        job.taken -= 1;
        job.written += part.written;
        if is_last {
            let (number, raw_bytes, file_bytes) = (job.number, job.total, job.written);
            let elapsed = self.env.now().saturating_sub(job.began);
            let event = || Event::CompactionEnded { number, target, raw_bytes, file_bytes, elapsed };
            self.database.events.post(event);
            self.counters.compactions.add(1);
            let job = schedule.jobs.end(part.job);
            // A compaction of a range can leave any level with less than it had.
            let arrived = if let Task::Range { .. } = job.task { 1 } else { target };
            schedule.agenda.ended(arrived, job.request);
        }
        drop(schedule);
        unit.published(edit);
    }

    /// Ends a part of a flush, and the flush if it was the last one.
    fn end_flush_part(&self, mut part: JobPart) {
        let (lists, readable) = (part.take_lists(), part.readable());
        let output = part.close().unwrap_or_else(|| self.output_context.output(part.table_bytes, part.filter));
        let (from, moved) = (part.range.from.take(), std::mem::take(&mut part.moved));
        let piece = FinishedPiece { from, moved, output, lists, readable };
        let is_last = {
            let mut schedule = self.schedule.lock();
            let job = schedule.jobs.get(part.job);
            job.done.push(piece);
            let is_last = job.taken == 1 && job.parts.is_empty();
            // The last one counts as taken until the flush has ended, so that nobody else ends it.
            job.taken -= usize::from(!is_last);
            is_last
        };
        if is_last {
            self.end_flush(part.job, &part.task);
        }
    }

    /// Ends a flush after all its parts: names durable, edit durable, state published, WAL
    /// released, in this order.
    fn end_flush(&self, number: u64, task: &Task) {
        let Task::Flush { input, .. } = *task else { panic!("only a flush ends as a whole: {task:?}") };
        let run = self.manifest.new_run_id();
        let unit = {
            // Nobody else has the job: its lists and what it moves are complete.
            let (lists, moved, tables) = {
                let mut schedule = self.schedule.lock();
                let done = &mut schedule.jobs.get(number).done;
                let moved: Vec<SliceSpec> = done.iter().flat_map(|piece| piece.moved.iter().cloned()).collect();
                let tables: Vec<TableMeta> = done.iter().flat_map(|piece| piece.output.finished()).cloned().collect();
                let copied = done.iter_mut().filter(|piece| piece.moved.is_empty());
                (copied.map(|piece| piece.lists.take()).collect::<Vec<_>>(), moved, tables)
            };
            self.tree_filter.begin_flush(|| self.manifest.version(), (input, run), lists, (&moved, &tables))
        };
        let mut schedule = self.schedule.lock();
        let mut job = schedule.jobs.end(number);
        job.done.sort_by(|a, b| a.from.cmp(&b.from));
        let edit = match self.install_flush(&mut job, run) {
            Ok(edit) => edit,
            Err(error) => {
                unit.failed(&error);
                return self.flush_retry.failed(job.done.into_iter().map(|done| done.output), error);
            }
        };
        schedule.agenda.flushed();
        if let Task::Flush { immutable, .. } = &job.task
            && let Err(error) = self.wal.release(immutable.last)
        {
            // Nothing depends on it: the segments stay listed, and the next flush or opening
            // removes them.
            tracing::warn!(%error, "WAL segment removal failed");
        }
        drop(schedule);
        unit.published(edit);
    }

    /// Installs the output of a flush as the run with that number. Returns the number of the edit.
    fn install_flush(&self, job: &mut Job, run: RunId) -> Result<EditNumber> {
        let Task::Flush { immutable, input } = &job.task else {
            panic!("only a flush is installed as a whole: {job:?}")
        };
        let (mut changes, mut slices) = (Vec::new(), Vec::new());
        for FinishedPiece { moved, output, .. } in &job.done {
            let tables = output.ready()?;
            changes.extend(edits::added(self.tree.id(), tables));
            slices.extend(moved.iter().cloned().chain(edits::whole(tables)));
        }
        let version = self.manifest.version();
        changes.extend(edits::installed(self.tree.of(&version), *input, run, slices));
        changes.extend(self.flushed_range_deletes(job, &immutable.memtable));
        changes.push(Change::FlushedThrough { tree: self.tree.id(), sequence: immutable.last });
        changes.push(Change::WalDurable { position: self.wal.durable_after(immutable.last).0 });
        let edit = self.install(changes)?.edit_number();
        self.flush_retry.succeeded();
        self.database.health.report_recovery(Activity::Flush);
        let tables: Vec<TableMeta> = job.done.iter_mut().flat_map(|done| done.output.installed()).collect();
        self.counters.flushes.add(1);
        self.counters.flushed_raw_bytes.add(immutable.memtable.raw_bytes());
        let file_bytes = tables.iter().map(|table| table.file_bytes).sum();
        self.counters.flush_bytes.add(file_bytes);
        let elapsed = self.env.now().saturating_sub(job.began);
        let buffer = &immutable.memtable;
        let (entries, raw_bytes_in) = (buffer.entries(), buffer.raw_bytes());
        self.database.events.post(|| Event::FlushEnded { entries, raw_bytes: raw_bytes_in, file_bytes, elapsed });
        self.counters.level_bytes.add(1, raw_bytes(&tables));
        tracing::debug!(through = immutable.last.0, "flush finished");
        Ok(edit)
    }

    /// Returns the change that adds the range deletes of a flushed memtable to the version.
    fn flushed_range_deletes(&self, job: &Job, memtable: &Memtable) -> Option<Change> {
        if !memtable.has_range_tombstones() {
            return None;
        }
        let mut readable: Vec<Sequence> = job.done.iter().flat_map(|piece| piece.readable.iter().copied()).collect();
        readable.extend(self.database.sequences.readable());
        readable.sort_unstable();
        readable.dedup();
        let deletes = memtable.range_tombstones().coalesced(&readable);
        let ranges = deletes.into_iter().map(|delete| (delete.range, delete.sequence)).collect();
        Some(Change::RangesDeleted { tree: self.tree.id(), ranges })
    }

    /// Notes that a part has handed over what it copied.
    fn part_succeeded(&self, schedule: &mut Schedule, number: u64) {
        if schedule.jobs.get(number).attempts.succeeded(self.env.now()) {
            self.report_recovery_of_compactions(schedule);
        }
    }

    /// Reports that compactions have recovered, if none fails any more.
    pub(super) fn report_recovery_of_compactions(&self, schedule: &Schedule) {
        if !self.compaction_retry.is_failing() && !schedule.jobs.iter().any(|job| job.attempts.is_failing) {
            self.database.health.report_recovery(Activity::Compaction);
        }
    }

    /// Resets a failed part to its last handover.
    fn part_failed(&self, schedule: &mut Schedule, mut part: JobPart, error: Error) {
        let mut outputs: Vec<CompactionOutput> = part.close().into_iter().collect();
        let number = part.job;
        let job = schedule.jobs.get(number);
        let pause = (!job.is_flush()).then(|| job.attempts.failed(self.env.now()));
        job.left += std::mem::take(&mut part.copied);
        job.put_back(part);
        // A flush that was merged with the active run needs the space of both at once. It is
        // decided anew, from what is free now.
        let is_merged = matches!(job.task, Task::Flush { input: Some(_), .. });
        if is_merged && error.is_storage_full() && job.taken == 0 {
            let job = schedule.jobs.end(number);
            let parts = job.parts.into_iter().filter_map(|mut part| part.close());
            outputs.extend(parts.chain(job.done.into_iter().map(|piece| piece.output)));
        }
        match pause {
            Some(pause) => self.compaction_retry.report(outputs, error, pause),
            None => self.flush_retry.failed(outputs, error),
        }
        // Whoever sleeps would not know of the pause's end.
        self.wake();
    }
}

/// Result of one step of a part.
struct Advanced {
    /// Raw bytes read.
    bytes: u64,
    /// Where the part is. At its end, its last table is finished; at a border, what was copied has
    /// been handed over.
    reached: Reached,
}

fn raw_bytes(tables: &[TableMeta]) -> u64 {
    tables.iter().map(|table| table.raw_bytes).sum()
}
