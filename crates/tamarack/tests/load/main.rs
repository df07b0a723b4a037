//! The database under load: writers as fast as the device allows, on the simulator's clock
//! (`pace`), and threads of the machine that check one another (`threads`).
//!
//! One of the two alone: `cargo test -p tamarack --test load threads::`.

#![cfg(not(feature = "shuttle"))]

mod pace;
mod threads;
