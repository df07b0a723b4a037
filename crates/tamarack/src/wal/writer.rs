//! [`Wal`]: appends, syncs, begins and removes segments.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tamarack_env::Env;
use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::sync::{Condvar, Mutex, Rank};

use super::PROFILE;
use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::group::Group;
use crate::format::meta::EditNumber;
use crate::format::record::{FILE_HEADER_BYTES, FileHeader};
use crate::journal::{Ending, Position, Segment};
use crate::step;
use crate::wal::recovery::Recovered;

/// Where the WAL lives and how it grows.
#[derive(Clone, Debug)]
pub struct WalSettings {
    /// Storage.
    pub env: Arc<dyn Env>,
    /// The database's directory.
    pub dir: PathBuf,
    /// The database's id.
    pub database: u64,
    /// Space is reserved in pieces of at most this many bytes, until [`Wal::set_allocate_bytes`].
    pub allocate_bytes: u64,
}

/// A piece takes at most one part in this many of the space that is free when its segment begins:
/// every memtable begins one, and where space is low, memtables with little in them do as well.
const PIECES_PER_FREE_SPACE: u64 = 16;

impl WalSettings {
    /// The pieces in which a segment that begins now reserves space, in bytes, where they may have
    /// `bytes_max`.
    fn piece_bytes(&self, bytes_max: u64) -> u64 {
        // Without an answer, reserving fails where there is no space, and less is taken.
        let space = self.env.space(&self.dir).ok().flatten();
        space.map_or(bytes_max, |space| bytes_max.min(space.free_bytes / PIECES_PER_FREE_SPACE))
    }
}

/// The WAL, open for appending. All methods may be called from any thread; [`Wal::append`] and
/// [`Wal::rotate`] by one at a time if the order matters to the caller.
#[derive(Debug)]
pub struct Wal {
    settings: WalSettings,
    /// Pieces in which new segments reserve space at most, in bytes.
    allocate_bytes: AtomicU64,
    /// Where the next record goes.
    end: AtomicU64,
    /// Where the newest segment begins.
    begin: AtomicU64,
    /// Everything before is durable: here, or in tables.
    durable: AtomicU64,
    /// Sequences were skipped since the last entry, so what comes next needs a segment of its own.
    skipped: AtomicBool,
    segments: Mutex<Segments>,
    /// True while somebody syncs.
    syncing: Mutex<bool>,
    synced: Condvar,
}

/// The segments, and whether the WAL can still be written. Locked while the WAL changes, also for
/// the syncs that this takes, but not while what was appended is synced.
#[derive(Debug)]
struct Segments {
    /// Old to young; the last is the one that is appended to.
    all: VecDeque<Segment>,
    next_number: u64,
    last_sequence: Sequence,
    /// Whether more can be written.
    ending: Ending,
}

/// What [`Wal::verify`] found.
#[derive(Clone, Debug, Default)]
pub struct WalCheck {
    /// Bytes read.
    pub bytes: u64,
    /// What is wrong, at most one place in each segment.
    pub problems: Vec<Error>,
}

/// A segment as statistics show it.
#[derive(Clone, Debug)]
pub struct SegmentStats {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of header and records.
    pub bytes: u64,
    /// The sequence of its first entry.
    pub first_sequence: Sequence,
}

impl Wal {
    /// Goes on with a WAL that was recovered, or begins one. `last_edit` is the last durable edit
    /// of the manifest.
    pub fn start(settings: WalSettings, after: &Recovered, last_edit: EditNumber) -> Result<Self> {
        let wal = Self::going_on(settings, after, Ending::default());
        // The next entry does not follow the last one in the WAL if everything up to a later
        // sequence is in tables: that of an ingested run.
        if after.segments.is_empty() || after.last_in_wal < after.last_sequence {
            wal.rotate(after.last_sequence.next(), last_edit)?;
            // Nothing but a header, which is durable.
            wal.durable.store(wal.end().0, Ordering::Release);
        }
        Ok(wal)
    }

    /// A WAL that was read and is left as it is, because of `why`: nothing can be appended to it.
    pub fn ended(settings: WalSettings, after: &Recovered, why: Error) -> Self {
        Self::going_on(settings, after, Ending::because(why))
    }

    fn going_on(settings: WalSettings, after: &Recovered, ending: Ending) -> Self {
        let found = after.segments.iter();
        let piece_bytes = settings.piece_bytes(settings.allocate_bytes);
        let segments = Segments {
            all: found.map(|segment| segment.clone().reserving(piece_bytes)).collect(),
            next_number: after.next_number,
            last_sequence: after.last_sequence,
            ending,
        };
        Self {
            allocate_bytes: AtomicU64::new(settings.allocate_bytes),
            settings,
            end: AtomicU64::new(after.end.0),
            begin: AtomicU64::new(after.end.0),
            durable: AtomicU64::new(after.end.0),
            skipped: AtomicBool::new(false),
            segments: Mutex::new(Rank::WalSegments, segments),
            syncing: Mutex::new(Rank::WalSync, false),
            synced: Condvar::new(),
        }
    }

    /// Sets the pieces in which segments that begin from now on reserve space at most, in bytes.
    pub fn set_allocate_bytes(&self, bytes: u64) {
        self.allocate_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Up to where the WAL is durable, or everything in it is in tables.
    pub fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    /// Up to where it is durable when everything up to `flushed_through` is in tables: at least up
    /// to the end of the header of the segment that recovery begins with then.
    pub fn durable_after(&self, flushed_through: Sequence) -> Position {
        let segments = self.segments.lock();
        let first_needed = segments.all.iter().rfind(|segment| segment.header().first <= flushed_through.0 + 1);
        let begun = first_needed.map_or(0, |segment| segment.header().base.0 + FILE_HEADER_BYTES);
        self.durable().max(Position(begun))
    }

    /// Where the next record goes.
    pub fn end(&self) -> Position {
        Position(self.end.load(Ordering::Acquire))
    }

    /// The bytes of the newest segment, roughly: since this was opened, at most.
    pub fn segment_bytes(&self) -> u64 {
        self.end().0.saturating_sub(self.begin.load(Ordering::Relaxed))
    }

    /// The segments, old to young.
    pub fn segments(&self) -> Vec<SegmentStats> {
        let segments = self.segments.lock();
        let stats = segments.all.iter().map(|segment| SegmentStats {
            path: segment.path().to_owned(),
            bytes: segment.end(),
            first_sequence: Sequence(segment.header().first),
        });
        stats.collect()
    }

    /// Reads all segments up to where the WAL is durable, and checks that what was written stands
    /// there.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails. Damage is part of what it gives.
    pub fn verify(&self) -> Result<WalCheck> {
        let durable = self.durable();
        let segments: Vec<_> = self.segments.lock().all.iter().cloned().collect();
        let mut check = WalCheck::default();
        let mut next = None;
        for segment in &segments {
            let end = segment.end().min(durable.0.saturating_sub(segment.header().base.0));
            if end < FILE_HEADER_BYTES {
                // Nothing in it is known to be durable yet.
                break;
            }
            check.bytes += end;
            next = match segment.verify(end, next)? {
                Ok(next) => Some(next),
                Err(damaged) => {
                    check.problems.push(damaged);
                    None
                }
            };
        }
        Ok(check)
    }

    /// Appends `group`, whose first entry gets `first`, and returns where its record ends.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing was appended, and the WAL can go on; [`Error::Stopped`] if it
    /// cannot.
    ///
    /// # Panics
    /// If `first` is not the sequence after the last one appended.
    pub fn append(&self, group: &mut Group, first: Sequence) -> Result<Position> {
        let mut segments = self.segments.lock();
        segments.ending.check()?;
        assert_eq!(first, segments.last_sequence.next(), "the WAL has no gaps");
        assert!(!self.needs_segment(), "a segment has no gaps: {first:?} begins another");
        let entries = group.entries();
        assert!(entries > 0, "a group without entries is not logged");
        let segment = segments.all.back_mut().expect("a WAL has a segment to append to");
        let appended = segment.append(group.record(), entries, first.0, self.durable(), step::WAL_APPEND, 0);
        let position = segment.end_position();
        appended.map_err(|error| segments.ending.note(error))?;
        segments.last_sequence = Sequence(first.0 + u64::from(entries) - 1);
        self.end.store(position.0, Ordering::Release);
        Ok(position)
    }

    /// Returns once everything before `target` is durable. Callers that come while a sync is going
    /// on wait for it, and then one of them syncs for all that it did not cover.
    ///
    /// # Errors
    /// [`Error::Stopped`] if a sync failed, now or before.
    pub fn sync_to(&self, target: Position) -> Result<()> {
        while self.durable() < target {
            let mut syncing = self.syncing.lock();
            if *syncing {
                drop(self.synced.wait(syncing));
                continue;
            }
            // Somebody else may have finished between the question and the lock.
            if self.durable() >= target {
                break;
            }
            *syncing = true;
            drop(syncing);
            let outcome = self.sync_all();
            *self.syncing.lock() = false;
            self.synced.notify_all();
            outcome?;
        }
        Ok(())
    }

    /// Syncs everything appended so far, old to young.
    fn sync_all(&self) -> Result<()> {
        let (unsynced, end) = {
            let segments = self.segments.lock();
            segments.ending.check()?;
            let unsynced = segments.all.iter().filter(|segment| segment.synced() < segment.end());
            (unsynced.cloned().collect::<Vec<_>>(), self.end())
        };
        let number = |segment: &Segment| segment.header().number;
        let youngest = unsynced.last().map(number);
        for segment in &unsynced {
            let is_youngest = Some(number(segment)) == youngest;
            let step = if is_youngest { step::WAL_SYNC } else { step::WAL_SYNC_PREVIOUS };
            segment.sync(step).map_err(|error| self.segments.lock().ending.note(error))?;
        }
        let mut segments = self.segments.lock();
        // A sync that failed meanwhile, of a segment that was cut, has taken the error that the
        // kernel reports once: the success of this one means nothing.
        segments.ending.check()?;
        for segment in &mut segments.all {
            if let Some(done) = unsynced.iter().find(|done| number(done) == number(segment)) {
                segment.note_synced(done.end());
            }
        }
        self.durable.fetch_max(end.0, Ordering::AcqRel);
        Ok(())
    }

    /// The next entry comes after `last`. Everything up to `last` is in tables, also after a crash.
    /// If that skips sequences, [`Wal::needs_segment`].
    pub fn skip_to(&self, last: Sequence) {
        let mut segments = self.segments.lock();
        assert!(segments.last_sequence <= last, "the WAL is at {:?} already, past {last:?}", segments.last_sequence);
        if segments.last_sequence < last {
            self.skipped.store(true, Ordering::Relaxed);
        }
        segments.last_sequence = last;
    }

    /// Returns true if the next call must be [`Wal::rotate`]: a segment has no gaps. To be asked by
    /// the thread that appends.
    pub fn needs_segment(&self) -> bool {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Begins a new segment, for entries from `first_sequence` on. Its header and its name are
    /// durable when this returns.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no new segment and the WAL goes on in the old one;
    /// [`Error::Stopped`] if it cannot go on.
    pub fn rotate(&self, first_sequence: Sequence, last_edit: EditNumber) -> Result<()> {
        let mut segments = self.segments.lock();
        segments.ending.check()?;
        assert_eq!(first_sequence, segments.last_sequence.next(), "the WAL has no gaps");
        // Recovery takes nothing that follows damage in an older segment.
        segments.cut_rest()?;
        let number = segments.next_number;
        segments.next_number += 1;
        let header = FileHeader {
            kind: PROFILE.kind,
            database: self.settings.database,
            number,
            base: self.end(),
            first: first_sequence.0,
            created_after: last_edit,
        };
        let segment = self.create_segment(header).map_err(|error| segments.ending.note(error))?;
        segments.all.push_back(segment);
        self.skipped.store(false, Ordering::Relaxed);
        self.begin.store(header.base.0, Ordering::Relaxed);
        self.end.store(header.base.0 + FILE_HEADER_BYTES, Ordering::Release);
        Ok(())
    }

    fn create_segment(&self, header: FileHeader) -> Result<Segment> {
        let WalSettings { env, dir, .. } = &self.settings;
        let piece_bytes = self.settings.piece_bytes(self.allocate_bytes.load(Ordering::Relaxed));
        let mut segment = Segment::create(&PROFILE, env.as_ref(), dir, header, piece_bytes)?;
        if let Err(error) = segment.begin(None) {
            if let Error::Stopped { .. } = error {
                return Err(error);
            }
            // What was written may be a whole header after all, and would part what is appended
            // from now on. That the removal is durable is seen to by whoever makes the next
            // segment; until then it is the last, and recovery drops it.
            tracing::warn!(%error, path = %segment.path().display(), "a new segment could not be begun");
            let removed = env.remove(segment.path(), step::WAL_REMOVE);
            removed.map_err(|error| Error::io(step::WAL_REMOVE.0, segment.path(), error).ends_writing())?;
            return Err(error);
        }
        let synced = env.sync_dir(dir, step::WAL_SYNC_DIRECTORY);
        synced.map_err(|error| Error::io(step::WAL_SYNC_DIRECTORY.0, dir, error).ends_writing())?;
        Ok(segment)
    }

    /// Removes the segments, old to young, whose entries are all at or before `flushed_through`, up
    /// to which everything is durable in tables; never the one that is appended to.
    ///
    /// The marks of later records say so: should the edit that put these entries into tables be
    /// lost, recovery misses the segments.
    ///
    /// # Errors
    /// [`Error::Io`] if one could not be removed; it stays listed, and the next call tries again.
    pub fn release(&self, flushed_through: Sequence) -> Result<()> {
        self.durable.fetch_max(self.durable_after(flushed_through).0, Ordering::AcqRel);
        loop {
            let path = {
                let segments = self.segments.lock();
                match segments.all.get(1) {
                    Some(second) if second.header().first <= flushed_through.0 + 1 => segments.all[0].path().to_owned(),
                    _ => return Ok(()),
                }
            };
            match self.settings.env.remove(&path, step::WAL_REMOVE) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(step::WAL_REMOVE.0, &path, error));
                }
                _ => {}
            }
            let mut segments = self.segments.lock();
            if segments.all.front().is_some_and(|oldest| oldest.path() == path) {
                segments.all.pop_front();
            }
        }
    }

    /// Makes everything durable, frees reserved space, and ends appending. Returns the end of the
    /// WAL.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it cannot be made durable, now or before.
    pub fn close(&self) -> Result<Position> {
        // Commits that were under way when closing began may append, and even rotate, until nothing
        // is left to be synced.
        let mut segments = loop {
            self.sync_to(self.end())?;
            let segments = self.segments.lock();
            segments.ending.check()?;
            if self.durable() == self.end() {
                break segments;
            }
        };
        segments.cut_rest()?;
        let segment = segments.all.back().expect("a WAL has a segment to append to");
        let trimmed = segment.trim(step::WAL_TRIM).map_err(Error::ends_writing);
        trimmed.map_err(|error| segments.ending.note(error))?;
        segments.ending = Ending::because(Error::Closed);
        Ok(self.end())
    }
}

impl Segments {
    /// Cuts off what an append that found no space left, if that has not been done. [`Error::Io`]
    /// if that has to wait still.
    fn cut_rest(&mut self) -> Result<()> {
        // There is none yet if the WAL is only just beginning.
        let outcome = self.all.back_mut().map_or(Ok(()), Segment::cut_rest);
        outcome.map_err(|error| self.ending.note(error))
    }
}
