//! The memory of fence pointers: Appendix I.
//!
//! Each block of each run has a fence pointer in memory, the first key of the block and where the
//! block is, so their number is that of all blocks, whatever the policy, the ratio and the split.
//! They are therefore not part of the search: `M̂` is what they leave of the main memory. With keys
//! of 16 bytes, pointers of 8 and blocks of 16 KiB that is 0.15 % of the data ("0.1 %").

use super::setting::MonkeySetting;
use crate::units::Bytes;

/// The memory of all fence pointers: `|FP| N / B` for pointers of `each_bytes`, the mean size of a
/// key and an address.
///
/// # Panics
/// If a size of the setting is 0.
pub fn fence_pointers(setting: &MonkeySetting, each_bytes: f64) -> Bytes {
    setting.check();
    Bytes((each_bytes * setting.data_bytes() / setting.block_bytes as f64).ceil() as u64)
}

/// The setting without the memory of its fence pointers, if [`MonkeySetting::memory`] is all main
/// memory; `None` if fence pointers leave nothing.
///
/// # Panics
/// If a size of the setting is 0.
pub fn without_fence_pointers(setting: &MonkeySetting, each_bytes: f64) -> Option<MonkeySetting> {
    let left = setting.memory.0.checked_sub(fence_pointers(setting, each_bytes).0)?;
    (left > 0).then_some(MonkeySetting { memory: Bytes(left), ..*setting })
}
