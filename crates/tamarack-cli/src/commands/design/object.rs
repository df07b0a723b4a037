//! One design for programs: its shape, its memory and its costs.

use serde_json::{Map, Value};
use tamarack_model::design::{Priced, PricedLevel};
use tamarack_model::prediction::Prediction;
use tamarack_model::simulate::Seen;

use super::full_speed::FullSpeedCosts;
use crate::show::json;

/// The predicted means, with those beside a writer at full speed: null if there are too many
/// flushes to predict them, and left out without writers.
pub(super) fn predictions(predicted: &Prediction, full_speed: &FullSpeedCosts, seconds_per_op: f64) -> Value {
    let mut means = prediction(predicted);
    means.insert("seconds_per_op".to_owned(), seconds_per_op.into());
    means.insert("throughput_per_s".to_owned(), (1.0 / seconds_per_op).into());
    let at_full_speed = match full_speed {
        FullSpeedCosts::Predicted(found) => {
            let mut members = prediction(found);
            members.insert("put_bytes_per_s".to_owned(), found.put_bytes_per_second.into());
            Some(Value::Object(members))
        }
        FullSpeedCosts::TooManyFlushes => Some(Value::Null),
        FullSpeedCosts::WithoutWriters => None,
    };
    means.extend(at_full_speed.map(|found| ("full_speed".to_owned(), found)));
    Value::Object(means)
}

/// The predicted means, and how they vary.
fn prediction(predicted: &Prediction) -> Map<String, Value> {
    let over = |seen: Seen| {
        let members = [("mean", seen.mean().into()), ("least", seen.least.into()), ("most", seen.most.into())];
        Value::Object(json::object(members))
    };
    json::object([
        ("flushes", predicted.flushes.into()),
        ("zero_result_reads", over(predicted.zero_result_reads)),
        ("existing_reads", over(predicted.existing_reads)),
        ("range_seeks", over(predicted.scan_reads[0])),
        ("range_reads", over(predicted.scan_reads[1])),
        ("update_writes", predicted.write_amplification.into()),
        ("space_amplification", over(predicted.space_amplification)),
        ("runs", over(predicted.runs)),
        ("filter_bits_per_entry", over(predicted.filter_bits_per_entry)),
    ])
}

/// The structure of the tree, and the costs of a full one.
pub(super) fn object(policy: &str, device: &str, priced: &Priced) -> Map<String, Value> {
    let level = |level: &PricedLevel| {
        Value::Object(json::object([
            ("capacity_entries", level.capacity_entries.into()),
            ("capacity_bytes", level.capacity_bytes.0.into()),
            ("runs", level.runs.into()),
            ("size_ratio", level.size_ratio.into()),
            ("fpr", level.fpr.into()),
            ("bits_per_entry", level.bits_per_entry.into()),
        ]))
    };
    let levels: Vec<Value> = priced.levels.iter().map(level).collect();
    let cost = priced.cost;
    json::object([
        ("policy", policy.into()),
        ("device", device.into()),
        ("shape", Value::Object(json::object([("levels", levels.into())]))),
        (
            "memory",
            Value::Object(json::object([
                ("buffer_bytes", priced.shape.buffer().0.into()),
                ("filter_bits", (priced.filter_bits.round() as u64).into()),
                ("cache_bytes", 0.into()),
            ])),
        ),
        (
            "cost",
            Value::Object(json::object([
                ("zero_result_reads", cost.zero_result_reads.into()),
                ("existing_reads", cost.existing_reads.into()),
                ("range_seeks", cost.range_seeks.into()),
                ("update_writes", cost.update_writes.into()),
                ("space_amplification", cost.space_amplification.into()),
                ("seconds_per_op", cost.seconds_per_op.into()),
                ("throughput_per_s", cost.throughput_per_s().into()),
            ])),
        ),
    ])
}
