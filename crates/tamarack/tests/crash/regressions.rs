//! What this suite found, each with its story.

use std::path::Path;
use std::sync::Arc;

use tamarack::{AdvancedOptions, Durability, Options, Result, step};
use tamarack_env::sim::{Crash, Failure, Fault};
use tamarack_env::{Env, SimEnv};

fn open(env: &SimEnv) -> Result<tamarack::Db> {
    let advanced = AdvancedOptions::new().env(Arc::new(env.clone())).memtable_bytes(256);
    Options::new().durability(Durability::Sync).advanced(advanced).open("/db")
}

/// A process made the database's directory and died before it had made its name durable. The next
/// one found the directory there, trusted it, and acknowledged writes in a database that the next
/// loss of power took away as a whole.
#[test]
fn a_directory_that_was_found_is_made_durable_too() -> Result<()> {
    let env = SimEnv::new(1);
    env.inject(Fault::new(Failure::Io).step(step::DATABASE_SYNC_PARENT));
    assert!(open(&env).is_err(), "the first process stops half way");
    let env = env.kill();
    assert_eq!(env.list(Path::new("/")).unwrap(), ["db"]);

    let db = open(&env)?;
    db.put("key", "value")?;
    let db = open(&env.image(Crash::LoseAll))?;
    assert!(db.contains_key("key")?);
    Ok(())
}
