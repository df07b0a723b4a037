//! [`ReadTimes`]: what reads of blocks take where the database is, for one that was not calibrated.
//!
//! The assumed device carries out sixteen reads in the time of one. Devices differ in this by a
//! factor of ten, and so does what a scan of many runs takes, so it is measured before each search:
//! pages of the tables in use are read, a constant number of them at any time, for some
//! milliseconds at each depth. What they take beside the operations that are in progress is what an
//! operation would have to wait.
//!
//! Pages follow each other as the multiples of the golden ratio do, which lie far apart and do not
//! come back, so that nothing on the way to the device has kept them.
//!
//! Large reads, one at a time, show what a byte takes beside the latency, as of larger blocks.
//!
//! Lookups are timed as well, a sample of them. Their latency is that of reads with the workload's
//! own skew, so it replaces that of one read, and the others keep their ratio to it.

use std::sync::Arc;

use tamarack_env::random::STEP;
use tamarack_env::{AlignedBuffer, Env, ReadRequest};
use tamarack_model::device::{Device, RANDOM_READ_BYTES, READ_DEPTHS};

use crate::error::Result;
use crate::random_reads::{SteadyReads, median, timed};
use crate::stats::{LookupCounters, Reader};
use crate::table::Table;
use crate::tree::state::Tree;

/// Pages of fewer are likely to be where their reads say little, as in the cache of a drive.
const PAGES_MIN: u64 = 128;

/// Rounds, of which each depth takes its median: a pause of the device in one does no harm.
const ROUNDS: usize = 3;

/// The seconds of a depth in a round, after twice as many reads as its depth.
const DEPTH_SECONDS: f64 = 4e-3;

/// The most reads of a depth in a round.
const READS_MAX: u64 = 256;

/// The least part of a block read's time that is not that of its bytes.
const LATENCY_PART_MIN: f64 = 0.1;

/// Pages of a large read, whose time beside that of one page shows what a byte takes.
const LARGE_PAGES: u64 = 32;

/// The least part of a large read's time that its bytes count as; what is measured has errors.
const LARGE_PART_MIN: f64 = 0.05;

/// What was measured of random reads: per second, at each depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReadTimes {
    reads_per_second: [f64; READ_DEPTHS.len()],
    /// The same of large ones, one at a time.
    large_reads_per_second: f64,
    /// The mean bytes of a large read: small tables have no more.
    large_bytes: f64,
}

impl ReadTimes {
    /// Measures reads of the tables that are open. `place` counts the pages that were read.
    ///
    /// `None` if there are too few pages, or a read fails, which a lookup of its block will report;
    /// if the clock stands still; or once `goes_on` says no.
    pub(super) fn measure(
        env: &dyn Env,
        tree: &Tree,
        place: &mut u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Option<ReadTimes> {
        let pinned = tree.pin();
        let storage = pinned.tree().tables().next()?.storage();
        let tables = pinned.tree().tables().filter_map(|table| table.if_open());
        let pages = Pages::of(tables);
        if pages.count() < PAGES_MIN {
            return None;
        }
        // The reads of a second.
        let pages_at = |depth: u32, place: &mut u64| {
            let requests = pages.requests(place).ok()?;
            let until = env.now().as_secs_f64() + DEPTH_SECONDS;
            let request = |number: u64| {
                let is_due = number < 2 * u64::from(depth) || env.now().as_secs_f64() < until;
                let ReadRequest { file, offset, bytes } = requests.get(number as usize).filter(|_| is_due)?;
                Some(ReadRequest { file: file.clone(), offset: *offset, bytes: *bytes })
            };
            let mut reads = SteadyReads::new(depth, &request);
            let clock = env.now();
            let ((), seconds) = timed(env, || storage.read_queue(Reader::Upkeep, &mut reads));
            let count = reads.ended().ok()?;
            (env.now() > clock && goes_on()).then_some(count as f64 / seconds)
        };
        let mut large_buffer = AlignedBuffer::zeroed(LARGE_PAGES as usize * RANDOM_READ_BYTES);
        // The large reads of a second, and their bytes.
        let mut large_ones = |place: &mut u64| {
            let clock = env.now();
            let until = clock.as_secs_f64() + DEPTH_SECONDS;
            let (read, seconds) = timed(env, || {
                let (mut count, mut bytes) = (0, 0);
                while count < 2 || (count < READS_MAX && env.now().as_secs_f64() < until) {
                    bytes += pages.read_large(place, &mut large_buffer).ok()?;
                    count += 1;
                }
                Some((count as f64, bytes as f64))
            });
            let (count, bytes) = read?;
            (env.now() > clock && goes_on()).then_some((count / seconds, bytes / count))
        };
        let mut rates = [const { Vec::new() }; READ_DEPTHS.len()];
        let (mut large, mut large_bytes) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for (depth, rates) in READ_DEPTHS.into_iter().zip(&mut rates) {
                rates.push(pages_at(depth, place)?);
            }
            let (rate, bytes) = large_ones(place)?;
            large.push(rate);
            large_bytes.push(bytes);
        }
        let (reads_per_second, large_bytes) = (rates.map(median), median(large_bytes));
        Some(ReadTimes { reads_per_second, large_reads_per_second: median(large), large_bytes })
    }

    /// The device with these reads.
    pub(super) fn of(&self, device: Device) -> Device {
        let ReadTimes { reads_per_second, large_reads_per_second, large_bytes } = *self;
        let (read_seconds, large_seconds) = (1.0 / reads_per_second[0], 1.0 / large_reads_per_second);
        let device = Device { read_seconds, reads_per_second, ..device };
        let bytes = large_bytes - RANDOM_READ_BYTES as f64;
        if bytes < RANDOM_READ_BYTES as f64 {
            return device;
        }
        let read_bytes_per_second = bytes / (large_seconds - read_seconds).max(LARGE_PART_MIN * large_seconds);
        Device { read_bytes_per_second, ..device }
    }
}

/// The device with the latency of block reads as lookups have it, if enough of them were timed.
/// They read blocks of `block_bytes`.
pub(super) fn with_sampled_reads(device: Device, lookups: &LookupCounters, block_bytes: usize) -> Device {
    let Some(block_seconds) = lookups.block_read_seconds() else { return device };
    let others = block_bytes.saturating_sub(RANDOM_READ_BYTES) as f64 / device.read_bytes_per_second;
    let read_seconds = (block_seconds - others).max(LATENCY_PART_MIN * block_seconds);
    let factor = device.read_seconds / read_seconds;
    Device { read_seconds, reads_per_second: device.reads_per_second.map(|rate| rate * factor), ..device }
}

/// The pages of some tables, in a row.
struct Pages<'t> {
    /// Each table with the number of the page after its last one.
    tables: Vec<(&'t Arc<Table>, u64)>,
}

impl<'t> Pages<'t> {
    fn of(tables: impl Iterator<Item = &'t Arc<Table>>) -> Self {
        let mut end = 0;
        let with_end = tables.map(|table| {
            end += table.pages();
            (table, end)
        });
        Self { tables: with_end.collect() }
    }

    fn count(&self) -> u64 {
        self.tables.last().map_or(0, |(_, end)| *end)
    }

    /// Reads of one page each, [`READS_MAX`] of them; moves `place` on.
    fn requests(&self, place: &mut u64) -> Result<Vec<ReadRequest>> {
        let next = |_| {
            let (table, page) = self.next(place);
            table.page_request(page)
        };
        (0..READS_MAX).map(next).collect()
    }

    /// Reads as many pages as `buffer` has room for, or all of a smaller table, and returns the
    /// bytes; moves `place` on.
    ///
    /// Into the caller's aligned memory: a read queue would read into memory of the environment's,
    /// which it keeps.
    fn read_large(&self, place: &mut u64, buffer: &mut [u8]) -> Result<usize> {
        let (table, page) = self.next(place);
        let count = table.pages().min((buffer.len() / RANDOM_READ_BYTES) as u64);
        let bytes = count as usize * RANDOM_READ_BYTES;
        table.read_pages(page.min(table.pages() - count), &mut buffer[..bytes])?;
        Ok(bytes)
    }

    /// The next page: its table, and its number in it.
    fn next(&self, place: &mut u64) -> (&'t Arc<Table>, u64) {
        *place += 1;
        let page = scattered(*place, self.count());
        let at = self.tables.partition_point(|(_, end)| *end <= page);
        let (table, end) = self.tables[at];
        (table, page + table.pages() - end)
    }
}

/// A number below `end` for each number of a sequence; numbers that are close in it are far apart.
fn scattered(number: u64, end: u64) -> u64 {
    let golden = number.wrapping_mul(STEP);
    ((u128::from(golden) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a byte takes follows from reads as large as they were, and is not told from pages.
    #[test]
    fn bytes_are_those_that_were_read() {
        let reads_per_second = [10_000.0, 20_000.0, 40_000.0, 80_000.0, 80_000.0, 80_000.0];
        let nvme = Device::nvme();
        let read_bytes_per_second = |pages: f64, microseconds: f64| {
            let (large_reads_per_second, large_bytes) = (1e6 / microseconds, pages * RANDOM_READ_BYTES as f64);
            let device = ReadTimes { reads_per_second, large_reads_per_second, large_bytes }.of(nvme);
            assert_eq!((device.read_seconds, device.reads_per_second), (1e-4, reads_per_second));
            assert_eq!(device.check(), Ok(()));
            device.read_bytes_per_second
        };
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}, {expected}");
        near(read_bytes_per_second(32.0, 200.0), 31.0 * 4096.0 / 100e-6);
        // Tables of eight pages.
        near(read_bytes_per_second(8.0, 128.0), 7.0 * 4096.0 / 28e-6);
        // Large reads that were met by chance as fast as small ones.
        near(read_bytes_per_second(32.0, 90.0), 31.0 * 4096.0 / 4.5e-6);
        near(read_bytes_per_second(1.0, 100.0), nvme.read_bytes_per_second);
    }
}
