//! The worked examples of `docs/FORMAT.md` are the golden files, byte for byte.
//!
//! A line of an example is an offset of three hexadecimal digits, two spaces, what stands there
//! (hexadecimal digits, and text in quotes, of which `…` leaves out the rest), and a comment. `…`
//! alone leaves out bytes between two lines; otherwise lines follow one another without a gap.

use std::path::Path;

use tamarack_env::OsEnv;
use tamarack_testing::read_file;

fn file(path: &str) -> Vec<u8> {
    read_file(&*OsEnv::new(), &Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}

/// What a line says, without its comment; true if the end of its text is left out.
fn data(mut line: &str) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        line = line.trim_start();
        if let Some(text) = line.strip_prefix('"') {
            let (text, rest) = text.split_once('"').unwrap_or_else(|| panic!("`{line}` has no second quote"));
            bytes.extend_from_slice(text.trim_end_matches('…').as_bytes());
            if text.ends_with('…') {
                return (bytes, true);
            }
            line = rest;
            continue;
        }
        let (word, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
        let is_hex = !word.is_empty() && word.len() % 2 == 0 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return (bytes, false);
        }
        let digits = word.as_bytes().chunks_exact(2).map(|digits| std::str::from_utf8(digits).expect("digits"));
        bytes.extend(digits.map(|digits| u8::from_str_radix(digits, 16).expect("digits")));
        line = rest;
    }
}

/// Compares the lines of an example with the bytes that it is about; gives how many it shows.
fn compare(example: &str, bytes: &[u8]) -> usize {
    let (mut shown, mut next) = (0, Some(0));
    for line in example.lines() {
        let offset = line.split_once("  ").and_then(|(offset, _)| usize::from_str_radix(offset, 16).ok());
        let Some(offset) = offset else {
            // Otherwise it is the rest of a comment.
            next = next.filter(|_| line != "…");
            continue;
        };
        assert!(next.is_none_or(|next| next == offset), "`{line}` does not follow the line before");
        let (data, is_cut) = data(&line[5..]);
        let end = offset + data.len();
        let stored = bytes.get(offset..end).unwrap_or_else(|| panic!("`{line}` is past the file's end"));
        assert!(!data.is_empty(), "`{line}` shows no bytes");
        assert_eq!(stored, data, "`{line}`");
        shown += data.len();
        next = (!is_cut).then_some(end);
    }
    shown
}

#[test]
fn worked_examples_are_what_is_stored() {
    let document = String::from_utf8(file("../../docs/FORMAT.md")).expect("text");
    // The payload of the base, which fills its record but for the head and the padding.
    let manifest = String::from_utf8(file("tests/golden/v2/manifest.txt")).expect("text");
    let base = manifest.lines().find_map(|line| line.strip_prefix("base: ")).expect("it is stored");
    let base = data(base).0;
    let payload_bytes = u32::from_le_bytes(base[16..20].try_into().expect("four bytes")) as usize;
    let examples = [
        ("v2/0000000031.sst`", file("tests/golden/v2/0000000031.sst"), 100),
        ("v2/0000000001.wal`", file("tests/golden/v2/0000000001.wal"), 170),
        ("v2/manifest.txt`", base[40..40 + payload_bytes].to_vec(), payload_bytes),
    ];
    for (name, bytes, shown_min) in examples {
        let (_, rest) = document.split_once(name).unwrap_or_else(|| panic!("the document has no example {name}"));
        let example = rest.split("```").nth(1).and_then(|block| block.strip_prefix("text\n")).expect("an example");
        let shown = compare(example, &bytes);
        assert!(shown >= shown_min, "{name}: only {shown} bytes are compared");
    }
    let current = manifest.lines().find_map(|line| line.strip_prefix("current: ")).expect("it is stored");
    assert!(document.contains(&format!("\n{current}\n")), "the document has another line in CURRENT");
}
