//! What one row gave on one engine.

use std::fmt;

use serde::{Deserialize, Serialize};
use tamarack_env::histogram::Histogram;

use super::series::Point;

#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Sample {
    pub operations: u64,
    /// Bytes of the entries put; 0 for rows that only read.
    pub put_bytes: u64,
    /// Seconds until the last operation returned.
    pub client_s: f64,
    /// Seconds until memtables were flushed and no compaction was running or due.
    pub settled_s: f64,
    pub puts: Option<Latencies>,
    pub gets: Option<Latencies>,
    /// Of a thread that gets beside the puts, which alone are the operations.
    #[serde(default)]
    pub gets_beside_per_s: Option<f64>,
    /// Processor seconds of the threads that put and get, and of all others until settled.
    pub client_cpu_s: f64,
    pub background_cpu_s: f64,
    /// Bytes that flushes and compactions wrote to tables until settled, by the store's own count.
    pub table_bytes: Option<u64>,
    /// Bytes that the process wrote until settled: tables, WAL and the rest.
    pub written_bytes: u64,
    /// Bytes that the process read from devices until settled.
    pub device_bytes: u64,
    pub reads: Option<Reads>,
    /// What the files take when all is settled.
    pub space_bytes: u64,
    /// The most memory the process has had so far.
    pub peak_memory_bytes: u64,
    /// The tree when all is settled.
    pub tree: String,
    pub series: Vec<Point>,
}

/// Latencies of single operations.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub struct Latencies {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    pub longest_ns: u64,
}

/// What gets read from files.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Reads {
    /// Blocks, if the store counts them.
    pub blocks: Option<u64>,
    /// Reads of files, those that open tables included. `None` if files are mapped.
    pub reads: Option<u64>,
    /// Of first gets: milliseconds for opening, the latency of each get, and the reads of each.
    pub open_ms: f64,
    pub each_ns: Vec<u64>,
    pub each_reads: Vec<u64>,
}

impl Latencies {
    /// `None` if there are none.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let [p50_ns, p99_ns, p99_9_ns] = histogram.percentiles_ns();
        (histogram.samples() > 0).then(|| Self { p50_ns, p99_ns, p99_9_ns, longest_ns: histogram.longest_ns() })
    }
}

impl Sample {
    pub fn client_ops_per_s(&self) -> f64 {
        self.operations as f64 / self.client_s
    }

    pub fn settled_ops_per_s(&self) -> f64 {
        self.operations as f64 / self.settled_s
    }

    pub fn most(&self, of: impl Fn(&Point) -> Option<u64>) -> Option<u64> {
        self.series.iter().filter_map(of).max()
    }
}

impl fmt::Display for Sample {
    /// A line for those who watch.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/s", self.client_ops_per_s())?;
        if let Some(puts) = self.puts {
            let us = |ns: u64| ns as f64 / 1e3;
            let (p99, p99_9, longest) = (us(puts.p99_ns), us(puts.p99_9_ns), us(puts.longest_ns) / 1e3);
            write!(f, ", settled {:.0}/s, p99 {p99:.1} us, p99.9 {p99_9:.0} us", self.settled_ops_per_s())?;
            write!(f, ", longest {longest:.1} ms")?;
        }
        if let (Some(rate), Some(gets)) = (self.gets_beside_per_s, self.gets) {
            let us = |ns: u64| ns as f64 / 1e3;
            let (p99, p99_9) = (us(gets.p99_ns), us(gets.p99_9_ns));
            write!(
                f,
                ", beside {rate:.0} gets/s, p50 {:.1} us, p99 {p99:.1} us, p99.9 {p99_9:.0} us",
                us(gets.p50_ns)
            )?;
        }
        if let Some(reads) = &self.reads {
            if !reads.each_ns.is_empty() {
                write!(f, ", opened in {:.1} ms", reads.open_ms)?;
            }
            if let Some(reads) = reads.reads {
                write!(f, ", {:.2} reads each", reads as f64 / self.operations as f64)?;
            }
        }
        write!(f, "; {}", self.tree)
    }
}
