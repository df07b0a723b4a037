//! A transaction is atomic and durable as a batch is: after a loss of power at any call, it is
//! there as a whole or not at all, and it is there once its commit has returned.

use std::sync::Arc;

use tamarack::{AdvancedOptions, Db, Durability, Options};
use tamarack_env::SimEnv;
use tamarack_env::sim::{Crash, Sector};
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};

/// Transactions of the test. Some are flushed.
const TRANSACTIONS: u64 = 12;

fn open(env: SimEnv) -> Db {
    let advanced = AdvancedOptions::new().env(Arc::new(env)).memtable_bytes(600);
    Options::new().durability(Durability::Sync).threads(1).advanced(advanced).open("/db").expect("it opens")
}

/// The number of the last transaction that is there.
fn found(db: &Db) -> u64 {
    let value = |key: &str| db.get(key).unwrap().map_or(0, |value| u64::from_be_bytes((*value).try_into().unwrap()));
    let (left, right) = (value("left"), value("right"));
    assert_eq!(left, right, "half a transaction");
    let marks: Vec<Vec<u8>> = db.prefix("mark ").map(|entry| entry.unwrap().0).collect();
    let expected = (left > 0).then(|| format!("mark {left:03}").into_bytes());
    assert_eq!(marks, Vec::from_iter(expected), "half of transaction {left}");
    left
}

#[test]
fn a_transaction_is_there_as_a_whole_or_not_at_all() {
    let env = SimEnv::new(5);
    let acknowledged = Arc::new(AtomicU64::new(0));
    let images = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    let db = open(env.clone());
    env.set_hook({
        let (acknowledged, images) = (acknowledged.clone(), images.clone());
        move |moment| {
            let number = acknowledged.load(Ordering::SeqCst);
            let seed = images.lock().len() as u64;
            let crashes = [
                Crash::LoseAll,
                Crash::KeepAll,
                Crash::Subset { seed },
                Crash::Torn { seed, sector: Sector::Bytes512 },
            ];
            images.lock().extend(crashes.map(|crash| (number, crash, moment.image(crash))));
        }
    });
    for number in 1..=TRANSACTIONS {
        let before = db.transact(|transaction| {
            let before = transaction.prefix("mark ").next().transpose()?;
            for key in ["left", "right"] {
                transaction.put(key, number.to_be_bytes());
            }
            if let Some((mark, _)) = &before {
                transaction.delete(mark);
            }
            transaction.put(format!("mark {number:03}"), vec![b'v'; 100]);
            Ok(before)
        });
        assert_eq!(before.unwrap().is_some(), number > 1);
        acknowledged.store(number, Ordering::SeqCst);
        // Something of the next one that must not be there.
        db.transaction().put("left", "never committed");
    }
    env.clear_hook();
    let images = std::mem::take(&mut *images.lock());
    assert!(images.len() > 100, "only {} images", images.len());
    let mut in_progress = 0;
    for (acknowledged, crash, image) in images {
        let number = found(&open(image));
        assert!(
            number == acknowledged || number == acknowledged + 1,
            "transaction {number} after {acknowledged} were acknowledged, {crash:?}"
        );
        in_progress += u32::from(number > acknowledged);
    }
    assert!(in_progress > 0, "no crash kept a transaction in progress");
}
