//! [`Occupancy`]: the runs of each level of a tree, as counts.
//!
//! It is all that the planner sees of a tree: per level, runs from **young to old**, each with an
//! id and a size; no keys and no files. From level 1 on, young to old within a level, the runs of a
//! tree are in order of age, and every operation keeps that order.
//!
//! The text form has one line per level, and reads back:
//!
//! ```
//! use tamarack_model::Occupancy;
//!
//! let text = "\
//! level 1: r9 4, r8 4
//! level 2:
//! level 3: r2 64
//! ";
//! let tree: Occupancy = text.parse()?;
//! assert_eq!(tree.to_string(), text);
//! assert_eq!(tree.bytes().0, 72);
//! # Ok::<(), String>(())
//! ```

use std::fmt;
use std::str::FromStr;

use crate::units::{Bytes, Entries};

/// The runs of a tree, level by level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Level 1 first; missing levels at the end are empty.
    levels: Vec<Vec<Run>>,
}

/// A run, as counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The id, which no other run of the tree ever had.
    pub id: RunId,
    /// Raw entry bytes.
    pub bytes: Bytes,
    /// Entries, if known; filter allocation needs them, the planner does not.
    pub entries: Option<Entries>,
}

/// The number of a run. Never reused in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

impl Occupancy {
    /// A tree with these runs: level 1 first, young to old within each level.
    pub fn new(levels: Vec<Vec<Run>>) -> Self {
        Self { levels }
    }

    /// Runs of a level, young to old; empty for a missing level.
    ///
    /// # Panics
    /// If the number is 0: levels count from 1.
    pub fn level(&self, number: usize) -> &[Run] {
        assert!(number > 0, "levels count from 1");
        self.levels.get(number - 1).map_or(&[], Vec::as_slice)
    }

    /// The number of the deepest level with a run; 0 for an empty tree.
    pub fn deepest(&self) -> usize {
        self.levels.iter().rposition(|runs| !runs.is_empty()).map_or(0, |index| index + 1)
    }

    /// All runs, young to old, each with its level.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (usize, &Run)> {
        self.levels.iter().enumerate().flat_map(|(index, runs)| runs.iter().map(move |run| (index + 1, run)))
    }

    /// Bytes of one level.
    pub fn level_bytes(&self, number: usize) -> Bytes {
        self.level(number).iter().map(|run| run.bytes).sum()
    }

    /// Bytes of all levels.
    pub fn bytes(&self) -> Bytes {
        self.runs().map(|(_, run)| run.bytes).sum()
    }

    /// Runs of a level for modification; a missing level is added.
    pub(crate) fn level_mut(&mut self, number: usize) -> &mut Vec<Run> {
        if self.levels.len() < number {
            self.levels.resize_with(number, Vec::new);
        }
        &mut self.levels[number - 1]
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for number in 1..=self.deepest() {
            write!(f, "level {number}:")?;
            for (at, run) in self.level(number).iter().enumerate() {
                write!(f, "{} {} {}", if at == 0 { "" } else { "," }, run.id, run.bytes)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl FromStr for Occupancy {
    type Err = String;

    /// Parses the text form; levels that are left out are empty. Entries are not part of it.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut tree = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let explain =
                || format!("`{line}` is not understood; write `level 1: r7 64MiB, r6 64MiB`, and levels in order");
            let (number, runs) = parse_level(line).ok_or_else(explain)?;
            if number <= tree.levels.len() {
                return Err(explain());
            }
            *tree.level_mut(number) = runs;
        }
        Ok(tree)
    }
}

fn parse_level(line: &str) -> Option<(usize, Vec<Run>)> {
    let (name, runs) = line.trim().split_once(':')?;
    let number = name.strip_prefix("level ")?.parse().ok()?;
    let runs = runs.split(',').filter(|run| !run.trim().is_empty());
    Some((number, runs.map(parse_run).collect::<Option<_>>()?))
}

fn parse_run(text: &str) -> Option<Run> {
    let (id, bytes) = text.trim().split_once(' ')?;
    let id = RunId(id.strip_prefix('r')?.parse().ok()?);
    Some(Run { id, bytes: bytes.parse().ok()?, entries: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An invalid tree is refused with the line and the right form.
    #[test]
    fn refuses_what_is_no_tree() {
        for text in
            ["level 00: r1 4", "level 2: r1 4\nlevel 1: r2 4", "level 1: r1", "level 1: 4", "level 1: r1 4 r2 4"]
        {
            let error = text.parse::<Occupancy>().expect_err(text);
            assert!(error.contains("write `level 1:"), "{error}");
        }
    }

    /// Empty levels below the deepest run equal missing ones.
    #[test]
    fn deepest_ignores_empty_levels() {
        let tree = Occupancy::new(vec![vec![], vec![Run { id: RunId(1), bytes: Bytes(2), entries: None }], vec![]]);
        assert_eq!((tree.deepest(), tree.level(3), tree.level(7).len()), (2, &[][..], 0));
    }
}
