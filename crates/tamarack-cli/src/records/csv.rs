//! Comma-separated records: key, comma, value, both escaped, in double quotes where they hold
//! a comma or a quote.
//!
//! Since line breaks are escaped as `\n`, a record never spans lines, unlike in other
//! programs' CSV.

use crate::text;

/// As [`super::Format::decode`].
pub(super) fn decode(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
    let (key_text, rest) = field(line)?;
    let Some(rest) = rest.strip_prefix(b",") else {
        return Err("there is no comma between key and value".to_owned());
    };
    let (value_text, rest) = field(rest)?;
    if !rest.is_empty() {
        return Err("there is a third field; put a value that holds a comma in double quotes".to_owned());
    }
    text::unescape(&key_text, key)?;
    text::unescape(&value_text, value)
}

/// As [`super::Format::encode`], without the line feed.
pub(super) fn encode(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode_field(key, out);
    out.push(b',');
    encode_field(value, out);
}

/// The field that `line` begins with, out of its quotes, and what follows it.
fn field(line: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let Some(quoted) = line.strip_prefix(b"\"") else {
        let end = line.iter().position(|&byte| byte == b',').unwrap_or(line.len());
        if line[..end].contains(&b'"') {
            return Err(
                "there is a quote inside a field; put the field in double quotes and double those in it".to_owned()
            );
        }
        return Ok((line[..end].to_vec(), &line[end..]));
    };
    let mut text = Vec::new();
    let mut rest = quoted;
    loop {
        let Some(quote) = rest.iter().position(|&byte| byte == b'"') else {
            return Err("a quote is not closed on its line; write a line break inside a value as \\n".to_owned());
        };
        text.extend(&rest[..quote]);
        rest = &rest[quote + 1..];
        match rest {
            [b'"', more @ ..] => {
                text.push(b'"');
                rest = more;
            }
            [] | [b',', ..] => return Ok((text, rest)),
            _ => return Err("there is something between a closing quote and the next comma".to_owned()),
        }
    }
}

fn encode_field(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    text::escape(bytes, out);
    if !out[start..].iter().any(|byte| matches!(byte, b',' | b'"')) {
        return;
    }
    let plain = out.split_off(start);
    out.push(b'"');
    for byte in plain {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Records and their lines, and invalid lines.
#[test]
fn examples() {
    for (key, value, line) in [
        (&b"oak"[..], &b"9.80"[..], "oak,9.80"),
        (b"a,b", b"say \"hi\"", r#""a,b","say ""hi""""#),
        (b"", b"", ","),
        (b"two\nlines", b"\\", r"two\nlines,\\"),
    ] {
        let mut out = Vec::new();
        encode(key, value, &mut out);
        assert_eq!(out, line.as_bytes());
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for (line, complaint) in [
        ("alone", "no comma"),
        ("a,b,c", "third field"),
        ("\"a,b", "not closed"),
        ("\"a\"b,c", "between"),
        ("a\"b,c", "quote inside"),
    ] {
        assert!(
            decode(line.as_bytes(), &mut key, &mut value).is_err_and(|message| message.contains(complaint)),
            "{line}"
        );
    }
}
