//! The short functional tests, in one binary: each module examines one behaviour of the database
//! from outside, in seconds.
//!
//! What needs its own process, its own features or minutes stands beside it as a binary of its own:
//! `crash`, `lockstep`, `faults`, `predicted`, `load`, `allocations`, `memory`, `schedules`. One
//! module alone: `cargo test -p tamarack --test suite reads::`.

#![cfg(not(feature = "shuttle"))]

mod allocation;
mod background;
mod basics;
mod block_sizes;
mod calibration;
mod causes;
mod checkpoints;
mod chucky;
mod cold;
mod compaction_filters;
mod compaction_filters_directed;
mod compactions;
mod controller;
mod corpus;
mod coverage;
mod crash_images;
mod design;
mod documents;
mod edit_bytes;
mod elastic;
mod entries;
mod errors;
mod events;
mod filter_rebuild;
mod filters;
mod foreign;
mod format_document;
mod format_versions;
mod gated;
mod golden_database;
mod ingest;
mod invalid_trees;
mod limits;
#[cfg(feature = "measure")]
mod measure;
mod model;
#[cfg(debug_assertions)]
mod noticed;
mod observed;
mod openmetrics;
mod operands;
mod range_deletes;
mod range_deletes_applied;
mod rates;
mod read_only;
mod reads;
mod reserve;
mod samples;
mod scan_limits;
mod sorted_map;
mod space_bound;
mod stats;
