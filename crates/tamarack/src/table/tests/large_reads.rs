//! Reads of large blocks wait a while for space, and are charged before they begin.

use std::sync::Arc;
use std::time::Duration;

use tamarack_env::{Env, SimEnv};

use crate::cache::BlockCache;
use crate::memory::{Account, Budget, MemoryPart};
use crate::table::{TableAccess, TableStorage};

const MIB: usize = 1 << 20;

/// A read waits a millisecond for each MiB of its block at most, and only if its reader holds no
/// such block, the budget has no space for it, and blocks of its part take more than an eighth.
#[test]
fn large_reads_wait_for_space_for_a_while() {
    let env: Arc<dyn Env> = Arc::new(SimEnv::new(1));
    let access = TableAccess { direct: false, open_files_max: 10 };
    let account = Account::new(Budget::new(8 * MIB as u64, 0));
    let storage = TableStorage::new(env.clone(), Arc::new(BlockCache::new(0)), account.clone(), 0, access);
    for part in [MemoryPart::Blocks, MemoryPart::Compactions] {
        let milliseconds = |bytes: usize, has_large: bool| {
            let before = env.now();
            let charge = storage.charge_large_read(part, bytes, has_large);
            assert_eq!(charge.map_or(0, |charge| charge.bytes()), if bytes > MIB / 64 { bytes as u64 } else { 0 });
            (env.now() - before).as_secs_f64() * Duration::from_secs(1).as_millis() as f64
        };
        let present = account.charge(part, 6 * MIB);
        assert_eq!(milliseconds(2 * MIB, false), 0.0, "it just fits");
        assert_eq!(milliseconds(3 * MIB, false), 3.0);
        assert_eq!(milliseconds(3 * MIB, true), 0.0, "its reader is to get on");
        let more = account.charge(part, 2 * MIB);
        assert_eq!(milliseconds(MIB, false), 1.0);
        assert_eq!([MIB - 1, MIB / 64, 1].map(|bytes| milliseconds(bytes, false)), [0.0; 3], "small ones do not wait");
        drop((present, more));
        let others = account.charge(MemoryPart::Filters, 8 * MIB);
        let little = account.charge(part, MIB);
        assert_eq!(milliseconds(3 * MIB, false), 0.0, "others than blocks of its part take the memory");
        drop((others, little));
    }
    assert_eq!(account.total_bytes(), 0);
}
