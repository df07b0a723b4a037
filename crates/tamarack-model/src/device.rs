//! [`Device`]: the duration of a machine's steps in seconds, for adding up costs in blocks and
//! bytes.

/// The duration of a machine's steps; all are above 0.
///
/// The [default](Device::default) has round numbers of a solid-state drive in a server, assumed and
/// not measured: they allow a comparison of designs and give times of the right order. Real devices
/// differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Latency of a random block read, in seconds.
    pub read_seconds: f64,
    /// Concurrent random reads, as for the first blocks of a scan.
    pub reads_at_once: f64,
    /// Read throughput in bytes per second.
    pub read_bytes_per_second: f64,
    /// Write throughput in bytes per second.
    pub write_bytes_per_second: f64,
    /// Seconds to compute the digest of a key.
    pub hash_seconds: f64,
    /// Seconds to probe one filter with a digest: about one cache miss.
    pub probe_seconds: f64,
    /// Processor seconds to put an entry into the WAL and the memtable.
    pub put_seconds: f64,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            read_seconds: 100e-6,
            reads_at_once: 16.0,
            read_bytes_per_second: 2e9,
            write_bytes_per_second: 1e9,
            hash_seconds: 20e-9,
            probe_seconds: 50e-9,
            put_seconds: 2e-6,
        }
    }
}

impl Device {
    /// Seconds of one random block read.
    pub fn block_seconds(&self, bytes: f64) -> f64 {
        self.read_seconds + bytes / self.read_bytes_per_second
    }
}
