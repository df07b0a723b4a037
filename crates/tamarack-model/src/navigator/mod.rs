//! The navigator: the search for the design that costs a workload least.

pub mod union;
