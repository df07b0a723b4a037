//! What [`garnering`](../src/garnering.rs) and [`moose`](../src/moose.rs) share: the database that they measure ([`store`]), and figures that are kept and reported ([`kept`]).

pub mod kept;
pub mod store;
