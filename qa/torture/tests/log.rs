//! A program that uses the crate `log`, and turns on the feature `log` of `tracing`, sees
//! background work and failures among its records, as docs/GUIDE.md says. No `tracing` subscriber
//! is set.

use std::sync::{Arc, Mutex};

use log::{Level, LevelFilter, Log, Metadata, Record};
use tamarack::{AdvancedOptions, Options, Result, step};
use tamarack_env::SimEnv;
use tamarack_env::sim::{Failure, Fault};

/// The logger of a program: keeps level, target and text.
struct Kept(Mutex<Vec<(Level, String, String)>>);

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let record = (record.level(), record.target().to_owned(), record.args().to_string());
        self.0.lock().expect("no holder panics").push(record);
    }

    fn flush(&self) {}
}

/// The records that came since the last call.
fn records() -> Vec<(Level, String, String)> {
    std::mem::take(&mut *KEPT.0.lock().expect("no holder panics"))
}

/// Returns true if a record of the engine has this level and a text that begins so.
fn has(records: &[(Level, String, String)], level: Level, text: &str) -> bool {
    let is_it = |(of, target, said): &(Level, String, String)| {
        *of == level && target.starts_with("tamarack::") && said.starts_with(text)
    };
    records.iter().any(is_it)
}

#[test]
fn background_work_and_failures_are_log_records() -> Result<()> {
    log::set_logger(&KEPT).expect("the only logger");
    log::set_max_level(LevelFilter::Debug);

    let env = SimEnv::new(1);
    let options = Options::new().advanced(AdvancedOptions::new().env(Arc::new(env.clone())));
    let db = options.open("/db")?;
    for round in 0..2 {
        db.put("oak", format!("{round}"))?;
        db.flush()?;
    }
    db.compact()?;
    let told = records();
    assert!(has(&told, Level::Debug, "flush; job="), "{told:#?}");
    assert!(has(&told, Level::Debug, "flush finished"), "{told:#?}");
    assert!(has(&told, Level::Debug, "compaction; job="), "{told:#?}");
    let is_severe = |(level, ..): &(Level, String, String)| *level < Level::Info;
    assert!(!told.iter().any(is_severe), "nothing has failed: {told:#?}");

    db.put("elm", "7.20")?;
    env.inject(Fault::new(Failure::StorageFull).step(step::TABLE_WRITE));
    db.flush().expect_err("there is no space");
    let told = records();
    assert!(has(&told, Level::Error, "background job failed"), "{told:#?}");
    Ok(())
}
