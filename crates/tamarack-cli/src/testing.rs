//! What the tests of this program share: seeded randomness, directories of their own, and a way to
//! run the program within the test.

#![expect(
    clippy::disallowed_methods,
    reason = "tests of a program make and remove directories of the real file system"
)]

use std::path::{Path, PathBuf};
use std::process;

/// A value with defaults for all that `set` does not set, for types that only the engine makes
/// from their parts.
pub(crate) fn with<T: Default>(set: impl FnOnce(&mut T)) -> T {
    let mut made = T::default();
    set(&mut made);
    made
}

/// A small generator (splitmix64). The seed is printed, so that a failure can be run again with
/// `TAMARACK_SEED`.
pub(crate) struct Random(u64);

impl Random {
    /// A generator for the test called `name`.
    pub(crate) fn from_seed(name: &str) -> Self {
        let given = std::env::var("TAMARACK_SEED").ok();
        let seed = given.map_or(0x7a3a_2ac5, |text| {
            let digits = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
            digits.unwrap_or_else(|| text.parse()).expect("TAMARACK_SEED is a number")
        });
        println!("{name}: TAMARACK_SEED={seed:#x}");
        Self(seed)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// At most `length_max` bytes; half of them are those that some format treats specially, or
    /// pieces of longer characters.
    pub(crate) fn bytes(&mut self, length_max: u64) -> Vec<u8> {
        const SPECIAL: &[u8] = b"\\\t\n\r\"',x0 \0{}\xc3\xa6\xf0\x9f\x8c\xb2\xff\x80";
        let length = self.below(length_max + 1);
        (0..length)
            .map(|_| match self.below(2) {
                0 => SPECIAL[self.below(SPECIAL.len() as u64) as usize],
                _ => self.below(256) as u8,
            })
            .collect()
    }
}

/// A directory that goes with the test.
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    /// A new, empty directory; `name` makes it unlike those of other tests.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tamarack-cli-{}-{name}", process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    /// A path inside.
    pub(crate) fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// Writes a file inside and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.join(name);
        std::fs::write(Path::new(&path), bytes).expect("the temporary directory is writable");
        path
    }

    /// What a file inside holds.
    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.join(name)).expect("the file is there")).expect("the file is text")
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's directory can be removed");
    }
}

/// What a run of the program did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// The exit status.
    pub(crate) status: u8,
    /// What went to standard output, as text.
    pub(crate) out: String,
    /// What went to standard error.
    pub(crate) err: String,
}

/// Runs the program with these arguments, without a process of its own.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let words = std::iter::once("tamarack").chain(arguments.iter().copied());
    let status = crate::run(words, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("the program writes text");
    Ran { status, out: text(out), err: text(err) }
}

/// Runs the program, which must succeed, and returns its output.
pub(crate) fn run_ok(arguments: &[&str]) -> String {
    let ran = run(arguments);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{arguments:?}");
    ran.out
}
