//! The report, in Markdown.

use std::fmt::Write as _;
use std::fs;

use common::machine;
use common::words::Words;

use crate::count::NAMES;
use crate::gain::{HASHES, Row, Setting};
use crate::hash::Hash;
use crate::trees::Device;
use crate::{costs, parts};

/// What the model has to keep, of the gain.
const WITHIN: f64 = 0.15;
/// Gains below this share of the time are given in nanoseconds only: they are no larger than what
/// lookups differ by.
const SMALL: f64 = 0.05;

#[derive(Default)]
pub struct Report {
    preface: String,
    hashes: Vec<usize>,
    in_memory: String,
    on_devices: String,
    parts: String,
    counts: String,
    trees: usize,
    keys_of_parts: Vec<usize>,
    /// Errors of Eq. 8 on rows whose gain is not small, alone, with the rest of the lookup, and
    /// with overlapping: as a share of the gain, and in percentage points.
    off: [Vec<(f64, f64)>; 3],
    /// Within the bound; not, but within noise; neither.
    verdicts: [usize; 3],
    /// Errors on small gains: measured less predicted, in nanoseconds, and in standard errors.
    small: Vec<(f64, f64)>,
    /// The gains of the paper's claim.
    claim: Vec<String>,
}

impl Report {
    pub fn new(words: &Words, rounds: u64) -> Self {
        let load = machine::load();
        let preface = format!(
            "# One digest for all filters, {}\n\n\
             * Machine: {}; direct I/O on {}.\n\
             * **{}**: {load:.1} threads wanted to run when it began.\n\
             * Made by `{}`, of commit {}.\n\
             * Medians of {rounds} rounds in memory, of an eighth as many elsewhere, in which everything takes turns.\n",
            machine::date(),
            machine::description(),
            machine::file_system(&words.dir()),
            if load > 0.5 { "Taken on a loaded machine" } else { "Taken on a quiet machine" },
            words.command("hashing").replace("--bin hashing", "-p hashing --features measure"),
            machine::commit(),
        );
        Self { preface, ..Self::default() }
    }

    /// How many trees it has.
    pub fn trees(&self) -> usize {
        self.trees
    }

    /// The keys whose lookups were measured by parts.
    pub fn keys_of_parts(&self) -> Vec<usize> {
        self.keys_of_parts.clone()
    }

    pub fn add(&mut self, setting: Setting, rows: Vec<Row>, parts: Vec<parts::Row>) {
        self.trees += 1;
        let key_bytes = setting.kind.key_bytes;
        if !self.hashes.contains(&key_bytes) {
            self.hashes.push(key_bytes);
        }
        for row in rows {
            self.judge(&setting, &row);
            let table = if row.device == Device::Memory { &mut self.in_memory } else { &mut self.on_devices };
            let (gains, times) = (row.gains(), row.times);
            let filter = short(&setting.kind.filter);
            let (found, hash) = (row.found, name(row.hash));
            let start = format!("| {key_bytes} | {} | {filter} | {found} | {hash} |", setting.levels);
            let line = if row.device == Device::Memory {
                format!(
                    "{start} {:.0} | {:.0} | {:.0} ± {:.0} | **{}** | {} | {} | {} | {:.0} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} |",
                    row.once,
                    row.by_each,
                    row.saved,
                    row.error,
                    percent(gains.measured),
                    percent(gains.paper),
                    percent(gains.whole),
                    percent(gains.overlapping),
                    row.predicted_by_each(),
                    times.all.hash,
                    times.overlap.negative,
                    times.overlap.positive,
                    times.all.block,
                    times.all.run,
                    times.all.lookup,
                )
            } else {
                format!(
                    "{start} {} | {:.3} | {:.1} | {:.1} | {:.0} ± {:.0} | {:.0} | **{}** | {} | {} | {:.0} |",
                    row.device.name(),
                    row.reads,
                    row.by_each / 1e3,
                    row.predicted_by_each() / 1e3,
                    row.saved,
                    row.error,
                    row.predicted_saving(),
                    percent(gains.measured),
                    percent(gains.paper),
                    percent(gains.overlapping),
                    times.all.block / 1e3,
                )
            };
            *table += &(line + "\n");
        }
        if !parts.is_empty() {
            self.keys_of_parts.push(key_bytes);
        }
        for row in parts {
            let [hash, probe, index, block] = row.parts;
            let entered: f64 = row.entered.iter().sum();
            let _ = writeln!(
                self.parts,
                "| {key_bytes} | {} | {} | {hash:.0} | {probe:.0} | {index:.0} | {block:.0} | {:.0} | {:.0} | {:.0} | {entered:.1} |",
                row.device.name(),
                if row.found == 100 { "found" } else { "absent" },
                row.rest,
                row.parts.iter().sum::<f64>() + row.rest,
                row.whole,
            );
        }
    }

    fn judge(&mut self, setting: &Setting, row: &Row) {
        let gains = row.gains();
        let is_claimed = setting.kind.key_bytes == 1024 && row.found == 0 && row.hash == Hash::Murmur64A;
        if is_claimed && row.device == Device::Memory {
            self.claim.push(format!(
                "{} ({} levels, {})",
                percent(gains.measured),
                setting.levels,
                short(&setting.kind.filter)
            ));
        }
        if gains.measured < SMALL {
            let difference = (row.saved - row.predicted_saving()).abs();
            self.small.push((difference, difference / row.error.max(0.1)));
            return;
        }
        let off = |predicted: f64| (predicted / gains.measured - 1.0).abs();
        for (sum, predicted) in self.off.iter_mut().zip([gains.paper, gains.whole, gains.overlapping]) {
            sum.push((off(predicted), 100.0 * (predicted - gains.measured).abs()));
        }
        let in_noise = (gains.overlapping - gains.measured).abs() * row.by_each <= 2.0 * row.error;
        let verdict = if off(gains.overlapping) <= WITHIN {
            0
        } else if in_noise {
            1
        } else {
            2
        };
        self.verdicts[verdict] += 1;
    }

    pub fn add_count(&mut self, key_bytes: usize, found: u64, counts: Option<[f64; NAMES.len()]>) {
        let Some(counts) = counts else { return };
        let cells: String = counts.iter().map(|count| format!(" {count:.0} |")).collect();
        let kind = if found == 100 { "found" } else { "absent" };
        let _ = writeln!(self.counts, "| {key_bytes} | {kind} |{cells} {:.0} |", counts.iter().sum::<f64>());
    }

    /// Prints it, and writes it to where it belongs.
    pub fn finish(mut self, words: &Words) {
        let _ = writeln!(self.preface, "* {:.1} threads wanted to run when it ended.", machine::load());
        let text = self.text();
        println!("{text}");
        if words.flag("no-report") || words.flag("quick") {
            return;
        }
        let path = words.report("hashing-");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        eprintln!("{}", path.display());
    }

    fn text(&self) -> String {
        let within = |off: &[(f64, f64)]| off.iter().filter(|off| off.0 <= WITHIN).count();
        let furthest = |off: &[(f64, f64)]| format!("{:.1} points", off.iter().map(|off| off.1).fold(0.0, f64::max));
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let [paper, whole, overlapping] = &self.off;
        let [holds, noise, fails] = self.verdicts;
        let mut text = self.preface.clone();
        let _ = write!(text, "{}", include_str!("about.md"));
        let _ = write!(
            text,
            "\n## Summary\n\n\
             Of {} rows with a gain of at least {}, on all devices:\n\n\
             | prediction | within {} of the gain | furthest off |\n|---|---:|---:|\n\
             | Eq. 8 with `T_H`, `T_P`, `T_D` | {} | {} |\n\
             | and `T_N`, `T_R` | {} | {} |\n\
             | and `T_O`, `T_S` | {} | {} |\n\n\
             By the last, {holds} rows are within the bound, {noise} outside of it by less than two standard errors, {fails} outside of it by more.\n\
             Of {} rows with smaller gains, the measured saving differs from the predicted one by {:.0} ns at most and {:.0} ns in the median; {} differ by more than three standard errors.\n\n\
             Empty lookups of 1 KiB keys with MurmurHash64A and all in memory take less time with one hash by {}.\n",
            paper.len(),
            percent(SMALL),
            percent(WITHIN),
            within(paper),
            furthest(paper),
            within(whole),
            furthest(whole),
            within(overlapping),
            furthest(overlapping),
            self.small.len(),
            most(&mut self.small.iter().map(|small| small.0)),
            if self.small.is_empty() { 0.0 } else { common::numbers::median(self.small.iter().map(|small| small.0)) },
            self.small.iter().filter(|small| small.1 > 3.0).count(),
            self.claim.join(", "),
        );
        text += "\n## Hashes\n\nNanoseconds for a key. *In a stream*: keys are independent. *In turn*: each waits for the previous one.\n\n";
        text += "| key bytes | XXH3-64 in a stream | in turn | MurmurHash64A in a stream | in turn |\n|---:|---:|---:|---:|---:|\n";
        let mut lengths = self.hashes.clone();
        lengths.sort_unstable();
        for length in lengths {
            let [own, murmur] = HASHES.map(|hash| costs::hash_times(hash, length));
            let _ = writeln!(
                text,
                "| {length} | {:.1} | {:.1} | {:.1} | {:.1} |",
                own.stream, own.in_turn, murmur.stream, murmur.in_turn
            );
        }
        text += "\n## In memory\n\nNanoseconds for a lookup.\n\n\
             | key bytes | levels | filter | found % | hash | once | by each | saved | gain | Eq. 8 | and `T_N`, `T_R` | and `T_O`, `T_S` | by each, predicted | `T_H` | `T_O` | `T_S` | `T_D` | `T_N` | `T_R` |\n\
             |---:|---:|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        text += &self.in_memory;
        text += "\n## On devices\n\n\
             | key bytes | levels | filter | found % | hash | device | blocks read | by each, µs | predicted | saved, ns | predicted | gain | Eq. 8 | with all terms | `T_D`, µs |\n\
             |---:|---:|---|---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        text += &self.on_devices;
        text += "\n## Time of a lookup by part\n\nNanoseconds for a lookup with one digest, five levels, 10 bits; with direct I/O the cache holds the index. A clock is read between the parts, what that takes is taken off. Each look at it waits for all that was begun before,\n\
             so that parts cannot overlap, as they do in the same lookups without a clock: their sum is more than the whole.\n\n\
             | key bytes | data | key | hashing | probing | index | block | rest | sum | whole, without a clock | parts entered |\n\
             |---:|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        text += &self.parts;
        text += "\nInstructions of a cached lookup, counted by callgrind on a smaller tree of the same form (64 KiB flushed at a time).\n\n\
             | key bytes | key | hashing | probing | index | block | rest | all |\n|---:|---|---:|---:|---:|---:|---:|---:|\n";
        if self.counts.is_empty() {
            text += "\nNot counted: there is no valgrind.\n";
        }
        text + &self.counts
    }
}

fn name(hash: Hash) -> &'static str {
    if hash == Hash::Digest { "XXH3" } else { "Murmur" }
}

/// A filter's specification, shortened: Monkey's allocation is not mentioned, equal bits are.
fn short(filter: &str) -> String {
    let alike = if filter.contains("monkey") { "" } else { ", alike" };
    filter.replace(",allocation=monkey", "").replace("bits=", "") + alike
}

fn percent(share: f64) -> String {
    let digits = if share.abs() < 0.0995 { 1 } else { 0 };
    format!("{:.digits$} %", 100.0 * share)
}
