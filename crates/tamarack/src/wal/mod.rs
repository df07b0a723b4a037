//! The write-ahead log (WAL): a write is appended to it before it is applied to the memtable.
//!
//! ```text
//!  position   0            b2                    b3          durable        end
//!             ├── 1.wal ───┼────── 2.wal ────────┼────── 3.wal ──┼───────────┤ (reserved)
//!             header, records     a new segment begins with a new memtable
//! ```
//!
//! The WAL is a [journal](crate::journal) whose items are entries, numbered by their sequences, and
//! whose files are its segments. [`Wal`] appends commit groups, syncs them on request, begins a
//! segment for each new active memtable, and removes segments whose entries are all in tables.
//! [`recover`] reads it back; [`read`] does so without changing it.
//!
//! # What holds
//!
//! * What holds of every [journal](crate::journal): no gaps, durable marks, cuts after failed
//!   appends, no sync tried twice.
//! * Everything before a durable position is durable: older segments are synced before newer ones.
//! * A segment's header and name are durable before anything is appended to it. A new segment whose
//!   header found no space, even if only its sync reports that, is removed: no write in it was
//!   acknowledged. Later syncs find the disk full only where space cannot be reserved: appends
//!   reserve first.
//!
//! It knows neither tables nor levels, only the sequence number up to which everything has been
//! flushed.

mod recovery;
mod writer;

use crate::format::checksum::FileKind;
use crate::format::names::FileName;
use crate::journal::{Growth, Profile, Steps};
use crate::step;

pub use crate::journal::{Dropped, Position, Record, Tail};
pub use recovery::findings::{Findings, FoundSegment, last_edit_named};
pub use recovery::{Recovered, RecoverySettings, read, recover};
pub use writer::{Wal, WalSettings};

#[cfg(test)]
pub(crate) mod tests;

/// The journal that the WAL is. Space is reserved as zeros, since a sync that need not write the
/// file's length is a faster one.
pub static PROFILE: Profile = Profile {
    kind: FileKind::Wal,
    noun: "WAL segment",
    name: FileName::Wal,
    growth: Growth::Extends,
    reading: "wal: read segment",
    steps: Steps {
        create: step::WAL_CREATE,
        begin: step::WAL_HEADER,
        sync_begin: step::WAL_SYNC_HEADER,
        reserve: step::WAL_ALLOCATE,
        cut: step::WAL_CUT,
        sync_cut: step::WAL_SYNC_CUT,
        recovery_cut: step::WAL_RECOVERY_CUT,
        recovery_write: step::WAL_RECOVERY_WRITE,
        recovery_sync: step::WAL_RECOVERY_SYNC,
    },
};

/// The bounds on [`reserved_bytes`].
const RESERVED_BYTES_MIN: u64 = 64 << 10;
const RESERVED_BYTES_MAX: u64 = 4 << 20;

/// Returns the size of the pieces in which a segment reserves space while memtables have
/// `memtable_bytes`, in bytes: small enough that a tiny database stays small, large enough that
/// reserving is rare.
pub fn reserved_bytes(memtable_bytes: u64) -> u64 {
    memtable_bytes.clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX)
}
