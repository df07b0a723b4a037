//! [`Reserve`]: free disk space that is kept for flushes and compactions when the disk is nearly
//! full.
//!
//! Flushes and compactions need space before they free some. Puts are refused while less than the
//! reserve is free, and background work may use it: memtables are flushed, deleted and overwritten
//! entries are compacted away, and WAL segments are removed. Deletes are accepted, because they are
//! how a user frees space.
//!
//! ```text
//!   free space   ├──────── reserve ────────┼── a quarter of it ──┼────────────────────────
//!   puts                 refused                 unchanged           accepted
//! ```
//!
//! Free space is queried whenever a flush or a compaction begins, and every half second while it is
//! low: writes are refused then, so that no flush would query it. Space that others use in between
//! goes unnoticed; the WAL, which preallocates, then finds the disk full, which is as harmless.
//! Writers read one flag.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::{Env, Space};

use crate::error::{Error, Result};
use crate::events::{Event, Events};
use crate::stats::DiskStats;

/// Interval of queries while space is low.
const PAUSE: Duration = Duration::from_millis(500);

/// The default reserve is at most 1 / `DISK_SHARE` of the disk.
const DISK_SHARE: u64 = 20;

/// The reserve of a database.
#[derive(Debug)]
pub struct Reserve {
    env: Arc<dyn Env>,
    dir: PathBuf,
    events: Arc<Events>,
    configured: ReserveBytes,
    is_low: AtomicBool,
    /// Time of the next query while space is low, on the environment's clock.
    look_ns: AtomicU64,
}

/// The size of the reserve, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveBytes {
    /// This size; 0 disables the reserve.
    Set(u64),
    /// This size, but at most a twentieth of the disk.
    UpTo(u64),
}

impl Reserve {
    /// Creates a reserve on the disk of `dir`, without querying it.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, events: Arc<Events>, configured: ReserveBytes) -> Self {
        Self { env, dir, events, configured, is_low: AtomicBool::new(false), look_ns: AtomicU64::new(0) }
    }

    /// Queries the free space. Returns `None`, and refuses nothing, if the environment has no limit
    /// or the query fails.
    pub fn look(&self) -> Option<DiskStats> {
        let space = self.env.space(&self.dir).unwrap_or_else(|error| {
            tracing::warn!(%error, dir = %self.dir.display(), "query of free space failed");
            None
        });
        let Some(Space { free_bytes, total_bytes }) = space else {
            self.is_low.store(false, Ordering::Relaxed);
            return None;
        };
        let reserve_bytes = match self.configured {
            ReserveBytes::Set(bytes) => bytes,
            ReserveBytes::UpTo(bytes) => bytes.min(total_bytes / DISK_SHARE),
        };
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

    /// Checks that a put is allowed.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] while space is low.
    pub fn check(&self) -> Result<()> {
        if self.is_low() { Err(self.refused()) } else { Ok(()) }
    }

    #[cold]
    fn refused(&self) -> Error {
        let what = "free space is below the reserve for flushes and compactions; deletes are accepted";
        Error::io("write", &self.dir, io::Error::new(io::ErrorKind::StorageFull, what))
    }

    /// Checks that background work can write `bytes` before it frees any, the reserve included.
    /// Half of them suffice to try: tables may be smaller than their entries.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] if less than half of `bytes` is free.
    pub fn check_space(&self, doing: &'static str, bytes: u64) -> Result<()> {
        match self.look() {
            Some(DiskStats { free_bytes, .. }) if free_bytes < bytes / 2 => {
                let what = format!("{free_bytes} bytes are free, about {bytes} are needed temporarily");
                Err(Error::io(doing, &self.dir, io::Error::new(io::ErrorKind::StorageFull, what)))
            }
            _ => Ok(()),
        }
    }
}
