//! [`CopySpeed`]: how fast jobs copy, as it is measured, and the limit on compactions.
//!
//! Writers are held to the measured speed, so only time in which something was copied counts. Times
//! are handed in; nothing here asks a clock.

use std::time::Duration;

/// How fast jobs copy, and how fast they may.
#[derive(Debug)]
pub(super) struct CopySpeed {
    meter: Meter,
    /// Raw bytes per second that compactions may copy, if that is limited.
    limit: Option<u64>,
    /// With a limit: no compaction goes on before that time.
    compactions_from: Duration,
}

/// How fast jobs copy, all workers together.
#[derive(Debug, Default)]
struct Meter {
    /// Since when there has been something to do without interruption.
    since: Option<Duration>,
    bytes: u64,
    speed: Option<f64>,
    /// How many measures stand behind the speed.
    measures: u32,
}

impl CopySpeed {
    /// Nothing has been measured yet.
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { meter: Meter::default(), limit, compactions_from: Duration::ZERO }
    }

    /// Raw bytes per second that jobs copy while there is something to do, within the limit; `None`
    /// if that was never measured.
    pub(super) fn get(&self) -> Option<f64> {
        let limit = self.limit.map_or(f64::INFINITY, |rate| rate as f64);
        self.meter.speed.map(|speed| speed.min(limit))
    }

    /// A job has copied some bytes, and it is now so late. `memtable_bytes` is the size of a
    /// memtable.
    pub(super) fn copied(&mut self, bytes: u64, is_flush: bool, memtable_bytes: u64, now: Duration) {
        let least = METER_BYTES.min(memtable_bytes / METER_BUFFER_SHARE).max(1);
        self.meter.copied(bytes, least, now);
        if let Some(limit) = self.limit.filter(|_| !is_flush) {
            let takes = Duration::from_secs_f64(bytes as f64 / limit as f64);
            self.compactions_from = self.compactions_from.max(now) + takes;
        }
    }

    /// When compactions may go on by the limit; in the past if they may now.
    pub(super) fn compactions_from(&self) -> Duration {
        self.compactions_from
    }

    /// A worker finds something to do, or nothing.
    pub(super) fn look(&mut self, is_busy: bool, now: Duration) {
        self.meter.look(is_busy, now);
    }
}

impl Meter {
    /// Some bytes were copied, and it is now so late. Fewer bytes than `least` are no measure yet.
    fn copied(&mut self, bytes: u64, least: u64, now: Duration) {
        let since = *self.since.get_or_insert(now);
        self.bytes += bytes;
        let time = now.saturating_sub(since);
        // The first step is a measure by itself: until then writers are let in at will, and may fill all
        // buffers.
        let window = if self.speed.is_none() { Duration::from_nanos(1) } else { METER_WINDOW };
        if time >= window && self.bytes >= least {
            let speed = self.bytes as f64 / time.as_secs_f64();
            self.measures = METER_MEASURES.min(self.measures + 1);
            let weight = 1.0 / f64::from(self.measures);
            self.speed = Some(self.speed.map_or(speed, |before| before + (speed - before) * weight));
            (self.since, self.bytes) = (Some(now), 0);
        }
    }

    /// A worker finds something to do, or nothing.
    fn look(&mut self, is_busy: bool, now: Duration) {
        if !is_busy {
            (self.since, self.bytes) = (None, 0);
        } else if self.since.is_none() {
            self.since = Some(now);
        }
    }
}

/// How many bytes must have been copied before the measure counts, or a share of a buffer if that
/// is less: where it is fewer, the time is that of syncs.
const METER_BYTES: u64 = 64 << 10;
const METER_BUFFER_SHARE: u64 = 8;

/// How long it is measured before the measure counts: several steps.
const METER_WINDOW: Duration = Duration::from_millis(40);

/// A new measure counts as one in so many, once there are as many.
const METER_MEASURES: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers are held to what was measured, so what takes time but copies nothing must not be
    /// taken for a speed: it would stop them.
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
        assert_eq!(meter.speed, Some(f64::from(10 << 20)), "what came before somebody rested does not count");
        meter.copied(0, 1000, at(500));
        assert_eq!(meter.speed, Some(f64::from(10 << 20)));
    }
}
