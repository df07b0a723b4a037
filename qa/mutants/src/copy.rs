//! The copy of the repository that is mutated and built.
//!
//! A file is written only if its content changes, so that cargo builds little anew.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The repository's files, as git lists them, relative to `root`: also new ones that it does not
/// track yet, but none that it ignores.
pub(crate) fn names(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8(output.stdout).map_err(|error| error.to_string())?;
    let is_there = |name: &&str| !name.is_empty() && root.join(name).is_file();
    Ok(names.split('\0').filter(is_there).map(str::to_owned).collect())
}

/// Makes `tree` a copy of these files but for `changed`, which are `(name, content)`. Files that
/// are in neither are removed from `tree`.
pub(crate) fn copy(root: &Path, tree: &Path, names: &[String], changed: &[(String, String)]) -> Result<(), String> {
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for name in names.iter().filter(|name| !changed.iter().any(|(other, _)| other == *name)) {
        let from = root.join(name);
        write(&tree.join(name), &fs::read(&from).map_err(|error| at(&from, error))?)?;
    }
    for (name, content) in changed {
        write(&tree.join(name), content.as_bytes())?;
    }
    let mut directories = vec![tree.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| at(&directory, error))? {
            let path = entry.map_err(|error| at(&directory, error))?.path();
            let name = path.strip_prefix(tree).expect("below the tree").to_string_lossy().into_owned();
            if path.is_dir() {
                directories.push(path);
            } else if !names.contains(&name) && !changed.iter().any(|(other, _)| *other == name) && name != "Cargo.lock"
            {
                fs::remove_file(&path).map_err(|error| at(&path, error))?;
            }
        }
    }
    Ok(())
}

/// Writes the file, and its directories, unless it has this content.
fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let directory = path.parent().expect("a file has a directory");
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(path, content))
        .map_err(|error| format!("{}: {error}", path.display()))
}
