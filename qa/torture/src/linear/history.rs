//! A recorded history: what each thread called, when, and what it got.
//!
//! ```text
//! thread 0   ├─ put k=1 ─┤   ├── get k: 2 ──┤
//! thread 1        ├──── batch k=2, l=2 ────┤      ticks ─►
//! ```
//!
//! Keys and values are numbers. Each value is written once at most, so that a read says which write
//! it saw; 0 means that the key is absent. Ticks come from one counter, so that of two calls of
//! which one returned before the other began, the ticks say so.

use std::fmt::Write as _;

/// A key and the version of its value.
pub(crate) type Versioned = (u16, u32);

/// What a call did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Wrote all of these at once; 0 deletes.
    Write(Vec<Versioned>),
    /// Saw all of these at one moment.
    Read(Vec<Versioned>),
}

/// One call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) thread: usize,
    /// Tick before it began.
    pub(crate) begin: u64,
    /// Tick after it returned.
    pub(crate) end: u64,
    pub(crate) act: Act,
}

/// A history as text, a call in each line, in the order of their returns.
pub(crate) fn text(calls: &[Call]) -> String {
    let mut sorted: Vec<&Call> = calls.iter().collect();
    sorted.sort_by_key(|call| call.end);
    let mut text = String::new();
    for Call { thread, begin, end, act } in sorted {
        let (name, versions) = match act {
            Act::Write(versions) => ("write", versions),
            Act::Read(versions) => ("read", versions),
        };
        writeln!(text, "{begin}..{end} thread {thread} {name} {versions:?}").expect("a string takes text");
    }
    text
}
