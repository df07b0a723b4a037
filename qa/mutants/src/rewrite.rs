//! Writes a source file with all its mutants in it.
//!
//! ```text
//! a + 1 < b
//! (if crate::__mutant::on(7) { ((a + 1) <= (b)) } else { ((if … { … } else { (a + 1) }) < b) })
//! ```
//!
//! A mutant's own text holds the original operands, since only one mutant is on at a time; the
//! `else` holds the rewritten ones. So the text grows with the square of the depth, not with a
//! power of it.

use std::ops::Range;

use crate::site::{Change, Mutant};

/// A rewritten file, and where its mutants are in it.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    places: Vec<Place>,
}

/// Where a mutant is in the rewritten text.
#[derive(Debug)]
struct Place {
    number: u32,
    /// What only this mutant executes.
    own: Range<usize>,
    /// All that was written for its site.
    site: Range<usize>,
}

impl Rewritten {
    /// The mutants that an error of the compiler at `span` speaks of: the one whose own text holds
    /// the span, else all of the smallest site that does.
    pub(crate) fn mutants_at(&self, span: &Range<usize>) -> Vec<u32> {
        let holds = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let own = self.places.iter().filter(|place| holds(&place.own)).min_by_key(|place| place.own.len());
        let site = self.places.iter().filter(|place| holds(&place.site)).min_by_key(|place| place.site.len());
        match (own, site) {
            (Some(own), _) => vec![own.number],
            (None, Some(site)) => {
                self.places.iter().filter(|place| place.site == site.site).map(|place| place.number).collect()
            }
            (None, None) => Vec::new(),
        }
    }
}

/// Rewrites `source` with these mutants, which are in the order of the text, outer before inner.
pub(crate) fn rewrite(source: &str, mutants: &[&Mutant]) -> Rewritten {
    let mut writer = Writer { source, out: Rewritten { text: String::new(), places: Vec::new() } };
    writer.copy(0..source.len(), mutants);
    writer.out
}

struct Writer<'a> {
    source: &'a str,
    out: Rewritten,
}

impl Writer<'_> {
    /// Writes this part of the source with the mutants in it.
    fn copy(&mut self, range: Range<usize>, mutants: &[&Mutant]) {
        let (mut at, mut rest) = (range.start, mutants);
        while let Some(first) = rest.first() {
            let site = first.site.range.clone();
            let same = rest.iter().take_while(|mutant| mutant.site.range == site).count();
            let (group, later) = rest.split_at(same);
            let inside =
                later.iter().take_while(|mutant| mutant.site.range.end <= site.end && !site.is_empty()).count();
            let (inside, later) = later.split_at(inside);
            self.out.text.push_str(&self.source[at..site.start]);
            self.site(site.clone(), group, inside);
            (at, rest) = (site.end, later);
        }
        self.out.text.push_str(&self.source[at..range.end]);
    }

    fn site(&mut self, range: Range<usize>, group: &[&Mutant], inside: &[&Mutant]) {
        let (start, first_place) = (self.out.text.len(), self.out.places.len());
        let mut is_expression = false;
        for mutant in group {
            let own_start = self.out.text.len();
            let switch = format!("crate::__mutant::on({})", mutant.number);
            let code = match &mutant.site.change {
                Change::Replace(code) => {
                    let open = if is_expression { "" } else { "(" };
                    is_expression = true;
                    format!("{open}if {switch} {{ ({code}) }} else ")
                }
                Change::Insert(code) => format!(" if {switch} {{ {code} }}"),
                Change::Unmatch => format!(" if !{switch}"),
                Change::Delete => format!("if !{switch} "),
            };
            self.out.text.push_str(&code);
            let own = own_start..self.out.text.len();
            self.out.places.push(Place { number: mutant.number, own, site: 0..0 });
        }
        if !range.is_empty() {
            // Parentheses: as a statement, `match x { … } == y` would end after the match.
            self.out.text.push_str(if is_expression { "{ (" } else { "{ " });
            self.copy(range, inside);
            self.out.text.push_str(if is_expression { ") })" } else { " }" });
        }
        let site = start..self.out.text.len();
        for place in &mut self.out.places[first_place..] {
            if place.site.is_empty() && group.iter().any(|mutant| mutant.number == place.number) {
                place.site = site.clone();
            }
        }
    }
}
