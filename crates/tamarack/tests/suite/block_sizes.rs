//! The size of blocks of new tables, where the navigator chooses it: it grows where indexes crowd
//! out filters, all tables are rewritten for it, and it outlives closing. What a user gives stays.

use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Options, Result};
use tamarack_env::{Env, SimEnv};
use tamarack_format::block::Block;
use tamarack_format::entry::Sequence;
use tamarack_format::fences::Fences;
use tamarack_format::meta::TableId;
use tamarack_format::stored::{BlockHandle, StoredBytes, open_block};
use tamarack_format::table::{FOOTER_BYTES, Footer};
use tamarack_testing::Random;

const DIR: &str = "/db";
/// Of a kibibyte each: their index takes nearly all memory that the memtables leave.
const ENTRIES: u64 = 57_000;
const MEMORY_BYTES: u64 = 1 << 20;
const MEMTABLE_BYTES: u64 = 200 << 10;

fn key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn advanced(env: &SimEnv) -> AdvancedOptions {
    AdvancedOptions::new().env(Arc::new(env.clone())).memtable_bytes(MEMTABLE_BYTES)
}

fn options(advanced: AdvancedOptions) -> Options {
    Options::new().memory_bytes(MEMORY_BYTES).threads(1).compression(Compression::None).advanced(advanced)
}

fn load(db: &Db, entries: u64) -> Result<()> {
    (0..entries).try_for_each(|number| db.put(key(number), [b'v'; 1000]))?;
    db.flush()?;
    db.wait_for_compactions()
}

/// Looks up absent keys, and lets the controller look before and after that.
fn look_up_absent_keys(env: &SimEnv, db: &Db) -> Result<()> {
    env.sleep_until(env.now() + Duration::from_secs(2));
    let random = &mut Random::new(4);
    for _ in 0..100_000 {
        assert_eq!(db.get(key(ENTRIES + random.below(ENTRIES)))?, None);
    }
    for _ in 0..3 {
        env.sleep_until(env.now() + Duration::from_secs(2));
    }
    Ok(())
}

/// The size of the largest data block that the first index block of each table has.
fn block_sizes(env: &SimEnv) -> Vec<usize> {
    let tables = env.files().into_iter().filter(|(path, _)| path.extension().is_some_and(|kind| kind == "sst"));
    let size = |path: std::path::PathBuf| {
        let file = env.content(&path).expect("its bytes");
        let number: u64 = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).expect("a number");
        let (tail, length) = (&file[file.len() - FOOTER_BYTES..], file.len() as u64);
        let database = u64::from_le_bytes(*tail[120..].first_chunk().expect("a footer names its database"));
        let (footer, _) = Footer::decode(tail, length, database, TableId(number)).expect("a footer");
        let fences = |handle: &BlockHandle| {
            let stored = &file[handle.offset as usize..][..handle.bytes];
            let payload = open_block(StoredBytes::Borrowed(stored), footer.place(), handle).expect("a block");
            Fences::decode(&Block::decode(payload).expect("a block"), (b"", Sequence::MAX)).expect("fences")
        };
        let lower = fences(&fences(&footer.top_index).handle(0));
        (0..lower.len()).map(|index| lower.handle(index).bytes).max().expect("a data block")
    };
    tables.map(|(path, _)| size(path)).collect()
}

/// Where indexes take the memory of filters, the navigator chooses larger blocks and has all tables
/// rewritten; the size is told, outlives closing, and ends with a policy that a user gives.
#[test]
fn blocks_grow_where_indexes_crowd_out_filters() -> Result<()> {
    let env = SimEnv::new(12);
    let policy = "auto:leveling:T=10";
    let db = options(advanced(&env).policy(policy).filter("blocked:bits=2,allocation=monkey")).open(DIR)?;
    load(&db, ENTRIES)?;
    assert_eq!(db.stats().block_bytes, 4096);
    assert!(block_sizes(&env).iter().all(|bytes| *bytes <= 4096), "{:?}", block_sizes(&env));
    db.close()?;

    // The filter is not given any more, and stays until the navigator chooses.
    let db = options(advanced(&env)).open(DIR)?;
    look_up_absent_keys(&env, &db)?;
    db.wait_for_compactions()?;
    let stats = db.stats();
    let change = stats.decisions.iter().find(|decision| decision.is_change).unwrap_or_else(|| {
        panic!("no change: {:?}", stats.decisions);
    });
    let chosen = change.block_bytes;
    assert_eq!((change.block_bytes_before, stats.block_bytes), (4096, chosen));
    assert!((8192..=32 << 10).contains(&chosen), "{change:?}");
    let words = format!("a rewrite of all tables with blocks of {}KiB instead of 4KiB", chosen >> 10);
    assert!(change.reason.contains(&words), "{}", change.reason);
    let history = db.design_history();
    assert!(
        history.last().is_some_and(|last| last.contains(&format!("blocks of {}KiB: ", chosen >> 10))),
        "{history:?}"
    );
    let is_chosen = |bytes: &usize| (chosen as usize * 3 / 4..=chosen as usize).contains(bytes);
    let sizes = block_sizes(&env);
    assert!(!sizes.is_empty() && sizes.iter().all(is_chosen), "{chosen}: {sizes:?}");
    for number in (0..ENTRIES).step_by(97) {
        assert!(db.get(key(number))?.is_some_and(|value| *value == [b'v'; 1000]), "{number}");
    }
    db.close()?;

    let db = options(advanced(&env)).open(DIR)?;
    assert_eq!(db.stats().block_bytes, chosen, "it outlives closing");
    load(&db, 2000)?;
    let sizes = block_sizes(&env);
    assert!(sizes.iter().all(is_chosen), "new tables: {chosen}: {sizes:?}");
    db.set_policy("leveling:T=4")?;
    assert_eq!(db.stats().block_bytes, 4096);
    db.set_policy("auto")?;
    assert_eq!(db.stats().block_bytes, 4096);
    db.close()?;
    assert_eq!(options(advanced(&env)).open(DIR)?.stats().block_bytes, 4096);
    Ok(())
}

/// Blocks that a user gives stay, whatever would be better.
#[test]
fn given_blocks_stay() -> Result<()> {
    let env = SimEnv::new(13);
    let given = || advanced(&env).block_bytes(4096);
    let filter = "blocked:bits=2,allocation=monkey";
    let db = options(given().policy("auto:leveling:T=10").filter(filter)).open(DIR)?;
    load(&db, ENTRIES)?;
    db.close()?;
    let db = options(given()).open(DIR)?;
    look_up_absent_keys(&env, &db)?;
    db.wait_for_compactions()?;
    let stats = db.stats();
    let are_given = stats.decisions.iter().all(|decision| decision.block_bytes == 4096);
    assert!(!stats.decisions.is_empty() && are_given && stats.block_bytes == 4096, "{:?}", stats.decisions);
    let sizes = block_sizes(&env);
    assert!(sizes.iter().all(|bytes| *bytes <= 4096), "{sizes:?}");
    Ok(())
}
