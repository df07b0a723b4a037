//! Bytes to values and back. Pure: no I/O. The only code that knows an offset inside a file; `docs/FORMAT.md` shows it all.
//!
//! Integers are little-endian unless a file says otherwise; `varint` is LEB128 of at most ten bytes. Decoders never panic and
//! never allocate more than the input could justify: what they read may be anything.

pub mod block;
pub mod checksum;
pub mod claims;
pub mod coding;
pub mod edit;
pub mod fences;
pub mod manifest;
pub mod meta;
pub mod names;
pub mod record;
pub mod reseal;
pub mod shape;
pub mod stored;
pub mod table;
