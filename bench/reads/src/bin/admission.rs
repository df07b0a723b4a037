//! Cache admission after a block is read for one of its entries: rules compared on traces, without
//! a database.
//!
//! `cargo run --release -p reads --bin admission` prints, for each trace and rule, data blocks read
//! per lookup with a warm cache. The cache is `quick_cache`, which evicts much as the engine's
//! does, with items that weigh what they weigh there; index blocks are left out. It takes a minute.
//!
//! Rules:
//!
//! * *blocks* admits the block; *both* admits block and entry; *entries* admits the entry;
//! * *neighbours x* admits the entry, but the block if another entry of it was read lately, which
//!   is remembered for x times as many blocks as fit into the cache;
//! * *split x* has two caches, of which the one for entries has the share x of the memory.
//!
//! Lookups search the entries first.
//!
//! Traces:
//!
//! * *scattered*, *adjacent*: Zipf's law, hot keys all over or side by side; *half*: either, by
//!   turns;
//! * *uniform*; *latest*: one operation in twenty adds a key, and the newest are hot;
//! * *scans*: one in twenty is a scan of 25 entries, the others scattered lookups;
//! * *groups*: nine of ten go to a twelfth of the blocks;
//! * *shifting*: scattered, but from time to time other keys become hot.

use std::hash::{BuildHasher, Hasher};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use reads::{Zipf, scattered};
use tamarack_env::Random;

/// What an item takes besides its bytes.
const ITEM_BYTES: u64 = 96;

/// What an entry that is kept by itself takes besides key and value.
const ENTRY_HEAD_BYTES: u64 = 29;

const BLOCK_BYTES: u64 = 4096;

#[derive(Clone, Copy)]
enum Rule {
    Blocks,
    Both,
    Entries,
    Neighbours(f64),
    Split(f64),
}

const RULES: [(&str, Rule); 9] = [
    ("blocks", Rule::Blocks),
    ("both", Rule::Both),
    ("entries", Rule::Entries),
    ("neighbours 1/8", Rule::Neighbours(0.125)),
    ("neighbours 1/2", Rule::Neighbours(0.5)),
    ("neighbours 2", Rule::Neighbours(2.0)),
    ("split 1/4", Rule::Split(0.25)),
    ("split 1/2", Rule::Split(0.5)),
    ("split 3/4", Rule::Split(0.75)),
];

#[derive(Clone, Copy, PartialEq)]
enum Trace {
    Scattered,
    Adjacent,
    Half,
    Uniform,
    Latest,
    Scans,
    Groups,
    Shifting,
}

const TRACES: [(&str, Trace); 8] = [
    ("scattered", Trace::Scattered),
    ("adjacent", Trace::Adjacent),
    ("half", Trace::Half),
    ("uniform", Trace::Uniform),
    ("latest", Trace::Latest),
    ("scans", Trace::Scans),
    ("groups", Trace::Groups),
    ("shifting", Trace::Shifting),
];

/// Entries of one size, all of them in blocks, and a cache.
#[derive(Clone, Copy)]
struct Data {
    entries: u64,
    per_block: u64,
    cache_bytes: u64,
}

impl Data {
    fn blocks(&self) -> u64 {
        self.entries / self.per_block
    }

    fn entry_bytes(&self) -> u64 {
        BLOCK_BYTES / self.per_block + ENTRY_HEAD_BYTES + ITEM_BYTES
    }
}

fn main() {
    for (per_block, share) in [(4, 0.0625), (35, 0.0625), (4, 0.5), (35, 0.5)] {
        let blocks: u64 = if per_block == 4 { 1 << 16 } else { 1 << 14 };
        let cache_bytes = ((blocks * BLOCK_BYTES) as f64 * share) as u64;
        let data = Data { entries: blocks * per_block, per_block, cache_bytes };
        println!("\n{per_block} entries per block, cache of {:.0} % of the data\n", share * 100.0);
        println!("| trace | {} |", RULES.map(|(name, _)| name).join(" | "));
        println!("|---|{}", "---:|".repeat(RULES.len()));
        for (name, trace) in TRACES {
            let reads = RULES.map(|(_, rule)| format!("{:.3}", Scene::new(data, rule).run(trace)));
            println!("| {name} | {} |", reads.join(" | "));
        }
    }
}

type Items = Cache<u64, u64, Weight, Mix, DefaultLifecycle<u64, u64>>;

struct Scene {
    data: Data,
    rule: Rule,
    blocks: Items,
    /// Another one only if the memory is split.
    entries: Option<Items>,
    /// The block and the entry that it was read for.
    neighbours: Vec<(u64, u64)>,
    reads: u64,
}

impl Scene {
    fn new(data: Data, rule: Rule) -> Self {
        let part = |share: f64| items((data.cache_bytes as f64 * share) as u64);
        let (blocks, entries) = match rule {
            Rule::Split(share) => (part(1.0 - share), Some(part(share))),
            _ => (part(1.0), None),
        };
        let remembered = if let Rule::Neighbours(share) = rule { share } else { 0.0 };
        let remembered = (data.cache_bytes / BLOCK_BYTES) as f64 * remembered;
        let neighbours = vec![(u64::MAX, 0); (remembered as usize).next_power_of_two()];
        Self { data, rule, blocks, entries, neighbours, reads: 0 }
    }

    /// Reads of data blocks per lookup.
    fn run(mut self, trace: Trace) -> f64 {
        let Data { entries, per_block, .. } = self.data;
        let (zipf, random) = (Zipf::new(entries), Random::new(1));
        let lookups = 2 * entries;
        let (mut reads_before, mut newest) = (0, entries);
        for at in 0..2 * lookups {
            if at == lookups {
                reads_before = self.reads;
            }
            let rank = zipf.rank(&random);
            let entry = match trace {
                Trace::Scattered => scattered(rank) % entries,
                Trace::Adjacent => rank,
                Trace::Half => [rank, scattered(rank) % entries][random.below(2) as usize],
                Trace::Uniform => random.below(entries),
                Trace::Scans if random.below(20) == 0 => {
                    self.scan(random.below(self.data.blocks()), 1 + 25 / per_block);
                    continue;
                }
                Trace::Scans => scattered(rank) % entries,
                Trace::Groups => {
                    let (groups, blocks) = (self.data.blocks() / 12, self.data.blocks());
                    let is_hot = random.below(10) > 0;
                    let block = if is_hot { scattered(random.below(groups)) % blocks } else { random.below(blocks) };
                    block * per_block + random.below(per_block)
                }
                Trace::Shifting => scattered(rank + at / (entries / 2) * 7919) % entries,
                Trace::Latest if random.below(20) == 0 => {
                    newest += 1;
                    continue;
                }
                Trace::Latest => match self.young(newest, newest - 1 - rank) {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            self.look_up(entry);
        }
        (self.reads - reads_before) as f64 / lookups as f64
    }

    /// The place of the `number`th entry written, if it is in a table: a memtable's worth of
    /// entries forms one, in scattered order.
    fn young(&self, newest: u64, number: u64) -> Option<u64> {
        let buffer = self.data.entries / 16;
        let (table, is_in_table) = (number / buffer, number / buffer < newest / buffer);
        is_in_table.then(|| table * buffer + scattered(number) % buffer)
    }

    fn scan(&mut self, first: u64, count: u64) {
        for block in first..first + count {
            if self.blocks.get(&block_key(block)).is_none() {
                self.reads += 1;
                self.blocks.insert(block_key(block), BLOCK_BYTES + ITEM_BYTES);
            }
        }
    }

    fn look_up(&mut self, entry: u64) {
        let block = entry / self.data.per_block;
        let entries = self.entries.as_ref().unwrap_or(&self.blocks);
        if entries.get(&entry_key(entry)).is_some() || self.blocks.get(&block_key(block)).is_some() {
            return;
        }
        self.reads += 1;
        let (keeps_block, keeps_entry) = match self.rule {
            Rule::Blocks => (true, false),
            Rule::Both | Rule::Split(_) => (true, true),
            Rule::Entries => (false, true),
            Rule::Neighbours(_) => {
                let at = scattered(block) as usize & (self.neighbours.len() - 1);
                let before = std::mem::replace(&mut self.neighbours[at], (block, entry));
                let is_wanted = before.0 == block && before.1 != entry;
                (is_wanted, !is_wanted)
            }
        };
        if keeps_block {
            self.blocks.insert(block_key(block), BLOCK_BYTES + ITEM_BYTES);
        }
        if keeps_entry {
            self.entries.as_ref().unwrap_or(&self.blocks).insert(entry_key(entry), self.data.entry_bytes());
        }
    }
}

fn block_key(block: u64) -> u64 {
    2 * block
}

fn entry_key(entry: u64) -> u64 {
    2 * entry + 1
}

fn items(bytes: u64) -> Items {
    let options = OptionsBuilder::new()
        .shards(16)
        .estimated_items_capacity((bytes / 1024) as usize)
        .weight_capacity(bytes)
        .build()
        .expect("both capacities are set");
    Cache::with_options(options, Weight, Mix, DefaultLifecycle::default())
}

/// Items are their weights.
#[derive(Clone)]
struct Weight;

impl Weighter<u64, u64> for Weight {
    fn weight(&self, _: &u64, bytes: &u64) -> u64 {
        *bytes
    }
}

/// Hashes as numbers are scattered.
#[derive(Clone)]
struct Mix;

struct MixHasher(u64);

impl BuildHasher for Mix {
    type Hasher = MixHasher;
    fn build_hasher(&self) -> MixHasher {
        MixHasher(0)
    }
}

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = scattered(number.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }
}
