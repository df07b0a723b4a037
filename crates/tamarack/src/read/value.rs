//! [`Value`]: a value that is not copied out of where it stands.

use std::fmt;
use std::ops::{Deref, Range};

use crate::cache::{CachedEntry, Holder};
use crate::format::SharedBlock;
use crate::memtable::PinnedValue;

/// A value, borrowed from the buffer, the cached block or the cached entry where it stands, which
/// it keeps in memory until it is dropped. It dereferences to its bytes.
///
/// A small value may so hold a block of some KiB or a whole buffer: copy it (`to_vec`) to keep it
/// for long.
#[derive(Clone)]
pub struct Value(Place);

#[derive(Clone)]
enum Place {
    Memtable(PinnedValue),
    Block { block: SharedBlock, range: Range<usize> },
    Entry(CachedEntry),
}

impl Value {
    /// A value in a buffer.
    pub(crate) fn in_buffer(value: PinnedValue) -> Self {
        Self(Place::Memtable(value))
    }

    /// The value of an entry that came with `holder`.
    pub(crate) fn held(holder: Holder<'_>, value: &[u8]) -> Self {
        match holder {
            Holder::Block(block) => Self(Place::Block { block: block.clone(), range: block.range_of(value) }),
            Holder::Entry(entry) => Self(Place::Entry(entry.clone())),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Memtable(value) => value,
            Place::Block { block, range } => &block.bytes()[range.clone()],
            Place::Entry(entry) => entry.value(),
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
