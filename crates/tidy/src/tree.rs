//! The files of the repository, as the rules see them: path relative to the root, and text.
//!
//! Files are found by walking the directories, not by asking git, so that a rule speaks before the
//! first commit. Build output, version control and recorded data are left out.

#![expect(clippy::disallowed_methods, reason = "rules about files read files; nothing here runs under the simulator")]

use std::fs;
use std::path::{Path, PathBuf};

/// Names of directories that hold nothing written by hand; in a linked work tree `.git` is a file.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts", "results"];

/// Endings of files that hold text written by hand; files without an ending count too.
const TEXT_ENDINGS: &[&str] = &["rs", "md", "toml", "sh", "py", "txt", "yml", "yaml"];

/// One file.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// The path from the repository's root, with `/` between parts.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
}

impl TextFile {
    /// True for Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// True for a file of tests: `tests.rs`, or one in a directory `tests`.
    pub(crate) fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }
}

/// The repository's root directory.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("this crate stands two levels below the root").to_owned()
}

/// All text files written by hand, sorted by path.
pub(crate) fn text_files() -> Vec<TextFile> {
    let mut paths = Vec::new();
    walk(&root(), &mut paths);
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// All Rust sources, sorted by path.
pub(crate) fn rust_files() -> Vec<TextFile> {
    text_files().into_iter().filter(TextFile::is_rust).collect()
}

fn read(path: &Path) -> TextFile {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let relative = path.strip_prefix(root()).expect("found below the root");
    TextFile { path: relative.to_string_lossy().replace('\\', "/"), text }
}

fn walk(directory: &Path, paths: &mut Vec<PathBuf>) {
    for item in fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
        let path = item.expect("a directory can be read to its end").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_none_or(|ending| TEXT_ENDINGS.iter().any(|known| ending == *known))
            && fs::read(&path).is_ok_and(|bytes| str::from_utf8(&bytes).is_ok())
        {
            paths.push(path);
        }
    }
}
