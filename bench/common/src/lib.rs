//! What the measuring programs share.
//!
//! * [`words`]: the command line.
//! * [`machine`]: where and when something was measured, what the process read, wrote and took.
//! * [`numbers`]: medians, and numbers without visible order that are the same on every run.

pub mod machine;
pub mod numbers;
pub mod words;
