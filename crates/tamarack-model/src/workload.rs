//! [`Workload`]: what is asked of a store, in shares of all operations.

/// Shares of operations; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Lookups of keys that are not there.
    pub zero_result: f64,
    /// Lookups that find their key, any entry as likely as any other.
    pub existing: f64,
    /// Scans.
    pub ranges: f64,
    /// Entries that a scan goes on to after the first, 0 for one that only seeks.
    pub range_entries: f64,
    /// Puts and deletes, of new keys and of old ones.
    pub updates: f64,
}

impl Workload {
    /// As many of each as these numbers say, in any unit. `None` if one of them is no number from 0
    /// on, or nothing is above 0.
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

/// Shares add up, and what is no workload is refused.
#[test]
fn shares() {
    let workload = Workload::of_parts(1.0, 2.0, 0.0, 5.0, 0.0).expect("a workload");
    assert_eq!((workload.zero_result, workload.existing, workload.updates), (0.125, 0.25, 0.625));
    for parts in [[0.0; 4], [-1.0, 2.0, 0.0, 0.0], [f64::NAN, 1.0, 0.0, 0.0], [f64::MAX, f64::MAX, 0.0, 0.0]] {
        assert_eq!(Workload::of_parts(parts[0], parts[1], parts[2], parts[3], 0.0), None, "{parts:?}");
    }
}
