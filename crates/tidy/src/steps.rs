//! The list of places that change storage is complete and true.
//!
//! `crates/tamarack/src/step.rs` names every such place. The fault and crash tests go through that
//! list, so a name that is used nowhere would be a test of nothing, and a step made in passing
//! would be a place that no test reaches.

use crate::rust;
use crate::tree;
use crate::verdict::assert_none;

const ENGINE: &str = "crates/tamarack/src/";
const LIST: &str = "crates/tamarack/src/step.rs";

/// Every listed step is used in the engine outside its tests.
#[test]
fn every_step_is_used() {
    let files = tree::rust_files();
    let list = &files.iter().find(|f| f.path == LIST).unwrap_or_else(|| panic!("{LIST} is the list of steps")).text;
    let shipped: Vec<String> = files
        .iter()
        .filter(|f| f.path.starts_with(ENGINE) && f.path != LIST && !f.is_test())
        .map(|f| rust::without_tests(&rust::code_only(&f.text)))
        .collect();
    let names = step_names(list);
    assert!(names.len() > 10, "{LIST} was not understood; it holds {names:?}");
    let complaints: Vec<String> = names
        .iter()
        .filter(|name| !shipped.iter().any(|code| rust::has_word(code, name)))
        .map(|name| format!("{LIST}: {name} is used nowhere; remove it, or name with it the call that it describes"))
        .collect();
    assert_none("every step is used", &complaints);
}

/// No step is made outside the list.
#[test]
fn steps_are_made_only_in_the_list() {
    let mut complaints = Vec::new();
    for file in tree::rust_files().iter().filter(|f| f.path.starts_with(ENGINE) && f.path != LIST) {
        let code = rust::without_tests(&rust::code_only(&file.text));
        for at in rust::word_offsets(&code, "Step").filter(|at| code[at + "Step".len()..].starts_with('(')) {
            let line = rust::line_of(&code, at);
            complaints.push(format!("{}:{line}: add a named step to {LIST} and use it here", file.path));
        }
    }
    assert_none("steps are made only in their list", &complaints);
}

/// The names in lines such as `WAL_SYNC = "wal: sync";`.
fn step_names(list: &str) -> Vec<String> {
    list.lines()
        .filter_map(|line| line.trim().split_once(" = \""))
        .filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .map(|(name, _)| name.to_owned())
        .collect()
}
