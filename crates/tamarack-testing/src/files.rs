//! Whole files of an environment, and all files of a directory, by name.
//!
//! A failure is a panic with the path: tests read and write where nothing fails.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use tamarack_env::{Access, Env, Step};

/// The step of what a test itself changes in an environment.
pub const STEP: Step = Step("test: change a file");

/// Returns the bytes of a file.
///
/// # Panics
/// If it cannot be read.
pub fn read_file(env: &dyn Env, path: &Path) -> Vec<u8> {
    done(path, env.open(path, Access::Read).and_then(|file| file.read_all()))
}

/// Writes a file, which replaces the bytes that it had.
///
/// # Panics
/// If it cannot be written.
pub fn write_file(env: &dyn Env, path: &Path, bytes: &[u8]) {
    let file = match env.open(path, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => env.create(path, STEP),
        opened => opened.and_then(|file| file.set_len(0, STEP).map(|()| file)),
    };
    done(path, file.and_then(|file| file.write_all_at(bytes, 0, STEP)));
}

/// Returns the bytes of all files of a directory, by name.
///
/// # Panics
/// If one cannot be read, or is a directory.
pub fn read_dir(env: &dyn Env, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = done(dir, env.list(dir)).into_iter().map(|name| name.into_string().expect("a name is UTF-8"));
    names.map(|name| (name.clone(), read_file(env, &dir.join(&name)))).collect()
}

/// Writes a new directory with these files.
///
/// # Panics
/// If it exists or cannot be written.
pub fn write_dir(env: &dyn Env, dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    done(dir, env.create_dir(dir, STEP));
    files.iter().for_each(|(name, bytes)| write_file(env, &dir.join(name), bytes));
}

fn done<T>(path: &Path, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
