//! [`Site`]: a place in a source file, and the mutants that it takes.
//!
//! The sites of a file are nested like its syntax: two of them are disjoint, or one contains the
//! other, or they are the same range.

use std::ops::Range;

/// How a mutant changes its site.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Change {
    /// Evaluates this text in place of the expression.
    Replace(String),
    /// Leaves the statement out.
    Delete,
    /// Executes this statement first; the site is the empty range after a `{`.
    Insert(String),
    /// Keeps a match arm from matching; the site is the empty range after its pattern.
    Unmatch,
}

/// One mutant of one file, not yet numbered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Site {
    /// Bytes of the source that are replaced.
    pub(crate) range: Range<usize>,
    pub(crate) change: Change,
    /// The change as a reader sees it: `a < b -> a <= b`.
    pub(crate) description: String,
}

/// A numbered mutant.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The value of `TAMARACK_MUTANT` that switches it on, from 1.
    pub(crate) number: u32,
    /// Index of its file.
    pub(crate) file: usize,
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    pub(crate) site: Site,
}

/// Numbers the sites of one file, `first` and up, in the order of the text.
pub(crate) fn number(source: &str, file: usize, first: u32, sites: Vec<Site>) -> Vec<Mutant> {
    let place = |at: usize| {
        let before = &source[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    };
    let mutants = sites.into_iter().zip(first..).map(|(site, number)| {
        let (line, column) = place(site.range.start);
        Mutant { number, file, line, column, site }
    });
    mutants.collect()
}
