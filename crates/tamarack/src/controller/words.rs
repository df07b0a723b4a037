//! A decision in words.

use std::fmt::Write as _;
use std::time::Duration;

use tamarack_model::navigator::controller::{Decision, GAIN_MIN};
use tamarack_model::navigator::union::PricedDesign;

use crate::stats::DecisionStats;

/// The decision for people and for machines.
pub(super) fn stats(decision: &Decision, now: Duration) -> DecisionStats {
    let Decision { before, after, .. } = decision;
    DecisionStats {
        at_seconds: now.as_secs_f64(),
        is_change: decision.is_change,
        operations: decision.operations as u64,
        policy_before: before.policy.to_string(),
        policy: after.policy.to_string(),
        filter_before: before.filter_specification.clone(),
        filter: after.filter_specification.clone(),
        memtable_bytes_before: before.buffer.0,
        memtable_bytes: after.buffer.0,
        op_seconds_before: before.seconds_per_op,
        op_seconds: after.seconds_per_op,
        change_seconds: decision.change_seconds,
        reason: reason(decision),
    }
}

/// The decision in one line, with the designs before and after it.
pub(super) fn line(decision: &Decision) -> String {
    let design = |design: &PricedDesign| {
        let (policy, filter) = (&design.policy, &design.filter_specification);
        format!("{policy}, {filter}, memtables of {}", design.buffer)
    };
    format!("{} → {}: {}", design(&decision.before), design(&decision.after), reason(decision))
}

fn reason(decision: &Decision) -> String {
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
    let _ = write!(words, " in {operations:.0} operations: ");
    let (old, new) = (micros(before.seconds_per_op), micros(after.seconds_per_op));
    let saved = before.seconds_per_op - after.seconds_per_op;
    let _ = if decision.is_change {
        let repaid = change_seconds / saved;
        write!(words, "{new} an operation are predicted instead of {old}; the change takes {change_seconds:.1} s, ")
            .and_then(|()| write!(words, "which {repaid:.0} operations repay"))
    } else if saved < GAIN_MIN * before.seconds_per_op {
        write!(words, "{old} an operation are predicted, and {new} with the best design found: not worth a change")
    } else {
        let gain = decision.gain_seconds();
        write!(words, "the best design found takes {new} an operation instead of {old}, but a change takes ")
            .and_then(|()| write!(words, "{change_seconds:.1} s, and would save {gain:.1} s so far"))
    };
    words
}

fn micros(seconds: f64) -> String {
    format!("{:.2} µs", seconds * 1e6)
}
