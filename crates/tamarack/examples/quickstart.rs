//! Open, write, read, scan, close: the whole of an ordinary program.
//!
//! ```sh
//! cargo run --example quickstart
//! ```
//!
//! It makes the directory `quickstart.db` where it is run. Run it again and see the counter grow:
//! what was stored is still there.

use tamarack::{Durability, Options, Result};

fn main() -> Result<()> {
    // Every put below returns only once it would survive a crash of the machine. The default,
    // `Durability::Buffered`, is faster by far and survives the end of the process only.
    let db = Options::new().durability(Durability::Sync).open("quickstart.db")?;

    // Keys and values are bytes; anything that can be seen as bytes will do.
    db.put("beech", "9.10")?;
    db.put("maple", "12.50")?;
    db.put("oak", "9.80")?;
    db.delete("beech")?;

    // A key that is not there is no error.
    assert_eq!(db.get("oak")?.as_deref(), Some(&b"9.80"[..]));
    assert!(db.get("beech")?.is_none());

    // Scans are ordinary iterators, in the order of keys as bytes. Each item is a result, since
    // each may have to read storage.
    for entry in db.scan("a".."p") {
        let (key, value) = entry?;
        println!("{} costs {}", key.escape_ascii(), value.escape_ascii());
    }

    let runs = match db.get("statistics/runs")? {
        Some(bytes) => u64::from_le_bytes(bytes[..].try_into().expect("this program stores eight bytes here")) + 1,
        None => 1,
    };
    db.put("statistics/runs", runs.to_le_bytes())?;
    println!("this program has run {runs} times here");

    // Dropping `db` would do as well; closing says whether something failed at the last moment.
    db.close()
}
