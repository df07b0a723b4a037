//! Packages are complete: metadata, licences, README, and a description of each cargo feature.
//!
//! `.ci/packages` checks the packages' contents with cargo; this rule checks what cargo does not
//! know.

use std::path::Path;

use crate::tree::{self, TextFile};
use crate::verdict::assert_none;

/// Keys that the manifest of every published crate has, and what they are for.
const KEYS: &[(&str, &str)] = &[
    ("description = ", "one line for the registry's search"),
    ("license.workspace = true", "the licence"),
    ("rust-version.workspace = true", "the minimum supported Rust version"),
    ("readme = ", "the page that the registry shows"),
    ("keywords = ", "at most five words for the registry's search"),
    ("categories = ", "the registry's categories"),
    ("include = ", "the files of the package; tests and their data stay out"),
    ("[package.metadata.docs.rs]", "how docs.rs builds the documentation"),
];

/// Files that stand beside the manifest.
const FILES: &[&str] = &["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Every published crate has complete metadata, a README, and both licences of the project.
#[test]
fn packages_are_complete() {
    let mut complaints = Vec::new();
    for manifest in published(&tree::text_files()) {
        for (key, purpose) in KEYS {
            if !manifest.text.lines().any(|line| line.starts_with(key)) {
                complaints.push(format!("{}: add `{key}…`: {purpose}", manifest.path));
            }
        }
        let directory = Path::new(&manifest.path).parent().expect("a manifest stands in a directory");
        for name in FILES {
            if !tree::root().join(directory).join(name).exists() {
                complaints
                    .push(format!("{}: add {name}; for a licence: `ln -s ../../{name} {name}`", directory.display()));
            }
        }
    }
    assert_none("every published crate has metadata, README and licences", &complaints);
}

/// Every cargo feature of a published crate is named in the crate's README and on the front page of
/// its documentation.
#[test]
fn features_are_documented() {
    let files = tree::text_files();
    let mut complaints = Vec::new();
    for manifest in published(&files) {
        let directory = manifest.path.strip_suffix("Cargo.toml").expect("a manifest");
        for feature in features(&manifest.text) {
            for page in ["README.md", "src/lib.rs"].map(|page| format!("{directory}{page}")) {
                let Some(page) = files.iter().find(|file| file.path == page) else { continue };
                if !page.text.contains(&format!("`{feature}`")) {
                    complaints.push(format!("{}: say what the feature `{feature}` does", page.path));
                }
            }
        }
    }
    assert_none("every cargo feature is documented", &complaints);
}

fn published(files: &[TextFile]) -> impl Iterator<Item = &TextFile> {
    files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
        .filter(|file| !file.text.lines().any(|line| line == "publish = false"))
}

/// The names in the section `[features]`, without `default`.
fn features(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.trim())
        .filter(|name| *name != "default" && !name.starts_with('#'))
}

/// Shows which lines are features.
#[test]
fn features_are_found() {
    let manifest =
        "[package]\nname = \"x\"\n[features]\ndefault = [\"lz4\"]\n# a = b\nlz4 = []\n\n[dependencies]\na = 1\n";
    assert_eq!(features(manifest).collect::<Vec<_>>(), ["lz4"]);
}
