//! What single puts take under a sustained load while everything is merged, beside a control.
//!
//! ```text
//!  writer    put put put ─────────────── put put …     at full speed, or at a fixed rate
//!  control   write · · · write · · · write · · ·       4 KiB each millisecond to a file
//!  store     flushes and compactions, on its own threads
//! ```
//!
//! The control shows what the machine does to anybody who writes a little: a delay that the control
//! shows as well is hardly the store's. Engines take turns, one run each per round, and the control
//! also runs once per round alone.
//!
//! A put's latency counts from its call. With a fixed rate, a put that is called late because the
//! one before took long counts from its call as well; the longest delay of a call after its due
//! time is a column of its own.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use common::control::{CONTROL_BYTES, beside_control, wait_until};
use common::machine;
use common::numbers::{median, noise};
use common::words::List;
use tamarack_env::histogram::Histogram;

use crate::data::Data;
use crate::stores::{self, Compression, Durability, FILTER_BITS, Kind, Place, Shape, Store};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where databases are made and removed again.
    pub dir: PathBuf,
    pub rounds: usize,
    /// How long each run takes.
    pub time: Duration,
    pub buffer_bytes: u64,
    /// Puts per second of the runs at a fixed rate.
    pub rate: u64,
    pub engines: List,
}

/// How puts come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// One after the other.
    Full,
    /// So many per second.
    Fixed(u64),
}

/// What one run gave.
struct Run {
    puts: Histogram,
    puts_per_s: f64,
    behind_ns: u64,
    control: Histogram,
}

/// Distinct keys in random order, merged as they come; how many is a matter of time.
const DATA: Data = Data { name: "small", prefix: "", value_bytes: 100, entries: 0, sequential: false };

/// Runs everything and returns the report.
pub fn measure(settings: &Settings, command: &str) -> io::Result<String> {
    let engines: Vec<_> = stores::plain().into_iter().filter(|engine| settings.engines.wants(engine.name())).collect();
    let loads = [Load::Fixed(settings.rate), Load::Full];
    let mut rows: Vec<(Load, &str, Vec<Run>)> = Vec::new();
    rows.extend(loads.iter().flat_map(|load| engines.iter().map(|engine| (*load, engine.name(), Vec::new()))));
    let (mut alone, mut busy) = (Vec::new(), Vec::new());
    for round in 1..=settings.rounds {
        alone.push(control_alone(settings)?);
        for (load, name, runs) in &mut rows {
            busy.push(machine::load());
            let engine = engines.iter().find(|engine| engine.name() == *name).expect("rows are made of engines");
            let run = one(engine.as_ref(), *load, settings)?;
            eprintln!(
                "round {round}/{}: {load:?}: {name}: {}",
                settings.rounds,
                cells(std::slice::from_ref(&run)).join(" ")
            );
            runs.push(run);
        }
    }
    Ok(report(settings, command, &engines, &rows, &alone, &busy))
}

fn one(engine: &dyn Kind, load: Load, settings: &Settings) -> io::Result<Run> {
    let dir = fresh_dir(settings, engine.name())?;
    let place = Place {
        data: DATA,
        shape: Shape::Leveled,
        buffer_bytes: settings.buffer_bytes,
        cache_bytes: 64 << 20,
        filter_bits: FILTER_BITS,
        ratio: None,
        direct_io: false,
        compression: Compression::None,
        durability: Durability::Buffered,
        loading: false,
    };
    let store = engine.open(&dir, &place);
    let run = beside_control(&dir, || write(store.as_ref(), load, settings.time));
    drop(store);
    fs::remove_dir_all(&dir)?;
    let ((puts, puts_per_s, behind_ns), control) = run?;
    Ok(Run { puts, puts_per_s, behind_ns, control })
}

fn control_alone(settings: &Settings) -> io::Result<Histogram> {
    let dir = fresh_dir(settings, "control")?;
    let control = beside_control(&dir, || thread::sleep(settings.time.min(Duration::from_secs(20))));
    fs::remove_dir_all(&dir)?;
    Ok(control?.1)
}

fn fresh_dir(settings: &Settings, name: &str) -> io::Result<PathBuf> {
    let dir = settings.dir.join(format!("delays-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir)?;
    machine::settle();
    Ok(dir)
}

/// Puts distinct keys in random order for `time`. Returns latencies, puts per second, and the
/// longest delay of a put after its due time, in nanoseconds.
fn write(store: &dyn Store, load: Load, time: Duration) -> (Histogram, f64, u64) {
    let (noise, mut latencies, mut behind_ns) = (noise(), Histogram::default(), 0);
    let began = Instant::now();
    let (mut n, mut now) = (0, began);
    while now - began < time {
        if let Load::Fixed(rate) = load {
            let due = began + Duration::from_nanos((n as f64 / rate as f64 * 1e9) as u64);
            now = wait_until(due, now);
            behind_ns = behind_ns.max((now - due).as_nanos() as u64);
        }
        store.put(&DATA.key(n), DATA.value(&noise, n));
        let after = Instant::now();
        latencies.note(after - now);
        now = after;
        n += 1;
    }
    (latencies, n as f64 / (now - began).as_secs_f64(), behind_ns)
}

const HEADING: &str =
    "| load | engine | puts/s | p50 us | p99 us | p99.9 us | max ms | behind ms | control p99.9 us | control max ms |";

/// Figures of the same load and engine: medians over the rounds, but the greatest for maxima.
fn cells(runs: &[Run]) -> Vec<String> {
    let us = |values: &dyn Fn(&Run) -> u64| format!("{:.1}", median(runs.iter().map(|run| values(run) as f64)) / 1e3);
    let ms = |values: &dyn Fn(&Run) -> u64| format!("{:.1}", runs.iter().map(values).max().unwrap_or(0) as f64 / 1e6);
    vec![
        format!("{:.0}", median(runs.iter().map(|run| run.puts_per_s))),
        us(&|run| run.puts.percentile_ns(500)),
        us(&|run| run.puts.percentile_ns(990)),
        us(&|run| run.puts.percentile_ns(999)),
        ms(&|run| run.puts.longest_ns()),
        ms(&|run| run.behind_ns),
        us(&|run| run.control.percentile_ns(999)),
        ms(&|run| run.control.longest_ns()),
    ]
}

fn report(
    settings: &Settings,
    command: &str,
    engines: &[Box<dyn Kind>],
    rows: &[(Load, &str, Vec<Run>)],
    alone: &[Histogram],
    busy: &[f64],
) -> String {
    let mut text = format!("# Latencies of single puts under compaction, {}\n\n", machine::date());
    let (least, most) =
        busy.iter().fold((f64::INFINITY, 0f64), |(least, most), load| (least.min(*load), most.max(*load)));
    let mut line = |words: String| writeln!(text, "{words}").expect("a string takes everything");
    line(format!("* Machine: {}; databases on {}.", machine::description(), machine::file_system(&settings.dir)));
    line(format!("* Load average over one minute before each run, its own share included: {least:.1} to {most:.1}."));
    line(format!(
        "* Data: {}-byte keys in random order, {}-byte values, one thread, one put per commit, no sync, buffers of {} MiB, no \
         compression; {} s per run, each into an empty database; filters of 10 bits per entry, caches of 64 MiB.",
        DATA.key_bytes(),
        DATA.value_bytes,
        settings.buffer_bytes >> 20,
        settings.time.as_secs()
    ));
    line(format!(
        "* {} interleaved rounds: medians, but of \"max\" and \"behind\" the greatest. Behind: how far a put came after its due time. At a fixed rate puts that \
         are due within a millisecond come together.",
        settings.rounds
    ));
    line(format!(
        "* Control: another thread writes {CONTROL_BYTES} bytes every millisecond to a file of its own in the same directory. Alone, before the rounds: p99.9 {:.1} us, max {:.1} ms.",
        median(alone.iter().map(|control| control.percentile_ns(999) as f64)) / 1e3,
        alone.iter().map(Histogram::longest_ns).max().unwrap_or(0) as f64 / 1e6
    ));
    line("* Engines, of whose settings those of leveled trees hold here:".to_owned());
    for engine in engines {
        let (name, package) = (engine.name(), engine.package());
        line(format!("  * {name} ({package} {}): {}.", engine.version(), engine.setup()));
    }
    line(format!("* Command: `{command}`\n\n{HEADING}\n|---|---|{}", "---:|".repeat(8)));
    for (load, name, runs) in rows {
        let load = match load {
            Load::Full => "full speed".to_owned(),
            Load::Fixed(rate) => format!("{rate} puts/s"),
        };
        line(format!("| {load} | {name} | {} |", cells(runs).join(" | ")));
    }
    text
}
