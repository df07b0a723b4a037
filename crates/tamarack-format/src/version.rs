//! The version of the format.
//!
//! One number for all kinds of files. A file of another version is refused by that number, not
//! taken
//! for damage, and is left as it is. Version 1 was never released.

/// The format version that is written and read; no other one is. It stands in the header of every
/// manifest and WAL segment, and in the footer of every table.
pub const VERSION: u32 = 2;
