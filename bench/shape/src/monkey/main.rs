//! The gain of filter allocation on the engine beside the models: Monkey's experiments (*Optimal
//! Bloom Filters and Adaptive Merging for LSM-Trees*, §6), with blocks counted.
//!
//! | part | what is shown |
//! |---|---|
//! | `growth` | its default tree of 1 KB entries, past the page cache, from 3 buffers to 1,023 |
//! | `memory` | how many bits per entry equal what equal filters do with 10 |
//! | `mixes` | lookups of which some find something, with bits shared out for these |
//!
//! Block counts do not depend on how busy the machine is. Times do; the report says how busy it
//! was.
//!
//! `cargo run --release -p shape --bin monkey -- --help`

mod growth;
mod memory;
mod mixes;
mod section;
mod tree;

use std::fs;

use common::machine;
use common::words::Words;
use section::Section;
use tamarack::Result;

const HELP: &str = "\
usage: monkey [--dir DIR] [--parts LIST] [--powers N] [--lookups N] [--json] [--report FILE] [--no-report]

  --dir DIR        where databases are made and removed again: 4 GB        [the system's temporary directory]
  --parts LIST     growth, memory, mixes                                                                [all]
  --powers N       the part growth ends with 2^N - 1 buffers; at least 3                                 [10]
  --lookups N      lookups for each figure of the part growth; ten times as many of the others        [20000]
  --json           a line of JSON for each figure instead of tables
  --report FILE    where the report goes                                            [bench/results/DATE-...]
  --no-report      write none";

fn main() -> Result<()> {
    let words = Words::read(HELP);
    let (parts, lookups) = (words.list("parts"), words.positive("lookups", 20_000));
    let mut sections: Vec<Section> = Vec::new();
    if parts.wants("growth") {
        let powers = words.positive("powers", 10).max(3) as u32;
        sections.push(growth::measure(words.scratch().path(), powers, lookups)?);
    }
    if parts.wants("memory") {
        sections.push(memory::measure(10 * lookups)?);
    }
    if parts.wants("mixes") {
        sections.push(mixes::measure(10 * lookups)?);
    }
    for section in &sections {
        if words.flag("json") {
            section.json().iter().for_each(|line| println!("{line}"))
        } else {
            println!("{section}")
        }
    }
    if !words.flag("no-report") && !words.flag("json") {
        let path = words.report("allocation-");
        fs::write(&path, report(&words, &sections)).expect("the report is written");
        println!("{}", path.display());
    }
    Ok(())
}

fn report(words: &Words, sections: &[Section]) -> String {
    let mut text = format!(
        "# Filter allocation among runs, {}\n\n* Machine: {}; databases on {}. Runnable threads in the end, averaged over a minute: {:.1}.\n* Commit: {}\n* Command: `{}`\n* \
         Blocks are counted; what is called time is of this machine as busy as it was.\n",
        machine::date(),
        machine::description(),
        machine::file_system(&words.dir()),
        machine::load(),
        machine::commit(),
        words.command("monkey").replace("--bin", "-p shape --bin"),
    );
    sections.iter().for_each(|section| text += &format!("\n{section}"));
    text
}
