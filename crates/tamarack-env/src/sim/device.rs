//! The cost of calls on a storage device, and the competition of its users.
//!
//! ```text
//! caller    ─ write ─ write ─────────── sync ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄├latency┤──▶
//!               cpu     cpu               │                                     ▲
//! worker    ─ read ┄┄┄┄┄┄├latency┤ write ─┼─ start_writeback ── write ──        │
//!               │                    cpu  │      │                              │
//! device        ▓▓▓▓▓▓▓▓▓                 │      ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//!               for the worker            └─ queues ───── worker's ─┘  caller's
//! ```
//!
//! Five rules:
//!
//! * **A buffered write costs processor time**, and makes pages of 4 KiB dirty. It does not wait
//!   for the device.
//! * **Dirty pages become transfers** when the file is synced, when
//!   [`crate::File::start_writeback`] says so, or when the file has more of them than
//!   [`Device::dirty_bytes_max`]. A page that was written twice before is one transfer.
//! * **A sync waits** until all the file's transfers are over, and then for
//!   [`Device::sync_latency`]. Making a directory's names durable takes that latency alone.
//! * **A read transfers** the pages it touches, unless they are dirty, and waits for that and for
//!   [`Device::read_latency`]. So the page cache is as small as possible: the model is for
//!   databases that are larger than memory.
//! * **Bandwidth is shared; latency and processor are not.** The device carries out one transfer at
//!   a time, in the order of their requests as far as the times of these allow, see [`Transfers`].
//!   Any number of callers can wait out a latency at the same time, as on solid-state and network
//!   storage; a disk with one arm would be slower.
//!
//! Other calls cost nothing, and neither do calls that fail or are omitted: their cost is not the
//! subject of their tests. The engine's computation without reading or writing has no cost of its
//! own; [`Device::cpu_bytes_per_second`] stands for it.
//!
//! Absent: the waiting itself. This answers "until when?"; [`super::machine`] and
//! [`super::background`] decide whose clock then moves. A transfer costs a step in a map of busy
//! times, a written page one in a set of pages.
//!
//! Tested below beside a device of single ticks, and by the sums and orders of
//! `sim/tests/device.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::time::Duration;

use super::content::PAGE_BYTES;
use super::inode::Inode;

/// The speed of a storage device, and of the processor in front of it.
///
/// The ready-made ones have round figures of their kind, not any product's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Read bandwidth in bytes per second, without writes.
    pub read_bytes_per_second: u64,
    /// Write bandwidth in bytes per second, without reads.
    pub write_bytes_per_second: u64,
    /// Bytes read or written per second that a caller's processor moves: copying into and out of
    /// the page cache, and computing on these bytes. Each worker has a processor of its own.
    pub cpu_bytes_per_second: u64,
    /// Time of a read beyond its transfer.
    pub read_latency: Duration,
    /// Time of a sync beyond the transfers it waits for.
    pub sync_latency: Duration,
    /// Bytes of a file that stay dirty without a request to write them; beyond, all are written. At
    /// least 4096 are kept.
    pub dirty_bytes_max: u64,
}

impl Device {
    /// A small volume on a network: 125 MB/s, a millisecond away.
    pub const NETWORK_VOLUME: Self = Self {
        read_bytes_per_second: 125_000_000,
        write_bytes_per_second: 125_000_000,
        cpu_bytes_per_second: 1_000_000_000,
        read_latency: Duration::from_millis(1),
        sync_latency: Duration::from_millis(2),
        dirty_bytes_max: 1 << 20,
    };

    /// A solid-state disk on an old bus: 500 MB/s.
    pub const SATA_SSD: Self = Self {
        read_bytes_per_second: 500_000_000,
        write_bytes_per_second: 500_000_000,
        read_latency: Duration::from_micros(100),
        sync_latency: Duration::from_millis(1),
        ..Self::NETWORK_VOLUME
    };

    /// A solid-state disk close to the processor: 2 GB/s written, more than one core can compact.
    pub const NVME_SSD: Self = Self {
        read_bytes_per_second: 3_000_000_000,
        write_bytes_per_second: 2_000_000_000,
        read_latency: Duration::from_micros(80),
        sync_latency: Duration::from_micros(200),
        ..Self::NETWORK_VOLUME
    };

    fn check(&self) {
        let rates = [self.read_bytes_per_second, self.write_bytes_per_second, self.cpu_bytes_per_second];
        assert!(!rates.contains(&0), "a device that never gets done: {self:?}");
    }

    fn processing(&self, bytes: usize) -> Duration {
        time(bytes as u64, self.cpu_bytes_per_second)
    }
}

/// A device in use: its transfers, and the pages that are still to become some.
#[derive(Debug)]
pub(super) struct Storage {
    pub(super) device: Device,
    transfers: Transfers,
    files: BTreeMap<Inode, Cached>,
}

/// Pending work of page cache and device for one file.
#[derive(Debug, Default)]
struct Cached {
    /// The numbers of its dirty pages.
    dirty: BTreeSet<u64>,
    /// The end of its last transfer.
    written_at: Duration,
}

/// Each method returns the time until which the caller is busy, who begins at `now`.
impl Storage {
    /// An idle device and a clean cache.
    pub(super) fn new(device: Device) -> Self {
        device.check();
        Self { device, transfers: Transfers::default(), files: BTreeMap::new() }
    }

    pub(super) fn write(&mut self, now: Duration, inode: Inode, offset: u64, bytes: usize) -> Duration {
        let now = now + self.device.processing(bytes);
        let dirty = &mut self.files.entry(inode).or_default().dirty;
        dirty.extend(pages(offset, bytes as u64));
        if dirty.len() as u64 > (self.device.dirty_bytes_max / PAGE_BYTES as u64).max(1) {
            self.start_writeback(now, inode, 0, u64::MAX);
        }
        now
    }

    pub(super) fn read(&mut self, now: Duration, inode: Inode, offset: u64, bytes: usize) -> Duration {
        let dirty = self.files.get(&inode).map(|file| &file.dirty);
        let is_dirty = |page: &u64| dirty.is_some_and(|dirty| dirty.contains(page));
        let transferred = pages(offset, bytes as u64).filter(|page| !is_dirty(page)).count();
        let processing = self.device.processing(bytes);
        if transferred == 0 {
            return now + processing;
        }
        let service = page_time(transferred, self.device.read_bytes_per_second);
        self.transfers.add(now, service) + self.device.read_latency + processing
    }

    /// Nobody waits for this.
    pub(super) fn start_writeback(&mut self, now: Duration, inode: Inode, offset: u64, bytes: u64) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        let range = pages(offset, bytes);
        let mut rest = file.dirty.split_off(&range.start);
        let mut after = rest.split_off(&range.end);
        file.dirty.append(&mut after);
        if !rest.is_empty() {
            let service = page_time(rest.len(), self.device.write_bytes_per_second);
            file.written_at = file.written_at.max(self.transfers.add(now, service));
        }
    }

    pub(super) fn sync(&mut self, now: Duration, inode: Inode) -> Duration {
        self.start_writeback(now, inode, 0, u64::MAX);
        let written_at = self.files.get(&inode).map_or(now, |file| file.written_at);
        written_at.max(now) + self.device.sync_latency
    }

    pub(super) fn sync_dir(&self, now: Duration) -> Duration {
        now + self.device.sync_latency
    }

    /// What is cut off is never transferred.
    pub(super) fn set_len(&mut self, inode: Inode, length: u64) {
        if let Some(file) = self.files.get_mut(&inode) {
            file.dirty.split_off(&length.div_ceil(PAGE_BYTES as u64));
        }
    }

    /// Forgets files that no longer exist.
    pub(super) fn retain(&mut self, is_there: impl Fn(Inode) -> bool) {
        self.files.retain(|inode, _| is_there(*inode));
    }
}

/// The busy times of the device, in stretches that do not touch.
///
/// A step of one worker is simulated from its beginning to its end before another's, so requests do
/// not come in the order of their times. Each therefore gets the idle time from its own time on, in
/// pieces if necessary:
///
/// ```text
/// before               ▓▓▓▓▓▓         ▓▓▓▓▓▓▓▓
/// asked for at         ·    ·│        ·      ·
/// carried out          ·    ·├────────┤      ├────┤ over
/// ```
///
/// So the device is never idle with a request pending, a granted time is never taken back, and a
/// request that is later in both senses waits for all earlier ones.
#[derive(Debug, Default)]
struct Transfers {
    /// From when to when.
    busy: BTreeMap<Duration, Duration>,
}

/// Upper bound on the stretches remembered. Beyond it, the oldest idle time between two is given up
/// and counts as busy. Workers lag behind each other by single steps, which make far fewer.
const STRETCHES_MAX: usize = 4096;

impl Transfers {
    /// Adds a transfer that takes `service` by itself; returns its end.
    fn add(&mut self, asked_at: Duration, service: Duration) -> Duration {
        let before = self.busy.range(..=asked_at).next_back().map(|(begin, end)| (*begin, *end));
        let (begin, mut end) = match before {
            Some((begin, end)) if end >= asked_at => (begin, end),
            _ => (asked_at, asked_at),
        };
        let mut left = service;
        // The device is busy from `begin` to `end`, which grows over one idle time and one stretch
        // at a time.
        let over = loop {
            let next = self.busy.range((Bound::Excluded(begin), Bound::Unbounded)).next();
            match next.map(|(begin, end)| (*begin, *end)) {
                Some((next_begin, next_end)) if next_begin - end <= left => {
                    left -= next_begin - end;
                    self.busy.remove(&next_begin);
                    end = next_end;
                    if left.is_zero() {
                        break next_begin;
                    }
                }
                _ => {
                    end += left;
                    break end;
                }
            }
        };
        self.busy.insert(begin, end);
        self.forget_oldest();
        over
    }

    fn forget_oldest(&mut self) {
        while self.busy.len() > STRETCHES_MAX
            && let Some((begin, _)) = self.busy.pop_first()
            && let Some((_, end)) = self.busy.pop_first()
        {
            self.busy.insert(begin, end);
        }
    }
}

/// The numbers of the pages that a range of a file touches.
fn pages(offset: u64, bytes: u64) -> Range<u64> {
    let page = PAGE_BYTES as u64;
    if bytes == 0 {
        return 0..0;
    }
    offset / page..offset.saturating_add(bytes).div_ceil(page)
}

fn page_time(pages: usize, bytes_per_second: u64) -> Duration {
    time((pages * PAGE_BYTES) as u64, bytes_per_second)
}

/// Rounded down to nanoseconds.
fn time(bytes: u64, bytes_per_second: u64) -> Duration {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(not(feature = "shuttle"))]
#[cfg(test)]
mod tests {
    //! Transfers beside the obvious twin, one boolean per nanosecond.

    use super::*;
    use crate::random::Random;

    #[derive(Default)]
    struct Ticks(Vec<bool>);

    impl Ticks {
        fn add(&mut self, asked_at: usize, service: usize) -> usize {
            let mut left = service;
            for at in asked_at.. {
                if left == 0 {
                    return at;
                }
                if self.0.len() <= at {
                    self.0.resize(at + 1, false);
                }
                if !self.0[at] {
                    self.0[at] = true;
                    left -= 1;
                }
            }
            unreachable!("time does not end")
        }
    }

    #[test]
    fn transfers_take_the_first_free_ticks() {
        for seed in 0..500 {
            let (random, mut transfers, mut ticks) = (Random::new(seed), Transfers::default(), Ticks::default());
            for _ in 0..40 {
                let (asked_at, service) = (random.below(300), 1 + random.below(12));
                let over = transfers.add(Duration::from_nanos(asked_at), Duration::from_nanos(service));
                let expected = ticks.add(asked_at as usize, service as usize);
                assert_eq!(over.as_nanos(), expected as u128, "seed {seed}: {service} from {asked_at}");
                let busy: u128 = transfers.busy.iter().map(|(begin, end)| (*end - *begin).as_nanos()).sum();
                assert_eq!(busy, ticks.0.iter().filter(|busy| **busy).count() as u128, "seed {seed}");
            }
        }
    }

    /// With any number of idle times; and forgetting some only makes later requests wait.
    #[test]
    fn the_memory_of_idle_times_is_bounded() {
        let mut transfers = Transfers::default();
        let (tick, many) = (Duration::from_nanos(1), STRETCHES_MAX as u32 + 100);
        for at in 0..many {
            assert_eq!(transfers.add(tick * (2 * at), tick), tick * (2 * at + 1));
        }
        assert_eq!(transfers.busy.len(), STRETCHES_MAX);
        assert_eq!(transfers.add(Duration::ZERO, tick), tick * 202, "the first idle tick that is remembered");
    }

    #[test]
    fn ranges_touch_whole_pages() {
        assert_eq!(pages(5, 0), 0..0);
        assert_eq!((pages(0, 1), pages(4095, 1), pages(4095, 2), pages(4096, 4096)), (0..1, 0..1, 0..2, 1..2));
        assert_eq!(pages(0, u64::MAX).start, 0);
        assert_eq!(pages(8192, u64::MAX).start, 2);
    }
}
