//! The navigator: the search for the design that costs a workload least. Tuners of papers are
//! restrictions of its search space.

pub mod guard;
pub mod smoose;
