//! Filters of a live database that become larger: bytes that the rebuild reads, that it causes no
//! compaction, and that answers stay right meanwhile.
//!
//! Builds a tree of small entries (keys of 16 bytes, values of 100) with few bits per entry,
//! requests more, and waits until all tables have theirs. Meanwhile a reader looks up existing and
//! absent keys. Finally it requests still other filters, drops the database in the middle of the
//! rebuild, opens it with its last specification, and looks up again.
//!
//! `cargo run --release -p shape --bin filter-rebuild -- --help`

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use common::numbers::{mib, mix};
use common::words::Words;
use tamarack::{AdvancedOptions, Compression, Db, Options, Result, Stats};

const HELP: &str = "\
usage: filter-rebuild [--dir DIR] [--mib N] [--from N] [--to N] [--threads N]

  --dir DIR     where the database is made and removed again     [the system's temporary directory]
  --mib N       its raw bytes                                                             [1024]
  --from N      bits of filter per entry before                                              [5]
  --to N        and after                                                                   [10]
  --threads N   workers                                                                      [2]";

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const RAW_BYTES: u64 = (KEY_BYTES + VALUE_BYTES + 8) as u64;

/// Lookups before and after, of which block reads are counted.
const LOOKUPS: u64 = 200_000;

fn main() -> Result<()> {
    let words = Words::read(HELP);
    measure(&words, words.scratch().path())
}

fn measure(words: &Words, dir: &Path) -> Result<()> {
    let filter = |bits: u64| format!("blocked:bits={bits},allocation=monkey");
    let (from, to) = (filter(words.number("from", 5)), filter(words.number("to", 10)));
    let open = |filter: &str| {
        let options = Options::new().compression(Compression::None).threads(words.number("threads", 2) as usize);
        options.memory_bytes(128 << 20).advanced(AdvancedOptions::new().filter(filter).cache_bytes(16 << 20)).open(dir)
    };
    let db = open(&from)?;
    let entries = (words.number("mib", 1024) << 20) / RAW_BYTES;
    let began = Instant::now();
    for number in 0..entries {
        db.put(key(2 * number), value(number))?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    db.rebuild_filters()?;
    println!("{entries} entries with {from} in {:.0} s", began.elapsed().as_secs_f64());
    show(&db, entries, 0)?;

    let before = db.stats();
    let (ended, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let took = std::thread::scope(|scope| -> Result<f64> {
        let reader = scope.spawn(|| -> Result<()> {
            let mut turn = 0;
            while !ended.load(Ordering::Relaxed) {
                turn += 1;
                assert_right(&db, mix(!turn) % entries)?;
                asked.fetch_add(2, Ordering::Relaxed);
            }
            Ok(())
        });
        let began = Instant::now();
        db.set_filter(&to)?;
        db.rebuild_filters()?;
        let took = began.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        reader.join().expect("the reader finds everything")?;
        Ok(took)
    })?;
    let after = db.stats();
    let (read, all) = (after.filter_rebuild_bytes_read - before.filter_rebuild_bytes_read, after.space.live_bytes);
    println!(
        "{from} -> {to}: {took:.1} s; {} filters rebuilt; {:.1} MiB read, {:.2} % of {:.0} MiB; {} compactions, {} bytes written by them; {} lookups meanwhile, all right",
        after.filters_rebuilt - before.filters_rebuilt,
        mib(read),
        100.0 * read as f64 / all as f64,
        mib(all),
        after.compactions - before.compactions,
        after.compaction_bytes - before.compaction_bytes,
        asked.into_inner()
    );
    show(&db, entries, LOOKUPS)?;

    db.set_filter(&from)?;
    drop(db);
    let db = open(&to)?;
    for turn in 0..LOOKUPS / 4 {
        assert_right(&db, mix(turn) % entries)?;
    }
    println!("left in the middle of a change, opened again: all right");
    Ok(())
}

/// Shows the filters, and reads of zero-result lookups beside their prediction: with keys not
/// looked up before, since the cache remembers absent ones.
fn show(db: &Db, entries: u64, asked: u64) -> Result<()> {
    let reads = |stats: &Stats| stats.lookups.data_blocks_read;
    let before = reads(&db.stats());
    for turn in asked..asked + LOOKUPS {
        assert!(db.get(key(2 * (mix(turn) % entries) + 1))?.is_none(), "it was never put");
    }
    let stats = db.stats();
    let runs = || stats.levels.iter().flat_map(|level| &level.runs);
    let bits: u64 = runs().map(|run| run.filter_bits).sum();
    let predicted: f64 = runs().map(|run| run.filter_fpr).sum();
    let read = (reads(&stats) - before) as f64 / LOOKUPS as f64;
    println!(
        "  {} runs, {:.2} bits per entry, {:.1} MiB of filters; a lookup of an absent key reads {read:.4} blocks, {predicted:.4} predicted",
        runs().count(),
        bits as f64 / entries as f64,
        mib(stats.memory.filters_bytes)
    );
    Ok(())
}

fn assert_right(db: &Db, number: u64) -> Result<()> {
    let found = db.get(key(2 * number))?;
    assert!(found.as_deref() == Some(&value(number)[..]), "entry {number} is there");
    assert!(db.get(key(2 * number + 1))?.is_none(), "it was never put");
    Ok(())
}

/// Different for different numbers, and anywhere.
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u64) -> [u8; VALUE_BYTES] {
    let mut value = [b'v'; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_be_bytes());
    value
}
