//! Events: their contents, what a listener may call, and that a listener can do no harm.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Batch, Db, Durability, EVENTS_MAX, Error, Event, Listener, Options, Result, step};
use tamarack_env::os::OsEnv;
use tamarack_env::sim::{Failure, Fault};
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, SimEnv, TempDir};
use tamarack_format::names::FileName;

/// A listener that keeps its events.
struct Notes(Mutex<Vec<Event>>);

impl Default for Notes {
    fn default() -> Self {
        Self(Mutex::new(Rank::Test, Vec::new()))
    }
}

impl Listener for Notes {
    fn on(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

impl Notes {
    /// Returns the events since the last call.
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn options(env: Arc<dyn Env>, listener: Arc<dyn Listener>) -> Options {
    let advanced =
        AdvancedOptions::new().env(env).memtable_bytes(1000).block_bytes(256).table_bytes(1000).cache_bytes(0);
    Options::new().advanced(advanced).listener(listener)
}

fn open(sim: &SimEnv) -> Result<(Db, Arc<Notes>)> {
    let notes = Arc::<Notes>::default();
    Ok((options(Arc::new(sim.clone()), notes.clone()).open("/db")?, notes))
}

fn fill(db: &Db, puts: u64) -> Result<()> {
    (0..puts).try_for_each(|number| db.put(format!("{:03}", number * 37 % 100), [b'v'; 100]))
}

/// Every flush and every compaction has an event when it begins and when it ends, and their sums
/// agree with the statistics.
#[test]
fn flushes_and_compactions_have_events() -> Result<()> {
    for seed in 0..20 {
        let sim = SimEnv::new(seed);
        let (db, notes) = open(&sim)?;
        fill(&db, 200)?;
        db.compact()?;
        db.compact_range("020".."040")?;
        sim.run_background_until_idle();
        let (events, stats) = (notes.take(), db.stats());
        let (mut flushing, mut running, mut flushes, mut compactions) = (0, Vec::new(), (0, 0, 0), (0, 0));
        for event in &events {
            match event {
                Event::FlushBegun { .. } => flushing += 1,
                Event::FlushEnded { raw_bytes, file_bytes, .. } => {
                    flushing -= 1;
                    flushes = (flushes.0 + 1, flushes.1 + raw_bytes, flushes.2 + file_bytes);
                }
                Event::CompactionBegun { number, cause, inputs, target, .. } => {
                    assert!(!cause.is_empty() && *inputs > 0 && *target > 0, "{event:?}");
                    running.push((*number, *target));
                }
                Event::CompactionEnded { number, target, file_bytes, .. } => {
                    let began = running.iter().position(|begun| begun.0 == *number);
                    let (_, begun) = running.remove(began.expect("an ended compaction has begun"));
                    assert_eq!(*target, begun, "{event:?}");
                    compactions = (compactions.0 + 1, compactions.1 + file_bytes);
                }
                Event::WriteThrottlingBegan { bytes_per_second } => {
                    assert!(bytes_per_second.is_finite() && *bytes_per_second > 0.0, "{event:?}");
                }
                Event::WriteThrottlingEnded | Event::WriteStallBegan | Event::WriteStallEnded => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((flushing, running.len()), (0, 0), "everything begun has ended");
        assert_eq!(flushes, (stats.flushes, stats.flushed_raw_bytes, stats.flush_bytes));
        assert_eq!(compactions, (stats.compactions, stats.compaction_bytes));
        assert!(stats.flushes > 10 && stats.compactions > 2);
    }
    Ok(())
}

/// A write stall has one event when it begins, for all stopped writers, and one when it ends.
#[test]
fn stalls_begin_and_end() -> Result<()> {
    let sim = SimEnv::new(1);
    let notes = Arc::<Notes>::default();
    let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(300).immutable_memtables_max(1);
    let db = Options::new().advanced(advanced).listener(notes.clone()).open("/db")?;
    fill(&db, 50)?;
    sim.run_background_until_idle();
    let stalls: Vec<bool> = (notes.take().iter())
        .filter_map(|event| match event {
            Event::WriteStallBegan => Some(true),
            Event::WriteStallEnded => Some(false),
            _ => None,
        })
        .collect();
    let stats = db.stats();
    assert_eq!(stalls.len() as u64, 2 * stats.write_stalls);
    assert_eq!(stats.write_stall_times.samples(), stats.write_stalls);
    assert_eq!(stats.write_stall_times.sum_ns(), (stats.write_stall_seconds * 1e9).round() as u64);
    assert!(stalls.len() > 2 && stalls.chunks(2).all(|pair| pair == [true, false]), "{stalls:?}");
    Ok(())
}

/// A failure that is retried, its recovery, and a failure that ends writing.
#[test]
fn failures_and_recoveries_have_events() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, notes) = open(&sim)?;
    sim.inject(Fault::new(Failure::StorageFull).step(step::TABLE_WRITE));
    db.put("key", "value")?;
    db.flush().expect_err("there is no space");
    sim.advance(Duration::from_secs(1));
    sim.run_background_until_idle();
    let events = notes.take();
    let [Event::FlushBegun { .. }, failed, recovered, Event::FlushEnded { .. }] = &events[..] else {
        // Publication ends the failure, right before the event that the flush has ended.
        panic!("{events:#?}");
    };
    assert!(
        matches!(failed, Event::BackgroundFailed { operation: "flush", error, .. } if error.is_storage_full()),
        "{failed:?}"
    );
    assert!(matches!(recovered, Event::BackgroundRecovered { operation: "flush" }), "{recovered:?}");
    let stats = db.stats();
    assert!(stats.background_error.is_none() && stats.writing_stopped.is_none());
    assert!(stats.last_background_error.is_some_and(|error| error.contains("table: write")));

    db.put("another", "value")?;
    sim.inject(Fault::new(Failure::SyncDropsPages).step(step::WAL_SYNC));
    assert!(matches!(db.sync(), Err(Error::Stopped { .. })));
    sim.run_background_until_idle();
    let events = notes.take();
    assert!(matches!(&events[..], [Event::WritingStopped { error: Error::Stopped { .. } }]), "{events:?}");
    assert!(db.stats().writing_stopped.is_some_and(|why| why.contains("wal: sync")));
    Ok(())
}

/// Damage has an event with the file, whatever finds it: lookups of all kinds, scans, compactions
/// and verification.
#[test]
fn damage_has_an_event_whatever_finds_it() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, notes) = open(&sim)?;
    db.put("key", "value")?;
    db.flush()?;
    sim.run_background_until_idle();
    let table = PathBuf::from("/db").join(FileName::Table(1).name());
    sim.flip_bit(&table, 10, 0).expect("the table is there");
    notes.take();
    type Finder = fn(&Db) -> bool;
    let finders: [(&str, Finder); 9] = [
        ("get", |db| db.get("key").is_err()),
        ("contains", |db| db.contains_key("key").is_err()),
        ("multi_get", |db| db.multi_get(&["key"]).is_err()),
        ("snapshot", |db| db.snapshot().get("key").is_err()),
        ("snapshot contains", |db| db.snapshot().contains_key("key").is_err()),
        ("scan", |db| db.scan(..).any(|item| item.is_err())),
        ("reverse scan", |db| db.scan(..).next_back().is_some_and(|item| item.is_err())),
        ("verify", |db| db.verify(&mut |_, _| {}).is_ok_and(|report| !report.is_ok())),
        ("merge", |db| db.compact().is_err()),
    ];
    for (name, finds) in finders {
        assert!(finds(&db), "{name} finds it");
        sim.run_background_until_idle();
        let found = notes.take().into_iter().find_map(|event| match event {
            Event::CorruptionFound { error: Error::Corruption { path, .. } } => Some(path),
            _ => None,
        });
        assert_eq!(found.as_ref(), Some(&table), "{name}");
    }
    Ok(())
}

/// A disk whose every call takes two seconds is slow.
#[test]
fn a_slow_disk_has_an_event() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, notes) = open(&sim)?;
    sim.set_cost(Duration::from_secs(2), Duration::ZERO);
    db.write_with(Batch::new().put("key", "value"), Durability::Sync)?;
    db.flush()?;
    sim.run_background_until_idle();
    let slow: Vec<&str> = (notes.take().iter())
        .filter_map(|event| match event {
            Event::DiskSlow { operation, elapsed } if *elapsed >= Duration::from_secs(2) => Some(*operation),
            _ => None,
        })
        .collect();
    for operation in ["wal: sync", "table: finish", "manifest: commit"] {
        assert!(slow.contains(&operation), "{slow:?}");
    }
    Ok(())
}

/// Events that overflow the queue are counted, and closing delivers the rest.
#[test]
fn overflowing_events_are_counted() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, notes) = open(&sim)?;
    db.put("key", "value")?;
    db.flush()?;
    sim.run_background_until_idle();
    notes.take();
    sim.flip_bit(PathBuf::from("/db").join(FileName::Table(1).name()), 10, 0).expect("the table is there");
    for _ in 0..EVENTS_MAX + 7 {
        db.get("key").expect_err("it is damaged");
    }
    db.close()?;
    let events = notes.take();
    assert_eq!(events.len(), EVENTS_MAX + 1);
    assert!(matches!(events.last(), Some(Event::Missed { events: 7 })), "{:?}", events.last());
    Ok(())
}

/// A listener may read and query statistics at every event without blocking or being blocked.
#[test]
fn a_listener_may_read() -> Result<()> {
    struct Reader {
        db: Mutex<Option<Db>>,
        reads: Mutex<u64>,
    }
    impl Listener for Reader {
        fn on(&self, _: &Event) {
            let Some(db) = self.db.lock().clone() else { return };
            db.get("050").expect("it can be read");
            assert!(db.scan(..).all(|item| item.is_ok()));
            assert!(db.stats().visible_sequence > 0);
            *self.reads.lock() += 1;
        }
    }
    let scratch = TempDir::new().expect("there is a place for it");
    let reader = Arc::new(Reader { db: Mutex::new(Rank::Test, None), reads: Mutex::new(Rank::Test, 0) });
    let db = options(OsEnv::new(), reader.clone()).open(scratch.path().join("db"))?;
    *reader.db.lock() = Some(db.clone());
    for _ in 0..10 {
        fill(&db, 200)?;
        db.compact()?;
    }
    // The listener's own handle is dropped first: it must not be the last.
    let own = reader.db.lock().take();
    drop(own);
    db.close()?;
    assert!(*reader.reads.lock() > 0);
    Ok(())
}

/// A listener that panics at every event gets the next one, and nothing else is affected.
#[test]
fn a_panic_in_a_listener_goes_no_further() -> Result<()> {
    let sim = SimEnv::new(1);
    let calls = Arc::new(Mutex::new(Rank::Test, 0));
    let counter = calls.clone();
    let panics = move |_: &Event| {
        *counter.lock() += 1;
        panic!("a listener that cannot");
    };
    let db = options(Arc::new(sim.clone()), Arc::new(panics)).open("/db")?;
    fill(&db, 100)?;
    db.compact()?;
    sim.run_background_until_idle();
    assert!(*calls.lock() > 10);
    assert_eq!(db.scan(..).filter(|item| item.is_ok()).count(), 100);
    db.close()
}
