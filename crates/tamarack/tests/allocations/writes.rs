//! Puts by one thread allocate nothing.

use tamarack::{AdvancedOptions, Options, Result};
use tamarack_env::MemoryEnv;

use crate::allocator::allocations_of_thread;

/// Of 2,000 puts, only those allocate that need another chunk of the memtable (every hundredth, and
/// more rarely later), or for which the environment's file outgrows its memory.
#[test]
fn a_put_by_one_thread_allocates_nothing() -> Result<()> {
    let advanced = AdvancedOptions::new().env(MemoryEnv::new(1)).memtable_bytes(1 << 20);
    let db = Options::new().advanced(advanced).open("/database")?;
    let mut allocating = 0;
    for number in 0..2000_u64 {
        let before = allocations_of_thread();
        db.put(number.to_be_bytes(), [b'v'; 100])?;
        allocating += u64::from(allocations_of_thread() > before);
    }
    assert!((1..60).contains(&allocating), "{allocating} puts allocate");
    Ok(())
}
