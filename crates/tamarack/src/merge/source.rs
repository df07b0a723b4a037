//! [`Source`]: the cursor over entries in entry order that memtables, tables and runs implement,
//! and that scans and compactions merge.

use crate::entry::{Entry, Sequence};
use crate::error::Result;

/// The target of a seek: see the seeks of [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekTarget<'a> {
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
/// A new cursor has no position: [`Source::entry`] is `None` until the first seek. Stepping past
/// either end removes the position too. `next` and `prev` may only be called at an entry. After an
/// error the cursor has no position, and a seek starts anew. Directions may be mixed freely.
pub trait Source {
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the first entry at or after (`key`, `sequence`) in entry order: with
    /// `Sequence::MAX` the youngest version of the first key that is `>= key`.
    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()>;
    /// Moves to the last entry strictly before (`key`, `sequence`) in entry order: with
    /// `Sequence::MAX` the oldest version of the last key that is `< key`.
    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()>;
    /// Seeks to `place`.
    fn seek_to(&mut self, place: SeekTarget<'_>) -> Result<()> {
        match place {
            SeekTarget::First => self.seek_first(),
            SeekTarget::Last => self.seek_last(),
            SeekTarget::From(key, sequence) => self.seek(key, sequence),
            SeekTarget::Before(key, sequence) => self.seek_before(key, sequence),
        }
    }
    /// Moves to the next entry in entry order.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry in entry order.
    fn prev(&mut self) -> Result<()>;
    /// Returns true if [`Source::pass`] and [`Source::pass_back`] with this floor may pass many
    /// entries at once, so that it pays to find far bounds for them.
    fn passes(&self, floor: Sequence) -> bool {
        let _ = floor;
        false
    }
    /// Moves to a later entry: the next one, or any other one before which all entries are below
    /// `floor` in sequence and before `to` in key. A scan passes what a range delete hides so,
    /// without reading it.
    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        let _ = (to, floor);
        self.next()
    }
    /// As [`Source::pass`], to an earlier entry: what is passed is at or after `from`. The value
    /// that was left is not kept.
    fn pass_back(&mut self, from: &[u8], floor: Sequence) -> Result<()> {
        let _ = (from, floor);
        self.prev()
    }
    /// The entry at the cursor's position.
    fn entry(&self) -> Option<Entry<'_>>;
    /// The number of leading bytes that its key shares with that of the entry before the last step;
    /// `None` if unknown, as after a seek. It saves the merging iterator comparisons of keys.
    fn shared(&self) -> Option<usize> {
        None
    }
    /// The place at which the cursor waits: [`Source::entry`] is `None`, although more entries
    /// follow that cost I/O or memory to reach. All of these are at that place or come after it, or
    /// going backward before it. The merging iterator lets a source continue only if no other
    /// source comes before; how to continue is the source's own matter.
    fn waits_at(&self) -> Option<(&[u8], Sequence)> {
        None
    }
    /// The value of the entry that the last [`Source::prev`] left, if no call since then has moved
    /// the cursor. A backward scan learns only from the preceding entry whether an entry was the
    /// youngest of its key.
    fn left(&self) -> &[u8];
}
