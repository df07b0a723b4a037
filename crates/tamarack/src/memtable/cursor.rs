//! [`MemtableCursor`]: a walk over a buffer, for scans and flushes.
//!
//! Going forward is one step along the lowest links; going back is a search, since nodes do not
//! know what is before them. The cursor never waits for inserts. Each step sees what is in the
//! buffer then: all that was inserted before the step, and of what is inserted meanwhile some.
//! Whoever wants one moment filters by sequence.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Memtable;
use super::node::{Head, Node, Place};
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::prefixes::common_prefix;
use crate::merge::Source;

/// A cursor over the entries of a buffer, which it keeps alive. Its [`Source`] never fails.
#[derive(Debug)]
pub struct MemtableCursor {
    /// A node of `buffer`.
    at: Option<NonNull<Head>>,
    /// The node of `buffer` that the last step left.
    left: Option<NonNull<Head>>,
    buffer: Arc<Memtable>,
}

// SAFETY: the pointer leads into the buffer's arena, which the `Arc` keeps alive and in place
// wherever the cursor goes, and whose nodes may be read by any thread; `Memtable` is `Send` and
// `Sync`.
unsafe impl Send for MemtableCursor {}
// SAFETY: as above; a shared cursor only reads.
unsafe impl Sync for MemtableCursor {}

impl MemtableCursor {
    pub(super) fn new(buffer: Arc<Memtable>) -> Self {
        Self { at: None, left: None, buffer }
    }

    fn node(&self) -> Option<Node<'_>> {
        self.node_at(self.at)
    }

    fn node_at(&self, at: Option<NonNull<Head>>) -> Option<Node<'_>> {
        // SAFETY: `at` and `left` are set by `stand` only, to nodes of `buffer`, whose arena lives at least
        // as long as the borrow of `self`.
        at.and_then(|at| unsafe { Node::from_ptr(at.as_ptr()) })
    }

    /// Goes to the node that `find` names.
    fn stand(&mut self, find: impl for<'a> FnOnce(&'a Self) -> Option<Node<'a>>) -> Result<()> {
        self.left = self.at;
        self.at = find(self).and_then(|node| NonNull::new(node.as_ptr()));
        Ok(())
    }

    fn standing(&self) -> Node<'_> {
        self.node().expect("the cursor stands on an entry when it is moved on")
    }
}

impl Source for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand(|this| this.buffer.list.first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.stand(|this| this.buffer.list.last())
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.stand(|this| this.buffer.list.at_or_after(&Place::new(key, sequence)))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.stand(|this| this.buffer.list.before(&Place::new(key, sequence)))
    }

    fn next(&mut self) -> Result<()> {
        self.stand(|this| this.buffer.list.after(this.standing()))
    }

    fn prev(&mut self) -> Result<()> {
        self.stand(|this| {
            let Entry { key, sequence, .. } = this.standing().entry();
            this.buffer.list.before(&Place::new(key, sequence))
        })
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.node().map(Node::entry)
    }

    fn shared(&self) -> Option<usize> {
        let (left, here) = (self.node_at(self.left)?.entry(), self.node()?.entry());
        Some(common_prefix(left.key, here.key))
    }

    fn left(&self) -> &[u8] {
        self.node_at(self.left).expect("a step backward has left an entry").entry().value
    }
}
