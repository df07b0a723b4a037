//! Sampled writes: of about one in [`WRITES_PER_SAMPLE`] the latency is measured.
//!
//! ```text
//!   WriteCountdown, under the lock of the commit queue      WriteSampler, read by each write
//!     a write joins: one less is left                         is_next: false
//!     none is left: draws the next distance  ───────────────► is_next: true
//!                                            a write begins ◄─┘ and is sampled; is_next: false
//! ```
//!
//! A write cannot count down where it begins: writers would contend for the counter there, and a
//! counter per thread has to be found first, which costs about 15 instructions. So writes count
//! down where they join a commit group, under a lock that they take anyway; and the next one that
//! begins is sampled.
//!
//! # Which writes are sampled
//!
//! The first that begins after a random one has joined. The distances between these have a
//! geometric distribution, as those of [sampled lookups](super::samples), so patterns that repeat
//! are not over- or underrepresented, and each thread counts in proportion to its writes. How long
//! the sampled write will take has no influence: it is chosen when it begins. A write that fails
//! after that is not counted.
//!
//! # Costs
//!
//! A write reads a flag on a cache line that changes only at samples, and counts down under the
//! lock; `docs/READ_PATH.md` counts instructions. A sample reads the clock twice.
//!
//! Tests: here, and `tests/suite/samples.rs`.

use tamarack_env::random::{STEP, mixed};
use tamarack_env::sync::atomic::{AtomicBool, Ordering};

use super::samples::distance;

/// Mean number of writes per sample. There are fewer than of lookups, so that samples cost a put
/// next to nothing; a thousand writes in a second still give about four.
pub const WRITES_PER_SAMPLE: u64 = 256;

/// Tells a write that begins whether it is sampled. By default the next one is not.
#[derive(Debug, Default)]
pub struct WriteSampler {
    is_next: AtomicBool,
}

impl WriteSampler {
    /// Returns true if the next write that begins is likely to be sampled. Cheap; asked by each
    /// write.
    #[inline]
    pub fn is_next(&self) -> bool {
        self.is_next.load(Ordering::Relaxed)
    }

    /// Returns true if the write that begins is sampled, to one write only.
    pub fn take(&self) -> bool {
        self.is_next.swap(false, Ordering::Relaxed)
    }

    /// The next write that begins is sampled.
    #[cold]
    #[inline(never)]
    pub fn sample_next(&self) {
        self.is_next.store(true, Ordering::Relaxed);
    }
}

/// Counts writes down to the next sample.
#[derive(Debug)]
pub struct WriteCountdown {
    /// Writes up to and including the one after which the next is sampled; at least 1.
    left: u64,
    random: u64,
}

impl WriteCountdown {
    /// Makes a countdown; `seed` decides the distances.
    pub fn new(seed: u64) -> Self {
        let mut this = Self { left: 1, random: seed };
        this.draw();
        this
    }

    /// Counts a write. Returns true if the next one is to be sampled.
    #[inline]
    pub fn counts_down(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.draw();
        true
    }

    #[cold]
    #[inline(never)]
    fn draw(&mut self) {
        self.random = self.random.wrapping_add(STEP);
        self.left = distance(mixed(self.random), WRITES_PER_SAMPLE);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// The next write after each that the countdown chooses is sampled, and no other one; each
    /// place of a pattern that repeats equally often.
    #[test]
    fn writes_are_equally_likely() {
        let (sampler, mut countdown) = (WriteSampler::default(), WriteCountdown::new(1));
        let (periods, mut places, mut is_chosen) = (400_000, [0_u32; 64], false);
        for _ in 0..periods {
            for place in &mut places {
                let is_sampled = sampler.is_next() && sampler.take();
                assert_eq!(is_sampled, is_chosen);
                *place += u32::from(is_sampled);
                is_chosen = countdown.counts_down();
                if is_chosen {
                    sampler.sample_next();
                }
            }
        }
        // Means of 400,000 / 256 = 1562.5, with standard deviations of 39.4: six of them.
        assert!(places.iter().all(|count| (1326..1799).contains(count)), "{places:?}");
    }

    /// Of writes that begin at the same time, one is sampled.
    #[test]
    fn one_write_is_sampled() {
        let sampler = WriteSampler::default();
        for _ in 0..100 {
            sampler.sample_next();
            let taken: Vec<bool> = tamarack_env::sync::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| sampler.take())).collect();
                threads.into_iter().map(|thread| thread.join().expect("it only takes")).collect()
            });
            assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "{taken:?}");
        }
    }

    /// The same seed samples the same writes.
    #[test]
    fn samples_repeat() {
        let chosen = |seed| {
            let mut countdown = WriteCountdown::new(seed);
            (0..10_000).filter(|_| countdown.counts_down()).collect::<Vec<_>>()
        };
        assert_eq!(chosen(3), chosen(3));
        assert_ne!(chosen(3), chosen(4));
    }
}
