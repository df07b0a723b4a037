//! Files of the repository that tests compare with what they make: golden bytes, generated
//! documents, seeds of fuzzing. With `TAMARACK_REWRITE=1` in the environment tests write them.

use std::fs;
use std::path::Path;

/// True if tests write stored files.
pub fn rewrites() -> bool {
    std::env::var_os("TAMARACK_REWRITE").is_some()
}

/// Returns the bytes of a stored file; if [`rewrites`], it is replaced by `made` first.
///
/// # Panics
/// If the file cannot be read or written.
pub fn stored(path: &Path, made: impl AsRef<[u8]>) -> Vec<u8> {
    let done = if rewrites() { fs::write(path, made) } else { Ok(()) };
    let bytes = done.and_then(|()| fs::read(path));
    bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asserts that a stored file has the bytes `made`; if [`rewrites`], it is written.
///
/// # Panics
/// If they differ, with the first line that does.
pub fn assert_stored(path: &Path, made: impl AsRef<[u8]>) {
    let (made, stored) = (made.as_ref(), stored(path, made.as_ref()));
    if made == stored {
        return;
    }
    let [made, stored] = [made, &stored].map(String::from_utf8_lossy);
    let (lines, mut old) = (made.lines(), stored.lines());
    let differing = (1..).zip(lines).find(|(_, line)| old.next() != Some(line));
    let (number, line) = differing.unwrap_or((made.lines().count() + 1, "nothing"));
    panic!(
        "{} is out of date: line {number} would be\n{line}\nRun with TAMARACK_REWRITE=1 and review the difference",
        path.display()
    );
}
