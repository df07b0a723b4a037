//! Tests of tables by themselves, each module one claim.

mod damage;
mod golden;
mod model;
mod written;
