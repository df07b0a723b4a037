//! A tree of far more tables than the process may open files. The only test of its process, since
//! the limit is the process's.

#![cfg(all(target_os = "linux", not(feature = "shuttle")))]

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tamarack::{AdvancedOptions, Db, Options};
use tamarack_env::TempDir;

/// Open files that the process may have.
const LIMIT: u64 = 64;

/// Open tables by default: half of that.
const TABLES_MAX: usize = LIMIT as usize / 2;

/// Everything else: standard streams, directory, lock, WAL, manifest; and of each of four threads
/// two reads in flight, a ring for them, and the listing of `/proc`.
const OTHERS_MAX: usize = 8 + 4 * 4;

const KEYS: u32 = 20_000;

fn options() -> Options {
    // Tables of a few blocks, in many runs.
    let advanced = AdvancedOptions::new().policy("tiering:T=10").table_bytes(2_000).memtable_bytes(100_000);
    Options::new().advanced(advanced.cache_bytes(0)).threads(2)
}

fn key(number: u32) -> Vec<u8> {
    format!("key {:06}", number.wrapping_mul(7_919) % KEYS).into_bytes()
}

/// Bytes that do not compress.
fn value(number: u32) -> Vec<u8> {
    let mut state = u64::from(number) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..60).map(|_| next()).collect()
}

/// The descriptors of this process.
#[expect(clippy::disallowed_methods, reason = "this looks at the process from outside")]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux has it").count()
}

fn check(db: &Db, what: &str) {
    let mut entries = 0;
    for entry in db.scan(..) {
        entry.unwrap_or_else(|error| panic!("{what}: {error}"));
        entries += 1;
    }
    assert_eq!(entries, KEYS, "{what}");
    for number in (0..KEYS).step_by(37) {
        assert!(db.get(key(number)).expect(what).is_some(), "{what}: key {number}");
    }
    let keys: Vec<_> = (0..KEYS).step_by(11).map(key).collect();
    assert!(db.multi_get(&keys).expect(what).iter().all(Option::is_some), "{what}");
    let open = descriptors();
    assert!(open > 10 && open <= TABLES_MAX + OTHERS_MAX, "{what}: {open} descriptors");
}

/// Everything works, before and after reopening, and with the directory's own descriptor kept for
/// its syncs.
#[test]
fn a_tree_may_have_more_tables_than_files_may_be_open() {
    let limit = Rlimit { current: Some(LIMIT), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("lower than before");
    let scratch = TempDir::new().expect("a directory");
    let dir = scratch.path().join("db");
    let db = options().open(&dir).expect("a new database");
    for number in 0..KEYS {
        db.put(key(number), value(number)).expect("written");
    }
    db.flush().expect("flushed");
    let tables: u64 = db.stats().levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum();
    assert!(tables > 5 * LIMIT, "{tables} tables");
    check(&db, "as written");
    db.close().expect("closed");

    let db = options().open(&dir).expect("opened again");
    check(&db, "opened again");
    tamarack_env::sync::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check(&db, "by four threads"));
        }
        scope.spawn(|| db.compact().expect("compacted"));
    });
    check(&db, "compacted");
    let report = db.verify(&mut |_, _| ()).expect("verified");
    assert!(report.is_ok(), "{:?}", report.problems);
}
