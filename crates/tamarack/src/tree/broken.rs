//! [`Broken`]: why an edit does not fit a version, or a version contradicts itself.
//!
//! Not an [`Error`](crate::Error), because only the caller knows the cause. Before an edit is
//! written it is our own mistake, and an assertion; when a manifest is read it is damage.

use std::fmt;

/// A violated invariant of versions, with the values that violate it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns [`Broken`] for that reason.
pub(super) fn broken<T>(why: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(why.into()))
}
