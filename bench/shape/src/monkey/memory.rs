//! With how many bits per entry optimal filters cost as little as equal ones with 10.

use tamarack::Result;
use tamarack_model::FilterKind;
use tamarack_model::allocate::Curve;

use crate::section::{Cell, Section};
use crate::tree::{Layout, Of, Place, Sharing, Tree, filter, model};

/// Entries of 40 raw bytes, buffers of 40,000 bytes.
const LAYOUT: Layout = Layout { value_bytes: 16, buffer: 1000 };

/// Ten full levels.
const BUFFERS: u64 = 1023;

const BITS: [f64; 8] = [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];

/// So many lookups that find something for each that does not: all.
const ALL_FOUND: &str = "monkey-general,v=1e9";

pub fn measure(lookups: u64) -> Result<Section> {
    let words = format!(
        "Leveling with T = 2, ten full levels, standard Bloom filters, in memory. Blocks read because of *false positives* by each of {lookups} lookups of absent keys (optimal filters for those), of any entry, and \
         of those in the largest level (optimal filters for lookups that find any entry), beside the exact model of the runs; with equal filters and with optimal ones."
    );
    let mut section = Section::new(
        "memory",
        words,
        &["filters", "bits", "absent", "model", "any entry", "model", "largest level", "model"],
    );
    let curve = Curve::new(FilterKind::Bloom);
    let oldest = Of::Oldest((BUFFERS / 2 + 1) * LAYOUT.buffer);
    let kinds = [Of::Any(0.0), Of::Any(1.0), oldest];
    // Block reads because of false positives: measured, and by the model.
    let mut row = |bits: f64, names: [&str; 3], sharings: [Sharing; 3]| -> Result<[[f64; 2]; 3]> {
        let mut cells = vec![Cell::Word(names[0].to_owned()), Cell::Number(bits, 1)];
        let mut figures = [[0.0; 2]; 3];
        let mut tree: Option<(&str, Tree)> = None;
        for (((of, name), sharing), figure) in kinds.into_iter().zip(names).zip(sharings).zip(&mut figures) {
            if tree.as_ref().is_none_or(|(grown, _)| *grown != name) {
                let mut new =
                    Tree::new(&Place::Memory, LAYOUT, "leveling:T=2", &filter(FilterKind::Bloom, bits, name))?;
                new.grow(BUFFERS)?;
                tree = Some((name, new));
            }
            let (_, tree) = tree.as_ref().expect("it was just grown");
            let found = if of == Of::Any(0.0) { 0.0 } else { 1.0 };
            *figure =
                [tree.look_up(lookups, of)?.blocks - found, model(&curve, &tree.runs(), bits, sharing, of) - found];
            cells.extend(figure.map(|blocks| Cell::Number(blocks, 4)));
        }
        section.row(cells);
        Ok(figures)
    };
    let equal = row(10.0, ["uniform"; 3], [Sharing::Uniform; 3])?;
    let mut optimal = Vec::new();
    for bits in BITS {
        let found = Sharing::Found(1.0);
        optimal.push(row(bits, ["monkey", ALL_FOUND, ALL_FOUND], [Sharing::Found(0.0), found, found])?);
    }
    for (at, what) in ["of absent keys", "of any entry", "of the largest level"].into_iter().enumerate() {
        let bits = [0, 1].map(|way| meets(&optimal.iter().map(|row| row[at][way]).collect::<Vec<_>>(), equal[at][way]));
        section.verdict(
            format!(
                "lookups {what} cost what equal filters with 10 bits make them cost at {:.2} bits, {:.2} by the model, within 0.3",
                bits[0], bits[1]
            ),
            (bits[0] - bits[1]).abs() <= 0.3,
        );
    }
    Ok(section)
}

/// The bits at which costs, which fall with bits, reach `cost`: interpolated between two
/// measurements by logarithms, along which costs fall evenly.
fn meets(costs: &[f64], cost: f64) -> f64 {
    let before = (0..costs.len() - 1).rev().find(|&at| costs[at] >= cost).unwrap_or(0);
    let logs = [costs[before], costs[before + 1], cost].map(f64::ln);
    BITS[before] + (logs[0] - logs[2]) / (logs[0] - logs[1]) * (BITS[before + 1] - BITS[before])
}
