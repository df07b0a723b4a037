//! The bytes of `CURRENT`, which names the manifest in charge.
//!
//! A manifest itself is a journal file ([`record`](super::record)) whose payloads are edits
//! ([`edit`](super::edit)); the first of them is the base, an edit that describes everything.

use crate::checksum::{FileKind, Place};

const CURRENT_WORDS: &str = "tamarack manifest ";

/// The content of `CURRENT` that names a manifest: one line of text.
pub fn encode_current(manifest: u64) -> String {
    let statement = format!("{CURRENT_WORDS}{manifest:010}");
    let checksum = current_place().checksum(0, statement.as_bytes());
    format!("{statement} checksum {checksum:016x}\n")
}

/// The manifest that the content of `CURRENT` names; `None` if it is damaged.
pub fn decode_current(content: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(content).ok()?;
    let number = text.strip_prefix(CURRENT_WORDS)?.split_once(' ')?.0.parse().ok()?;
    // One content per number: comparing all of it covers the checksum as well.
    (encode_current(number) == text).then_some(number)
}

fn current_place() -> Place {
    Place::new(0, FileKind::Current, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_is_one_readable_line_and_every_flipped_bit_is_noticed() {
        let line = encode_current(7);
        assert!(line.starts_with("tamarack manifest 0000000007 checksum ") && line.ends_with('\n'), "{line}");
        for number in [0, 7, u64::MAX] {
            assert_eq!(decode_current(encode_current(number).as_bytes()), Some(number));
        }
        for bit in 0..line.len() * 8 {
            let mut flipped = line.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_current(&flipped), None, "bit {bit}");
        }
        for cut in 0..line.len() {
            assert_eq!(decode_current(&line.as_bytes()[..cut]), None);
        }
    }
}
