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
//!              occupation      entries and full buckets; its lock is held during each change
//! ```
//!
//! # Lookups and changes
//!
//! A lookup pins a *state* of the tree, which says which runs a LID means, asks the filter, and
//! then reads the filter's *generation*. If that is younger than its state, it searches all runs of
//! the state. So:
//!
//! | change | order |
//! |---|---|
//! | a run is new (flush, ingest) | insert its entries, then publish the state |
//! | a range is handed over | publish, raise the generation to the state's, then relabel |
//! | | or remove entries of the inputs. In the state, the LIDs of the |
//! | | inputs mean the output as well |
//! | an entry moves to another bucket | write the copy, count the move, delete the original |
//! | a partition is made anew | fill it, then publish a state with it |
//!
//! The output of a compaction shares the LID of an input, mostly the largest: entries of keys that
//! it takes over from that input stay as they are.
//!
//! **Why a lookup misses nothing.** Insertions precede their state. If a lookup has seen a bucket
//! in which a handover changed an entry, it also sees the generation. If it has not, the entries of
//! its state's runs are as they were. If its state is that of the handover or a younger one, both
//! LIDs lead it to the output. If it read one bucket before the copy of an entry was there, and the
//! other one after the original was gone, the count of moves differs before and after. A LID that
//! is given again after the last entry of its run is gone can only make a lookup with an older
//! state search for nothing.
//!
//! The schedule explorer tries these orders, and finds a miss for each one that is broken
//! (`schedules`).
//!
//! A state that is too old is not given up: it is searched without the filter, run by run.
//!
//! Which LIDs runs have is in `tree/level_ids`; who changes the filter, in
//! `compaction/tree_filter`.

mod changes;
mod directory;
mod partition;
mod place;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod stash;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
mod way;

pub use changes::EntryChange;
pub use directory::{Directory, Interval};
pub use partition::{Partition, unplaced_max};
pub use place::Place;
