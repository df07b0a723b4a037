//! `defaults`: engines with their default options and so much memory; see [`sidebyside::defaults`].

use std::io;
use std::process::ExitCode;

use common::words::Words;
use sidebyside::defaults::{Plan, Results, measure, report, serve};
use sidebyside::{outcome, process};

const HELP: &str = "\
usage: defaults [OPTIONS]

  --dir DIR         where the databases are made and removed again; it should be on the disk to be
                    measured, not in memory, with 5 GB free              [the system's temporary directory]
  --quick           a tenth of the entries, shorter times: two minutes
  --engines LIST    some of 'tamarack by default','rocksdb by default','rocksdb untouched',
                    'fjall by default','redb by default'                                                 [all]
  --memory-mib N    memory that each engine is given; its process may take a quarter more and what the
                    next option says, the page cache of its files included, by a control group: needs root [256]
  --besides-mib N   what a process may take beyond that                                                  [64]
  --entries N       entries of 24 bytes and their value                                              [1000000]
  --value-bytes N   bytes of a value                                                                    [1000]
  --warm-s N        seconds before each workload is measured                                              [10]
  --seconds N       how long it is measured then                                                          [15]
  --rounds N        how often all of it is done                                                            [1]
  --report FILE     write the Markdown report there            [results/DATE-defaults-MACHINE.md]
  --json FILE       write all figures there                                   [the report's name, with .json]
  --from FILE       measure nothing: make the report of these figures, which --json has written";

fn main() -> ExitCode {
    if let Some((engine, words)) = process::as_worker() {
        let plan = Plan::new(&Words::of(HELP, words.into_iter()));
        return outcome::status("defaults", serve(&engine, &plan).map(|()| true));
    }
    outcome::status("defaults", run(&Words::read(HELP)))
}

/// True if all went well.
fn run(words: &Words) -> io::Result<bool> {
    let show = |results: &Results, _: &std::path::Path, _: &str| Ok(report::markdown(results));
    let results = outcome::report(words, "defaults-", |save| measure(&Plan::new(words), save), show)?;
    Ok(results.circumstances.troubles.is_empty())
}
