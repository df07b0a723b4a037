//! [`Reserve`]: free disk space that is kept for flushes and compactions when the disk is nearly
//! full.
//!
//! Flushes and compactions need space before they free some. Puts are refused while less than the
//! reserve is free, and background work may use it: memtables are flushed, deleted and overwritten
//! entries are compacted away, and WAL segments are removed. Deletes are accepted, because they are
//! how a user frees space.
//!
//! ```text
//!   free space   ├─ compactions ─┼─ half of flushes ─┼─ the other half ─┼─ a quarter of all ─┼──
//!   puts                                refused                             unchanged    accepted
//!   deletes        wait for earlier deletes' space   │               accepted
//! ```
//!
//! The reserve has two parts. The one for flushes suffices for all memtables. The one for
//! compactions suffices for a compaction of all runs, by one thread: it hands over its output table
//! by table, and the file of an input table is removed when all of it is handed over, so at any
//! time it takes a table of each input and one of the output beyond what it began with. Flushes
//! leave alone what a compaction in progress may still need; further parts of a compaction begin
//! only where more is free than both (`compaction/scheduler/part_space`). While space is low,
//! compactions run one at a time, and tombstones are compacted down at once
//! (`compaction/scheduler/begin`), so that what is deleted gives its space back. Deletes wait for
//! that too: they would otherwise fill the reserve with tombstones. A refused delete makes the
//! memtable immutable, so that the tombstones in it take effect. Tables are small on a small disk
//! ([`Reserve::table_bytes`]). What is compressed stays so while space is low, whatever the option
//! says since: the output of a compaction could be larger than its inputs otherwise.
//!
//! Free space is queried four times for each memtable of writes, whenever a flush or a compaction
//! begins, after each table that a compaction hands over, at each step of one while parts of it
//! wait to begin, by each write that would be refused, and every half second while it is low.
//! Space that others use in between goes unnoticed; the WAL, which preallocates, then finds the
//! disk full, which is as harmless. Writers read one flag.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::{Env, Space};

use crate::error::{Error, Result};
use crate::events::{Event, Events};
use crate::stats::DiskStats;
use crate::wal;

/// Interval of queries while space is low.
const PAUSE: Duration = Duration::from_millis(500);

/// The default reserve for flushes is at most one part in this many of the disk.
const FLUSHES_PER_DISK: u64 = 4;

/// The default reserve for compactions is at most one part in this many of the disk.
const COMPACTIONS_PER_DISK: u64 = 8;

/// Tables are at most one part in this many of the disk, so that a compaction of forty runs takes a
/// twenty-fifth of it.
const TABLES_PER_DISK: u64 = 1024;

/// Minimum of that bound, in bytes.
const TABLE_BYTES_MIN: u64 = 16 << 10;

/// The reserve of a database.
#[derive(Debug)]
pub struct Reserve {
    env: Arc<dyn Env>,
    dir: PathBuf,
    events: Arc<Events>,
    /// The size of the reserve, in bytes, if one is set; 0 disables it.
    configured: Option<u64>,
    /// The number of memtables that there may be.
    memtables: u64,
    /// Their size, in bytes.
    memtable_bytes: AtomicU64,
    is_low: AtomicBool,
    /// Time of the next query while space is low, on the environment's clock.
    look_ns: AtomicU64,
    /// Space that a compaction of all runs takes, in bytes.
    compaction_bytes: AtomicU64,
    /// Size of the disk when it was last queried, in bytes; 0 if it has no limit.
    disk_bytes: AtomicU64,
}

/// The two parts of the reserve, in bytes.
#[derive(Clone, Copy, Debug)]
struct ReserveParts {
    compactions: u64,
    flushes: u64,
}

impl ReserveParts {
    fn all(self) -> u64 {
        self.compactions + self.flushes
    }

    /// What deletes leave alone: half of the part for flushes, for the memtables that they have
    /// filled.
    fn for_deletes(self) -> u64 {
        self.compactions + self.flushes / 2
    }
}

impl Reserve {
    /// Creates a reserve on the disk of `dir`, without querying it. Its size in bytes is
    /// `configured`, or follows from the number of memtables and their size in bytes.
    pub fn new(
        env: Arc<dyn Env>,
        dir: PathBuf,
        events: Arc<Events>,
        configured: Option<u64>,
        memtables: u64,
        memtable_bytes: u64,
    ) -> Self {
        Self {
            env,
            dir,
            events,
            configured,
            memtables,
            memtable_bytes: AtomicU64::new(memtable_bytes),
            is_low: AtomicBool::new(false),
            look_ns: AtomicU64::new(0),
            compaction_bytes: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
        }
    }

    /// Sets the size of memtables, in bytes.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        self.memtable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets the space that a compaction of all runs takes beyond theirs, in bytes.
    pub fn set_compaction_bytes(&self, bytes: u64) {
        self.compaction_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns true if the disk had a limit when it was last queried.
    pub fn is_limited(&self) -> bool {
        self.disk_bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns the maximum size of a table on this disk, in bytes.
    pub fn table_bytes(&self) -> u64 {
        match self.disk_bytes.load(Ordering::Relaxed) {
            0 => u64::MAX,
            bytes => (bytes / TABLES_PER_DISK).max(TABLE_BYTES_MIN),
        }
    }

    /// Queries the free space. Returns `None`, and refuses nothing, if the environment has no limit
    /// or the query fails.
    pub fn look(&self) -> Option<DiskStats> {
        let space = self.env.space(&self.dir).unwrap_or_else(|error| {
            tracing::warn!(%error, dir = %self.dir.display(), "query of free space failed");
            None
        });
        self.disk_bytes.store(space.map_or(0, |space| space.total_bytes), Ordering::Relaxed);
        let Some(Space { free_bytes, total_bytes }) = space else {
            self.is_low.store(false, Ordering::Relaxed);
            return None;
        };
        let reserve_bytes = self.parts(total_bytes).all();
        let was_low = self.is_low.load(Ordering::Relaxed);
        let enough_bytes = if was_low { reserve_bytes + reserve_bytes / 4 } else { reserve_bytes };
        let is_low = free_bytes < enough_bytes;
        if is_low {
            self.look_ns.store((self.env.now() + PAUSE).as_nanos() as u64, Ordering::Relaxed);
        }
        if self.is_low.swap(is_low, Ordering::Relaxed) != is_low {
            if is_low {
                tracing::warn!(free_bytes, reserve_bytes, "disk space low: puts refused");
                self.events.post(|| Event::DiskSpaceLow { free_bytes, reserve_bytes });
            } else {
                tracing::info!(free_bytes, "disk space recovered");
                self.events.post(|| Event::DiskSpaceRecovered { free_bytes });
            }
        }
        Some(DiskStats { free_bytes, total_bytes, reserve_bytes, is_low })
    }

    /// Repeats the query while space is low, if it is due. Returns when the next one is due.
    pub fn look_again(&self) -> Option<Duration> {
        if !self.is_low() {
            return None;
        }
        if self.env.now() >= self.next_look() {
            self.look();
        }
        self.is_low().then(|| self.next_look())
    }

    fn next_look(&self) -> Duration {
        Duration::from_nanos(self.look_ns.load(Ordering::Relaxed))
    }

    /// Returns true while puts are refused.
    pub fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// Checks that a put is allowed; queries the free space first while that is low.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] while space is low.
    pub fn check(&self) -> Result<()> {
        if !self.is_low() {
            return Ok(());
        }
        self.look();
        if self.is_low() { Err(self.refused()) } else { Ok(()) }
    }

    #[cold]
    fn refused(&self) -> Error {
        let what =
            "free space is below the reserve for flushes and compactions; deletes are accepted as long as these allow";
        Error::io("write", &self.dir, io::Error::new(io::ErrorKind::StorageFull, what))
    }

    /// Checks that a delete is allowed; queries the free space first while that is low. Where
    /// earlier deletes have nothing to free any more (`frees_space` is false), it is allowed
    /// whatever is free.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] while compactions need what is free.
    pub fn check_delete(&self, frees_space: impl FnOnce() -> bool) -> Result<()> {
        if !self.is_low() {
            return Ok(());
        }
        match self.look() {
            Some(DiskStats { free_bytes, total_bytes, .. })
                if free_bytes < self.parts(total_bytes).for_deletes() && frees_space() =>
            {
                let what = "free space is below the reserve for compactions, which free what was deleted";
                Err(Error::io("delete", &self.dir, io::Error::new(io::ErrorKind::StorageFull, what)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the parts of the reserve on a disk of this size.
    fn parts(&self, total_bytes: u64) -> ReserveParts {
        let compactions = self.compaction_bytes.load(Ordering::Relaxed);
        match self.configured {
            Some(bytes) => {
                let compactions = compactions.min(bytes / 2);
                ReserveParts { compactions, flushes: bytes - compactions }
            }
            None => {
                let memtable_bytes = self.memtable_bytes.load(Ordering::Relaxed);
                // Each with what its segment of the WAL reserves ahead.
                let one = memtable_bytes.saturating_add(wal::reserved_bytes(memtable_bytes));
                let bytes = one.saturating_mul(self.memtables);
                let compactions = compactions.min(total_bytes / COMPACTIONS_PER_DISK);
                ReserveParts { compactions, flushes: bytes.min(total_bytes / FLUSHES_PER_DISK) }
            }
        }
    }

    /// Queries the free space, and returns it without the reserve's part for flushes, in bytes.
    pub fn free_beside_flushes(&self) -> u64 {
        let free = |disk: DiskStats| disk.free_bytes.saturating_sub(self.parts(disk.total_bytes).flushes);
        self.look().map_or(u64::MAX, free)
    }

    /// Returns true if `bytes` can be written without the reserve.
    pub fn spares(&self, bytes: u64) -> bool {
        self.look().is_none_or(|disk| disk.free_bytes >= disk.reserve_bytes.saturating_add(bytes))
    }

    /// Checks that background work can write `bytes` before it frees any, the reserve included.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] if less is free.
    pub fn check_space(&self, doing: &'static str, bytes: u64) -> Result<()> {
        match self.look() {
            Some(DiskStats { free_bytes, .. }) if free_bytes < bytes => {
                let what = format!("{free_bytes} bytes are free, about {bytes} are needed temporarily");
                Err(Error::io(doing, &self.dir, io::Error::new(io::ErrorKind::StorageFull, what)))
            }
            _ => Ok(()),
        }
    }
}
