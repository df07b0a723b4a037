//! Everything that is not deterministic: files, clock, randomness, threads.
//!
//! The engine above reaches storage, time, chance and concurrency only through the traits of [`mod@env`], so one injected
//! value decides whether it runs on the operating system, in memory, or on a simulator that replays crashes and faults
//! from a seed. The locks and atomics of [`sync`] are part of the same bargain: a schedule explorer can replace them.
//!
//! Nothing in this crate knows what a key, a table or a log is.

pub mod env;
pub mod sync;

pub use env::{Access, Env, Event, File, Lock, Progress, Step, Work, Worker};
