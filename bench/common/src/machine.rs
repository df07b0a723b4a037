//! Where and when something was measured, and with which versions.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};

/// The resolved versions of all crates.
const LOCK: &str = include_str!("../../Cargo.lock");

/// One line about the processor, the memory and the operating system.
pub fn description() -> String {
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".to_owned());
    let kernel = output_of("uname", &["-sr"]).unwrap_or_else(|| std::env::consts::OS.to_owned());
    format!("{processor}, {cores} cores, memory {memory}, {kernel}")
}

/// How many threads wanted to run, averaged over the last minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// What this process has read and written so far.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Calls that read.
    pub calls: u64,
    /// Bytes from devices.
    pub read_bytes: u64,
    /// Bytes of pages that are to be written to devices, or were.
    pub written_bytes: u64,
}

/// What this process has read and written so far, as Linux counts it.
pub fn io() -> Io {
    let count = |name| field("/proc/self/io", name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Io { calls: count("syscr"), read_bytes: count("read_bytes"), written_bytes: count("write_bytes") }
}

/// The most memory this process has had at once.
pub fn peak_memory_bytes() -> u64 {
    let text = field("/proc/self/status", "VmHWM").unwrap_or_default();
    text.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

/// What the files below `dir` take on storage.
pub fn allocated_bytes(dir: &Path) -> u64 {
    files(dir).iter().filter_map(|file| Some(fs::metadata(file).ok()?.blocks() * 512)).sum()
}

/// All files below `dir`. Those that vanish meanwhile may be among them.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Writes what the page cache has of the files below `dir`, and takes it out of there.
pub fn evict(dir: &Path) -> io::Result<()> {
    for path in files(dir) {
        let Ok(file) = fs::File::open(path) else { continue };
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Waits until the machine has written back dirty pages, so that the next measurement does not pay
/// for them.
pub fn settle() {
    rustix::fs::sync();
}

/// Processor time of this process, in microseconds: all threads, kernel included.
pub fn process_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Processor time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The commit that is checked out, with a star if files differ from it.
pub fn commit() -> String {
    let here = env!("CARGO_MANIFEST_DIR");
    let commit =
        output_of("git", &["-C", here, "rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed = output_of("git", &["-C", here, "status", "--porcelain", "--untracked-files=no"]);
    if changed.is_none_or(|changed| changed.is_empty()) { commit } else { commit + "*" }
}

/// The file system that holds `dir`.
pub fn file_system(dir: &Path) -> String {
    let dir = dir.display().to_string();
    output_of("df", &["--output=fstype,source", &dir])
        .and_then(|text| text.lines().nth(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" on ")))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Today, such as `2026-01-31`, in UTC.
pub fn date() -> String {
    output_of("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(|| "undated".to_owned())
}

/// Default path of a report: beside the older ones, without replacing any. `what` is part of its
/// name.
pub fn default_report(what: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_default().to_lowercase();
    let words: Vec<&str> =
        processor.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).take(4).collect();
    let stem = format!("{}-{what}{}", date(), words.join("-"));
    let names = std::iter::once(format!("{stem}.md")).chain((2..).map(|n| format!("{stem}-{n}.md")));
    names.map(|name| directory.join(name)).find(|path| !path.exists()).expect("one of infinitely many names is free")
}

/// The resolved version of a crate.
pub fn version(package: &str) -> &'static str {
    let entry = LOCK.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{package}\"\n")));
    let line = entry.and_then(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")));
    line.map_or("unknown", |version| version.trim_matches('"'))
}

/// The value of the first line `name : value` of a file.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn output_of(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
