//! Books, found by their number, and by the year they were printed in: a second order of the same
//! things, kept right by batches.
//!
//! ```sh
//! cargo run --example secondary_index
//! ```
//!
//! ```text
//! book/0042       → "1851 Moby-Dick"          the book itself
//! year/1851/0042  → ""                        the index: all that is to be found is in the key
//! ```
//!
//! A book and its entry in the index change in **one batch**: after a crash both have changed or
//! neither has. They are read through **one snapshot**: a book that moves to another year while
//! somebody looks is found in exactly one of them.
//!
//! It makes the directory `books.db` where it is run.

#![expect(clippy::disallowed_types, reason = "a program that uses the library takes threads as it likes")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tamarack::{Batch, Db, Result, Snapshot};

fn main() -> Result<()> {
    let db = Db::open("books.db")?;
    for (number, year, title) in
        [(7, 1813, "Pride and Prejudice"), (42, 1851, "Moby-Dick"), (43, 1851, "The House of the Seven Gables")]
    {
        store(&db, number, year, title)?;
    }

    let printed = titles_of(&db.snapshot(), 1851)?;
    println!("printed in 1851: {}", printed.join(", "));
    assert_eq!(printed, ["Moby-Dick", "The House of the Seven Gables"]);

    // Years in order, and all books of several years, are ranges of the index, too.
    let early = db.scan("year/1800/".."year/1851/").count();
    assert_eq!(early, 1);

    // One thread moves a book to and fro while another counts. Whatever the moment, the book is in
    // one year, and what the index names is there.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let counter = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                let now = db.snapshot();
                let both = titles_of(&now, 1813)?.len() + titles_of(&now, 1814)?.len();
                assert_eq!(both, 1, "the book is in one of both years");
                looks += 1;
            }
            Ok::<_, tamarack::Error>(looks)
        });
        for round in 0..2000 {
            store(&db, 7, 1813 + round % 2, "Pride and Prejudice")?;
        }
        done.store(true, Ordering::Relaxed);
        let looks = counter.join().expect("it does not panic")?;
        println!("looked {looks} times while a book changed its year 2,000 times: it was always in exactly one");
        Ok::<_, tamarack::Error>(())
    })?;
    db.close()
}

/// Stores a book and what the index says of it; what the index said before goes. One thread at a
/// time may do this for the same book: between reading and writing here nobody else may change it.
fn store(db: &Db, number: u32, year: u32, title: &str) -> Result<()> {
    let mut batch = Batch::new();
    if let Some(old) = db.get(book(number))? {
        let (old_year, _) = parsed(&old);
        batch.delete(index(old_year, number));
    }
    // Later changes of a batch win: if the year is the same, its entry stays.
    batch.put(index(year, number), "");
    batch.put(book(number), format!("{year} {title}"));
    db.write(&batch)
}

/// The titles of the books of a year, by number, as they were at one moment.
fn titles_of(at: &Snapshot, year: u32) -> Result<Vec<String>> {
    let mut titles = Vec::new();
    for entry in at.prefix(format!("year/{year:04}/")) {
        let (key, _) = entry?;
        let number = str::from_utf8(&key[10..]).ok().and_then(|digits| digits.parse().ok());
        let found = at.get(book(number.expect("index keys end with a number")))?;
        let (found_year, title) = parsed(&found.expect("what the index names is there"));
        assert_eq!(found_year, year, "a book and its index change together");
        titles.push(title);
    }
    Ok(titles)
}

fn book(number: u32) -> String {
    format!("book/{number:04}")
}

fn index(year: u32, number: u32) -> String {
    format!("year/{year:04}/{number:04}")
}

fn parsed(value: &[u8]) -> (u32, String) {
    let text = str::from_utf8(value).expect("this program stores text");
    let (year, title) = text.split_once(' ').expect("a year and a title");
    (year.parse().expect("a year is a number"), title.to_owned())
}
