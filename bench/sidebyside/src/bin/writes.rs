//! `writes`: loads, overwrites and updates beside other LSM trees; see [`sidebyside::writes`].

use std::io;
use std::path::Path;
use std::process::ExitCode;

use common::words::Words;
use sidebyside::writes::plan::Plan;
use sidebyside::writes::{Results, measure, plot, report, worker};
use sidebyside::{outcome, process};

const HELP: &str = "\
usage: writes [OPTIONS]

  --dir DIR         where the databases are made and removed again; it should be on the disk to be
                    measured, not in memory                              [the system's temporary directory]
  --quick           less data, smaller memtables, one round: a few minutes
  --only LIST       rows whose names DATABASE/ROW have one of these parts, such as large/load; databases are
                    large and small; rows are load, 'get absent after load', 'first gets after opening',
                    'get absent after opening', 'updates 98 %', 'burst of all memtables',
                    'overwrite 10 x memtables', 'overwrite 3 x data', 'load by 2',
                    'gets beside a load, full speed', 'gets beside a load, half speed'
  --engines LIST    some of tamarack,rocksdb,'rocksdb universal',leveldb,fjall                         [all]
  --policy SPECS    specifications of policies for Tamarack beside its default; a semicolon stands between two
  --rounds N        how often each row is measured on each engine                                        [3]
  --large-mib N     entries of 24 + 1000 bytes                                                        [1024]
  --small-mib N     entries of 16 + 100 bytes                                                          [512]
  --flood N         size of the longest overwrite, in sizes of the data                                  [3]
  --threads LIST    how many threads load; further rows go on with what the first has left             [1,2]
  --overwrite-threads LIST
                    how many threads overwrite                                                           [1]
  --memtable-kib N  size of each of the four memtables                                                [8192]
  --cache-mib N     size of the block cache                                                             [64]
  --filter-bits N   bits per entry of every filter                                                         [10]
  --ratio N         size ratio of the leveled trees of peers, where it can be set (see --policy)  [their default]
  --compression C   none or lz4                                                                       [none]
  --buffered        reads through the page cache for all engines, no direct I/O
  --apart           one engine after the other does all rows of a database: less space is needed
  --report FILE     write the Markdown report there, after each round, and its plots beside it
                                                                       [results/DATE-writes-MACHINE.md]
  --json FILE       write all figures and series there                 [the report's name, with .json]
  --from FILE       measure nothing: make the report of these figures, which --json has written";

fn main() -> ExitCode {
    if let Some((engine, words)) = process::as_worker() {
        return outcome::status(
            "writes",
            worker::serve(&engine, &Plan::new(&Words::of(HELP, words.into_iter()))).map(|()| true),
        );
    }
    outcome::status("writes", run(&Words::read(HELP)))
}

/// True if all went well.
fn run(words: &Words) -> io::Result<bool> {
    let show = |results: &Results, dir: &Path, stem: &str| {
        let plots = plot::plots(results, stem);
        plots.iter().try_for_each(|plot| plot.write(dir))?;
        Ok(report::markdown(results, &plots))
    };
    let results = outcome::report(words, "writes-", |save| measure(&Plan::new(words), save), show)?;
    Ok(results.circumstances.troubles.is_empty())
}
