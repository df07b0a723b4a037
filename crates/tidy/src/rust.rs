//! As much of Rust's syntax as the rules need: where code is, what is compiled for tests only,
//! which paths it names.
//!
//! ```text
//! text ── code_only ──► comments and strings blanked ── without_tests ── paths ──► crate::a::b …
//! ```
//!
//! Every step keeps line breaks and lengths, so that a byte's line number is the same in all of
//! them.

/// The text with comments and the insides of string and character literals replaced by spaces.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => line_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if starts_raw_string(bytes, at) => raw_string_end(bytes, at),
            b'\'' => char_end(bytes, at),
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut out[at..end]);
        at = end;
    }
    String::from_utf8(out).expect("blanks replace whole literals and comments")
}

/// The code without items under `#[cfg(test)]` and `#[cfg(all(test, …))]`, blanked likewise.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    for mark in ["#[cfg(test)]", "#[cfg(all(test,"] {
        for (start, _) in code.match_indices(mark) {
            let end = item_end(code.as_bytes(), start);
            blank(&mut out[start..end]);
        }
    }
    String::from_utf8(out).expect("blanks replace whole items")
}

/// The names declared by `mod name;`, each with whether it is compiled for tests only.
pub(crate) fn declared_modules(code: &str) -> Vec<(String, bool)> {
    let shipped = without_tests(code);
    let all = semicolon_modules(code);
    let kept = semicolon_modules(&shipped);
    all.into_iter()
        .map(|name| {
            let tests_only = !kept.contains(&name);
            (name, tests_only)
        })
        .collect()
}

/// All paths of at least two parts that code names, with their line numbers from 1: the leaves of
/// each `use` (with `a::{b, c}` written out), and paths inside expressions and types. Re-exports
/// (`pub use`) are left out: they only pass a name on.
pub(crate) fn paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = code.to_owned();
    for (start, end, is_public) in use_statements(code) {
        if !is_public {
            found.extend(expand(&code[start + "use".len()..end]).into_iter().map(|leaf| (line_of(code, start), leaf)));
        }
        rest.replace_range(start..end, &" ".repeat(end - start));
    }
    for (offset, path) in inline_paths(&rest) {
        found.push((line_of(code, offset), path));
    }
    found
}

/// The leaves of each `pub use`.
pub(crate) fn reexports(code: &str) -> Vec<Vec<String>> {
    let public = use_statements(code).into_iter().filter(|(_, _, is_public)| *is_public);
    public.flat_map(|(start, end, _)| expand(&code[start + "use".len()..end])).collect()
}

/// True if `word` stands in `code` as a whole identifier.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    word_offsets(code, word).next().is_some()
}

/// Where `word` stands as a whole identifier.
pub(crate) fn word_offsets<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at == 0 || !is_name_byte(bytes[at - 1]);
        let after = bytes.get(at + word.len()).is_none_or(|&b| !is_name_byte(b));
        before && after
    })
}

/// The line, from 1, of the byte at `offset`.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&b| b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i < bytes.len() {
        if bytes[i..].starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if bytes[i..].starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// At an `r` (or the `r` of `br`) that opens `r"…"` or `r#"…"#`, and is not the end of a name or a
/// raw identifier.
fn starts_raw_string(bytes: &[u8], at: usize) -> bool {
    let in_name =
        at > 0 && is_name_byte(bytes[at - 1]) && !(bytes[at - 1] == b'b' && (at < 2 || !is_name_byte(bytes[at - 2])));
    let hashes = bytes[at + 1..].iter().take_while(|&&b| b == b'#').count();
    !in_name && bytes.get(at + 1 + hashes) == Some(&b'"')
}

fn raw_string_end(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|&&b| b == b'#').count();
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = at + 2 + hashes;
    bytes[body..].windows(close.len()).position(|w| w == close).map_or(bytes.len(), |n| body + n + close.len())
}

/// The end of a character literal, or of the quote alone where it begins a lifetime.
fn char_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => bytes[at + 3..].iter().position(|&b| b == b'\'').map_or(bytes.len(), |n| at + 4 + n),
        Some(_) => {
            let width =
                std::str::from_utf8(&bytes[at + 1..]).ok().and_then(|s| s.chars().next()).map_or(1, char::len_utf8);
            if bytes.get(at + 1 + width) == Some(&b'\'') { at + 2 + width } else { at + 1 }
        }
        None => at + 1,
    }
}

/// The end of the item that begins at `at`: its first `;` outside braces, or the brace that closes
/// its first one.
fn item_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    for (i, byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth -= 1;
                if depth == 0 && *byte == b'}' {
                    return i + 1;
                }
            }
            b';' if depth == 0 => return i + 1,
            _ => {}
        }
    }
    bytes.len()
}

fn semicolon_modules(code: &str) -> Vec<String> {
    word_offsets(code, "mod")
        .filter_map(|at| {
            let rest = code[at + 3..].trim_start();
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            rest[name.len()..].trim_start().starts_with(';').then_some(name)
        })
        .collect()
}

/// Start, end (before the `;`) and publicity of each `use`. A `use<…>` bound in a signature is
/// none.
fn use_statements(code: &str) -> Vec<(usize, usize, bool)> {
    word_offsets(code, "use")
        .filter(|&start| code[start + "use".len()..].starts_with([' ', '\n']))
        .filter_map(|start| {
            let end = start + code[start..].find(';')?;
            let statement = code[..start].rfind([';', '{', '}', ']']).map_or(0, |before| before + 1);
            Some((start, end, code[statement..start].trim_start().starts_with("pub")))
        })
        .collect()
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`; `as` names and globs are dropped.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim().trim_start_matches("::");
    if let Some(open) = tree.find('{') {
        let prefix = split_path(tree[..open].trim_end().trim_end_matches("::"));
        let inner = tree[open + 1..].trim_end().trim_end_matches('}');
        return split_top_level(inner)
            .into_iter()
            .flat_map(expand)
            .map(|leaf| prefix.iter().cloned().chain(leaf).collect())
            .collect();
    }
    let path = tree.split(" as ").next().unwrap_or_default();
    vec![split_path(path)]
}

fn split_path(path: &str) -> Vec<String> {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty() && part != "*").collect()
}

fn split_top_level(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0, 0);
    for (i, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Runs of `name::name…` in code, with where they begin.
fn inline_paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_name_byte(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        let mut parts = Vec::new();
        loop {
            let end = at + bytes[at..].iter().take_while(|&&b| is_name_byte(b)).count();
            if end == at {
                break;
            }
            parts.push(code[at..end].to_owned());
            at = end;
            if !bytes[at..].starts_with(b"::") {
                break;
            }
            at += 2;
        }
        let continues = start >= 2 && &bytes[start - 2..start] == b"::";
        if parts.len() > 1 && !continues {
            found.push((start, parts));
        }
    }
    found
}

/// Shows what the reader of Rust sees in the cases that are easy to get wrong.
#[test]
fn reads_the_awkward_parts_of_rust() {
    let code = code_only(
        "let a = \"use x::y; \\\" {\"; // mod b;\nlet c: &'static str = r#\"\"}\"#; let d = '\\''; let e = '{';",
    );
    assert!(!code.contains('x') && !code.contains("mod") && !code.contains(['{', '}']), "{code}");
    assert!(code.contains("&'static str") || code.contains("& static str"), "{code}");

    let shipped = without_tests("fn a() {}\n#[cfg(test)]\nmod tests {\n use crate::high::X; fn t() {} }\nfn b() {}");
    assert!(shipped.contains("fn b") && !shipped.contains("high"), "{shipped}");
    let shipped = without_tests("#[cfg(all(test, not(feature = \"f\")))]\nmod t {\n use super::*; }\nfn b() {}");
    assert!(shipped.contains("fn b") && !shipped.contains("super"), "{shipped}");
    assert_eq!(
        declared_modules("pub mod a;\n#[cfg(test)]\nmod t;\nmod inline { }"),
        [("a".into(), false), ("t".into(), true)]
    );

    let text = "use crate::a::{b::C, d, e::{self, F as G}};\npub use h::I;\nfn f() -> super::J { k::l() }";
    assert_eq!(reexports(text), [["h", "I"]]);
    let joined: Vec<String> =
        paths(text).into_iter().map(|(line, path)| format!("{line} {}", path.join("::"))).collect();
    assert_eq!(
        joined,
        ["1 crate::a::b::C", "1 crate::a::d", "1 crate::a::e::self", "1 crate::a::e::F", "3 super::J", "3 k::l"]
    );
}
