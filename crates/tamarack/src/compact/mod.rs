//! Background work on the tree: jobs that carry data from where it is to where it should be, in steps of a few
//! milliseconds. A flush makes a run of a sealed buffer, a merge makes one run of several.
//!
//! Both write their tables through an [`output::Output`] and change the tree by edits; neither is ever waited for by a reader.

pub mod flush;
pub mod merge;
pub mod output;
pub mod retry;

pub use flush::Flusher;
pub use merge::Merger;
pub use output::{OutputSettings, Workshop};

use crate::format::meta::TreeId;

/// How much one step copies, in raw bytes: at the 200 to 500 MB/s of building a table, 2 to 5 ms.
pub const STEP_BYTES: u64 = 1 << 20;

/// The one tree there is.
const TREE: TreeId = TreeId(0);
