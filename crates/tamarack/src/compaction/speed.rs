//! [`CopySpeed`]: the measured speed of jobs, and the limit on compactions.
//!
//! Write throttling depends on the measured speed, so only time spent copying counts. Times are
//! parameters; nothing here reads a clock.

use std::time::Duration;

/// Speed of jobs, and its limit.
#[derive(Debug)]
pub(super) struct CopySpeed {
    meter: Meter,
    /// Limit on the speed of compactions, in raw bytes per second.
    limit: Option<u64>,
    /// Time before which no compaction goes on, because of the limit.
    compactions_from: Duration,
}

/// Measured speed of all workers together.
#[derive(Debug, Default)]
struct Meter {
    /// Beginning of the present uninterrupted work.
    since: Option<Duration>,
    bytes: u64,
    speed: Option<f64>,
    /// Number of measurements behind the speed, up to [`METER_MEASURES`].
    measures: u32,
}

impl CopySpeed {
    /// Makes a state without measurements.
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { meter: Meter::default(), limit, compactions_from: Duration::ZERO }
    }

    /// Returns the speed of jobs while busy, in raw bytes per second, at most the limit; `None` if
    /// not measured.
    pub(super) fn get(&self) -> Option<f64> {
        let limit = self.limit.map_or(f64::INFINITY, |rate| rate as f64);
        self.meter.speed.map(|speed| speed.min(limit))
    }

    /// As [`CopySpeed::get`], but the limit, if there is one, until something is measured.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.get().or(self.limit.map(|rate| rate as f64))
    }

    /// Adds bytes that a job has copied up to `now`. `memtable_bytes` is the size of a memtable.
    pub(super) fn copied(&mut self, bytes: u64, is_flush: bool, memtable_bytes: u64, now: Duration) {
        let least = METER_BYTES.min(memtable_bytes / METER_BUFFER_SHARE).max(1);
        self.meter.copied(bytes, least, now);
        if let Some(limit) = self.limit.filter(|_| !is_flush) {
            let takes = Duration::from_secs_f64(bytes as f64 / limit as f64);
            self.compactions_from = self.compactions_from.max(now) + takes;
        }
    }

    /// Returns the time at which the limit lets compactions go on; in the past if it does now.
    pub(super) fn compactions_from(&self) -> Duration {
        self.compactions_from
    }

    /// Notes whether workers are busy.
    pub(super) fn look(&mut self, is_busy: bool, now: Duration) {
        self.meter.look(is_busy, now);
    }
}

impl Meter {
    /// Adds bytes copied up to `now`. Fewer bytes than `least` make no measurement.
    fn copied(&mut self, bytes: u64, least: u64, now: Duration) {
        let since = *self.since.get_or_insert(now);
        self.bytes += bytes;
        let time = now.saturating_sub(since);
        // The first step is a measurement by itself: until then writers are not throttled, and may
        // fill all memtables.
        let window = if self.speed.is_none() { Duration::from_nanos(1) } else { METER_WINDOW };
        if time >= window && self.bytes >= least {
            let speed = self.bytes as f64 / time.as_secs_f64();
            self.measures = METER_MEASURES.min(self.measures + 1);
            let weight = 1.0 / f64::from(self.measures);
            self.speed = Some(self.speed.map_or(speed, |before| before + (speed - before) * weight));
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// Notes whether workers are busy.
    fn look(&mut self, is_busy: bool, now: Duration) {
        if !is_busy {
            (self.since, self.bytes) = (None, 0);
        } else if self.since.is_none() {
            self.since = Some(now);
        }
    }
}

/// Minimum bytes of a measurement, or a share of a memtable if that is less: with fewer bytes,
/// syncs dominate the time.
const METER_BYTES: u64 = 64 << 10;
const METER_BUFFER_SHARE: u64 = 8;

/// Minimum duration of a measurement: several steps.
const METER_WINDOW: Duration = Duration::from_millis(40);

/// Weight of a new measurement is one in this many, once there are as many.
const METER_MEASURES: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Time that copies nothing is no measurement: a speed near 0 would stop all writers.
    #[test]
    fn syncs_alone_are_no_speed() {
        let at = Duration::from_millis;
        let mut meter = Meter::default();
        meter.look(true, at(0));
        meter.copied(0, 1000, at(50));
        meter.copied(100, 1000, at(100));
        assert_eq!(meter.speed, None);
        meter.look(false, at(100));
        meter.look(true, at(200));
        meter.copied(1 << 20, 1000, at(300));
        assert_eq!(meter.speed, Some(f64::from(10 << 20)), "bytes from before an idle time do not count");
        meter.copied(0, 1000, at(500));
        assert_eq!(meter.speed, Some(f64::from(10 << 20)));
    }
}
