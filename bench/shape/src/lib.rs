//! What [`garnering`](../src/garnering.rs), [`moose`](../src/moose.rs) and
//! [`designs`](../../designs/src/main.rs) share: the measured database and counts of its runs and
//! reads ([`store`]), and stored figures and reports ([`kept`]).

pub mod kept;
pub mod store;
