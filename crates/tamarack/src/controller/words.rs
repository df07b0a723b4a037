//! A decision in words.

use std::fmt::Write as _;
use std::time::Duration;

use tamarack_model::Bytes;
use tamarack_model::device::Device;
use tamarack_model::navigator::controller::{Decision, GAIN_MIN};
use tamarack_model::navigator::read_compaction::ReadCompaction;

use crate::redesign::Chosen;
use crate::stats::DecisionStats;

/// The reads whose time is told besides that of one.
const CONCURRENT_READS: f64 = 8.0;

/// With a larger share of updates, block reads decide little and are not told.
const READS_TOLD_UPDATES: f64 = 0.95;

/// The decision for people and for machines.
pub(super) fn stats(
    decision: &Decision,
    compaction: Option<&ReadCompaction>,
    device: &Device,
    now: Duration,
) -> DecisionStats {
    let Decision { before, after, .. } = decision;
    let compacted = compaction.map_or_else(String::new, |compaction| format!("; {}", one_run(compaction)));
    DecisionStats {
        at_seconds: now.as_secs_f64(),
        is_change: decision.is_change,
        operations: decision.operations as u64,
        expected_operations: decision.expected as u64,
        policy_before: before.policy.to_string(),
        policy: after.policy.to_string(),
        filter_before: before.filter_specification.clone(),
        filter: after.filter_specification.clone(),
        memtable_bytes_before: before.buffer.0,
        memtable_bytes: after.buffer.0,
        block_bytes_before: before.block_bytes,
        block_bytes: after.block_bytes,
        op_seconds_before: before.seconds_per_op,
        op_seconds: after.seconds_per_op,
        change_seconds: decision.change_seconds,
        read_seconds: device.read_seconds,
        concurrent_reads_seconds: device.concurrent_reads_seconds(CONCURRENT_READS),
        reason: reason(decision, device) + &compacted,
    }
}

/// A compaction for reads in words.
fn one_run(compaction: &ReadCompaction) -> String {
    let ReadCompaction { through, runs, bytes, operations, gain_seconds, compaction_time } = compaction;
    let levels = if *through == 1 { "level 1".to_owned() } else { format!("levels 1 to {through}") };
    format!(
        "the {runs} runs of {levels}, {:.1} MiB, are to become one in {compaction_time:.1} s, which saves {gain_seconds:.1} s in {operations:.0} operations",
        bytes.as_f64() / f64::from(1 << 20),
    )
}

/// A change in one line: the designs before and after it, and why.
pub(super) fn line(before: &Chosen, after: &Chosen, why: &str) -> String {
    let has_other_blocks = before.block_bytes != after.block_bytes;
    let blocks = |design: &Chosen| match has_other_blocks {
        true => format!(", blocks of {}", Bytes(design.block_bytes as u64)),
        false => String::new(),
    };
    format!("{before}{} → {after}{}: {why}", blocks(before), blocks(after))
}

/// Why a change at random was made. `last` is the line of the change before, whose number it goes
/// on from.
pub(super) fn at_random(last: Option<&str>) -> String {
    let number = last.and_then(|last| last.rsplit_once(' ')?.1.parse::<u64>().ok()).unwrap_or_default();
    format!("at random, change {}", number + 1)
}

/// Why the decision is as it is.
pub(super) fn reason(decision: &Decision, device: &Device) -> String {
    let Decision { workload, before, after, operations, change_seconds, .. } = decision;
    let mut words = String::new();
    let shares = [
        (workload.existing, "lookups of existing keys"),
        (workload.zero_result, "lookups of absent keys"),
        (workload.ranges, "scans"),
        (workload.updates, "updates"),
    ];
    for (share, what) in shares.into_iter().filter(|(share, _)| *share >= 0.005) {
        let separator = if words.is_empty() { "" } else { ", " };
        let _ = write!(words, "{separator}{:.0} % {what}", 100.0 * share);
        if what == "scans" {
            let _ = write!(words, " of {:.0} entries", workload.range_entries + 1.0);
        }
    }
    let _ = write!(words, " in {operations:.0} operations");
    if workload.updates < READS_TOLD_UPDATES {
        let [one, more] = [1.0, CONCURRENT_READS].map(|reads| micros(device.concurrent_reads_seconds(reads)));
        let _ = write!(words, ", a block read takes {one}, {CONCURRENT_READS:.0} at once {more}");
    }
    words.push_str(": ");
    let (old, new) = (micros(before.seconds_per_op), micros(after.seconds_per_op));
    let saved = before.seconds_per_op - after.seconds_per_op;
    let _ = if decision.is_change {
        let back = way_back(decision);
        let repaid = (change_seconds + decision.back_seconds) / saved;
        write!(
            words,
            "{new} an operation are predicted instead of {old}; the change{} takes {change_seconds:.1} s{back}, ",
            rewrite(decision)
        )
        .and_then(|()| write!(words, "which {repaid:.0} operations repay"))
    } else if saved < GAIN_MIN * before.seconds_per_op {
        write!(words, "{old} an operation are predicted, and {new} with the best design found: not worth a change")
    } else {
        let (gain, expected) = (decision.gain_seconds(), decision.expected);
        let back = way_back(decision);
        write!(
            words,
            "the best design found takes {new} an operation instead of {old}, but a change{} takes ",
            rewrite(decision)
        )
        .and_then(|()| {
            let would = format!("and would save {gain:.1} s in the {expected:.0} operations that are expected");
            write!(words, "{change_seconds:.1} s{back}, {would}")
        })
    };
    words
}

/// What a change of the size of blocks means.
fn rewrite(decision: &Decision) -> String {
    let (before, after) = (decision.before.block_bytes, decision.after.block_bytes);
    if before == after {
        return String::new();
    }
    format!(", a rewrite of all tables with blocks of {} instead of {},", Bytes(after), Bytes(before))
}

/// What the way back takes, if there is one.
fn way_back(decision: &Decision) -> String {
    match decision.back_seconds {
        0.0 => String::new(),
        seconds => format!(" and the way back {seconds:.1} s"),
    }
}

fn micros(seconds: f64) -> String {
    format!("{:.2} µs", seconds * 1e6)
}
