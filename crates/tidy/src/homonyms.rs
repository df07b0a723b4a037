//! Type names are unique or nearly so: at most two types of one name over all crates.
//!
//! A reader who meets `State` in seven places has to look up each time which one it is. Counted are
//! structs, enums, traits, unions and type aliases in code that ships, public or private, of all
//! crates in `crates/`; associated types are not types of their own.

use std::collections::BTreeMap;

use crate::finding::{Count, Finding};
use crate::rust;
use crate::tree::TextFile;

/// How many types may have the same name.
const SAME_NAME_MAX: usize = 2;

/// What a definition begins with, after its visibility.
const KINDS: &[&str] = &["struct ", "enum ", "trait ", "union ", "type "];

/// Types with a name that more than [`SAME_NAME_MAX`] types have, one count with a place for each
/// name.
pub(crate) fn homonyms(files: &[TextFile]) -> Vec<Count> {
    let mut places: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && is_shipped(&file.path)) {
        let code = rust::without_tests(&rust::code_only(&file.text));
        for (line, name) in definitions(&code) {
            places.entry(name).or_default().push(Finding::on_line(file, line));
        }
    }
    let mut count = Count::new("homonyms", "name the type after what it is, so that at most two types share a name");
    for (name, findings) in places.into_iter().filter(|(_, findings)| findings.len() > SAME_NAME_MAX) {
        for finding in findings {
            count.add(&name, finding);
        }
    }
    vec![count]
}

fn is_shipped(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs")
}

/// The names that top-level definitions in the code introduce, with their lines.
fn definitions(code: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    code.lines().enumerate().filter_map(|(index, line)| {
        let rest = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let name = KINDS.iter().find_map(|kind| rest.strip_prefix(kind))?;
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        Some((index + 1, name[..end].to_owned()))
    })
}

/// Shows what is a definition.
#[test]
fn definitions_are_found() {
    let code = "pub(crate) struct Part<'a> {\n    type Item = u8;\n}\nenum State { A }\npub unsafe trait T: X {}\nimpl Part {}\ntype A = B;";
    let found: Vec<(usize, String)> = definitions(code).collect();
    let expected = [(1, "Part"), (4, "State"), (5, "T"), (7, "A")].map(|(line, name)| (line, name.to_owned()));
    assert_eq!(found, expected);
}
