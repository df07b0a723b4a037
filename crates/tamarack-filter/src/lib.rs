//! Filters: small sets of digests that say "certainly not here" or "perhaps here", so that a lookup
//! skips the tables that cannot hold its key.
//!
//! ```
//! use tamarack_filter::{Builder, Digest, Filter, FilterKind, Size};
//!
//! // While a table is written:
//! let mut builder = Builder::new();
//! for key in ["apple", "pear", "quince"] {
//!     builder.add(Digest::of(key.as_bytes()));
//! }
//! let filter = builder.finish(FilterKind::Blocked, Size::PerEntry(10.0)).expect("more than no bits");
//! let bytes = filter.encode();
//!
//! // Once for each operation, at the edge of the interface; and then for each table that the operation meets:
//! let digest = Digest::of(b"pear");
//! let filter = Filter::decode(&bytes)?;
//! assert!(filter.may_contain(digest));
//! # Ok::<(), tamarack_filter::DecodeError>(())
//! ```
//!
//! # The contract of every filter
//!
//! * **No false negatives.** What it was built from, it may contain.
//! * **False positives as promised.** Of keys that were not put in, it says "perhaps" to the share
//!   that [`tamarack_model::filter`] computes, for large filters and small ones; the kinds' pages
//!   in this crate say where each bit is, and `MEASURED.md` holds predicted and measured rates side
//!   by side.
//! * **One digest for all.** Filters take a [`Digest`] and never a key. Filters over different sets
//!   answer independently of each other, also if they have the same size.
//! * **Bytes are hostile.** [`Filter::decode`] refuses what is no filter, and what it accepts
//!   answers without a panic.
//! * **No bits, no filter.** [`Filter::build`] gives `None` then, and a table without a filter is
//!   one that is always searched.
//!
//! # Which filter when
//!
//! | kind | a lookup reads | bits per entry for an FPR of 10 %, 1 %, 0.1 % | when |
//! |---|---|---|---|
//! | [blocked](FilterKind::Blocked) | 1 cache line | 4.8, 9.9, 15.6 | the filters do not fit the processor's cache, and a table read by mistake costs about as much as some cache misses: data in memory, or few bits |
//! | [elastic](FilterKind::Elastic) | 1.4 lines for an absent key, one for each unit for a present one | 4.9, 9.7, 14.6 | some tables are asked much more often than others: a table's filter is several small ones, its *units*, of which it has more or fewer in memory |
//! | [standard](FilterKind::Bloom) | 2 lines for an absent key, one for each probe for a present one | 4.8, 9.6, 14.4 | a read by mistake is a read of a device, and memory is what limits |
//!
//! At 5 bits the blocked filter has 1 % more false positives, at 8 bits 8 %, at 10 bits 18 %, at 16
//! bits 1.8 times as many, at 20 three times.
//!
//! # What it costs
//!
//! Instructions of a `may_contain` with its call, counted by callgrind; cache lines:
//!
//! | bits per entry | blocked, absent key | present key | lines | standard, absent key | lines | present key | lines | elastic, absent key | lines | present key | lines |
//! |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
//! | 5 | 65 | 66 | 1 | 47 | 1.7 | 73 | 3 | 103 | 1.3 | 135 | 2 |
//! | 8 | 68 | 91 | 1 | 53 | 2.1 | 118 | 6 | 105 | 1.2 | 151 | 2 |
//! | 10 | 68 | 101 | 1 | 52 | 2.0 | 133 | 7 | 107 | 1.4 | 215 | 4 |
//! | 16 | 72 | 145 | 1 | 52 | 2.0 | 193 | 11 | 105 | 1.4 | 295 | 6 |
//!
//! `bench/filters` counts them, beside the crate `fastbloom`. An absent key is cheap by count in
//! the standard filter, but ends at a branch that nobody can predict; of a stream of absent keys in
//! filters that the processor's cache holds, the blocked one answered sooner in every run of
//! `examples/filter_speed.rs`, which prints the times of a machine. Building takes, for each entry
//! at 5, 10 and 16 bits, 48, 79 and 116 instructions (blocked) or 65, 133 and 200 (standard). A
//! digest takes 29 instructions for a key of 8 bytes, 24 for 16, 51 for 64.
//!
//! **No SIMD yet, and no `unsafe`.** A blocked lookup was also tried with AVX2 (gathering words)
//! and with AVX-512 (permuting the line), chosen at run time, on the same layout but with the plain
//! product in place of the folded one. Nanoseconds for each filter at 6 probes, medians on a Xeon
//! that had other work as well:
//!
//! | lookups | size of a filter | scalar | AVX2 | AVX-512 |
//! |---|---|---:|---:|---:|
//! | each waits for the answer of the one before | 64 KB | 10.4 | 18.1 | 12.1 |
//! | one digest asked of ten filters, going on by a branch | 64 KB | 10.9 | 12.0 | 4.9 |
//! | the same | 1.3 MB | 30 | 23 | 15 |
//! | the same | 26 MB | 149 | 96 | 72 |
//!
//! The answer itself comes no sooner. But a tree walks on by a branch that is predicted, so the
//! processor is already at the next filter, and the fewer instructions each takes, the more of them
//! wait for memory at the same time: there AVX-512 halves the time. It is left to a change of its
//! own, with its `unsafe` call and its tests; neither the bytes nor the places of bits would
//! change, nine bits for each probe in one word being what both variants take.
//!
//! # Units
//!
//! An elastic filter ([`Filter::with_units`], [`Filter::with_next_unit`]) can be had with fewer of
//! its units, or, when one more has been read ([`Filter::encode_unit`]), with more. Filters that
//! differ in that share the memory of what they have in common. Units share the digest, too, but no
//! places: two filters of one size over the same keys would otherwise err for the same digests.
//!
//! # Made for what comes
//!
//! * **Filters rebuilt larger or smaller, or as another kind,** without reading data: a table may
//!   keep its keys' digests as a [`DigestSet`], in 26 to 27 bits each, and [`Filter::rebuild`]
//!   makes filters of it.
//! * **A filter over the whole tree** (Chucky) maps a digest to the runs it may be in. It stands
//!   beside [`Filter`], not below it: the tree asks either one filter for each table, or one for
//!   all, and both take a [`Digest`], of which 64 bits are enough for buckets and fingerprints.
//!
//! # Map
//!
//! High to low: the builder (digests of a table), a filter as bytes, the filter (a kind, its size),
//! the elastic, the blocked and the standard kind, the lines of memory, sets of digests, the
//! digest. Nothing here does I/O, holds a key, or knows a table.

#![forbid(unsafe_code)]

mod blocked;
mod bloom;
mod builder;
mod bytes;
mod digest;
mod elastic;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod lines;
mod set;

pub use builder::Builder;
pub use bytes::{DecodeError, kind_to_number};
pub use digest::Digest;
#[cfg(debug_assertions)]
pub use digest::digests_computed;
pub use elastic::UNIT_BYTES;
pub use filter::{Filter, Size};
pub use set::{DigestSet, SetError};
pub use tamarack_model::FilterKind;
