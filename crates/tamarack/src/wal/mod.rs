//! The write-ahead log: what is acknowledged stands here first.
//!
//! ```text
//!  position   0            b2                    b3          durable        end
//!             ├── 1.log ───┼────── 2.log ────────┼────── 3.log ──┼───────────┤ (reserved)
//!             header, records     a new segment begins with a new buffer
//! ```
//!
//! [`Wal`] appends commit groups, makes them durable when asked, begins a new segment when a buffer is sealed, and
//! removes segments whose entries are all in tables. [`recover`] reads it back, and [`read`] does, too, without touching it.
//!
//! # What holds
//!
//! * Positions are contiguous: a segment begins where the one before ends; so do sequences. A gap is damage.
//! * A segment's header and name are durable before anything is appended to it.
//! * Everything before a durable position is durable: older segments are synced before newer ones.
//! * Every record says up to where the log was durable when it was written. The highest such mark that recovery finds, D, divides damage from a
//!   torn end: what is damaged below D had been promised, what is damaged at or above it had not.
//! * A failed append is cut off, and the cut is durable, before anything else is appended. A failed sync ends the log: nothing
//!   is appended any more, and what was appended after the last successful sync has an unknown fate. But a new segment whose header found no space, also if that is
//!   told by its sync, is thrown away: nobody was promised anything in it. Later syncs find the disk full only where space cannot be reserved: appends reserve first.
//!
//! It knows neither tables nor levels; only the sequence up to which it is told that everything has been flushed.
//!
//! # Cost
//!
//! An append is one checksum and one write; no allocation. Space is reserved ahead in pieces, so that a sync seldom has to write metadata about the file's length.

mod recovery;
mod writer;

pub use crate::format::record::Position;
pub use recovery::findings::{Findings, Record, last_edit_named};
pub use recovery::{Dropped, Recovered, RecoverySettings, Tail, read, recover};
pub use writer::{Wal, WalSettings};
