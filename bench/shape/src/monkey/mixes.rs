//! Mixes of zero-result lookups and lookups of existing keys, with filters allocated for the
//! former, for the mix, and by observation.

use tamarack::Result;
use tamarack_model::FilterKind;
use tamarack_model::allocate::Curve;

use crate::section::{Cell, Section};
use crate::tree::{Layout, Of, Place, Sharing, Tree, filter, model, predicted};

const LAYOUT: Layout = Layout { value_bytes: 16, buffer: 1000 };

const BITS: f64 = 5.0;

/// Policies, and buffers that make their levels as full as they are at rest.
const TREES: [(&str, u64); 3] = [("leveling:T=2", 255), ("leveling:T=6", 215), ("tiering:T=6", 215)];

/// Lookups that find something, for each one that does not.
const RATIOS: [f64; 4] = [0.1, 1.0, 3.0, 9.0];

/// Lookups between two buffers, for a tree that is to see them.
const SEEN: u64 = 1000;

pub fn measure(lookups: u64) -> Result<Section> {
    let words = format!(
        "Full trees, standard Bloom filters with {BITS} bits per entry, in memory. Blocks read because of *false positives* by each of {lookups} lookups, v of existing keys for each zero-result one: with equal filters, with \
         optimal ones for absent keys (`monkey`), with optimal ones for the mix (`monkey-general`), and by what was seen while the tree grew (`observed`). Models are exact for the present runs with the best filters; `as built` with the present filters, which stay while others would save less than a tenth."
    );
    let columns = [
        "tree",
        "v",
        "equal",
        "monkey",
        "model",
        "general",
        "model",
        "general to monkey",
        "by the model",
        "as built",
        "observed",
        "observed to monkey",
    ];
    let mut section = Section::new("mixes", words, &columns);
    let curve = Curve::new(FilterKind::Bloom);
    let (mut worst_gain, mut worst_ratio, mut worst_off): (f64, f64, f64) = (0.0, 0.0, 0.0);
    for (policy, buffers) in TREES {
        let grown = |sharing: &str, seen: Option<Of>| -> Result<Tree> {
            let mut tree = Tree::new(&Place::Memory, LAYOUT, policy, &filter(FilterKind::Bloom, BITS, sharing))?;
            for _ in 0..buffers {
                tree.grow(1)?;
                if let Some(of) = seen {
                    tree.look_up(SEEN, of)?;
                }
            }
            Ok(tree)
        };
        let (equal, monkey) = (grown("uniform", None)?, grown("monkey", None)?);
        for v in RATIOS {
            let found = v / (v + 1.0);
            let of = Of::Any(found);
            let general = grown(&format!("monkey-general,v={v}"), None)?;
            let observed = grown("observed", Some(of))?;
            let look = |tree: &Tree| tree.look_up(lookups, of).map(|taken| taken.blocks - found);
            let [equal, of_monkey, of_general, of_observed] =
                [look(&equal)?, look(&monkey)?, look(&general)?, look(&observed)?];
            let modelled = |sharing| model(&curve, &general.runs(), BITS, sharing, of) - found;
            let models = [modelled(Sharing::Found(0.0)), modelled(Sharing::Found(found))];
            let (ratio, by_model) = (of_general / of_monkey, models[1] / models[0]);
            let built = |tree: &Tree| predicted(&tree.runs(), of) - found;
            let as_built = built(&general) / built(&monkey);
            section.row(vec![
                Cell::Word(policy.to_owned()),
                Cell::Number(v, 1),
                Cell::Number(equal, 4),
                Cell::Number(of_monkey, 4),
                Cell::Number(models[0], 4),
                Cell::Number(of_general, 4),
                Cell::Number(models[1], 4),
                Cell::Percent(ratio - 1.0),
                Cell::Percent(by_model - 1.0),
                Cell::Percent(as_built - 1.0),
                Cell::Number(of_observed, 4),
                Cell::Percent(of_observed / of_monkey - 1.0),
            ]);
            worst_ratio = worst_ratio.max(ratio);
            worst_gain = worst_gain.max((ratio - as_built).abs());
            worst_off = worst_off.max((of_general / models[1] - 1.0).abs());
        }
    }
    section.verdict(
        format!("bits for the mix are never worse than bits for absent keys; at worst {worst_ratio:.3} of them"),
        worst_ratio <= 1.02,
    );
    section.verdict(
        format!(
            "they gain what the model says of the filters that were built, within 10 % of what is read; the worst is {:.1} % off",
            100.0 * worst_gain
        ),
        worst_gain <= 0.1,
    );
    section.verdict(
        format!("what is read is within 10 % of the model; the worst is {:.1} % off", 100.0 * worst_off),
        worst_off <= 0.1,
    );
    Ok(section)
}
