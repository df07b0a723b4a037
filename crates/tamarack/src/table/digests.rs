//! [`TableDigests`]: what an open table knows of its stored digests beside where they are.

use std::sync::OnceLock;

use tamarack_filter::DigestChunks;

use crate::error::Error;

/// Memory of the list of chunks for so many entries: 12 bytes for each chunk of 512 to 1,024.
pub(super) fn list_bytes(entries: u64) -> usize {
    12 * (entries / 512 + 1) as usize
}

/// What is known of a table's digests.
#[derive(Debug, Default)]
pub(super) struct TableDigests {
    /// The list of chunks, once it has been read.
    pub(super) list: OnceLock<DigestChunks>,
    /// Their damage, once it is found.
    pub(super) damage: OnceLock<Error>,
}
