//! The filters' tests from outside, in one binary; the page of each module says what it shows.
//!
//! One module alone: `cargo test -p tamarack-filter --test suite answers::`.

mod answers;
mod bytes;
mod corpus;
mod measured;
mod set;
mod structured;
