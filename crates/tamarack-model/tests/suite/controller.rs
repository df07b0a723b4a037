//! The controller of a tree in use: phases of a workload, when a search is due, and decisions that
//! pay.

use std::convert::Infallible;

use tamarack_model::device::Device;
use tamarack_model::navigator::controller::{
    Decision, GAIN_MIN, Judgement, Monitor, OPERATIONS_MIN, Operations, Outlook, Present, WINDOW, decide,
    in_phase_or_alternation, skew_of_hits,
};
use tamarack_model::navigator::union::{Bounds, Impossible, Limits, Request, price};
use tamarack_model::policy::Policy;
use tamarack_model::prediction::loaded;
use tamarack_model::workload::Workload;
use tamarack_model::{Bytes, policy};

const ENTRIES: u64 = 500_000;
const ENTRY_BYTES: u64 = 124;

fn lookups(zero_result: f64, existing: f64) -> Operations {
    Operations { zero_result, existing, ..Operations::default() }
}

fn updates(updates: f64) -> Operations {
    Operations { updates, ..Operations::default() }
}

fn scans(scans: f64, each: f64) -> Operations {
    Operations { scans, scanned: scans * each, ..Operations::default() }
}

fn seen(operations: &[Operations]) -> Monitor {
    let mut monitor = Monitor::default();
    operations.iter().for_each(|operations| monitor.observe(operations, 0.0));
    monitor
}

/// A phase begins where the mix of operations changes, however they are divided into looks, and
/// lasts while it varies a little.
#[test]
fn phases() {
    for each in [100.0, 5_000.0, 400_000.0] {
        let looks = |of: &dyn Fn(f64) -> Operations, number: f64| vec![of(each); (number / each).ceil() as usize];
        let reads = looks(&|number| lookups(0.1 * number, 0.9 * number), 800_000.0);
        let monitor = seen(&reads);
        assert!((monitor.phase().sum() - 800_000.0).abs() < 1.0, "{each}: {monitor:?}");
        let mut both = reads.clone();
        both.extend(looks(&updates, 800_000.0));
        let phase = *seen(&both).phase();
        assert!(phase.updates > 0.9 * phase.sum() && phase.sum() < 800_000.0 + 3.0 * WINDOW, "{each}: {phase:?}");
        // A tenth more or less of one kind is no other phase.
        let mut varied = reads.clone();
        varied.extend(looks(&|number| lookups(0.2 * number, 0.8 * number), 800_000.0));
        assert!((seen(&varied).phase().sum() - 1_600_000.0).abs() < 1.0, "{each}");
    }
    // Scans that become longer are other scans.
    let mut monitor = seen(&vec![scans(1_000.0, 10.0); 300]);
    for _ in 0..300 {
        monitor.observe(&scans(1_000.0, 100.0), 0.0);
    }
    let phase = monitor.phase();
    assert!(phase.scanned / phase.scans > 90.0, "{phase:?}");
}

/// A search is due at the beginning of a phase, whenever it is twice as long, and when the data has
/// grown: not again and again.
#[test]
fn searches() {
    let mut monitor = Monitor::default();
    let mut due_at = Vec::new();
    for look in 1..=1_000_u32 {
        monitor.observe(&updates(1_000.0), 0.0);
        if monitor.is_search_due(1e9) {
            monitor.searched(1e9);
            due_at.push(look);
        }
    }
    let first = (OPERATIONS_MIN / 1_000.0) as u32;
    assert_eq!(due_at, [first, 2 * first, 4 * first, 8 * first, 16 * first, 32 * first]);
    assert!(!monitor.is_search_due(1.4e9) && monitor.is_search_due(1.6e9) && monitor.is_search_due(0.6e9));
    (0..100).for_each(|_| monitor.observe(&lookups(1_000.0, 0.0), 0.0));
    assert!(monitor.is_search_due(1e9), "another phase");
}

/// Slow operations are noticed in seconds: scans at 500 a second after a hundred thousand lookups
/// are a phase of their own within four seconds, and searched within two more; a few operations in
/// a long time are neither.
#[test]
fn slow_operations_count_by_time() {
    let mut monitor = Monitor::default();
    (0..100).for_each(|_| monitor.observe(&lookups(1_000.0, 0.0), 0.01));
    assert!(monitor.is_search_due(1e9));
    monitor.searched(1e9);
    let due_after = |mut monitor: Monitor, per_second: f64| {
        (1..=100).find(|_| {
            monitor.observe(&scans(per_second, 100.0), 1.0);
            monitor.is_search_due(1e9)
        })
    };
    assert!(due_after(monitor.clone(), 500.0).is_some_and(|seconds| (3..=6).contains(&seconds)));
    assert!(due_after(monitor, 5.0).is_none(), "500 operations in all");
}

/// A phase of a mix that was met before is expected to last as long as the phases of that mix, or
/// as the last of them; then what came before is expected back.
#[test]
fn phases_are_expected_to_last_as_long_as_those_before() {
    let phase = |monitor: &mut Monitor, of: &dyn Fn(f64) -> Operations, number: f64| {
        (0..(number / 1_000.0) as u64).for_each(|_| monitor.observe(&of(1_000.0), 0.0));
    };
    let reads = |number: f64| lookups(0.0, number);
    let mut monitor = Monitor::default();
    let unknown = |monitor: &Monitor| {
        let Outlook { seen, expected, is_passing } = monitor.outlook();
        assert!(expected == seen.sum() && !is_passing && monitor.outlook_of_alternation().is_none(), "{monitor:?}");
    };
    phase(&mut monitor, &reads, 1_000_000.0);
    unknown(&monitor);
    phase(&mut monitor, &updates, 200_000.0);
    unknown(&monitor);
    phase(&mut monitor, &reads, 100_000.0);
    // How much of a phase is seen of it depends on how soon it is noticed.
    let nearly = |monitor: &Monitor, length: f64| {
        let Outlook { seen, expected, is_passing } = monitor.outlook();
        let least = length - seen.sum() - 2.0 * WINDOW;
        assert!((least..least + 3.0 * WINDOW).contains(&expected) && is_passing, "{length}: {expected} {monitor:?}");
    };
    nearly(&monitor, 1_000_000.0);
    phase(&mut monitor, &updates, 100_000.0);
    nearly(&monitor, 200_000.0);
    phase(&mut monitor, &reads, 70_000.0);
    nearly(&monitor, 100_000.0);
    let Outlook { seen, expected, .. } = monitor.outlook_of_alternation().expect("both have come again");
    assert!((0.35..0.65).contains(&(seen.updates / seen.sum())), "one phase of each: {seen:?}");
    assert!(expected > seen.sum(), "as long again as all of them: {expected}");
    // Beyond the length that was expected, nothing is known.
    phase(&mut monitor, &reads, 500_000.0);
    let Outlook { seen, expected, is_passing } = monitor.outlook();
    assert!(!is_passing && expected < seen.sum() && expected > seen.sum() - 110_000.0, "{expected} {seen:?}");
}

/// Two designs, each the better one for one of two mixes, as a controller that prices them exactly
/// chooses between them. Seconds are those beyond the better design.
#[derive(Clone, Copy, Debug)]
struct Rivals {
    /// Seconds of a lookup and of an update, with each design.
    op_seconds: [[f64; 2]; 2],
    /// Seconds of the change away from each.
    change_seconds: [f64; 2],
}

/// When a change is made, once it is noticed that the other design is better.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Strategy {
    Decided,
    Always,
    Never,
}

/// The cost of a workload of two mixes that alternate, and the number of changes.
struct Alternated {
    seconds: f64,
    changes: u64,
}

impl Rivals {
    fn mean(&self, design: usize, mix: &Operations) -> f64 {
        let [lookup, update] = self.op_seconds[design];
        (lookup * mix.existing + update * mix.updates) / mix.sum()
    }

    /// Judges the change to the other design, which is the decision if it pays.
    fn judge(&self, present: usize, outlook: &Outlook) -> Judgement<bool> {
        let (now, other) = (self.mean(present, &outlook.seen), self.mean(1 - present, &outlook.seen));
        let (there, back) = (self.change_seconds[present], self.change_seconds[1 - present]);
        let saves = 1.0 - other / now >= GAIN_MIN;
        let is_change = saves && outlook.net_seconds(now - other, there, back) > 0.0;
        Judgement { decision: is_change, is_change, saves }
    }

    fn is_change(&self, strategy: Strategy, present: usize, monitor: &Monitor) -> bool {
        match strategy {
            Strategy::Decided => {
                let judge = |outlook: &Outlook| Some(Ok::<_, Infallible>(self.judge(present, outlook)));
                in_phase_or_alternation(monitor, judge) == Some(Ok(true))
            }
            Strategy::Always => self.judge(present, &monitor.outlook()).saves,
            Strategy::Never => false,
        }
    }

    /// Runs so many pairs of phases, each of `length` operations.
    fn alternate(&self, strategy: Strategy, length: u64, pairs: u64) -> Alternated {
        const EACH: u64 = 5_000;
        let (mut monitor, mut present) = (Monitor::default(), 0);
        let mut sum = Alternated { seconds: 0.0, changes: 0 };
        for number in 0..2 * pairs * (length / EACH) {
            let is_update = number / (length / EACH) % 2 == 1;
            let operations = if is_update { updates(EACH as f64) } else { lookups(0.0, EACH as f64) };
            let [one, other] = [0, 1].map(|design| self.mean(design, &operations));
            sum.seconds += ([one, other][present] - one.min(other)) * EACH as f64;
            monitor.observe(&operations, 0.0);
            if monitor.is_search_due(1e9) {
                monitor.searched(1e9);
                if self.is_change(strategy, present, &monitor) {
                    sum.seconds += self.change_seconds[present];
                    sum.changes += 1;
                    present = 1 - present;
                }
            }
        }
        sum
    }
}

/// Where two mixes alternate, every so many operations, the decisions cost little more than twice
/// the better of a change at each beginning of a phase, as soon as it is noticed, and of none.
/// Where none is better, a few changes are made in the beginning, and no more.
#[test]
fn alternating_mixes() {
    const PAIRS: u64 = 20;
    let (mut worst, mut sum, mut number): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let gains = [0.2, 1.0, 5.0];
    let changes = [0.0, 1e5, 1e6];
    for (index, length) in (0..81).flat_map(|index| {
        [60_000, 100_000, 150_000, 200_000, 300_000, 500_000, 1_000_000, 2_000_000].map(|length| (index, length))
    }) {
        let op_seconds = [[1.0, 1.0 + gains[index % 3]], [1.0 + gains[index / 3 % 3], 1.0]];
        let change_seconds = [changes[index / 9 % 3], changes[index / 27]];
        let rivals = Rivals { op_seconds, change_seconds };
        let round_trip: f64 = change_seconds.iter().sum();
        if round_trip == 0.0 {
            continue;
        }
        let run = |strategy| rivals.alternate(strategy, length, PAIRS);
        let (decided, always, never) = (run(Strategy::Decided), run(Strategy::Always), run(Strategy::Never));
        let better = always.seconds.min(never.seconds);
        // The first phases of each mix are new.
        let ratio = (decided.seconds - 2.0 * round_trip).max(0.0) / better;
        let told =
            || format!("{rivals:?}, phases of {length}: {} seconds, {} changes", decided.seconds, decided.changes);
        assert!(ratio < 2.7, "{ratio} times the better of {} and {}: {}", always.seconds, never.seconds, told());
        assert!(decided.changes <= 2 * PAIRS, "{}", told());
        if 3.0 * never.seconds < always.seconds {
            assert!(decided.changes <= 4, "{}", told());
        }
        (worst, sum, number) = (worst.max(ratio), sum + ratio, number + 1.0);
    }
    println!("{number} alternations cost {} times the better strategy in the mean, {worst} at most", sum / number);
    assert!(sum / number < 1.5);
}

fn request() -> Request {
    Request {
        entries: ENTRIES,
        entry_bytes: ENTRY_BYTES,
        block_bytes: 4096,
        memory: Bytes(16 << 20),
        // Replaced by that of the phase.
        workload: Workload::of_parts(1.0, 1.0, 1.0, 1.0, 0.0).expect("shares"),
        inserts: 0.0,
        theta: 0.0,
        device: Device::nvme(),
        bounds: Bounds::default(),
        limits: Limits { may_lack_filters: false, ..Limits::default() },
    }
}

/// What is decided about a loaded tree of this policy after these operations.
fn decided(specification: &str, filter: &str, request: &Request, operations: Operations) -> Decision {
    decided_with(Bytes(1 << 20), specification, filter, request, operations)
}

fn decided_with(
    buffer: Bytes,
    specification: &str,
    filter: &str,
    request: &Request,
    operations: Operations,
) -> Decision {
    decided_beside((buffer, 4096), specification, filter, request, operations)
}

/// The same of a tree with memtables and blocks of these sizes.
fn decided_beside(
    (buffer, block_bytes): (Bytes, u64),
    specification: &str,
    filter: &str,
    request: &Request,
    operations: Operations,
) -> Decision {
    let parsed: Policy = policy::parse(specification).expect(specification);
    let tree = loaded(&parsed, buffer, Bytes(ENTRIES * ENTRY_BYTES));
    let present = Present {
        policy: &parsed,
        filter: filter.parse().expect(filter),
        block_bytes,
        shape: tree.shape(),
        occupancy: tree.occupancy(),
    };
    let decision = decide(&seen(&[operations]), request, &present, &|| true);
    decision.expect("there are operations").expect("there is memory")
}

const FILTER: &str = "blocked:bits=10,allocation=monkey";

/// A tree that is written to goes to a design with fewer writes, one that is scanned to one with
/// fewer runs; and what was changed to is not changed again by the same workload.
#[test]
fn changes_pay_and_are_not_repeated() {
    let request = request();
    let many = 3e6;
    let mixes =
        [("leveling:T=2", updates(many)), ("tiering:T=10", scans(many, 10.0)), ("tiering:T=10", lookups(many, 0.0))];
    for (words, operations) in mixes {
        let decision = decided(words, FILTER, &request, operations);
        let (before, after) = (&decision.before, &decision.after);
        println!("{words}: {} {} {}: {decision:?}", after.policy, after.buffer, after.filter_specification);
        assert!(decision.is_change, "{words}");
        assert!(decision.gain_seconds() > decision.change_seconds);
        assert!(after.seconds_per_op < (1.0 - GAIN_MIN) * before.seconds_per_op);
        let (old, new) = (&before.prediction, &after.prediction);
        if operations.updates > 0.0 {
            assert!(new.write_amplification < old.write_amplification);
        } else if operations.scans > 0.0 {
            assert!(new.scan_reads[0].mean() < old.scan_reads[0].mean());
        } else {
            assert!(new.zero_result_reads.mean() < old.zero_result_reads.mean());
        }
        let (specification, filter) = (after.policy.to_string(), &after.filter_specification);
        let again = decided_with(after.buffer, &specification, filter, &request, operations);
        assert!(!again.is_change, "{words}: {specification}, and then {}", again.after.policy);
    }
}

/// A change that costs more than it has saved so far waits until the phase has lasted as long.
#[test]
fn changes_wait_until_they_pay() {
    let (buffer, filter) = (Some(Bytes(1 << 20)), Some(FILTER.parse().expect("a filter")));
    let request = Request { limits: Limits { buffer, filter, ..Limits::default() }, ..request() };
    let of = |number: f64| decided("tiering:T=10", FILTER, &request, scans(number, 10.0));
    let (few, many) = (of(100.0), of(3e6));
    assert!(!few.is_change && few.operations == 100.0);
    assert!(many.is_change && many.change_seconds > 0.0, "{many:?}");
    assert_eq!((many.after.buffer, many.after.filter), (many.before.buffer, many.before.filter), "they are given");
    let repaid = many.change_seconds / (many.before.seconds_per_op - many.after.seconds_per_op);
    assert!(!of(repaid / 100.0).is_change && of(100.0 * repaid).is_change, "{repaid}");
}

/// A mix that was met before is expected to pass: a change pays for the way back, too.
#[test]
fn changes_for_a_mix_that_passes_pay_for_the_way_back() {
    let parsed: Policy = policy::parse("tiering:T=10").expect("a policy");
    let tree = loaded(&parsed, Bytes(1 << 20), Bytes(ENTRIES * ENTRY_BYTES));
    let filter = FILTER.parse().expect("a filter");
    let present =
        Present { policy: &parsed, filter, block_bytes: 4096, shape: tree.shape(), occupancy: tree.occupancy() };
    let request = Request { limits: Limits { buffer: Some(Bytes(1 << 20)), ..request().limits }, ..request() };
    let mut monitor = Monitor::default();
    let mut phase = |of: &dyn Fn(f64) -> Operations, number: u64| {
        (0..number / 1_000).for_each(|_| monitor.observe(&of(1_000.0), 0.0));
        decide(&monitor, &request, &present, &|| true).expect("there are operations").expect("there is memory")
    };
    let scanned = |number: f64| scans(number, 10.0);
    let first = phase(&scanned, 100_000);
    assert_eq!((first.expected, first.back_seconds), (first.operations, 0.0));
    phase(&updates, 100_000);
    let second = phase(&scanned, 60_000);
    assert!(second.back_seconds > 0.0 && second.expected < 100_000.0, "{second:?}");
    assert!(second.gain_seconds() < first.gain_seconds());
}

/// Where phases are too short for a change that would save time, the mixes that alternate are one
/// workload, and the change is decided for that, once they have come back often enough.
#[test]
fn changes_for_mixes_that_alternate() {
    // Ten times the data, so that a phase of reads does not repay the change.
    let (entries, buffer) = (10 * ENTRIES, Bytes(10 << 20));
    let parsed: Policy = policy::parse("tiering:T=10").expect("a policy");
    let tree = loaded(&parsed, buffer, Bytes(entries * ENTRY_BYTES));
    let filter = FILTER.parse().expect("a filter");
    let limits = Limits { buffer: Some(buffer), filter: Some(filter), ..request().limits };
    // Scans of many runs cost so little more that a phase of them does not repay the change.
    let device = Device { scan_block_seconds: 1e-9, ..request().device };
    let request = Request { entries, memory: Bytes(64 << 20), limits, device, ..request() };
    let present =
        Present { policy: &parsed, filter, block_bytes: 4096, shape: tree.shape(), occupancy: tree.occupancy() };
    let mut monitor = Monitor::default();
    let mut after_pairs = |number: u64| {
        for _ in 0..number {
            (0..60).for_each(|_| monitor.observe(&updates(1_000.0), 0.0));
            (0..60).for_each(|_| monitor.observe(&scans(1_000.0, 10.0), 0.0));
        }
        let decision = decide(&monitor, &request, &present, &|| true);
        (decision.expect("there are operations").expect("there is memory"), monitor.clone())
    };
    let (first, monitor) = after_pairs(1);
    assert!(!first.is_change && monitor.outlook_of_alternation().is_none(), "{first:?}");
    let (later, monitor) = after_pairs(40);
    let of_all = monitor.outlook_of_alternation().expect("both have come again");
    assert!(later.is_change && later.gain_seconds() > later.change_seconds, "{later:?}");
    assert_eq!((later.operations, later.expected), (of_all.seen.sum(), of_all.expected));
    assert!(later.workload.updates > 0.0 && later.workload.ranges > 0.0, "{:?}", later.workload);
    assert!(monitor.outlook().expected < first.expected, "the phase alone repays no more than the first one did");
}

/// Where indexes take the memory that filters need, larger blocks are chosen. The change is charged
/// with writing all data, is made once the phase has lasted for that, and is not undone.
#[test]
fn blocks_grow_where_indexes_crowd_out_filters() {
    const LARGEST: u64 = 32 << 10;
    let buffer = Bytes(64 << 10);
    // The indexes of 4 KiB blocks take half of it.
    let limits = Limits { buffer: Some(buffer), block_bytes_max: LARGEST, memtables_kept: 3.0, ..request().limits };
    let request = Request { memory: Bytes(1000 << 10), limits, ..request() };
    let filter = "blocked:bits=3,allocation=monkey";
    let of = |number: f64, request: &Request| {
        decided_beside((buffer, 4096), "leveling:T=10", filter, request, lookups(number, 0.0))
    };
    let many = of(1e8, &request);
    let Decision { before, after, change_seconds, .. } = &many;
    println!(
        "{} instead of {} µs: {}, {:?}",
        after.seconds_per_op * 1e6,
        before.seconds_per_op * 1e6,
        after.policy,
        after.variant()
    );
    assert!(many.is_change && (4097..=LARGEST).contains(&after.block_bytes), "{many:?}");
    assert!(after.split.indexes < before.split.indexes / 1.5 && after.split.filters > before.split.filters, "{many:?}");
    let rewrite_seconds = request.device.copy_seconds(Bytes(ENTRIES * ENTRY_BYTES), ENTRY_BYTES as f64);
    assert!(*change_seconds >= rewrite_seconds, "{change_seconds} s, and all data takes {rewrite_seconds} s");
    let repaid = change_seconds / (before.seconds_per_op - after.seconds_per_op);
    let few = of(repaid / 2.0, &request);
    assert!(!few.is_change || few.after.block_bytes == 4096, "{few:?}");
    // Given blocks stay.
    let given = Request { limits: Limits { block_bytes_max: 0, ..request.limits }, ..request };
    let without = of(1e8, &given);
    assert_eq!(without.after.block_bytes, 4096);
    assert!(without.after.seconds_per_op > after.seconds_per_op, "{without:?}");
    // The way back to smaller blocks is as long, and does not pay where these were chosen.
    let again = (after.buffer, after.block_bytes);
    let (policy, filter) = (after.policy.to_string(), &after.filter_specification);
    let kept = decided_beside(again, &policy, filter, &request, lookups(1e8, 0.0));
    assert_eq!((kept.before.block_bytes, kept.is_change), (after.block_bytes, false), "{kept:?}");
}

/// A change of policy that is free is not kept from a tree because larger blocks would be still
/// better, and would have to be paid for.
#[test]
fn designs_with_the_present_blocks_are_weighed_as_well() {
    let limits = Limits { block_bytes_max: 32 << 10, memtables_kept: 3.0, ..request().limits };
    for memory in [Bytes(1300 << 10), Bytes(3 << 19), Bytes(2 << 20), Bytes(16 << 20)] {
        let request = Request { memory, limits, ..request() };
        let decision =
            decided_beside((Bytes(64 << 10), 4096), "leveling:T=2", "bloom:bits=4", &request, updates(30_000.0));
        println!("{memory}: {} {:?} {}", decision.after.policy, decision.after.variant(), decision.change_seconds);
        assert!(decision.is_change && decision.after.block_bytes == 4096, "{memory}: {decision:?}");
    }
}

/// A search ends when it is told to.
#[test]
fn searches_end_when_told() {
    let parsed: Policy = policy::parse("tiering:T=10").expect("a policy");
    let tree = loaded(&parsed, Bytes(1 << 20), Bytes(ENTRIES * ENTRY_BYTES));
    let filter = FILTER.parse().expect("a filter");
    let present =
        Present { policy: &parsed, filter, block_bytes: 4096, shape: tree.shape(), occupancy: tree.occupancy() };
    let monitor = seen(&[updates(1e6)]);
    let asked = std::cell::Cell::new(0);
    let goes_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 20
    };
    assert!(decide(&monitor, &request(), &present, &goes_on).is_none());
    assert_eq!(asked.get(), 20);
    assert!(decide(&Monitor::default(), &request(), &present, &|| true).is_none(), "nothing has happened");
    // Nothing fits, or the tree is too large to be simulated: that is an answer, and no change.
    let tiny = Request { memory: Bytes(1 << 10), ..request() };
    let refused = |request: &Request| decide(&monitor, request, &present, &|| true).expect("it was searched");
    assert!(matches!(refused(&tiny), Err(Impossible::Memory { .. })));
    let few = Request { limits: Limits { memtables_max: 10, ..request().limits }, ..request() };
    assert!(matches!(refused(&few), Err(Impossible::Memory { .. })));
}

/// The skew is that with which the cache serves the share of lookups that it does.
#[test]
fn skews() {
    use tamarack_model::cost::cache::hits;
    for theta in [0.0, 0.5, 0.99, 1.5] {
        let found = skew_of_hits(hits(1e4, 1e6, theta), 1e4, 1e6);
        assert!((found - theta).abs() < 1e-3, "{theta}: {found}");
    }
    assert_eq!(skew_of_hits(1.0, 1e6, 1e6), 0.0, "all of it is cached");
}

/// One design is priced as the search prices it.
#[test]
fn prices_are_those_of_the_search() {
    let request = Request { workload: Workload::of_parts(1.0, 1.0, 1.0, 1.0, 9.0).expect("shares"), ..request() };
    let best = tamarack_model::navigator::union::find(&request).expect("a design").best;
    assert_eq!(price(&request, &best.policy, best.buffer, best.filter), best);
}
