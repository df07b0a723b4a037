//! [`Reserve`]: some of the disk's space is kept for what must go on when the disk is nearly full.
//!
//! Flushes and merges need space before they give some back. So writers are refused while less is
//! free than the reserve, and background work may use it: what is in memory comes to tables, what
//! was deleted or overwritten is merged away, and the log goes. Deletes are let in, since
//! they are how a user makes space.
//!
//! ```text
//!   free space   ├──────── reserve ────────┼── a quarter of it ──┼────────────────────────
//!   puts                 refused             as they were before    taken
//! ```
//!
//! The environment is asked whenever a flush or a merge begins, and every half second while space
//! is low: then nobody may write, so no flush would ask. What others put on the disk in between is
//! not seen; then the log, which reserves ahead, finds the disk full, and that is as harmless.
//! Writers look at one flag.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tamarack_env::{Env, Space};

use crate::error::{Error, Result};
use crate::events::{Event, Events};

/// While space is low it is looked at so often.
const PAUSE: Duration = Duration::from_millis(500);

/// The reserve takes at most this part of the disk, if nothing was set.
const DISK_SHARE: u64 = 20;

/// The reserve of a database.
#[derive(Debug)]
pub struct Reserve {
    env: Arc<dyn Env>,
    dir: PathBuf,
    events: Arc<Events>,
    wanted: ReserveBytes,
    is_low: AtomicBool,
    /// While space is low: when it is looked at again, on the clock of the environment.
    look_ns: AtomicU64,
}

/// How much is kept, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveBytes {
    /// So much; 0 is nothing.
    Set(u64),
    /// So much, but at most a twentieth of the disk.
    UpTo(u64),
}

/// The space there is, and what is kept of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskStats {
    /// What is free, in bytes.
    pub free_bytes: u64,
    /// All there is on the file system, in bytes.
    pub total_bytes: u64,
    /// What is kept for flushes and merges, in bytes: [`crate::AdvancedOptions::reserve_bytes`].
    pub reserve_bytes: u64,
    /// Less is free than that, or only a little more since: puts are refused.
    pub is_low: bool,
}

impl Reserve {
    /// A reserve on the disk of `dir`; not looked at yet.
    pub fn new(env: Arc<dyn Env>, dir: PathBuf, events: Arc<Events>, wanted: ReserveBytes) -> Self {
        Self { env, dir, events, wanted, is_low: AtomicBool::new(false), look_ns: AtomicU64::new(0) }
    }

    /// Asks how much space there is. `None` if there is no limit, or none can be found: then
    /// nothing is refused.
    pub fn look(&self) -> Option<DiskStats> {
        let space = self.env.space(&self.dir).unwrap_or_else(|error| {
            tracing::warn!(%error, dir = %self.dir.display(), "how much space is free could not be found");
            None
        });
        let Some(Space { free_bytes, total_bytes }) = space else {
            self.is_low.store(false, Ordering::Relaxed);
            return None;
        };
        let reserve_bytes = match self.wanted {
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
                tracing::warn!(free_bytes, reserve_bytes, "space is low: puts are refused");
                self.events.post(|| Event::DiskSpaceLow { free_bytes, reserve_bytes });
            } else {
                tracing::info!(free_bytes, "there is space again");
                self.events.post(|| Event::DiskSpaceRecovered { free_bytes });
            }
        }
        Some(DiskStats { free_bytes, total_bytes, reserve_bytes, is_low })
    }

    /// While space is low: looks again if it is time, and says when it will be next.
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

    /// True if puts are refused.
    pub fn is_low(&self) -> bool {
        self.is_low.load(Ordering::Relaxed)
    }

    /// For who puts something.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] while space is low.
    pub fn check(&self) -> Result<()> {
        if self.is_low() { Err(self.refused()) } else { Ok(()) }
    }

    #[cold]
    fn refused(&self) -> Error {
        let what = "less space is free than is kept for flushes and merges; deletes are taken";
        Error::io("write", &self.dir, io::Error::new(io::ErrorKind::StorageFull, what))
    }

    /// For background work that is to begin and writes so much before it gives anything back,
    /// reserve or not. Half of it is enough to try: tables may be smaller than their entries.
    ///
    /// # Errors
    /// [`Error::Io`] with [`io::ErrorKind::StorageFull`] if that is certain to fail.
    pub fn check_room(&self, doing: &'static str, bytes: u64) -> Result<()> {
        match self.look() {
            Some(DiskStats { free_bytes, .. }) if free_bytes < bytes / 2 => {
                let what = format!("{free_bytes} bytes are free, and about {bytes} are needed on the way");
                Err(Error::io(doing, &self.dir, io::Error::new(io::ErrorKind::StorageFull, what)))
            }
            _ => Ok(()),
        }
    }
}
