//! The database under load: writers as fast as the device allows, on the simulator's clock
//! (`pace`), and threads of the machine that check one another (`threads`, with merge operands
//! `counters`, and with range deletes `replacements`).
//!
//! One of the two alone: `cargo test -p tamarack --test load threads::`.

#![cfg(not(feature = "shuttle"))]

mod counters;
mod pace;
mod replacements;
mod threads;
