//! The report: the chosen design of each mix beside the best that was measured, a verdict, and all
//! figures.

use common::numbers::median;
use common::words::Words;
use shape::kept::{Kept, digits, holds, off, table};
use tamarack_model::Bytes;
use tamarack_model::device::{DEVICE_FIGURES, Device};

use crate::cells::{Cell, Cells};
use crate::contenders::{Contender, Contenders};
use crate::mixes::Mix;
use crate::plan::{BLOCK_BYTES, KEY_BYTES, Plan, RAW_BYTES, VALUE_BYTES};

/// The chosen design is to take at most this part more time than the best.
const CLOSE: f64 = 0.1;

/// All times are to be within this part of the predicted ones.
const ACCURATE: f64 = 0.25;

/// Two designs count as different if their times differ by this part of the shorter one.
const DIFFERENT: f64 = 0.1;

/// A mix, its chosen design, and all others that were measured under it.
struct Row<'a> {
    mix: &'a Mix,
    contender: &'a Contender,
    predicted: f64,
    chosen: Cell,
    best: &'a Contender,
    best_cell: Cell,
    /// True if the best is of the sweep.
    best_is_fixed: bool,
    /// 1 if no design is faster.
    rank: usize,
    /// Designs measured, with the chosen one.
    designs: usize,
    /// Pairs of designs that differ, and those that are predicted in the order measured.
    pairs: [usize; 2],
    /// Of each design: its measured time over the predicted one.
    off: Vec<f64>,
}

impl<'a> Row<'a> {
    /// `None` if the chosen design or all others were not measured.
    fn of(
        cells: &Cells,
        plan: &Plan,
        contenders: &'a Contenders,
        number: usize,
        mix: &'a Mix,
        device: Device,
    ) -> Option<Self> {
        let contender = &contenders.chosen[number];
        let chosen = cells.cell(contender, mix)?;
        let predict = |contender: &Contender| contender.price(plan, mix, device).seconds_per_op;
        let measured: Vec<(&Contender, Cell, f64)> = contenders
            .all
            .iter()
            .filter_map(|contender| Some((contender, cells.cell(contender, mix)?, predict(contender))))
            .collect();
        let others = measured.iter().filter(|(other, ..)| *other != contender);
        let &(best, ref best_cell, _) = others.min_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds))?;
        let mut pairs = [0, 0];
        for (at, (_, one, predicted_one)) in measured.iter().enumerate() {
            for (_, other, predicted_other) in &measured[at + 1..] {
                let [least, most] = [one.seconds.min(other.seconds), one.seconds.max(other.seconds)];
                if most > least * (1.0 + DIFFERENT) {
                    pairs[0] += 1;
                    pairs[1] += usize::from((one.seconds < other.seconds) == (predicted_one < predicted_other));
                }
            }
        }
        Some(Self {
            mix,
            contender,
            predicted: predict(contender),
            rank: 1 + measured.iter().filter(|(_, cell, _)| cell.seconds < chosen.seconds).count(),
            designs: measured.len(),
            best,
            best_cell: best_cell.clone(),
            best_is_fixed: Contenders::is_in_sweep(plan, best),
            chosen,
            pairs,
            off: measured.iter().map(|(_, cell, predicted)| cell.seconds / predicted).collect(),
        })
    }

    /// The time of the chosen design over that of the best other one.
    fn ratio(&self) -> f64 {
        self.chosen.seconds / self.best_cell.seconds
    }

    fn holds(&self) -> bool {
        self.ratio() <= 1.0 + CLOSE
    }

    fn cells(&self) -> Vec<String> {
        let best = if self.best_is_fixed { self.best.name() } else { format!("{} *", self.best.name()) };
        vec![
            self.mix.name.clone(),
            self.contender.name(),
            micros(self.predicted),
            micros(self.chosen.seconds),
            off(self.chosen.seconds, self.predicted),
            best,
            micros(self.best_cell.seconds),
            digits(self.ratio(), 2),
            format!("{} of {}", self.rank, self.designs),
            if self.holds() { "holds" } else { "does not hold" }.to_owned(),
        ]
    }
}

const COLUMNS: [&str; 10] = [
    "mix ",
    "chosen design ",
    "predicted, µs",
    "measured, µs",
    "off by",
    "best other ",
    "measured, µs",
    "chosen/best",
    "rank",
    "within 10 % ",
];

/// Four significant digits.
fn micros(seconds: f64) -> String {
    let micros = 1e6 * seconds;
    let before_point = if micros > 0.0 { micros.log10().floor().max(0.0) as usize + 1 } else { 1 };
    digits(micros, 4_usize.saturating_sub(before_point))
}

/// The report in Markdown.
pub fn markdown(
    words: &Words,
    cells: &Cells,
    plan: &Plan,
    contenders: &Contenders,
    mixes: &[Mix],
    device: Device,
) -> String {
    let rows: Vec<Row<'_>> = mixes
        .iter()
        .enumerate()
        .filter_map(|(number, mix)| Row::of(cells, plan, contenders, number, mix, device))
        .collect();
    let mut text = introduction(words, cells, plan, mixes);
    text += "\n## Chosen and best\n\n";
    text += &table(&COLUMNS, &rows.iter().map(Row::cells).collect::<Vec<_>>());
    text += "\nA star marks a design that the search has chosen for another mix; all others are of the sweep.\n\n";
    text += &verdicts(&rows, mixes);
    text += &parts(&rows);
    text += &all_figures(cells, contenders, mixes);
    text += &model_inputs(cells, plan, contenders, mixes, device);
    text
}

fn introduction(words: &Words, cells: &Cells, plan: &Plan, mixes: &[Mix]) -> String {
    let kept: &Kept = &cells.kept;
    let commands = "`cargo run --release -p designs --bin chosen -- --dir DIR --results FILE`, then the same with `--from FILE --write`";
    let mixes: String = mixes.iter().map(|mix| format!("* `{}`: {}.\n", mix.name, mix.words())).collect();
    format!(
        "# The chosen design beside others, {}\n\n{}\n\
         For each mix of operations, the union search (`tamarack_model::navigator::union::find`) chooses a design before anything is measured. Then the time of an operation is measured, with the chosen design \
         and with the others.\n\n\
         **Data.** {} entries of {KEY_BYTES} + {VALUE_BYTES} bytes ({:.0} MiB raw), loaded in random order, {} MiB of memory for each database. Reads are direct where the file system has that, without compression, in blocks of {BLOCK_BYTES} bytes; \
         the block cache has what the other parts leave of the memory. One thread for operations, one for flushes and compactions.\n\n\
         **Time of an operation.** One thread, which waits for all flushes and compactions that it causes, after each memtable. Each cell begins on a fresh copy of the loaded tree at rest. \
         It has updates enough to turn the level before the last over twice (at least 8 memtables, at most twice all entries). The mix is timed in {} parts, {} ms in all, at random places of these two turnovers, the same for all designs; \
         between these, the tree gets updates alone. A mix with few updates would take hours otherwise. The time of flushes and compactions is divided by all updates, and counts by the mix's share of updates. \
         Where updates have replaced blocks, lookups that are not timed fill the cache again before a timed part. Level 1 is not compacted for reads alone, as a database at rest for a second does.\n\n\
         **Designs.** The sweep has 16 policies, each with the filters and memtables of a new database (`blocked:bits=10,allocation=monkey`, an eighth of the memory). Designs chosen for other mixes compete too, with their own filters and memtables, \
         if they are predicted to take at most 1.5 times as long as the chosen one. All are measured once; the chosen one and those within 20 % of the best, several times, in turns; figures are medians.\n\n\
         **Mixes.** MOOSE's A to J (Table 4; scans return 10 entries), Monkey's Fig. 13 E (zero-result lookups and updates) and F (short scans of 0.001 % of the data and updates), and lookups of existing keys with updates. Keys are drawn alike.\n\n{mixes}",
        kept.date(),
        kept.circumstances(words, commands),
        plan.entries,
        (plan.entries * RAW_BYTES) as f64 / (1 << 20) as f64,
        plan.memory_bytes >> 20,
        plan.phases,
        plan.cell_ms,
    )
}

fn verdicts(rows: &[Row<'_>], mixes: &[Mix]) -> String {
    let within = rows.iter().filter(|row| row.holds()).count();
    let first = rows.iter().filter(|row| row.rank == 1).count();
    let worst = rows.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let worst = worst
        .map_or_else(String::new, |row| format!("; the worst is {:.2} times the best, {}", row.ratio(), row.mix.name));
    let [pairs, right] = [0, 1].map(|at| rows.iter().map(|row| row.pairs[at]).sum::<usize>());
    let mut text = holds(
        within == mixes.len(),
        &format!(
            "the chosen design is within 10 % of the best of all that were measured, under every mix: under {within} of {}{worst}",
            mixes.len()
        ),
    );
    text += &format!("* The chosen design is the fastest under {first} of {} mixes.\n", mixes.len());
    text += &format!(
        "* Of {pairs} pairs of designs whose times differ by more than 10 % under a mix, {right} are predicted in the order measured ({:.0} %).\n",
        100.0 * right as f64 / pairs.max(1) as f64
    );
    text += &accuracy(rows);
    text
}

/// How far all times are from the predictions, into which nothing that was measured goes but the
/// figures of the machine.
fn accuracy(rows: &[Row<'_>]) -> String {
    let off = |row: &Row<'_>| row.off.iter().map(|ratio| (ratio - 1.0).abs()).collect::<Vec<_>>();
    let all: Vec<f64> = rows.iter().flat_map(off).collect();
    if all.is_empty() {
        return String::new();
    }
    let within = all.iter().filter(|off| **off <= ACCURATE).count();
    let mut text = holds(
        within == all.len(),
        &format!(
            "the times of all designs under all mixes are within {:.0} % of the prediction: {within} of {}, {:.1} % off at the median",
            100.0 * ACCURATE,
            all.len(),
            100.0 * median(all.iter().copied()),
        ),
    );
    let of_mix = |row: &Row<'_>| {
        let within = off(row).into_iter().filter(|off| *off <= ACCURATE).count();
        vec![
            row.mix.name.clone(),
            row.off.len().to_string(),
            digits(median(row.off.iter().copied()), 2),
            digits(row.off.iter().copied().fold(f64::INFINITY, f64::min), 2),
            digits(row.off.iter().copied().fold(0.0, f64::max), 2),
            within.to_string(),
        ]
    };
    text += "\nMeasured time over predicted time:\n\n";
    let within = format!("within {:.0} %", 100.0 * ACCURATE);
    let columns = ["mix ", "designs", "median", "least", "most", &within];
    text += &table(&columns, &rows.iter().map(of_mix).collect::<Vec<_>>());
    text
}

/// What the times of the chosen and the best consist of.
fn parts(rows: &[Row<'_>]) -> String {
    let cells = |name: String, design: String, cell: &Cell| {
        let [least, most] = cell.range;
        vec![
            name,
            design,
            micros(cell.parts.operating),
            micros(cell.parts.settling),
            digits(cell.parts.blocks, 3),
            digits(cell.parts.write_amplification, 2),
            micros(least),
            micros(most),
            cell.rounds.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = rows
        .iter()
        .flat_map(|row| {
            [
                cells(row.mix.name.clone(), format!("{} (chosen)", row.contender.name()), &row.chosen),
                cells(row.mix.name.clone(), row.best.name(), &row.best_cell),
            ]
        })
        .collect();
    let columns = [
        "mix ",
        "design ",
        "operating, µs",
        "flushes and compactions of an update, µs",
        "blocks read",
        "write amplification",
        "least, µs",
        "most, µs",
        "rounds",
    ];
    format!(
        "\n## Parts of the chosen and the best\n\nOf an operation; medians. Least and most are whole times of the rounds.\n\n{}",
        table(&columns, &rows)
    )
}

/// All medians.
fn all_figures(cells: &Cells, contenders: &Contenders, mixes: &[Mix]) -> String {
    let names = mixes.iter().map(|mix| mix.name.as_str());
    let columns: Vec<&str> = std::iter::once("design ").chain(names).collect();
    let rows: Vec<Vec<String>> = contenders
        .all
        .iter()
        .map(|contender| {
            let cell = |(mix, chosen): (&Mix, &Contender)| {
                let seconds = cells.cell(contender, mix).map_or(f64::NAN, |cell| cell.seconds);
                let mark = if chosen == contender && seconds.is_finite() { "**" } else { "" };
                format!("{mark}{}{mark}", micros(seconds))
            };
            std::iter::once(contender.name()).chain(mixes.iter().zip(&contenders.chosen).map(cell)).collect()
        })
        .collect();
    format!(
        "\n## All designs\n\nµs for an operation; the chosen design of each mix is bold. Empty cells were not measured.\n\n{}",
        table(&columns, &rows)
    )
}

/// What went into the model.
fn model_inputs(cells: &Cells, plan: &Plan, contenders: &Contenders, mixes: &[Mix], device: Device) -> String {
    let figures: Vec<Vec<String>> = DEVICE_FIGURES
        .iter()
        .map(|figure| vec![figure.what.to_owned(), figure.show(&device), figure.unit.name().to_owned()])
        .collect();
    format!(
        "\n## What went into the model\n\n\
         The number of entries and their size, the block size, the shares of the mix, the entries of a scan, keys drawn alike, {} MiB of memory (a sixteenth of all is the engine's for compactions), \
         memory kept for three memtables, memtables of at most an eighth of all memory, and these figures of the machine, from {}. Nothing else: no figure of a tree that was measured.\n\n{}\n\
         What was predicted and chosen:\n\n{}",
        (plan.memory_bytes - plan.memory_bytes / 16) as f64 / (1 << 20) as f64,
        cells.source(),
        table(&["figure ", "value", "unit "], &figures),
        chosen(plan, contenders, mixes, device)
    )
}

/// A table of what is chosen for each mix, and its predicted costs.
pub fn chosen(plan: &Plan, contenders: &Contenders, mixes: &[Mix], device: Device) -> String {
    let row = |(mix, contender): (&Mix, &Contender)| {
        let priced = contender.price(plan, mix, device);
        let (prediction, split) = (&priced.prediction, priced.split);
        let seconds = priced.work.seconds(&device);
        let mib = |bytes: f64| digits(bytes / (1 << 20) as f64, 2);
        vec![
            mix.name.clone(),
            contender.policy.clone(),
            contender.filter.clone(),
            Bytes(contender.buffer_bytes).to_string(),
            mib(split.filters),
            mib(split.cache),
            micros(priced.seconds_per_op),
            micros(seconds.zero_result),
            micros(seconds.existing),
            micros(seconds.range),
            micros(seconds.update),
            digits(prediction.runs.mean(), 2),
            digits(prediction.write_amplification, 2),
        ]
    };
    let rows: Vec<Vec<String>> = mixes.iter().zip(&contenders.chosen).map(row).collect();
    let columns = [
        "mix ",
        "policy ",
        "filter ",
        "memtable",
        "filters, MiB",
        "cache, MiB",
        "an operation, µs",
        "zero-result lookup",
        "existing lookup",
        "scan",
        "update",
        "runs",
        "write amplification",
    ];
    table(&columns, &rows)
}
