//! [`Device`]: what a machine's steps take, in seconds, so that costs in blocks and bytes can be added up.

/// What steps take. All are above 0.
///
/// The [default](Device::default) are round numbers of a solid-state drive in a server, assumed and
/// not measured: with them designs can be compared, and the times are of the right order. Your own
/// device differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// Seconds until a block that is read at random begins to come.
    pub read_seconds: f64,
    /// How many such reads go on at once, if they are asked for together: those of a scan's first
    /// blocks.
    pub reads_at_once: f64,
    /// Bytes per second of long reads.
    pub read_bytes_per_second: f64,
    /// Bytes per second of long writes.
    pub write_bytes_per_second: f64,
    /// Seconds for the digest of a key.
    pub hash_seconds: f64,
    /// Seconds to ask one filter with a digest: about one cache miss.
    pub probe_seconds: f64,
    /// Seconds of the processor to put an entry into the log and the buffer.
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
    /// Seconds to read one block of so many bytes, at random.
    pub fn block_seconds(&self, bytes: f64) -> f64 {
        self.read_seconds + bytes / self.read_bytes_per_second
    }
}
