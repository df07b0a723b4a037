//! [`MemtableCursor`]: a cursor over a memtable, for scans and flushes.
//!
//! A forward step follows one link at the lowest level; a backward step is a search, since nodes
//! have no links back. The cursor never waits for inserts. Each step sees all entries inserted
//! before the step and some of those inserted concurrently; readers that need one point in time
//! filter by sequence number.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Memtable;
use super::node::{Head, Node, SearchPosition};
use crate::entry::{Entry, Sequence};
use crate::error::Result;
use crate::format::prefixes::common_prefix;
use crate::merge::Source;

/// The most entries that one call of [`Source::pass`] passes: without an end, they may be behind
/// what a scan wants.
const PASSED_AT_ONCE: usize = 64;

/// A cursor over the entries of a memtable, which it keeps alive. Its [`Source`] never fails.
#[derive(Debug)]
pub struct MemtableCursor {
    /// A node of `memtable`.
    at: Option<NonNull<Head>>,
    /// The node that the last step left.
    left: Option<NonNull<Head>>,
    memtable: Arc<Memtable>,
}

// SAFETY: the pointer leads into the memtable's arena, which the `Arc` keeps alive and in place
// wherever the cursor goes, and whose nodes may be read by any thread; `Memtable` is `Send` and
// `Sync`.
unsafe impl Send for MemtableCursor {}
// SAFETY: as above; a shared cursor only reads.
unsafe impl Sync for MemtableCursor {}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        Self { at: None, left: None, memtable }
    }

    fn node(&self) -> Option<Node<'_>> {
        self.node_at(self.at)
    }

    fn node_at(&self, at: Option<NonNull<Head>>) -> Option<Node<'_>> {
        // SAFETY: `at` and `left` are set by `stand` only, to nodes of `memtable`, whose arena
        // lives at least as long as the borrow of `self`.
        at.and_then(|at| unsafe { Node::from_ptr(at.as_ptr()) })
    }

    /// Moves to the node that `find` returns.
    fn stand(&mut self, find: impl for<'a> FnOnce(&'a Self) -> Option<Node<'a>>) -> Result<()> {
        self.left = self.at;
        self.at = find(self).and_then(|node| NonNull::new(node.as_ptr()));
        Ok(())
    }

    /// Returns true if a lookup has found the current entry.
    pub fn was_looked_up(&self) -> bool {
        self.node().is_some_and(Node::was_looked_up)
    }

    fn current_node(&self) -> Node<'_> {
        self.node().expect("the cursor stands on an entry when it is moved on")
    }
}

impl Source for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand(|this| this.memtable.list.first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.stand(|this| this.memtable.list.last())
    }

    fn seek(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.stand(|this| this.memtable.list.at_or_after(&SearchPosition::new(key, sequence)))
    }

    fn seek_before(&mut self, key: &[u8], sequence: Sequence) -> Result<()> {
        self.stand(|this| this.memtable.list.before(&SearchPosition::new(key, sequence)))
    }

    fn next(&mut self) -> Result<()> {
        self.stand(|this| this.memtable.list.after(this.current_node()))
    }

    fn prev(&mut self) -> Result<()> {
        self.stand(|this| {
            let Entry { key, sequence, .. } = this.current_node().entry();
            this.memtable.list.before(&SearchPosition::new(key, sequence))
        })
    }

    /// Passes some entries more than the next one, without a step of the merging iterator for each.
    fn pass(&mut self, to: Option<&[u8]>, floor: Sequence) -> Result<()> {
        self.stand(|this| {
            let list = &this.memtable.list;
            let mut next = list.after(this.current_node());
            for _ in 1..PASSED_AT_ONCE {
                let is_passed = |node: &Node<'_>| {
                    let Entry { key, sequence, .. } = node.entry();
                    sequence < floor && to.is_none_or(|to| key < to)
                };
                let Some(node) = next.filter(is_passed) else { break };
                next = list.after(node);
            }
            next
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
