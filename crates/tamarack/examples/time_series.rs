//! Measurements of many machines over time: the newest are asked for, old ones are dropped, and the
//! space they took is given back.
//!
//! ```sh
//! cargo run --example time_series
//! ```
//!
//! ```text
//! key    machine '/' second (8 bytes, big-endian)      value   load in per mille (2 bytes)
//!
//! retention, machine by machine:
//!   m00/0 ………………… m00/keep │ m00/keep ………… m00/now │ m01/0 …
//!   └ deleted, in batches ──┘ └ stays ────────────┘
//! ```
//!
//! Why not second first and machine second? Then all machines' readings of one moment would stand
//! together, writing would be a little cheaper (keys ascend), and "the last hour
//! of one machine" would have to skip all the others. Put first what questions fix, and last what
//! they leave open.
//!
//! It makes the directory `series.db` where it is run.

use tamarack::{Batch, Db, Result};

const MACHINES: u64 = 20;
const SECONDS: u64 = 3600;

/// Readings older than this are of no use to anybody.
const KEEP_SECONDS: u64 = 600;

fn main() -> Result<()> {
    let db = Db::open("series.db")?;
    // One batch for each second: the readings of a moment are all there, or none of them, whatever
    // happens.
    for second in 0..SECONDS {
        let mut batch = Batch::new();
        for machine in 0..MACHINES {
            batch.put(key(machine, second), load(machine, second).to_be_bytes());
        }
        db.write(&batch)?;
    }

    // A range of time of one machine is a range of keys.
    let (from, to) = (SECONDS - 60, SECONDS);
    let last_minute: Result<Vec<u16>> = db.scan(key(7, from)..key(7, to)).map(|entry| Ok(number(&entry?.1))).collect();
    let last_minute = last_minute?;
    assert_eq!(last_minute.len(), 60);
    let mean = last_minute.iter().map(|load| f64::from(*load)).sum::<f64>() / 60.0;
    println!("machine 7, last minute: {mean:.0} per mille on average");

    // The newest reading of each machine: the last key of each, found from the other end, without
    // reading what is before it.
    for machine in 0..3 {
        let newest = db.scan(key(machine, 0)..key(machine, u64::MAX)).next_back().transpose()?;
        let (newest, load) = newest.expect("every machine has readings");
        println!("machine {machine}: {} per mille at second {}", number(&load), second(&newest));
        assert_eq!(second(&newest), SECONDS - 1);
    }

    // Retention. A delete is a write, too: a tombstone, which hides what is older. Batches keep it
    // quick, and bound what one of them holds in memory.
    db.flush()?;
    let before = on_storage(&db);
    let dropped = retain(&db, SECONDS - KEEP_SECONDS)?;
    assert_eq!(dropped, MACHINES * (SECONDS - KEEP_SECONDS));
    assert_eq!(db.scan(..).count() as u64, MACHINES * KEEP_SECONDS);

    // Compactions remove tombstones and the entries that they hide: over time while the database is
    // written to, or now.
    db.compact()?;
    println!("dropped {dropped} readings: {before} entries on storage before, {} after", on_storage(&db));
    assert_eq!(on_storage(&db), MACHINES * KEEP_SECONDS);
    db.close()
}

/// Entries in tables: readings, and tombstones if there are any.
fn on_storage(db: &Db) -> u64 {
    db.stats().levels.iter().map(|level| level.total().entries).sum()
}

/// Deletes all readings before that second; returns how many there were.
fn retain(db: &Db, keep_from: u64) -> Result<u64> {
    let (mut batch, mut dropped) = (Batch::new(), 0);
    for machine in 0..MACHINES {
        // The scan has its own snapshot: deletes behind it do not disturb it.
        for entry in db.scan(key(machine, 0)..key(machine, keep_from)) {
            batch.delete(&entry?.0);
            dropped += 1;
            if batch.len() == 1000 {
                db.write(&batch)?;
                batch.clear();
            }
        }
    }
    db.write(&batch)?;
    Ok(dropped)
}

fn key(machine: u64, second: u64) -> Vec<u8> {
    [format!("m{machine:02}/").as_bytes(), &second.to_be_bytes()].concat()
}

fn second(key: &[u8]) -> u64 {
    u64::from_be_bytes(*key.last_chunk().expect("each key ends with eight bytes"))
}

fn load(machine: u64, second: u64) -> u16 {
    (500.0 + 400.0 * ((second + 180 * machine) as f64 / 300.0).sin()) as u16
}

fn number(value: &[u8]) -> u16 {
    u16::from_be_bytes(value.try_into().expect("each value has two bytes"))
}
