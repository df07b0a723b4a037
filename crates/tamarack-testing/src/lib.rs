//! What the tests of all crates share: seeded random numbers, stored files, directories,
//! environments with hooks, and a parser of OpenMetrics.
//!
//! | module | what it is |
//! |---|---|
//! | `random` | the one generator of seeded random numbers |
//! | `zipf` | skewed draws |
//! | `seeds` | which seeds a randomised test tries, from the environment |
//! | `stored` | files of the repository that a test compares, and rewrites if that is asked for |
//! | `files` | whole files of an environment, and all files of a directory |
//! | `directory` | an empty directory of the real file system for one test |
//! | `hooked` | an environment some of whose calls a test delays, fails or notes |
//! | `openmetrics` | a strict parser of the OpenMetrics text format |
//!
//! Knows no crate but the environment, so that the tests of each can use it.

#![expect(
    clippy::disallowed_methods,
    reason = "the environment serves the engine; tests read and write files of the repository"
)]

mod directory;
mod files;
mod hooked;
mod openmetrics;
mod random;
mod seeds;
mod stored;
mod zipf;

pub use directory::TestDir;
pub use files::{STEP, read_dir, read_file, write_dir, write_file};
pub use hooked::{CarryOut, Hook, Hooked, HookedCall};
pub use openmetrics::{ParsedFamily, ParsedSample, parse_openmetrics};
pub use random::Random;
pub use seeds::{number, seed, seeds};
pub use stored::{assert_stored, rewrites, stored};
pub use zipf::Zipf;
