//! Nothing is cold: lookups read data blocks only, right after a tree was written, and after it was
//! opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Options, ReaderStats, Result};
use tamarack_env::sim::Device;
use tamarack_env::{Access, Env, SimEnv};
use tamarack_testing::{STEP, read_file, write_file};

const KEYS: u32 = 6_000;

/// The number of keys beside which a lookup reads blocks.
const LOOKUPS: u32 = 100;

fn key(number: u32) -> [u8; 8] {
    u64::from(number).to_be_bytes()
}

fn open(env: &SimEnv, index_bytes: u64) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).direct_io(true).policy("leveling:T=4,first=3");
    let advanced = advanced.memtable_bytes(300_000).table_bytes(1 << 20).cache_bytes(0).index_bytes(index_bytes);
    Options::new().compression(Compression::None).threads(2).advanced(advanced.filter("blocked:bits=12")).open("/db")
}

/// Puts entries of 1 KB in an order that is none.
fn load(db: &Db) -> Result<()> {
    (0..KEYS).try_for_each(|number| db.put(key(number * 4_001 % KEYS), [7; 1000]))
}

/// What lookups of `LOOKUPS` keys have read, and what everything else has meanwhile.
fn look_up(db: &Db) -> Result<(ReaderStats, ReaderStats)> {
    let before = db.stats().reads;
    for number in (0..KEYS).step_by((KEYS / LOOKUPS) as usize) {
        assert!(db.contains_key(key(number))?);
    }
    let reads = db.stats().reads.since(&before);
    Ok((reads.gets, reads.upkeep))
}

/// After a load, no lookup opens a table or reads an index block, whether or not compactions are
/// still to come. Without memory for index blocks, each reads one beside its data block.
#[test]
fn after_a_load() -> Result<()> {
    for settled in [false, true] {
        let db = open(&SimEnv::new(1), 1 << 20)?;
        load(&db)?;
        if settled {
            db.wait_for_compactions()?;
        }
        let (gets, upkeep) = look_up(&db)?;
        assert_eq!((gets.index_blocks, upkeep.reads), (0, 0), "settled {settled}: {gets:?}, {upkeep:?}");
        // Some are in a memtable; filters let few reads through that find nothing.
        assert!(gets.reads > 0 && gets.reads < u64::from(LOOKUPS) * 11 / 10, "{gets:?}");
    }
    let db = open(&SimEnv::new(1), 0)?;
    load(&db)?;
    db.wait_for_compactions()?;
    let (gets, _) = look_up(&db)?;
    assert_eq!(gets.index_blocks, gets.blocks - gets.index_blocks, "{gets:?}");
    Ok(())
}

/// Opening loads what lookups need beside data blocks, in two reads for each table. On a slow
/// device it does not wait for all of that, and background work goes on; lookups before that read
/// what they lack.
#[test]
fn after_opening() -> Result<()> {
    let slow = Device { read_latency: Duration::from_millis(20), ..Device::NVME_SSD };
    for (device, waits) in [(None, false), (Some(slow), false), (Some(slow), true)] {
        let env = SimEnv::new(1);
        let db = open(&env, 1 << 20)?;
        load(&db)?;
        db.wait_for_compactions()?;
        db.close()?;
        env.set_device(device);
        let db = open(&env, 1 << 20)?;
        let loaded = db.stats().reads.upkeep.reads;
        let reads = 2 * db.stats().levels.iter().map(|level| level.total().tables).sum::<u64>();
        assert!(
            reads > 10 && if device.is_none() { loaded == reads } else { loaded == 3 },
            "{loaded} of {reads} reads"
        );
        if waits {
            env.run_background_until_idle();
            assert_eq!(db.stats().reads.upkeep.reads, reads);
        }
        let (gets, upkeep) = look_up(&db)?;
        if device.is_none() || waits {
            assert_eq!((gets.index_blocks, upkeep.reads), (0, 0), "{gets:?}, {upkeep:?}");
            assert!(gets.reads < u64::from(LOOKUPS) * 11 / 10, "{gets:?}");
        } else {
            assert!(gets.index_blocks > 0 && upkeep.reads > 0, "{gets:?}, {upkeep:?}");
        }
    }
    Ok(())
}

/// Once the budget for index blocks is used up, no table is read for nothing, whatever is left of
/// it; also where blocks are larger in memory than in the file, as with neighbours that share much.
#[test]
fn nothing_is_read_that_cannot_stay() -> Result<()> {
    let env = SimEnv::new(1);
    let db = open(&env, 1 << 20)?;
    for number in (0..KEYS).map(|number| number * 4_001 % KEYS) {
        db.put([&[(number / 25) as u8; 60][..], &key(number)].concat(), [7; 1000])?;
    }
    db.wait_for_compactions()?;
    db.close()?;
    let db = open(&env, 1 << 20)?;
    let tables: u64 = db.stats().levels.iter().map(|level| level.total().tables).sum();
    let all = db.stats().memory.indexes_bytes;
    db.close()?;
    for index_bytes in (1000..all / 2).step_by(199) {
        let db = open(&env, index_bytes)?;
        env.run_background_until_idle();
        let of_indexes = db.stats().reads.upkeep.reads - tables;
        // Less than half of the tables can be loaded, and one more is tried.
        assert!(of_indexes <= tables / 2 + 1, "{of_indexes} reads for {tables} tables, {index_bytes} bytes");
        db.close()?;
    }
    Ok(())
}

/// A table that cannot be read costs background work nothing but an attempt, and the others are
/// loaded.
#[test]
fn damage_stays_with_its_table() -> Result<()> {
    let env = SimEnv::new(1);
    let db = open(&env, 1 << 20)?;
    load(&db)?;
    db.wait_for_compactions()?;
    db.close()?;
    let names = env.list(Path::new("/db")).expect("a directory");
    let paths = names.into_iter().map(|name| Path::new("/db").join(name));
    // The youngest one: others may be those of earlier trees.
    let path = paths.filter(|path| path.extension().is_some_and(|it| it == "sst")).max().expect("there are tables");
    let mut bytes = read_file(&env, &path);
    *bytes.last_mut().expect("a table is not empty") ^= 1;
    write_file(&env, &path, &bytes);
    // Direct reads see what is durable.
    env.open(&path, Access::ReadWrite).and_then(|file| file.sync(STEP)).expect("a file");
    let db = open(&env, 1 << 20)?;
    env.run_background_until_idle();
    let upkeep = db.stats().reads.upkeep;
    let tables: u64 = db.stats().levels.iter().map(|level| level.total().tables).sum();
    let expected = 2 * tables - 1..=2 * tables;
    assert!(expected.contains(&upkeep.reads), "all but the lower blocks of one, tried once or twice: {upkeep:?}");
    let errors = (0..KEYS).filter(|&number| db.get(key(number)).is_err()).count();
    assert!(errors > 0 && errors < KEYS as usize, "{errors}");
    Ok(())
}
