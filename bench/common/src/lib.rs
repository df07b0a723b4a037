//! What the measuring programs share.
//!
//! * [`words`]: the command line.
//! * [`control`]: small writes beside a measurement, and waiting until something is due.
//! * [`machine`]: where and when something was measured, what the process read, wrote and took.
//! * [`numbers`]: medians, and numbers without visible order that are the same on every run.
//! * [`reads`]: reads whose bytes nobody wants.
//! * [`zipfian`]: skewed draws of entries.

pub mod control;
pub mod machine;
pub mod numbers;
pub mod reads;
pub mod words;
pub mod zipfian;
