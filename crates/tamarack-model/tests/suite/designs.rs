//! Priced designs against what is known otherwise: exact sums over single runs, Monkey's and
//! Autumn's closed forms, the identity of the best filters, and a tree by hand.

use tamarack_model::allocate::weights::by_entries;
use tamarack_model::cost::{autumn, lookup, monkey, space, update};
use tamarack_model::design::{Design, Priced, price};
use tamarack_model::device::{Device, ProbeSeconds};
use tamarack_model::filter::{FilterChoice, FilterKind, chucky, fpr};
use tamarack_model::policy::{self, ShapeFamily};
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, Shape};

const POLICIES: [&str; 9] = [
    "leveling:T=4",
    "leveling:T=10",
    "tiering:T=4",
    "lazy-leveling:T=5",
    "dostoevsky:T=8,K=3,Z=2",
    "garnering:T=2,c=0.8",
    "moose:last=0.8,k=1",
    "smoose:last=0.85,k=0.5,range=0.4,update=0.1",
    "qlsm-bush:T=2,X=2",
];

const FILTERS: [&str; 5] = [
    "none",
    "bloom:bits=5,allocation=uniform",
    "bloom:bits=10,allocation=monkey",
    "blocked:bits=7,allocation=monkey",
    "bloom:bits=6,allocation=monkey-general,v=3",
];

const ENTRY: u64 = 100;

fn filter(words: &str) -> FilterChoice {
    words.parse().expect(words)
}

fn priced(policy: &dyn ShapeFamily, filter_specification: &str, workload: Workload, device: &Device) -> Priced {
    let design = Design {
        entries: 10_000_000,
        entry_bytes: ENTRY,
        buffer: Bytes(1 << 20),
        policy,
        filter: filter(filter_specification),
        block_bytes: 4000,
    };
    price(&design, &workload, device)
}

fn even() -> Workload {
    Workload::of_parts(1.0, 1.0, 1.0, 1.0, 0.0).expect("a workload")
}

fn near(found: f64, expected: f64, slack: f64, context: &str) {
    assert!((found - expected).abs() <= slack * expected.abs() + 1e-12, "{context}: {found}, not {expected}");
}

/// Levels are the shape's; costs are the exact sums over its runs, one by one.
#[test]
fn costs_are_sums_over_runs() {
    for (words, filter_specification) in POLICIES.into_iter().flat_map(|words| FILTERS.map(|filter| (words, filter))) {
        let context = format!("{words}, {filter_specification}");
        let policy = policy::parse(words).expect(words);
        let priced = priced(&policy, filter_specification, even(), &Device::default());
        assert_eq!(priced.shape, policy.shape(Bytes(1_000_000_000), Bytes(1 << 20)), "{context}");
        let (mut rates, mut entries) = (Vec::new(), Vec::new());
        for (number, level) in (1..).zip(&priced.levels) {
            let visible = priced.shape.visible_runs(number);
            assert_eq!((level.capacity_bytes, level.visible_runs), (priced.shape.level(number).capacity, visible));
            assert_eq!(level.capacity_entries, level.capacity_bytes.0 / ENTRY, "{context}");
            assert_eq!((level.runs, level.size_ratio), (priced.shape.level(number).runs, priced.shape.ratio(number)));
            // More entries than there are runs, so that a few odd ones make no difference.
            for _ in 0..visible {
                rates.push(level.fpr);
                entries.push(level.capacity_entries / visible);
            }
        }
        let (cost, targets) = (priced.cost, by_entries(&entries));
        near(cost.zero_result_reads, lookup::zero_result(&rates), 1e-9, &context);
        near(cost.existing_reads, lookup::existing(&rates, &targets), 1e-3, &context);
        assert_eq!(cost.range_seeks, rates.len() as f64, "{context}");
        assert_eq!(cost.update_writes, update::writes_per_entry_total(&priced.shape), "{context}");
        assert_eq!(cost.space_amplification, space::worst_amplification(&priced.shape), "{context}");
        assert_eq!(cost.throughput_per_s(), 1.0 / cost.seconds_per_op);
        // The budget is kept and, but for what a kind of filter cannot use, spent.
        let per_entry = priced.filter_bits / 10_000_000.0;
        let budget = match filter(filter_specification) {
            FilterChoice::None => 0.0,
            FilterChoice::Each { bits_per_entry, .. } | FilterChoice::Tree { bits_per_entry } => bits_per_entry,
        };
        assert!(per_entry <= budget * (1.0 + 1e-9) && per_entry >= 0.99 * budget, "{context}: {per_entry} bits");
    }
}

/// Ideal curves aside, filters of whole probes come within a few percent of `2^H e^(-m ln²2)`,
/// whatever the shape; equal bits do not.
#[test]
fn filters_are_as_good_as_can_be() {
    for words in POLICIES {
        let policy = policy::parse(words).expect(words);
        let of = |filter_specification| priced(&policy, filter_specification, even(), &Device::default());
        let best = of("bloom:bits=10,allocation=monkey");
        let bound = 2_f64.powf(best.shape.entropy()) * (-10.0 * std::f64::consts::LN_2.powi(2)).exp();
        near(best.cost.zero_result_reads, bound, 0.04, words);
        let equal = of("bloom:bits=10,allocation=uniform");
        let rate = fpr(FilterKind::Bloom, 10.0, 7);
        near(equal.cost.zero_result_reads, rate * equal.cost.range_seeks, 1e-3, words);
        assert!(best.cost.zero_result_reads < equal.cost.zero_result_reads, "{words}");
    }
}

/// From how many runs on one filter over the whole tree is the better choice: by the filters' own
/// time, from three for absent keys; with reads from a device, where it also has fewer false
/// positives than Bloom filters of equal memory, which is a question of bits.
#[test]
fn one_filter_for_the_tree_pays_from_three_runs_on() {
    let absent = Workload::of_parts(1.0, 0.0, 0.0, 0.0, 0.0).expect("a workload");
    let in_memory = Device {
        read_seconds: 0.0,
        read_bytes_per_second: f64::INFINITY,
        index_seconds: 0.0,
        entry_seconds: 0.0,
        decode_seconds: 0.0,
        ..Device::default()
    };
    for (words, runs, pays) in [
        ("leveling:T=500", 2, false),
        ("leveling:T=25", 3, true),
        ("leveling:T=4", 5, true),
        ("tiering:T=10", 27, true),
    ] {
        let policy = policy::parse(words).expect("a policy");
        let seconds = |filter: &str, device: &Device| priced(&policy, filter, absent, device).cost.seconds_per_op;
        let found = priced(&policy, "none", absent, &in_memory).shape.visible_runs_total();
        assert!(found.abs_diff(runs) <= 1, "{words}: {found} runs");
        let [of_tree, of_each] =
            ["chucky:bits=14.2", "blocked:bits=14.2,allocation=monkey"].map(|filter| seconds(filter, &in_memory));
        assert_eq!(of_tree < of_each, pays, "{words}: {of_tree} beside {of_each} seconds");
        let no_seconds = ProbeSeconds { blocked: 0.0, bloom: 0.0, elastic: 0.0, chucky: 0.0 };
        let device = Device {
            read_seconds: 1e-4,
            hash_seconds: 0.0,
            hash_byte_seconds: 0.0,
            probe_seconds: no_seconds,
            ..Device::default()
        };
        let [few_bits, many_bits] =
            ["10", "18"].map(|bits| [format!("chucky:bits={bits}"), format!("bloom:bits={bits},allocation=monkey")]);
        let is_better = |[of_tree, of_each]: [String; 2]| seconds(&of_tree, &device) < seconds(&of_each, &device);
        assert_eq!((is_better(few_bits), is_better(many_bits)), (false, true), "{words}");
    }
}

/// The assumed probes of both filters are as many as the filter's model counts.
#[test]
fn one_filter_for_the_tree_takes_two_probes() {
    let ProbeSeconds { blocked, chucky: of_tree, .. } = Device::default().probe_seconds;
    near(of_tree, chucky::PROBES * blocked, 1e-12, "probes");
}

/// Monkey's Eq. 7 and Autumn's Eq. 9 say the same in the limit.
#[test]
fn closed_forms_agree() {
    let filter = "bloom:bits=10,allocation=monkey";
    for ratio in [3_u32, 4, 6, 10] {
        let policy = policy::parse(&format!("leveling:T={ratio}")).expect("a policy");
        let found = priced(&policy, filter, even(), &Device::default());
        let tree = monkey::MonkeyTree { ratio: f64::from(ratio), merging: monkey::Merging::Leveling };
        near(found.cost.zero_result_reads, tree.zero_result(10.0, found.shape.last() as u32), 0.05, "Monkey");
    }
    let policy = policy::parse("garnering:T=3,c=0.7").expect("a policy");
    let found = priced(&policy, filter, even(), &Device::default());
    let tree = autumn::AutumnTree { ratio: 3.0, scaling: 0.7, levels: found.shape.last() as u32 };
    for (level, rate) in found.levels.iter().zip(tree.rates(found.cost.zero_result_reads)) {
        // Whole probes make steps in a curve that the formula takes for smooth.
        near(level.fpr, rate, 0.15, "Autumn");
    }
}

/// Times by hand, with a device of simple numbers.
#[test]
fn seconds_by_hand() {
    let shape: Shape = "buffer 1MiB\nlevel 4MiB in 4 runs\nlevel 4GiB in 1 run".parse().expect("a shape");
    let policy = policy::Custom::new(shape);
    let device = Device {
        read_seconds: 1.0,
        reads_per_second: [1.0, 2.0, 2.0, 2.0, 2.0, 2.0],
        read_bytes_per_second: 4000.0,
        write_bytes_per_second: 100.0,
        // A quarter of a second for a key of 16 bytes.
        hash_seconds: 0.125,
        hash_byte_seconds: 0.125 / 16.0,
        probe_seconds: ProbeSeconds { blocked: 0.25, bloom: 0.5, elastic: 0.75, chucky: 3.0 },
        put_seconds: 8.0,
        index_seconds: 0.0,
        entry_seconds: 0.0,
        decode_seconds: 0.0,
        lookup_seconds: 0.0,
        scan_begin_seconds: 0.0,
        scan_block_seconds: 0.0,
        scan_seconds: 0.0,
        compaction_seconds: 0.0,
        sync_seconds: 0.0,
    };
    let of = |parts: [f64; 4], range_entries, filter| {
        let workload = Workload::of_parts(parts[0], parts[1], parts[2], parts[3], range_entries).expect("a workload");
        priced(&policy, filter, workload, &device)
    };
    // Three visible runs and one, a block of each without filters: a seek and a second of reading.
    let none = of([1.0, 0.0, 0.0, 0.0], 0.0, "none");
    assert_eq!((none.cost.zero_result_reads, none.cost.seconds_per_op, none.filter_bits), (4.0, 8.0, 0.0));
    assert!(none.levels.iter().all(|level| (level.fpr, level.bits_per_entry) == (1.0, 0.0)));
    // Four filters asked with one digest; and one and a thousandth of blocks, each a second to seek
    // and one to read.
    let bloom = of([1.0, 0.0, 0.0, 0.0], 0.0, "bloom:bits=10,allocation=uniform");
    near(bloom.cost.seconds_per_op, 0.25 + 4.0 * 0.5 + 2.0 * bloom.cost.zero_result_reads, 1e-9, "absent");
    // The other kinds of filter have their own seconds; the one over the whole tree is probed once.
    for (filter, seconds) in [
        ("blocked:bits=12,allocation=uniform", 1.0),
        ("elastic:bits=12,allocation=uniform", 3.0),
        ("chucky:bits=12", 3.0),
    ] {
        let found = of([1.0, 0.0, 0.0, 0.0], 0.0, filter).cost;
        near(found.seconds_per_op, 0.25 + seconds + 2.0 * found.zero_result_reads, 1e-9, filter);
    }
    // Four seeks, two at once, four blocks; then 80 entries, 40 to a block.
    near(of([0.0, 0.0, 3.0, 0.0], 80.0, "none").cost.seconds_per_op, 2.0 + 4.0 + 2.0, 1e-9, "scan");
    // 100 bytes, into the log and as often as said; all but once read, too.
    let update = of([0.0, 0.0, 0.0, 1.0], 0.0, "none").cost;
    near(update.seconds_per_op, 8.0 + 1.0 + update.update_writes + (update.update_writes - 1.0) / 40.0, 1e-9, "update");
    // The processor's time for blocks, entries of scans, and entries of compactions comes on top.
    let processor = Device {
        index_seconds: 0.5,
        entry_seconds: 0.25,
        decode_seconds: 4.0,
        lookup_seconds: 16.0,
        scan_begin_seconds: 32.0,
        scan_block_seconds: 64.0,
        scan_seconds: 0.125,
        compaction_seconds: 2.0,
        ..device
    };
    // Blocks have 4000 bytes.
    let decoded = 4.0 * 4000.0 / 4096.0;
    let more = |parts: [f64; 4], range_entries: f64| {
        let workload = Workload::of_parts(parts[0], parts[1], parts[2], parts[3], range_entries).expect("a workload");
        let [with, without] = [&processor, &device].map(|device| priced(&policy, "none", workload, device).cost);
        with.seconds_per_op - without.seconds_per_op
    };
    near(more([1.0, 0.0, 0.0, 0.0], 0.0), 16.0 + 4.0 * (0.75 + decoded), 1e-9, "blocks of four runs");
    let scan = 32.0 + 4.0 * (64.0 + 0.75) + (4.0 + 2.0) * decoded + 80.0 * 0.125;
    near(more([0.0, 0.0, 1.0, 0.0], 80.0), scan, 1e-9, "a scan, of 40 entries to a block");
    near(more([0.0, 0.0, 0.0, 1.0], 0.0), update.update_writes * 2.0, 1e-9, "flushes and compactions");
    // A mix is the sum of its parts.
    let parts: f64 = (0..4)
        .map(|at| {
            let mut parts = [0.0; 4];
            parts[at] = 1.0;
            of(parts, 80.0, "none").cost.seconds_per_op
        })
        .sum();
    near(of([1.0; 4], 80.0, "none").cost.seconds_per_op, parts / 4.0, 1e-9, "mix");
}
