//! Codes of level IDs (LIDs) in a filter over the whole tree (Chucky, SIGMOD 2021): our code of
//! groups beside those of the paper, in bits, false positives and time; and the paper's figures 5,
//! 6, 8, 9, 11 and 13.
//!
//! ```sh
//! cargo run --release -p filters --bin codes      # a report in results/, a minute or two
//! ```
//!
//! * [`tree`]: full trees of policies, and the distribution of combinations of LIDs in a bucket.
//! * [`huffman`]: Huffman's code over symbols of which many are equally probable.
//! * [`lengths`]: fingerprint lengths: Algorithm 1, and the fewest false positives (Eq. 14 and 15).
//! * [`arithmetic`]: an arithmetic coder of a bucket's LIDs.
//! * [`table`]: a full cuckoo table of a tree's entries, and lookups in it.
//! * [`twins`]: buckets in the paper's codes, with tables and with a Huffman tree.
//! * [`compare`], [`time`], [`figures`]: what is compared; [`plot`], [`report`]: how it is shown.

mod arithmetic;
mod compare;
mod figures;
mod huffman;
mod lengths;
mod plot;
mod report;
mod table;
mod time;
mod tree;
mod twins;

use std::fs;

use common::machine;
use common::words::Words;

use crate::figures::Effort;
use crate::report::Circumstances;
use crate::tree::{POLICIES, SLOTS, Tree};

const HELP: &str = "\
usage: codes [OPTIONS]

  --only LIST    policies whose names have one of these parts                      [all]
  --rounds N     rounds of each time                                                 [7]
  --report FILE  write the Markdown report there, and its plots beside it
                                             [results/DATE-chucky-codes-MACHINE.md]";

fn main() -> std::io::Result<()> {
    let words = Words::read(HELP);
    let (only, rounds) = (words.list("only"), words.positive("rounds", 7) as usize);
    let policies = POLICIES.iter().filter(|(policy, _)| only.wants_part_of(policy));
    let trees: Vec<(&'static str, Tree)> =
        policies.map(|&(policy, memtables)| (policy, Tree::of_policy(policy, memtables))).collect();
    let load = machine::load();
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    for (policy, tree) in &trees {
        for slots in SLOTS {
            eprintln!("{policy}, {slots} slots");
            times.push(time::row(policy, tree, slots, rounds));
            rows.push(compare::row(policy, tree, slots));
        }
    }
    let figures = figures::all(Effort::REPORT);
    let path = words.report("chucky-codes-");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for figure in &figures {
        fs::write(path.with_file_name(format!("{stem}-{}.svg", figure.plot.name)), figure.plot.svg())?;
    }
    let circumstances = Circumstances {
        date: machine::date(),
        machine: machine::description(),
        commit: machine::commit(),
        load,
        rounds,
        command: words.command("codes"),
    };
    let text = report::markdown(&circumstances, &rows, &times, &figures, &stem);
    print!("{text}");
    fs::write(&path, text)?;
    eprintln!("{}", path.display());
    Ok(())
}
