//! The skip list: nodes in entry order, each linked at level 0 and at every higher level with half
//! the probability of the one below. Nodes are added, never removed or changed.
//!
//! ```text
//!   level 2   start ────────────────────────► d ─────────────────► end
//!   level 1   start ────────► b ────────────► d ────────► f ─────► end
//!   level 0   start ───► a ─► b ───► c ─────► d ───► e ─► f ─────► end
//! ```
//!
//! **Reading** takes no lock and never waits: a search runs along the highest level as long as that
//! does not lead past its place, then goes down a level. With a probability of one half it goes
//! forward about log2(n) / 2 times. Because links carry their successor's prefix, only nodes it
//! stands on are touched, not those it turns away from, and the upper half of the way lies in few
//! nodes that the caches hold.
//!
//! **Inserting** writes the node, finds what comes before it at each level, and links it from level
//! 0 upward with compare-and-swap; where that fails, somebody linked another node there, and it
//! looks again from the same predecessor. A node is in the list once it is linked at level 0;
//! higher links only make it quicker to find.
//!
//! **Sequences** of ascending inserts find their place without a search: the list remembers a
//! recent insert and what stood before it at each level (`finger`). The finger is a guess. It is
//! read and written without order between its levels, and trusted only as far as each level proves
//! that the new node belongs right behind it.

use std::array;
use std::ptr;

use tamarack_env::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::arena::Arena;
use super::node::{Head, Link, Node, Place, Tower};
use crate::entry::Entry;
use crate::memory::Charge;

/// With a million nodes one reaches level 20; more nodes make the highest level longer, slowly.
const HEIGHT_MAX: usize = 20;
/// One in so many inserts points the finger to itself without being asked to, so that a beginning
/// sequence is noticed.
const FINGER_SAMPLE: u64 = 16;

/// An ordered list of the nodes of one arena.
#[derive(Debug)]
pub(super) struct List {
    arena: Arena,
    /// Links of the start, highest level first.
    start: [Link; HEIGHT_MAX],
    /// Levels in use. Only a hint: above it, everything leads from the start to the end, or will in
    /// a moment no longer do so.
    height: AtomicUsize,
    /// For each level, a node that is linked there and after which a sequence of inserts goes on;
    /// null for the start.
    finger: [AtomicPtr<Head>; HEIGHT_MAX],
}

/// For each level, where a new node is to be linked.
type Predecessors<'a> = [Tower<'a>; HEIGHT_MAX];

impl List {
    /// An empty list; allocates nothing. Its memory will be charged to where `charge` is.
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

    /// Adds `entry`. `number` differs between inserts and decides the node's height.
    ///
    /// # Panics
    /// If there is an entry with this key and sequence, or if a part of the entry is too large.
    pub(super) fn insert(&self, entry: Entry<'_>, number: u64) {
        let height = height_of(number);
        let node = Node::write(&self.arena, entry, height);
        let place = Place::new(entry.key, entry.sequence);
        let mut before = [self.start(); HEIGHT_MAX];
        let found = self.follow_finger(&place, height, &mut before);
        if found != Finger::Right {
            self.search(&place, |level, tower| {
                before[level] = tower;
                if level < height {
                    // `link` will look at the successor. While the search goes on below, it can be fetched.
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
        // SAFETY: level 0 is below every height.
        unsafe { self.start().successor(0) }
    }

    /// The last node.
    pub(super) fn last(&self) -> Option<Node<'_>> {
        let mut tower = self.start();
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: the start has HEIGHT_MAX links, and a node that was reached at a level is linked there.
            while let Some(next) = unsafe { tower.successor(level) } {
                tower = next.tower();
            }
        }
        self.node(tower)
    }

    /// The node after `node`.
    pub(super) fn after<'a>(&'a self, node: Node<'a>) -> Option<Node<'a>> {
        // SAFETY: every node has level 0.
        unsafe { node.tower().successor(0) }
    }

    /// The first node at or after `place`.
    pub(super) fn at_or_after(&self, place: &Place<'_>) -> Option<Node<'_>> {
        self.search(place, |_, _| {}).1
    }

    /// The last node before `place`.
    pub(super) fn before(&self, place: &Place<'_>) -> Option<Node<'_>> {
        self.node(self.search(place, |_, _| {}).0)
    }

    fn start(&self) -> Tower<'_> {
        Tower::start(&self.start)
    }

    /// The node a tower belongs to; None for the start.
    fn node<'a>(&'a self, tower: Tower<'a>) -> Option<Node<'a>> {
        if tower == self.start() {
            return None;
        }
        // SAFETY: towers are made from nodes and from the start only, and this is not the start.
        Some(unsafe { tower.node() })
    }

    /// Finds the neighbours of `place`: the links of what comes before it, and the node at or after
    /// it. Tells `visit`, for each level in use from the highest down, where the search left
    /// it: at or before the last node before `place`.
    #[inline]
    fn search<'a>(
        &'a self,
        place: &Place<'_>,
        mut visit: impl FnMut(usize, Tower<'a>),
    ) -> (Tower<'a>, Option<Node<'a>>) {
        let mut tower = self.start();
        for level in (1..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: the start has HEIGHT_MAX links, and a node that was reached at a level has that level and
            // all below.
            while let Some(next) = unsafe { surely_before(tower, level, place) } {
                tower = next.tower();
            }
            visit(level, tower);
        }
        // SAFETY: as above.
        while let Some(next) = unsafe { surely_before(tower, 0, place) } {
            tower = next.tower();
        }
        // The prefixes may be behind for a moment, so the last word is with the nodes.
        // SAFETY: level 0 is below every height.
        let mut next = unsafe { tower.successor(0) };
        while let Some(node) = next.filter(|node| node.is_before(place)) {
            tower = node.tower();
            // SAFETY: level 0 is below every height.
            next = unsafe { tower.successor(0) };
        }
        visit(0, tower);
        (tower, next)
    }

    /// Links `node` at `level`, right before the first node that is not before `place`. `tower` is
    /// linked at that level and before `place`. Returns what `node` follows now.
    fn link<'a>(&self, node: Node<'a>, place: &Place<'_>, level: usize, mut tower: Tower<'a>) -> Tower<'a> {
        loop {
            // SAFETY: the caller says that `tower` has this level; what is reached there has it too.
            let successor = unsafe { tower.successor(level) };
            match successor {
                Some(next) if next.is_before(place) => {
                    tower = next.tower();
                    continue;
                }
                Some(next) if level == 0 => assert_differ(node, next),
                _ => {}
            }
            // SAFETY: `level` is below the node's height, and nobody reaches it at this level before the next
            // line links it.
            unsafe { node.tower().prepare(level, successor) };
            // SAFETY: as for the successor.
            if unsafe { tower.link(level) }.insert(successor, node) {
                return tower;
            }
        }
    }

    /// If the finger shows where `place` is, at all levels below `height`, puts that into `before`.
    fn follow_finger<'a>(&'a self, place: &Place<'_>, height: usize, before: &mut Predecessors<'a>) -> Finger {
        for (level, before) in before.iter_mut().enumerate().take(height) {
            // SAFETY: the finger holds nodes of this list, stored with Release after they were linked at that
            // level.
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

    /// Points the finger to `node` at the levels it has, and above to what comes before it, as far
    /// as that is given.
    fn point_finger(&self, node: Node<'_>, height: usize, before: &[Tower<'_>]) {
        for finger in &self.finger[..height] {
            finger.store(node.as_ptr(), Ordering::Release);
        }
        for (finger, &tower) in self.finger.iter().zip(before).skip(height) {
            finger.store(self.node(tower).map_or(ptr::null_mut(), Node::as_ptr), Ordering::Release);
        }
    }
}

/// What the finger is worth for an insert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finger {
    /// It shows the place at every level that is needed.
    Right,
    /// It shows the place at level 0 only.
    Near,
    /// It shows another place.
    Elsewhere,
}

/// What follows at that level, if that is certain to be before `place`. When another thread is
/// inserting right here, it may be before `place` all the same.
///
/// # Safety
/// As for [`Tower::link`].
#[inline]
unsafe fn surely_before<'a>(tower: Tower<'a>, level: usize, place: &Place<'_>) -> Option<Node<'a>> {
    // SAFETY: passed on to the caller.
    let prefix = unsafe { tower.link(level) }.prefix();
    if prefix > place.prefix {
        return None;
    }
    // SAFETY: passed on to the caller.
    let next = unsafe { tower.successor(level) };
    if prefix < place.prefix { next } else { next.filter(|node| node.is_before(place)) }
}

/// The contract of [`List::insert`], where it can be checked for nothing: equal nodes become
/// neighbours.
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

/// Draws a height, one with probability 1/2, two with 1/4 and so on, from the insert's number.
fn height_of(number: u64) -> usize {
    // A finaliser that makes each bit of the result depend on all of the number.
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    bits ^= bits >> 32;
    1 + (bits.trailing_zeros() as usize).min(HEIGHT_MAX - 1)
}
