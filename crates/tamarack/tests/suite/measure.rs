//! The measuring mode: answers stay right however keys are hashed, and they are hashed as often as
//! it says.

use tamarack::measure::{Hash, Hashed, LookupPart, PARTS, hash_with, set_clock, take_parts};
use tamarack::{AdvancedOptions, Db, Options, Result};
use tamarack_env::MemoryEnv;

const RUNS: u64 = 5;
const ENTRIES: u64 = 300;

/// Keys whose numbers are 0, 2, 4 … of which each run has every fifth; the odd ones are absent.
fn tree(filter: &str) -> Result<Db> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).policy("tiering:T=10").filter(filter);
    let db = Options::new().advanced(advanced).open("/db")?;
    for run in 0..RUNS {
        (0..ENTRIES).try_for_each(|nth| db.put(key(2 * (nth * RUNS + run)), [run as u8; 20]))?;
        db.flush()?;
    }
    db.wait_for_compactions()?;
    Ok(db)
}

fn key(number: u64) -> [u8; 300] {
    let mut key = [7; 300];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Digests, as builds with debug assertions count them; and, by the clock, how often keys were
/// hashed at all.
#[test]
fn keys_are_hashed_as_often_as_said() -> Result<()> {
    let entered = |part| PARTS.iter().position(|p| *p == part).expect("all are there");
    for filter in ["blocked:bits=4", "bloom:bits=4", "none"] {
        let db = tree(filter)?;
        set_clock(Some(|| 0));
        let other = Hash::Other(|key| key.len() as u64);
        for (hash, hashed) in [
            (Hash::Digest, Hashed::Once),
            (Hash::Digest, Hashed::ByEach),
            (Hash::Digest, Hashed::Besides),
            (other, Hashed::Once),
            (other, Hashed::ByEach),
            (other, Hashed::Besides),
        ] {
            hash_with(hash, hashed);
            for number in 0..2 * RUNS * ENTRIES {
                take_parts();
                #[cfg(debug_assertions)]
                let before = (tamarack_filter::digests_computed(), db.stats().lookups.filter_probes);
                let found = db.get(key(number))?;
                let expected = (number % 2 == 0).then_some([(number / 2 % RUNS) as u8; 20]);
                assert_eq!(
                    found.as_deref(),
                    expected.as_ref().map(|value| &value[..]),
                    "{number}, {hash:?} {hashed:?}"
                );
                let parts = take_parts();
                let (hashes, asked) = (parts[entered(LookupPart::Hash)].1, parts[entered(LookupPart::Probe)].1);
                let expected = match (hash, hashed) {
                    (Hash::Digest, Hashed::Once) => 1,
                    (Hash::Digest, Hashed::ByEach) => asked.max(1),
                    (Hash::Other(_), Hashed::Once) => 1 + asked.min(1),
                    (_, Hashed::Besides) | (Hash::Other(_), Hashed::ByEach) => 1 + asked,
                };
                assert_eq!(hashes, expected, "{number}, {hash:?} {hashed:?}, {asked} filters asked");
                #[cfg(debug_assertions)]
                {
                    let digests = if matches!(hash, Hash::Digest) { hashes } else { 1 };
                    assert_eq!(
                        tamarack_filter::digests_computed() - before.0,
                        digests,
                        "{number}, {hash:?} {hashed:?}"
                    );
                    assert_eq!(db.stats().lookups.filter_probes - before.1, asked, "{number}, {hash:?} {hashed:?}");
                }
            }
        }
        set_clock(None);
    }
    Ok(())
}
