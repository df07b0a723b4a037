//! Everything that is not deterministic: files, clock, randomness, threads.
//!
//! The engine above reaches storage, time, chance and concurrency only through the traits of
//! [`mod@env`], so one injected value decides whether it runs on the operating system ([`OsEnv`]),
//! in memory ([`MemoryEnv`]), or on a simulator that replays crashes and faults from a seed
//! ([`SimEnv`]). The locks and atomics of [`sync`] are part of the same bargain: a schedule
//! explorer can replace them. [`histogram`] counts the latencies that a clock shows.
//!
//! Nothing in this crate knows what a key, a table or a WAL is.
//!
//! # Cargo features
//!
//! `shuttle` (off by default, for tests) replaces the locks, atomics and threads of [`sync`] by
//! those of the schedule explorer `shuttle`.

pub mod memory;
pub mod os;
pub mod sim;

mod aligned;
mod buffer;
mod pages;
mod prefetch;
mod workers;

mod clock;

pub mod env;
pub mod histogram;
pub mod random;
pub mod sync;

pub use aligned::AlignedBuffer;
pub use buffer::ByteBuffer;
pub use env::{
    Access, Env, Event, File, Lock, NotRegular, Progress, ReadQueue, ReadRequest, Space, Step, Work, Worker,
    is_not_regular, is_out_of_descriptors, is_unlinkable, read_together,
};
pub use memory::MemoryEnv;
pub use os::{Batching, OsEnv, TempDir};
pub use pages::{HUGE_PAGE_BYTES, collapse_pages, discard_pages, trim_allocator};
pub use prefetch::{prefetch, prefetch_shared};
pub use random::Random;
pub use sim::SimEnv;
