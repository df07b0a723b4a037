//! Tab-separated records: key, tab, value, both escaped.

use crate::text;

/// As [`super::Format::decode`].
pub(super) fn decode(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<(), String> {
    let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
        return Err("there is no tab between key and value".to_owned());
    };
    if line[tab + 1..].contains(&b'\t') {
        return Err("there is a second tab; write a tab inside a value as \\t".to_owned());
    }
    text::unescape(&line[..tab], key)?;
    text::unescape(&line[tab + 1..], value)
}

/// As [`super::Format::encode`], without the line feed.
pub(super) fn encode(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    text::escape(key, out);
    out.push(b'\t');
    text::escape(value, out);
}

/// Valid and invalid lines.
#[test]
fn examples() {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    decode(b"U+0041\tLATIN CAPITAL LETTER A", &mut key, &mut value).expect("a record");
    assert_eq!((key.as_slice(), value.as_slice()), (&b"U+0041"[..], &b"LATIN CAPITAL LETTER A"[..]));
    for (line, complaint) in
        [(&b"no tab"[..], "no tab"), (b"a\tb\tc", "second tab"), (b"", "no tab"), (b"a\\q\tb", "not an escape")]
    {
        assert!(decode(line, &mut key, &mut value).is_err_and(|message| message.contains(complaint)), "{line:?}");
    }
}
