//! Storage that fails or lies: failing calls (`failures`), damaged files (`damage`), and the
//! repair of damaged databases (`repair`).
//!
//! The page of each module says what it shows, and which variables make it longer. One of them
//! alone: `cargo test -p tamarack --test faults repair::`.

#![cfg(not(feature = "shuttle"))]

mod answers;
mod damage;
mod failures;
mod history;
mod message;
#[path = "../recorded_designs/mod.rs"]
mod recorded_designs;
mod repair;
