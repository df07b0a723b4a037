//! Bloom filters: compact sets of key digests without false negatives, which let a lookup skip the
//! SSTables that do not contain its key.
//!
//! ```
//! use tamarack_filter::{Builder, Digest, Filter, FilterKind, Size};
//!
//! // While a table is written:
//! let mut builder = Builder::new();
//! for key in ["apple", "pear", "quince"] {
//!     builder.add(Digest::of(key.as_bytes()));
//! }
//! let filter = builder.finish(FilterKind::Blocked, Size::PerEntry(10.0)).expect("some bits");
//! let bytes = filter.encode();
//!
//! // Once per operation, and then for each table that it may have to search:
//! let digest = Digest::of(b"pear");
//! let filter = Filter::decode(&bytes)?;
//! assert!(filter.may_contain(digest));
//! # Ok::<(), tamarack_filter::DecodeError>(())
//! ```
//!
//! # The contract of every filter
//!
//! * **No false negatives.** A lookup of a key that was added is positive.
//! * **The predicted false positive rate.** Lookups of absent keys are positive at the rate that
//!   [`tamarack_model::filter`] computes, for large and small filters. The modules of the kinds
//!   define the position of each bit; `MEASURED.md` shows predicted and measured rates.
//! * **One digest for all filters.** Filters take a [`Digest`], never a key. False positives of
//!   filters over different sets are independent, also at equal size.
//! * **Hostile bytes are safe.** [`Filter::decode`] rejects invalid bytes, and a decoded filter
//!   never panics.
//! * **No bits, no filter.** [`Filter::build`] returns `None` for 0 bits; a table without a filter
//!   is always searched.
//!
//! # Which filter when
//!
//! * [Blocked](FilterKind::Blocked): filters exceed the processor's cache, and a false positive
//!   costs about as much as some cache misses: data in memory, or few bits.
//! * [Elastic](FilterKind::Elastic): some tables are searched much more often than others. Its
//!   filter consists of *units*, of which a table keeps more or fewer in memory.
//! * [Standard](FilterKind::Bloom): a false positive is a device read, and memory is the limit.
//!
//! | kind | lines read, absent key | present key | bits per entry for 10 %, 1 %, 0.1 % FPR |
//! |---|---|---|---|
//! | blocked | 1 | 1 | 4.8, 9.9, 15.6 |
//! | elastic | 1.4 | one for each unit | 4.9, 9.7, 14.6 |
//! | standard | 2 | one for each probe | 4.8, 9.6, 14.4 |
//!
//! At 5 bits the blocked filter has 1 % more false positives, at 8 bits 8 %, at 10 bits 18 %, at 16
//! bits 1.8 times as many, at 20 three times.
//!
//! # What it costs
//!
//! Instructions of a `may_contain` with its call, counted by callgrind, and the cache lines read,
//! as instructions / lines:
//!
//! | bits per entry | 5 | 8 | 10 | 16 |
//! |---|---:|---:|---:|---:|
//! | blocked, absent key | 65 / 1 | 68 / 1 | 68 / 1 | 72 / 1 |
//! | blocked, present key | 66 / 1 | 91 / 1 | 101 / 1 | 145 / 1 |
//! | standard, absent key | 47 / 1.7 | 53 / 2.1 | 52 / 2.0 | 52 / 2.0 |
//! | standard, present key | 73 / 3 | 118 / 6 | 133 / 7 | 193 / 11 |
//! | elastic, absent key | 103 / 1.3 | 105 / 1.2 | 107 / 1.4 | 105 / 1.4 |
//! | elastic, present key | 135 / 2 | 151 / 2 | 215 / 4 | 295 / 6 |
//!
//! `bench/filters` counts them, beside the crate `fastbloom`. The standard filter takes few
//! instructions for an absent key, but ends at an unpredictable branch: for streams of absent keys
//! in cached filters the blocked one was faster in every run of `examples/filter_speed.rs`, which
//! prints the times of a machine. Building takes, per entry at 5, 10 and 16 bits, 48, 79 and 116
//! instructions (blocked) or 65, 133 and 200 (standard). A digest takes 29 instructions for a key
//! of 8 bytes, 24 for 16, 51 for 64.
//!
//! **No SIMD yet, and no `unsafe`.** Blocked lookups were measured with AVX2 (gathered words) and
//! AVX-512 (permuted line) on the same layout, with the plain product in place of the folded one.
//! Nanoseconds per filter at 6 probes, medians on a busy Xeon:
//!
//! | lookups | size of a filter | scalar | AVX2 | AVX-512 |
//! |---|---|---:|---:|---:|
//! | each depends on the one before | 64 KB | 10.4 | 18.1 | 12.1 |
//! | one digest in ten filters, with a branch after each | 64 KB | 10.9 | 12.0 | 4.9 |
//! | the same | 1.3 MB | 30 | 23 | 15 |
//! | the same | 26 MB | 149 | 96 | 72 |
//!
//! The latency of a single probe does not improve. In a tree the branch after each filter is
//! predicted, so that the processor already works on the next filter, and with fewer instructions
//! more cache misses overlap: there AVX-512 halves the time. It needs an `unsafe` call and its own
//! tests; neither encoding nor bit positions would change.
//!
//! # Units
//!
//! An elastic filter can drop units ([`Filter::with_units`]) and add the next one from storage
//! ([`Filter::with_next_unit`], [`Filter::encode_unit`]). Filters with different numbers of units
//! share the memory of their common ones. Units share the digest but no positions; otherwise they
//! would have the same false positives.
//!
//! # Filter rebuild, and filters over the whole tree
//!
//! * **Filter rebuild**, larger, smaller or as another kind, without reading data: a table may
//!   store the digests of its keys as a [`DigestSet`] of 31 to 35 bits per key, from which
//!   [`Filter::rebuild`] builds a filter.
//! * **A filter over the whole tree** maps a digest to candidate runs. [`chucky`] has its
//!   buckets and their code; the table of buckets, and its use in the engine, are not built yet.
//!
//! # Map
//!
//! High to low: `chucky` (buckets of a filter over the whole tree), `builder` (digests of a table),
//! `bytes` (encoding), `filter` (kind and size), `elastic`, `blocked` and `bloom` (the kinds),
//! `lines` (memory), `set` (digests of a table), `digest`. The crate does no I/O, stores no keys,
//! and knows no tables.

#![forbid(unsafe_code)]

mod blocked;
mod bloom;
mod builder;
mod bytes;
pub mod chucky;
mod digest;
mod elastic;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod lines;
mod set;
mod word;

pub use builder::Builder;
pub use bytes::{DecodeError, kind_to_number};
pub use digest::Digest;
#[cfg(debug_assertions)]
pub use digest::digests_computed;
pub use elastic::UNIT_BYTES;
pub use filter::{Filter, Size};
pub use set::{DigestChunks, DigestSet, SetError};
pub use tamarack_model::FilterKind;
pub use word::WordPlace;
