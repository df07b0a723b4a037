//! Questions to a database about itself: statistics, verification, and calls that it must refuse.

use tamarack::Error;

use crate::copies::all_of;
use crate::model::{Guarantee, KeyValues, show};
use crate::operation::Reader;
use crate::run::LockstepRun;

/// A key that is longer than keys may be.
const KEY_BYTES_TOO_MANY: usize = (64 << 10) + 1;

impl LockstepRun<'_> {
    /// Compares what the statistics say with what the model and the harness know.
    pub(crate) fn compare_stats(&mut self) -> Result<(), String> {
        let troubled = self.world.is_troubled();
        let stats = self.world.stats().expect("the database is open");
        let live = self.model.state(Reader::Now).expect("there is always a state").len() as u64;
        let runs: usize = stats.levels.iter().map(|level| level.runs.len()).sum();
        let in_memtables: u64 = stats.memtables.iter().map(|memtable| memtable.entries).sum();
        let pins = self.model.snapshots.len() + self.model.scans.len();
        let bound = self.world.opened_with().space_bound();
        let claims = [
            // Not that all are counted: of a table that was cut, a share is, which is an estimate.
            ("all entries are missing", live == 0 || in_memtables > 0 || runs > 0),
            ("snapshots are missing", stats.snapshots >= self.model.snapshots.len()),
            ("snapshots were left behind", stats.snapshots <= pins),
            ("pauses are mistaken", stats.compactions_paused == self.world.is_paused()),
            ("the end of writing is missing", stats.writing_stopped.is_some() || !self.model.stopped),
            ("writing has stopped", stats.writing_stopped.is_none() || troubled),
            ("the background has failed", stats.last_background_error.is_none() || troubled),
            (
                "the bound on space is not the one",
                bound.is_none_or(|most| stats.space_amplification_max.unwrap_or(f64::INFINITY) == most),
            ),
            (
                "tombstones are no entries",
                stats.levels.iter().flat_map(|level| &level.runs).all(|run| run.tombstones <= run.entries),
            ),
            (
                "parts of the memory are more than all",
                stats.memory.total_bytes >= stats.memory.cache_bytes + stats.memory.memtables_bytes,
            ),
        ];
        match claims.iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((what, _)) => Err(format!("{what}: {live} live keys, {pins} snapshots and scans at most, {stats:?}")),
        }
    }

    /// Calls with arguments that are not valid; each is refused, and nothing has changed.
    pub(crate) fn ask_for_what_is_invalid(&mut self) -> Result<(), String> {
        let db = self.world.db();
        let (long_key, writes_before) = (vec![b'k'; KEY_BYTES_TOO_MANY], db.stats().entries_written);
        let large = vec![0; (self.world.opened_with().memory.unwrap_or(256 << 20).min(256 << 20) / 8) as usize + 1];
        let unordered = || {
            let mut ingest = db.ingest()?;
            ingest.put(b"b", b"")?;
            ingest.put(b"a", b"")
        };
        let calls = [
            ("a long key", db.put(&long_key, b"")),
            ("a large value", if large.len() < 1 << 20 { db.put(b"large", &large) } else { db.delete(&long_key) }),
            ("a policy of no ratio", db.set_policy("leveling:T=1")),
            ("an estimate for no policy", db.estimate_reshape("nothing", 1).map(drop)),
            ("a filter without bits", db.set_filter("bloom:bits=0")),
            ("keys out of order", unordered()),
        ];
        let written = db.stats().entries_written - writes_before;
        if written > 0 {
            return Err(format!("{written} entries were written by calls with invalid arguments"));
        }
        for (what, answer) in calls {
            match answer {
                Err(Error::InvalidArgument(_)) => {}
                Ok(()) => return Err(format!("{what} was accepted")),
                Err(error) => self.excuse(error, what)?,
            }
        }
        Ok(())
    }

    /// Opens the open database in every way; each is refused.
    pub(crate) fn open_again(&mut self) -> Result<(), String> {
        for (how, answer) in self.world.open_again() {
            match answer {
                Some(Error::Locked { .. }) => {}
                None => return Err(format!("{how} succeeded while the database was open")),
                Some(error) => self.excuse_of_another(error, how)?,
            }
        }
        Ok(())
    }

    /// Closes the database while a clone, snapshots and scans stay: they read, and write no more.
    pub(crate) fn linger(&mut self) -> Result<(), String> {
        self.count();
        let closed = self.world.close_clone();
        let guarantee = match closed {
            Ok(()) if self.model.stopped => return Err("close succeeded after writing had ended".to_owned()),
            Ok(()) => {
                self.model.make_durable();
                Guarantee::Exactly
            }
            Err(error) => {
                self.excuse(error, "close")?;
                Guarantee::Acknowledged
            }
        };
        match self.world.db().put(b"key", b"written after the end") {
            Err(Error::Stopped { .. }) => {}
            answer => return Err(format!("a write after closing: {answer:?}")),
        }
        let state = self.model.state(Reader::Now).expect("there is always a state");
        match all_of(self.world.db()) {
            Ok(found) if found == *state => {}
            Ok(found) => return Err(format!("after closing it holds {}, not {}", show(&found), show(&state))),
            Err(error) => self.excuse(error, "a scan after closing")?,
        }
        self.open_again()?;
        self.world.drop_handles();
        self.open(guarantee, None)
    }

    /// Closes the database, does something else, and opens it again. What the other thing saw in it
    /// must still be there.
    pub(crate) fn close_and(
        &mut self,
        other: impl FnOnce(&mut Self) -> Result<Option<KeyValues>, String>,
    ) -> Result<(), String> {
        self.count();
        match self.world.close() {
            Ok(()) if self.model.stopped => Err("close succeeded after writing had ended".to_owned()),
            Ok(()) => {
                self.model.make_durable();
                let seen = other(self)?;
                self.open(Guarantee::Exactly, seen)
            }
            Err(error) => {
                self.excuse(error, "close")?;
                self.open(Guarantee::Acknowledged, None)
            }
        }
    }

    /// Verifies the closed database: nothing is wrong, so nothing is to be repaired.
    pub(crate) fn verify_closed(&mut self) -> Result<(), String> {
        match self.world.verify_closed() {
            Ok(_) if self.world.has_lost_pages() => Ok(()),
            Ok((report, plan)) if report.is_ok() && report.torn.is_empty() && plan.problems.is_empty() => Ok(()),
            Ok((report, plan)) => Err(format!("of the closed database verify finds {report:?}, and repair {plan:?}")),
            Err(error) => self.excuse_of_another(error, "verifying the closed database"),
        }
    }
}
