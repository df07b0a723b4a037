//! Other databases that a history makes of its own: checkpoints, repaired copies, and databases
//! with other options that get everything by a scan and an ingest. Each must hold what this one
//! holds.

use std::path::Path;

use tamarack::{Batch, Db, Durability, Error};

use crate::model::{KeyValues, show};
use crate::operation::Reader;
use crate::options::OptionSet;
use crate::run::LockstepRun;

impl LockstepRun<'_> {
    /// Makes a checkpoint, which must equal the database, and continues with both.
    pub(crate) fn make_checkpoint(&mut self) -> Result<(), String> {
        self.look_at_checkpoint()?;
        let dir = self.world.next_directory();
        if let Err(error) = self.world.checkpoint(&dir) {
            return self.excuse(error, "checkpoint");
        }
        if self.model.stopped {
            return Err("a checkpoint was made after writing had ended".to_owned());
        }
        self.model.make_durable();
        let mut state = (*self.model.state(Reader::Now).expect("there is always a state")).clone();
        match self.use_checkpoint(&dir, &mut state) {
            Ok(true) => {
                self.coverage.checkpoints += 1;
                self.checkpoint = Some((dir, state));
                Ok(())
            }
            Ok(false) => Err("a checkpoint does not hold what the database held".to_owned()),
            // It may have got the write, or not.
            Err(error) => self.excuse_of_another(error, "a checkpoint"),
        }
    }

    /// Opens a checkpoint, writes to it and closes it; false if it does not hold what it should
    /// before or after.
    fn use_checkpoint(&self, dir: &Path, state: &mut KeyValues) -> tamarack::Result<bool> {
        let db = self.world.open_checkpoint(dir)?;
        if all_of(&db)? != *state {
            return Ok(false);
        }
        change_checkpoint(state);
        let mut batch = Batch::new();
        batch.put(ALONE, b"in the checkpoint");
        batch.delete(b"");
        db.write_with(&batch, Durability::Buffered)?;
        if state.len().is_multiple_of(2) {
            db.compact()?;
        }
        let same = all_of(&db)? == *state;
        db.close()?;
        Ok(same)
    }

    /// Checks that the last checkpoint has not changed, whatever has become of its database.
    pub(crate) fn look_at_checkpoint(&mut self) -> Result<(), String> {
        let Some((dir, state)) = self.checkpoint.take() else { return Ok(()) };
        match self.world.open_checkpoint(&dir).and_then(|db| all_of(&db)) {
            Ok(found) if found == state => Ok(()),
            Ok(found) => Err(format!("a checkpoint holds {}, not {}", show(&found), show(&state))),
            Err(error) => self.excuse_of_another(error, "an old checkpoint"),
        }
    }

    /// Checks that an interrupted checkpoint is complete, or no database.
    pub(crate) fn check_cut_checkpoint(&mut self, dir: &Path, before: &KeyValues) -> Result<(), String> {
        if !self.world.is_complete(dir) {
            return Ok(());
        }
        let mut after = before.clone();
        change_checkpoint(&mut after);
        match self.world.open_checkpoint(dir).and_then(|db| all_of(&db)) {
            Ok(found) if found == *before || found == after => Ok(()),
            Ok(found) => Err(format!("a checkpoint that was cut short holds {}, not {}", show(&found), show(before))),
            Err(error) => self.excuse_of_another(error, "a checkpoint that was cut short"),
        }
    }

    /// Moves everything to a new database with other options, by a scan and an ingest.
    pub(crate) fn transfer(&mut self, options: &OptionSet) -> Result<(), String> {
        let state = self.model.state(Reader::Now).expect("there is always a state");
        let dir = self.world.next_directory();
        let outcome = self.fill_another(&dir, options);
        self.world.remove(&dir);
        match outcome {
            Ok((found, ingested)) if found == *state && ingested == state.len() as u64 => Ok(()),
            Ok((found, _)) => {
                Err(format!("with {options} what was ingested is {}, not {}", show(&found), show(&state)))
            }
            Err(error) => self.excuse_of_another(error, "another database"),
        }
    }

    /// Returns everything in the new database, once it is closed and opened again, and how many
    /// entries were ingested.
    fn fill_another(&self, dir: &Path, options: &OptionSet) -> tamarack::Result<(KeyValues, u64)> {
        let db = self.world.open_another(dir, options)?;
        let mut ingest = db.ingest()?;
        let mut scan = self.world.db().scan(..);
        while let Some((key, value)) = scan.next_lent()? {
            ingest.put(key, value)?;
        }
        let report = ingest.finish()?;
        db.close()?;
        Ok((all_of(&self.world.open_another(dir, options)?)?, report.entries))
    }

    /// Copies the closed database without `CURRENT`, repairs the copy, and compares: nothing else
    /// is damaged, so nothing is lost.
    pub(crate) fn repair_copy(&mut self) -> Result<(), String> {
        let dir = self.world.next_directory();
        let copied = self.world.copy_without_current(&dir);
        let repaired = copied.map_err(|error| Error::io("copy", &dir, error)).and_then(|()| {
            let report = self.world.repair(&dir)?;
            Ok((report, all_of(&self.world.open_checkpoint(&dir)?)?))
        });
        self.world.remove(&dir);
        let state = self.model.state(Reader::Now).expect("there is always a state");
        match repaired {
            Ok((report, found)) if report.applied && report.lost.is_empty() && found == *state => Ok(()),
            Ok(_) if self.world.has_lost_pages() => Ok(()),
            Ok((report, found)) => {
                Err(format!("a repaired copy holds {}, not {}: {report:?}", show(&found), show(&state)))
            }
            Err(error) => self.excuse_of_another(error, "a repaired copy"),
        }
    }
}

/// A key that no history writes.
const ALONE: &[u8] = b"written to a checkpoint";

/// What is written to every checkpoint.
fn change_checkpoint(state: &mut KeyValues) {
    state.insert(ALONE.into(), b"in the checkpoint".as_slice().into());
    state.remove(b"".as_slice());
}

/// Everything in a database.
pub(crate) fn all_of(db: &Db) -> tamarack::Result<KeyValues> {
    db.scan(..).map(|item| item.map(|(key, value)| (key.into(), value.into()))).collect()
}
