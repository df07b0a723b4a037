//! The on-disk format of Tamarack: bytes to values and back.
//!
//! All knowledge of offsets inside a database's files is here: blocks and tables, records of the
//! WAL, edits of the manifest, file names. `docs/FORMAT.md` shows every byte. The engine, `tamarack
//! inspect` and the fuzz targets read and write files only through this crate.
//!
//! | module | contents |
//! |---|---|
//! | [`entry`] | entries, sequence numbers and their order |
//! | [`version`], [`names`] | the format version; names of files |
//! | [`checksum`] | checksums, bound to file and offset |
//! | [`stored`] | a stored block: payload, compression, checksum |
//! | [`block`], [`fences`] | entries in a block; an index block as it is searched |
//! | [`table`], [`properties`] | a table's footer and properties |
//! | [`meta`] | what the manifest knows of a table |
//! | [`record`] | files and records of a journal: of the WAL, and manifests |
//! | [`group`] | what the WAL's records hold: entries of a commit group |
//! | [`key_range`] | the one type for ranges of keys |
//! | [`edit`], [`shape`] | what the manifest's records hold: edits; policy and shape as text |
//! | [`current`] | the file that names the manifest in charge |
//! | [`calibration`] | the file with the measured figures of the device |
//! | [`claims`] | what damaged files say of themselves |
//! | [`checksum_repair`], [`fuzz`] | fitting checksums for altered files; fuzz targets |
//! | [`coding`], [`fields`] | varints and byte strings; extensible records |
//! | [`prefixes`] | where a key stands among sorted keys |
//!
//! Integers are little-endian unless a module says otherwise; `varint` is LEB128 of at most ten
//! bytes.
//!
//! Performs no I/O, and charges no memory: owners of blocks account for them. Of the environment it
//! uses the type of byte buffers only. Decoders never panic
//! and never allocate more than the input justifies, whatever its bytes. A decoder returns a
//! [`stored::Flaw`]; the reader, which knows file and offset, makes an error of it.
//!
//! # Cargo features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `lz4` | yes | blocks compressed with LZ4, in pure Rust |
//! | `zstd` | no | blocks compressed with Zstandard; needs a C compiler |
//!
//! # Stability
//!
//! An unstable crate: its API changes with every version of `tamarack`. The format does not.
//!
//! Tests: in the modules, in `tests/`, by the engine's golden files and fuzz corpora.

pub mod block;
pub mod calibration;
pub mod checksum;
pub mod checksum_repair;
pub mod claims;
pub mod coding;
pub mod current;
pub mod edit;
pub mod entry;
pub mod fences;
pub mod fields;
pub mod fuzz;
pub mod group;
pub mod key_range;
pub mod meta;
pub mod names;
pub mod prefixes;
pub mod properties;
pub mod record;
pub mod shape;
pub mod stored;
pub mod table;
pub mod version;

pub use version::VERSION;
