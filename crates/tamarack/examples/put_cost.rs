//! What a put takes, to be counted in instructions: puts into one memtable and its WAL, by one
//! writer, all of it in memory. Nothing is flushed.
//!
//! ```sh
//! cargo build --release --example put_cost
//! for durability in buffered sync; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         --toggle-collect='*measured_puts*' \
//!         target/release/examples/put_cost 20000 scattered $durability
//! done
//! ```
//!
//! The arguments are the number of puts, the order of their keys (`scattered` or `ascending`), and
//! the durability. Keys have 16 bytes, values 100. Divide what was collected by the number of puts.
//! The memtable contains as many entries before the first of them is measured, so that a search in
//! it has its usual depth.

use std::hint::black_box;

use tamarack::{AdvancedOptions, Db, Durability, Options, Result};
use tamarack_env::MemoryEnv;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let puts = arguments.next().map_or(1000, |text| text.parse().expect("how many puts"));
    let order = arguments.next().unwrap_or("scattered".to_owned());
    let durability = arguments.next().unwrap_or("buffered".to_owned());
    // An entry takes 124 raw bytes, and less than as many again in the memtable.
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).memtable_bytes(1_000_000 + 4 * puts * 124);
    let options = Options::new().memory_bytes(1 << 30).advanced(advanced);
    let options = match durability.as_str() {
        "sync" => options.durability(Durability::Sync),
        _ => options.durability(Durability::Buffered),
    };
    let db = options.open("/put_cost")?;
    let number = |at: u64| if order == "ascending" { at } else { at.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
    let keys: Vec<_> = (0..2 * puts).map(|at| key(number(at))).collect();
    let (before, measured) = keys.split_at(puts as usize);
    for key in before {
        db.put(key, [b'v'; 100])?;
    }
    measured_puts(&db, measured)?;
    let stats = db.stats();
    assert!(stats.levels.iter().all(|level| level.runs.is_empty()), "nothing is to be flushed");
    println!("{puts} puts, {order}, {durability}");
    Ok(())
}

/// 16 bytes, in the order of numbers.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:            ";
    key[4..12].copy_from_slice(&number.to_be_bytes());
    key
}

#[inline(never)]
fn measured_puts(db: &Db, keys: &[[u8; 16]]) -> Result<()> {
    for key in keys {
        db.put(black_box(key), [b'v'; 100])?;
    }
    Ok(())
}
