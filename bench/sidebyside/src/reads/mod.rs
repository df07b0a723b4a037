//! What reads cost beside other stores: gets, scans and mixes, with everything in the cache and past the page cache.
//!
//! ```text
//! for each section: load once ─► open a copy in every store ─► check answers ─► warm
//!                   for each round: for each row: for each store: one slice ─► samples ─► report
//! ```
//!
//! A slice is a fixed list of operations, the same for every store, so that what they found can be compared exactly: a get of a stored key must find its
//! value, one of another key nothing, and scans must agree in a sum over all bytes' ends. Before the first slice a sample of answers is compared byte for byte.
//!
//! * [`data`]: what is stored, and which of it is asked for.
//! * [`stores`]: the stores, each at its best fair settings.
//! * [`sections`], [`rows`]: what is measured.
//! * [`load`], [`check`], [`slice`]: databases, right answers, and one measurement.
//! * [`table`]: the report.

pub mod data;
pub mod load;
pub mod rows;
pub mod sections;
pub mod slice;
pub mod stores;
pub mod table;

mod check;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data::noise;
use rows::{Keys, Maker, Operation, Row, Work};
use sections::{Section, Sizes, Warm};
use slice::Sample;
use stores::{Kind, Seen, Store};

use crate::machine;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where databases are made.
    pub dir: PathBuf,
    /// Whether they stay there, for the next time.
    pub keep: bool,
    pub rounds: usize,
    pub sizes: Sizes,
    /// Names of engines and of sections; all if empty.
    pub engines: Vec<String>,
    pub sections: Vec<String>,
    /// One row, as `section/row`, for so long, without a report: to be profiled.
    pub only: Option<(String, Duration)>,
}

/// A section, measured.
pub struct Measured {
    pub section: Section,
    pub engines: Vec<&'static str>,
    /// What the trees looked like, and what memory was taken in the end.
    pub trees: Vec<String>,
    /// By row, engine and round.
    pub samples: Vec<Vec<Vec<Sample>>>,
}

/// A store that is open for a section.
struct Open {
    name: &'static str,
    store: Box<dyn Store>,
    dir: PathBuf,
    tree: String,
}

impl Open {
    /// What the tree looked like, and what memory is used by now.
    fn describe(&self) -> String {
        let memory = self.store.memory_bytes();
        let memory =
            memory.map(|bytes| format!("; cache, filters and indexes: {:.1} MiB", bytes as f64 / f64::from(1 << 20)));
        self.tree.clone() + &memory.unwrap_or_default()
    }
}

/// Runs everything. The machine's load before each section goes to `loads`.
pub fn measure(settings: &Settings, kinds: &[Box<dyn Kind>], loads: &mut Vec<f64>) -> io::Result<Vec<Measured>> {
    let dir = settings.dir.join("reads-beside");
    let noise = noise();
    let sections = sections::all(&settings.sizes).into_iter().filter(|section| settings.wants_section(section.name));
    let measured: io::Result<Vec<_>> = sections
        .map(|section| {
            loads.push(machine::load());
            measure_section(section, settings, kinds, &dir, &noise)
        })
        .collect();
    if !settings.keep {
        fs::remove_dir_all(&dir)?;
    }
    measured
}

impl Settings {
    fn wants_section(&self, name: &str) -> bool {
        match &self.only {
            Some((only, _)) => only.split('/').next() == Some(name),
            None => self.sections.is_empty() || self.sections.iter().any(|wanted| wanted == name),
        }
    }

    pub fn wants_engine(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|wanted| wanted == name)
    }
}

fn measure_section(
    section: Section,
    settings: &Settings,
    kinds: &[Box<dyn Kind>],
    dir: &Path,
    noise: &[u8],
) -> io::Result<Measured> {
    let open = open_all(&section, settings, kinds, dir, noise)?;
    let mut maker = Maker::new(section.place.data, &section.rows);
    warm(&section, &open, &mut maker, noise);
    let mut samples: Vec<Vec<Vec<Sample>>> =
        section.rows.iter().map(|_| open.iter().map(|_| Vec::new()).collect()).collect();
    if let Some((only, time)) = &settings.only {
        profile(&section, only, *time, &open, &mut maker, noise);
    } else {
        for round in 0..settings.rounds {
            for (row, samples) in section.rows.iter().zip(&mut samples) {
                let works = maker.slice(row, 1 + round as u64);
                let mut expected = expected(row, &works, &section, noise);
                for turn in 0..open.len() {
                    let e = (round + turn) % open.len();
                    let sample = slice::run(open[e].store.as_ref(), row, &works, &section.place.data, noise);
                    let expected = expected.get_or_insert_with(|| sample.seen.clone());
                    assert_eq!(sample.seen, *expected, "{} of {} finds what is there", row.name, open[e].name);
                    samples[e].push(sample);
                    if row.beside_puts_per_s > 0 {
                        open[e].store.settle();
                    }
                }
            }
            eprintln!("{}: round {} of {}", section.name, round + 1, settings.rounds);
        }
    }
    let engines = open.iter().map(|open| open.name).collect();
    let trees = open.iter().map(Open::describe).collect();
    for Open { store, dir, .. } in open {
        drop(store);
        fs::remove_dir_all(dir)?;
    }
    Ok(Measured { section, engines, trees, samples })
}

fn open_all(
    section: &Section,
    settings: &Settings,
    kinds: &[Box<dyn Kind>],
    dir: &Path,
    noise: &[u8],
) -> io::Result<Vec<Open>> {
    let kinds =
        kinds.iter().filter(|kind| !section.without.contains(&kind.name()) && settings.wants_engine(kind.name()));
    let sorted = section.place.data.sorted();
    let mut all = Vec::new();
    for kind in kinds {
        let base = load::loaded(kind.as_ref(), &section.place, dir, noise)?;
        let copy = dir.join(format!("open-{}-{}", std::process::id(), kind.name().replace(' ', "-")));
        load::copy(&base, &copy)?;
        let store = kind.open(&copy, &section.place);
        check::check(store.as_ref(), kind.name(), &section.place.data, &sorted, noise);
        let tree = store.tree();
        eprintln!("{}: {}: {tree}", section.name, kind.name());
        all.push(Open { name: kind.name(), store, dir: copy, tree });
    }
    Ok(all)
}

fn warm(section: &Section, open: &[Open], maker: &mut Maker, noise: &[u8]) {
    let data = &section.place.data;
    match section.warm {
        Warm::Everything => {
            // In the order of keys, which is fastest.
            let sorted = data.sorted();
            for open in open {
                let (mut seen, mut key) = (Seen::default(), Vec::new());
                for n in &sorted {
                    key.clear();
                    data.push_key((*n).into(), &mut key);
                    open.store.get(&key, &mut seen);
                }
                assert_eq!(seen.entries, data.entries, "{} has all entries", open.name);
            }
        }
        Warm::Operations(percent) => {
            let operations = (data.entries * percent / 100) as usize / section.rows.len();
            for row in &section.rows {
                let row = Row { operations, threads: 1, ..*row };
                let works = maker.slice(&row, 1000);
                open.iter().for_each(|open| drop(slice::run(open.store.as_ref(), &row, &works, data, noise)));
            }
        }
    }
}

/// What a slice must find, if that is known without looking.
fn expected(row: &Row, works: &[Work], section: &Section, noise: &[u8]) -> Option<Seen> {
    let mut seen = Seen::default();
    match row.operation {
        Operation::Scan { .. } => return None,
        _ if row.keys == Keys::Absent => (),
        _ => {
            for work in works {
                let gets =
                    work.numbers.iter().enumerate().filter(|(n, _)| !work.puts.get(*n).copied().unwrap_or(false));
                gets.for_each(|(_, number)| seen.value(section.place.data.value(noise, *number)));
            }
        }
    }
    Some(seen)
}

/// One row again and again on the first store.
fn profile(section: &Section, only: &str, time: Duration, open: &[Open], maker: &mut Maker, noise: &[u8]) {
    let row = section.rows.iter().find(|row| format!("{}/{}", section.name, row.name) == only);
    let row = row.unwrap_or_else(|| {
        panic!("no row {only}; there are {:?}", section.rows.iter().map(|row| row.name).collect::<Vec<_>>())
    });
    let slices: Vec<_> = (0..5).map(|seed| maker.slice(row, 1 + seed)).collect();
    for open in open {
        eprintln!("process {} measures {only} of {} now", std::process::id(), open.name);
        let began = Instant::now();
        let (mut rates, mut cpu) = (Vec::new(), Vec::new());
        for works in slices.iter().cycle() {
            let sample = slice::run(open.store.as_ref(), row, works, &section.place.data, noise);
            rates.push(sample.ops_per_s);
            cpu.push(sample.cpu_ns);
            if began.elapsed() > time || matches!(row.operation, Operation::Mixed { new: true, .. }) {
                break;
            }
        }
        let median = |values: Vec<f64>| crate::report::median(values.into_iter());
        println!("{only}: {}: {:.0} ops/s, {:.0} ns of a processor", open.name, median(rates), median(cpu));
    }
}
