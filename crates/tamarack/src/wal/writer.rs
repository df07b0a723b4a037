//! [`Wal`]: appends, syncs, begins and removes segments.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Condvar, Mutex, Rank};
use tamarack_env::{Env, File, Step};

use crate::entry::Sequence;
use crate::error::{Error, Result};
use crate::format::checksum::Place;
use crate::format::meta::EditNumber;
use crate::format::names::FileName;
use crate::format::record::{
    Group, Position, RECORD_ALIGNMENT, SEGMENT_HEADER_BYTES, SegmentHeader, record_at, segment_place,
};
use crate::step;
use crate::wal::recovery::Recovered;

/// Where the log lives and how it grows.
#[derive(Clone, Debug)]
pub struct WalSettings {
    /// Storage.
    pub env: Arc<dyn Env>,
    /// The database's directory.
    pub dir: PathBuf,
    /// The database's id.
    pub database: u64,
    /// Space is reserved in pieces of this many bytes.
    pub allocate_bytes: u64,
}

/// The log, open for appending. All methods may be called from any thread; [`Wal::append`] and [`Wal::rotate`] by one at a time if the
/// order matters to the caller.
#[derive(Debug)]
pub struct Wal {
    settings: WalSettings,
    /// Where the next record goes.
    end: AtomicU64,
    /// Everything before is durable.
    durable: AtomicU64,
    segments: Mutex<Segments>,
    /// True while somebody syncs.
    syncing: Mutex<bool>,
    synced: Condvar,
}

/// The segments, and whether the log can still be written. Locked while the log changes, also for the syncs that this takes, but not while what was
/// appended is synced.
#[derive(Debug)]
struct Segments {
    /// Old to young; the last is the one that is appended to.
    all: VecDeque<Segment>,
    next_number: u64,
    last_sequence: Sequence,
    /// Sequences were skipped since the last entry, so what comes next needs a segment of its own.
    skipped: bool,
    /// Why nothing is written any more.
    failure: Option<Arc<Error>>,
}

/// A segment, open for writing.
#[derive(Clone, Debug)]
struct Segment {
    header: SegmentHeader,
    place: Place,
    path: PathBuf,
    file: Arc<dyn File>,
    /// Where its records end, in bytes of the file.
    end: u64,
    /// Up to where space is reserved.
    allocated: u64,
    /// Up to where the file is durable.
    synced: u64,
    /// What an append left that found no space has still to be cut off.
    uncut: bool,
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
    /// Goes on with a log that was recovered, or begins one. `last_edit` is the last durable edit of the manifest.
    pub fn start(settings: WalSettings, after: &Recovered, last_edit: EditNumber) -> Result<Self> {
        let wal = Self::standing(settings, after, None);
        // The next entry does not follow the last one in the log if everything up to a later sequence is in tables: that of an ingested run.
        if after.segments.is_empty() || after.last_in_wal < after.last_sequence {
            wal.rotate(after.last_sequence.next(), last_edit)?;
            // Nothing but a header, which is durable.
            wal.durable.store(wal.end().0, Ordering::Release);
        }
        Ok(wal)
    }

    /// A log that was read and is left as it is, because of `why`: nothing can be appended to it.
    pub fn ended(settings: WalSettings, after: &Recovered, why: Error) -> Self {
        Self::standing(settings, after, Some(Arc::new(why)))
    }

    fn standing(settings: WalSettings, after: &Recovered, failure: Option<Arc<Error>>) -> Self {
        let mut segments = Segments {
            all: VecDeque::new(),
            next_number: after.next_number,
            last_sequence: after.last_sequence,
            skipped: false,
            failure,
        };
        for found in &after.segments {
            segments.all.push_back(Segment {
                header: found.header,
                place: segment_place(settings.database, found.header.number),
                path: found.path.clone(),
                file: found.file.clone(),
                end: found.end,
                allocated: found.file_bytes,
                synced: found.end,
                uncut: false,
            });
        }
        Self {
            settings,
            end: AtomicU64::new(after.end.0),
            durable: AtomicU64::new(after.end.0),
            segments: Mutex::new(Rank::WalSegments, segments),
            syncing: Mutex::new(Rank::WalSync, false),
            synced: Condvar::new(),
        }
    }

    /// Up to where the log is durable.
    pub fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    /// Where the next record goes.
    pub fn end(&self) -> Position {
        Position(self.end.load(Ordering::Acquire))
    }

    /// The segments, old to young.
    pub fn segments(&self) -> Vec<SegmentStats> {
        let segments = self.segments.lock();
        let stats = segments.all.iter().map(|segment| SegmentStats {
            path: segment.path.clone(),
            bytes: segment.end,
            first_sequence: segment.header.first_sequence,
        });
        stats.collect()
    }

    /// Reads all segments up to where the log is durable, and checks that what was written stands there.
    ///
    /// # Errors
    /// [`Error::Io`] if storage fails. Damage is part of what it gives.
    pub fn verify(&self) -> Result<WalCheck> {
        let durable = self.durable();
        let segments: Vec<_> = self.segments.lock().all.iter().cloned().collect();
        let mut check = WalCheck::default();
        let mut next = None;
        for segment in &segments {
            let end = segment.end.min(durable.0.saturating_sub(segment.header.base.0));
            if end < SEGMENT_HEADER_BYTES {
                // Nothing in it is known to be durable yet.
                break;
            }
            check.bytes += end;
            let read = segment.verify(end, self.settings.database, &mut next);
            match read.map_err(|error| Error::io("log: read segment", &segment.path, error))? {
                Ok(()) => {}
                Err((offset, what)) => {
                    check.problems.push(Error::corruption(&segment.path, offset, what));
                    next = None;
                }
            }
        }
        Ok(check)
    }

    /// Appends `group`, whose first entry gets `first`, and returns where its record ends.
    ///
    /// # Errors
    /// [`Error::Io`] if nothing was appended, and the log can go on; [`Error::Stopped`] if it cannot.
    ///
    /// # Panics
    /// If `first` is not the sequence after the last one appended.
    pub fn append(&self, group: &mut Group, first: Sequence) -> Result<Position> {
        let mut segments = self.segments.lock();
        segments.check()?;
        assert_eq!(first, segments.last_sequence.next(), "the log has no gaps");
        assert!(!segments.skipped, "a segment has no gaps: {first:?} begins another");
        let entries = group.entries();
        segments.cut_rest()?;
        let segment = segments.all.back_mut().expect("a log has a segment to append to");
        let Some(record) = group.seal(segment.place, segment.end, first, self.durable()) else {
            return Err(Error::InvalidArgument("a commit of 4 GiB or more: split it".to_owned()));
        };
        let end = segment.end + record.len() as u64;
        segment.reserve(end, self.settings.allocate_bytes)?;
        if let Err(error) = segment.file.write_all_at(record, segment.end, step::LOG_APPEND) {
            let error = Error::io(step::LOG_APPEND.0, &segment.path, error);
            segment.uncut = true;
            return match segment.cut() {
                Ok(()) => Err(error),
                // What found no space is not whole: should a crash bring it back, recovery drops it. So the cut can wait for the next append.
                Err(cut @ Error::Io { .. }) if error.is_storage_full() => {
                    tracing::warn!(%cut, "an append found no space, and could not be cut off yet");
                    Err(error)
                }
                Err(cut) => {
                    tracing::error!(%error, "an append failed, and cutting it off failed as well");
                    Err(segments.fail(cut))
                }
            };
        }
        segment.end = end;
        let position = Position(segment.header.base.0 + end);
        segments.last_sequence = Sequence(first.0 + u64::from(entries) - 1);
        self.end.store(position.0, Ordering::Release);
        Ok(position)
    }

    /// Returns once everything before `target` is durable. Callers that come while a sync is going on wait for it, and then one of them syncs for
    /// all that it did not cover.
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
            segments.check()?;
            let unsynced: Vec<_> =
                segments.all.iter().filter(|segment| segment.synced < segment.end).cloned().collect();
            (unsynced, self.end())
        };
        let youngest = unsynced.last().map(|segment| segment.header.number);
        for segment in &unsynced {
            let step = if Some(segment.header.number) == youngest { step::LOG_SYNC } else { step::LOG_SYNC_PREVIOUS };
            if let Err(error) = segment.file.sync(step) {
                return Err(self.segments.lock().fail(Error::io(step.0, &segment.path, error)));
            }
        }
        let mut segments = self.segments.lock();
        for segment in &mut segments.all {
            if let Some(done) = unsynced.iter().find(|done| done.header.number == segment.header.number) {
                segment.synced = segment.synced.max(done.end);
            }
        }
        self.durable.fetch_max(end.0, Ordering::AcqRel);
        Ok(())
    }

    /// The next entry comes after `last`. Everything up to `last` is in tables, also after a crash. Unless nothing was skipped, the next call must be [`Wal::rotate`].
    pub fn skip_to(&self, last: Sequence) {
        let mut segments = self.segments.lock();
        assert!(segments.last_sequence <= last, "the log is at {:?} already, past {last:?}", segments.last_sequence);
        segments.skipped |= segments.last_sequence < last;
        segments.last_sequence = last;
    }

    /// Begins a new segment, for entries from `first_sequence` on. Its header and its name are durable when this returns.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no new segment and the log goes on in the old one; [`Error::Stopped`] if it cannot go on.
    pub fn rotate(&self, first_sequence: Sequence, last_edit: EditNumber) -> Result<()> {
        let mut segments = self.segments.lock();
        segments.check()?;
        assert_eq!(first_sequence, segments.last_sequence.next(), "the log has no gaps");
        // Recovery takes nothing that follows damage in an older segment.
        segments.cut_rest()?;
        let number = segments.next_number;
        segments.next_number += 1;
        let header = SegmentHeader { number, base: self.end(), first_sequence, created_after: last_edit };
        let segment = match self.create_segment(header) {
            Ok(segment) => segment,
            Err(error @ Error::Stopped { .. }) => return Err(segments.fail(error)),
            Err(error) => return Err(error),
        };
        segments.all.push_back(segment);
        segments.skipped = false;
        self.end.store(header.base.0 + SEGMENT_HEADER_BYTES, Ordering::Release);
        Ok(())
    }

    fn create_segment(&self, header: SegmentHeader) -> Result<Segment> {
        let WalSettings { env, dir, database, allocate_bytes } = &self.settings;
        let path = FileName::Wal(header.number).path(dir);
        let file = env.create(&path, step::LOG_CREATE).map_err(|error| Error::io(step::LOG_CREATE.0, &path, error))?;
        let mut segment = Segment {
            header,
            place: segment_place(*database, header.number),
            path,
            file,
            end: 0,
            allocated: 0,
            synced: SEGMENT_HEADER_BYTES,
            uncut: false,
        };
        if let Err(error) = segment.begin(*database, *allocate_bytes) {
            if let Error::Stopped { .. } = error {
                return Err(error);
            }
            // What was written may be a whole header after all, and would part what is appended from now on. That the removal is durable is
            // seen to by whoever makes the next segment; until then it is the last, and recovery drops it.
            tracing::warn!(%error, path = %segment.path.display(), "a new segment could not be begun");
            env.remove(&segment.path, step::LOG_REMOVE)
                .map_err(|error| stopped(step::LOG_REMOVE, &segment.path, error))?;
            return Err(error);
        }
        env.sync_dir(dir, step::LOG_SYNC_DIRECTORY).map_err(|error| stopped(step::LOG_SYNC_DIRECTORY, dir, error))?;
        Ok(segment)
    }

    /// Removes the segments, old to young, whose entries are all at or before `flushed_through`; never the one that is appended to.
    ///
    /// # Errors
    /// [`Error::Io`] if one could not be removed; it stays listed, and the next call tries again.
    pub fn release(&self, flushed_through: Sequence) -> Result<()> {
        loop {
            let path = {
                let segments = self.segments.lock();
                match segments.all.get(1) {
                    Some(second) if second.header.first_sequence.0 <= flushed_through.0 + 1 => {
                        segments.all[0].path.clone()
                    }
                    _ => return Ok(()),
                }
            };
            match self.settings.env.remove(&path, step::LOG_REMOVE) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io(step::LOG_REMOVE.0, &path, error));
                }
                _ => {}
            }
            let mut segments = self.segments.lock();
            if segments.all.front().is_some_and(|oldest| oldest.path == path) {
                segments.all.pop_front();
            }
        }
    }

    /// Makes everything durable, gives reserved space back, and ends appending. Returns where the log ends.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it cannot be made durable, now or before.
    pub fn close(&self) -> Result<Position> {
        // Commits that were under way when closing began may append, and even rotate, until nothing is left to be synced.
        let mut segments = loop {
            self.sync_to(self.end())?;
            let segments = self.segments.lock();
            segments.check()?;
            if self.durable() == self.end() {
                break segments;
            }
        };
        segments.cut_rest()?;
        let segment = segments.all.back().expect("a log has a segment to append to");
        // Not synced: whether reserved zeros follow the last record or the file ends there says the same, and the next open syncs the file.
        if let Err(error) = segment.file.set_len(segment.end, step::LOG_TRIM) {
            let error = Error::io(step::LOG_TRIM.0, &segment.path, error);
            return Err(segments.fail(error));
        }
        segments.failure = Some(Arc::new(Error::Closed));
        Ok(self.end())
    }
}

impl Segments {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(cause) => Err(Error::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Cuts off what an append that found no space left, if that has not been done. [`Error::Io`] if that has to wait still.
    fn cut_rest(&mut self) -> Result<()> {
        // There is none yet if the log is only just beginning.
        let outcome = self.all.back_mut().filter(|segment| segment.uncut).map(Segment::cut);
        match outcome {
            Some(Err(error @ Error::Stopped { .. })) => Err(self.fail(error)),
            Some(outcome) => outcome,
            None => Ok(()),
        }
    }

    /// Ends writing because of `error`, unless it has ended before, and returns what to tell the caller.
    fn fail(&mut self, error: Error) -> Error {
        let cause = match error {
            Error::Stopped { cause } => cause,
            other => Arc::new(other),
        };
        let cause = self.failure.get_or_insert(cause).clone();
        Error::Stopped { cause }
    }
}

impl Segment {
    /// Checks the segment up to `end`, which must be where a record ends, and that its entries follow `next`; or says where and what is wrong.
    fn verify(
        &self,
        end: u64,
        database: u64,
        next: &mut Option<Sequence>,
    ) -> io::Result<std::result::Result<(), (u64, &'static str)>> {
        let mut bytes = vec![0; usize::try_from(end).map_err(io::Error::other)?];
        let length = self.file.len()?;
        // A file that was not made longer since it was recovered may end within the last record's padding.
        if length + RECORD_ALIGNMENT <= end {
            return Ok(Err((length, "the file ends before what was durable")));
        }
        self.file.read_exact_at(&mut bytes[..end.min(length) as usize], 0)?;
        let header = SegmentHeader::decode(&bytes, database, self.header.number);
        if header != Ok(self.header) {
            return Ok(Err((0, "the segment does not have the header that was written")));
        }
        let mut expected = self.header.first_sequence;
        // An ingested run may have taken those between.
        if next.is_some_and(|next| expected < next) {
            return Ok(Err((0, "the segment begins with a sequence that the one before has")));
        }
        let mut offset = SEGMENT_HEADER_BYTES;
        while offset < end {
            let Some((head, _)) = record_at(&bytes, offset, self.place) else {
                return Ok(Err((offset, "what stands here is not the record that was written")));
            };
            if head.first != expected {
                return Ok(Err((offset, "a record does not follow the one before")));
            }
            expected = head.last().next();
            offset += head.stride();
        }
        *next = Some(expected);
        Ok(Ok(()))
    }

    /// Writes the header and makes it durable. [`Error::Io`] if the file can be thrown away, as nothing has been promised in it; [`Error::Stopped`] if writing
    /// has to end.
    fn begin(&mut self, database: u64, allocate_bytes: u64) -> Result<()> {
        self.reserve(SEGMENT_HEADER_BYTES, allocate_bytes)?;
        let bytes = self.header.encode(database);
        self.file
            .write_all_at(&bytes, 0, step::LOG_HEADER)
            .map_err(|error| Error::io(step::LOG_HEADER.0, &self.path, error))?;
        self.end = SEGMENT_HEADER_BYTES;
        let synced = self.file.sync(step::LOG_SYNC_HEADER);
        synced.map_err(|error| Error::io(step::LOG_SYNC_HEADER.0, &self.path, error).of_sync_of_new_file())
    }

    /// Reserves space up to `end` and some more, or at least up to `end` if there is no space for more.
    fn reserve(&mut self, end: u64, allocate_bytes: u64) -> Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        let ample = end.max(self.allocated + allocate_bytes);
        let reserved = match self.file.allocate(ample, step::LOG_ALLOCATE) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.file.allocate(end, step::LOG_ALLOCATE).map(|()| end)
            }
            other => other.map(|()| ample),
        };
        self.allocated = reserved.map_err(|error| Error::io(step::LOG_ALLOCATE.0, &self.path, error))?;
        Ok(())
    }

    /// Takes back what a failed append may have left, for good: no crash may bring back what the caller is told was not written. [`Error::Stopped`] if the
    /// sync failed: the file holds what was promised.
    fn cut(&mut self) -> Result<()> {
        self.allocated = self.end;
        let cut = self.file.set_len(self.end, step::LOG_CUT);
        cut.map_err(|error| Error::io(step::LOG_CUT.0, &self.path, error))?;
        self.uncut = false;
        self.file.sync(step::LOG_SYNC_CUT).map_err(|error| stopped(step::LOG_SYNC_CUT, &self.path, error))
    }
}

/// A failed sync, after which nothing is written any more.
fn stopped(step: Step, path: &Path, error: io::Error) -> Error {
    Error::Stopped { cause: Arc::new(Error::io(step.0, path, error)) }
}
