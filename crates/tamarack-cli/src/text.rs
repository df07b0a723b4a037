//! Escapes of keys and values: any bytes as reversible, readable text.
//!
//! ```text
//! bytes      text      why
//! tab        \t        separates key and value in TSV
//! line feed  \n        separates records
//! return     \r        could be taken for part of a line's end
//! \          \\        begins every escape
//! not UTF-8  \xNN      one for each byte, two hexadecimal digits
//! U+FEFF     \xNN      at the beginning, where it could be taken for a byte order mark
//! the rest   itself
//! ```
//!
//! [`escape`] is injective and [`unescape`] its left inverse: `unescape(escape(bytes)) == bytes`
//! for all bytes (tested). The other way round, `unescape` also reads what `escape` would write
//! differently: raw bytes that are not UTF-8, and `\xNN` for any byte.

/// Appends the escaped `bytes` to `out`.
pub(crate) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mark = bytes.strip_prefix("\u{feff}".as_bytes());
    if mark.is_some() {
        out.extend(b"\\xef\\xbb\\xbf");
    }
    for chunk in mark.unwrap_or(bytes).utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'\t' => out.extend(b"\\t"),
                b'\n' => out.extend(b"\\n"),
                b'\r' => out.extend(b"\\r"),
                b'\\' => out.extend(b"\\\\"),
                _ => out.push(byte),
            }
        }
        for &byte in chunk.invalid() {
            out.extend(b"\\x");
            out.extend([hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
}

/// The text form of `bytes`.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape(bytes, &mut out);
    String::from_utf8(out).expect("escaping leaves valid UTF-8 only")
}

/// Appends the unescaped bytes of `text` to `out`.
///
/// # Errors
/// A message with the invalid escape.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend(&rest[..at]);
        let (byte, length) = match rest[at + 1..] {
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'\\', ..] => (b'\\', 2),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_value(high) << 4 | hex_value(low), 4)
            }
            _ => {
                let shown = &rest[at..rest.len().min(at + 4)];
                return Err(format!(
                    "`{}` is not an escape; write \\\\ for a backslash",
                    String::from_utf8_lossy(shown)
                ));
            }
        };
        out.push(byte);
        rest = &rest[at + length..];
    }
    out.extend(rest);
    Ok(())
}

/// `bytes` as pairs of hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [hex_digit(byte >> 4), hex_digit(byte & 15)]).map(char::from).collect()
}

/// The bytes of pairs of hexadecimal digits; `None` if `text` is something else.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let all_digits = digits.iter().all(u8::is_ascii_hexdigit) && digits.len().is_multiple_of(2);
    all_digits.then(|| digits.chunks(2).map(|pair| hex_value(pair[0]) << 4 | hex_value(pair[1])).collect())
}

fn hex_digit(half: u8) -> u8 {
    b"0123456789abcdef"[usize::from(half)]
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => panic!("callers check that {digit} is a hexadecimal digit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Random, special_bytes};

    fn unescaped(text: &str) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        unescape(text.as_bytes(), &mut out).map(|()| out)
    }

    /// Some bytes and their text form.
    #[test]
    fn examples() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"", ""),
            (b"a\tb\nc\rd\\e", r"a\tb\nc\rd\\e"),
            ("ÆØ\u{1f332}".as_bytes(), "ÆØ\u{1f332}"),
            (b"\xff\x00\xc3", "\\xff\0\\xc3"),
        ] {
            assert_eq!(escaped(bytes), text);
            assert_eq!(unescaped(text).as_deref(), Ok(bytes));
        }
        assert_eq!(unescaped(r"\x41\xFf").as_deref(), Ok(&b"A\xff"[..]));
    }

    /// Invalid escapes are refused with a message.
    #[test]
    fn refuses_what_is_not_an_escape() {
        for text in [r"C:\dir", r"end\", r"\x4", r"\xg0"] {
            assert!(unescaped(text).is_err_and(|message| message.contains('\\')), "{text}");
        }
    }

    /// Random bytes, many of them special, come back; their text form has none of the separators
    /// and is valid UTF-8.
    #[test]
    fn any_bytes_come_back() {
        let mut random = Random::new(tamarack_testing::seed(0x7a3a_2ac5));
        for _ in 0..20_000 {
            let bytes = special_bytes(&mut random, 12);
            let text = escaped(&bytes);
            assert!(!text.contains(['\t', '\n', '\r']), "{text:?}");
            assert_eq!(unescaped(&text), Ok(bytes.clone()), "{bytes:?} as {text:?}");
            assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        }
    }
}
