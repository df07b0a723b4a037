//! [`Regions`]: which regions of memory are mostly cached blocks, and so worth a huge page.
//!
//! A cached lookup touches a few lines of a random block. In a cache of some hundred MiB the
//! processor then waits for page tables about as long as for the lines. Huge pages end that, but
//! they cannot be had in advance: one of which little is used wastes the rest. So memory stays
//! where the allocator has put it. This counts the bytes of cached blocks in each aligned region of
//! 2 MiB, and tells its owner of a region that is nearly all in use, so that the owner asks the
//! kernel to collapse it into a huge page ([`collapse_pages`](tamarack_env::collapse_pages)).
//!
//! ```text
//! addresses   ├────────────────────┼────────────────────┼────────────────────┤  regions of 2 MiB
//! blocks       ▒ ▒▒▒▒  ▒▒   ▒        ▒▒▒▒▒▒▒▒▒▒▒▒▒ ▒▒▒▒▒▒ ▒▒▒▒▒ ▒▒▒▒▒▒▒▒▒▒▒▒
//! full                               7/8 are blocks
//! ```
//!
//! A region is told once, and again only after it fell below half: the allocator may have given its
//! pages back meanwhile. (An owner that begins anew is told all once more.) Resident memory grows
//! by at most the eighth that no block takes, of which other allocations have most already.
//!
//! It makes no system call, has no lock, and does not look at memory: its owner has a lock, under
//! which it reports blocks and takes the full regions. Collapsing them takes long, so it is for a
//! background thread without that lock. Memory that is freed meanwhile does no harm: collapsing
//! changes no content, and the allocator's memory stays the allocator's.
//!
//! Costs 3 to 4 ns for each block added or removed. Memory: some 27 bytes for each region with a
//! block in it, 9 KiB for 640 MiB of blocks; and the full regions that nobody has taken, of which
//! there are at most [`FULL_MAX`].
//!
//! Tests: here, against a plain list of blocks.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use tamarack_env::HUGE_PAGE_BYTES;

/// The bytes of blocks from which on a region is full. Fewer would waste more memory; with more,
/// what lies between the blocks would keep most regions from it.
const FULL_BYTES: u32 = (HUGE_PAGE_BYTES / 8 * 7) as u32;

/// A region that was told is told again after it fell below so many bytes.
const HALF_BYTES: u32 = (HUGE_PAGE_BYTES / 2) as u32;

/// The number of full regions that are kept until they are taken: 8 GiB of memory. More are not
/// told: a hint is lost.
const FULL_MAX: usize = 4096;

/// The bytes of cached blocks in each region of memory that has some.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    filled: HashMap<usize, Region, BuildHasherDefault<NumberHasher>>,
    /// The numbers of full regions that were not taken yet.
    full: Vec<usize>,
}

#[derive(Debug, Default)]
struct Region {
    bytes: u32,
    is_told: bool,
}

impl Regions {
    /// The number of full regions that wait to be taken.
    pub(crate) fn waiting(&self) -> usize {
        self.full.len()
    }

    /// Adds a block's memory, usually its payload.
    pub(crate) fn added(&mut self, memory: &[u8]) {
        for (number, bytes) in parts(memory) {
            let region = self.filled.entry(number).or_default();
            region.bytes = region.bytes.saturating_add(bytes);
            if region.bytes >= FULL_BYTES && !region.is_told {
                region.is_told = true;
                if self.full.len() < FULL_MAX {
                    self.full.push(number);
                }
            }
        }
    }

    /// Subtracts the memory of a block that was added; to be called before it is freed, with the
    /// same slice.
    pub(crate) fn removed(&mut self, memory: &[u8]) {
        for (number, bytes) in parts(memory) {
            let Some(region) = self.filled.get_mut(&number) else { continue };
            region.bytes = region.bytes.saturating_sub(bytes);
            region.is_told &= region.bytes >= HALF_BYTES;
            if region.bytes == 0 {
                self.filled.remove(&number);
            }
        }
        if self.filled.capacity() > 64 + 8 * self.filled.len() {
            self.filled.shrink_to(2 * self.filled.len());
        }
    }

    /// Takes `group` of the regions that have become full, as ranges of addresses in order;
    /// neighbours are one range. Takes none if there are fewer. Some may have become emptier
    /// meanwhile, which are left out.
    pub(crate) fn take_full(&mut self, group: usize) -> Vec<Range<usize>> {
        if self.full.len() < group {
            return Vec::new();
        }
        let mut full: Vec<_> = self.full.drain(..group).collect();
        full.retain(|number| self.filled.get(number).is_some_and(|region| region.is_told));
        full.sort_unstable();
        // It may have been told, fallen below half, and been told again.
        full.dedup();
        full.chunk_by(|number, next| number + 1 == *next)
            .map(|neighbours| {
                let start = neighbours[0] * HUGE_PAGE_BYTES;
                start..start + neighbours.len() * HUGE_PAGE_BYTES
            })
            .collect()
    }

    /// Its memory beside its own size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // Tables of the map are at most 7/8 full, and have one more byte for each place.
        let places = self.filled.capacity() * 8 / 7;
        places * (size_of::<(usize, Region)>() + 1) + size_of::<usize>() * self.full.capacity()
    }
}

/// The regions that `memory` lies in, and its bytes in each.
fn parts(memory: &[u8]) -> impl Iterator<Item = (usize, u32)> + use<> {
    let Range { start, end } = memory.as_ptr_range();
    let (mut at, end) = (start.addr(), end.addr());
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (number, from) = (at / HUGE_PAGE_BYTES, at);
        at = end.min((number + 1) * HUGE_PAGE_BYTES);
        Some((number, (at - from) as u32))
    })
}

/// Hashes the numbers of regions.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_usize(&mut self, number: usize) {
        // The map takes its places from the low bits, and compares the high ones.
        let product = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only numbers are hashed");
    }
}

#[cfg(test)]
mod tests {
    use tamarack_env::Random;

    use super::*;

    /// Memory that begins with a region, of some regions.
    struct Memory(Vec<u8>);

    impl Memory {
        fn of(regions: usize) -> Self {
            Self(vec![0; (regions + 1) * HUGE_PAGE_BYTES])
        }

        fn start(&self) -> usize {
            self.0.as_ptr().addr().next_multiple_of(HUGE_PAGE_BYTES) - self.0.as_ptr().addr()
        }

        fn bytes(&self, range: Range<usize>) -> &[u8] {
            &self.0[self.start() + range.start..self.start() + range.end]
        }

        /// The addresses of regions.
        fn regions(&self, numbers: Range<usize>) -> Range<usize> {
            let first = self.0.as_ptr().addr() + self.start();
            first + numbers.start * HUGE_PAGE_BYTES..first + numbers.end * HUGE_PAGE_BYTES
        }
    }

    /// Adds a block; returns the number of full regions that wait.
    fn added(regions: &mut Regions, block: &[u8]) -> usize {
        regions.added(block);
        regions.waiting()
    }

    const EIGHTH: usize = HUGE_PAGE_BYTES / 8;

    #[test]
    fn a_region_is_told_once_it_is_full_and_again_after_it_was_half_empty() {
        let memory = Memory::of(1);
        let block = |eighth: usize| memory.bytes(eighth * EIGHTH..(eighth + 1) * EIGHTH);
        let mut regions = Regions::default();
        (0..6).for_each(|eighth| assert_eq!(added(&mut regions, block(eighth)), 0));
        assert_eq!(added(&mut regions, block(6)), 1);
        assert_eq!(regions.take_full(1), [memory.regions(0..1)]);
        // Blocks come and go.
        (0..3).for_each(|eighth| regions.removed(block(eighth)));
        (0..3).for_each(|eighth| assert_eq!(added(&mut regions, block(eighth)), 0));
        // Only three are left.
        (0..4).for_each(|eighth| regions.removed(block(eighth)));
        (0..3).for_each(|eighth| assert_eq!(added(&mut regions, block(eighth)), 0));
        assert_eq!(added(&mut regions, block(3)), 1);
        // It is half empty again when somebody asks.
        (0..4).for_each(|eighth| regions.removed(block(eighth)));
        assert_eq!(regions.take_full(1), []);
    }

    #[test]
    fn a_large_block_fills_what_lies_within() {
        let memory = Memory::of(5);
        let mut regions = Regions::default();
        let block = memory.bytes(HUGE_PAGE_BYTES / 2..4 * HUGE_PAGE_BYTES + EIGHTH);
        assert_eq!(added(&mut regions, block), 3);
        assert_eq!(regions.take_full(4), [], "there are not as many");
        assert_eq!(regions.take_full(3), [memory.regions(1..4)]);
        assert_eq!(added(&mut regions, memory.bytes(0..HUGE_PAGE_BYTES / 2)), 1);
        assert_eq!(regions.take_full(1), [memory.regions(0..1)]);
        regions.removed(block);
        assert_eq!(regions.filled.len(), 1, "only the first one has a block");
        assert_eq!(added(&mut regions, &[]), 0);
    }

    /// The counts are those of a plain list of blocks, whatever comes and goes, and end with it.
    #[test]
    fn counts_agree_with_a_list() {
        let memory = Memory::of(6);
        let random = Random::new(1);
        let below = |bound: usize| random.next() as usize % bound;
        let mut places: Vec<usize> = (0..6 * HUGE_PAGE_BYTES / 6000).collect();
        let mut regions = Regions::default();
        let mut blocks: Vec<Range<usize>> = Vec::new();
        let mut told = 0;
        for step in 0..20_000 {
            let wants_more = if step / 4000 % 2 == 0 { 9 } else { 2 };
            if below(10) < wants_more && !places.is_empty() {
                let place = places.swap_remove(below(places.len()));
                let block = place * 6000..place * 6000 + 5500 + below(501);
                told += added(&mut regions, memory.bytes(block.clone()));
                blocks.push(block);
            } else if !blocks.is_empty() {
                let block = blocks.swap_remove(below(blocks.len()));
                regions.removed(memory.bytes(block.clone()));
                places.push(block.start / 6000);
            }
            regions.take_full(1);
            if step % 500 == 0 {
                let mut filled = [0; 6];
                for byte in blocks.iter().cloned().flatten().step_by(1) {
                    filled[byte / HUGE_PAGE_BYTES] += 1;
                }
                let first = memory.regions(0..1).start / HUGE_PAGE_BYTES;
                let counted = |number: usize| regions.filled.get(&(first + number)).map_or(0, |region| region.bytes);
                assert_eq!(std::array::from_fn(counted), filled, "step {step}");
            }
        }
        assert!(told > 6, "{told} were told");
        blocks.drain(..).for_each(|block| regions.removed(memory.bytes(block)));
        assert!(regions.filled.is_empty());
        assert!(regions.memory_bytes() < 10_000, "{} bytes are left", regions.memory_bytes());
    }

    /// Whoever never takes the full regions loses hints, not memory.
    #[test]
    fn regions_that_nobody_takes_are_bounded() {
        let memory = Memory::of(1);
        let block = memory.bytes(0..HUGE_PAGE_BYTES);
        let mut regions = Regions::default();
        for _ in 0..2 * FULL_MAX {
            added(&mut regions, block);
            regions.removed(block);
        }
        assert_eq!(added(&mut regions, block), FULL_MAX);
        assert!(regions.memory_bytes() <= 16 * FULL_MAX, "{}", regions.memory_bytes());
        assert_eq!(regions.take_full(FULL_MAX), [memory.regions(0..1)]);
    }
}
