//! The model's tests from outside, in one binary; the page of each module says what it shows.
//!
//! One module alone: `cargo test -p tamarack-model --test suite moose::`.

mod agenda;
mod allocate;
mod autumn;
mod borders;
mod bound;
mod closed_forms;
mod controller;
mod coverage;
mod deletes;
mod designs;
mod expectations;
mod filter_allocation;
mod filter_rebuild;
mod filter_steps;
mod full_speed;
mod guard;
mod histories;
mod monkey;
mod moose;
mod navigator_monkey;
mod navigator_union;
mod pace;
mod prediction;
mod read_compaction;
mod smoose;
mod twin;
