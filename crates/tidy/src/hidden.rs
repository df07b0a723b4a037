//! Hidden public modules of the engine: few, and almost all behind a feature.
//!
//! What is hidden is public all the same: users can call it, and the compiler cannot say that it
//! is not used. The rule reads `lib.rs` line by line: attributes directly above `pub mod`.

use crate::tree;
use crate::verdict::assert_none;

const FILE: &str = "crates/tamarack/src/lib.rs";

/// As many as there are: `step`, `fuzz`, `internals`, `measure`, `mistake`.
const HIDDEN_MAX: usize = 5;

/// Hidden in every build: the names of steps, by which users of the simulator inject faults.
const WITHOUT_FEATURE: &[&str] = &["step"];

/// A hidden public module, and whether ordinary builds have it.
#[derive(PartialEq, Debug)]
struct Hidden {
    name: String,
    has_feature: bool,
}

/// The engine has few hidden public modules, and ordinary builds have only the listed ones.
#[test]
fn few_modules_are_hidden() {
    let files = tree::rust_files();
    let root = files.iter().find(|file| file.path == FILE).unwrap_or_else(|| panic!("{FILE} is the engine's root"));
    let hidden = hidden(&root.text);
    let mut complaints: Vec<String> = hidden
        .iter()
        .filter(|module| !module.has_feature && !WITHOUT_FEATURE.contains(&module.name.as_str()))
        .map(|module| format!("{FILE}: make `{}` private, or put it behind a feature", module.name))
        .collect();
    if hidden.len() > HIDDEN_MAX {
        complaints.push(format!("{FILE}: {} hidden public modules, {HIDDEN_MAX} allowed: {hidden:?}", hidden.len()));
    }
    assert_none("few public modules are hidden", &complaints);
}

/// The public modules with `#[doc(hidden)]` above them.
fn hidden(text: &str) -> Vec<Hidden> {
    let mut found = Vec::new();
    let (mut is_hidden, mut has_feature) = (false, false);
    for line in text.lines() {
        if line.starts_with("#[") {
            is_hidden |= line == "#[doc(hidden)]";
            has_feature |= line.starts_with("#[cfg(feature = ");
            continue;
        }
        let name = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';'));
        if let Some(name) = name.filter(|_| is_hidden) {
            found.push(Hidden { name: name.to_owned(), has_feature });
        }
        (is_hidden, has_feature) = (false, false);
    }
    found
}

#[test]
fn hidden_modules_are_found() {
    let text = "#[doc(hidden)]\npub mod a;\npub mod b;\n#[cfg(feature = \"f\")]\n#[doc(hidden)]\npub mod c;\nmod d;\n\
                #[doc(hidden)]\npub use e::E;\n";
    let module = |name: &str, has_feature| Hidden { name: name.to_owned(), has_feature };
    assert_eq!(hidden(text), [module("a", false), module("c", true)]);
}
