//! Tests of tables by themselves, each module one claim.

mod damage;
mod digests;
mod golden;
mod large_reads;
mod model;
mod written;
