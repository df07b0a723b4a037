//! One random call that must not change what a database holds: flushes, compactions, changes of
//! policy and filter, scans, snapshots.

use tamarack::{Db, Error};
use tamarack_testing::Random;

use crate::design::{FILTERS, POLICIES};

/// Makes one call, and returns its name.
///
/// # Errors
/// The call's error.
pub(crate) fn disturb(db: &Db, random: &mut Random) -> Result<&'static str, Error> {
    let key = |random: &mut Random| format!("{:06}", random.below(1000));
    Ok(match random.below(16) {
        0 | 1 => {
            db.flush()?;
            "flush"
        }
        2 => {
            db.compact()?;
            "compact"
        }
        3 | 4 => {
            let (from, to) = (key(random), key(random));
            db.compact_range(from..to)?;
            "compact_range"
        }
        5 | 6 => {
            db.set_policy(*random.pick::<&str>(POLICIES))?;
            "set_policy"
        }
        7 => {
            db.set_filter(random.pick::<&str>(FILTERS))?;
            "set_filter"
        }
        8 => {
            db.reshape()?;
            "reshape"
        }
        9 | 10 => {
            let scan = db.scan(key(random)..);
            scan.take(200).try_for_each(|entry| entry.map(drop))?;
            "scan"
        }
        11 => {
            let scan = db.scan(..key(random)).rev();
            scan.take(200).try_for_each(|entry| entry.map(drop))?;
            "reverse scan"
        }
        12 => {
            let snapshot = db.snapshot();
            db.flush()?;
            snapshot.scan(..).try_for_each(|entry| entry.map(drop))?;
            "snapshot"
        }
        13 => {
            drop(db.stats());
            db.estimate_reshape(*random.pick::<&str>(POLICIES), 1 << 20)?;
            "estimate_reshape"
        }
        14 => {
            let pause = db.pause_compactions();
            db.flush()?;
            drop(pause);
            "pause_compactions"
        }
        _ => {
            db.sync()?;
            "sync"
        }
    })
}
