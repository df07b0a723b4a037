//! [`Collapsing`]: the worker that gets huge pages for the memory of cached blocks.
//!
//! ```text
//! block inserted ─► its region is nearly all blocks ─► 16 such regions ─► worker ─► kernel
//!                                                                          └ pause ◄┘
//! ```
//!
//! A random read of a large cache waits for page tables about as long as for the data; huge pages
//! end that (`docs/READ_PATH.md` has figures). [`Regions`](super::regions::Regions) knows which
//! regions are worth one. The memory stays the allocator's, and a kernel that declines changes
//! nothing.
//!
//! Cost: 0.6 to 5 ms of processor time for each region of 2 MiB, once, mostly copying.
//! Meanwhile the kernel keeps threads from changing what memory the process has, so lookups that
//! fill the cache ran at a third of their rate when all regions were collapsed at once. The worker
//! pauses for seven eighths of the time. The kernel also waits for something to be done on each
//! processor, so regions come in groups; a cache of less than a group of them gets none, and needs
//! none.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::{Env, Progress, Work, Worker, collapse_pages};

/// The number of full regions that are collapsed together: 32 MiB.
pub(super) const GROUP: usize = 16;

/// The pause after a group, as a multiple of the time that it took.
const PAUSE: u32 = 7;

/// Returns a group of full regions, if there are as many.
type TakeFull = Box<dyn Fn() -> Vec<Range<usize>> + Send + Sync>;

/// The work. See the module's documentation.
struct Collapsing {
    take_full: TakeFull,
    env: Arc<dyn Env>,
    /// The end of the pause on the environment's clock, in microseconds.
    paused_until: AtomicU64,
}

/// Starts the worker, if the environment has huge pages. Its owner must stop it.
///
/// # Errors
/// If no thread can be started.
pub(super) fn start(env: &Arc<dyn Env>, take_full: TakeFull) -> io::Result<Option<Arc<dyn Worker>>> {
    if !env.has_huge_pages() {
        return Ok(None);
    }
    let work = Collapsing { take_full, env: env.clone(), paused_until: AtomicU64::new(0) };
    env.start("tamarack-pages", Arc::new(work)).map(Some)
}

impl Work for Collapsing {
    fn step(&self) -> Progress {
        let began = self.env.now();
        let paused_until = Duration::from_micros(self.paused_until.load(Ordering::Relaxed));
        if began < paused_until {
            return Progress::IdleUntil(paused_until);
        }
        let regions = (self.take_full)();
        if regions.is_empty() {
            return Progress::Idle;
        }
        for region in regions {
            // Whether the kernel does it is its own decision, and nobody can do anything about
            // that.
            let _is_done = collapse_pages(region);
        }
        let ended = self.env.now();
        let paused_until = ended + PAUSE * (ended - began);
        self.paused_until.store(paused_until.as_micros() as u64, Ordering::Relaxed);
        Progress::IdleUntil(paused_until)
    }
}
