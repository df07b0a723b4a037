//! The version of the format.
//!
//! One number for all kinds of files. A file of another version is refused by that number, not
//! reported as damage, and stays unchanged. Version 1 was never released.

/// The only format version that is read and written. It is in the header of every manifest and WAL
/// segment, and in the footer of every table.
pub const VERSION: u32 = 2;
