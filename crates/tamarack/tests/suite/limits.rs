//! Values at the ends of their ranges, in options, policies and bounds of ranges: they work, or are
//! refused; nothing panics.

use std::sync::Arc;

use tamarack::{Db, Error, Expert, Options};
use tamarack_env::{Env, SimEnv};

fn expert(env: &SimEnv) -> Expert {
    let env: Arc<dyn Env> = Arc::new(env.clone());
    Expert::new().env(env)
}

/// Writes a little, merges it, and finds it again.
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

/// Sizes as large, and as small, as can be said work, or are refused.
#[test]
fn sizes_at_the_ends_of_their_ranges() {
    for bytes in [1, 1 << 20, 1 << 47, (1 << 47) + 1, u64::MAX / 2, u64::MAX] {
        for field in [Expert::buffer_bytes, Expert::table_bytes, Expert::merge_bytes_per_second] {
            let env = SimEnv::new(1);
            match Options::new().expert(field(expert(&env), bytes)).open("/db") {
                Ok(db) => use_it(&db),
                Err(error) => assert!(matches!(error, Error::InvalidArgument(_)), "{bytes}: {error}"),
            }
        }
        let env = SimEnv::new(1);
        match Options::new().memory_bytes(bytes).expert(expert(&env)).open("/db") {
            Ok(db) => use_it(&db),
            Err(error) => assert!(matches!(error, Error::InvalidArgument(_)), "{bytes}: {error}"),
        }
    }
}

/// Shapes that nobody would want, but anybody can write down.
#[test]
fn shapes_at_the_ends_of_their_ranges() {
    for words in [
        "custom:buffer 1; level 2 in 1 run",
        "custom:buffer 1; level 1TiB in 1 run",
        "custom:buffer 1; level 100TiB in 7 runs; level 200TiB in 1 run",
        "custom:buffer 128TiB; level 12000000TiB in 1 run",
        "custom:buffer 1; level 4000000000 in 4000000000 runs",
        "leveling:T=65536",
        "tiering:T=65536",
    ] {
        let env = SimEnv::new(1);
        // So much memory that any buffer is within it.
        let options = |expert: Expert| Options::new().memory_bytes(256 << 40).expert(expert.cache_bytes(0));
        let db = options(expert(&env).buffer_bytes(1000)).open("/db").unwrap();
        use_it(&db);
        db.set_policy(words).unwrap();
        use_it(&db);
        drop(db);
        use_it(&options(expert(&env)).open("/db").unwrap());
    }
}

/// A shape whose buffer is more than the memory allows is refused, when opening and later, and
/// changes nothing.
#[test]
fn a_buffer_beyond_the_memory() {
    let env = SimEnv::new(1);
    let words = "custom:buffer 1GiB; level 4GiB in 1 run";
    let options = || Options::new().memory_bytes(64 << 20);
    let refusal = |error: Error| {
        assert!(
            matches!(&error, Error::InvalidArgument(why) if why.contains("more than half of the memory budget")),
            "{error}"
        );
    };
    refusal(options().expert(expert(&env).policy(words)).open("/db").expect_err("too large"));
    let db = options().expert(expert(&env)).open("/db").unwrap();
    refusal(db.set_policy(words).expect_err("too large"));
    use_it(&db);
    assert_eq!(db.stats().policy, "leveling:T=10");
}

/// Bounds of any length, and the smallest key.
#[test]
fn ranges_with_any_bounds() {
    let env = SimEnv::new(1);
    let db = Options::new().expert(expert(&env).buffer_bytes(1000)).open("/db").unwrap();
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
    let db = Options::new().expert(expert(&env)).open("/db").unwrap();
    assert!((0..100u8).all(|key| db.get([key]).unwrap().as_deref() == Some(&[2; 20][..])));
}
