//! [`Device`]: the duration of a machine's steps in seconds, for adding up costs in blocks and
//! bytes.
//!
//! ```text
//! named default ┐               ┌ text: one line for each figure ─┐
//! calibration   ├──▶ Device ──▶ ┤                                 ├──▶ Device
//! file          ┘               └ figures with names and units ◀──┘
//! ```
//!
//! The figures of storage are those of the device under the file system; the figures of the
//! processor are those of the engine's own code, with the memory that it reads mostly outside the
//! processor's inner caches. Four devices have names; their figures are round numbers, **assumed
//! and not measured**: they give times of the right order, and allow a comparison of designs. Real
//! devices differ, by a factor of ten within one kind, so measure the one in use where times
//! matter.
//!
//! | | `hdd` | `ssd` | `nvme` | `memory` |
//! |---|---|---|---|---|
//! | a drive like | a hard disk | a SATA drive | an NVMe drive in a server | the page cache |
//! | random read of 4 KiB | 8 ms | 120 µs | 100 µs | 1 µs |
//! | random reads per second, 32 at a time | 230 | 80,000 | 160,000 | 2,000,000 |
//! | sequential reads | 180 MB/s | 500 MB/s | 2 GB/s | 10 GB/s |
//! | sequential writes | 160 MB/s | 450 MB/s | 1 GB/s | 5 GB/s |
//! | sync | 16 ms | 1 ms | 100 µs | 1 µs |
//!
//! All four have the same processor, see [`Device::default`].
//!
//! Knows nothing of how the figures are measured. The text form is in `text`. Tests: below, and
//! there.

mod text;

use crate::units::Bytes;

pub use text::{DEVICE_FIGURES, DeviceError, DeviceFigure, FigureUnit};

/// The numbers of concurrent random reads for which a device has a throughput.
pub const READ_DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The bytes of a random read, [`Device::read_seconds`] and [`Device::reads_per_second`].
pub const RANDOM_READ_BYTES: usize = 4096;

/// The duration of a machine's steps. All are finite and above 0 ([`Device::check`]); a cost model
/// takes any number of seconds from 0 on, to leave out what it is not about.
///
/// The [default](Device::default) is [`Device::nvme`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Latency of a random read of one block of [`RANDOM_READ_BYTES`] while nothing else is read,
    /// in seconds.
    pub read_seconds: f64,
    /// Throughput of such reads in reads per second, with as many of them at any time as
    /// [`READ_DEPTHS`] says.
    pub reads_per_second: [f64; READ_DEPTHS.len()],
    /// Throughput of sequential reads in bytes per second.
    pub read_bytes_per_second: f64,
    /// Throughput of sequential writes in bytes per second, as tables are written: through the page
    /// cache, and synced at the end.
    pub write_bytes_per_second: f64,
    /// Seconds of a sync after a small write, as of the WAL for one durable put.
    pub sync_seconds: f64,
    /// Processor seconds to compute the digest of a key, whatever its length: the part that does
    /// not depend on it.
    pub hash_seconds: f64,
    /// And for each byte of the key.
    pub hash_byte_seconds: f64,
    /// Processor seconds to probe a filter with a digest.
    pub probe_seconds: ProbeSeconds,
    /// Processor seconds to search the index (fence pointers) of one run for the block of a key.
    pub index_seconds: f64,
    /// Processor seconds to find and read an entry in a cached block.
    pub entry_seconds: f64,
    /// Processor seconds for [`RANDOM_READ_BYTES`] of a block that is read, besides the device: to
    /// check, decode and cache it, and to free another one.
    pub decode_seconds: f64,
    /// Processor seconds of a scan for the first block that it reads in a run, besides the device
    /// and what a lookup has for it: the blocks that it asks for together, and the next one.
    pub scan_block_seconds: f64,
    /// Processor seconds of a lookup besides its digest, probes and blocks: the memtables, and what
    /// is counted.
    pub lookup_seconds: f64,
    /// Processor seconds of a scan besides the search for its first block in each run, and its
    /// entries.
    pub scan_begin_seconds: f64,
    /// Processor seconds of a scan for each entry, in cached blocks of one run.
    pub scan_seconds: f64,
    /// Processor seconds of a compaction for each entry of its inputs: read, merged with those of
    /// one other run, and written to the output with its share of index and filter.
    pub compaction_seconds: f64,
    /// Processor seconds to put an entry into the WAL and the memtable.
    pub put_seconds: f64,
}

/// Processor seconds to probe a filter with the digest of an absent key, by the kind of filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeSeconds {
    /// One cache-line-blocked Bloom filter.
    pub blocked: f64,
    /// One standard Bloom filter.
    pub bloom: f64,
    /// One ElasticBF filter with all its units.
    pub elastic: f64,
    /// The filter over the whole tree (Chucky), once for all runs.
    pub chucky: f64,
}

/// The processor's figures of all named devices.
const PROCESSOR: Device = Device {
    // These six are replaced by each named device.
    read_seconds: 0.0,
    reads_per_second: [0.0; READ_DEPTHS.len()],
    read_bytes_per_second: 0.0,
    write_bytes_per_second: 0.0,
    sync_seconds: 0.0,
    // With 16 bytes of key, 20 ns.
    hash_seconds: 18.4e-9,
    hash_byte_seconds: 0.1e-9,
    // About one cache miss, and two for the two buckets of Chucky.
    probe_seconds: ProbeSeconds { blocked: 50e-9, bloom: 50e-9, elastic: 50e-9, chucky: 100e-9 },
    index_seconds: 150e-9,
    entry_seconds: 500e-9,
    decode_seconds: 1e-6,
    scan_block_seconds: 1e-6,
    lookup_seconds: 200e-9,
    scan_begin_seconds: 1e-6,
    scan_seconds: 50e-9,
    compaction_seconds: 500e-9,
    put_seconds: 2e-6,
};

impl Default for Device {
    /// [`Device::nvme`].
    ///
    /// The processor of all named devices takes 18.4 ns and 0.1 ns per byte for a digest, 50 ns to
    /// probe a Bloom filter of any kind, 100 ns to probe Chucky's, 150 ns to search the index of a
    /// run, 500 ns to read an entry in a cached block, 1 µs to decode a block and as much again for
    /// a scan's first one, 200 ns for a lookup and 1 µs for a scan besides these, 50 ns for an
    /// entry of a scan, 500 ns for an entry of a compaction, and 2 µs for a put: assumed, too.
    fn default() -> Self {
        Self::nvme()
    }
}

impl Device {
    /// The names that [`Device::named`] knows.
    pub const NAMES: [&str; 4] = ["hdd", "ssd", "nvme", "memory"];

    /// The device with one of [`Device::NAMES`].
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "hdd" => Some(Self::hdd()),
            "ssd" => Some(Self::ssd()),
            "nvme" => Some(Self::nvme()),
            "memory" => Some(Self::memory()),
            _ => None,
        }
    }

    /// A hard disk of 7200 revolutions per minute; assumed. A random read waits for the arm and for
    /// half a turn of 8.3 ms. The drive sorts reads that wait, which doubles their throughput at
    /// best. A sync writes two places.
    pub fn hdd() -> Self {
        Self {
            read_seconds: 8e-3,
            reads_per_second: [125.0, 135.0, 150.0, 175.0, 200.0, 230.0],
            read_bytes_per_second: 180e6,
            write_bytes_per_second: 160e6,
            sync_seconds: 16e-3,
            ..PROCESSOR
        }
    }

    /// A solid-state drive with SATA, whose interface moves at most 550 MB/s and has 32 places for
    /// reads that wait; assumed. It has no capacitors, so that a sync writes flash memory.
    pub fn ssd() -> Self {
        Self {
            read_seconds: 120e-6,
            reads_per_second: [8_300.0, 16_000.0, 31_000.0, 56_000.0, 75_000.0, 80_000.0],
            read_bytes_per_second: 500e6,
            write_bytes_per_second: 450e6,
            sync_seconds: 1e-3,
            ..PROCESSOR
        }
    }

    /// A solid-state drive with NVMe in a server; assumed. Sixteen reads at a time take as long as
    /// one, and more of them take turns; a sync ends in memory that capacitors protect.
    pub fn nvme() -> Self {
        Self {
            read_seconds: 100e-6,
            reads_per_second: [10e3, 20e3, 40e3, 80e3, 160e3, 160e3],
            read_bytes_per_second: 2e9,
            write_bytes_per_second: 1e9,
            sync_seconds: 100e-6,
            ..PROCESSOR
        }
    }

    /// Files in memory, or in the page cache; assumed. A read is a system call and a copy, and two
    /// processors carry them out.
    pub fn memory() -> Self {
        Self {
            read_seconds: 1e-6,
            reads_per_second: [1e6, 2e6, 2e6, 2e6, 2e6, 2e6],
            read_bytes_per_second: 10e9,
            write_bytes_per_second: 5e9,
            sync_seconds: 1e-6,
            ..PROCESSOR
        }
    }

    /// Concurrent random reads that the device carries out in the time of one, at least 1, as for
    /// the first blocks of a scan: by Little's law, the best throughput times the latency of a read
    /// alone.
    pub fn reads_at_once(&self) -> f64 {
        let best = self.reads_per_second.into_iter().fold(0.0, f64::max);
        (best * self.read_seconds).max(1.0)
    }

    /// Seconds until so many random reads that begin together have ended; those of one read alone
    /// for less than one. Between two of [`READ_DEPTHS`] the time is interpolated.
    pub fn concurrent_reads_seconds(&self, reads: f64) -> f64 {
        let depths = READ_DEPTHS.map(f64::from).into_iter().zip(self.reads_per_second);
        let times = depths.map(|(depth, rate)| (depth, (depth / rate).max(self.read_seconds)));
        let (mut before, mut time_before) = (1.0, self.read_seconds);
        for (depth, time) in times.skip(1) {
            if reads <= depth {
                let part = (reads.max(1.0) - before) / (depth - before);
                return time_before + part * (time - time_before);
            }
            (before, time_before) = (depth, time);
        }
        time_before * reads / before
    }

    /// Seconds of one random block read.
    pub fn block_seconds(&self, bytes: f64) -> f64 {
        self.read_seconds + bytes / self.read_bytes_per_second
    }

    /// Processor seconds for so many bytes of blocks that are read, besides the device.
    pub fn decoding_seconds(&self, bytes: f64) -> f64 {
        bytes / RANDOM_READ_BYTES as f64 * self.decode_seconds
    }

    /// Seconds in which a compaction copies so many bytes of entries of this size.
    pub fn copy_seconds(&self, bytes: Bytes, entry_bytes: f64) -> f64 {
        let bytes = bytes.as_f64();
        bytes / entry_bytes * self.compaction_seconds
            + bytes / self.read_bytes_per_second
            + bytes / self.write_bytes_per_second
    }

    /// Processor seconds to compute the digest of a key of so many bytes.
    pub fn digest_seconds(&self, key_bytes: f64) -> f64 {
        self.hash_seconds + key_bytes * self.hash_byte_seconds
    }

    /// Checks that every figure is a finite number above 0.
    ///
    /// # Errors
    /// A message that names the figure and its value.
    pub fn check(&self) -> Result<(), DeviceError> {
        DEVICE_FIGURES.iter().try_for_each(|figure| figure.check(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Named devices are whole, in the order of their speed, and the default is one of them.
    #[test]
    fn named_devices() {
        let devices = Device::NAMES.map(|name| Device::named(name).expect(name));
        devices.iter().for_each(|device| assert_eq!(device.check(), Ok(())));
        for pair in devices.windows(2) {
            assert!(pair[0].read_seconds > pair[1].read_seconds && pair[0].sync_seconds > pair[1].sync_seconds);
            assert!(pair[0].read_bytes_per_second < pair[1].read_bytes_per_second);
        }
        for device in devices {
            assert!(device.reads_per_second.is_sorted(), "{device:?}");
            let alone = device.reads_per_second[0] * device.read_seconds;
            assert!((alone - 1.0).abs() < 0.01, "{alone} reads at a time are not one");
        }
        assert_eq!(Device::named("default"), None);
        assert_eq!(Device::default(), Device::nvme());
    }

    /// What cost models have always assumed of an NVMe drive.
    #[test]
    fn derived_figures() {
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
        let nvme = Device::nvme();
        assert!(near(nvme.reads_at_once(), 16.0), "{}", nvme.reads_at_once());
        assert!(near(nvme.block_seconds(4000.0), 102e-6));
        assert!(near(nvme.digest_seconds(16.0), 20e-9));
        // Fewer than one at a time is none.
        let slower = Device { read_seconds: 0.0, ..nvme };
        assert_eq!(slower.reads_at_once(), 1.0);
        assert!(near(Device::hdd().reads_at_once(), 1.84));
    }

    /// Reads that begin together take as long as one as long as the device has room for them, then
    /// as long as its throughput says, without a jump.
    #[test]
    fn concurrent_reads_by_hand() {
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found}, {expected}");
        let nvme = Device::nvme();
        for (reads, expected) in [(0.3, 100e-6), (1.0, 100e-6), (7.5, 100e-6), (16.0, 100e-6), (24.0, 150e-6)] {
            near(nvme.concurrent_reads_seconds(reads), expected);
        }
        near(nvme.concurrent_reads_seconds(64.0), 400e-6);
        let measured = Device {
            read_seconds: 80e-6,
            reads_per_second: [12_500.0, 25_000.0, 40_000.0, 40_000.0, 80_000.0, 100_000.0],
            ..nvme
        };
        for (reads, expected) in
            [(2.0, 80e-6), (3.0, 90e-6), (4.0, 100e-6), (6.0, 150e-6), (8.0, 200e-6), (32.0, 320e-6)]
        {
            near(measured.concurrent_reads_seconds(reads), expected);
        }
    }

    /// No figure may be 0, negative, infinite or no number; the message names it.
    #[test]
    fn figures_are_checked() {
        for figure in DEVICE_FIGURES {
            for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut device = Device::nvme();
                figure.set(&mut device, wrong);
                let error = device.check().expect_err("it is wrong").to_string();
                assert!(error.starts_with(&format!("{}: ", figure.name)), "{error}");
            }
        }
    }
}
