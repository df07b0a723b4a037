//! Simulated writers at full speed: threads that put one entry after the other, as fast as write
//! throttling lets them, beside the workers of flushes and compactions.
//!
//! [`Writers`] must be told how fast writers are, and what they offer while they wait comes later.
//! Here their speed follows from the machine ([`FullSpeed::of`]), and they wait as threads do:
//!
//! ```text
//!   a writer   t_p   seconds for an entry of E bytes        puts E / t_p bytes a second,
//!                                                           at most β_w
//!   a worker   t_c   processor seconds for an entry         copies c = 1 / (t_c/E + 1/β_r + 1/β_w)
//!   all        β     bandwidth of reads and writes          C = min(p c, 1 / (1/β_r + 1/β_w))
//!                                                           p = min(workers, cores)
//!
//!   offered = E / t_p / C                                  in the time of one byte of all workers
//!   burden  = what workers copy less for each byte put: writers take their processor or device
//! ```
//!
//! Beside its deadlines ([the pace](crate::pace)), the tree of a real database shows how its
//! compactions are carried out, so these are simulated here as well:
//!
//! - **Parts.** A small compaction has one part, for one worker ([`tables::parts`]). Workers take
//!   parts of the most urgent compaction first.
//! - **Handovers.** A compaction hands over its keys table by table ([`tables::handovers`]).
//! - **Bursts.** Writers that were slower than the limit may be faster for a while, as in the
//!   engine: by half of the allowance, and of what memtables have free.
//!
//! Left out: the time that sleeps of writers and steps of workers take at least, a few
//! milliseconds. With memtables that are filled in that time, a real tree is paced less evenly.
//! Left out, too: filters that are made anew, and what scans and lookups take of the machine.
//!
//! Tests: `tests/suite/full_speed.rs`.

use super::stream::Stream;
use super::{STEPS, Tree, Writers};
use crate::device::Device;
use crate::pace::Pacer;
use crate::tables::{self, TABLE_BYTES_MAX};
use crate::units::Bytes;

/// Writers at full speed, and the workers beside them. All speeds are in proportion to that of all
/// workers if nobody puts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FullSpeed {
    /// Raw bytes that workers copy in a second if nobody puts; more than 0. Results are in
    /// proportion to it.
    pub bytes_per_second: f64,
    /// Bytes that writers put for each byte that workers copy, if neither waits for the other; more
    /// than 0.
    pub offered: f64,
    /// Bytes that workers do not copy for each byte put.
    pub burden: f64,
    /// The speed of one worker alone, at most 1.
    pub alone: f64,
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Full memtables at which writers are slowed to the floor, at least 2; writers stop when there
    /// are as many beside the active one.
    pub buffers: u64,
    /// Memtables by which compactions may be late: the allowance of [the pace](crate::pace).
    pub late_max: u64,
}

/// The threads of a program with a database, and the processor cores that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads that put, at least 1.
    pub writers: usize,
    /// Background threads, at least 1.
    pub workers: usize,
    /// Cores, at least 1.
    pub cores: usize,
}

impl Threads {
    /// One writer on a machine with so many cores, at least 1, and a database with default options.
    pub fn of_cores(cores: usize) -> Self {
        Self { writers: 1, workers: cores.clamp(1, WORKERS_MAX), cores }
    }
}

/// The most background threads that a database has by default.
const WORKERS_MAX: usize = 4;

/// Immutable memtables of a database with default options, and its allowance.
const BUFFERS: u64 = 3;
const LATE_MAX: u64 = 16;

/// The least speed of workers beside writers, of their own: they have a lower priority, and yet a
/// quarter of a processor's time.
const SPEED_MIN: f64 = 0.25;

/// The longest step, in units of time, and what is put in a step at most, in memtables: the limit
/// may end within it.
const STEP_MAX: f64 = 1.0;
const PUT_MAX: f64 = 0.25;

impl FullSpeed {
    /// Writers of entries of so many raw bytes on a machine, with the default options for memtables
    /// and late compactions.
    ///
    /// # Panics
    /// If there is no thread or no core, or entries are empty.
    pub fn of(device: &Device, entry_bytes: f64, threads: Threads) -> Self {
        let Threads { writers, workers, cores } = threads;
        assert!(writers > 0 && workers > 0 && cores > 0 && entry_bytes > 0.0, "{threads:?}, {entry_bytes} bytes");
        let (read, write) = (1.0 / device.read_bytes_per_second, 1.0 / device.write_bytes_per_second);
        let of_device = 1.0 / (read + write);
        let of_worker = 1.0 / (device.compaction_seconds / entry_bytes + read + write);
        let of_processor = workers.min(cores) as f64 * of_worker;
        let bytes_per_second = of_processor.min(of_device);
        let put_seconds = device.put_seconds / entry_bytes;
        // The WAL is written no faster than anything else.
        let put = (writers.min(cores) as f64 / put_seconds).min(device.write_bytes_per_second);
        let burden = if of_processor < of_device {
            // Cores that writers and workers both want, for each writer.
            let wanted = (workers.min(cores) + writers).saturating_sub(cores).min(writers);
            wanted as f64 / writers as f64 * put_seconds * of_worker
        } else {
            write * of_device
        };
        Self {
            bytes_per_second,
            offered: put / bytes_per_second,
            burden,
            alone: (of_worker / bytes_per_second).min(1.0),
            workers,
            buffers: BUFFERS,
            late_max: LATE_MAX,
        }
    }
}

/// Work of a stretch of time.
struct Worked {
    /// Memtables that the limit lets writers put meanwhile.
    let_in: f64,
    /// How long there was nothing to do.
    idle: f64,
}

impl Tree<'_> {
    /// Lets writers at full speed fill a memtable of this size, which is switched then. Compactions
    /// in progress stay so. Meanwhile `look` gets the tree about [`STEPS`] times, with the part of
    /// the memtable that is full, and the raw bytes in all memtables.
    pub fn write_at_full_speed(&mut self, speed: &FullSpeed, size: Bytes, look: &mut dyn FnMut(&Tree<'_>, f64, Bytes)) {
        let full = size.ratio(self.shape.buffer());
        let (mut pacer, mut growths) = (Pacer::new(&self.shape), self.report.growths);
        self.stream.workers = speed.workers;
        while self.stream.active < full {
            self.step_at_full_speed(&pacer, speed);
            if growths != self.report.growths {
                (pacer, growths) = (Pacer::new(&self.shape), self.report.growths);
            }
            look(self, (self.stream.active / full).min(1.0), self.buffered(self.stream.active));
        }
        self.stream.active -= full;
        self.rotate_memtable(size);
        self.record();
    }

    /// Units of time that writers at full speed took so far: in each, all workers could have copied
    /// a memtable.
    pub fn time_at_full_speed(&self) -> f64 {
        self.stream.time
    }

    /// One step, in which about one in [`STEPS`] of a memtable is put.
    fn step_at_full_speed(&mut self, pacer: &Pacer, speed: &FullSpeed) {
        let Stream { active, rate, waits, credit, .. } = self.stream;
        let rate = if self.stream.time == 0.0 { speed.offered } else { rate };
        let time = (1.0 / f64::from(STEPS) / rate).min(STEP_MAX.max(PUT_MAX / speed.offered));
        let of_workers = (1.0 - speed.burden * rate).max(SPEED_MIN);
        // A bound on space is one on what late compactions leave behind.
        let late_max = if self.bound.is_some() { 0 } else { speed.late_max };
        let FullSpeed { offered, buffers, workers, .. } = *speed;
        let writers = Writers { offered, buffers, workers, late_max, throttled: true };
        let Worked { let_in, idle } = self.work(pacer, (&writers, speed.alone), (active, waits), time * of_workers);
        let in_use = self.buffered(active).ratio(self.shape.buffer());
        let burst = (late_max as f64 / 2.0).min((buffers as f64 - in_use) / 2.0).max(0.0);
        let credit = if idle > 0.0 { burst } else { credit.min(burst) };
        let let_in = let_in + offered * idle / of_workers;
        let free = (buffers as f64 + 1.0 - in_use).max(0.0);
        let allowed = (let_in + credit).min(free);
        let put = (offered * time).min(allowed).min(PUT_MAX);
        let stream = &mut self.stream;
        stream.active += put;
        stream.rate = put / time;
        stream.waits = allowed < offered * time * (1.0 - 1e-9);
        stream.credit = (credit + let_in - put).clamp(0.0, burst);
        stream.time += time;
    }

    /// Lets workers, of whom one `alone` has that speed, copy for so many units of time.
    fn work(
        &mut self,
        pacer: &Pacer,
        (writers, alone): (&Writers, f64),
        (active, waits): (f64, bool),
        time: f64,
    ) -> Worked {
        let buffer = self.shape.buffer().as_f64();
        let (mut left, mut let_in) = (time, 0.0);
        while left > 0.0 {
            let (plan, order) = self.plan(pacer, writers, active, waits);
            let shares = self.shares(&order, writers.workers);
            let at_work: usize = shares.iter().map(|(_, workers)| workers).sum();
            // Bytes that one of them copies in a unit of time.
            let each = alone.min(1.0 / at_work.max(1) as f64) * buffer;
            let ends = |&(job, workers): &(usize, usize)| (job, self.unfinished[job].left / (each * workers as f64));
            let Some((first, ends)) = shares.iter().map(ends).min_by(|a, b| a.1.total_cmp(&b.1)) else {
                return Worked { let_in, idle: left };
            };
            let passed = ends.min(left);
            if passed > 0.0 {
                let_in += plan.share * each * at_work as f64 * passed / buffer;
            }
            for (job, workers) in shares {
                let copied = each * workers as f64 * passed;
                self.unfinished[job].left = (self.unfinished[job].left - copied).max(0.0);
            }
            left -= passed;
            if ends <= passed {
                self.end(first);
            }
        }
        Worked { let_in, idle: 0.0 }
    }

    /// The jobs that go on, and the workers of each: the most urgent one has as many as it has
    /// parts.
    fn shares(&self, order: &[usize], workers: usize) -> Vec<(usize, usize)> {
        let mut free = workers;
        let mut shares = Vec::new();
        for &job in order {
            let bytes = self.unfinished[job].whole as u64;
            let parts = tables::parts(bytes, tables::table_bytes(bytes, TABLE_BYTES_MAX), workers).min(free);
            if parts == 0 {
                break;
            }
            shares.push((job, parts));
            free -= parts;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures whose sums are easy: a worker copies 100 bytes in a second, the device 500.
    fn device() -> Device {
        Device {
            put_seconds: 0.1,
            compaction_seconds: 0.08,
            read_bytes_per_second: 1000.0,
            write_bytes_per_second: 1000.0,
            ..Device::default()
        }
    }

    /// By hand, for entries of ten bytes.
    #[test]
    fn speeds_by_hand() {
        let near = |found: f64, right: f64| assert!((found - right).abs() < 1e-9, "{found} instead of {right}");
        let of = |writers, workers, cores| FullSpeed::of(&device(), 10.0, Threads { writers, workers, cores });
        // Each thread has a core.
        let speed = of(1, 2, 3);
        near(speed.bytes_per_second, 200.0);
        near(speed.offered, 100.0 / 200.0);
        near(speed.alone, 0.5);
        near(speed.burden, 0.0);
        // While the writer puts 100 bytes in a second, one of two workers does not copy 100.
        let speed = of(1, 2, 2);
        near(speed.bytes_per_second, 200.0);
        near(speed.burden, 1.0);
        // One of two writers finds a core of its own.
        near(of(2, 2, 3).burden, 0.5);
        near(of(2, 2, 3).offered, 1.0);
        // The device is the limit, and takes the WAL as well.
        let speed = of(1, 9, 16);
        near(speed.bytes_per_second, 500.0);
        near(speed.alone, 0.2);
        near(speed.burden, 0.5);
        assert_eq!(Threads::of_cores(16), Threads { writers: 1, workers: 4, cores: 16 });
    }
}
