//! The paper's figures about codes: 5, 6, 8 and 9, with our code beside; and 11 and 13, about
//! lookups in a full filter ([`false_positives`], [`rare_buckets`]).
//!
//! Each has the paper's axes, a table of all points, and verdicts on what the paper says of it,
//! which are computed from the points. The paper counts all slots as used here.

mod by_level;
mod false_positives;
mod rare_buckets;

use tamarack_model::filter::chucky::{code_length_limit, combination_entropy, entropy_limit};

use crate::compare::FREQUENT_SHARE;
use crate::huffman::{self, entropy};
use crate::lengths::{Fit, overflowing, rate};
use crate::plot::{Curve, Plot, Scale};
use crate::tree::{Distribution, Tree, Type, average_length};

pub use by_level::Effort;

/// A figure of the paper.
pub struct Figure {
    /// The tree, and what is not as in the paper.
    pub about: String,
    pub plot: Plot,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub verdicts: Vec<Verdict>,
}

/// What the paper says of a figure.
pub struct Verdict {
    pub claim: &'static str,
    pub holds: bool,
    /// The figures that decide.
    pub because: String,
}

pub fn all(effort: Effort) -> Vec<Figure> {
    let (figure_11, figure_13) = (false_positives::figure_11(effort), rare_buckets::figure_13(effort));
    vec![figure_5(), figure_6(), figure_8(), figure_9(), figure_11, figure_13]
}

/// The slots of the buckets of our code in figures 5 and 6: buckets have 64 bits.
const OWN_SLOTS: usize = 4;

/// The least and the greatest value.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(a, b), value| (a.min(value), b.max(value)))
}

fn steps(values: &[f64]) -> impl Iterator<Item = f64> {
    values.windows(2).map(|pair| pair[1] - pair[0])
}

fn curve(name: &'static str, series: usize, dashes: usize, across: &[f64], up: &[f64]) -> Curve {
    Curve { name, series, dashes, points: across.iter().copied().zip(up.iter().copied()).collect(), marks: None }
}

/// A table with a column for each curve.
fn table(first: &str, across: &[f64], decimals: usize, curves: &[(&str, &[f64])]) -> (Vec<String>, Vec<Vec<String>>) {
    let header = std::iter::once(first).chain(curves.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
    let row = |(place, x): (usize, &f64)| {
        std::iter::once(x.to_string()).chain(curves.iter().map(|(_, up)| format!("{:.decimals$}", up[place]))).collect()
    };
    (header, across.iter().enumerate().map(row).collect())
}

/// The bits of our codeword for each LID of a tree, in full buckets.
fn own_bits(tree: &Tree) -> f64 {
    let types = Distribution::of_entries(tree).combinations(OWN_SLOTS);
    let code = tree.code(OWN_SLOTS).expect("four slots fit");
    average_length(&code, &types).0 / OWN_SLOTS as f64
}

fn huffman_of_lids(tree: &Tree) -> f64 {
    huffman::code(&Distribution::of_entries(tree).combinations(1)).1
}

fn entropy_of_lids(tree: &Tree) -> f64 {
    // That of a single run is -0.
    entropy(&Distribution::of_entries(tree).combinations(1)).abs()
}

fn figure_5() -> Figure {
    let levels: Vec<f64> = (1..=10).map(f64::from).collect();
    let of = |what: fn(&Tree) -> f64| -> Vec<f64> {
        levels.iter().map(|&levels| what(&Tree::of_paper(5.0, 4, 1, levels as usize))).collect()
    };
    let integer = of(|tree| (tree.runs() as f64).log2().ceil());
    let huffman = of(huffman_of_lids);
    let entropies = of(entropy_of_lids);
    let own = of(own_bits);
    let (bound, limit) = (code_length_limit(5.0, 4.0, 1.0), entropy_limit(5.0, 4.0, 1.0));
    let (bounds, limits) = (vec![bound; levels.len()], vec![limit; levels.len()]);
    let last_step = steps(&huffman).last().unwrap_or(f64::NAN).abs();
    let greatest = range(huffman.iter().copied()).1;
    let gap = range(huffman.iter().zip(&entropies).map(|(code, entropy)| code - entropy));
    let (header, rows) = table(
        "levels",
        &levels,
        4,
        &[
            ("integer", &integer),
            ("Huffman", &huffman),
            ("bound, Eq. 11", &bounds),
            ("entropy", &entropies),
            ("entropy, Eq. 9", &limits),
            ("ours", &own),
        ],
    );
    Figure {
        about: format!(
            "Lazy leveling with T = 5 (K = 4, Z = 1), as in the paper. Ours is the group code of buckets of 64 bits with {OWN_SLOTS} slots: its codewords fill what fingerprints leave."
        ),
        plot: Plot {
            name: "fig5",
            title: "Chucky, Fig. 5: bits for each level ID, by levels",
            across: "levels",
            across_scale: Scale::Linear,
            up: "bits for each level ID",
            up_scale: Scale::Linear,
            curves: vec![
                curve("ours, four slots", 0, 0, &levels, &own),
                curve("Huffman", 1, 0, &levels, &huffman),
                curve("bound, Eq. 11", 1, 1, &levels, &bounds),
                curve("entropy", 2, 0, &levels, &entropies),
                curve("entropy, limit, Eq. 9", 2, 1, &levels, &limits),
                curve("integer", 3, 0, &levels, &integer),
            ],
        },
        header,
        rows,
        verdicts: vec![
            Verdict {
                claim: "The average code length converges with the number of levels, that of integers does not.",
                holds: last_step < 0.001 && integer.last() > integer.get(4),
                because: format!(
                    "the last level adds {last_step:.6} bits to Huffman's code; integers take {} bits with five levels and {} with ten",
                    integer[4], integer[9]
                ),
            },
            Verdict {
                claim: "Eq. 11 is a reasonably tight upper bound of Huffman's average.",
                holds: greatest <= bound && bound - huffman[9] < 0.25,
                because: format!(
                    "at most {greatest:.4} bits, the bound is {bound:.4}, {:.4} more than with ten levels",
                    bound - huffman[9]
                ),
            },
            Verdict {
                claim: "Huffman's average is at most the entropy plus one.",
                holds: gap.0 >= -1e-9 && gap.1 <= 1.0,
                because: format!("{:.4} to {:.4} bits above the entropy", gap.0.max(0.0), gap.1),
            },
        ],
    }
}

fn figure_6() -> Figure {
    let ratios: Vec<f64> = (2..=16).map(f64::from).collect();
    // Trees of about equal size: 2^10 memtables and more.
    let levels = |ratio: f64| ((10.0 * 2_f64.ln() / ratio.ln()).ceil() as usize).max(3);
    let trees: Vec<Tree> = ratios.iter().map(|&ratio| Tree::of_paper(ratio, 1, 1, levels(ratio))).collect();
    let permutations = |slots: usize| -> Vec<f64> {
        let of = |tree: &Tree| huffman::code(&Distribution::of_entries(tree).permutations(slots)).1 / slots as f64;
        trees.iter().map(of).collect()
    };
    let [one, two, three, four] = [1, 2, 3, 4].map(permutations);
    let entropies: Vec<f64> = trees.iter().map(entropy_of_lids).collect();
    let own: Vec<f64> = trees.iter().map(own_bits).collect();
    let limits: Vec<f64> = ratios.iter().map(|&ratio| entropy_limit(ratio, 1.0, 1.0)).collect();
    let gaps =
        |codes: &[f64]| -> Vec<f64> { codes.iter().zip(&entropies).map(|(code, entropy)| code - entropy).collect() };
    let [gap_1, gap_2, gap_3, gap_4] = [&one, &two, &three, &four].map(|codes| range(gaps(codes).into_iter()).1);
    let of_one = gaps(&one);
    let (header, rows) = table(
        "T",
        &ratios,
        4,
        &[
            ("1 LID", &one),
            ("2 LIDs", &two),
            ("3 LIDs", &three),
            ("4 LIDs", &four),
            ("entropy", &entropies),
            ("entropy, Eq. 9", &limits),
            ("ours", &own),
        ],
    );
    Figure {
        about: format!(
            "Leveling (K = Z = 1) with three levels or more, at least as many as 2¹⁰ memtables need. Ours has {OWN_SLOTS} slots."
        ),
        plot: Plot {
            name: "fig6",
            title: "Chucky, Fig. 6: bits for each level ID, by size ratio",
            across: "size ratio T",
            across_scale: Scale::Linear,
            up: "bits for each level ID",
            up_scale: Scale::Linear,
            curves: vec![
                curve("ours, four slots", 0, 0, &ratios, &own),
                curve("Huffman, single LIDs", 1, 0, &ratios, &one),
                curve("permutations of 2", 3, 0, &ratios, &two),
                curve("permutations of 3", 3, 1, &ratios, &three),
                curve("permutations of 4", 3, 2, &ratios, &four),
                curve("entropy", 2, 0, &ratios, &entropies),
                curve("entropy, limit, Eq. 9", 2, 1, &ratios, &limits),
            ],
        },
        header,
        rows,
        verdicts: vec![
            Verdict {
                claim: "With the size ratio, the average code length of single LIDs approaches one, and its gap to the entropy grows.",
                holds: one.iter().all(|bits| *bits >= 1.0)
                    && one.last() < Some(&1.1)
                    && steps(&of_one).all(|step| step > 0.0),
                because: format!(
                    "{:.4} bits with T = 2, {:.4} with T = 16; the gap is {:.4} and {:.4}, and grows with {} of {} steps",
                    one[0],
                    one[14],
                    of_one[0],
                    of_one[14],
                    steps(&of_one).filter(|step| *step > 0.0).count(),
                    ratios.len() - 1
                ),
            },
            Verdict {
                claim: "The more LIDs a permutation has, the nearer to the entropy is the average code length.",
                holds: gap_1 > gap_2 && gap_2 > gap_3 && gap_3 > gap_4,
                because: format!(
                    "the greatest gaps with 1, 2, 3 and 4 LIDs are {gap_1:.4}, {gap_2:.4}, {gap_3:.4} and {gap_4:.4} bits"
                ),
            },
        ],
    }
}

fn figure_8() -> Figure {
    let tree = Tree::of_paper(5.0, 4, 1, 6);
    let sizes: Vec<f64> = (1..=7).map(f64::from).collect();
    let distribution = Distribution::of_entries(&tree);
    let of = |what: &dyn Fn(usize) -> f64| -> Vec<f64> { sizes.iter().map(|&slots| what(slots as usize)).collect() };
    let permutations = of(&|slots| huffman::code(&distribution.permutations(slots)).1 / slots as f64);
    let combinations = of(&|slots| huffman::code(&distribution.combinations(slots)).1 / slots as f64);
    let of_combinations = of(&|slots| combination_entropy(&distribution.probabilities(), slots as u32));
    let summed = of(&|slots| entropy(&distribution.combinations(slots)) / slots as f64);
    let entropies = vec![entropy_of_lids(&tree); sizes.len()];
    let own = of(&|slots| {
        let code = tree.code(slots).expect("it fits");
        average_length(&code, &distribution.combinations(slots)).0 / slots as f64
    });
    let difference = range(of_combinations.iter().zip(&summed).map(|(formula, sum)| (formula - sum).abs())).1;
    let gaps: Vec<f64> = combinations.iter().zip(&of_combinations).map(|(code, entropy)| code - entropy).collect();
    let ahead = range(permutations.iter().zip(&combinations).skip(1).map(|(order, none)| order - none));
    let (header, mut rows) = table(
        "LIDs",
        &sizes,
        4,
        &[
            ("permutations", &permutations),
            ("combinations", &combinations),
            ("entropy", &entropies),
            ("entropy, Eq. 13", &of_combinations),
            ("ours", &own),
        ],
    );
    // With up to three slots, fingerprints are as long as they get, and all the rest is code.
    let shown = |slots: &f64| *slots >= 4.0;
    for (row, slots) in rows.iter_mut().zip(&sizes).filter(|(_, slots)| !shown(slots)) {
        if let Some(cell) = row.last_mut() {
            *cell = format!("not compared: fingerprints of 16 bits leave {:.0} bits unused", 64.0 - 16.0 * slots);
        }
    }
    let own_curve = Curve {
        name: "ours, buckets of 64 bits",
        series: 0,
        dashes: 0,
        points: sizes.iter().copied().zip(own.iter().copied()).filter(|(slots, _)| shown(slots)).collect(),
        marks: None,
    };
    Figure {
        about: "Lazy leveling with T = 5 and six levels, the paper's default. Ours fills buckets of 64 bits, so its length is what whole bits of fingerprints leave.".to_owned(),
        plot: Plot {
            name: "fig8",
            title: "Chucky, Fig. 8: bits for each level ID, by LIDs that are coded together",
            across: "LIDs in a permutation or combination",
            across_scale: Scale::Linear,
            up: "bits for each level ID",
            up_scale: Scale::Linear,
            curves: vec![
                own_curve,
                curve("Huffman, permutations", 3, 0, &sizes, &permutations),
                curve("Huffman, combinations", 1, 0, &sizes, &combinations),
                curve("entropy of LIDs", 2, 1, &sizes, &entropies),
                curve("entropy of combinations", 2, 0, &sizes, &of_combinations),
            ],
        },
        header,
        rows,
        verdicts: vec![
            Verdict {
                claim: "The entropy of combinations (Eq. 13) drops as they get larger.",
                holds: steps(&of_combinations).all(|step| step < 0.0) && difference < 1e-9,
                because: format!(
                    "{:.4} to {:.4} bits; the formula differs from the sum over all combinations by at most {difference:.0e}",
                    of_combinations[0], of_combinations[6]
                ),
            },
            Verdict {
                claim: "Combinations take strictly fewer bits than permutations.",
                holds: ahead.0 > 0.0,
                because: format!("from 2 LIDs on by {:.4} to {:.4} bits", ahead.0, ahead.1),
            },
            Verdict {
                claim: "The average code length of combinations converges to their entropy.",
                holds: gaps[6] < gaps[0] / 4.0 && gaps[6] < 0.05,
                because: format!(
                    "the gap is {} bits for 1 to 7 LIDs",
                    gaps.iter().map(|gap| format!("{gap:.4}")).collect::<Vec<_>>().join(", ")
                ),
            },
        ],
    }
}

/// A point of figure 9.
struct Point {
    method: &'static str,
    /// The share of buckets that may overflow; `None` for uniform fingerprints.
    wanted_share: Option<f64>,
    overflowing: f64,
    bits: f64,
    rate: f64,
    lengths: Vec<u32>,
}

/// The bits of a slot in figure 9.
const SLOT_BITS: u32 = 10;

const UNIFORM: &str = "uniform fingerprints";
const MALLEABLE: &str = "MF";
const ALIGNED: &str = "MF and FAC";
const OWN: &str = "ours";

/// All points; of those without lengths that fit, the method and the share.
fn points_of_figure_9(tree: &Tree, types: &[Type]) -> Vec<Result<Point, (&'static str, f64)>> {
    let (bucket_bits, classes) = (SLOT_BITS * 4, tree.entries.len());
    let point = |method, wanted_share, lengths: Vec<u32>, overflowing| Point {
        method,
        wanted_share,
        overflowing,
        bits: tree.entries.iter().zip(&lengths).map(|(share, &length)| share * f64::from(length)).sum(),
        rate: 8.0 * rate(&tree.entries, &lengths),
        lengths,
    };
    let uniform = |bits: u32| {
        let lengths = vec![bits; classes];
        let overflowing = overflowing(types, &lengths, bucket_bits);
        Ok(point(UNIFORM, None, lengths, overflowing))
    };
    let mut points: Vec<_> = (5..=9).map(uniform).collect();
    for method in [MALLEABLE, ALIGNED, OWN] {
        for share in (2..=12).map(|exponent| 10_f64.powf(-f64::from(exponent) / 2.0)) {
            let fit = match method {
                MALLEABLE => Fit::given_code(types, 1.0 - share, bucket_bits),
                ALIGNED => Fit::aligned_code(types, 1.0 - share, bucket_bits),
                _ => Fit::aligned_groups(types, 1.0 - share, bucket_bits),
            };
            let lengths = if method == OWN { fit.best(&tree.entries) } else { fit.as_printed(classes, 4) };
            points.push(lengths.ok_or((method, share)).map(|lengths| {
                let is_given = method == MALLEABLE;
                let over = if is_given { overflowing(types, &lengths, bucket_bits) } else { fit.rare_share(types) };
                point(method, Some(share), lengths, over)
            }));
        }
    }
    points
}

fn figure_9() -> Figure {
    let tree = Tree::of_paper(5.0, 4, 1, 6);
    let types = Distribution::of_entries(&tree).combinations(4);
    let most = f64::from(SLOT_BITS) - entropy(&types) / 4.0;
    let all = points_of_figure_9(&tree, &types);
    let points: Vec<&Point> = all.iter().filter_map(|point| point.as_ref().ok()).collect();
    let of = |method: &'static str| points.iter().copied().filter(move |point| point.method == method);
    let missing = all.iter().filter(|point| matches!(point, Err((method, _)) if *method == MALLEABLE)).count();
    let wanted = 1.0 - FREQUENT_SHARE;
    let is_wanted = |point: &&Point| point.wanted_share.is_some_and(|share| (share / wanted - 1.0).abs() < 1e-6);
    let bits = of(ALIGNED).find(is_wanted).expect("aligned codes fit").bits;
    let aligned = range(of(ALIGNED).map(|point| point.bits));
    let malleable = range(of(MALLEABLE).map(|point| point.bits));
    let uniform = range(of(UNIFORM).map(|point| point.overflowing));
    // Points of two methods with the same share.
    let pairs = |one: &'static str, other: &'static str| -> Vec<(&Point, &Point)> {
        let alike = |point: &&Point| of(other).find(|other| other.wanted_share == point.wanted_share);
        of(one).filter_map(|point| Some((point, alike(&point)?))).collect()
    };
    let beside_malleable = pairs(ALIGNED, MALLEABLE);
    let longer = beside_malleable.iter().filter(|(aligned, malleable)| aligned.bits > malleable.bits).count();
    let gains = range(beside_malleable.iter().map(|(aligned, malleable)| aligned.bits - malleable.bits));
    let beside_aligned = pairs(OWN, ALIGNED);
    // The rates of equal lengths are equal but for rounding.
    let fewer = beside_aligned.iter().filter(|(own, aligned)| own.rate <= aligned.rate * (1.0 + 1e-9)).count();
    let ratios = range(beside_aligned.iter().map(|(own, aligned)| own.rate / aligned.rate));
    // A logarithmic axis has no place for 0.
    let on_axis = |method: &'static str| of(method).map(|point| (point.overflowing.max(1e-7), point.bits)).collect();
    let shown = |name, series, dashes| Curve { name, series, dashes, points: on_axis(name), marks: None };
    let shortest = points.iter().map(|point| point.overflowing).fold(1e-6, f64::min).max(1e-7);
    let row = |point: &Point| {
        let lengths: Vec<String> = point.lengths.iter().map(u32::to_string).collect();
        vec![
            point.method.to_owned(),
            point.wanted_share.map_or("—".to_owned(), |share| format!("{share:.1e}")),
            format!("{:.1e}", point.overflowing),
            format!("{:.4}", point.bits),
            lengths.join(" "),
            format!("{:.4}", point.rate),
        ]
    };
    let rows = all.iter().map(|point| match point {
        Ok(point) => row(point),
        Err((method, share)) => {
            let words =
                [(*method).to_owned(), format!("{share:.1e}"), "fingerprints of 5 bits overflow too often".to_owned()];
            words.into_iter().chain(["none", "none", "none"].map(str::to_owned)).collect()
        }
    });
    let header = [
        "method",
        "may overflow",
        "overflow",
        "mean bits of a fingerprint",
        "bits by level, the last first",
        "false positives",
    ];
    Figure {
        about: format!(
            "Lazy leveling with T = 5 and six levels, {SLOT_BITS} bits a slot, four slots, Algorithm 1 as printed; \
             at most {most:.4} bits are left beside the entropy of combinations (Eq. 13). Ours: the search for the fewest false positives, so \
             that its mean length is not what counts, and groups that are frequent as wholes, so that fewer buckets overflow than may."
        ),
        plot: Plot {
            name: "fig9",
            title: "Chucky, Fig. 9: fingerprints and overflowing buckets",
            across: "share of buckets that overflow",
            across_scale: Scale::Logarithmic,
            up: "mean bits of a fingerprint",
            up_scale: Scale::Linear,
            curves: vec![
                shown(OWN, 0, 0),
                shown(ALIGNED, 1, 0),
                shown(MALLEABLE, 2, 0),
                shown(UNIFORM, 3, 0),
                Curve {
                    name: "most, Eq. 13",
                    series: 1,
                    dashes: 2,
                    points: vec![(shortest, most), (0.5, most)],
                    marks: None,
                },
            ],
        },
        header: header.map(str::to_owned).into(),
        rows: rows.collect(),
        verdicts: vec![
            Verdict {
                claim: "With uniform fingerprints, longer ones overflow more buckets.",
                holds: of(UNIFORM)
                    .zip(of(UNIFORM).skip(1))
                    .all(|(shorter, longer)| shorter.overflowing < longer.overflowing),
                because: format!("5 to 9 bits: {:.1e} to {:.1e} of the buckets", uniform.0, uniform.1),
            },
            Verdict {
                claim: "With MF and FAC the curve is horizontal: it varies by less than a tenth of what MF alone does.",
                holds: aligned.1 - aligned.0 < (malleable.1 - malleable.0) / 10.0,
                because: format!(
                    "{:.4} to {:.4} bits over all shares; with MF alone {:.4} to {:.4}",
                    aligned.0, aligned.1, malleable.0, malleable.1
                ),
            },
            Verdict {
                claim: "FAC lengthens the fingerprints of MF.",
                holds: longer == beside_malleable.len(),
                because: format!(
                    "at {longer} of {} shares, by {:.4} to {:.4} bits; at {missing} others MF alone has no lengths that fit",
                    beside_malleable.len(),
                    gains.0,
                    gains.1
                ),
            },
            Verdict {
                claim: "MF and FAC are about half a bit (a quarter to three quarters) below the theoretical maximum.",
                holds: (0.25..0.75).contains(&(most - bits)),
                because: format!("{:.4} bits below it where one bucket in 10,000 may overflow", most - bits),
            },
            Verdict {
                claim: "(Not in the paper.) Our lengths have at most as many false positives as those of Algorithm 1.",
                holds: fewer == beside_aligned.len(),
                because: format!(
                    "at {fewer} of {} shares; {:.4} to {:.4} times as many",
                    beside_aligned.len(),
                    ratios.0,
                    ratios.1
                ),
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each figure has points and verdicts with numbers. Those of the paper's example are its own.
    #[test]
    fn figures_have_points() {
        let figures = all(Effort { buckets: 1_021, lookups: 4_096, rare_buckets: 1.0 });
        for figure in &figures {
            assert!(figure.rows.iter().all(|row| row.len() == figure.header.len()), "{}", figure.plot.name);
            assert!(figure.verdicts.iter().all(|verdict| !verdict.because.contains("NaN")), "{}", figure.plot.name);
        }
        let huffman = &figures[0].plot.curves[1].points;
        assert!((huffman[2].1 - 189.0 / 124.0).abs() < 1e-9);
    }
}
