//! [`Source`]: a cursor over entries in entry order, the meeting point of buffers, tables and runs with scans and merges.

use crate::entry::{Entry, Sequence};
use crate::error::Result;

/// Where a seek leads: see the seeks of [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'a> {
    /// [`Source::seek_first`].
    First,
    /// [`Source::seek_last`].
    Last,
    /// [`Source::seek`].
    From(&'a [u8], Sequence),
    /// [`Source::seek_before`].
    Before(&'a [u8], Sequence),
}

/// A cursor over entries in entry order (key ascending, then youngest first), in both directions.
///
/// A new cursor stands nowhere: [`Source::entry`] is `None` until one of the seeks. Stepping past
/// either end leaves it nowhere too. `next` and `prev` may only be called while it stands on an
/// entry. After an error the cursor stands nowhere, and a seek starts anew. Directions may be mixed
/// freely.
pub trait Source {
    /// Goes to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Goes to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Goes to the first entry at or after the place (`key`, `sequence`) in entry order: with
    /// `Sequence::MAX` the youngest version of the first key that is `>= key`.
    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()>;
    /// Goes to the last entry strictly before the place (`key`, `sequence`) in entry order: with
    /// `Sequence::MAX` the oldest version of the last key that is `< key`.
    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()>;
    /// Goes to a place.
    fn seek_to(&mut self, place: Place<'_>) -> Result<()> {
        match place {
            Place::First => self.seek_first(),
            Place::Last => self.seek_last(),
            Place::From(key, sequence) => self.seek(key, sequence),
            Place::Before(key, sequence) => self.seek_before(key, sequence),
        }
    }
    /// Goes to the next entry in entry order.
    fn next(&mut self) -> Result<()>;
    /// Goes to the previous entry in entry order.
    fn prev(&mut self) -> Result<()>;
    /// Where the cursor stands.
    fn entry(&self) -> Option<Entry<'_>>;
    /// How many first bytes its key has in common with that of the entry that the last step left;
    /// `None` if it does not know, as after a seek. Who merges sources need not compare the
    /// keys again then.
    fn shared(&self) -> Option<usize> {
        None
    }
    /// While it stands nowhere though there is more on its way, which costs something to be
    /// reached: the key at which it waits. All entries that follow come after the place before all
    /// versions of that key, or backward before it. Who merges sources lets one go on only if
    /// nothing of the others comes before; how is the source's own matter.
    fn waits_at(&self) -> Option<&[u8]> {
        None
    }
    /// The value of the entry that the last call of [`Source::prev`] left, if nothing was called
    /// since that moves the cursor. Who goes backward learns only from the entry before whether
    /// an entry was the youngest of its key.
    fn left(&self) -> &[u8];
}
