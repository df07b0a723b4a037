//! A cuckoo filter over the whole tree: which level IDs (LIDs) the entries of a key have.
//!
//! Its buckets and their code are in [`tamarack_filter::chucky`]; here are the parts that threads
//! share. Lookups take no lock and never wait; flushes and compactions change the filter
//! meanwhile.
//!
//! ```text
//! partition ── moves, summary: counters that lookups read
//!              buckets         64 bits each: a lookup sees all of a bucket at one moment
//!              rare            fingerprints of rare buckets
//!              stash           entries that found no bucket
//!              entries         their number; its lock is held during each change
//! ```
//!
//! # Lookups and changes
//!
//! A lookup pins a *state* of the tree, which says which runs a LID means, asks the filter, and
//! then reads the filter's *generation*. If that is younger than its state, it begins again. So:
//!
//! | change | order |
//! |---|---|
//! | a run is new (flush, ingest) | insert its entries, then publish the state |
//! | a compaction begins | publish: the LIDs of its inputs and output mean the output, too |
//! | a range is handed over | publish, raise the generation to the state's, then change entries |
//! | a compaction has ended, its entries are changed | publish: LIDs of inputs are free |
//! | an entry moves to another bucket | write the copy, count the move, delete the original |
//!
//! **Why a lookup misses nothing.** Insertions precede their state. If a lookup has seen a bucket
//! in which a handover changed an entry, it also sees the generation, and begins again with a
//! state that is at least the one published before. If it has not, entries are as they were, and
//! the LID of the input has meant the output since the compaction began. If it read one bucket
//! before the copy of an entry was there, and the other one after the original was gone, the count
//! of moves differs before and after.
//!
//! The schedule explorer tries these orders, and finds a miss for each one that is broken
//! (`schedules`).
//!
//! The engine does not build this filter yet (decision 0015).

#![cfg_attr(not(test), expect(dead_code, reason = "the engine does not build this filter yet"))]

mod partition;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
