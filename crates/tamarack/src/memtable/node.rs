//! A node: one entry in the arena, with the links to its successors.
//!
//! ```text
//!                                 ┌── Node points here
//!                                 ▼
//!   | link h-1 | ... | link 1 | link 0 | prefix | stamp | lengths | key | value |
//!   16 B each                           8        8       4 + 4          then up to a multiple of 8
//! ```
//!
//! Links lie below the node, so that its entry is found without knowing their number, and what most
//! searches touch (the lower links, the prefix, the first bytes of the key) is adjacent.
//!
//! A **prefix** is the first eight bytes of a key as a big-endian number, padded with zeros:
//! prefixes that differ are in the order of their keys. A link carries the prefix of its successor,
//! so that a search decides most steps without touching that node.
//!
//! # Reading a link's two words separately is safe
//!
//! Successors of a link only become smaller (nodes are inserted in between, never removed), and so
//! do its prefixes, since they are lowered with `fetch_min`. An insert changes the successor first
//! and the prefix afterwards; a search reads the prefix first and the successor afterwards. The
//! successor it reads is therefore the node of that prefix, or a smaller one inserted later. Hence,
//! for a prefix *p* that was read and a key that is searched for:
//!
//! - *p* below the key's prefix: the successor is before the key as well, and the search may
//!   advance to it without looking.
//! - *p* above: the successor may already be a node before the key. The search descends a level too
//!   early, which costs a few steps but loses nothing; at the lowest level it must look at the
//!   successor itself (`List::search` does).
//! - equal: the successor's own key decides.

use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::ptr::{self, NonNull};

use tamarack_env::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::arena::{ALIGN_BYTES, Arena, Region};
use crate::entry::{Entry, EntryKind, Sequence};

/// The upper bound on the size of a key, in bytes.
const KEY_BYTES_MAX: usize = 1 << 16;
/// The upper bound on the size of a value, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// The height from which nodes (one in 16) lie in chunks of their own: a search spends all but its
/// last steps on them. With 500,000 entries of 116 bytes in random order, a simulated TLB of 2,048
/// pages misses 28 % less often.
const TALL: usize = 5;

/// A link: the successor at one level.
#[derive(Debug)]
pub(super) struct Link {
    successor: AtomicPtr<Head>,
    /// The successor's prefix, or for a moment that of an earlier, larger successor; [`u64::MAX`]
    /// if there was never one.
    prefix: AtomicU64,
}

/// The part of a node that has a fixed layout.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Head {
    lowest: Link,
    prefix: u64,
    /// The sequence in the upper 56 bits, the kind in the lower 8.
    stamp: u64,
    key_bytes: u32,
    /// The bytes of the value; the highest bit says that a lookup has found the entry.
    value_bytes: AtomicU32,
}

/// See [`Head::value_bytes`].
const LOOKED_UP: u32 = 1 << 31;

const _: () = assert!(VALUE_BYTES_MAX < LOOKED_UP as usize);

const _: () = assert!(align_of::<Head>() <= ALIGN_BYTES && size_of::<Link>().is_multiple_of(ALIGN_BYTES));

/// A node of a list whose arena outlives `'a`. All of it is immutable but the links, and the note
/// that a lookup has found it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    /// Points to a written `Head` with its links below and its key and value above it, with
    /// provenance over all of them.
    head: NonNull<Head>,
    arena: PhantomData<&'a Arena>,
}

/// The links of a node, or those of the list's start: a position of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tower<'a> {
    /// Points to the link of the lowest level; that of level n lies n links below.
    lowest: NonNull<Link>,
    arena: PhantomData<&'a Arena>,
}

/// A position in entry order to search for: just before the version of `key` with that sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchPosition<'k> {
    pub(super) prefix: u64,
    key: &'k [u8],
    /// The stamp with the largest kind, so that the version itself is not before the position.
    stamp: u64,
}

impl<'k> SearchPosition<'k> {
    #[inline]
    pub(super) fn new(key: &'k [u8], sequence: Sequence) -> Self {
        Self { prefix: prefix(key), key, stamp: sequence.0 << 8 | 0xff }
    }
}

impl Link {
    /// A link without a successor.
    pub(super) fn end() -> Self {
        Self { successor: AtomicPtr::new(ptr::null_mut()), prefix: AtomicU64::new(u64::MAX) }
    }

    /// The prefix to decide with; must be read before [`Link::successor`].
    #[inline]
    pub(super) fn prefix(&self) -> u64 {
        // Acquire: the successor that is read afterwards must be at least as new as the one this
        // prefix belongs to.
        self.prefix.load(Ordering::Acquire)
    }

    /// Inserts `node` between this link and `successor`, if that is still the successor.
    #[inline]
    pub(super) fn insert(&self, successor: Option<Node<'_>>, node: Node<'_>) -> bool {
        let old = successor.map_or(ptr::null_mut(), |node| node.head.as_ptr());
        // Release: whoever reads the pointer sees the node as it was written before.
        let done =
            self.successor.compare_exchange(old, node.head.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok();
        if done {
            // Only now, and never upwards: see the module's documentation.
            self.prefix.fetch_min(node.prefix(), Ordering::Release);
        }
        done
    }
}

impl<'a> Node<'a> {
    /// Copies `entry` into the arena, with `height` links without successors.
    ///
    /// # Panics
    /// If the entry's key, value or sequence is too large.
    #[inline]
    pub(super) fn write(arena: &'a Arena, entry: Entry<'_>, height: usize) -> Self {
        let Entry { key, sequence, kind, value } = entry;
        assert!(key.len() <= KEY_BYTES_MAX, "a key of {} bytes", key.len());
        assert!(value.len() <= VALUE_BYTES_MAX, "a value of {} bytes", value.len());
        assert!(sequence <= Sequence::MAX, "{sequence:?}");
        let links_bytes = (height - 1) * size_of::<Link>();
        let region = if height >= TALL { Region::Hot } else { Region::Cold };
        let memory = arena.allocate(links_bytes + size_of::<Head>() + key.len() + value.len(), region);
        // SAFETY: the offset lies in the allocation.
        let head = unsafe { memory.add(links_bytes) }.cast::<Head>();
        let content = Head {
            lowest: Link::end(),
            prefix: prefix(key),
            stamp: sequence.0 << 8 | kind as u64,
            key_bytes: key.len() as u32,
            value_bytes: AtomicU32::new(value.len() as u32),
        };
        // SAFETY: nobody else knows this memory yet. Head, key and value follow each other within
        // what was allocated above `links_bytes`, and the other links within `links_bytes` below;
        // both start at multiples of `ALIGN_BYTES`, which suffices for a `Head` and a `Link`
        // (asserted above). Source and target of the copies cannot overlap: the target was just
        // allocated.
        unsafe {
            for level in 1..height {
                head.cast::<Link>().sub(level).write(Link::end());
            }
            head.write(content);
            let bytes = head.add(1).cast::<u8>();
            ptr::copy_nonoverlapping(key.as_ptr(), bytes.as_ptr(), key.len());
            ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key.len()).as_ptr(), value.len());
        }
        Self { head, arena: PhantomData }
    }

    /// Restores a node from the result of [`Node::as_ptr`]; `None` from null.
    ///
    /// # Safety
    /// The pointer is null or came from a node whose arena outlives `'a`, and the caller
    /// synchronised with whoever wrote the node.
    pub(super) unsafe fn from_ptr(pointer: *mut Head) -> Option<Self> {
        NonNull::new(pointer).map(|head| Self { head, arena: PhantomData })
    }

    pub(super) fn as_ptr(self) -> *mut Head {
        self.head.as_ptr()
    }

    /// Prefetches the node: a hint that neither waits nor changes anything.
    #[inline]
    pub(super) fn prefetch(self) {
        tamarack_env::prefetch(self.head.as_ptr());
    }

    /// The node's links.
    pub(super) fn tower(self) -> Tower<'a> {
        Tower { lowest: self.head.cast(), arena: PhantomData }
    }

    /// The node's entry.
    pub(super) fn entry(self) -> Entry<'a> {
        let stamp = self.head().stamp;
        let kind = EntryKind::from_number(stamp as u8);
        let kind = kind.unwrap_or_else(|| panic!("a node with the stamp {stamp:#x}"));
        Entry { key: self.key(), sequence: Sequence(stamp >> 8), kind, value: self.value() }
    }

    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, self.head().key_bytes)
    }

    #[inline]
    pub(super) fn prefix(self) -> u64 {
        self.head().prefix
    }

    /// Returns true if the node is before `place` in entry order.
    #[inline]
    pub(super) fn is_before(self, place: &SearchPosition<'_>) -> bool {
        match self.prefix().cmp(&place.prefix) {
            Order::Less => true,
            Order::Greater => false,
            Order::Equal => match compare_past_prefix(self.key(), place.key) {
                Order::Less => true,
                Order::Greater => false,
                Order::Equal => self.head().stamp > place.stamp,
            },
        }
    }

    fn value(self) -> &'a [u8] {
        let head = self.head();
        self.bytes(head.key_bytes as usize, head.value_bytes.load(Ordering::Relaxed) & !LOOKED_UP)
    }

    /// Notes that a lookup has found the entry.
    #[inline]
    pub(super) fn note_lookup(self) {
        let value_bytes = &self.head().value_bytes;
        let bytes = value_bytes.load(Ordering::Relaxed);
        // Nobody changes anything else there, so threads write the same.
        if bytes & LOOKED_UP == 0 {
            value_bytes.store(bytes | LOOKED_UP, Ordering::Relaxed);
        }
    }

    /// Returns true if a lookup has found the entry.
    pub(super) fn was_looked_up(self) -> bool {
        self.head().value_bytes.load(Ordering::Relaxed) & LOOKED_UP != 0
    }

    fn head(self) -> &'a Head {
        // SAFETY: `self.head` points to a written `Head` that lives as long as the arena; it is
        // changed through its atomics only.
        unsafe { self.head.as_ref() }
    }

    fn bytes(self, from: usize, len: u32) -> &'a [u8] {
        // SAFETY: `Node::write` put `key_bytes + value_bytes` bytes behind the head and nobody
        // writes them again; the callers above stay within those. The pointer has the provenance of
        // the whole allocation, not only of the head.
        unsafe {
            let start = self.head.add(1).cast::<u8>().add(from);
            std::slice::from_raw_parts(start.as_ptr(), len as usize)
        }
    }
}

impl<'a> Tower<'a> {
    /// The links of a list's start; the last of `links` is the lowest level.
    pub(super) fn start<const HEIGHT: usize>(links: &'a [Link; HEIGHT]) -> Self {
        const { assert!(HEIGHT > 0) };
        let links = NonNull::from(links).cast::<Link>();
        // SAFETY: HEIGHT - 1 is in the array, and the pointer has the provenance of all of it.
        Self { lowest: unsafe { links.add(HEIGHT - 1) }, arena: PhantomData }
    }

    /// The node of these links, which are not those of the list's start.
    ///
    /// # Safety
    /// The tower came from [`Node::tower`].
    pub(super) unsafe fn node(self) -> Node<'a> {
        Node { head: self.lowest.cast(), arena: PhantomData }
    }

    /// The link at that level.
    ///
    /// # Safety
    /// `level` is below the height of the node or of the list's start.
    #[inline]
    pub(super) unsafe fn link(self, level: usize) -> &'a Link {
        // SAFETY: the caller says that there are that many links; all are written before the tower
        // is known to anyone, and are changed through their atomics only.
        unsafe { self.lowest.sub(level).as_ref() }
    }

    /// The successor at that level.
    ///
    /// # Safety
    /// As for [`Tower::link`].
    #[inline]
    pub(super) unsafe fn successor(self, level: usize) -> Option<Node<'a>> {
        // SAFETY: passed on to the caller.
        let link = unsafe { self.link(level) };
        // Acquire, so that what the inserting thread wrote into the node is seen.
        let pointer = link.successor.load(Ordering::Acquire);
        // SAFETY: links hold nodes of the list's own arena, published with Release by
        // `Link::insert` or written by `Tower::prepare` before their node was published so.
        unsafe { Node::from_ptr(pointer) }
    }

    /// Sets the successor at that level of a node that is not published yet.
    ///
    /// # Safety
    /// As for [`Tower::link`]. No other thread may be able to reach the node at this level.
    #[inline]
    pub(super) unsafe fn prepare(self, level: usize, successor: Option<Node<'_>>) {
        // SAFETY: passed on to the caller.
        let link = unsafe { self.link(level) };
        let (pointer, prefix) = successor.map_or((ptr::null_mut(), u64::MAX), |node| (node.as_ptr(), node.prefix()));
        // Relaxed: published by the Release of `Link::insert`.
        link.successor.store(pointer, Ordering::Relaxed);
        link.prefix.store(prefix, Ordering::Relaxed);
    }
}

/// The first eight bytes of a key as a number with the same order.
#[inline]
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key.iter().enumerate().fold(0, |sum, (at, &byte)| sum | u64::from(byte) << (56 - 8 * at)),
    }
}

/// Compares keys whose prefixes are equal.
#[inline]
fn compare_past_prefix(a: &[u8], b: &[u8]) -> Order {
    // A key shorter than eight bytes has nothing past its prefix. If the other one is longer, the
    // two agree in all bytes of the shorter, and the longer continues with zeros: then, as between
    // two short keys, the length decides.
    let (past_a, past_b) = (a.get(8..).unwrap_or(&[]), b.get(8..).unwrap_or(&[]));
    if let (Some(a), Some(b)) = (past_a.first_chunk::<8>(), past_b.first_chunk::<8>()) {
        let order = u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b));
        if order.is_ne() {
            return order;
        }
    }
    past_a.cmp(past_b).then(a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prefix and the rest together order keys as slices do, around zeros and lengths of 7 to 17 in
    /// particular.
    #[test]
    fn prefixes_keep_the_order_of_keys() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for len in 1..18 {
            for last in [0, 1, 255] {
                for first in [0, 7, 255] {
                    let mut key = vec![first; len];
                    key[len - 1] = last;
                    keys.push(key);
                }
            }
        }
        for a in &keys {
            for b in &keys {
                let order = prefix(a).cmp(&prefix(b)).then_with(|| compare_past_prefix(a, b));
                assert_eq!(order, a.cmp(b), "{a:?} {b:?}");
            }
        }
    }
}
