//! Extreme values of options, policies and bounds of ranges work or are refused; nothing panics.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Error, Options};
use tamarack_env::{Env, SimEnv};

fn advanced(env: &SimEnv) -> AdvancedOptions {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    AdvancedOptions::new().env(env)
}

/// Writes a few keys, compacts them, and reads them.
fn use_it(db: &Db) {
    for round in 0..3u8 {
        for key in 0..20u8 {
            db.put([key], [round; 20]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    assert!((0..20u8).all(|key| db.get([key]).unwrap().as_deref() == Some(&[2; 20][..])));
}

/// The largest and smallest sizes work or are refused.
#[test]
fn extreme_sizes() {
    for bytes in [1, 1 << 20, 1 << 47, (1 << 47) + 1, u64::MAX / 2, u64::MAX] {
        for field in [
            AdvancedOptions::memtable_bytes,
            AdvancedOptions::table_bytes,
            AdvancedOptions::compaction_bytes_per_second,
        ] {
            let env = SimEnv::new(1);
            match Options::new().advanced(field(advanced(&env), bytes)).open("/db") {
                Ok(db) => use_it(&db),
                Err(error) => assert!(matches!(error, Error::InvalidArgument(_)), "{bytes}: {error}"),
            }
        }
        let env = SimEnv::new(1);
        match Options::new().memory_bytes(bytes).advanced(advanced(&env)).open("/db") {
            Ok(db) => use_it(&db),
            Err(error) => assert!(matches!(error, Error::InvalidArgument(_)), "{bytes}: {error}"),
        }
    }
}

/// Absurd but valid specifications of shapes.
#[test]
fn extreme_shapes() {
    for specification in [
        "custom:buffer 1; level 2 in 1 run",
        "custom:buffer 1; level 1TiB in 1 run",
        "custom:buffer 1; level 100TiB in 7 runs; level 200TiB in 1 run",
        "custom:buffer 128TiB; level 12000000TiB in 1 run",
        "custom:buffer 1; level 4000000000 in 4000000000 runs",
        "leveling:T=65536",
        "tiering:T=65536",
    ] {
        let env = SimEnv::new(1);
        // Enough memory for any memtable.
        let options =
            |advanced: AdvancedOptions| Options::new().memory_bytes(256 << 40).advanced(advanced.cache_bytes(0));
        let db = options(advanced(&env).memtable_bytes(1000)).open("/db").unwrap();
        use_it(&db);
        db.set_policy(specification).unwrap();
        use_it(&db);
        drop(db);
        use_it(&options(advanced(&env)).open("/db").unwrap());
    }
}

/// A shape whose memtable exceeds the memory budget is refused, when opening and later, without
/// effect.
#[test]
fn memtables_beyond_the_memory_budget() {
    let env = SimEnv::new(1);
    let specification = "custom:buffer 1GiB; level 4GiB in 1 run";
    let options = || Options::new().memory_bytes(64 << 20);
    let refusal = |error: Error| {
        assert!(
            matches!(&error, Error::InvalidArgument(why) if why.contains("more than half of the memory budget")),
            "{error}"
        );
    };
    refusal(options().advanced(advanced(&env).policy(specification)).open("/db").expect_err("too large"));
    let db = options().advanced(advanced(&env)).open("/db").unwrap();
    refusal(db.set_policy(specification).expect_err("too large"));
    use_it(&db);
    assert_eq!(db.stats().policy, "auto:leveling:T=5,first=4", "the default");
}

/// Bounds of any length, and the smallest key.
#[test]
fn ranges_with_any_bounds() {
    let env = SimEnv::new(1);
    let db = Options::new().advanced(advanced(&env).memtable_bytes(1000)).open("/db").unwrap();
    for round in 0..3u8 {
        db.put("", [round]).unwrap();
        for key in 0..100u8 {
            db.put([key], [round; 20]).unwrap();
        }
        db.flush().unwrap();
    }
    let long = vec![50; 3 << 20];
    db.compact_range("".."").unwrap();
    db.compact_range(""..="").unwrap();
    db.compact_range(""..).unwrap();
    db.compact_range(&long[..]..&[60][..]).unwrap();
    db.compact_range(&[40][..]..&long[..]).unwrap();
    db.compact_range(..=&long[..]).unwrap();
    assert_eq!(db.get("").unwrap().as_deref(), Some(&[2][..]));
    assert!(db.verify(&mut |_, _| {}).unwrap().is_ok());
    drop(db);
    let db = Options::new().advanced(advanced(&env)).open("/db").unwrap();
    assert!((0..100u8).all(|key| db.get([key]).unwrap().as_deref() == Some(&[2; 20][..])));
}
