//! One key for each thing, made so that the order of keys answers the questions: the readings of
//! many sensors over time.
//!
//! ```sh
//! cargo run --example prefix_scan
//! ```
//!
//! ```text
//! key      sensor '/' hour (8 bytes, most significant first)     value   degrees
//!
//! attic/0 … attic/47 │ cellar/0 … cellar/47 │ hall/0 … hall/47
//!                    └ prefix("cellar/") ───┘
//! ```
//!
//! Numbers in keys are stored with the most significant byte first: only then the order of their
//! bytes is the order of the numbers.
//!
//! It makes the directory `sensors.db` where it is run.

use tamarack::{Batch, Db, Result};

fn main() -> Result<()> {
    let db = Db::open("sensors.db")?;
    for hour in 0..48 {
        let mut batch = Batch::new();
        for (sensor, offset) in [("attic", 9), ("cellar", 2), ("hall", 5)] {
            batch.put(key(sensor, hour), (offset + hour % 24).to_string());
        }
        db.write(&batch)?;
    }

    // All readings of one sensor, in the order of time.
    assert_eq!(db.prefix("cellar/").count(), 48);

    // The last three, youngest first: the scan is asked from its other end, and reads no more than
    // it is asked for.
    for entry in db.prefix("cellar/").rev().take(3) {
        let (key, degrees) = entry?;
        println!("cellar, hour {}: {} degrees", hour(&key), degrees.escape_ascii());
    }

    // A part of the time. Bounds are as in Rust: the end of `a..b` does not count, that of `a..=b`
    // does.
    let morning: Result<Vec<_>> = db.scan(key("hall", 6)..key("hall", 12)).collect();
    let morning = morning?;
    println!("hall, {} readings from hour {} to {}", morning.len(), hour(&morning[0].0), hour(&morning[5].0));
    assert_eq!(morning.len(), 6);

    // The youngest reading before some moment, if there is one: the last key of a range.
    let latest = db.scan(key("attic", 0)..key("attic", 30)).next_back().transpose()?;
    let (latest, degrees) = latest.expect("there are readings before hour 30");
    println!("attic, before hour 30: {} degrees at hour {}", degrees.escape_ascii(), hour(&latest));
    assert_eq!(hour(&latest), 29);
    db.close()
}

fn key(sensor: &str, hour: u64) -> Vec<u8> {
    [sensor.as_bytes(), b"/", &hour.to_be_bytes()].concat()
}

fn hour(key: &[u8]) -> u64 {
    u64::from_be_bytes(*key.last_chunk().expect("each key ends with eight bytes"))
}
