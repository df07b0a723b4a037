//! The skip list: nodes in entry order, each linked at the lowest level and at every higher one
//! with half the probability of the one below. Nodes are added, never removed or changed.
//!
//! ```text
//!   link 2   start ────────────────────────► d ─────────────────► end
//!   link 1   start ────────► b ────────────► d ────────► f ─────► end
//!   link 0   start ───► a ─► b ───► c ─────► d ───► e ─► f ─────► end
//! ```
//!
//! **Reads** take no lock and never wait: a search runs along the highest level until the next step
//! would overshoot, then descends a level, in about log2(n) / 2 steps forward. A link carries the
//! prefix of its successor, so only nodes that the search stops at are touched, and the upper half
//! of the path lies in few nodes, which CPU caches keep.
//!
//! **Inserts** write the node, find its predecessor at each level, and link it from the lowest
//! level upward with compare-and-swap; where that fails because of a concurrent insert, they search
//! again from the same predecessor. A node is in the list once it is linked at the lowest level;
//! higher links only speed up searches.
//!
//! **Ascending inserts** find their position without a search: the list remembers a recent insert
//! and its predecessor at each level (`finger`). The finger is a hint, read and written without
//! order between its levels, and trusted only as far as each level proves that the new node belongs
//! right behind it.

use std::array;
use std::ptr;

use tamarack_env::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::arena::Arena;
use super::node::{Head, Link, Node, SearchPosition, Tower};
use crate::entry::Entry;
use crate::memory::Charge;

/// The height that a million nodes reach; more nodes slowly lengthen the highest level.
const HEIGHT_MAX: usize = 20;
/// The share of inserts, one in this many, that point the finger to themselves unasked, so that the
/// start of an ascending sequence is noticed.
const FINGER_SAMPLE: u64 = 16;

/// An ordered list of the nodes of one arena.
#[derive(Debug)]
pub(super) struct List {
    arena: Arena,
    /// Links of the start, highest level first.
    start: [Link; HEIGHT_MAX],
    /// Levels in use. A hint: above it, all links lead from the start to the end, or briefly lead
    /// elsewhere.
    height: AtomicUsize,
    /// For each level, a node linked there after which an ascending sequence continues; null for
    /// the start.
    finger: [AtomicPtr<Head>; HEIGHT_MAX],
}

/// For each level, the tower after which a new node is to be linked.
type Predecessors<'a> = [Tower<'a>; HEIGHT_MAX];

impl List {
    /// Makes an empty list without memory. Its memory is added to `charge`.
    pub(super) fn new(charge: Charge) -> Self {
        Self {
            arena: Arena::new(charge),
            start: array::from_fn(|_| Link::end()),
            height: AtomicUsize::new(1),
            finger: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Adds `entry`. `number` differs between inserts and determines the node's height. Calls
    /// `before_link` once its place is known, before others can see it.
    ///
    /// # Panics
    /// If there is an entry with this key and sequence, or if a part of the entry is too large.
    pub(super) fn insert(&self, entry: Entry<'_>, number: u64, before_link: impl FnOnce()) {
        let height = height_of(number);
        let node = Node::write(&self.arena, entry, height);
        let place = SearchPosition::new(entry.key, entry.sequence);
        let mut before = [self.start(); HEIGHT_MAX];
        let found = self.follow_finger(&place, height, &mut before);
        if found != Finger::Right {
            self.search(&place, |level, tower| {
                before[level] = tower;
                if level < height {
                    // `link` looks at the successor later: fetch it while the search continues
                    // below.
                    // SAFETY: the search is at this level of this tower.
                    if let Some(next) = unsafe { tower.successor(level) } {
                        next.prefetch();
                    }
                }
            });
        }
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        before_link();
        for (level, tower) in before.iter_mut().enumerate().take(height) {
            *tower = self.link(node, &place, level, *tower);
        }
        match found {
            Finger::Right => self.point_finger(node, height, &[]),
            Finger::Near => self.point_finger(node, height, &before),
            Finger::Elsewhere if number.is_multiple_of(FINGER_SAMPLE) => self.point_finger(node, height, &before),
            Finger::Elsewhere => {}
        }
    }

    /// The first node.
    pub(super) fn first(&self) -> Option<Node<'_>> {
        // SAFETY: the lowest level is below every height.
        unsafe { self.start().successor(0) }
    }

    /// The last node.
    pub(super) fn last(&self) -> Option<Node<'_>> {
        let mut tower = self.start();
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: the start has HEIGHT_MAX links, and a node that was reached at a level is
            // linked there.
            while let Some(next) = unsafe { tower.successor(level) } {
                tower = next.tower();
            }
        }
        self.node(tower)
    }

    /// The node after `node`.
    pub(super) fn after<'a>(&'a self, node: Node<'a>) -> Option<Node<'a>> {
        // SAFETY: every node has the lowest level.
        unsafe { node.tower().successor(0) }
    }

    /// The first node at or after `place`.
    pub(super) fn at_or_after(&self, place: &SearchPosition<'_>) -> Option<Node<'_>> {
        self.search(place, |_, _| {}).1
    }

    /// The last node before `place`.
    pub(super) fn before(&self, place: &SearchPosition<'_>) -> Option<Node<'_>> {
        self.node(self.search(place, |_, _| {}).0)
    }

    fn start(&self) -> Tower<'_> {
        Tower::start(&self.start)
    }

    /// The node that a tower belongs to; `None` for the start.
    fn node<'a>(&'a self, tower: Tower<'a>) -> Option<Node<'a>> {
        if tower == self.start() {
            return None;
        }
        // SAFETY: towers are made from nodes and from the start only, and this is not the start.
        Some(unsafe { tower.node() })
    }

    /// Finds the neighbours of `place`: the links of its predecessor, and the node at or after it.
    /// Calls `visit` for each level in use, highest first, with the tower at which the search left
    /// it: at or before the predecessor.
    #[inline]
    fn search<'a>(
        &'a self,
        place: &SearchPosition<'_>,
        mut visit: impl FnMut(usize, Tower<'a>),
    ) -> (Tower<'a>, Option<Node<'a>>) {
        let mut tower = self.start();
        for level in (1..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: the start has HEIGHT_MAX links, and a node that was reached at a level has
            // that level and all below.
            while let Some(next) = unsafe { surely_before(tower, level, place) } {
                tower = next.tower();
            }
            visit(level, tower);
        }
        // SAFETY: as above.
        while let Some(next) = unsafe { surely_before(tower, 0, place) } {
            tower = next.tower();
        }
        // The prefixes may lag for a moment, so the nodes themselves decide.
        // SAFETY: the lowest level is below every height.
        let mut next = unsafe { tower.successor(0) };
        while let Some(node) = next.filter(|node| node.is_before(place)) {
            tower = node.tower();
            // SAFETY: the lowest level is below every height.
            next = unsafe { tower.successor(0) };
        }
        visit(0, tower);
        (tower, next)
    }

    /// Links `node` at `level`, right before the first node that is not before `place`. `tower` is
    /// linked at that level and before `place`. Returns the predecessor of `node`.
    fn link<'a>(&self, node: Node<'a>, place: &SearchPosition<'_>, level: usize, mut tower: Tower<'a>) -> Tower<'a> {
        loop {
            // SAFETY: the caller says that `tower` has this level; what is reached there has it
            // too.
            let successor = unsafe { tower.successor(level) };
            match successor {
                Some(next) if next.is_before(place) => {
                    tower = next.tower();
                    continue;
                }
                Some(next) if level == 0 => assert_differ(node, next),
                _ => {}
            }
            // SAFETY: `level` is below the node's height, and nobody reaches it at this level
            // before the next line links it.
            unsafe { node.tower().prepare(level, successor) };
            // SAFETY: as for the successor.
            if unsafe { tower.link(level) }.insert(successor, node) {
                return tower;
            }
        }
    }

    /// Copies the finger into `before` if it points to the position of `place` at all levels below
    /// `height`.
    fn follow_finger<'a>(&'a self, place: &SearchPosition<'_>, height: usize, before: &mut Predecessors<'a>) -> Finger {
        for (level, before) in before.iter_mut().enumerate().take(height) {
            // SAFETY: the finger holds nodes of this list, stored with Release after they were
            // linked at that level.
            let node = unsafe { Node::from_ptr(self.finger[level].load(Ordering::Acquire)) };
            let tower = node.map_or(self.start(), Node::tower);
            // SAFETY: a node in the finger's level is linked there; the start has all levels.
            let fits = node.is_none_or(|node| node.is_before(place))
                && unsafe { surely_before(tower, level, place) }.is_none();
            if !fits {
                return if level == 0 { Finger::Elsewhere } else { Finger::Near };
            }
            *before = tower;
        }
        Finger::Right
    }

    /// Points the finger to `node` at its levels, and above them to its predecessors as far as
    /// given.
    fn point_finger(&self, node: Node<'_>, height: usize, before: &[Tower<'_>]) {
        for finger in &self.finger[..height] {
            finger.store(node.as_ptr(), Ordering::Release);
        }
        for (finger, &tower) in self.finger.iter().zip(before).skip(height) {
            finger.store(self.node(tower).map_or(ptr::null_mut(), Node::as_ptr), Ordering::Release);
        }
    }
}

/// How well the finger fits an insert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finger {
    /// It points to the position at every level needed.
    Right,
    /// It points to the position at the lowest level only.
    Near,
    /// It points elsewhere.
    Elsewhere,
}

/// The successor at that level, if it is certainly before `place`. During a concurrent insert a
/// successor before `place` may be missed.
///
/// # Safety
/// As for [`Tower::link`].
#[inline]
unsafe fn surely_before<'a>(tower: Tower<'a>, level: usize, place: &SearchPosition<'_>) -> Option<Node<'a>> {
    // SAFETY: passed on to the caller.
    let prefix = unsafe { tower.link(level) }.prefix();
    if prefix > place.prefix {
        return None;
    }
    // SAFETY: passed on to the caller.
    let next = unsafe { tower.successor(level) };
    if prefix < place.prefix { next } else { next.filter(|node| node.is_before(place)) }
}

/// Checks the contract of [`List::insert`] where that is free: equal nodes become neighbours.
fn assert_differ(node: Node<'_>, next: Node<'_>) {
    if next.prefix() == node.prefix() {
        let (new, old) = (node.entry(), next.entry());
        assert!(
            (new.key, new.sequence) != (old.key, old.sequence),
            "inserted twice: the key {:?} with {:?}",
            new.key.escape_ascii().take(100).collect::<Vec<_>>(),
            new.sequence
        );
    }
}

/// Draws a height from the insert's number: one with probability 1/2, two with 1/4, and so on.
fn height_of(number: u64) -> usize {
    // A finaliser: each bit of the result depends on all of the number.
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    bits ^= bits >> 32;
    1 + (bits.trailing_zeros() as usize).min(HEIGHT_MAX - 1)
}
