//! Policies: the source of shapes. A policy is a pure function from data size, memtable size and
//! its parameters to a [`Shape`], and nothing else.
//!
//! | specification | ratio of each level | run slots |
//! |---|---|---|
//! | `leveling:T=10` | T | 1; with `first=4` up to 4 in level 1 |
//! | `tiering:T=4` | T | T |
//! | `lazy-leveling:T=5` | T | T; 1 in the last level |
//! | `dostoevsky:T=5,K=4,Z=1` | T | as many as show K runs; Z in the last level |
//! | `garnering:T=2,c=0.8` | T/c^(L-i) | 1; with `first=4` up to 4 in level 1 |
//! | `moose:last=0.8,k=1` | by a [dynamic program](structure), 0.8 of all in the last level | k√r |
//! | `smoose:range=0.33,update=0.0825` | the same for a workload | k√r, k = √(update/range) |
//! | `qlsm-bush:T=2,X=2` | T^(X^(L-i)) | as many; 1 in the last level |
//! | `custom:buffer 4MiB; level 16MiB in 4 runs` | as given | as given |
//! | `auto`, `auto:leveling:T=10` | those of the policy that the navigator has chosen last | |
//!
//! The parameters of `moose`, `garnering` and `qlsm-bush` default to the values of their papers:
//! `moose` is `moose:last=0.8,k=1`, `garnering:T=5` has c = 0.8 (Autumn, section 4.2.1), and
//! `qlsm-bush` is `qlsm-bush:T=2,X=2`. `smoose` is
//! `smoose:last=0.8,k=0.5,range=0.33,update=0.0825`; without `k` it has the one that is best for
//! `range` and `update`. The printed form has all parameters.
//!
//! Nothing outside a policy's own file asks which policy is active: the planner sees shapes, and
//! specifications are parsed here, from one list.
//!
//! **Size steps.** A policy returns its smallest shape that [holds](crate::Shape::holds) *more*
//! than the data size, since a shape that holds exactly as much is full. Shapes therefore come in
//! steps, and asking for the size that the present shape holds gives the next step. Some papers
//! choose one level fewer, because they sum all capacities; a tree that moves full levels straight
//! down is never that full.
//!
//! To add a policy: a file with a type that implements [`ShapeFamily`], a line in `policies!` and
//! in [`parse`], expectations in `tests/expectations/`, a row in `docs/FORMULAS.md`.

mod auto;
mod custom;
mod dostoevsky;
mod garnering;
mod lazy_leveling;
mod leveling;
mod moose;
mod qlsm_bush;
mod smoose;
mod steps;
pub mod structure;
mod tiering;
mod words;

pub use auto::Auto;
pub use custom::Custom;
pub use dostoevsky::Dostoevsky;
pub use garnering::Garnering;
pub use lazy_leveling::LazyLeveling;
pub use leveling::Leveling;
pub use moose::Moose;
pub use qlsm_bush::QlsmBush;
pub use smoose::Smoose;
pub use steps::{DATA_MAX, ShapeFamily};
pub use tiering::Tiering;
pub use words::PolicyError;

use std::fmt;
use std::str::FromStr;

use words::Words;

use crate::shape::Shape;
use crate::units::Bytes;

/// Expands a list of types into [`Policy`], with a variant and a conversion for each.
macro_rules! policies {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// A compaction policy: which shape a tree of some size has.
        ///
        /// Each variant has the parameters, which its constructor has checked. The
        /// [`Display`](fmt::Display) form is the specification, which [`FromStr`] and [`parse`]
        /// read back.
        ///
        /// ```
        /// use tamarack_model::policy::{Garnering, Policy};
        ///
        /// let policy = Policy::from(Garnering::new(2, 0.8, 1)?);
        /// assert_eq!(policy.to_string(), "garnering:T=2,c=0.8");
        /// assert_eq!("garnering".parse::<Policy>()?, policy);
        /// if let Policy::Garnering(garnering) = &policy {
        ///     assert_eq!(garnering.scaling(), 0.8);
        /// }
        /// # Ok::<(), tamarack_model::policy::PolicyError>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Policy {
            $($(#[$about])* $name($name),)*
        }

        impl Policy {
            fn family(&self) -> &dyn ShapeFamily {
                match self {
                    $(Self::$name(family) => family,)*
                }
            }
        }

        $(
            impl From<$name> for Policy {
                fn from(family: $name) -> Self {
                    Self::$name(family)
                }
            }
        )*
    };
}

policies! {
    /// One run per level: `leveling:T=10`; with some more in level 1: `leveling:T=10,first=4`.
    Leveling,
    /// As many runs per level as the size ratio: `tiering:T=4`.
    Tiering,
    /// Tiering with one run in the last level: `lazy-leveling:T=5`.
    LazyLeveling,
    /// Any number of runs per level, and another one in the last: `dostoevsky:T=5,K=4,Z=1`.
    Dostoevsky,
    /// Size ratios that grow towards the small levels (Autumn): `garnering:T=2,c=0.8`.
    Garnering,
    /// Capacities from a dynamic program: `moose:last=0.8,k=1`.
    Moose,
    /// The same for a workload: `smoose:last=0.8,k=0.5,range=0.33,update=0.0825`.
    Smoose,
    /// Size ratios that are squared towards the small levels: `qlsm-bush:T=2,X=2`.
    QlsmBush,
    /// A given shape: `custom:buffer 4MiB; level 16MiB in 4 runs`.
    Custom,
    /// What the navigator has chosen: `auto`, or `auto:leveling:T=10` once it has.
    Auto,
}

impl Policy {
    /// Returns the smallest shape of this policy that holds more than `data` bytes (at most
    /// [`DATA_MAX`]).
    ///
    /// # Panics
    /// If the buffer is empty, or larger than [`BUFFER_MAX`](crate::BUFFER_MAX).
    pub fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        self.family().shape(data, buffer)
    }
}

impl ShapeFamily for Policy {
    fn shape(&self, data: Bytes, buffer: Bytes) -> Shape {
        Self::shape(self, data, buffer)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.family(), f)
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(specification: &str) -> Result<Self, PolicyError> {
        parse(specification)
    }
}

impl From<Policy> for String {
    /// Returns the specification.
    fn from(policy: Policy) -> Self {
        policy.to_string()
    }
}

impl From<&Policy> for String {
    /// Returns the specification.
    fn from(policy: &Policy) -> Self {
        policy.to_string()
    }
}

/// Parses a policy specification.
///
/// ```
/// use tamarack_model::{Bytes, policy};
///
/// let policy = policy::parse("dostoevsky:T=5,K=2,Z=1")?;
/// let shape = policy.shape(Bytes(100), Bytes(1));
/// let levels = "level 5 in 2 runs\nlevel 25 in 2 runs\nlevel 125 in 1 run\n";
/// assert_eq!(shape.to_string(), format!("buffer 1\n{levels}"));
/// # Ok::<(), policy::PolicyError>(())
/// ```
///
/// # Errors
/// If there is no such policy, or a parameter is missing, unknown or out of range, or `custom:` is
/// not followed by a shape in one line. This function reads no files: for a shape in a file, read
/// it and use [`Custom`].
pub fn parse(words: &str) -> Result<Policy, PolicyError> {
    if let Some(shape) = words.strip_prefix("custom:") {
        return Ok(Custom::read(shape)?.into());
    }
    if let Some(rest) = words.strip_prefix("auto").filter(|rest| rest.is_empty() || rest.starts_with(':')) {
        return Ok(Auto::read(rest)?.into());
    }
    let words = Words::read(words)?;
    Ok(match words.name() {
        "leveling" => {
            words.check(&["T"], &["first"])?;
            Leveling::new(words.whole("T")?, words.whole_or("first", 1)?)?.into()
        }
        "tiering" => Tiering::new(words.only(["T"])?[0])?.into(),
        "lazy-leveling" => LazyLeveling::new(words.only(["T"])?[0])?.into(),
        "dostoevsky" => {
            let [ratio, inner, last] = words.only(["T", "K", "Z"])?;
            Dostoevsky::new(ratio, inner, last)?.into()
        }
        "garnering" => {
            words.check(&[], &["T", "c", "first"])?;
            Garnering::new(words.whole_or("T", 2)?, words.number_or("c", 0.8)?, words.whole_or("first", 1)?)?.into()
        }
        "moose" => {
            words.check(&[], &["last", "k"])?;
            Moose::new(words.number_or("last", 0.8)?, words.number_or("k", 1.0)?)?.into()
        }
        "smoose" => {
            words.check(&[], &["last", "k", "range", "update"])?;
            let (range, update) =
                (words.number_or("range", Smoose::RANGE)?, words.number_or("update", Smoose::UPDATE)?);
            let runs = words.number_or("k", Smoose::runs_for(range, update))?;
            Smoose::new(words.number_or("last", Smoose::LAST)?, runs, range, update)?.into()
        }
        "qlsm-bush" => {
            words.check(&[], &["T", "X"])?;
            QlsmBush::new(words.whole_or("T", 2)?, words.whole_or("X", 2)?)?.into()
        }
        other => {
            let known = "leveling:T=10, tiering:T=4, lazy-leveling:T=5, dostoevsky:T=5,K=4,Z=1, garnering:T=2,c=0.8, \
                         moose:last=0.8,k=1, smoose:last=0.8,k=0.5,range=0.33,update=0.0825, qlsm-bush:T=2,X=2, \
                         custom:buffer 4MiB; level 16MiB in 4 runs, auto";
            return Err(PolicyError::new(format!("unknown policy `{other}`; policies are {known}")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    const ALL: [&str; 25] = [
        "leveling:T=10",
        "leveling:T=10,first=4",
        "leveling:T=2,first=2",
        "tiering:T=4",
        "lazy-leveling:T=5",
        "dostoevsky:T=10,K=3,Z=2",
        "dostoevsky:T=2,K=1,Z=1",
        "garnering:T=2,c=0.8",
        "garnering:T=10,c=0.4,first=4",
        "garnering:T=65536,c=0.1",
        "garnering:T=3,c=1",
        "moose:last=0.8,k=1",
        "moose:last=0.7,k=0.3",
        "moose:last=0.99,k=2.5",
        "smoose:last=0.8,k=0.5,range=0.33,update=0.0825",
        "smoose:last=0.9,k=0.0505,range=0.98,update=0.0025",
        "smoose:last=0.6,k=3,range=0.01,update=0.245",
        "smoose:last=0.5,k=100,range=0.0001,update=1",
        "qlsm-bush:T=2,X=2",
        "qlsm-bush:T=65536,X=16",
        "qlsm-bush:T=3,X=1",
        "custom:buffer 1MiB; level 4MiB in 2 runs; level 9MiB in 2 runs",
        "auto",
        "auto:tiering:T=4",
        "auto:custom:buffer 1MiB; level 4MiB in 2 runs",
    ];

    /// Specifications are printed as they are read, so a policy can be stored as its specification.
    #[test]
    fn specifications_read_back() {
        for words in ALL {
            assert_eq!(parse(words).expect(words).to_string(), words);
        }
    }

    /// An omitted parameter has the paper's value, and is printed.
    #[test]
    fn papers_have_defaults() {
        for (words, all) in [
            ("moose", "moose:last=0.8,k=1"),
            ("moose:", "moose:last=0.8,k=1"),
            ("moose:last=0.9", "moose:last=0.9,k=1"),
            ("moose:k=2", "moose:last=0.8,k=2"),
            ("smoose", "smoose:last=0.8,k=0.5,range=0.33,update=0.0825"),
            ("smoose:range=0.98,update=0.0025", "smoose:last=0.8,k=0.0505,range=0.98,update=0.0025"),
            ("smoose:last=0.7,update=0.33", "smoose:last=0.7,k=1,range=0.33,update=0.33"),
            ("smoose:k=2,range=1,update=0.00001", "smoose:last=0.8,k=2,range=1,update=0.00001"),
            ("smoose:range=1,update=0.00001", "smoose:last=0.8,k=0.01,range=1,update=0.00001"),
            ("garnering", "garnering:T=2,c=0.8"),
            ("garnering:T=5", "garnering:T=5,c=0.8"),
            ("garnering:c=0.4", "garnering:T=2,c=0.4"),
            ("garnering:first=4", "garnering:T=2,c=0.8,first=4"),
            ("qlsm-bush", "qlsm-bush:T=2,X=2"),
            ("qlsm-bush:T=3", "qlsm-bush:T=3,X=2"),
        ] {
            assert_eq!(parse(words).expect(words).to_string(), all);
        }
    }

    /// An invalid specification is refused with the mistake and the correct form.
    #[test]
    fn errors_explain() {
        for (words, part) in [
            ("levelling:T=10", "policies are leveling:T=10"),
            ("leveling", "`leveling` has the parameters T, each once, and may have first"),
            ("leveling:T=10,K=3", "parameters T, each once"),
            (
                "leveling:T=4,first=5",
                "first=5 is out of range: the number of run slots of the first level is from 1 to 4",
            ),
            ("dostoevsky:T=5,K=4,K=4", "parameters T, K, Z, each once"),
            ("leveling:T=ten", "`T=ten`"),
            ("leveling:T", "`T` in `leveling:T`"),
            ("garnering:T=2,K=3", "`garnering` may have the parameters T, c, first, each once"),
            ("garnering:T=2,c=0.8,c=0.8", "parameters T, c, first, each once"),
            ("garnering:T=2,c=0,8", "`8` in `garnering:T=2,c=0,8`"),
            ("garnering:T=2,c=much", "`c=much` in `garnering:T=2,c=much` is not understood; write a number"),
            ("garnering:T=2,c=1.5", "c=1.5 is out of range"),
            ("garnering:T=2,c=NaN", "is from 0.1 to 1"),
            ("moose:share=0.8", "`moose` may have the parameters last, k, each once"),
            ("qlsm-bush:X=2,X=2", "parameters T, X, each once"),
            ("moose:last=1,k=1", "last=1 is out of range: the last level's share of all is from 0.5 to 0.99"),
            ("moose:last=0.8,k=0", "k=0 is out of range"),
            ("smoose:share=0.8", "`smoose` may have the parameters last, k, range, update, each once"),
            ("smoose:range=0", "range=0 is out of range: the cost of a run, the share of scans, is from 0.0001 to 1"),
            ("smoose:update=NaN", "update=NaN is out of range: the cost of a rewriting"),
            ("smoose:last=1", "last=1 is out of range"),
            ("smoose:k=101", "k=101 is out of range"),
            ("qlsm-bush:T=2,X=0", "X=0 is out of range"),
            ("garnering:T=2,c=0.8,first=0", "first=0 is out of range"),
            ("tiering:T=1", "T=1 is out of range"),
            ("dostoevsky:T=5,K=5,Z=1", "from 1 to 4"),
            ("custom:buffer 4; level 5 in 1 run", "level 1 holds 5, but 4 arrive"),
            ("custom:tree.shape", "line 1: `tree.shape` is not understood"),
        ] {
            let error = parse(words).expect_err(words).to_string();
            assert!(error.contains(part), "{words}: {error}");
        }
    }

    /// Every policy returns the smallest of its shapes that holds more than the data, so asking for
    /// the size that a shape holds returns the next step.
    #[test]
    fn shapes_come_in_steps() {
        let buffer = Bytes(1 << 20);
        for policy in ALL.map(|words| parse(words).expect(words)) {
            let mut shape = policy.shape(Bytes::ZERO, buffer);
            while shape.holds() < DATA_MAX {
                let next = policy.shape(shape.holds(), buffer);
                assert!(next.holds() > shape.holds(), "{policy}");
                assert_eq!(policy.shape(Bytes(next.holds().0 - 1), buffer), next, "{policy}: nothing lies between");
                shape = next;
            }
            assert_eq!(policy.shape(Bytes(u64::MAX), buffer), shape, "{policy} ends");
        }
    }

    /// Policies for the same tree produce equivalent trees: as many visible runs in every level.
    #[test]
    fn dostoevsky_contains_the_others() {
        let visible = |words: &str| {
            let shape = parse(words).expect(words).shape(Bytes(5000), Bytes(1));
            (1..=shape.last()).map(|level| shape.visible_runs(level)).collect::<Vec<_>>()
        };
        for ratio in 2..12 {
            let dostoevsky = |inner, last| visible(&format!("dostoevsky:T={ratio},K={inner},Z={last}"));
            assert_eq!(visible(&format!("leveling:T={ratio}")), dostoevsky(1, 1));
            assert_eq!(visible(&format!("tiering:T={ratio}")), dostoevsky(ratio - 1, ratio - 1));
            assert_eq!(visible(&format!("lazy-leveling:T={ratio}")), dostoevsky(ratio - 1, 1));
        }
    }
}
