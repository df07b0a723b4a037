//! Medians, and numbers without visible order that are the same on every run.

use tamarack_env::random::{STEP, mixed};

/// The middle value, or the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Permutes the 64-bit numbers without visible order (splitmix64): distinct numbers give distinct
/// keys.
pub fn mix(n: u64) -> u64 {
    mixed(n.wrapping_add(STEP))
}

/// The key of this number: 16 bytes, scattered over all keys.
pub fn scattered_key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(number).to_be_bytes());
    key[8..].copy_from_slice(&mix(!number).to_be_bytes());
    key
}

/// 64 random bits as a number from 0, inclusive, to 1, exclusive.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Bytes in MiB.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// A MiB of bytes that no compressor shrinks, for values to be cut from.
pub fn noise() -> Vec<u8> {
    (0..1u64 << 17).flat_map(|n| mix(n << 32).to_le_bytes()).collect()
}

/// The same of bytes that compressors shrink to about half: of every 64 bytes the second half is
/// zero.
pub fn half_noise() -> Vec<u8> {
    let mut bytes = noise();
    bytes.chunks_exact_mut(64).for_each(|chunk| chunk[32..].fill(0));
    bytes
}

/// The middle of odd and even numbers of values.
#[test]
fn medians() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
}
