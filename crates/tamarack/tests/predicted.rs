//! The engine does what the simulation predicts: bytes written into each level, compactions, moves,
//! changes of shape, and the runs of each level.
//!
//! One agenda decides for both. What is compared here is all that lies between its decisions and
//! storage: which sizes it is told, what is begun when, what is written, and what of it is counted.
//!
//! ```text
//!   the same flushes ─┬─▶ engine: memtable ─▶ tables ─▶ compactions ─▶ Stats, runs ─┐
//!                     └─▶ simulate::Tree: counts ───────────────────▶ Report, runs ─┴─▶ equal?
//! ```
//!
//! Keys are unique and random, since the simulation takes a compaction's output to be as large as
//! its inputs; sizes are raw bytes. Trees grow from nothing to 1,000 memtables.
//!
//! # What is shown
//!
//! Settled: all compactions end before the next flush. One table per run unless said otherwise.
//!
//! | test | what happens | what must hold |
//! |---|---|---|
//! | `settled` | flushes and their compactions | all equal, after each flush |
//! | `settled_with_a_bound_on_space` | compactions for the bound, too | the same |
//! | `settled_with_deletes` | deletes, reshapes, requests, too | all equal |
//! | `deletes_by_their_law` | from the design: keys put again and deleted | all within 5 % |
//! | `changes_of_policy` | settled; the policy changes | all equal, after each flush |
//! | `settled_in_parts` | many tables per run, several workers | runs equal, bytes within 3 % |
//! | `beside_compactions` | writers at full speed on a slow simulated device | bytes within 15 % |
//! | `full_speed` | from machine and design: late compactions | runs, bytes, rate as stated there |
//! | `a_change_beside_writers` | the same; tables of two memtables | at most 15 % more bytes |
//! | `on_threads` | the same, on the machine's threads | nothing lost; reports the difference |
//!
//! **Small tables** have a consequence of their own where buffers are tiny: tables at either end of
//! the keys may overlap nothing of a smaller run, and are moved where the simulation lets them be
//! written. Of a memtable of n entries, about one in n lies beyond either end of the others; with
//! real memtables this is nothing.
//!
//! **Concurrent compactions.** What a flush meets depends on the progress of compactions. While
//! they meet their deadlines, and writers are throttled so that they do, they write as much as
//! compactions that settle; that is what is compared. Late ones take more runs along, and mostly
//! write less. On threads of the machine compactions of such tiny memtables are late: writers are
//! delayed by milliseconds, which are many memtables here. `TAMARACK_MEMTABLE_BYTES` gives that
//! test larger ones: with 1,000,000 and `--release`, in a minute or two and about a gigabyte of
//! memory, the difference was 0 to -3 %.
//!
//! `-- --nocapture` shows the figures.

#![cfg(not(feature = "shuttle"))]

#[path = "predicted/by_law.rs"]
mod by_law;
#[path = "predicted/deletes.rs"]
mod deletes;
#[path = "predicted/full_speed.rs"]
mod full_speed;

use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Options, Result, Stats};
use tamarack_env::sim::Device;
use tamarack_env::{Env, MemoryEnv, Random, SimEnv};
use tamarack_model::bound::SpaceBound;
use tamarack_model::planner::{self, CompactionPlan};
use tamarack_model::policy::{self, Policy, ShapeFamily};
use tamarack_model::simulate::{self, Pace, Report, Tree, simulate};
use tamarack_model::{Bytes, Occupancy, Shape};

/// How many buffers a tree grows to.
const BUFFERS: u64 = 1000;

/// Of each kind of policy several, and shapes of nobody's: ratios that differ, slots that hold
/// several batches, and a last level that has to be enlarged.
fn policies(buffer: u64) -> Vec<String> {
    let named = [
        "leveling:T=2",
        "leveling:T=4",
        "leveling:T=10",
        "tiering:T=2",
        "tiering:T=4",
        "tiering:T=10",
        "lazy-leveling:T=5",
        "dostoevsky:T=5,K=2,Z=1",
        "dostoevsky:T=10,K=3,Z=1",
        "dostoevsky:T=10,K=3,Z=2",
        "dostoevsky:T=4,K=2,Z=3",
        "garnering:T=2,c=0.8",
        "garnering:T=3,c=0.4,first=4",
        "moose:last=0.8,k=1",
        "moose:last=0.6,k=2",
        "qlsm-bush:T=2,X=2",
    ];
    let custom = |levels: &[(u64, u32)]| {
        let level =
            |(buffers, runs): &(u64, u32)| format!("; level {} in {runs} run{}", buffers * buffer, plural(*runs));
        format!("custom:buffer {buffer}{}", levels.iter().map(level).collect::<String>())
    };
    let customs =
        [custom(&[(4, 2), (20, 3), (150, 1), (600, 2)]), custom(&[(12, 3), (36, 1), (400, 4)]), custom(&[(2000, 40)])];
    named.into_iter().map(str::to_owned).chain(customs).collect()
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A database in which a tree grows.
#[derive(Clone)]
struct Setting {
    words: String,
    memtable_bytes: u64,
    value_bytes: u64,
    /// `None`: so large that a run is one table.
    table_bytes: Option<u64>,
    compression: Compression,
    threads: usize,
    space_amplification_max: Option<f64>,
}

impl Setting {
    /// About 30 entries to a buffer, one table to a run.
    fn tiny(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            memtable_bytes: 1000,
            value_bytes: 10,
            table_bytes: None,
            compression: Compression::None,
            threads: 1,
            space_amplification_max: None,
        }
    }

    /// Compactions are punctual: how late they are depends on speeds, which the prediction does not
    /// know, and late ones write less.
    fn open(&self, env: Arc<dyn Env>) -> Result<Db> {
        let advanced =
            AdvancedOptions::new().env(env).memtable_bytes(self.memtable_bytes).policy(&self.words).block_bytes(512);
        let advanced = advanced.late_memtables_max(0);
        let advanced = self.table_bytes.map_or(advanced.clone(), |bytes| advanced.table_bytes(bytes));
        let options = Options::new().compression(self.compression).threads(self.threads).advanced(advanced);
        let bounded = |most| options.clone().space_amplification_max(most);
        self.space_amplification_max.map_or(options.clone(), bounded).open("/db")
    }

    fn policy(&self) -> Policy {
        policy::parse(&self.words).expect("a policy")
    }

    fn buffer(&self) -> Bytes {
        Bytes(self.memtable_bytes)
    }
}

/// Writes entries with unique random keys.
struct Writer {
    random: Random,
    entries: u64,
}

impl Writer {
    fn new() -> Self {
        Self { random: Random::new(0x9ced), entries: 0 }
    }

    /// Fills a buffer with entries of odd sizes, as far as they fit `most`, and at least one.
    /// Returns the raw bytes.
    fn fill(&mut self, db: &Db, setting: &Setting, most: u64) -> Result<Bytes> {
        let mut bytes = 0;
        loop {
            let value = vec![b'v'; (setting.value_bytes + self.random.below(setting.value_bytes)) as usize];
            let raw_bytes = (8 + value.len() + 8) as u64;
            if bytes > 0 && bytes + raw_bytes > most {
                return Ok(Bytes(bytes));
            }
            db.put(unique(self.entries).to_be_bytes(), value)?;
            self.entries += 1;
            bytes += raw_bytes;
        }
    }

    /// Every key is there, and no other.
    fn check(&self, db: &Db) -> Result<()> {
        let mut keys: Vec<[u8; 8]> = (0..self.entries).map(|number| unique(number).to_be_bytes()).collect();
        keys.sort_unstable();
        let found = db.scan(..).map(|entry| entry.map(|(key, _)| key)).collect::<Result<Vec<_>>>()?;
        assert!(found.iter().eq(keys.iter()), "{} keys were written, {} are there", keys.len(), found.len());
        Ok(())
    }
}

/// Random numbers, no two alike.
fn unique(number: u64) -> u64 {
    Random::new(number).next()
}

/// Lets a tree grow whose compactions all end before the next flush, and compares the runs after
/// each. One flush in eight is of a memtable that was not full.
fn grow(setting: &Setting, buffers: u64) -> Result<(Stats, Report)> {
    let db = setting.open(Arc::new(SimEnv::new(7)))?;
    let policy = setting.policy();
    let mut tree = Tree::new(&policy, setting.buffer());
    if let Some(most) = setting.space_amplification_max {
        tree = tree.bounded(SpaceBound::new(most).expect("a bound"));
    }
    let mut writer = Writer::new();
    let (mut number, mut flushed) = (0, Bytes::ZERO);
    while flushed < setting.buffer() * buffers {
        number += 1;
        let early = writer.random.eighths(1);
        let most = if early { writer.random.below(setting.memtable_bytes) } else { setting.memtable_bytes };
        let bytes = writer.fill(&db, setting, most)?;
        db.flush()?;
        db.wait_for_compactions()?;
        tree.rotate_memtable(bytes);
        tree.settle();
        flushed += bytes;
        let (shape, occupancy, _) = db.planned();
        let context =
            || format!("{} after {number} flushes: engine\n{occupancy}simulation\n{}", setting.words, tree.occupancy());
        assert_eq!(&shape, tree.shape(), "{}", context());
        assert_eq!(sizes(&occupancy), sizes(tree.occupancy()), "{}", context());
    }
    let (stats, report) = (db.stats(), tree.report().clone());
    assert_eq!(decisions(&stats), (report.compactions, report.moves, report.growths), "{}", setting.words);
    writer.check(&db)?;
    Ok((stats, report))
}

/// The sizes of the runs of each level.
fn sizes(occupancy: &Occupancy) -> Vec<Vec<u64>> {
    (1..=occupancy.deepest()).map(|level| occupancy.level(level).iter().map(|run| run.bytes.0).collect()).collect()
}

/// Compactions, moves and changes of shape.
fn decisions(stats: &Stats) -> (u64, u64, u64) {
    (stats.compactions, stats.moves, stats.reshapes)
}

/// Raw bytes that were written into each level, levels at the end that got none left out.
fn written(stats: &Stats) -> Vec<Bytes> {
    let levels = stats.levels.iter().map(|level| Bytes(level.written_raw_bytes));
    let mut levels: Vec<Bytes> = levels.collect();
    while levels.last() == Some(&Bytes::ZERO) {
        levels.pop();
    }
    levels
}

/// By how much the engine wrote more than predicted, as a share of that.
fn difference(written: Bytes, predicted: Bytes) -> f64 {
    if predicted == Bytes::ZERO { 0.0 } else { written.ratio(predicted) - 1.0 }
}

#[test]
fn settled() -> Result<()> {
    for words in policies(1000) {
        let mut file_bytes = Vec::new();
        for compression in [Compression::None, Compression::Lz4].into_iter().filter(|one| one.is_available()) {
            let setting = Setting { compression, ..Setting::tiny(&words) };
            let (stats, report) = grow(&setting, BUFFERS)?;
            assert_eq!(written(&stats), report.written, "{words}, {compression:?}");
            assert_eq!(Bytes(stats.flushed_raw_bytes), report.flushed, "{words}, {compression:?}");
            file_bytes.push(stats.flush_bytes + stats.compaction_bytes);
            println!(
                "{words:<30} {compression:<5?} {:6.3} bytes written per byte, {:3} compactions, {} moves, {} growths: equal",
                report.write_amplification(),
                report.compactions,
                report.moves,
                report.growths
            );
        }
        assert!(file_bytes.windows(2).all(|pair| pair[1] < pair[0]), "compressed files are smaller: {file_bytes:?}");
    }
    Ok(())
}

#[test]
fn settled_with_a_bound_on_space() -> Result<()> {
    for (words, most) in
        [("leveling:T=10", 1.1), ("tiering:T=4", 1.5), ("tiering:T=10", 3.0), ("moose:last=0.6,k=2", 2.0)]
    {
        let setting = Setting { space_amplification_max: Some(most), ..Setting::tiny(words) };
        let (stats, report) = grow(&setting, BUFFERS / 4)?;
        assert_eq!(written(&stats), report.written, "{words}, {most}");
        assert!(stats.space_amplification_worst <= most, "{words}: {}", stats.space_amplification_worst);
        println!("{words:<30} bound {most}: {:6.3} bytes written per byte: equal", report.write_amplification());
    }
    Ok(())
}

#[test]
fn settled_in_parts() -> Result<()> {
    for words in ["leveling:T=4", "leveling:T=10", "tiering:T=4", "lazy-leveling:T=5", "dostoevsky:T=10,K=3,Z=1"] {
        // About 300 entries to a buffer, 60 to a table.
        let setting = Setting { memtable_bytes: 9000, table_bytes: Some(2000), threads: 3, ..Setting::tiny(words) };
        let (stats, report) = grow(&setting, 120)?;
        let of_levels: Vec<f64> =
            written(&stats).iter().zip(&report.written).map(|(a, b)| difference(*a, *b)).collect();
        let all = difference(Bytes(stats.written_raw_bytes()), report.written_total());
        println!("{words:<30} {:+.2} % bytes, by level {}", 100.0 * all, percent(&of_levels));
        assert_eq!(written(&stats).len(), report.written.len(), "{words}");
        assert!(
            of_levels.iter().chain([&all]).all(|difference| difference.abs() < 0.03),
            "{words}: {of_levels:?}, {all}"
        );
    }
    Ok(())
}

fn percent(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{:+.2} %", 100.0 * share)).collect::<Vec<_>>().join(", ")
}

/// The setting of trees that compact while writers write: memtables of 16 KB, so that pages of
/// files are filled, in about 20 entries.
fn busy(words: &str) -> Setting {
    Setting { memtable_bytes: BUSY_BUFFER, value_bytes: 500, threads: 2, ..Setting::tiny(words) }
}

const BUSY_BUFFER: u64 = 16_000;

/// Where writing costs time, and nothing else does.
const SLOW: Device = Device {
    read_bytes_per_second: 1 << 40,
    write_bytes_per_second: 1 << 16,
    cpu_bytes_per_second: 1 << 40,
    read_latency: Duration::ZERO,
    sync_latency: Duration::ZERO,
    dirty_bytes_max: 1 << 40,
};

/// How much more an engine that compacted beside its writers wrote than settled compactions.
/// Printed beside it: the bytes of compactions that are 1.1 times as fast as they must be to keep
/// up on average.
fn compare(setting: &Setting, stats: &Stats, flushes: &[Bytes]) -> f64 {
    let simulated = |pace| simulate(&setting.policy(), setting.buffer(), flushes, pace);
    let settled = simulated(Pace::Settled);
    let concurrent = simulated(Pace::Concurrent { speed: 1.1 * settled.write_amplification() });
    let written = Bytes(stats.written_raw_bytes());
    let than_settled = difference(written, settled.written_total());
    println!(
        "{:<30} {:6.3} bytes written per byte, settled {:6.3} ({:+.2} %), concurrent {:6.3} ({:+.2} %); {} compactions, settled {}, concurrent {}",
        setting.words,
        written.ratio(settled.flushed),
        settled.write_amplification(),
        100.0 * than_settled,
        concurrent.write_amplification(),
        100.0 * difference(written, concurrent.written_total()),
        stats.compactions,
        settled.compactions,
        concurrent.compactions,
    );
    than_settled
}

#[test]
fn beside_compactions() -> Result<()> {
    for words in policies(BUSY_BUFFER) {
        let (setting, sim) = (busy(&words), SimEnv::new(11));
        sim.set_device(Some(SLOW));
        let db = setting.open(Arc::new(sim.clone()))?;
        let (mut writer, mut flushes) = (Writer::new(), Vec::new());
        for _ in 0..BUFFERS {
            flushes.push(writer.fill(&db, &setting, setting.memtable_bytes)?);
        }
        db.flush()?;
        db.wait_for_compactions()?;
        let than_settled = compare(&setting, &db.stats(), &flushes);
        assert!(than_settled.abs() < 0.15, "{words}: {than_settled} more than compactions that settle");
    }
    Ok(())
}

#[test]
fn on_threads() -> Result<()> {
    let memtable_bytes =
        std::env::var("TAMARACK_MEMTABLE_BYTES").map_or(BUSY_BUFFER, |text| text.parse().expect("a number"));
    for words in policies(memtable_bytes) {
        let setting = Setting { memtable_bytes, ..busy(&words) };
        let db = setting.open(MemoryEnv::new(1))?;
        let (mut writer, mut flushes) = (Writer::new(), Vec::new());
        for _ in 0..BUFFERS / 4 {
            flushes.push(writer.fill(&db, &setting, setting.memtable_bytes)?);
        }
        db.flush()?;
        db.wait_for_compactions()?;
        compare(&setting, &db.stats(), &flushes);
        let (shape, occupancy, _) = db.planned();
        assert_eq!(occupancy.bytes(), flushes.iter().copied().sum(), "{words}: nothing is lost");
        let has_outgrown = planner::outgrown(&shape, &occupancy, &[], shape.last());
        assert!(!has_outgrown, "{words}: {occupancy}has outgrown\n{shape}");
        // What MOOSE's upper levels hold stays there when the last one grows.
        let fits = occupancy.bytes() < shape.holds() || words.starts_with("moose");
        assert!(fits, "{words}: {occupancy}exceeds\n{shape}");
    }
    Ok(())
}

/// A tree whose policy changes again and again, lazily and at once, settled: the same runs after
/// every flush, and every entry is there.
#[test]
fn changes_of_policy() -> Result<()> {
    let all = policies(1000);
    let mut at_once = 0;
    for seed in 0..SEEDS {
        let random = Random::for_purpose(seed, 0xc4a9);
        let draw = || all[random.below(all.len() as u64) as usize].as_str();
        let mut setting = Setting::tiny(draw());
        let parsed: Vec<Policy> = all.iter().map(|words| policy::parse(words).expect("a policy")).collect();
        let find = |words: &str| &parsed[all.iter().position(|one| one == words).expect("one of the list")];
        let db = setting.open(Arc::new(SimEnv::new(seed)))?;
        let (mut tree, mut writer) = (Tree::new(find(&setting.words), setting.buffer()), Writer::new());
        for number in 0..100 + random.below(200) {
            if random.below(30) == 0 {
                setting.words = draw().to_owned();
                let estimate = db.estimate_reshape(&setting.words, 0)?;
                db.set_policy(&setting.words)?;
                tree.change_policy(find(&setting.words));
                if random.below(2) == 0 {
                    // At once: just what was said before.
                    let before = db.stats();
                    db.reshape()?;
                    tree.reshape();
                    tree.settle();
                    let written = db.stats().written_raw_bytes() - before.written_raw_bytes();
                    assert_eq!(
                        (estimate.reshape_bytes, estimate.kept_bytes),
                        (written, 0),
                        "seed {seed}: {estimate:?}"
                    );
                    at_once += 1;
                }
            }
            let bytes = writer.fill(&db, &setting, setting.memtable_bytes)?;
            db.flush()?;
            db.wait_for_compactions()?;
            tree.rotate_memtable(bytes);
            tree.settle();
            let (shape, occupancy, _) = db.planned();
            let context = format!(
                "seed {seed}, {} after {number} flushes: engine\n{occupancy}simulation\n{}",
                setting.words,
                tree.occupancy()
            );
            assert_eq!((&shape, sizes(&occupancy)), (tree.shape(), sizes(tree.occupancy())), "{context}");
        }
        assert_eq!(db.stats().written_raw_bytes(), tree.report().written_total().0, "seed {seed}");
        writer.check(&db)?;
    }
    assert!(at_once > 10, "{at_once} changes at once");
    Ok(())
}

/// How many histories with changes of policy are tried.
const SEEDS: u64 = 20;

/// The policy changes while writers write at full speed, and at any step of compactions: at most
/// 1.15 times the prediction is written from then on until the tree is at rest. The prediction is
/// the rest of the compactions in progress, and what the simulation writes from the runs that the
/// tree will then have.
#[test]
fn a_change_beside_writers() -> Result<()> {
    let all = policies(BUSY_BUFFER);
    let mut in_progress = 0;
    for seed in 0..SEEDS {
        let random = Random::for_purpose(seed, 0x10ad);
        let draw = || all[random.below(all.len() as u64) as usize].as_str();
        let setting = Setting { table_bytes: Some(2 * BUSY_BUFFER), ..busy(draw()) };
        let (then, sim, mut writer) = (draw(), SimEnv::new(seed), Writer::new());
        sim.set_device(Some(SLOW));
        let db = setting.open(Arc::new(sim.clone()))?;
        for _ in 0..80 + random.below(100) {
            writer.fill(&db, &setting, setting.memtable_bytes)?;
        }
        for _ in 0..random.below(40) {
            sim.step_background();
        }
        let (planned, before) = (db.planned(), db.stats());
        db.set_policy(then)?;
        for _ in 0..60 {
            writer.fill(&db, &setting, setting.memtable_bytes)?;
        }
        db.flush()?;
        db.wait_for_compactions()?;
        let stats = db.stats();
        let compactions = before.jobs.iter().filter(|job| !job.is_flush);
        let left: Bytes = compactions.map(|job| Bytes(job.left_bytes)).sum();
        in_progress += usize::from(left > Bytes::ZERO);
        let (flushes, flushed) = (stats.flushes - before.flushes, stats.flushed_raw_bytes - before.flushed_raw_bytes);
        let predicted =
            left + predict(planned, &setting.words, then, &vec![Bytes(flushed / flushes); flushes as usize]);
        let written = Bytes(stats.written_raw_bytes() - before.written_raw_bytes());
        let more = difference(written, predicted);
        println!(
            "{} -> {then}: {:.1} buffers left to compact, {:.1} written: {:+.1} %",
            setting.words,
            left.ratio(setting.buffer()),
            written.ratio(setting.buffer()),
            100.0 * more
        );
        assert!(more < 0.15, "seed {seed}: {written} bytes written, {predicted} predicted");
        writer.check(&db)?;
    }
    assert!(in_progress as u64 > SEEDS / 3, "{in_progress} changes of {SEEDS} found compactions in progress");
    Ok(())
}

/// The simulation's bytes for these flushes after a change of policy, from the runs that the tree
/// has once its compactions in progress have ended.
fn predict(planned: (Shape, Occupancy, Vec<CompactionPlan>), words: &str, then: &str, flushes: &[Bytes]) -> Bytes {
    let (shape, occupancy, compactions) = planned;
    let occupancy = simulate::ended(occupancy, &compactions);
    let [old, new] = [words, then].map(|words| policy::parse(words).expect("a policy"));
    let new_shape = new.shape(occupancy.bytes(), shape.buffer());
    simulate::change(
        (&old as &dyn ShapeFamily, &shape),
        (&new as &dyn ShapeFamily, &new_shape),
        &occupancy,
        None,
        |_| flushes.to_vec(),
    )
    .lazily
}
