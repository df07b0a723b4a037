//! Samples of a running child: memory, descriptors, space, and latencies of its commits.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rustix::fs::statvfs;

use crate::clock::now_ns;
use crate::told::Told;

/// Measurements of about a second.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sample {
    /// When it was taken.
    pub(super) at_ns: u64,
    /// Resident memory of the child.
    pub(super) memory_kib: u64,
    /// Its open files.
    pub(super) descriptors: u64,
    /// Used space of the file system.
    pub(super) used_kib: u64,
    /// Commits in the time since the sample before, and their latencies.
    pub(super) commits: u64,
    pub(super) median_ns: u64,
    pub(super) p99_ns: u64,
}

/// A column: its name, and its value in a sample.
pub(super) type Column = (&'static str, fn(&Sample) -> u64);

/// The columns of a table of samples, after the time.
pub(super) const COLUMNS: &[Column] = &[
    ("resident memory, KiB", |sample| sample.memory_kib),
    ("open files", |sample| sample.descriptors),
    ("used space, KiB", |sample| sample.used_kib),
    ("commits", |sample| sample.commits),
    ("median latency, ns", |sample| sample.median_ns),
    ("99th percentile, ns", |sample| sample.p99_ns),
];

impl Sample {
    /// Measures a process now; `None` if it has ended.
    pub(super) fn of(process: u32, disk: &Path) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let space = statvfs(disk).ok()?;
        Some(Self {
            at_ns: now_ns(),
            memory_kib: memory.trim().split(' ').next()?.parse().ok()?,
            descriptors: fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64,
            used_kib: (space.f_blocks - space.f_bfree) * space.f_frsize / 1024,
            ..Self::default()
        })
    }
}

/// Adds to each sample the commits that returned between the one before and it.
pub(super) fn add_latencies(samples: &mut [Sample], told: &Told) {
    let mut before = 0;
    for sample in samples {
        let acks = told.acks.iter().flatten().filter(|ack| (before..sample.at_ns).contains(&ack.end));
        let mut times: Vec<u64> = acks.map(|ack| ack.end - ack.begin).collect();
        times.sort_unstable();
        sample.commits = times.len() as u64;
        if let Some(last) = times.len().checked_sub(1) {
            (sample.median_ns, sample.p99_ns) = (times[last / 2], times[last * 99 / 100]);
        }
        before = sample.at_ns;
    }
}

/// All samples as lines with commas, with a line of names.
pub(super) fn table(samples: &[Sample], began_ns: u64) -> String {
    let mut text = "seconds".to_owned();
    COLUMNS.iter().for_each(|(name, _)| write!(text, ",\"{name}\"").expect("a string takes text"));
    for sample in samples {
        write!(text, "\n{:.1}", (sample.at_ns - began_ns) as f64 / 1e9).expect("a string takes text");
        COLUMNS.iter().for_each(|(_, value)| write!(text, ",{}", value(sample)).expect("a string takes text"));
    }
    text + "\n"
}

/// The median of a column over a part of the samples.
pub(super) fn median(samples: &[Sample], value: fn(&Sample) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(value).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
