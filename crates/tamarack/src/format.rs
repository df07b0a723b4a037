//! The on-disk format, as the engine's modules name it: `tamarack-format`, and blocks of it that
//! are kept in memory with their charge.

use std::sync::Arc;

pub(crate) use tamarack_format::*;

use crate::memory::Charged;

/// A block that is kept in memory: by the cache, a value, or an iterator.
pub(crate) type SharedBlock = Arc<Charged<block::Block>>;
