//! Violations of one rule, counted by area of the repository.

use std::collections::BTreeMap;

use crate::tree::TextFile;

/// One violation.
#[derive(Debug)]
pub(crate) struct Finding {
    /// The file, or the name of what lacks something.
    pub(crate) path: String,
    /// Line, and what it says.
    pub(crate) place: String,
}

impl Finding {
    /// A violation at the byte `at` of the file.
    pub(crate) fn at(file: &TextFile, at: usize) -> Self {
        Self::on_line(file, file.text[..floor(&file.text, at)].matches('\n').count() + 1)
    }

    /// A violation on a line, counted from 1.
    pub(crate) fn on_line(file: &TextFile, line: usize) -> Self {
        let text = file.text.lines().nth(line - 1).unwrap_or_default().trim();
        let text: String = text.chars().take(90).collect();
        Self { path: file.path.clone(), place: format!("{line}: {text}") }
    }

    /// Something that a place lacks.
    pub(crate) fn missing(place: &str, what: &str) -> Self {
        Self { path: place.to_owned(), place: format!("does not contain \"{what}\"") }
    }
}

/// The violations of one rule.
#[derive(Debug)]
pub(crate) struct Count {
    /// Its name in `ratchet.txt`.
    pub(crate) rule: String,
    /// What to write.
    pub(crate) instead: String,
    /// The violations of each area.
    pub(crate) areas: BTreeMap<String, Vec<Finding>>,
}

impl Count {
    /// A rule without violations yet. `instead` says what to write.
    pub(crate) fn new(rule: &str, instead: &str) -> Self {
        Self { rule: rule.to_owned(), instead: instead.to_owned(), areas: BTreeMap::new() }
    }

    /// Counts a violation.
    pub(crate) fn add(&mut self, area: &str, finding: Finding) {
        self.areas.entry(area.to_owned()).or_default().push(finding);
    }
}

/// The part of the repository that a file belongs to. Areas are coarse, so that code can
/// move between modules and between the crates of the engine.
pub(crate) fn area(path: &str) -> &'static str {
    const AREAS: &[(&str, &str)] = &[
        ("crates/tamarack-cli/", "cli"),
        ("crates/tamarack-env/", "env"),
        ("crates/tamarack-filter/", "filter"),
        ("crates/tidy/", "tidy"),
        ("crates/", "engine"),
        ("bench/", "bench"),
        ("fuzz/", "fuzz"),
        ("qa/", "qa"),
    ];
    AREAS.iter().find(|(beginning, _)| path.starts_with(beginning)).map_or("documents", |(_, area)| area)
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
