//! The union search: its answers keep their bounds and their memory, and no design of a finer grid
//! is much better.

use tamarack_model::cost::cache;
use tamarack_model::design::Design;
use tamarack_model::device::Device;
use tamarack_model::filter::FilterChoice;
use tamarack_model::navigator::union::{
    Bounds, Exploration, Impossible, Limits, PricedDesign, Request, explore, find, policies, price, price_with,
};
use tamarack_model::prediction::{Effort, Length, Lookups, Question, Variant, Writes, predict_each};
use tamarack_model::simulate::Pace;
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, policy};

fn request([zero_result, existing, ranges, updates]: [f64; 4]) -> Request {
    Request {
        entries: 2_000_000,
        entry_bytes: 124,
        block_bytes: 4096,
        memory: Bytes(64 << 20),
        workload: Workload::of_parts(zero_result, existing, ranges, updates, 9.0).expect("shares"),
        inserts: 0.0,
        theta: 0.0,
        device: Device::default(),
        bounds: Bounds::default(),
        limits: Limits::default(),
    }
}

/// Workloads that mostly read, scan, write and mix.
const MIXES: [[f64; 4]; 5] =
    [[1.0, 0.0, 0.0, 0.1], [0.0, 1.0, 0.0, 0.1], [0.0, 0.0, 1.0, 0.1], [0.01, 0.01, 0.01, 1.0], [1.0, 1.0, 1.0, 1.0]];

/// A finer grid of ratios, memtables and bits of some kinds of policies has no design that is more
/// than 4 % better.
#[test]
fn near_the_best_of_a_grid() {
    for mix in MIXES {
        let request = request(mix);
        let answer = find(&request).expect("a design");
        let mut best = (f64::INFINITY, String::new());
        for ratio in [3, 5, 9, 12] {
            for family in ["leveling", "tiering", "lazy-leveling"] {
                let Ok(policy) = policy::parse(&format!("{family}:T={ratio}")) else { continue };
                for part in [11, 23, 45] {
                    let buffer = Bytes(request.memory.0 / part);
                    let words: Vec<String> =
                        (1..7).map(|third| format!("bloom:bits={},allocation=monkey", 3 * third)).collect();
                    let filters: Vec<FilterChoice> =
                        words.iter().map(|words| words.parse().expect("a filter")).collect();
                    let design = Design {
                        entries: request.entries,
                        entry_bytes: request.entry_bytes,
                        buffer,
                        policy: &policy,
                        filter: filters[0],
                        block_bytes: request.block_bytes,
                    };
                    let variant = |filter: &FilterChoice| Variant { filter: *filter, block_bytes: 4096 };
                    let variants: Vec<Variant> = filters.iter().map(variant).collect();
                    let writes = Writes::Puts { inserts: 0.0, theta: 0.0 };
                    let question = Question {
                        writes,
                        scans: &[1, 10],
                        digits: 256.0,
                        length: Length::Turnovers(2.0),
                        pace: Pace::Settled,
                        lookups: Lookups::Countless,
                    };
                    for (words, found) in words.iter().zip(predict_each(&design, &variants, &question, Effort::Quick)) {
                        // The memory as the search divides it, written out again.
                        let stored = request.entries as f64 * found.space_amplification.mean();
                        let filters = found.filter_bits_per_entry.mean() * stored / 8.0;
                        let cache = request.memory.as_f64() - 2.0 * buffer.as_f64() - filters - stored / 33.0 * 32.0;
                        if cache < 0.0 {
                            continue;
                        }
                        let hits = (cache / (stored * 124.0)).min(1.0);
                        let lookups = hits.max(cache::hits(cache / (124.0 + 48.0), 2e6, 0.0));
                        let mut work = found.work(&design, request.workload.range_entries);
                        (work.zero_result.hits, work.existing.hits, work.scan.hits) = (hits, lookups, hits);
                        let seconds = work.seconds(&request.device).mean(&request.workload);
                        if seconds < best.0 {
                            best = (seconds, format!("{policy}, {buffer}, {words}"));
                        }
                    }
                }
            }
        }
        let (found, words) = (answer.best.seconds_per_op, &answer.best.filter_specification);
        println!(
            "{mix:?}: {}, {words}, {}: {found:.3e}; grid {:.3e} {}",
            answer.best.policy, answer.best.buffer, best.0, best.1
        );
        assert!(found < best.0 * 1.04, "{mix:?}: {found} for {}, {} for {}", answer.best.policy, best.0, best.1);
    }
}

/// A bound that is kept costs time, and one that cannot be kept is refused with the least that can.
#[test]
fn bounds() {
    let free = find(&request(MIXES[4])).expect("a design").best;
    let writes = free.prediction.write_amplification * 0.6;
    let bounds = Bounds { update_writes: Some(writes), ..Bounds::default() };
    let bound = find(&Request { bounds, ..request(MIXES[4]) }).expect("a design").best;
    assert!(bound.prediction.write_amplification <= writes, "{bound:?}");
    assert!(bound.seconds_per_op >= free.seconds_per_op);
    let bounds = Bounds { update_writes: Some(0.5), zero_result_reads: Some(1e-6), ..Bounds::default() };
    match find(&Request { bounds, ..request(MIXES[4]) }) {
        Err(Impossible::Bounds { least }) => assert!(least[3] > 0.5 && least[0] > 1e-6, "{least:?}"),
        other => panic!("{other:?}"),
    }
}

/// Memory is divided without rest, and too little of it is refused with what is needed.
#[test]
fn memory() {
    let request = request(MIXES[4]);
    let split = find(&request).expect("a design").best.split;
    let sum = split.memtables + split.filters + split.indexes + split.cache;
    assert!((sum - request.memory.as_f64()).abs() < 1.0 && split.cache >= 0.0, "{split:?}");
    let Err(Impossible::Memory { least }) = find(&Request { memory: Bytes(1 << 20), ..request }) else {
        panic!("a MiB is too little for the indexes of 2 million entries")
    };
    let enough = Request { memory: Bytes((least * 1.5) as u64), ..request };
    assert!(least > 1e6 && find(&enough).is_ok(), "{least}");
}

/// What a search was chosen from: the answer's design is among it, sorted by time, all within the
/// memory, those that break a bound as well; and one of them priced alone costs the same.
#[test]
fn explored_designs() {
    let free = request(MIXES[4]);
    let bounds = Bounds { update_writes: Some(4.0), ..Bounds::default() };
    let request = Request { bounds, ..free };
    let Exploration { answer, compared } = explore(&request);
    let answer = answer.expect("a design");
    assert_eq!((answer.compared, Ok(&answer)), (compared.len(), find(&request).as_ref()));
    let is_best = |found: &&PricedDesign| {
        (&found.policy, found.buffer, found.filter) == (&answer.best.policy, answer.best.buffer, answer.best.filter)
    };
    let best = compared.iter().find(is_best).expect("it was compared");
    assert!(compared.is_sorted_by(|a, b| a.seconds_per_op <= b.seconds_per_op));
    assert!(compared.iter().all(|found| found.split.cache >= 0.0));
    assert!(compared.iter().any(|found| !bounds.are_kept(&found.prediction)));
    for found in [best, &compared[0], &compared[compared.len() - 1]] {
        assert_eq!(&price_with(&request, &found.policy, found.buffer, found.filter, Effort::Quick), found);
    }
    let in_full = price_with(&request, &best.policy, best.buffer, best.filter, Effort::Full);
    assert_eq!(in_full, answer.best);
    for policy in policies() {
        assert!(compared.iter().any(|found| found.policy == policy), "{policy} was not compared");
    }
}

/// Reads of a skewed workload are served by the cache, and the search knows it.
#[test]
fn skew() {
    let uniform = find(&request(MIXES[1])).expect("a design").best;
    let skewed = find(&Request { theta: 0.99, ..request(MIXES[1]) }).expect("a design").best;
    assert!(skewed.lookup_hits > 2.0 * uniform.lookup_hits, "{} {}", skewed.lookup_hits, uniform.lookup_hits);
    assert!(skewed.seconds_per_op < uniform.seconds_per_op);
}

/// What if: more memory for filters, more data and a slower device change predicted costs as the
/// closed forms say. Reads of absent keys fall by `e^(-ln² 2)` for each bit per entry and do not
/// depend on the data's size (Monkey, Eq. 7 and 8); ten times the data are one level more of ratio
/// 10, which writes each entry (10 - 1)/2 times in the mean (Eq. 10); and where reads are all that
/// costs, time is in proportion to theirs.
#[test]
fn what_if_agrees_with_closed_forms() {
    let leveling = policy::parse("leveling:T=10").expect("a policy");
    let base = Request { memory: Bytes(1 << 30), ..request(MIXES[4]) };
    let buffer = Bytes(1 << 20);
    let of = |request: &Request, bits: f64| {
        let filter = format!("bloom:bits={bits},allocation=monkey").parse().expect("a filter");
        price(request, &leveling, buffer, filter)
    };
    let reads = |design: &PricedDesign| design.prediction.zero_result_reads.mean();
    for bits in [6.0, 8.0, 12.0] {
        let [less, more] = [bits, bits + 2.0].map(|bits| reads(&of(&base, bits)));
        let expected = (-2.0 * std::f64::consts::LN_2.powi(2)).exp();
        assert!((more / less / expected - 1.0).abs() < 0.1, "{bits} bits: {less} to {more}, not by {expected}");
    }
    let larger = Request { entries: 10 * base.entries, ..base };
    let (small, large) = (of(&base, 10.0), of(&larger, 10.0));
    assert!((reads(&large) / reads(&small) - 1.0).abs() < 0.1, "{} and {}", reads(&small), reads(&large));
    let written = large.prediction.write_amplification - small.prediction.write_amplification;
    assert!((written / 4.5 - 1.0).abs() < 0.1, "one level more writes {written} times");

    // Reads of existing keys, without a cache, on devices that differ in the time of a read.
    let limits = Limits { cache_max: Bytes(0), ..Limits::default() };
    let lookups = Request { limits, ..request([0.0, 1.0, 0.0, 0.0]) };
    let slow = Device { read_seconds: 1.0, read_bytes_per_second: 1e12, ..Device::default() };
    let slower = Device { read_seconds: 7.0, ..slow };
    let [one, seven] = [slow, slower].map(|device| find(&Request { device, ..lookups }).expect("a design").best);
    assert!((seven.seconds_per_op / one.seconds_per_op - 7.0).abs() < 1e-3, "{one:?} {seven:?}");
    assert!((one.seconds_per_op / one.prediction.existing_reads.mean() - 1.0).abs() < 1e-3, "{one:?}");
}
