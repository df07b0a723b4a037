//! What the tests of this program share: directories of their own, and a way to run the program
//! within the test.

pub(crate) use tamarack_testing::{Random, TestDir};

/// At most `length_max` bytes; half of them are those that some format treats specially, or pieces
/// of longer characters.
pub(crate) fn special_bytes(random: &mut Random, length_max: u64) -> Vec<u8> {
    const SPECIAL: &[u8] = b"\\\t\n\r\"',x0 \0{}\xc3\xa6\xf0\x9f\x8c\xb2\xff\x80";
    let length = random.below(length_max + 1);
    (0..length).map(|_| if random.one_in(2) { *random.pick(SPECIAL) } else { random.next() as u8 }).collect()
}

/// A value with defaults for all that `set` does not set, for types that only the engine makes
/// from their parts.
pub(crate) fn with<T: Default>(set: impl FnOnce(&mut T)) -> T {
    let mut made = T::default();
    set(&mut made);
    made
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
