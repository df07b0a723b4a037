//! Tamarack in an asynchronous program: every call on a thread that may block.
//!
//! ```sh
//! cargo run --example async_reads
//! ```
//!
//! A lookup of a cached key is short, but one that reads storage, a write that is synced or
//! throttled, and `Db::close` block their thread for milliseconds and more. On a thread of the
//! runtime that stops every task there. `spawn_blocking` has threads for it. So:
//!
//! * a handle is cheap to clone, and moves into the closure;
//! * one closure does a whole piece of work (a lookup and the writes that follow from it, a page of
//!   a scan), since each hand-over costs;
//! * a scan is not kept across an `await`: the next page begins after the last key of this one, on
//!   the same snapshot;
//! * many writers that want durable writes each block a thread of their own, and share syncs.
//!
//! It makes the directory `async_reads.db` where it is run.

use tamarack::{Batch, Durability, ErrorKind, Options, Result, Snapshot};
use tokio::task::spawn_blocking;

/// Entries of a page.
const PAGE: usize = 100;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without I/O needs no resources").block_on(run())
}

async fn run() -> Result<()> {
    let db = blocking(|| Options::new().durability(Durability::Buffered).open("async_reads.db")).await?;

    let writers: Vec<_> = (0..4_u64)
        .map(|writer| {
            let db = db.clone();
            spawn_blocking(move || {
                let prices = (0..250).map(|number| (key(4 * number + writer), number.to_string()));
                db.write_with(&prices.collect::<Batch>(), Durability::Sync)
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer panics")?;
    }

    let (snapshot, mut last, mut pages, mut entries) = (db.snapshot(), Vec::new(), 0, 0);
    loop {
        let page = next_page(&snapshot, last).await?;
        let Some((key, _)) = page.last() else { break };
        (last, pages, entries) = (key.clone(), pages + 1, entries + page.len());
    }
    println!("{entries} prices in {pages} pages");
    assert_eq!((entries, pages), (1000, 10));

    // An error is the closure's result, like any other value.
    let missing = blocking(|| Options::new().create_if_missing(false).open("no_such.db")).await;
    assert!(missing.is_err_and(|error| error.kind() == ErrorKind::NotFound));

    drop(snapshot);
    blocking(move || db.close()).await
}

fn key(number: u64) -> String {
    format!("price:{number:06}")
}

/// The entries of `snapshot` behind the key `last`.
async fn next_page(snapshot: &Snapshot, last: Vec<u8>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let snapshot = snapshot.clone();
    blocking(move || snapshot.prefix("price:").after(last).limit(PAGE).collect()).await
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.expect("the work does not panic, and the runtime outlives it")
}
