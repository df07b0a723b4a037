//! The report: Markdown.

use std::fmt::Write as _;

use crate::compare::{Cell, Row};
use crate::figures::Figure;
use crate::time::{self, CODES};
use crate::tree::SLOTS;

/// What was measured, and where.
pub struct Circumstances {
    pub date: String,
    pub machine: String,
    pub commit: String,
    pub load: f64,
    pub rounds: usize,
    pub command: String,
}

pub fn markdown(
    circumstances: &Circumstances,
    rows: &[Row],
    times: &[time::Row],
    figures: &[Figure],
    stem: &str,
) -> String {
    let Circumstances { date, machine, commit, load, rounds, command } = circumstances;
    let mut text = format!(
        "# Chucky: codes of level IDs, {date}\n\n\
         * Machine: {machine}. Commit {commit}. Load average over one minute before the times were measured: {load:.1}.\n\
         * Command, in `bench/`: `{command}`\n\
         * Everything but times is the same on every machine. The arithmetic coder's bits and figures 11 and 13 are measured with fixed seeds; all else is computed exactly.\n\n\
         Trees are full, in buckets of 64 bits. *Ours* is the group code of this full tree alone; *as the engine makes it*, the code for all \
         states that the tree goes through while it grows, with spare classes and one for late runs, in the full tree. Slots are \
         used to the load that insertions reach (0.95 to 0.975), and empty ones have level ID (LID) 0 in all codes.\n\n"
    );
    bits(&mut text, rows);
    rates(&mut text, rows);
    of_times(&mut text, times, *rounds);
    text.push_str("## The paper's figures\n\n");
    for figure in figures {
        of_figure(&mut text, figure, stem);
    }
    text
}

fn cell(cell: &Cell, shown: impl Fn(f64) -> String) -> String {
    cell.as_ref().map_or_else(String::clone, |figure| shown(*figure))
}

fn add_table(text: &mut String, header: &[&str], rows: &[Vec<String>]) {
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .chain([header[column].chars().count()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut line = |cells: Vec<&str>| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        writeln!(text, "| {} |", cells.join(" | ")).expect("a string takes text");
    };
    line(header.to_vec());
    let rules: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| if column == 0 { "-".repeat(*width) } else { "-".repeat(width - 1) + ":" })
        .collect();
    line(rules.iter().map(String::as_str).collect());
    rows.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
    text.push('\n');
}

fn of_slots(rows: &[Row], slots: usize) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.slots == slots)
}

fn name(row: &Row) -> String {
    format!("`{}`, {} runs", row.policy, row.runs)
}

/// `in 34 of 36, 0.12 to 0.55`: the pairs of which both figures are there and for which it is so,
/// and the range of a figure over all of them.
fn counted(
    pairs: impl Iterator<Item = (f64, f64)>,
    is_so: impl Fn(f64, f64) -> bool,
    figure: impl Fn(f64, f64) -> f64,
) -> String {
    let pairs: Vec<(f64, f64)> = pairs.collect();
    let so = pairs.iter().filter(|(one, other)| is_so(*one, *other)).count();
    let mut figures: Vec<f64> = pairs.iter().map(|(one, other)| figure(*one, *other)).collect();
    figures.sort_by(f64::total_cmp);
    match figures[..] {
        [] => "nothing to compare".to_owned(),
        [least, ..] => {
            let median = common::numbers::median(figures.iter().copied());
            let greatest = figures[figures.len() - 1];
            format!(
                "in {so} of {}; {} to {}, the median {}",
                pairs.len(),
                number(least),
                number(greatest),
                number(median)
            )
        }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0..0.0005 => "0".to_owned(),
        ..0.9995 => format!("{value:.3}"),
        ..9.995 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

fn bits(text: &mut String, rows: &[Row]) {
    text.push_str("## Bits for each level ID\n\n");
    let own = |of: fn(&Row) -> f64| rows.iter().filter_map(move |row| Some((row.bits.own.clone().ok()?, of(row))));
    let all = |one: fn(&Row) -> f64, other: fn(&Row) -> f64| rows.iter().map(move |row| (one(row), other(row)));
    let less = |one: f64, other: f64| one < other;
    let (more, saved) = (|one: f64, other: f64| one - other, |one: f64, other: f64| other - one);
    let at_most_two = |one: f64, other: f64| one >= other - 0.05 && one < other + 2.0;
    writeln!(
        text,
        "Over all rows of the tables:\n\n\
         * Ours takes fewer bits than integers: {} bits saved for each LID.\n\
         * Ours takes fewer bits than Huffman's code of single LIDs: {} bits saved.\n\
         * Huffman's code of combinations takes fewer bits than ours: {} bits saved. Those are bits that fingerprints of whole lengths leave to our \
         codewords.\n\
         * The paper says that aligned codes take at least one bit for each entry (§4.3). Ours takes one or more: {} bits.\n\
         * Combinations take fewer bits than permutations: {} bits saved.\n\
         * The arithmetic coder takes at most two bits *a bucket* more than the entropy of combinations: {} bits a bucket more.\n\
         * Huffman's code of combinations takes fewer bits than the arithmetic coder: {} bits saved for each LID. An interval that ends with its bucket takes up to two \
         bits more than its information, a codeword of Huffman's code less than one on average.\n",
        counted(own(|row| row.bits.integer), less, saved),
        counted(own(|row| row.bits.huffman), less, saved),
        counted(own(|row| row.bits.combinations), |own, huffman| huffman < own, more),
        counted(own(|_| 1.0), |own, one| own >= one, |own, _| own),
        counted(all(|row| row.bits.combinations, |row| row.bits.permutations), less, saved),
        counted(
            rows.iter().map(|row| (row.slots as f64 * row.bits.arithmetic, row.slots as f64 * row.bits.combination_entropy)),
            at_most_two,
            more
        ),
        counted(all(|row| row.bits.combinations, |row| row.bits.arithmetic), less, saved),
    )
    .expect("a string takes text");
    for slots in SLOTS {
        writeln!(text, "### {slots} slots\n").expect("a string takes text");
        let header = [
            "policy",
            "integer",
            "Huffman, LIDs",
            "permutations",
            "combinations",
            "ours",
            "as the engine makes it",
            "arithmetic coder",
            "entropy of LIDs",
            "of combinations",
        ];
        let shown = |bits: f64| format!("{bits:.3}");
        let row = |row: &Row| {
            let bits = &row.bits;
            vec![
                name(row),
                format!("{:.0}", bits.integer),
                shown(bits.huffman),
                shown(bits.permutations),
                shown(bits.combinations),
                cell(&bits.own, shown),
                cell(&bits.engine, shown),
                shown(bits.arithmetic),
                shown(bits.entropy),
                shown(bits.combination_entropy),
            ]
        };
        add_table(text, &header, &of_slots(rows, slots).map(row).collect::<Vec<_>>());
    }
}

fn rates(text: &mut String, rows: &[Row]) {
    text.push_str("## False positives of an absent key\n\n");
    let own =
        |of: fn(&Row) -> Cell| rows.iter().filter_map(move |row| Some((row.rates.own.clone().ok()?, of(row).ok()?)));
    // Equal lengths give equal rates, but for rounding.
    let less = |own: f64, other: f64| own < other * (1.0 - 1e-9);
    let times = |own: f64, other: f64| other / own;
    let overflow = |of: fn(&Row) -> Cell| rows.iter().filter_map(move |row| of(row).ok()).fold(0.0, f64::max);
    writeln!(
        text,
        "Filters of equal memory: buckets of 64 bits, for Bloom filters `64 / (slots · load)` bits for each entry on the ideal curve. \
         Fingerprints have at least {} bits. *Numbered*: combinations have numbers of equal length. *Uniform*: fingerprints of one length beside the \
         longest of Huffman's codewords, of the frequent combinations (0.9999 of the buckets), and of all. *Malleable, unaligned*: fingerprints \
         beside Huffman's codewords (Eq. 14), with the fewest false positives that fit; in brackets the share of buckets that overflow. \
         *Algorithm 1*: aligned codes of combinations (Eq. 15), lengths as printed in the paper. *Single combinations*: our \
         search under the constraint of Algorithm 1; in ours, groups are frequent as wholes. *Fewest*: all lengths that fit our groups were tried, \
         where classes are few. *Bound*: the entropy of combinations (Eq. 13), \
         with fingerprints of any length.\n\n\
         Over all rows of the tables, ours has fewer false positives, and the other as many times as many:\n\n\
         * than integer LIDs: {}.\n\
         * than numbered combinations: {}.\n\
         * than uniform fingerprints, frequent combinations: {}.\n\
         * than malleable fingerprints without aligned codes: {}.\n\
         * than Algorithm 1: {}.\n\
         * than the same search over single combinations, which shows what groups cost: {}.\n\
         * than the fewest of all lengths that fit: {}.\n\
         * than its code as the engine makes it: {}.\n\
         * than the bound: {}.\n\
         * than Bloom filters, uniform: {}.\n\
         * than Bloom filters, optimal: {}.\n\n\
         With Huffman's codewords beside our fingerprints, up to {:.3} of the buckets overflow; malleable fingerprints that Eq. 14 allows \
         overflow in at most {:.1e}.\n",
        tamarack_filter::chucky::FINGERPRINT_BITS_MIN,
        counted(own(|row| row.rates.integer.clone()), less, times),
        counted(own(|row| row.rates.numbered.clone()), less, times),
        counted(own(|row| row.rates.uniform_frequent.clone()), less, times),
        counted(own(|row| row.rates.malleable.clone()), less, times),
        counted(own(|row| row.rates.algorithm_1.clone()), less, times),
        counted(own(|row| row.rates.ungrouped.clone()), less, times),
        counted(own(|row| row.rates.fewest.clone()), less, times),
        counted(own(|row| row.rates.engine.clone()), less, times),
        counted(own(|row| Ok(row.rates.bound)), less, times),
        counted(own(|row| Ok(row.rates.bloom_uniform)), less, times),
        counted(own(|row| Ok(row.rates.bloom_optimal)), less, times),
        overflow(|row| row.rates.overflowing_own.clone()),
        overflow(|row| row.rates.overflowing.clone()),
    )
    .expect("a string takes text");
    for slots in SLOTS {
        writeln!(text, "### {slots} slots\n").expect("a string takes text");
        let header = [
            "policy",
            "integer",
            "numbered",
            "uniform, frequent",
            "uniform, all",
            "malleable, unaligned (overflow)",
            "overflow with our lengths",
            "Algorithm 1",
            "ours",
            "ours, single combinations",
            "fewest",
            "as the engine makes it",
            "bound",
            "Bloom, uniform",
            "Bloom, optimal",
        ];
        let row = |row: &Row| {
            let rates = &row.rates;
            let malleable = match (&rates.malleable, &rates.overflowing) {
                (Ok(rate), Ok(overflow)) => format!("{} ({overflow:.0e})", digits(*rate)),
                (Err(why), _) | (_, Err(why)) => why.clone(),
            };
            vec![
                name(row),
                cell(&rates.integer, digits),
                cell(&rates.numbered, digits),
                cell(&rates.uniform_frequent, digits),
                cell(&rates.uniform_all, digits),
                malleable,
                cell(&rates.overflowing_own, digits),
                cell(&rates.algorithm_1, digits),
                cell(&rates.own, digits),
                cell(&rates.ungrouped, digits),
                cell(&rates.fewest, digits),
                cell(&rates.engine, digits),
                digits(rates.bound),
                digits(rates.bloom_uniform),
                digits(rates.bloom_optimal),
            ]
        };
        add_table(text, &header, &of_slots(rows, slots).map(row).collect::<Vec<_>>());
    }
}

/// Three significant digits.
fn digits(rate: f64) -> String {
    let decimals = (2.0 - rate.max(1e-9).log10().floor()).clamp(1.0, 8.0) as usize;
    format!("{rate:.decimals$}")
}

fn of_times(text: &mut String, times: &[time::Row], rounds: usize) {
    text.push_str("## Times of one bucket\n\n");
    writeln!(
        text,
        "Nanoseconds: *encoding / decoding / matching an absent key*, and the memory of all tables. Medians of {rounds} rounds, in which codes take turns, each after a pass that is not timed, over the same 32,768 \
         frequent buckets with our fingerprint lengths. Ours matches fingerprints without decoding LIDs; the others decode first, since codewords say \
         how long each fingerprint is. *Tables*: aligned codewords, a decoding table of all combinations, and a hash table for recoding (Chucky, \
         §4.4). *Huffman tree*: the same codewords, decoded bit by bit; encoding is that of the tables. *Permutations*: Huffman's code with tables, \
         not aligned. *Arithmetic coder*: no tables of combinations.\n\n\
         Over all rows that have both, ours is faster, and the other takes as many times as long:\n"
    )
    .expect("a string takes text");
    for (number, operation) in ["encoding", "decoding", "matching"].iter().enumerate() {
        for (place, code) in CODES.iter().enumerate().skip(1) {
            let pairs = times.iter().filter_map(|row| match (&row.codes[0], &row.codes[place]) {
                (Ok((own, _)), Ok((other, _))) => Some((own[number], other[number])),
                _ => None,
            });
            let verdict = counted(pairs, |own, other| own < other, |own, other| other / own);
            writeln!(text, "* {operation}, than {code}: {verdict}.").expect("a string takes text");
        }
    }
    text.push('\n');
    let header: Vec<&str> = ["policy", "slots"].into_iter().chain(CODES).collect();
    let row = |row: &time::Row| {
        let shown = |(times, bytes): &(time::Times, usize)| {
            format!("{}, {}", times.map(|time| format!("{time:.1}")).join(" / "), kib(*bytes))
        };
        let codes = row.codes.iter().map(|of| of.as_ref().map_or_else(String::clone, shown));
        [format!("`{}`", row.policy), row.slots.to_string()].into_iter().chain(codes).collect()
    };
    add_table(text, &header, &times.iter().map(row).collect::<Vec<_>>());
}

fn kib(bytes: usize) -> String {
    match bytes as f64 / 1024.0 {
        kib if kib < 10.0 => format!("{kib:.1} KiB"),
        kib if kib < 1024.0 => format!("{kib:.0} KiB"),
        kib => format!("{:.1} MiB", kib / 1024.0),
    }
}

fn of_figure(text: &mut String, figure: &Figure, stem: &str) {
    let plot = &figure.plot;
    writeln!(text, "### {}\n\n{}\n\n![{}]({stem}-{}.svg)\n", plot.title, figure.about, plot.title, plot.name)
        .expect("a string takes text");
    for verdict in &figure.verdicts {
        let holds = if verdict.holds { "holds" } else { "**does not hold**" };
        writeln!(text, "* {} It {holds}: {}.", verdict.claim, verdict.because).expect("a string takes text");
    }
    text.push('\n');
    let header: Vec<&str> = figure.header.iter().map(String::as_str).collect();
    add_table(text, &header, &figure.rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verdicts count, and name the range and the median.
    #[test]
    fn verdicts_are_counted() {
        let pairs = [(1.0, 2.0), (2.0, 2.0), (1.0, 30.0)];
        let found = counted(pairs.into_iter(), |one, other| one < other, |one, other| other / one);
        assert_eq!(found, "in 2 of 3; 1.00 to 30, the median 2.00");
        assert_eq!(counted([].into_iter(), |_, _| true, |_, _| 0.0), "nothing to compare");
    }

    /// Columns are as wide as their widest cell.
    #[test]
    fn tables_are_aligned() {
        let mut text = String::new();
        add_table(&mut text, &["a", "bb"], &[vec!["long".to_owned(), "1".to_owned()]]);
        assert_eq!(text, "| a    | bb |\n| ---- | -: |\n| long |  1 |\n\n");
    }
}
