//! [`Value`]: a value that is read in place, without copying.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::cache::{CachedEntry, Holder};
use crate::format::SharedBlock;
use crate::memtable::PinnedValue;

/// A value, read in place from the memtable, cached block, cached entry or transaction that has it,
/// which it pins in memory until it is dropped. Dereferences to its bytes.
///
/// A small value can pin a block of some KiB or a whole memtable: copy it (`to_vec`) to keep it for
/// long.
#[derive(Clone)]
pub struct Value(ValueBytes);

#[derive(Clone)]
enum ValueBytes {
    Memtable(PinnedValue),
    Block { block: SharedBlock, range: Range<usize> },
    Entry(CachedEntry),
    Own(Arc<[u8]>),
}

impl Value {
    /// Creates a value in a memtable.
    pub(crate) fn in_memtable(value: PinnedValue) -> Self {
        Self(ValueBytes::Memtable(value))
    }

    /// Creates a value that a transaction has written and not committed.
    pub(crate) fn own(value: Arc<[u8]>) -> Self {
        Self(ValueBytes::Own(value))
    }

    /// Pins the value of an entry that came with `holder`.
    pub(crate) fn pinned(holder: Holder<'_>, value: &[u8]) -> Self {
        match holder {
            Holder::Block(block) => Self(ValueBytes::Block { block: block.clone(), range: block.range_of(value) }),
            Holder::Entry(entry) => Self(ValueBytes::Entry(entry.keep())),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            ValueBytes::Memtable(value) => value,
            ValueBytes::Block { block, range } => &block.bytes()[range.clone()],
            ValueBytes::Entry(entry) => entry.read().value(),
            ValueBytes::Own(value) => value,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.escape_ascii().to_string())
    }
}

impl<B: AsRef<[u8]> + ?Sized> PartialEq<B> for Value {
    fn eq(&self, other: &B) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.to_vec()
    }
}

/// Keeps the value where it is, pinned as by [`Value`], until the last clone of the bytes is
/// dropped. Copies nothing.
///
/// ```
/// # let env = tamarack::MemoryEnv::new(1);
/// # let options = tamarack::Options::new().advanced(tamarack::AdvancedOptions::new().env(env));
/// # let db = options.open("/bytes")?;
/// db.put(bytes::Bytes::from("oak"), bytes::Bytes::from("9.80"))?;
/// let value: Option<bytes::Bytes> = db.get("oak")?.map(Into::into);
/// assert_eq!(value.as_deref(), Some(&b"9.80"[..]));
/// # Ok::<(), tamarack::Error>(())
/// ```
#[cfg(feature = "bytes")]
impl From<Value> for bytes::Bytes {
    fn from(value: Value) -> Self {
        Self::from_owner(value)
    }
}
