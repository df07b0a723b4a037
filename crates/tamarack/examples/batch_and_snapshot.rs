//! Money moves between accounts, and is neither made nor lost, whoever looks and whenever the
//! machine stops.
//!
//! ```sh
//! cargo run --example batch_and_snapshot
//! ```
//!
//! * A *batch* is written as one: after a crash, and for other readers, all of it is there or
//!   nothing.
//! * A *snapshot* is the database as it was at one moment: reading many keys through it gives one
//!   consistent picture, however long that takes and whatever is written meanwhile.
//!
//! It makes the directory `accounts.db` where it is run.

use tamarack::{Batch, Db, Result, Snapshot};

fn main() -> Result<()> {
    let db = Db::open("accounts.db")?;
    db.write(Batch::new().put("account/ada", "100").put("account/ben", "100").delete("last transfer"))?;
    let before = db.snapshot();

    for amount in [30, 5, 25] {
        transfer(&db, "ada", "ben", amount)?;
    }

    println!("before: {}", shown(&before)?);
    println!("now:    {}", shown(&db.snapshot())?);
    assert_eq!(total(&before)?, 200);
    assert_eq!(total(&db.snapshot())?, 200);
    assert!(before.get("last transfer")?.is_none(), "a snapshot does not see what was written later");

    // What a snapshot can see is kept for it, so do not hold one for longer than it is needed.
    drop(before);
    db.close()
}

/// Both balances and the note change together. There are no transactions: between reading and
/// writing here nobody else may transfer.
fn transfer(db: &Db, from: &str, to: &str, amount: i64) -> Result<()> {
    let now = db.snapshot();
    let mut batch = Batch::new();
    batch.put(account(from), (balance(&now, from)? - amount).to_string());
    batch.put(account(to), (balance(&now, to)? + amount).to_string());
    batch.put("last transfer", format!("{amount} from {from} to {to}"));
    db.write(&batch)
}

fn account(name: &str) -> String {
    format!("account/{name}")
}

fn balance(at: &Snapshot, name: &str) -> Result<i64> {
    Ok(at.get(account(name))?.map_or(0, |digits| number(&digits)))
}

fn total(at: &Snapshot) -> Result<i64> {
    at.prefix("account/").map(|entry| Ok(number(&entry?.1))).sum()
}

fn shown(at: &Snapshot) -> Result<String> {
    let accounts: Result<Vec<String>> = at
        .prefix("account/")
        .map(|entry| {
            let (key, value) = entry?;
            Ok(format!("{} has {}", key["account/".len()..].escape_ascii(), value.escape_ascii()))
        })
        .collect();
    Ok(accounts?.join(", "))
}

fn number(digits: &[u8]) -> i64 {
    str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).expect("this program stores decimal numbers")
}
