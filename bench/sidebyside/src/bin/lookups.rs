//! `lookups`: gets over trees of more and more runs, with a filter over the whole tree and with
//! Bloom filters of equal memory; see [`sidebyside::lookups`].

use std::io;
use std::path::Path;
use std::process::ExitCode;

use common::words::Words;
use sidebyside::lookups::plan::Plan;
use sidebyside::lookups::{Results, measure, plot, report};
use sidebyside::outcome;

const HELP: &str = "\
usage: lookups [OPTIONS]

  --dir DIR         where the databases are made and removed again; it should be on the disk to be
                    measured, not in memory                              [the system's temporary directory]
  --quick           fewer entries and trees, shorter slices, two rounds: two minutes
  --only LIST       trees whose names have one of these parts; names are leveling/LEVELS, tiering/LEVELS,
                    runs/RUNS, and beside: trees with a ratio of 10, with RocksDB's beside them
  --engines LIST    tamarack, or tamarack,rocksdb                                                     [both]
  --filters LIST    some of bloom,'bloom monkey',blocked,'blocked monkey',elastic beside chucky        [all]
  --entries N       of 16 + 48 bytes                                                             [2,000,000]
  --bits LIST       bits per entry that Chucky is given: its memory is that of the others  [11.7,14.2,17.9]
  --levels LIST     levels of the trees leveling and tiering                                   [3,4,5,6,7,8]
  --runs LIST       runs of the trees runs                                              [5,10,35,60,140,274]
  --rounds N        how often each filter is measured on each tree                                       [3]
  --slice-ms N      how long one slice of one workload takes at most                                   [300]
  --report FILE     write the Markdown report there, after each tree, and its plots beside it
                                                                       [results/DATE-lookups-MACHINE.md]
  --json FILE       write all figures there                            [the report's name, with .json]
  --from FILE       measure nothing: make the report of these figures, which --json has written";

fn main() -> ExitCode {
    outcome::status("lookups", run(&Words::read(HELP)))
}

/// True if all went well.
fn run(words: &Words) -> io::Result<bool> {
    let show = |results: &Results, dir: &Path, stem: &str| {
        let plots = plot::plots(results, stem);
        plots.iter().try_for_each(|plot| plot.write(dir))?;
        Ok(report::markdown(results, &plots))
    };
    let results = outcome::report(words, "lookups-", |save| measure(&Plan::new(words), save), show)?;
    Ok(results.circumstances.troubles.is_empty())
}
