//! The entries of a calibration: keys of 16 bytes and values of 100.

pub(super) const KEY_BYTES: usize = 16;
pub(super) const VALUE: [u8; 100] = [b'v'; 100];

/// A key, in the order of numbers.
pub(super) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"key:            ";
    key[4..12].copy_from_slice(&number.to_be_bytes());
    key
}
