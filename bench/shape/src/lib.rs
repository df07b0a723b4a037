//! What [`garnering`](../src/garnering.rs) and [`moose`](../src/moose.rs) share: the measured
//! database ([`store`]), and stored figures and reports ([`kept`]).

pub mod kept;
pub mod store;
