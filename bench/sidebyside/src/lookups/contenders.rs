//! Trees with a ratio of 10, as they are after a load at full speed: tiering and leveling with
//! Chucky and with Bloom filters, and RocksDB's leveled and universal trees.
//!
//! Each is loaded into a database of its own, alone, by one thread. Then all are open at once, and
//! take turns in slices of lookups.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use common::machine;
use serde::{Deserialize, Serialize};
use tamarack_env::TempDir;

use super::plan::{FilterKind, Plan, Workload};
use super::tree::{self, WORKS};
use super::{Measured, Run, WARMING_SLICES};
use crate::load;
use crate::plan::Reads;
use crate::stores::{self, Compression, Durability, Kind, Place, Shape, Store};
use crate::table::count;

/// The name under which slices of contenders are kept.
pub const TREE: &str = "beside";

/// A database that takes part.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct ContenderFacts {
    pub name: String,
    pub version: String,
    /// Its filter's specification, or what RocksDB was given.
    pub filter: String,
    /// Bits for each entry: in memory, or for RocksDB those that it was given.
    pub bits: f64,
    pub memtable_bytes: u64,
    /// The tree once it has settled.
    pub tree: String,
    /// Entries per second until the last put returned, and until all was settled.
    pub load_per_s: f64,
    pub settled_per_s: f64,
    /// Bytes written by the load for each byte of keys and values: to tables by the engine's own
    /// count, and by the process, WAL included.
    pub table_bytes: Option<f64>,
    pub process_bytes: f64,
}

/// A contender while it is measured.
struct Contender {
    name: String,
    engine: Engine,
    dir: PathBuf,
    filter: String,
    /// Its store; `None` while it is closed.
    store: Option<Box<dyn Store>>,
}

enum Engine {
    Tamarack { policy: &'static str, kind: FilterKind },
    Peer { kind: Box<dyn Kind>, bits: u64 },
}

/// Trees of this engine, with their filters. The first has Chucky, whose memory is that of all.
const OWN: [(&str, FilterKind); 5] = [
    ("tiering:T=10", FilterKind::Chucky),
    ("tiering:T=10", FilterKind::BlockedMonkey),
    ("leveling:T=10", FilterKind::Chucky),
    ("leveling:T=10", FilterKind::BloomMonkey),
    ("leveling:T=10", FilterKind::BlockedMonkey),
];

/// Loads all contenders, and looks up in all of them.
pub(super) fn measure(run: &mut Run<'_>) -> io::Result<()> {
    let scratch = TempDir::below(&run.plan.dir)?;
    run.results.circumstances.busy.push(machine::load());
    run.take_data(run.plan.data);
    let mut contenders = load_all(run, scratch.path())?;
    for reads in Reads::ALL {
        for contender in &mut contenders {
            contender.open(run.plan, reads);
            let store = contender.store();
            match reads {
                Reads::Cached => tree::touch_everything(store, &run.plan.data),
                Reads::Direct => {
                    let time = run.plan.slice * WARMING_SLICES;
                    run.slice_of_store(store, reads, Workload::Zipfian, 0, time);
                }
            }
        }
        for round in 0..run.plan.rounds {
            self::round(run, &contenders, reads, round);
        }
        contenders.iter_mut().for_each(|contender| contender.store = None);
    }
    Ok(())
}

/// Loads each contender; the first of them says how much memory the others' filters get.
fn load_all(run: &mut Run<'_>, dir: &Path) -> io::Result<Vec<Contender>> {
    let mut contenders: Vec<Contender> = Vec::new();
    let mut bits = run.results.contender_bits;
    for (place, (policy, kind)) in OWN.into_iter().enumerate() {
        let filter = kind.specification(if kind == FilterKind::Chucky { run.results.contender_bits } else { bits });
        let (name, dir) = (format!("{policy} {}", kind.name()), dir.join(place.to_string()));
        let engine = Engine::Tamarack { policy, kind };
        let mut contender = Contender { name, engine, dir, filter, store: None };
        let facts = contender.load(run, bits)?;
        if place == 0 {
            bits = facts.bits;
        }
        run.results.contenders.push(facts);
        contenders.push(contender);
    }
    for kind in peers(run.plan) {
        let dir = dir.join(kind.name().replace(' ', "-"));
        let (name, whole_bits) = (kind.name().to_owned(), bits.ceil() as u64);
        let engine = Engine::Peer { kind, bits: whole_bits };
        let filter = format!("its Bloom filters, {whole_bits} bits");
        let mut contender = Contender { name, engine, dir, filter, store: None };
        let facts = contender.load(run, bits)?;
        run.results.contenders.push(facts);
        contenders.push(contender);
    }
    Ok(contenders)
}

/// RocksDB with leveled and with universal compaction.
fn peers(plan: &Plan) -> Vec<Box<dyn Kind>> {
    if !plan.has_rocksdb {
        return Vec::new();
    }
    stores::writing(&[]).into_iter().filter(|kind| kind.name().starts_with("rocksdb")).collect()
}

impl Contender {
    fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("it is open")
    }

    /// Loads all entries in random order, and waits until nothing is left to compact. A filter of
    /// this engine then gets `bits` in memory for each entry.
    fn load(&mut self, run: &Run<'_>, bits: f64) -> io::Result<ContenderFacts> {
        std::fs::create_dir_all(&self.dir)?;
        machine::settle();
        self.open(run.plan, Reads::Cached);
        let (plan, io, began) = (run.plan, machine::io(), Instant::now());
        let (seconds, _) = load::fill(self.store(), &plan.data, &run.noise, 0..plan.data.entries, 1);
        self.store().flush();
        let only_to_be_sure = self.store().settle();
        let settled_s = (began.elapsed() - only_to_be_sure).as_secs_f64();
        let bytes = plan.data.bytes() as f64;
        let written_bytes = machine::io().written_bytes - io.written_bytes;
        let table_bytes = self.store().table_bytes_written();
        let is_exact = 10 * self.store().table_bytes_rounding() <= plan.data.bytes();
        let mut facts = ContenderFacts {
            name: self.name.clone(),
            version: self.version(),
            filter: self.filter.clone(),
            bits,
            memtable_bytes: plan.beside_memtable_bytes(),
            tree: self.store().tree(),
            load_per_s: plan.data.entries as f64 / seconds,
            settled_per_s: plan.data.entries as f64 / settled_s,
            // What is too coarse to tell anything is not told.
            table_bytes: table_bytes.filter(|_| is_exact).map(|written| written as f64 / bytes),
            process_bytes: written_bytes as f64 / bytes,
        };
        self.store = None;
        self.measure_filter(plan, bits, &mut facts);
        machine::settle();
        eprintln!(
            "{TREE}: {}: {}, {:.2} bits; loaded at {}/s, {:.2} bytes written for each; {}",
            facts.name,
            facts.filter,
            facts.bits,
            count(facts.settled_per_s),
            facts.process_bytes,
            facts.tree
        );
        Ok(facts)
    }

    /// Gives a filter of this engine its memory, and says what it has.
    fn measure_filter(&mut self, plan: &Plan, bits: f64, facts: &mut ContenderFacts) {
        match &self.engine {
            Engine::Tamarack { policy, kind } => {
                let memtable_bytes = plan.beside_memtable_bytes();
                let db = tree::open(&self.dir, plan, Reads::Cached, policy, memtable_bytes, Some(&self.filter));
                let measure = if *kind == FilterKind::Chucky {
                    tree::set_filter(&db, &self.filter, plan.data.entries)
                } else {
                    tree::equal_memory(&db, |bits| kind.specification(bits), bits, plan.data.entries)
                };
                db.close().expect(WORKS);
                self.filter.clone_from(&measure.specification);
                (facts.filter, facts.bits) = (measure.specification, measure.bits);
            }
            Engine::Peer { bits, .. } => facts.bits = *bits as f64,
        }
    }

    fn version(&self) -> String {
        match &self.engine {
            Engine::Tamarack { .. } => format!("tamarack {}", machine::version("tamarack")),
            Engine::Peer { kind, .. } => format!("{} {}", kind.package(), kind.version()),
        }
    }

    fn open(&mut self, plan: &Plan, reads: Reads) {
        let memtable_bytes = plan.beside_memtable_bytes();
        self.store = Some(match &self.engine {
            Engine::Tamarack { policy, .. } => {
                let db = tree::open(&self.dir, plan, reads, policy, memtable_bytes, Some(&self.filter));
                db.rebuild_filters().expect(WORKS);
                Box::new(db)
            }
            Engine::Peer { kind, bits } => kind.open(&self.dir, &place(plan, reads, *bits)),
        });
    }
}

/// What RocksDB is told.
fn place(plan: &Plan, reads: Reads, filter_bits: u64) -> Place {
    Place {
        data: plan.data,
        shape: Shape::Default,
        buffer_bytes: plan.beside_memtable_bytes(),
        cache_bytes: plan.cache_bytes(reads),
        filter_bits,
        ratio: Some(10),
        direct_io: reads == Reads::Direct,
        compression: Compression::None,
        durability: Durability::Buffered,
        loading: false,
    }
}

/// A slice of each workload on each contender. Another contender begins in each round.
fn round(run: &mut Run<'_>, contenders: &[Contender], reads: Reads, round: usize) {
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    order.rotate_left(round % contenders.len());
    for (turn, contender) in order.into_iter().map(|place| &contenders[place]).enumerate() {
        let slices = round * contenders.len() + turn;
        if let Err(error) = tree::check(contender.store(), &run.plan.data, &run.noise, slices as u64) {
            run.trouble(format!("{}: {error}", contender.name));
        }
        run.slice_of_store(contender.store(), reads, Workload::Uniform, 0, run.plan.slice / 4);
        let mut shown = Vec::new();
        for (place, workload) in Workload::ALL.into_iter().enumerate() {
            let seed = (slices * Workload::ALL.len() + place) as u64 + 1;
            let sample = run.slice_of_store(contender.store(), reads, workload, seed, run.plan.slice);
            shown.push(format!("{} {}/s", workload.name(), count(sample.ops_per_s)));
            run.results.measured.push(Measured {
                tree: TREE.to_owned(),
                chucky_bits: run.results.contender_bits,
                filter: contender.name.clone(),
                reads: reads.name().to_owned(),
                workload: workload.name().to_owned(),
                round,
                sample,
                false_positives: 0,
                searches: 0,
            });
        }
        let (name, rounds) = (&contender.name, run.plan.rounds);
        eprintln!("{TREE}: {}: round {}/{rounds}: {name}: {}", reads.name(), round + 1, shown.join(", "));
    }
}
