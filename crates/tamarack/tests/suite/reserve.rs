//! A nearly full disk: puts are refused while the reserve of space is left, which serves flushes
//! and compactions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tamarack::{AdvancedOptions, Compression, Db, Error, Event, Options, Result};
use tamarack_env::sim::Crash;
use tamarack_env::sync::{Mutex, Rank};
use tamarack_env::{Env, Random, SimEnv};

const PAGE_BYTES: u64 = 4096;

/// A small disk, in bytes.
const CAPACITY: u64 = 1 << 22;

fn open(sim: &SimEnv, reserve: Option<u64>) -> Result<(Db, Arc<Mutex<Vec<String>>>)> {
    let mut advanced =
        AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(16 << 10).block_bytes(512).table_bytes(8192);
    if let Some(bytes) = reserve {
        advanced = advanced.reserve_bytes(bytes);
    }
    let told = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let notes = told.clone();
    let listener = move |event: &Event| match event {
        Event::DiskSpaceLow { .. } => notes.lock().push("low".to_owned()),
        Event::DiskSpaceRecovered { .. } => notes.lock().push("freed".to_owned()),
        _ => {}
    };
    let options = Options::new().compression(Compression::None).advanced(advanced).listener(Arc::new(listener));
    Ok((options.open("/db")?, told))
}

fn free_bytes(sim: &SimEnv) -> u64 {
    sim.space(Path::new("/db")).expect("it can be asked").expect("there is a limit").free_bytes
}

fn put(db: &Db, number: u64) -> Result<()> {
    db.put(format!("{:04}", number * 7919 % 10_000), [b'v'; 200])
}

/// Advances the clock by half a second, after which a database queries low disk space again.
fn wait(sim: &SimEnv) {
    sim.advance(Duration::from_millis(500));
    sim.run_background_until_idle();
}

/// Key number `number` of those that fill a disk, in an order that is none.
fn scattered_key(number: u64) -> String {
    format!("{:06}", number * 7919 % 1_000_000)
}

/// Puts entries of 206 bytes until the disk is full, and returns their number. Full is what stays
/// full: what is deleted gives its space back when it is needed.
fn fill(sim: &SimEnv, db: &Db) -> u64 {
    fill_with(sim, db, |_| [b'v'; 200])
}

/// The same with these values.
fn fill_with(sim: &SimEnv, db: &Db, value: impl Fn(u64) -> [u8; 200]) -> u64 {
    let (mut stored, mut refusals) = (0, 0);
    while refusals < 20 {
        match db.put(scattered_key(stored), value(stored)) {
            Ok(()) => (stored, refusals) = (stored + 1, 0),
            Err(_) => {
                refusals += 1;
                wait(sim);
            }
        }
        assert!(stored < 1 << 16, "the disk is never full");
    }
    stored
}

/// Puts are refused while the reserve is left, which flushes and compactions then use; deletes are
/// accepted; and with a quarter more than the reserve puts are accepted again, without further
/// calls.
#[test]
fn puts_leave_the_reserve_to_flushes_and_compactions() -> Result<()> {
    for seed in 0..10 {
        let sim = SimEnv::new(seed);
        let (db, told) = open(&sim, Some(50 * PAGE_BYTES))?;
        sim.set_capacity(Some(200 * PAGE_BYTES));
        let mut stored = 0;
        let error = loop {
            match put(&db, stored) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
            sim.run_background_until_idle();
        };
        assert!(error.is_storage_full(), "{error}");
        assert!(error.to_string().contains("deletes are accepted as long as these allow"), "{error}");
        assert!(free_bytes(&sim) > 20 * PAGE_BYTES, "{} bytes are free: too few for what is to come", free_bytes(&sim));
        assert_eq!(told.lock()[0], "low");

        // Other files take the space, except for a part of the reserve.
        sim.set_capacity(Some(sim.used_bytes() + 30 * PAGE_BYTES));
        let disk = db.stats().disk.expect("there is a limit");
        assert!(disk.is_low && disk.reserve_bytes == 50 * PAGE_BYTES && disk.free_bytes <= 30 * PAGE_BYTES, "{disk:?}");
        assert!(put(&db, stored).is_err_and(|error| error.is_storage_full()));
        db.flush()?;
        db.wait_for_compactions()?;
        let refused = delete(&sim, &db, (0..stored * 3 / 4).map(|number| format!("{:04}", number * 7919 % 10_000)))?;
        assert!(refused <= REFUSED_MAX, "{refused} refusals of {} deletes", stored * 3 / 4);
        db.compact()?;
        assert_eq!(db.scan(..).count() as u64, stored - stored * 3 / 4);
        wait(&sim);
        put(&db, 1).expect("deletes and a compaction have freed space");
        assert!(told.lock().chunks(2).all(|pair| pair == ["low", "freed"]), "{:?}", told.lock());

        // Free space equal to the reserve is not enough for puts.
        let set_free = |pages: u64| sim.set_capacity(Some(sim.used_bytes() + pages * PAGE_BYTES));
        set_free(49);
        assert!(db.stats().disk.is_some_and(|disk| disk.is_low));
        set_free(60);
        wait(&sim);
        assert!(put(&db, 2).is_err_and(|error| error.is_storage_full()));
        set_free(64);
        wait(&sim);
        put(&db, 2)?;
        assert!(db.verify(&mut |_, _| {})?.is_ok());
    }
    Ok(())
}

/// The default reserve of an empty tree is four memtables and pieces of the WAL, or a quarter of a
/// small disk; without a limit of the disk there is none.
#[test]
fn the_default_suits_small_disks() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, None)?;
    assert_eq!(db.stats().disk, None);
    for (capacity, reserve) in [(1 << 30, 320 << 10), (100 * PAGE_BYTES, 25 * PAGE_BYTES)] {
        sim.set_capacity(Some(capacity));
        let disk = db.stats().disk.expect("there is a limit");
        assert_eq!((disk.total_bytes, disk.reserve_bytes, disk.is_low), (capacity, reserve, false));
    }
    Ok(())
}

/// A policy with larger memtables has a larger reserve at once: one for the former size would be
/// too small for a single flush.
#[test]
fn the_reserve_follows_the_size_of_memtables() -> Result<()> {
    let sim = SimEnv::new(1);
    sim.set_capacity(Some(1 << 30));
    let (db, _) = open(&sim, None)?;
    let reserve = || db.stats().disk.expect("there is a limit").reserve_bytes;
    assert_eq!(reserve(), 320 << 10);
    db.set_policy("custom:buffer 128KiB; level 512KiB in 4 runs; level 16MiB in 1 run")?;
    assert_eq!(reserve(), 1 << 20);
    db.set_policy("leveling:T=10")?;
    assert_eq!(reserve(), 320 << 10);
    Ok(())
}

/// If the active run of level 1, here the only one, cannot be rewritten, a flush makes a run of its
/// own. A compaction without the temporary space that it needs does not begin, and returns that
/// error. Both continue by themselves when there is space.
#[test]
fn background_work_waits_for_its_space() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, Some(0))?;
    db.set_policy("leveling:T=10")?;
    for number in 0..400 {
        put(&db, number)?;
    }
    db.flush()?;
    db.wait_for_compactions()?;
    let runs = || db.stats().levels[0].runs.len();
    let before = runs();
    assert!(before > 0);
    for number in 400..450 {
        put(&db, number)?;
    }
    // The WAL is preallocated; the next segment and the table of 10 KiB need space.
    sim.set_capacity(Some(sim.used_bytes() + 20 * PAGE_BYTES));
    db.flush()?;
    assert_eq!(runs(), before + 1, "a run of its own");
    sim.set_capacity(Some(sim.used_bytes() + PAGE_BYTES));
    let Err(error @ Error::Io { .. }) = db.compact() else { panic!("there is no space for it") };
    assert!(error.is_storage_full() && error.to_string().contains("compaction: find space"), "{error}");
    sim.set_capacity(None);
    wait(&sim);
    db.wait_for_compactions()?;
    assert_eq!(db.stats().levels.iter().map(|level| level.runs.len()).sum::<usize>(), 1, "what was asked for is done");
    assert_eq!(db.scan(..).count(), 450);
    Ok(())
}

/// A flush begins with half of its memtable's bytes free, since tables may be smaller. One for
/// which that is too little ends without a trace, and succeeds once there is space.
#[test]
fn a_flush_may_find_too_little_space() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, Some(0))?;
    let mut stored = 0;
    while db.stats().memtables.len() == 1 {
        put(&db, stored)?;
        stored += 1;
    }
    let used_bytes = sim.used_bytes();
    // Of about 17 KiB, in pages.
    sim.set_capacity(Some(used_bytes + 3 * PAGE_BYTES));
    sim.run_background_until_idle();
    let stats = db.stats();
    assert_eq!((stats.flushes, stats.flush_failures), (0, 1));
    let error = stats.background_error.expect("it failed");
    assert!(error.contains(".sst: table: "), "it began: {error}");
    assert_eq!(sim.used_bytes(), used_bytes, "nothing is left of it");
    sim.set_capacity(None);
    wait(&sim);
    assert_eq!((db.stats().flushes, db.stats().memtables.len()), (1, 1));
    assert_eq!(db.scan(..).count() as u64, stored);
    Ok(())
}

/// Ingests leave the reserve alone, too: the ingest fails, without any of its entries, and its
/// space is freed.
#[test]
fn an_ingest_leaves_the_reserve_alone() -> Result<()> {
    let sim = SimEnv::new(1);
    let (db, _) = open(&sim, Some(20 * PAGE_BYTES))?;
    put(&db, 1)?;
    sim.set_capacity(Some(sim.used_bytes() + 60 * PAGE_BYTES));
    let mut ingest = db.ingest()?;
    let mut number = 0;
    let error = loop {
        match ingest.put(format!("{number:06}"), [b'v'; 200]) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_storage_full() && free_bytes(&sim) > 10 * PAGE_BYTES, "{error}");
    drop(ingest);
    wait(&sim);
    assert_eq!(db.scan(..).count(), 1);
    put(&db, 2)
}

/// The state of a tree that is stuck.
fn shown(sim: &SimEnv, db: &Db) -> String {
    let mut files = std::collections::BTreeMap::<String, (u64, u64)>::new();
    for name in sim.list(Path::new("/db")).expect("it is there") {
        let name = name.to_string_lossy().into_owned();
        let bytes = sim.open(&Path::new("/db").join(&name), tamarack_env::Access::Read).and_then(|file| file.len());
        let kind = files.entry(name.rsplit('.').next().unwrap_or("").to_owned()).or_default();
        *kind = (kind.0 + 1, kind.1 + bytes.unwrap_or(0));
    }
    let stats = db.stats();
    println!(
        "{files:?}, used {}; {:?}; failures {} {}, moves {}",
        sim.used_bytes(),
        stats.last_background_error,
        stats.flush_failures,
        stats.compaction_failures,
        stats.jobs.len(),
    );
    let stats = db.stats();
    let levels = stats.levels.iter().map(|level| {
        let runs = level.runs.iter().map(|run| {
            let busy = if run.in_compaction { "*" } else { "" };
            format!("{}/{}t {} KiB in {}{busy}", run.entries, run.tombstones, run.file_bytes >> 10, run.tables)
        });
        format!("\n  {} slots: {}", level.run_slots, runs.collect::<Vec<_>>().join(", "))
    });
    let (jobs, error) = (stats.jobs, stats.background_error);
    let (disk, space, wal) = (stats.disk, stats.space, (stats.wal_segments, stats.wal_bytes));
    format!("{disk:?}, {error:?}, {space:?}, WAL {wal:?}, jobs {jobs:?}{}", levels.collect::<String>())
}

/// The most deletes that may be refused while thousands of them empty a full disk.
const REFUSED_MAX: u64 = 20;

/// Deletes keys, as a program does that was told that space is missing: it waits and tries again.
/// Returns how often that was needed.
fn delete(sim: &SimEnv, db: &Db, keys: impl Iterator<Item = String>) -> Result<u64> {
    let mut all = 0;
    for key in keys {
        let mut refusals = 0;
        while let Err(error) = db.delete(&key) {
            assert!(error.is_storage_full(), "{error}");
            refusals += 1;
            assert!(refusals < 100, "a delete is refused for ever: {error}: {}", shown(sim, db));
            wait(sim);
        }
        all += refusals;
    }
    Ok(all)
}

/// Whatever filled the disk, deletes are taken, space comes back by itself, and puts are accepted
/// again: round after round, under each policy, also if the database was opened anew while it was
/// full.
#[test]
fn a_full_disk_is_emptied_by_deletes() -> Result<()> {
    let policies = [
        "leveling:T=10",
        "tiering:T=4",
        "lazy-leveling:T=3",
        "garnering:T=2,c=0.8",
        "moose:last=0.8,k=1",
        "tiering:T=10",
    ];
    for (seed, policy) in (1..).zip(policies) {
        for memtable_bytes in [16 << 10, 64 << 10] {
            let sim = SimEnv::new(seed);
            let open = || {
                let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(memtable_bytes);
                Options::new().compression(Compression::None).advanced(advanced.policy(policy)).open("/db")
            };
            sim.set_capacity(Some(CAPACITY));
            let mut db = open()?;
            let (mut most, mut all_refused) = (0, 0);
            for round in 0..3 {
                let stored = fill(&sim, &db);
                // More than half of the disk, in each round.
                assert!(stored * 206 > CAPACITY / 2, "{policy}: {stored} entries fit in round {round}");
                most = most.max(stored);
                if round == 1 {
                    db.close()?;
                    db = open()?;
                }
                let refused = delete(&sim, &db, (0..stored).map(scattered_key))?;
                assert!(refused <= REFUSED_MAX, "{policy}: {refused} deletes were refused");
                all_refused += refused;
                for _ in 0..20 {
                    wait(&sim);
                }
                let disk = db.stats().disk.expect("there is a limit");
                assert!(!disk.is_low, "{policy}: space does not come back: {disk:?}");
                assert_eq!(db.scan(..).count(), 0, "{policy}");
            }
            println!("{policy}, memtables of {memtable_bytes}: {most} entries, {all_refused} deletes refused");
        }
    }
    Ok(())
}

/// A disk that was filled with small memtables and tables is emptied by deletes also if the
/// database was opened anew with larger ones, of which the reserve that is left has no space for
/// any. While space is low, tables are small, whatever the option says.
#[test]
fn a_full_disk_is_emptied_with_larger_tables_than_filled_it() -> Result<()> {
    for (seed, policy) in (1..).zip(["leveling:T=10", "tiering:T=4", "moose:last=0.8,k=1"]) {
        let sim = SimEnv::new(seed);
        let open = |memtable_bytes, table_bytes| {
            let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).policy(policy);
            let advanced = advanced.memtable_bytes(memtable_bytes).table_bytes(table_bytes);
            Options::new().compression(Compression::None).advanced(advanced).open("/db")
        };
        sim.set_capacity(Some(1 << 22));
        let db = open(8 << 10, 16 << 10)?;
        let stored = fill(&sim, &db);
        db.close()?;
        let db = open(64 << 10, 1 << 20)?;
        delete(&sim, &db, (0..stored).map(scattered_key))?;
        for _ in 0..20 {
            wait(&sim);
        }
        assert!(!db.stats().disk.expect("there is a limit").is_low, "{policy}: {}", shown(&sim, &db));
        assert_eq!(db.scan(..).count(), 0, "{policy}");
    }
    Ok(())
}

/// A disk that was filled with compressed tables is not filled further by compactions once the
/// database is opened without compression: while space is low, what is compressed stays so, and
/// deletes free space as ever.
#[test]
#[cfg(feature = "lz4")]
fn tables_stay_compressed_while_space_is_low() -> Result<()> {
    for seed in 1..5 {
        let sim = SimEnv::new(seed);
        let open = |compression| {
            let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).policy("tiering:T=4");
            let advanced = advanced.memtable_bytes(64 << 10).table_bytes(16 << 10);
            Options::new().compression(compression).advanced(advanced).open("/db")
        };
        sim.set_capacity(Some(CAPACITY));
        let db = open(Compression::Lz4)?;
        // Half of each value is noise.
        let noise = |number| {
            let (random, mut value) = (Random::new(number), [b'v'; 200]);
            value[..96].chunks_mut(8).for_each(|bytes| bytes.copy_from_slice(&random.next().to_le_bytes()));
            value
        };
        let stored = fill_with(&sim, &db, noise);
        assert!(stored * 206 > CAPACITY, "only {stored} entries fit: they were not compressed");
        db.close()?;
        let db = open(Compression::None)?;
        let reserve = db.stats().disk.expect("there is a limit").reserve_bytes;
        db.compact()?;
        assert!(free_bytes(&sim) > reserve / 2, "{} bytes of {reserve} are free", free_bytes(&sim));
        db.close()?;
        let db = open(Compression::None)?;
        delete(&sim, &db, (0..stored).map(scattered_key))?;
        for _ in 0..20 {
            wait(&sim);
        }
        assert!(!db.stats().disk.expect("there is a limit").is_low, "{}", shown(&sim, &db));
        assert_eq!(db.scan(..).count(), 0);
    }
    Ok(())
}

/// Compactions that are resumed at opening make small tables on a small disk, as others do.
#[test]
fn resumed_compactions_make_small_tables() -> Result<()> {
    let sim = SimEnv::new(1);
    sim.set_capacity(Some(16 << 20));
    let open = |rate| {
        let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(64 << 10);
        let advanced = advanced.policy("tiering:T=4").compaction_bytes_per_second(rate);
        Options::new().compression(Compression::None).advanced(advanced).open("/db")
    };
    let is_compacting = |db: &Db| db.stats().jobs.iter().any(|job| !job.is_flush);
    let db = open(1000)?;
    for number in 0..3000 {
        if is_compacting(&db) {
            break;
        }
        put(&db, number)?;
    }
    assert!(is_compacting(&db), "no compaction is in progress that could be resumed");
    drop(db);
    let db = open(1 << 30)?;
    db.wait_for_compactions()?;
    let stats = db.stats();
    for run in stats.levels.iter().flat_map(|level| &level.runs) {
        assert!(run.file_bytes / run.tables <= 32 << 10, "large tables: {run:?}");
    }
    Ok(())
}

/// The same on a file system of the operating system, with threads: a small one in memory, where
/// this machine lets us make one. The test runs itself again in a process that has it.
#[test]
#[cfg(target_os = "linux")]
fn a_full_file_system_is_emptied_by_deletes() {
    if let Some(disk) = std::env::var_os("TAMARACK_DISK") {
        return fill_and_empty(Path::new(&disk)).expect("only space may be missing");
    }
    let place = tamarack_env::TempDir::new().expect("a directory");
    let test = std::env::current_exe().expect("a running test has a file");
    let script = format!(
        "mount -t tmpfs -o size=24m tmpfs '{0}' && TAMARACK_DISK='{0}' '{1}' --exact reserve::a_full_file_system_is_emptied_by_deletes",
        place.path().display(),
        test.display()
    );
    let can = std::process::Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]).output();
    if !can.is_ok_and(|can| can.status.success()) {
        let must = std::env::var_os("TAMARACK_NEEDS_DISK").is_some();
        assert!(!must, "this machine lets us make no file system of our own");
        println!("not checked: this machine lets us make no file system of our own");
        return;
    }
    let ran = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &script]).output().expect("it ran before");
    let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(ran.status.success() && text.contains("1 passed"), "{text}");
    println!("{text}");
}

/// Fills the file system of this directory, and empties it again.
#[cfg(target_os = "linux")]
fn fill_and_empty(disk: &Path) -> Result<()> {
    let dir = disk.join("db");
    let open = || {
        let advanced = AdvancedOptions::new().memtable_bytes(128 << 10);
        Options::new().compression(Compression::None).advanced(advanced).open(&dir)
    };
    let env = tamarack_env::OsEnv::new();
    let pause = || env.sleep_until(env.now() + Duration::from_millis(20));
    let mut db = open()?;
    let mut most = 0;
    for round in 0..2 {
        let (mut stored, mut refusals) = (0_u64, 0);
        while refusals < 100 {
            match db.put(scattered_key(stored), [b'v'; 200]) {
                Ok(()) => (stored, refusals) = (stored + 1, 0),
                Err(error) => {
                    assert!(error.is_storage_full(), "{error}");
                    refusals += 1;
                    pause();
                }
            }
        }
        most = most.max(stored);
        assert!(stored > most / 2 && stored > 20_000, "{stored} entries fit in round {round}, {most} before");
        if round == 1 {
            db.close()?;
            db = open()?;
        }
        for number in 0..stored {
            let mut refusals = 0;
            while let Err(error) = db.delete(scattered_key(number)) {
                refusals += 1;
                assert!(error.is_storage_full() && refusals < 1_000, "a delete is refused for ever: {error}");
                pause();
            }
        }
        println!("round {round}: {stored} entries, then deleted; {:?}", db.stats().disk);
        assert_eq!(db.scan(..).count(), 0);
    }
    db.close()?;
    assert!(open()?.verify(&mut |_, _| {})?.is_ok());
    Ok(())
}

/// Notes the least free space before each call that changes storage, and the first image of the
/// machine with less than `image_below`.
fn watch(sim: &SimEnv, capacity: u64, image_below: u64) -> Arc<Mutex<(u64, Option<SimEnv>)>> {
    let seen = Arc::new(Mutex::new(Rank::Test, (u64::MAX, None)));
    let (notes, watched) = (seen.clone(), sim.clone());
    sim.set_capacity(Some(capacity));
    sim.set_hook(move |moment| {
        let free = capacity - watched.used_bytes();
        let (least, image) = &mut *notes.lock();
        *least = free.min(*least);
        if free < image_below {
            image.get_or_insert_with(|| moment.image(Crash::KeepAll));
        }
    });
    seen
}

/// Each part of a compaction takes a table of each run while it goes on. So where there is space
/// for one, no other begins, however many threads wait; also when a compaction that was interrupted
/// is resumed. Where there is more, others begin. What flushes need is left.
#[test]
fn no_more_parts_begin_than_there_is_space_for() -> Result<()> {
    const RUNS: u64 = 60;
    // A table takes three pages.
    let one = RUNS * 3 * PAGE_BYTES;
    let flushes = 4 * (64 << 10) + 4 * (64 << 10);
    for (seed, spare) in [(0, 2 * one), (1, 2 * one), (2, 5 * one)] {
        let sim = SimEnv::new(seed);
        let open = |sim: &SimEnv| {
            let advanced = AdvancedOptions::new().env(Arc::new(sim.clone())).memtable_bytes(64 << 10).block_bytes(512);
            let advanced = advanced.table_bytes(8192).policy("tiering:T=200");
            Options::new().compression(Compression::None).threads(4).advanced(advanced).open("/db")
        };
        let db = open(&sim)?;
        let mut stored = 0;
        while db.stats().levels[0].runs.len() < RUNS as usize {
            db.put(scattered_key(stored), [b'v'; 200])?;
            sim.run_background_until_idle();
            stored += 1;
        }
        db.flush()?;
        let capacity = sim.used_bytes() + flushes + spare;
        // In the midst of the first part.
        let seen = watch(&sim, capacity, flushes + spare - one / 2);
        db.compact()?;
        sim.clear_hook();
        let (least, image) = std::mem::replace(&mut *seen.lock(), (u64::MAX, None));
        let taken = flushes + spare - least;
        println!("seed {seed}: {taken} of {spare} bytes taken, {one} by one part");
        assert!(least >= flushes && (taken > one) == (spare > 2 * one), "seed {seed}: {taken} bytes were taken");
        assert_eq!(db.stats().compaction_failures, 0);
        assert_eq!(db.scan(..).count() as u64, stored);

        let image = image.expect("a part has begun");
        let seen = watch(&image, capacity, 0);
        let db = open(&image)?;
        db.wait_for_compactions()?;
        image.clear_hook();
        let least = seen.lock().0;
        println!("seed {seed}: {} bytes taken after it was resumed", flushes + spare - least);
        assert!(least >= flushes, "seed {seed}: {least} bytes were free after it was resumed");
        assert_eq!(db.stats().compaction_failures, 0);
        assert_eq!(db.scan(..).count() as u64, stored, "seed {seed}");
    }
    Ok(())
}
