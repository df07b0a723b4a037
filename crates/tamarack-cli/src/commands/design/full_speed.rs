//! Costs beside a writer at full speed, if there is one and they can be predicted soon.

use tamarack_model::design::Design;
use tamarack_model::navigator::union::Request;
use tamarack_model::prediction::{Length, Lookups, Prediction, Question, Writes, predict};
use tamarack_model::simulate::{FullSpeed, Pace, Threads};

use super::request::DesignRequest;

/// The most flushes after which costs at full speed are predicted: a second or two.
pub(super) const FULL_SPEED_FLUSHES_MAX: u64 = 20_000;

/// The costs beside a writer at full speed.
pub(super) enum FullSpeedCosts {
    Predicted(Box<Prediction>),
    /// Nothing is written.
    WithoutWriters,
    /// There are more flushes than [`FULL_SPEED_FLUSHES_MAX`].
    TooManyFlushes,
}

/// Predicts the costs beside a writer at full speed.
pub(super) fn predicted(design: &Design<'_>, settled: &Prediction, request: &DesignRequest) -> FullSpeedCosts {
    match settled.flushes {
        0 => return FullSpeedCosts::WithoutWriters,
        1..=FULL_SPEED_FLUSHES_MAX => {}
        _ => return FullSpeedCosts::TooManyFlushes,
    }
    let Request { entry_bytes, workload, inserts, theta, device, .. } = request.setting;
    let pace = Pace::AtFullSpeed(FullSpeed::of(&device, entry_bytes as f64, Threads::of_cores(request.cores)));
    let scans = [1, (workload.range_entries as u64).saturating_add(1)];
    let writes = Writes::Puts { inserts, theta };
    let question = Question {
        writes,
        scans: &scans,
        digits: 256.0,
        length: Length::Turnovers(2.0),
        pace,
        lookups: Lookups::Countless,
    };
    FullSpeedCosts::Predicted(Box::new(predict(design, &question)))
}
