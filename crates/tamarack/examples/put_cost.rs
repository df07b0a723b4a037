//! What a put takes, to be counted in instructions: puts of scattered keys into an active memtable,
//! one commit group each, WAL included, all of it in memory.
//!
//! ```sh
//! cargo build --release --example put_cost
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*counted_puts*' \
//!     target/release/examples/put_cost 20000
//! ```
//!
//! Divide what it collected by the number of puts. Without an argument it makes a few puts.

use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::MemoryEnv;

fn main() -> Result<()> {
    let puts = std::env::args().nth(1).map_or(1000, |text| text.parse().expect("how many puts"));
    // No memtable becomes immutable meanwhile.
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).memtable_bytes(1 << 30);
    let db = Options::new().memory_bytes(4 << 30).advanced(advanced).open("/put_cost")?;
    counted_puts(&db, puts)?;
    println!("{puts} puts of 16 + 100 bytes");
    Ok(())
}

#[inline(never)]
fn counted_puts(db: &Db, puts: u64) -> Result<()> {
    for number in 0..puts {
        let mut key = *b"key:            ";
        key[4..12].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        db.put(key, [b'v'; 100])?;
    }
    Ok(())
}
