//! A policy that the navigator replaces as workload and data change.

use std::fmt;

use super::steps::ShapeFamily;
use super::words::PolicyError;
use super::{Leveling, Policy, parse};
use crate::shape::Shape;
use crate::units::Bytes;

/// The policy chosen so far, in a tree that the navigator may redesign.
///
/// It gives the shapes of the policy chosen; whether another one would be better, and when, is up
/// to the [controller](crate::navigator::controller).
#[derive(Clone, Debug, PartialEq)]
pub struct Auto {
    /// `None` before the first choice.
    chosen: Option<Box<Policy>>,
}

impl Auto {
    /// Lets the navigator choose. Until it has, the policy is what the tree has; in a new tree
    /// [`Auto::first`].
    pub fn new() -> Self {
        Self { chosen: None }
    }

    /// Lets the navigator choose, beginning with this policy; that of another [`Auto`] is taken out
    /// of it.
    pub fn beginning_with(policy: &Policy) -> Self {
        match policy {
            Policy::Auto(auto) => auto.clone(),
            other => Self { chosen: Some(Box::new(other.clone())) },
        }
    }

    /// The policy of a new tree: one run per level, for cheap lookups and scans. While entries
    /// arrive, the first level has up to four, with which loads write about a third less. With this
    /// ratio updates write about a sixth less than with 10, for one level more in large trees.
    pub fn first() -> Policy {
        Leveling::new(5, 4).expect("both are in range").into()
    }

    /// The policy chosen so far.
    pub fn chosen(&self) -> Option<&Policy> {
        self.chosen.as_deref()
    }

    /// Parses what follows `auto`.
    pub(super) fn read(rest: &str) -> Result<Self, PolicyError> {
        let Some(words) = rest.strip_prefix(':') else { return Ok(Self::new()) };
        match parse(words)? {
            Policy::Auto(_) => Err(PolicyError::new(format!("`auto` stands twice in `auto:{words}`"))),
            policy => Ok(Self::beginning_with(&policy)),
        }
    }
}

impl Default for Auto {
    fn default() -> Self {
        Self::new()
    }
}

impl ShapeFamily for Auto {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        match &self.chosen {
            Some(policy) => policy.shape(data, buffer),
            None => Self::first().shape(data, buffer),
        }
    }
}

impl fmt::Display for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.chosen {
            Some(policy) => write!(f, "auto:{policy}"),
            None => f.write_str("auto"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An automatic policy has the shapes of what was chosen, reads back, and is not nested.
    #[test]
    fn is_what_was_chosen() {
        let policy = |words: &str| parse(words).unwrap_or_else(|error| panic!("{words}: {error}"));
        let shape = |policy: &Policy| policy.shape(Bytes(1 << 30), Bytes(1 << 20));
        for words in ["leveling:T=3", "moose:last=0.8,k=1", "custom:buffer 1MiB; level 4MiB in 2 runs"] {
            let auto = policy(&format!("auto:{words}"));
            assert_eq!(auto.to_string(), format!("auto:{words}"));
            assert_eq!(shape(&auto), shape(&policy(words)));
            assert_eq!(Policy::from(Auto::beginning_with(&policy(words))), auto);
            assert_eq!(Policy::from(Auto::beginning_with(&auto)), auto);
        }
        assert_eq!(policy("auto").to_string(), "auto");
        assert_eq!(shape(&policy("auto")), shape(&Auto::first()));
        for words in ["auto:auto", "auto:auto:leveling:T=3", "auto:", "automatic"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
