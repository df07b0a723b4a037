//! [`Workload`]: the mix of operations on a store.

/// Shares of operations, which add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Zero-result lookups.
    pub zero_result: f64,
    /// Lookups that find their key, each entry being equally likely.
    pub existing: f64,
    /// Scans.
    pub ranges: f64,
    /// Entries that a scan reads after the first; 0 for a scan that only seeks.
    pub range_entries: f64,
    /// Puts and deletes of new and existing keys.
    pub updates: f64,
}

impl Workload {
    /// Normalizes these amounts, given in any unit. `None` if one is negative or not finite, or all
    /// are 0.
    pub fn of_parts(zero_result: f64, existing: f64, ranges: f64, updates: f64, range_entries: f64) -> Option<Self> {
        let sum = zero_result + existing + ranges + updates;
        let all = [zero_result, existing, ranges, updates, range_entries];
        let sound = all.iter().all(|part| part.is_finite() && *part >= 0.0) && sum > 0.0 && sum.is_finite();
        let share = |part: f64| part / sum;
        sound.then(|| Self {
            zero_result: share(zero_result),
            existing: share(existing),
            ranges: share(ranges),
            range_entries,
            updates: share(updates),
        })
    }
}

/// Shares add up, and invalid workloads are refused.
#[test]
fn shares() {
    let workload = Workload::of_parts(1.0, 2.0, 0.0, 5.0, 0.0).expect("a workload");
    assert_eq!((workload.zero_result, workload.existing, workload.updates), (0.125, 0.25, 0.625));
    for parts in [[0.0; 4], [-1.0, 2.0, 0.0, 0.0], [f64::NAN, 1.0, 0.0, 0.0], [f64::MAX, f64::MAX, 0.0, 0.0]] {
        assert_eq!(Workload::of_parts(parts[0], parts[1], parts[2], parts[3], 0.0), None, "{parts:?}");
    }
}
