//! Background work on the tree: jobs that carry data from where it is to where it should be, in steps of a few
//! milliseconds. For now there is one kind of job, the flush.

pub mod flush;

pub use flush::{FlushSettings, Flusher};
