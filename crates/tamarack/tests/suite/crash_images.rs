//! What a machine that stops leaves, at each call of the storage.

use std::sync::Arc;

use tamarack::Result;
use tamarack_env::SimEnv;
use tamarack_env::sim::Crash;
use tamarack_env::sync::atomic::{AtomicU64, Ordering};
use tamarack_env::sync::{Mutex, Rank};

/// Images of the storage at each call that `work` makes, with all, nothing and some of what was
/// written and not synced; and the number that was acknowledged by then, which `work` sets.
pub(crate) fn crash_images(
    env: &SimEnv,
    work: impl FnOnce(&AtomicU64) -> Result<()>,
) -> Result<Vec<(u64, Crash, SimEnv)>> {
    let acknowledged = Arc::new(AtomicU64::new(0));
    let images = Arc::new(Mutex::new(Rank::Test, Vec::new()));
    env.set_hook({
        let (acknowledged, images) = (acknowledged.clone(), images.clone());
        move |moment| {
            let number = acknowledged.load(Ordering::SeqCst);
            let seed = images.lock().len() as u64;
            let crashes = [Crash::LoseAll, Crash::KeepAll, Crash::Subset { seed }];
            images.lock().extend(crashes.map(|crash| (number, crash, moment.image(crash))));
        }
    });
    let worked = work(&acknowledged);
    env.clear_hook();
    worked?;
    let images = std::mem::take(&mut *images.lock());
    Ok(images)
}
