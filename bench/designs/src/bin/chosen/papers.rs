//! The union search beside the tuners of three papers, by the model alone.
//!
//! | tuner | what it chooses | by |
//! |---|---|---|
//! | Monkey, Algorithm 1 | leveling or tiering, ratio, split of the memory | Eq. 21 to 23 |
//! | Dostoevsky | ratio, K and Z; memtable and bits from a list | closed forms of a full tree |
//! | SMOOSE | capacities and runs of levels; memtable and bits from a list | Eq. 17 |
//!
//! Each paper's choice is made with the paper's costs, in block reads. Then it is priced as the
//! union search prices its own ([`union::price`]): means over the phases of a simulated tree, in
//! seconds of a device, with a cache of the memory that is left. So the paper's design gets the
//! cache that the paper does not know of.
//!
//! A paper's choice is taken over with favour: real ratios are rounded both ways and the faster
//! tree counts; a memtable of the paper becomes two of half its size, the active one and one that
//! is flushed; a choice that does not fit the memory, since the tree keeps old versions, is made
//! smaller until it does.
//!
//! Where a paper's choice takes longer, the gain is divided: what its tree would gain by the memory
//! split of the union search, and what the union's tree gains beside that.

use std::fs;

use common::numbers::median;
use common::words::Words;
use shape::kept::{digits, holds, table};
use tamarack_model::cost::monkey::Merging;
use tamarack_model::design::{self, Design};
use tamarack_model::device::Device;
use tamarack_model::filter::FilterChoice;
use tamarack_model::navigator::monkey::{MonkeySetting, holistic, without_fence_pointers};
use tamarack_model::navigator::smoose::{self, SmooseTask};
use tamarack_model::navigator::union::{self, Bounds, Limits, PricedDesign, Request};
use tamarack_model::policy::{self, Custom, Policy};
use tamarack_model::{BUFFER_MAX, Bytes};

use crate::mixes::{self, Mix};

/// The papers whose tuners are compared.
const PAPERS: [&str; 3] = ["Monkey", "Dostoevsky", "SMOOSE"];

/// Trees: entries, raw bytes of each, and memory in MiB.
const TREES: [(u64, u64, u64); 3] = [(1_000_000, 124, 32), (10_000_000, 1032, 512), (100_000_000, 124, 1024)];

const BLOCK_BYTES: u64 = 4096;

/// Bytes of memory for the fence pointer of a block, as in the union search.
const FENCE_BYTES: f64 = 32.0;

/// Memtables of Dostoevsky and SMOOSE, as parts of the memory.
const BUFFER_PARTS: [u64; 4] = [8, 16, 32, 64];

/// Their filters, in bits per entry: SMOOSE's setting is 5.
const BITS: [f64; 3] = [2.0, 5.0, 10.0];

/// Size ratios that Dostoevsky's tuner compares, with all K and Z of each.
const RATIOS: [u32; 9] = [2, 3, 4, 5, 6, 8, 10, 12, 16];

/// The least memtable and the most bits of a choice.
const BUFFER_MIN: f64 = 65536.0;
const BITS_MAX: f64 = 64.0;

/// The union search counts as worse if it takes more than this part longer.
const WORSE: f64 = 0.01;

/// Settings in the table of the largest gains, of each paper.
const SHOWN: usize = 5;

/// A design of a paper's tuner.
#[derive(Clone, Debug)]
struct Choice {
    policy: Policy,
    buffer: Bytes,
    filter: FilterChoice,
}

/// A setting: a tree, a device and a mix.
struct Setting {
    name: String,
    mix: Mix,
    request: Request,
}

/// What was found in a setting.
struct Found {
    setting: Setting,
    union: PricedDesign,
    /// In the order of [`PAPERS`].
    papers: [Option<PricedDesign>; PAPERS.len()],
}

impl Found {
    fn of(setting: Setting) -> Self {
        let request = &setting.request;
        let answer = union::find(request).unwrap_or_else(|error| panic!("{}: {error:?}", setting.name));
        let papers = [monkey(request), dostoevsky(request), smoose(request)].map(|choices| fastest(request, &choices));
        Self { union: answer.best, papers, setting }
    }

    /// The time of a paper's design over that of the union search.
    fn ratio(&self, paper: usize) -> Option<f64> {
        Some(self.papers[paper].as_ref()?.seconds_per_op / self.union.seconds_per_op)
    }

    /// What of [`Found::ratio`] the memory split makes, and what the tree does.
    fn factors(&self, paper: usize) -> Option<[f64; 2]> {
        let of_paper = self.papers[paper].as_ref()?;
        let between = union::price(&self.setting.request, &of_paper.policy, self.union.buffer, self.union.filter);
        let between = between.seconds_per_op;
        Some([of_paper.seconds_per_op / between, between / self.union.seconds_per_op])
    }
}

/// The choice that is fastest by the union's model, made to fit the memory.
fn fastest(request: &Request, choices: &[Choice]) -> Option<PricedDesign> {
    let priced = choices.iter().filter_map(|choice| fitted(request, choice.clone()));
    priced.min_by(|a, b| a.seconds_per_op.total_cmp(&b.seconds_per_op))
}

/// The choice, smaller until it fits the memory; `None` if the smallest does not.
fn fitted(request: &Request, mut choice: Choice) -> Option<PricedDesign> {
    for _ in 0..24 {
        let priced = union::price(request, &choice.policy, choice.buffer, choice.filter);
        if priced.split.cache >= 0.0 {
            return Some(priced);
        }
        choice.buffer = clamped(choice.buffer.as_f64() * 0.8);
        if let FilterChoice::Each { bits_per_entry, .. } = &mut choice.filter {
            *bits_per_entry *= 0.8;
        }
    }
    None
}

fn clamped(buffer: f64) -> Bytes {
    Bytes(buffer.clamp(BUFFER_MIN, BUFFER_MAX.as_f64()) as u64)
}

/// Bloom filters with so many bits, allocated as Monkey does; for lookups that find `found` keys
/// for each that they do not, if there are any.
fn filters(bits: f64, found: Option<f64>) -> FilterChoice {
    let bits = bits.min(BITS_MAX);
    let words = match found {
        _ if bits < 0.01 => "none".to_owned(),
        None => format!("bloom:bits={bits:.3},allocation=monkey"),
        Some(found) => format!("bloom:bits={bits:.3},allocation=monkey-general,v={found}"),
    };
    words.parse().unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// Cost of a block write in reads, the papers' φ.
fn write_cost(device: &Device) -> f64 {
    let block = BLOCK_BYTES as f64;
    block / device.write_bytes_per_second / device.block_seconds(block)
}

/// Monkey's choice, with the two whole ratios beside its own.
fn monkey(request: &Request) -> Vec<Choice> {
    let Request { workload, entries, entry_bytes, block_bytes, memory, device, .. } = *request;
    let (write_cost, read_seconds) = (write_cost(&device), device.block_seconds(block_bytes as f64));
    let all = MonkeySetting { workload, entries, entry_bytes, block_bytes, memory, write_cost, read_seconds };
    let Some(setting) = without_fence_pointers(&all, FENCE_BYTES) else { return Vec::new() };
    let design = holistic(&setting).design;
    let family = match design.tree.merging {
        Merging::Leveling => "leveling",
        Merging::Tiering => "tiering",
    };
    let bits = design.filter_bits / entries as f64;
    let found = (workload.existing > 0.0).then(|| (workload.existing / workload.zero_result).min(1000.0));
    let mut choices = Vec::new();
    for ratio in [design.tree.ratio.floor(), design.tree.ratio.ceil()] {
        let Ok(policy) = policy::parse(&format!("{family}:T={ratio}")) else { continue };
        for found in [None, found] {
            let filter = filters(bits, found);
            choices.push(Choice { policy: policy.clone(), buffer: clamped(design.buffer_bytes / 2.0), filter });
        }
    }
    choices
}

/// The memtables and bits of the lists that fit the memory.
fn splits(request: &Request) -> Vec<(Bytes, f64)> {
    let (entries, memory) = (request.entries as f64, request.memory.as_f64());
    let fences = entries * request.entry_bytes as f64 / request.block_bytes as f64 * FENCE_BYTES;
    let all = BUFFER_PARTS.iter().flat_map(|part| BITS.map(|bits| (Bytes(request.memory.0 / part), bits)));
    all.filter(|(buffer, bits)| 2.0 * buffer.as_f64() + bits * entries / 8.0 + fences <= memory).collect()
}

/// Dostoevsky's choice: the least blocks of an operation in a full tree.
fn dostoevsky(request: &Request) -> Vec<Choice> {
    let Request { workload, entries, entry_bytes, block_bytes, device, .. } = *request;
    let per_block = block_bytes as f64 / entry_bytes as f64;
    let update = (1.0 + write_cost(&device)) / per_block;
    let mut best: Option<(f64, Choice)> = None;
    for (buffer, bits) in splits(request) {
        let filter = filters(bits, None);
        for ratio in RATIOS {
            for (inner, last) in (1..ratio).flat_map(|inner| (1..ratio).map(move |last| (inner, last))) {
                let policy: Policy = match policy::Dostoevsky::new(ratio, inner, last) {
                    Ok(policy) => policy.into(),
                    Err(error) => panic!("{ratio}, {inner}, {last}: {error}"),
                };
                let design = Design { entries, entry_bytes, buffer, policy: &policy, filter, block_bytes };
                let cost = design::price(&design, &workload, &device).cost;
                let scan = cost.range_seeks + workload.range_entries / per_block;
                let blocks = workload.zero_result * cost.zero_result_reads
                    + workload.existing * cost.existing_reads
                    + workload.ranges * scan
                    + workload.updates * cost.update_writes * update;
                if best.as_ref().is_none_or(|(least, _)| blocks < *least) {
                    best = Some((blocks, Choice { policy, buffer, filter }));
                }
            }
        }
    }
    best.into_iter().map(|(_, choice)| choice).collect()
}

/// SMOOSE's choice: the least of Eq. 17.
fn smoose(request: &Request) -> Vec<Choice> {
    let Request { workload, entries, entry_bytes, block_bytes, .. } = *request;
    let capacity = Bytes(entries) * entry_bytes;
    let entries_per_block = block_bytes as f64 / entry_bytes as f64;
    let tasks = splits(request).into_iter().filter(|(buffer, _)| *buffer < capacity);
    let designs = tasks.map(|(buffer, bits_per_entry)| {
        let task = SmooseTask { capacity, buffer, bits_per_entry, entries_per_block, workload };
        (smoose::search(&task), buffer, bits_per_entry)
    });
    let best = designs.min_by(|(a, ..), (b, ..)| a.cost.total_cmp(&b.cost));
    let choice = |(design, buffer, bits): (smoose::SmooseDesign, Bytes, f64)| {
        let custom = || Custom::new(design.shape.clone()).into();
        Choice { policy: design.policy().unwrap_or_else(custom), buffer, filter: filters(bits, None) }
    };
    best.map(choice).into_iter().collect()
}

/// All settings: trees, devices and mixes.
fn settings(trees: &[(u64, u64, u64)], devices: &[&str]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (entries, entry_bytes, memory_mib) in trees {
        for device in devices {
            for mix in mixes::all(*entries) {
                let name = format!("{entries} of {entry_bytes} bytes, {memory_mib} MiB, {device}");
                let request = Request {
                    entries: *entries,
                    entry_bytes: *entry_bytes,
                    block_bytes: BLOCK_BYTES,
                    memory: Bytes(memory_mib << 20),
                    workload: mix.workload(),
                    inserts: 0.0,
                    theta: 0.0,
                    device: Device::named(device).unwrap_or_else(|| panic!("{device}: no device")),
                    bounds: Bounds::default(),
                    limits: Limits::default(),
                };
                settings.push(Setting { name, mix, request });
            }
        }
    }
    settings
}

/// Prints the comparison, and writes it if asked to.
pub fn print(words: &Words) {
    let (trees, devices) =
        if words.flag("quick") { (&TREES[..1], &["nvme"][..]) } else { (&TREES[..], &Device::NAMES[..]) };
    let wanted = words.list("mixes");
    let settings = settings(trees, devices).into_iter().filter(|setting| wanted.wants(&setting.mix.name));
    let mut found = Vec::new();
    for setting in settings {
        eprintln!("{}: {}", setting.name, setting.mix.name);
        found.push(Found::of(setting));
    }
    let text = markdown(&found, trees, devices);
    println!("{text}");
    if words.flag("write") {
        let path = words.report("papers-");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        eprintln!("{}", path.display());
    }
}

fn markdown(found: &[Found], trees: &[(u64, u64, u64)], devices: &[&str]) -> String {
    let trees: String = trees
        .iter()
        .map(|(entries, bytes, mib)| format!("* {entries} entries of {bytes} bytes, {mib} MiB of memory.\n"))
        .collect();
    format!(
        "# The union search beside the tuners of papers\n\n\
         By the model (`tamarack_model::navigator::union::price`), nothing measured: {} settings, each mix with each of these trees on the named devices {}. \
         A figure is the time of the paper's design over that of the union search; above 1 the union search is better.\n\n{trees}\n\
         Monkey's design is that of its Algorithm 1. Dostoevsky and SMOOSE choose their tree by their own costs, with the memtable (1/8 to 1/64 of the memory) and the bits per entry (2, 5, 10) that are best by these. \
         All get the memory that is left as cache.\n\n## By mix\n\n{}\n{}\n## Largest gains\n\n\
         The gain is divided: *memory* is what the paper's tree gains by the memtable and filters of the union search, *tree* is what the union's tree gains beside that.\n\n{}\n## Losses\n\n{}",
        found.len(),
        devices.join(", "),
        by_mix(found),
        verdicts(found),
        gains(found),
        losses(found)
    )
}

/// Least, median and most of each mix and paper.
fn by_mix(found: &[Found]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for one in found {
        if !names.contains(&one.setting.mix.name.as_str()) {
            names.push(&one.setting.mix.name);
        }
    }
    let row = |name: &&str| -> Vec<String> {
        let of_mix = || found.iter().filter(move |one| one.setting.mix.name == **name);
        let cells = (0..PAPERS.len()).flat_map(|paper| {
            let ratios: Vec<f64> = of_mix().filter_map(|one| one.ratio(paper)).collect();
            spread(&ratios).map(|number| digits(number, 3))
        });
        std::iter::once((*name).to_owned()).chain(cells).collect()
    };
    let columns: Vec<String> =
        PAPERS.iter().flat_map(|paper| ["least", "median", "most"].map(|what| format!("{paper}, {what}"))).collect();
    let columns: Vec<&str> = std::iter::once("mix ").chain(columns.iter().map(String::as_str)).collect();
    table(&columns, &names.iter().map(row).collect::<Vec<_>>())
}

/// The least, the median and the most; no numbers of nothing.
fn spread(numbers: &[f64]) -> [f64; 3] {
    if numbers.is_empty() {
        return [f64::NAN; 3];
    }
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    [least, median(numbers.iter().copied()), numbers.iter().copied().fold(0.0, f64::max)]
}

fn verdicts(found: &[Found]) -> String {
    let of_paper = |(paper, name): (usize, &&str)| {
        let least = found.iter().filter_map(|one| Some((one.ratio(paper)?, one))).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((least, one)) = least else { return String::new() };
        let worse = found.iter().filter_map(|one| one.ratio(paper)).filter(|ratio| *ratio < 1.0 - WORSE).count();
        let words = format!(
            "the union search is never more than {:.0} % worse than {name}: it is in {worse} of {} settings; the least figure is {least:.3} ({}, {})",
            100.0 * WORSE,
            found.len(),
            one.setting.mix.name,
            one.setting.name
        );
        holds(worse == 0, &words)
    };
    PAPERS.iter().enumerate().map(of_paper).collect()
}

/// The settings where most is gained, one for each paper and mix.
fn gains(found: &[Found]) -> String {
    let mut shown: Vec<(usize, &str)> = Vec::new();
    let rows = with_ratios(found, |a, b| b.total_cmp(&a)).into_iter().filter_map(|(ratio, paper, one)| {
        let mix = one.setting.mix.name.as_str();
        let of_paper = shown.iter().filter(|shown| shown.0 == paper).count();
        if shown.contains(&(paper, mix)) || of_paper == SHOWN {
            return None;
        }
        shown.push((paper, mix));
        Some(comparison(ratio, paper, one))
    });
    table(&COMPARISON, &rows.collect::<Vec<_>>())
}

/// All settings where the union search is worse than [`WORSE`] allows.
fn losses(found: &[Found]) -> String {
    let worse = with_ratios(found, |a, b| a.total_cmp(&b)).into_iter().filter(|(ratio, ..)| *ratio < 1.0 - WORSE);
    let rows: Vec<_> = worse.map(|(ratio, paper, one)| comparison(ratio, paper, one)).collect();
    if rows.is_empty() { "None.\n".to_owned() } else { table(&COMPARISON, &rows) }
}

/// The ratio of each paper in each setting, in this order, paper by paper.
fn with_ratios(found: &[Found], order: impl Fn(f64, f64) -> std::cmp::Ordering) -> Vec<(f64, usize, &Found)> {
    let of_paper = |paper| found.iter().filter_map(move |one| Some((one.ratio(paper)?, paper, one)));
    let mut all: Vec<_> = (0..PAPERS.len()).flat_map(of_paper).collect();
    all.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| order(a.0, b.0)));
    all
}

const COMPARISON: [&str; 10] =
    ["paper ", "mix ", "setting ", "its design ", "µs", "union's design ", "µs", "gain", "memory", "tree"];

/// A row of [`COMPARISON`].
fn comparison(ratio: f64, paper: usize, one: &Found) -> Vec<String> {
    let [memory, tree] = one.factors(paper).unwrap_or([f64::NAN; 2]);
    let of_paper = one.papers[paper].as_ref().expect("it has a ratio");
    vec![
        PAPERS[paper].to_owned(),
        one.setting.mix.name.clone(),
        one.setting.name.clone(),
        words_of(of_paper),
        digits(1e6 * of_paper.seconds_per_op, 2),
        words_of(&one.union),
        digits(1e6 * one.union.seconds_per_op, 2),
        digits(ratio, 2),
        digits(memory, 2),
        digits(tree, 2),
    ]
}

/// A design in words.
fn words_of(design: &PricedDesign) -> String {
    let filter = design.filter_specification.replace(":bits=", " ").replace(",allocation=", " ");
    let mib = |bytes: f64| digits(bytes / (1 << 20) as f64, 1);
    let policy = design.policy.to_string();
    // A shape of its own is long.
    let policy = if policy.starts_with("custom") { "custom shape".to_owned() } else { policy };
    format!("{policy}, {filter}, memtable {} MiB, cache {} MiB", mib(design.buffer.as_f64()), mib(design.split.cache))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some settings of each kind: the union search is not worse than a paper's tuner, and clearly
    /// better than each somewhere. Mostly update-heavy mixes on a hard disk are hard: few levels of
    /// large memtables are best there.
    #[test]
    fn never_worse_than_papers() {
        let mut most = [0.0_f64; PAPERS.len()];
        let of = |tree: usize, device: &'static str| settings(&TREES[tree..=tree], &[device]);
        let mixes = ["moose-B", "moose-C", "moose-E", "moose-J", "13F-50", "existing-50"];
        let hard = ["moose-A", "moose-B", "13E-50", "13E-90"];
        let wanted = |setting: &Setting, mixes: &[&str]| mixes.contains(&setting.mix.name.as_str());
        let usual = of(0, "nvme").into_iter().filter(|setting| wanted(setting, &mixes));
        let few_levels = of(1, "hdd").into_iter().filter(|setting| wanted(setting, &hard));
        for setting in usual.chain(few_levels) {
            let found = Found::of(setting);
            for (paper, most) in most.iter_mut().enumerate() {
                let ratio = found.ratio(paper).expect("each paper has a design");
                let (name, mix) = (PAPERS[paper], &found.setting.mix.name);
                assert!(ratio >= 1.0 - WORSE, "{mix}: {ratio} beside {name}, {:?}", found.papers[paper]);
                *most = most.max(ratio);
            }
        }
        assert!(most.iter().all(|most| *most > 1.1), "{most:?}");
    }
}
