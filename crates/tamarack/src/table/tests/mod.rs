//! Tests of tables by themselves, each module one claim.

mod damage;
mod golden;
mod large_reads;
mod model;
mod written;
