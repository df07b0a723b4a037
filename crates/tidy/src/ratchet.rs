//! Rules that the code does not keep everywhere yet: their violations may only become fewer.
//!
//! `ratchet.txt` says for each rule how many violations each area of the repository may have. An
//! area is coarse (all crates of the engine are one), so that code can move between modules and
//! crates. A count above its allowance fails, and says what to write instead; a count below needs
//! nothing, and
//!
//! ```sh
//! TAMARACK_REWRITE=1 cargo test -p tidy ratchet
//! ```
//!
//! lowers the allowances to what is there. It never raises one; only a rule that the file does not
//! know yet enters it with its counts.

#![expect(clippy::disallowed_methods, reason = "rules about files read files; nothing here runs under the simulator")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::finding::{Count, Finding};
use crate::tree;
use crate::verdict::assert_none;
use crate::{glossary, homonyms, text};

/// How many violations a failure shows for one rule and area, those in the files changed last.
const SHOWN_MAX: usize = 8;

/// Allowances by rule and area; an area that is not listed has none.
type Allowances = BTreeMap<String, BTreeMap<String, usize>>;

/// No rule has more violations than `ratchet.txt` allows.
#[test]
fn violations_only_become_fewer() {
    let files = tree::text_files();
    let mut counts = glossary::banned_words(&files);
    counts.extend(glossary::missing_terms(&files));
    counts.extend(homonyms::homonyms(&files));
    counts.extend(text::long_comments(&files));
    let stored = fs::read_to_string(file()).unwrap_or_default();
    let mut allowed = parse(&stored);
    if tamarack_testing::rewrites() {
        allowed = lowered(&allowed, &counts);
        let text = render(&allowed);
        if text != stored {
            fs::write(file(), text).expect("ratchet.txt can be written");
        }
    }
    let complaints: Vec<String> = counts.iter().flat_map(|count| complaints(count, &allowed)).collect();
    assert_none("no more violations than crates/tidy/ratchet.txt allows (CONTRIBUTING.md says more)", &complaints);
}

fn file() -> PathBuf {
    tree::root().join("crates/tidy/ratchet.txt")
}

fn complaints(count: &Count, allowed: &Allowances) -> Vec<String> {
    let Some(allowed) = allowed.get(&count.rule) else {
        return vec![format!("{}: a new rule; TAMARACK_REWRITE=1 stores its counts", count.rule)];
    };
    let mut complaints = Vec::new();
    for (area, findings) in &count.areas {
        let most = allowed.get(area).copied().unwrap_or(0);
        if findings.len() <= most {
            continue;
        }
        let mut text = format!(
            "\"{}\" in {area}: {} times, {most} allowed. Write instead: {}. In the files changed last:",
            count.rule,
            findings.len(),
            count.instead
        );
        let mut newest: Vec<&Finding> = findings.iter().collect();
        newest.sort_by_key(|finding| std::cmp::Reverse(changed(&finding.path)));
        for finding in newest.iter().take(SHOWN_MAX) {
            write!(text, "\n      {}:{}", finding.path, finding.place).expect("a string takes text");
        }
        complaints.push(text);
    }
    complaints
}

fn changed(path: &str) -> Option<SystemTime> {
    fs::metadata(tree::root().join(path)).and_then(|file| file.modified()).ok()
}

/// Every allowance lowered to the count; rules that are not stored yet get their counts, rules that
/// are gone are dropped.
fn lowered(stored: &Allowances, counts: &[Count]) -> Allowances {
    let lower = |count: &Count| {
        let known = stored.get(&count.rule);
        let areas = count.areas.iter().filter_map(|(area, findings)| {
            let most = known.map_or(usize::MAX, |areas| areas.get(area).copied().unwrap_or(0));
            Some((area.clone(), findings.len().min(most))).filter(|(_, most)| *most > 0)
        });
        (count.rule.clone(), areas.collect())
    };
    counts.iter().map(lower).collect()
}

const HEAD: &str = "\
# Violations that are allowed, by rule and area. Numbers only become smaller: see crates/tidy/src/ratchet.rs.
";

fn render(allowed: &Allowances) -> String {
    let mut text = HEAD.to_owned();
    for (rule, areas) in allowed {
        let areas: Vec<String> = areas.iter().map(|(area, most)| format!("{area} {most}")).collect();
        let line = format!("{rule} = {}", areas.join(", "));
        writeln!(text, "{}", line.trim_end()).expect("a string takes text");
    }
    text
}

fn parse(text: &str) -> Allowances {
    let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" ="));
    lines.map(|(rule, areas)| (rule.to_owned(), areas.split(", ").filter_map(parse_area).collect())).collect()
}

fn parse_area(text: &str) -> Option<(String, usize)> {
    let (area, most) = text.trim().rsplit_once(' ')?;
    Some((area.to_owned(), most.parse().expect("a number of violations")))
}

/// Shows that allowances fall, never rise, and come back from the file.
#[test]
fn allowances_fall_and_never_rise() {
    let file = tree::TextFile { path: "a.rs".into(), text: "x".into() };
    let count = |rule: &str, number: usize| {
        let mut count = Count::new(rule, "y");
        (0..number).for_each(|_| count.add("cli", Finding::at(&file, 0)));
        count
    };
    let first = lowered(&Allowances::new(), &[count("rule", 3)]);
    assert_eq!(render(&first), format!("{HEAD}rule = cli 3\n"));
    assert_eq!(parse(&render(&first)), first);
    assert_eq!(complaints(&count("rule", 3), &first).len(), 0);
    assert_eq!(complaints(&count("rule", 4), &first).len(), 1);
    assert_eq!(lowered(&first, &[count("rule", 4)]), first);
    assert_eq!(render(&lowered(&first, &[count("rule", 0)])), format!("{HEAD}rule =\n"));
    assert_eq!(complaints(&count("rule", 1), &parse("rule =\n")).len(), 1);
}
