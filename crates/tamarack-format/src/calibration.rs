//! The bytes of `CALIBRATION`: the measured figures of a device as text, and a checksum.
//!
//! ```text
//! tamarack device 1
//! read 91.2 us
//! …                               as tamarack_model::device prints it
//! # checksum 3654091f722bed87     of all bytes before this line
//! ```
//!
//! The last line is a comment of that text, so the whole file can be read as a device, too. The
//! checksum is bound to the kind of file and not to a database: the figures are those of a machine,
//! and the file may be copied to another database there.

use crate::checksum::{FileKind, Place};

const CHECKSUM_WORDS: &str = "# checksum ";

/// The bytes of `# checksum 3654091f722bed87\n`.
const LAST_LINE_BYTES: usize = CHECKSUM_WORDS.len() + 16 + 1;

/// The largest file that is read: a hundred times that of a calibration.
pub const CALIBRATION_BYTES_MAX: u64 = 100_000;

/// The content of `CALIBRATION` with this text, which ends with a line end.
pub fn encode_calibration(text: &str) -> String {
    let checksum = Place::new(0, FileKind::Calibration, 0).checksum(0, text.as_bytes());
    format!("{text}{CHECKSUM_WORDS}{checksum:016x}\n")
}

/// The text in the content of `CALIBRATION`; `None` if it is damaged.
pub fn decode_calibration(content: &[u8]) -> Option<&str> {
    let all = std::str::from_utf8(content).ok()?;
    let text = all.get(..all.len().checked_sub(LAST_LINE_BYTES)?)?;
    // One content for each text: comparing all of it covers the checksum's own digits as well.
    (encode_calibration(text) == all).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was encoded comes back, and no flipped bit, cut or addition goes unnoticed.
    #[test]
    fn every_damage_is_noticed() {
        for text in ["", "tamarack device 1\nread 91.2 us\n", "no line end", "ünïcode\n"] {
            let content = encode_calibration(text);
            assert!(content.starts_with(text) && content.ends_with('\n'), "{content}");
            assert_eq!(content.len(), text.len() + LAST_LINE_BYTES);
            let content = content.as_bytes();
            assert_eq!(decode_calibration(content), Some(text));
            for bit in 0..content.len() * 8 {
                let mut flipped = content.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode_calibration(&flipped), None, "bit {bit}");
            }
            for cut in 0..content.len() {
                assert_eq!(decode_calibration(&content[..cut]), None, "{cut} bytes");
                assert_eq!(decode_calibration(&content[cut + 1..]), None, "from {cut}");
            }
            assert_eq!(decode_calibration(&[content, b"\n"].concat()), None);
        }
    }
}
