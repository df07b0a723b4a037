//! A model of a database: what several tests write to both, and compare with what is read.

use std::collections::BTreeMap;

use tamarack::{Db, Result};
use tamarack_env::Random;

/// Keys and values.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns all entries of a database.
pub(crate) fn all(db: &Db) -> Model {
    all_of(db.scan(..))
}

/// Returns the entries that a scan yields, each key once.
pub(crate) fn all_of(scan: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> Model {
    let mut found = Model::new();
    for entry in scan {
        let (key, value) = entry.expect("readable");
        let twice = found.insert(key.clone(), value);
        assert_eq!(twice, None, "{} comes twice", key.escape_ascii());
    }
    found
}

/// Puts an entry.
pub(crate) fn put(db: &Db, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, model: &mut Model) -> Result<()> {
    db.put(&key, &value)?;
    model.insert(key.as_ref().to_vec(), value.as_ref().to_vec());
    Ok(())
}

/// Writes to random ones of `keys` keys; one in `deletes` is a delete.
pub(crate) fn write_at_random(db: &Db, random: &Random, writes: u64, keys: u64, deletes: u64, model: &mut Model) {
    for number in 0..writes {
        let key = format!("key {:03}", random.below(keys));
        if random.below(deletes) == 0 {
            db.delete(&key).unwrap();
            model.remove(key.as_bytes());
        } else {
            put(db, key, format!("{number}").repeat(1 + random.below(8) as usize), model).unwrap();
        }
    }
}
