//! A backup while others write, a mistake, and the way back.
//!
//! ```sh
//! cargo run --example backup
//! ```
//!
//! ```text
//! orders.db ──── write ──── write ──── write ─── … ─── delete everything ✗
//!                       │ checkpoint                            │ lost data is read from there
//!                       ▼                                       ▼
//! orders-9.backup   a database as of one moment ──► orders-9.restored, a checkpoint to go on with
//! ```
//!
//! A checkpoint copies next to nothing: the files of tables get a second name, and are never
//! changed by anybody. So it is quick, and takes space only as the first database replaces what the
//! second one still has. It is no protection against a disk that dies: for that, copy its directory
//! to another one, which is safe because nobody writes there.
//!
//! It makes the directories `orders.db`, `orders-….backup` and `orders-….restored` where it is run.

#![expect(clippy::disallowed_types, reason = "a program that uses the library takes threads as it likes")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tamarack::{Batch, Db, Result};

fn main() -> Result<()> {
    let db = Db::open("orders.db")?;
    let begin = db.prefix("order/").count() as u64;
    for number in begin..begin + 10_000 {
        take(&db, number)?;
    }

    // Each run of this program makes backups of its own; the number of entries ever written tells
    // them apart.
    let backup = format!("orders-{}.backup", db.stats().visible_sequence);
    let done = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = begin + 10_000;
            while !done.load(Ordering::Relaxed) {
                take(&db, number)?;
                number += 1;
            }
            Ok::<_, tamarack::Error>(number)
        });
        let report = db.checkpoint(&backup);
        done.store(true, Ordering::Relaxed);
        let next = writer.join().expect("it does not panic")?;
        println!("{} orders were taken while the backup was made", next - begin - 10_000);
        report
    })?;
    println!("{backup}: {} bytes shared with orders.db, {} copied", report.bytes_shared, report.bytes_copied);

    // The mistake. It is durable, atomic, and wrong.
    let mut all = Batch::new();
    for entry in db.scan(..) {
        all.delete(&entry?.0);
    }
    db.write(&all)?;
    assert_eq!(db.prefix("order/").count(), 0);

    // Restoring is opening. Whoever trusts nothing checks first: every checksum, and every
    // invariant.
    let copy = Db::open(&backup)?;
    let found = copy.verify(&mut |_, _| {})?;
    assert!(found.is_ok(), "{:?}", found.problems);

    // All that had been acknowledged before is there, and of what was written meanwhile the
    // beginning; no batch is there by half.
    let orders = copy.prefix("order/").count() as u64;
    assert!(orders >= begin + 10_000, "{orders} orders");
    assert_eq!(copy.prefix("bill/").count() as u64, orders, "an order and its bill were written together");
    println!("the backup has {orders} orders, and a bill for each");

    // To go on from there, and keep the backup as it is: a checkpoint of the backup.
    let restored = backup.replace(".backup", ".restored");
    copy.checkpoint(&restored)?;
    copy.close()?;
    let restored = Db::open(&restored)?;
    take(&restored, orders)?;
    assert_eq!(restored.prefix("order/").count() as u64, orders + 1);
    restored.close()?;
    db.close()
}

/// An order and its bill, in one batch.
fn take(db: &Db, number: u64) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(format!("order/{number:08}"), format!("{} trees", 1 + number % 9));
    batch.put(format!("bill/{number:08}"), format!("{} 00", 1 + number % 9));
    db.write(&batch)
}
