//! The manifest's record of a table.

use std::ops::Deref;

use crate::fields::{FieldError, FieldReader, FieldWriter};
use crate::properties::{Properties, number};

/// The number of a table; also in its file's name. Never reused in a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(pub u64);

/// The number of a manifest edit: 1, 2, 3 … in the order they were made durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EditNumber(pub u64);

/// The number of a tree (keyspace); the first is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TreeId(pub u32);

impl TreeId {
    /// The default tree, which every database has.
    pub const DEFAULT: Self = Self(0);
}

/// A table's identity, properties, and the root of its checksums. Recorded in the manifest, so that
/// opening a database and planning compactions read no table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableMeta {
    /// Its number.
    pub id: TableId,
    /// The file's length in bytes.
    pub file_bytes: u64,
    /// The checksum of its footer, which contains the checksums of all else.
    pub root_checksum: u64,
    /// The length of its digest block in the file, trailer included; 0 if there is none. Its filter
    /// can be rebuilt from the digests.
    pub digest_bytes: u64,
    /// The last durable edit when the file was created: an orphan that names a later edit than the
    /// manifest contains shows that the manifest has lost edits.
    pub created_after: EditNumber,
    /// Its properties.
    pub properties: Properties,
}

impl TableMeta {
    /// Its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.properties.memory_bytes()
    }

    /// Adds the fields of its record.
    pub(crate) fn put(&self, fields: &mut FieldWriter) {
        fields.number(number::ID, self.id.0);
        fields.number(number::FILE_BYTES, self.file_bytes);
        fields.bytes(number::ROOT_CHECKSUM, &self.root_checksum.to_le_bytes());
        fields.number(number::DIGEST_BYTES, self.digest_bytes);
        fields.number(number::CREATED_AFTER, self.created_after.0);
        self.properties.put(fields);
    }

    /// Takes the fields that [`TableMeta::put`] added.
    pub(crate) fn take(fields: &mut FieldReader<'_>) -> Result<Self, FieldError> {
        let root_checksum = fields.bytes(number::ROOT_CHECKSUM).try_into().map_err(|_| FieldError::Malformed)?;
        Ok(Self {
            id: TableId(fields.number(number::ID)?),
            file_bytes: fields.number(number::FILE_BYTES)?,
            root_checksum: u64::from_le_bytes(root_checksum),
            digest_bytes: fields.number(number::DIGEST_BYTES)?,
            created_after: EditNumber(fields.number(number::CREATED_AFTER)?),
            properties: Properties::take(fields)?,
        })
    }
}

impl Deref for TableMeta {
    type Target = Properties;

    #[inline]
    fn deref(&self) -> &Properties {
        &self.properties
    }
}
