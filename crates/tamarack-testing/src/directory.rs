//! [`TestDir`]: an empty directory for one test.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory of the real file system that is removed at the end of its test, unless the test
/// fails: then it stays, to be looked at.
#[derive(Debug)]
pub struct TestDir(PathBuf);

impl TestDir {
    /// Makes an empty directory; `name` makes it unlike those of other tests.
    ///
    /// # Panics
    /// If the temporary directory is not writable.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tamarack-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a path inside.
    pub fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// Writes a file inside and returns its path.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.join(name);
        fs::write(&path, bytes).expect("the temporary directory is writable");
        path
    }

    /// Returns the text of a file inside.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.join(name)).expect("the file is text")
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the test's directory stays: {}", self.0.display());
        } else {
            fs::remove_dir_all(&self.0).expect("the test's directory can be removed");
        }
    }
}
